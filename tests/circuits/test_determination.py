# SPDX-License-Identifier: GPL-3.0-or-later
"""SPEC B.6.6: whatever a challenge reads is committed, or determined by what is, without a challenge.

Known are the clear inputs but alpha and beta, scores, hints, blinder, and the private seed and salt.  Propagating
through the rows of the compiled circuit that contain neither a challenge nor anything made from one must reach every
wire but the quotients of the look-up fractions, products with beta, and sums of those.  This shows determination; that
values lie in their ranges has tests of its own.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from ragseal.circuits.circuit import sources
from ragseal.kernel import statement
from tests.circuits.drafts import Setting
from tests.circuits.r1cs import R1cs

pytestmark = pytest.mark.slow

#: The wires that a prover assigns: fractions and inverses.
QUOTIENT = r"(.*\.)?f([A-Z0-9]\w*)?(\[\d+\])*"
#: Made from challenges by linear rows and products: sums of fractions, and beta times something known.
DERIVED = (
    r"beta2|(.*\.)?beta[A-Z]\w*(\[\d+\])?"
    r"|(.*\.)?(part\[\d+\]|range)|(.*\.)?\w*[tT]otal\.out|slots\.(coarse|opening)|(coarse|range|noise)Table"
)


def loose(r1cs: R1cs, without: set[int]) -> set[int]:
    """Wires that challenge-free rows leave open when ``without`` is not known, quotients and their like left out."""
    exempt = {w for w in r1cs.named(f"{QUOTIENT}|{DERIVED}") if w not in r1cs.inputs}
    challenge = {r1cs.wire_of["alpha"], r1cs.wire_of["beta"]}
    dropped = {i for w in exempt | challenge for i in r1cs.rows_of[w]}
    known = set(r1cs.inputs) - challenge - without
    reached = {w for _, w in r1cs.plan(known, dropped)}
    return set(range(1, r1cs.wires)) - known - reached - exempt - challenge


def group_wires(r1cs: R1cs, name: str) -> set[int]:
    return {w for w in r1cs.inputs if r1cs.names[w].split("[")[0] == name}


def test_everything_is_determined_without_a_challenge(setting: Setting) -> None:
    assert loose(setting.r1cs, set()) == set()


def test_exempt_wires_follow_from_quotients(setting: Setting) -> None:
    """Given the quotients, sums and products with beta have one value each: no free wire hides behind their names."""
    r1cs = setting.r1cs
    quotients = {w for w in r1cs.named(QUOTIENT) if w not in r1cs.inputs}
    known = set(r1cs.inputs) | quotients
    reached = {w for _, w in r1cs.plan(known, r1cs.factor_rows(quotients))}
    assert known | reached == set(range(1, r1cs.wires))


def test_every_quotient_has_one_defining_row(setting: Setting) -> None:
    """f * (denominator) = numerator, with f nowhere else but in sums: one product row each."""
    r1cs = setting.r1cs
    for w in r1cs.named(QUOTIENT) - set(r1cs.inputs):
        assert len(r1cs.factor_rows([w])) == 1, r1cs.names[w]


@pytest.mark.parametrize("private", ["s_hi", "s_lo"])
def test_a_missing_secret_is_noticed(tiny: Setting, private: str) -> None:
    assert loose(tiny.r1cs, {tiny.r1cs.wire_of[private]})


def test_every_commitment_is_needed(tiny: Setting) -> None:
    """Live: leave any one group out of the commitments, and all its wires are loose."""
    names = ["w", *(g.name for g in statement.Layout(tiny.cls).groups)]
    for name in names:
        wires = group_wires(tiny.r1cs, name)
        assert wires
        assert wires <= loose(tiny.r1cs, wires), f"{name} could be left out of the commitment unnoticed"


def test_only_quotients_are_assigned_in_the_sources() -> None:
    """`<--` stands for fractions and inverses only, and no circom assert pretends to be a constraint."""
    for path in sources():
        text = re.sub(r"//.*", "", Path(path).read_text(encoding="utf-8"))
        for line in text.splitlines():
            assert "assert" not in line, f"{path.name}: {line}"
            assert "-->" not in line, f"{path.name}: {line}"
            if "<--" in line:
                target = line.split("<--")[0].strip().removeprefix("signal ").split("[")[0]
                assert re.fullmatch(QUOTIENT, target), f"{path.name}: {line}"
