# SPDX-License-Identifier: GPL-3.0-or-later
"""An independent reader, solver and judge of R1CS files, in plain integers.

Nothing here is shared with the native engine: what the tests accept or reject is decided by the rows of the compiled
file alone.  Wires are numbered as in the file; wire 0 is the constant 1.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path

P = 21888242871839275222246405745257275088548364400416034343698204186575808495617

Linear = tuple[tuple[int, int], ...]  #: (wire, coefficient)
Row = tuple[Linear, Linear, Linear]
Plan = list[tuple[int, int]]  #: (row, the wire that it determines), in order


@lru_cache(maxsize=1 << 16)  # most slopes are coefficients, the same in thousands of rows
def _inverse(value: int) -> int:
    return pow(value, -1, P)


def _value(form: Linear, witness: Sequence[int]) -> int:
    return sum([c * witness[w] for w, c in form])


@dataclass(frozen=True)
class R1cs:
    """Rows A * B = C, and the source names of the wires that survived compilation."""

    wires: int
    outputs: int  #: wires 1 .. outputs; none in main components of this project, some in test circuits
    public: int  #: public inputs, the wires after them
    private: int
    rows: tuple[Row, ...]
    names: tuple[str, ...]  #: first name of every wire, "main." left out; "one" for wire 0
    wire_of: Mapping[str, int]  #: every name of every wire; compilation gives some wires several
    rows_of: tuple[tuple[int, ...], ...]  #: rows in which a wire occurs
    _plans: dict[tuple[frozenset[int], frozenset[int]], Plan] = field(default_factory=dict)

    @property
    def inputs(self) -> range:
        return range(1 + self.outputs, 1 + self.outputs + self.public + self.private)

    def holds(self, index: int, witness: Sequence[int]) -> bool:
        a, b, c = self.rows[index]
        return (_value(a, witness) * _value(b, witness) - _value(c, witness)) % P == 0

    def violations(self, witness: Sequence[int], dropped: Collection[int] = ()) -> list[int]:
        """Rows that a complete witness breaks, those in ``dropped`` left out."""
        return [i for i in range(len(self.rows)) if i not in dropped and not self.holds(i, witness)]

    def named(self, pattern: str) -> set[int]:
        """Wires one of whose names matches a regular expression wholly."""
        want = re.compile(pattern)
        return {w for name, w in self.wire_of.items() if want.fullmatch(name)}

    def row_names(self, index: int) -> set[str]:
        return {self.names[w] for form in self.rows[index] for w, _ in form}

    def factor_rows(self, wires: Iterable[int]) -> set[int]:
        """Rows in which one of the wires stands in a factor: for a quotient f, its defining row f * (...) = ..."""
        return {i for w in wires for i in self.rows_of[w] if any(x == w for side in self.rows[i][:2] for x, _ in side)}

    def plan(self, known: Collection[int], dropped: Collection[int] = ()) -> Plan:
        """In which order rows with a single unknown wire determine wires, from ``known`` on; ``dropped`` is not used.

        A wire that stands in both factors of a row is not determined by it.
        """
        key = (frozenset(known), frozenset(dropped))
        if key in self._plans:
            return self._plans[key]
        done = bytearray(self.wires)
        done[0] = 1
        for w in known:
            done[w] = 1
        unknown: list[set[int]] = [
            set() if i in key[1] else {w for form in row for w, _ in form if not done[w]}
            for i, row in enumerate(self.rows)
        ]
        queue = [i for i, left in enumerate(unknown) if len(left) == 1]
        order: Plan = []
        for i in queue:
            if len(unknown[i]) != 1:
                continue
            (w,) = unknown[i]
            a, b, _ = self.rows[i]
            if any(x == w for x, _ in a) and any(x == w for x, _ in b):
                continue
            order.append((i, w))
            for j in self.rows_of[w]:
                unknown[j].discard(w)
                if len(unknown[j]) == 1:
                    queue.append(j)
        self._plans[key] = order
        return order

    def solve(self, known: Mapping[int, int], dropped: Collection[int] = ()) -> list[int]:
        """The only complete witness over ``known``.

        Wires that nothing determines once rows are dropped are set to 0 as long as there is more than one way to go on.
        A wire whose row has slope 0 at these values (an inverse of 0) is 0; :meth:`violations` then shows that row.
        """
        witness = [0] * self.wires
        witness[0] = 1
        values = {w: x % P for w, x in known.items()}
        while True:
            order = self.plan(values, dropped)
            rest = self.wires - 1 - len(values) - len(order)
            if not rest:
                break
            settled = set(values) | {w for _, w in order}
            values[next(w for w in range(1, self.wires) if w not in settled)] = 0
        for w, x in values.items():
            witness[w] = x
        for i, w in order:
            a, b, c = self.rows[i]
            witness[w] = 0
            a0, b0, c0 = _value(a, witness), _value(b, witness), _value(c, witness)
            a1 = next((k for x, k in a if x == w), 0)
            b1 = next((k for x, k in b if x == w), 0)
            c1 = next((k for x, k in c if x == w), 0)
            slope = (a0 * b1 + a1 * b0 - c1) % P
            if slope:
                rest = c0 - a0 * b0
                witness[w] = rest * _inverse(slope) % P
        return witness


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
                terms.append((u32(at), shared.setdefault(raw, int.from_bytes(raw, "little"))))
                at += 36
            forms.append(tuple(terms))
        rows.append((forms[0], forms[1], forms[2]))

    names = [""] * wires
    names[0] = "one"
    wire_of = {"one": 0}
    for line in sym.read_text().splitlines():
        _, text, _, label = line.split(",")
        wire, name = int(text), label.removeprefix("main.")
        if wire >= 0:
            wire_of[name] = wire
            names[wire] = names[wire] or name
    rows_of: list[list[int]] = [[] for _ in range(wires)]
    for i, row in enumerate(rows):
        for w in {w for form in row for w, _ in form}:
            rows_of[w].append(i)
    return R1cs(wires, outputs, public, private, tuple(rows), tuple(names), wire_of, tuple(tuple(x) for x in rows_of))
