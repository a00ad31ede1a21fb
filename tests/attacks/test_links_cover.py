# SPDX-License-Identifier: GPL-3.0-or-later
"""A list of links that leaves a tenant out: its coalition is then in no estimate, and every block asked for holds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ragseal.kernel.link_list import LinkList, TenantLinks, records_digest
from tests.simulator import World, policy, pseudonym
from tests.simulator.estimates import Estimator, Lie, binding

#: alice and bob of tenant north ask the same, carol of tenant south asks alone; the policy counts on nobody joining.
SAME, OTHER = [60, 60, 60, 72], [127, 0, 0, 0]
MATCH = "the links must cover every tenant of the manifest, in its order"


def window(body: Callable[[LinkList], LinkList] = lambda body: body, k_max: int = 1) -> World:
    world = World()
    estimator: Estimator = binding(world)
    estimator.lie = Lie(body=body)
    world.estimator = estimator
    world.commit(policy_=policy(k_max=k_max, epsilon_account="40"))
    for account, e in (("alice", SAME), ("bob", SAME), ("carol", OTHER)):
        world.ask(account, e=list(e))
    world.close()
    return world


def refused(world: World, match: str) -> None:
    verdict = world.audit()
    assert verdict.failure is not None, f"accepted: {verdict.line()}"
    assert verdict.failure.number == 9, verdict.line()
    assert match in verdict.failure.message, verdict.line()


def test_the_coalition_is_there() -> None:
    """Told honestly the window has no verdict for its coalition, and passes where the policy counts on it."""
    verdict = window().audit()
    assert verdict.verdict == "NO VERDICT"
    assert verdict.obstacle is not None
    assert verdict.obstacle.number == 9
    assert "2 accounts ask as one, the policy counts on k_max = 1" in verdict.obstacle.message
    assert all(pseudonym(name) in verdict.obstacle.message for name in ("alice", "bob"))
    verdict = window(k_max=2).audit()
    assert verdict.verdict == "PASS", verdict.line()
    assert verdict.estimation is not None
    assert verdict.estimation.c == 2


def left_out(body: LinkList) -> LinkList:
    return replace(body, tenants=tuple(one for one in body.tenants if one.tenant != "north"))


def nobody(body: LinkList) -> LinkList:
    return replace(body, tenants=())


def other_twice(body: LinkList) -> LinkList:
    (south,) = left_out(body).tenants
    return replace(body, tenants=(south, south))


def another_name(body: LinkList) -> LinkList:
    """The place is filled by a tenant that the window does not have, and so by no records."""
    empty = TenantLinks("nobody", 0, records_digest([]), True, b"")
    return replace(body, tenants=(empty, *left_out(body).tenants))


@pytest.mark.parametrize("body", [left_out, nobody, other_twice, another_name])
def test_tenant_left_out(body: Callable[[LinkList], LinkList]) -> None:
    refused(window(body), MATCH)


def turned(body: LinkList) -> LinkList:
    return replace(body, tenants=body.tenants[::-1])


def twice(body: LinkList) -> LinkList:
    return replace(body, tenants=(*body.tenants, body.tenants[-1]))


@pytest.mark.parametrize("body", [turned, twice])
def test_another_order(body: Callable[[LinkList], LinkList]) -> None:
    """Two lists of one window that say the same would be two signed bodies: there is one way to write it."""
    refused(window(body, k_max=2), MATCH)
