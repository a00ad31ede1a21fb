# SPDX-License-Identifier: GPL-3.0-or-later
"""Which rule of a compiled circuit rejects a forgery: its rows by name, and what happens without them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tests.circuits.r1cs import P, R1cs


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


def no_chunks(r1cs: R1cs, witness: Sequence[int]) -> set[int]:
    """Rows f (alpha - x) = 1 that look x up as a chunk where it is none.

    A wire whose row is dropped makes up for any sum: that the circuit then accepts does not say which row was right.
    None where fractions with weights stand in the same sum: they may take back what is no chunk.
    """
    alpha, counts = r1cs.wire_of["alpha"], r1cs.named(r"rangeCount\[\d+\]")
    found: set[int] = set()
    for i in r1cs.factor_rows(_summed(r1cs, r1cs.wire_of["rangeTable"])):
        a, b, c = r1cs.rows[i]
        weights = {w for w, _ in c}
        if weights == {0}:
            side = dict(a) if any(w == alpha for w, _ in a) else dict(b)
            x = witness[alpha] - sum(k * witness[w] for w, k in side.items()) * pow(side[alpha], -1, P)
            if x % P >= len(counts):
                found.add(i)
        elif not weights <= counts:
            return set()
    return found


def _summed(r1cs: R1cs, wire: int) -> set[int]:
    """The wires of all linear rows that a sum is made in."""
    found, todo = {wire}, [wire]
    while todo:
        for i in r1cs.rows_of[todo.pop()]:
            a, b, c = r1cs.rows[i]
            if not a or not b:
                more = {w for w, _ in c} - found - {0}
                found |= more
                todo += more
    return found


def assert_only_rule(setting: Compiled, inputs: dict[int, int], rows: set[int], zero: set[int] | None = None) -> None:
    """The circuit rejects these inputs, and accepts them once ``rows`` are dropped (wires of ``zero`` are then 0)."""
    r1cs = setting.r1cs
    witness = r1cs.solve(inputs)
    assert r1cs.violations(witness), "the circuit accepts the forgery"
    more = no_chunks(r1cs, witness) - rows
    assert not more, f"a look-up rejects too: {[sorted(r1cs.row_names(i))[:6] for i in list(more)[:3]]}"
    relaxed = r1cs.solve({**inputs, **dict.fromkeys(zero or (), 0)}, rows)
    left = r1cs.violations(relaxed, rows)
    assert not left, f"something else rejects too: {[sorted(r1cs.row_names(i))[:6] for i in left[:3]]}"
