# SPDX-License-Identifier: GPL-3.0-or-later
"""SPEC B.6.6: whatever a challenge reads is committed, or determined by what is, without a challenge.

Known are the clear inputs but alpha and beta, scores, hints, blinder, and the private seed and salt.  Propagating
through the rows of the compiled circuit that contain neither a challenge nor anything made from one must reach every
wire but the quotients of the look-up fractions, products with beta, and sums of those.  This shows determination; that
values lie in their ranges has tests of its own.
"""

from __future__ import annotations

import pytest

from ragseal.circuits.circuit import sources
from ragseal.kernel import statement
from tests.circuits.determination import (
    DERIVED,
    QUOTIENT,
    check_quotients,
    check_sources,
    check_what_follows,
    group_wires,
)
from tests.circuits.drafts import Setting
from tests.circuits.r1cs import R1cs

pytestmark = pytest.mark.slow


def loose(r1cs: R1cs, without: set[int]) -> set[int]:
    """Wires that challenge-free rows leave open when ``without`` is not known, quotients and their like left out."""
    exempt = {w for w in r1cs.named(f"{QUOTIENT}|{DERIVED}") if w not in r1cs.inputs}
    challenge = {r1cs.wire_of["alpha"], r1cs.wire_of["beta"]}
    dropped = {i for w in exempt | challenge for i in r1cs.rows_of[w]}
    known = set(r1cs.inputs) - challenge - without
    reached = {w for _, w in r1cs.plan(known, dropped)}
    return set(range(1, r1cs.wires)) - known - reached - exempt - challenge


def test_everything_is_determined_without_a_challenge(setting: Setting) -> None:
    assert loose(setting.r1cs, set()) == set()


def test_exempt_wires_follow_from_quotients(setting: Setting) -> None:
    """Given the quotients, sums and products with beta have one value each: no free wire hides behind their names."""
    check_what_follows(setting.r1cs)


def test_every_quotient_has_one_defining_row(setting: Setting) -> None:
    """f * (denominator) = numerator, with f nowhere else but in sums: one product row each."""
    check_quotients(setting.r1cs)


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
    check_sources(sources())
