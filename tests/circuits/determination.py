# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of every circuit's determination share: which wires are assigned, and what follows from which."""

from __future__ import annotations

import random
import re
from collections.abc import Collection, Iterable, Sequence
from pathlib import Path

from tests.circuits.r1cs import P, R1cs

#: The wires that a prover assigns: fractions and inverses.
QUOTIENT = r"(.*\.)?f([A-Z0-9]\w*)?(\[\d+\])*"
#: Made from challenges by linear rows and products: sums of fractions, and beta times something known.
DERIVED = (
    r"beta2|(.*\.)?beta[A-Z]\w*(\[\d+\])?"
    r"|(.*\.)?(part\[\d+\]|range)|(.*\.)?\w*[tT]otal\.out|slots\.(coarse|opening)|(coarse|range|noise)Table"
)


def group_wires(r1cs: R1cs, name: str) -> set[int]:
    return {w for w in r1cs.inputs if r1cs.names[w].split("[")[0] == name}


def quotients(r1cs: R1cs) -> set[int]:
    """The assigned wires."""
    return r1cs.named(QUOTIENT) - set(r1cs.inputs)


def loose_of_places(r1cs: R1cs, without: set[int], made: str) -> set[int]:
    """Wires that challenge-free rows leave open when ``without`` is not known, quotients and their like left out.

    Of the circuits that open places under scaled bounds.  A row whose product is 0 determines nothing: one factor may
    be 0 already.

    Args:
        made: names of wires made from challenges by linear rows and products.
    """
    exempt = r1cs.named(f"{QUOTIENT}|{made}|scaledBound.*") - set(r1cs.inputs)
    challenge = {r1cs.wire_of["alpha"], r1cs.wire_of["beta"]} | group_wires(r1cs, "scaledBound")
    dropped = {i for w in exempt | challenge for i in r1cs.rows_of[w]}
    dropped |= {i for i, (a, b, c) in enumerate(r1cs.rows) if a and b and not c}
    known = set(r1cs.inputs) - challenge - without
    reached = {w for _, w in r1cs.plan(known, dropped)}
    return set(range(1, r1cs.wires)) - known - reached - exempt - challenge


def check_quotients(r1cs: R1cs) -> None:
    """f * (denominator) = numerator, with f nowhere else but in sums: one product row each."""
    for w in quotients(r1cs):
        assert len(r1cs.factor_rows([w])) == 1, r1cs.names[w]


def check_what_follows(r1cs: R1cs) -> None:
    """Given the quotients, sums and products with beta have one value each: no free wire hides behind their names."""
    assigned = quotients(r1cs)
    known = set(r1cs.inputs) | assigned
    assert known | {w for _, w in r1cs.plan(known, r1cs.factor_rows(assigned))} == set(range(1, r1cs.wires))


def check_sources(sources: Iterable[Path]) -> None:
    """Nothing but quotients is assigned in a circuit's files."""
    for path in sources:
        for line in re.sub(r"//.*", "", path.read_text(encoding="utf-8")).splitlines():
            assert "assert" not in line, f"{path.name}: {line}"
            assert "-->" not in line, f"{path.name}: {line}"
            if "<--" in line:
                target = line.split("<--")[0].strip().removeprefix("signal ").split("[")[0]
                assert re.fullmatch(QUOTIENT, target), f"{path.name}: {line}"


def free_directions(r1cs: R1cs, witness: Sequence[int], dropped: Collection[int] = ()) -> int:
    """In how many directions wires that are not public can move, to first order, without breaking a row.

    That is the kernel of the rows' Jacobian at a witness, over the private inputs and all that follows from them.
    """
    known = set(r1cs.inputs)
    while loose := _not_reached(r1cs, known, dropped):
        known.add(loose)
    free = sorted(known - set(range(1 + r1cs.outputs, 1 + r1cs.outputs + r1cs.public)))
    rows = [gradient(r1cs, witness, known, dropped, seed) for seed in range(len(free) + 2)]
    return len(free) - _rank([[row[w] for w in free] for row in rows])


def gradient(
    r1cs: R1cs, witness: Sequence[int], known: Collection[int], dropped: Collection[int] = (), seed: int = 0
) -> list[int]:
    """By every wire of ``known``: the derivative of a random combination of the rows that determine no other wire."""
    order = r1cs.plan(known, dropped)
    used, rng = {row for row, _ in order} | set(dropped), random.Random(seed)
    sides = [tuple(sum(c * witness[w] for w, c in form) % P for form in row[:2]) for row in r1cs.rows]
    total = [0] * r1cs.wires

    def add(index: int, factor: int) -> None:
        (a, b, c), (left, right) = r1cs.rows[index], sides[index]
        for form, weight in ((a, factor * right % P), (b, factor * left % P), (c, -factor)):
            if weight:
                for w, k in form:
                    total[w] = (total[w] + weight * k) % P

    for index in range(len(r1cs.rows)):
        if index not in used:
            add(index, rng.randrange(1, P))
    for index, wire in reversed(order):
        weight, total[wire] = total[wire], 0
        if weight:
            slope = _slope(r1cs, index, wire, sides[index])
            assert slope, f"at this witness a row does not determine {r1cs.names[wire]}"
            add(index, -weight * pow(slope, -1, P) % P)
            total[wire] = 0
    return total


def _slope(r1cs: R1cs, index: int, wire: int, sides: tuple[int, ...]) -> int:
    """The derivative of a row by one of its wires."""
    weights = sides[1], sides[0], -1
    forms = zip(r1cs.rows[index], weights, strict=True)
    return sum(weight * k for form, weight in forms for w, k in form if w == wire) % P


def _not_reached(r1cs: R1cs, known: Collection[int], dropped: Collection[int]) -> int:
    """The first wire that nothing determines; 0 where there is none."""
    reached = set(known) | {w for _, w in r1cs.plan(known, dropped)}
    return next((w for w in range(1, r1cs.wires) if w not in reached), 0)


def _rank(matrix: list[list[int]]) -> int:
    """Over the field, by elimination."""
    rows, rank = [list(row) for row in matrix], 0
    for column in range(len(matrix[0]) if matrix else 0):
        at = next((r for r in range(rank, len(rows)) if rows[r][column]), None)
        if at is None:
            continue
        rows[rank], rows[at] = rows[at], rows[rank]
        inverse = pow(rows[rank][column], -1, P)
        for r in range(rank + 1, len(rows)):
            factor = rows[r][column] * inverse % P
            rows[r] = [(x - factor * y) % P for x, y in zip(rows[r], rows[rank], strict=True)]
        rank += 1
    return rank
