# SPDX-License-Identifier: GPL-3.0-or-later
"""What an estimate of several tenants says as a whole.  SPEC C.1, C.6."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

from ragseal.kernel.estimate import components, full_count
from ragseal.verifier.report import document, page
from ragseal.verifier.steps.blocks import Caught, Effort
from ragseal.verifier.steps.estimate import FULL, SAMPLED, Estimation, TenantEstimate
from tests.simulator import World

NORTH = components(["alice", "bob", "carol"], [(0, 1), (1, 2)])
WEST = components(["dave", "erin"], [(0, 1)])


def tenant(name: str, found: object, certificate: str = FULL) -> TenantEstimate:
    return TenantEstimate(name, 3, 2, True, 3, found, certificate, 1, Caught.everything(), ())  # type: ignore[arg-type]


def test_members_of_a_tenant_with_a_smaller_coalition_are_not_named() -> None:
    whole = Estimation(8, Fraction(9, 10), 100, (tenant("north", NORTH), tenant("west", WEST)), "auditor")
    assert (whole.c, whole.members) == (3, ("alice", "bob", "carol"))
    assert (WEST.c, WEST.members) == (2, ("dave", "erin"))


def test_one_sampled_tenant_makes_the_estimate_a_sampled_one() -> None:
    both = (tenant("north", NORTH), tenant("west", WEST, SAMPLED))
    assert Estimation(8, Fraction(9, 10), 100, both, "auditor").certificate == SAMPLED
    assert Estimation(8, Fraction(9, 10), 100, both[:1], "auditor").certificate == FULL


def test_a_spanning_list_is_not_said_to_hold_every_link() -> None:
    """Accounts that repeat one question: all pairs are links, and the list has as many as join the records."""
    links = [(0, i) for i in range(1, 30)]
    found = components(["a"] * 30, links)
    spanning = TenantEstimate("north", 30, 29, False, 435, found, FULL, 1, Caught.everything(), ())
    values = Estimation(2, Fraction(9, 10), 30, (spanning,), "auditor").details()
    assert values["rates"]["linked_pairs"] is None
    text = page._estimate(document.plain(values))
    assert "no link between groups is left out of the list" in text
    assert "no link is left out" not in text
    sampled = replace(spanning, certificate=SAMPLED, caught=Caught(Fraction(99, 100), {}, None, 0.01))
    text = page._estimate(document.plain(Estimation(2, Fraction(9, 10), 30, (sampled,), "auditor").details()))
    assert "of all pairs are links between groups that the list does not join" in text

    whole = Estimation(2, Fraction(9, 10), 100, (tenant("north", NORTH),), "auditor").details()
    assert whole["rates"]["linked_pairs"] == 2 / 3
    assert "no link is left out of the list" in page._estimate(document.plain(whole))


def test_as_many_blocks_as_the_effort_allows_are_a_full_certificate() -> None:
    world = World.honest()
    estimation = world.audit().estimation
    assert estimation is not None
    tenants = world.audit(effort=Effort(full=1, sampled=2)).estimation
    assert tenants is not None
    for one in tenants.tenants:
        blocks = full_count(one.records, estimation.tau, world.estimator.key.cls.n)
        assert one.certificate == (FULL if blocks <= 1 else SAMPLED)
    assert {one.certificate for one in tenants.tenants} == {FULL}, "every tenant of this world has one block"
