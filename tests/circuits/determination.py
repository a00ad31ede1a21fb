# SPDX-License-Identifier: GPL-3.0-or-later
"""What the tests of every circuit's determination share: which wires are assigned, and what follows from which."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

from tests.circuits.r1cs import R1cs

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
