# SPDX-License-Identifier: GPL-3.0-or-later
"""Compiled circuits that come with the package are those of the sources beside them."""

from __future__ import annotations

import hashlib
import lzma
from pathlib import Path

import pytest

from ragseal.circuits import shipped
from ragseal.circuits.build import build, compiled, header
from ragseal.circuits.circuit import Shape, circuit_of, load_classes, thinning_classes
from ragseal.circuits.independence import check_independent
from ragseal.circuits.r1cs import read_r1cs
from ragseal.circuits.sizes import USUAL
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.estimate_class import CLASSES

KNOWN: dict[str, Shape] = {**load_classes(), **CLASSES, **thinning_classes()}


def test_nobody_compiles_before_a_first_answer() -> None:
    """Of the size that a provider gets by itself, all three circuits come compiled."""
    cls = load_classes()[USUAL]
    assert {USUAL, f"thinning-{cls.N}", "estimate-112"} <= set(shipped.NAMES)


@pytest.mark.parametrize("name", shipped.NAMES)
def test_it_is_of_the_sources_that_are_here(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a compiler on the path; its commitments have one opening each.  If it fails: circuits ship."""
    monkeypatch.setenv("PATH", "")
    r1cs = compiled(KNOWN[name], tmp_path)
    circuit = circuit_of(KNOWN[name])
    assert header(r1cs)[1] == circuit.public
    assert hashlib.sha256(r1cs.read_bytes()).hexdigest() == shipped.shipped(name)["sha256"]
    if name == USUAL:
        check_independent(read_r1cs(r1cs), circuit.kept, circuit.relations)
    assert compiled(KNOWN[name], tmp_path) == r1cs


def test_another_circuit_in_its_place_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shipped, "FOLDER", tmp_path)
    with pytest.raises(ConfigurationError, match="install ragseal anew"):
        shipped.unpacked(USUAL, "00" * 32)
    (tmp_path / f"{USUAL}.r1cs.xz").write_bytes(b"no archive")
    with pytest.raises(ConfigurationError, match="damaged"):
        shipped.unpacked(USUAL, "00" * 32)
    (tmp_path / f"{USUAL}.r1cs.xz").write_bytes(lzma.compress(b"r1cs of a cheat"))
    with pytest.raises(ConfigurationError, match="not the circuit"):
        shipped.unpacked(USUAL, shipped.shipped(USUAL)["sha256"])


@pytest.mark.long
@pytest.mark.parametrize("name", shipped.NAMES)
def test_the_compiler_gives_the_same_bytes(name: str, tmp_path: Path) -> None:
    made = build(KNOWN[name], tmp_path, complete=True).r1cs
    assert hashlib.sha256(made.read_bytes()).hexdigest() == shipped.shipped(name)["sha256"]
