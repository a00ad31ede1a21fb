# SPDX-License-Identifier: GPL-3.0-or-later
"""Factors of a row may be exchanged: the same rows hold, and provers pay less."""

from __future__ import annotations

from pathlib import Path

import pytest

from ragseal.circuits.build import _constants, build, compile_main, find_compiler
from ragseal.circuits.circuit import circuit_of
from ragseal.circuits.orientation import orient
from ragseal.circuits.r1cs import ConstraintSystem, read_r1cs
from tests.circuits.scene import CACHE
from tests.classes import TINY
from tests.native.conftest import INPUTS, Circuit, product_circuit

native = pytest.importorskip("ragseal_native")

Rows = list[tuple[bytes, bytes, bytes]]


def rows(system: ConstraintSystem) -> Rows:
    return [(bytes(a), bytes(b), bytes(c)) for a, b, c in system.forms()]


def test_the_rule(tmp_path: Path) -> None:
    circuit = Circuit(6, 2, 1, rows=[
        ({1: 1, 2: 1}, {3: 1}, {4: 1}),  # several and one
        ({3: 1}, {1: 1, 2: 1}, {4: 1}),  # one and several
        ({1: 1}, {2: 1}, {4: 1}),  # one each
        ({1: 1, 2: 1}, {3: 1, 4: 1}, {5: 1}),  # several each
        ({}, {3: 1}, {4: 1}),
        ({1: 1, 2: 1}, {}, {4: 1}),
    ])  # fmt: skip
    path = circuit.write(tmp_path / "c.r1cs")
    before = rows(read_r1cs(path))
    assert orient(path) == 1
    (a, b, c), *rest = before
    assert rows(read_r1cs(path)) == [(b, a, c), *rest]
    assert orient(path) == 0


def test_other_sections_stay(tmp_path: Path) -> None:
    path = product_circuit().write(tmp_path / "c.r1cs")
    before = read_r1cs(path).file.sections
    assert orient(path) == 3
    after = read_r1cs(path).file.sections
    assert list(after) == list(before)
    assert all(after[kind] == before[kind] for kind in before if kind != 2)


@pytest.mark.slow
def test_a_build_has_the_compilers_rows_exchanged_or_not(tmp_path: Path) -> None:
    """All of a class's, in their order; far fewer wires are left in B."""
    cls = TINY
    circuit = circuit_of(cls)
    compile_main(circuit.main, tmp_path, find_compiler(), [*circuit.sources, _constants()], circuit.noun)
    plain, built = read_r1cs(tmp_path / f"{circuit.noun}.r1cs"), read_r1cs(build(cls, CACHE).r1cs)
    exchanged = 0
    for (a, b, c), row in zip(rows(plain), rows(built), strict=True):
        assert row in ((a, b, c), (b, a, c))
        exchanged += row != (a, b, c)
    assert exchanged > plain.rows / 2
    assert orient(tmp_path / f"{circuit.noun}.r1cs") == exchanged

    def in_b(system: ConstraintSystem) -> int:
        return len(set(system.matrices[1][1]["wire"].tolist()))

    assert in_b(built) < 0.75 * in_b(plain)


def test_old_and_new_keys_prove_the_same_statement(tmp_path: Path) -> None:
    """From both files come the same wires, and under each key's proof the same public inputs hold and no others."""
    plain, oriented = product_circuit().write(tmp_path / "p.r1cs"), product_circuit().write(tmp_path / "o.r1cs")
    assert orient(oriented) == 3
    public, found = INPUTS[: 4 * 32], set()
    for r1cs in (plain, oriented):
        native.setup(r1cs, tmp_path / "c.zkey")
        key, witness = native.ProvingKey.load(tmp_path / "c.zkey"), native.R1cs.load(r1cs).solve(INPUTS)
        found.add(witness.bytes())
        proof = key.prove(witness)
        key.verifying_key().verify(proof, public, b"")
        with pytest.raises(native.NativeError, match="does not verify"):
            key.verifying_key().verify(proof, public[:-32] + bytes(32), b"")
    assert len(found) == 1
