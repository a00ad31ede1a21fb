# SPDX-License-Identifier: GPL-3.0-or-later
"""An independent reader, solver and judge of R1CS files, in plain integers.

Nothing here is shared with the native engine: what the tests accept or reject is decided by the rows of the compiled
file alone.  Wires are numbered as in the file; wire 0 is the constant 1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

P = 21888242871839275222246405745257275088548364400416034343698204186575808495617

Linear = tuple[tuple[int, int], ...]  #: (wire, coefficient)
Row = tuple[Linear, Linear, Linear]


def _value(form: Linear, witness: Sequence[int | None]) -> int:
    return sum(c * witness[w] for w, c in form)  # type: ignore[operator]


@dataclass(frozen=True)
class R1cs:
    """Rows A * B = C, and the source names of the wires that survived compilation."""

    wires: int
    public: int  #: public inputs (there are no outputs); wires 1 .. public
    private: int
    rows: tuple[Row, ...]
    names: tuple[str, ...]  #: of every wire, "main." left out; "one" for wire 0
    wire_of: Mapping[str, int]
    rows_of: tuple[tuple[int, ...], ...]  #: rows in which a wire occurs

    @property
    def inputs(self) -> int:
        return self.public + self.private

    def holds(self, index: int, witness: Sequence[int]) -> bool:
        a, b, c = self.rows[index]
        return (_value(a, witness) * _value(b, witness) - _value(c, witness)) % P == 0

    def violations(self, witness: Sequence[int], rows: Iterable[int] | None = None) -> list[int]:
        """Rows that a complete witness breaks, among ``rows`` (default: all)."""
        return [i for i in (range(len(self.rows)) if rows is None else rows) if not self.holds(i, witness)]

    def row_names(self, index: int) -> list[str]:
        return [self.names[w] for form in self.rows[index] for w, _ in form]

    def wires_named(self, pattern: str) -> list[int]:
        """Wires whose whole name matches a regular expression."""
        want = re.compile(pattern)
        return [w for w, name in enumerate(self.names) if want.fullmatch(name)]

    def rows_with(self, pattern: str) -> set[int]:
        """Rows in which some wire matching the pattern occurs."""
        return {i for w in self.wires_named(pattern) for i in self.rows_of[w]}

    def solve(
        self,
        known: Mapping[int, int],
        usable: Callable[[int], bool] | None = None,
        free: Iterable[int] = (),
    ) -> tuple[list[int | None], set[int]]:
        """Propagate: while a row has exactly one unknown wire and determines it, compute it.

        Args:
            known: values of wires; wire 0 is added.
            usable: rows to work with (default all).
            free: wires never to be computed.

        Returns:
            The witness, None where a wire stayed unknown, and the rows that computed a wire.
        """
        witness: list[int | None] = [None] * self.wires
        witness[0] = 1
        for w, x in known.items():
            witness[w] = x % P
        frozen = set(free)
        unknown = [{w for form in row for w, _ in form if witness[w] is None} for row in self.rows]
        queue = [i for i, left in enumerate(unknown) if len(left) == 1]
        used: set[int] = set()
        while queue:
            i = queue.pop()
            if len(unknown[i]) != 1 or (usable is not None and not usable(i)):
                continue
            (w,) = unknown[i]
            if w in frozen:
                continue
            x = self._single(i, w, witness)
            if x is None:
                continue
            witness[w] = x
            used.add(i)
            for j in self.rows_of[w]:
                unknown[j].discard(w)
                if len(unknown[j]) == 1:
                    queue.append(j)
        return witness, used

    def _single(self, index: int, wire: int, witness: Sequence[int | None]) -> int | None:
        """The only value that the row leaves to one unknown wire; None if it leaves several or none."""
        parts = []
        for form in self.rows[index]:
            slope = sum(c for w, c in form if w == wire) % P
            rest = sum(c * witness[w] for w, c in form if w != wire) % P  # type: ignore[operator]
            parts.append((rest, slope))
        (a0, a1), (b0, b1), (c0, c1) = parts
        if a1 and b1:
            return None
        slope = (a0 * b1 + a1 * b0 - c1) % P
        return (c0 - a0 * b0) * pow(slope, P - 2, P) % P if slope else None


def read(r1cs: Path, sym: Path) -> R1cs:
    """Read circom's binary .r1cs (version 1) and its .sym."""
    data = r1cs.read_bytes()
    assert data[:4] == b"r1cs", "not an R1CS file"

    def u32(at: int) -> int:
        return int.from_bytes(data[at : at + 4], "little")

    sections: dict[int, int] = {}
    at = 12
    for _ in range(u32(8)):
        sections[u32(at)] = at + 12
        at += 12 + int.from_bytes(data[at + 4 : at + 12], "little")
    head = sections[1]
    assert u32(head) == 32
    assert int.from_bytes(data[head + 4 : head + 36], "little") == P, "not BN254's scalar field"
    wires, outputs, public, private = (u32(head + 36 + 4 * k) for k in range(4))
    assert outputs == 0
    count = u32(head + 60)
    at = sections[2]
    shared: dict[bytes, int] = {}
    rows: list[Row] = []
    for _ in range(count):
        forms: list[Linear] = []
        for _ in range(3):
            terms = []
            size = u32(at)
            at += 4
            for _ in range(size):
                raw = data[at + 4 : at + 36]
                coefficient = shared.setdefault(raw, int.from_bytes(raw, "little"))
                terms.append((u32(at), coefficient))
                at += 36
            forms.append(tuple(terms))
        rows.append((forms[0], forms[1], forms[2]))

    names = [""] * wires
    names[0] = "one"
    for line in sym.read_text().splitlines():
        _, wire, _, name = line.split(",")
        if int(wire) >= 0 and not names[int(wire)]:  # the outermost of several names of one wire comes first
            names[int(wire)] = name.removeprefix("main.")
    rows_of: list[list[int]] = [[] for _ in range(wires)]
    for i, row in enumerate(rows):
        for w in {w for form in row for w, _ in form}:
            rows_of[w].append(i)
    return R1cs(
        wires, public, private, tuple(rows), tuple(names), {n: w for w, n in enumerate(names)},
        tuple(tuple(x) for x in rows_of),
    )  # fmt: skip
