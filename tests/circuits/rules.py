# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rule of a compiled circuit rejects a forgery: its rows by name, and what happens without them."""

from __future__ import annotations

from typing import Protocol

from tests.circuits.r1cs import R1cs


class Compiled(Protocol):
    """Whatever has a compiled circuit."""

    @property
    def r1cs(self) -> R1cs:
        """Its rows."""


def fractions(r1cs: R1cs, *patterns: str) -> tuple[set[int], set[int]]:
    """Defining rows of the fractions that match, and all of those wires but one a pattern, which shall be 0."""
    rows: set[int] = set()
    zero: set[int] = set()
    for pattern in patterns:
        wires = sorted(r1cs.named(pattern))
        assert wires, pattern
        rows |= r1cs.factor_rows(wires)
        zero |= set(wires[1:])
    return rows, zero


def boolean_row(r1cs: R1cs, name: str) -> set[int]:
    """The row w * (w - 1) = 0."""
    w = r1cs.wire_of[name]
    rows = [i for i in r1cs.rows_of[w] if all(any(x == w for x, _ in side) for side in r1cs.rows[i][:2])]
    rows = [i for i in rows if {x for form in r1cs.rows[i] for x, _ in form} <= {0, w}]
    assert len(rows) == 1, name
    return set(rows)


def linear_row(r1cs: R1cs, *names: str) -> set[int]:
    """The linear row that contains all the names."""
    rows = set.intersection(*(set(r1cs.rows_of[r1cs.wire_of[name]]) for name in names))
    rows = {i for i in rows if not r1cs.rows[i][0] or not r1cs.rows[i][1]}
    assert len(rows) == 1, names
    return rows


def assert_only_rule(setting: Compiled, inputs: dict[int, int], rows: set[int], zero: set[int] | None = None) -> None:
    """The circuit rejects these inputs, and accepts them once ``rows`` are dropped (wires of ``zero`` are then 0)."""
    r1cs = setting.r1cs
    assert r1cs.violations(r1cs.solve(inputs)), "the circuit accepts the forgery"
    relaxed = r1cs.solve({**inputs, **dict.fromkeys(zero or (), 0)}, rows)
    left = r1cs.violations(relaxed, rows)
    assert not left, f"something else rejects too: {[sorted(r1cs.row_names(i))[:6] for i in left[:3]]}"
