# SPDX-License-Identifier: GPL-3.0-or-later
"""The comparison with rapidsnark's library: what it refuses.  No registry has the library for this platform."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.testing import CliRunner

import ragseal_native as native
from bench.rapidsnark import main
from tests.classes import TINY


@pytest.mark.parametrize(
    ("content", "more", "said"),
    [
        (b"no library", (), "is not rapidsnark's library"),
        (b"", ("--class", "nothing"), "there is no class 'nothing'"),
    ],
)
def test_what_cannot_be_compared(tmp_path: Path, content: bytes, more: tuple[str, ...], said: str) -> None:
    (tmp_path / "library.so").write_bytes(content)
    command = ["--library", str(tmp_path / "library.so"), "--class", TINY.name, "--out", str(tmp_path / "out"), *more]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 1
    assert said in done.output
    assert not (tmp_path / "out").exists()


def test_another_library_is_named(tmp_path: Path) -> None:
    """Our own native module has no ``groth16_prover``."""
    command = ["--library", native.__file__, "--class", TINY.name, "--out", str(tmp_path / "out")]
    done = CliRunner().invoke(main, command)
    assert done.exit_code == 1
    assert "is not rapidsnark's library" in done.output
