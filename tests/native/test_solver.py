# SPDX-License-Identifier: GPL-3.0-or-later
"""Witnesses by propagation, constraint files, and the determination test."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.params import R

native = pytest.importorskip("ragseal_native")

Make = Callable[[], Any]
ONE, A, W0, W1, BLIND, SECRET, PRODUCT, OUT, QUOTIENT = range(9)


def be(value: int) -> bytes:
    return (value % R).to_bytes(32, "big")


def test_solves_products_sums_and_quotients(tmp_path: Path, make: Make, inputs: bytes) -> None:
    circuit = native.R1cs.load(make().write(tmp_path / "c.r1cs"))
    assert (circuit.n_wires, circuit.n_public, circuit.n_private_inputs, circuit.n_constraints) == (9, 4, 1, 4)
    witness = circuit.solve(inputs)
    assert witness.get(PRODUCT) == be(4 * 1000)
    assert witness.get(OUT) == be(4126)
    assert witness.get(QUOTIENT) == be(-7 * pow(53, -1, R))
    assert circuit.check(witness) is None
    for wire, row in ((PRODUCT, 0), (OUT, 1), (QUOTIENT, 2), (W1, 0)):
        changed = native.Witness.from_bytes(witness.bytes())
        changed.set(wire, be(5))
        assert circuit.check(changed) == row
    assert circuit.constraint(1) == ([], [], [(PRODUCT, 1), (SECRET, 3), (OUT, R - 1)])


def test_division_by_zero_is_named(tmp_path: Path, make: Make) -> None:
    circuit = native.R1cs.load(make().write(tmp_path / "c.r1cs"))
    with pytest.raises(native.NativeError, match=f"constraint 2 divides by zero for wire {QUOTIENT}"):
        circuit.solve(b"".join(map(be, (11, 1, 2, 3, -11))))


def test_stuck_wires_are_named(tmp_path: Path, make: Make, inputs: bytes) -> None:
    stuck = make()
    stuck.wires = 10
    stuck.rows.append(({9: 1}, {9: 1}, {W0: 1}))
    with pytest.raises(
        native.NativeError, match="1 wires cannot be solved by propagation, among them 9; constraints left: 4"
    ):
        native.R1cs.load(stuck.write(tmp_path / "c.r1cs")).solve(inputs)


def test_outputs_are_solved_not_given(tmp_path: Path, new_circuit: Any) -> None:
    circuit = new_circuit(wires=3, outputs=1, public=1, private=0, rows=[({2: 1}, {2: 1}, {1: 1})])
    loaded = native.R1cs.load(circuit.write(tmp_path / "c.r1cs"))
    assert loaded.solve(be(9)).get(1) == be(81)
    with pytest.raises(native.NativeError, match="1"):
        loaded.solve(be(9) * 2)


def test_constant_divisors_come_before_values(tmp_path: Path, new_circuit: Any) -> None:
    """Wire 3 has two rows; the one that divides by a value, here zero, must not be asked."""
    circuit = new_circuit(wires=4, public=2, private=0, rows=[({1: 1}, {3: 1}, {2: 0, 1: 1}), ({}, {}, {3: 1, 2: -1})])
    loaded = native.R1cs.load(circuit.write(tmp_path / "c.r1cs"))
    witness = loaded.solve(be(0) + be(8))
    assert witness.get(3) == be(8)
    assert loaded.check(witness) is None


def test_determination(tmp_path: Path, make: Make) -> None:
    circuit = native.R1cs.load(make().write(tmp_path / "c.r1cs"))

    def reach(known: set[int], skip: set[int] = frozenset()) -> set[int]:  # type: ignore[assignment]
        mask = circuit.propagate(
            bytes(w in known for w in range(circuit.n_wires)), bytes(r in skip for r in range(circuit.n_constraints))
        )
        return {w for w, bit in enumerate(mask) if bit}

    assert reach({A, W0, W1}) == {ONE, A, W0, W1, PRODUCT}
    assert reach({A, W0, W1, SECRET}) == {ONE, A, W0, W1, SECRET, PRODUCT, OUT}
    # The divisor of the quotient is a value: not determined.  Nor is a wire of a product with a value.
    assert QUOTIENT not in reach({A, W0, W1, SECRET, BLIND})
    assert reach({A, W0, SECRET, QUOTIENT, PRODUCT}) == {ONE, A, W0, SECRET, QUOTIENT, PRODUCT, OUT}
    assert reach({A, W0, W1}, skip={0}) == {ONE, A, W0, W1}
    assert reach({PRODUCT, OUT}) == {ONE, PRODUCT, OUT, SECRET}
    with pytest.raises(native.NativeError, match="masks"):
        circuit.propagate(b"", b"")


def test_witness_files(tmp_path: Path, make: Make, inputs: bytes) -> None:
    witness = native.R1cs.load(make().write(tmp_path / "c.r1cs")).solve(inputs)
    witness.to_wtns(tmp_path / "w.wtns")
    assert (tmp_path / "w.wtns").stat().st_mode & 0o077 == 0
    again = native.Witness.from_wtns(tmp_path / "w.wtns")
    assert again.bytes() == witness.bytes()
    assert len(again) == 9
    assert again.slice(1, 5) == inputs
    with pytest.raises(native.NativeError, match="wire 9"):
        again.get(9)
    with pytest.raises(native.NativeError, match="beyond"):
        again.slice(5, 2**63)
    with pytest.raises(native.NativeError, match="first wire"):
        again.set(0, be(2))
    with pytest.raises(native.NativeError, match="first wire"):
        native.Witness.from_bytes(be(2))
