# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of links, blocks and samples that are not the window's, and keys that bind nobody.  SPEC C, D.8, D.9."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel import certificate, link_list
from ragseal.kernel.certificate import Block, BlockBatch
from ragseal.kernel.errors import LedgerError
from ragseal.kernel.link_list import LinkList, TenantLinks, records_digest
from ragseal.verifier.evidence.evidence import Auditor, newest_links
from ragseal.verifier.steps.blocks import Effort
from tests.attacks.checks import (
    LINKS_OF_THE_WINDOW,
    LINKS_SIGNED,
    without,
)
from tests.attacks.estimate_scene import LINKED, NORTH, accepted, flipped, hide, refused, window
from tests.attacks.world import undecided
from tests.simulator import World, policy, pseudonym
from tests.simulator.estimates import SIZE, Estimator, Lie, binding
from tests.simulator.keys import block_backend as backend

# --- windows, blocks, samples ----------------------------------------------------------------------------------------


@pytest.mark.slow
def test_links_of_another_window() -> None:
    world = window(Lie(body=lambda body: replace(body, manifest=bytes(32))))
    refused(world, "the links are of a different window")
    with without(LINKS_OF_THE_WINDOW):
        accepted(world)


@pytest.mark.slow
def test_links_not_signed_by_the_provider() -> None:
    world = window()
    honest = world.estimator.signed
    world.estimator.signed = lambda: replace(honest(), signature=bytes(64))  # type: ignore[method-assign]
    refused(world, "signature")
    with without(LINKS_SIGNED):
        accepted(world)


def swapped(batch: BlockBatch) -> BlockBatch:
    return replace(batch, blocks=tuple(reversed(batch.blocks)))


@pytest.mark.slow
def test_blocks_in_another_order() -> None:
    refused(window(Lie(batch=swapped)), "does not hold")


@pytest.mark.slow
def test_fewer_blocks_than_asked() -> None:
    world = window(Lie(batch=lambda batch: replace(batch, blocks=batch.blocks[:1])))
    refused(world, "3 blocks were asked for, 1 delivered")


@pytest.mark.slow
def test_blocks_of_another_list() -> None:
    refused(window(Lie(batch=lambda batch: replace(batch, links_digest=bytes(32)))), "another list of links")


class Memory:
    """An auditor that remembers, as its folder does."""

    def __init__(self) -> None:
        self.lists: dict[bytes, bytes] = {}
        self.names: dict[bytes, bytes] = {}

    def auditor(self, world: World) -> Auditor:
        return replace(
            world.auditor(),
            first_links=lambda manifest, signed: self.lists.setdefault(manifest, signed),
            sample_nonce=lambda seen, name, fresh: self.names.setdefault(name, fresh),
        )


@pytest.mark.slow
def test_second_list_of_links() -> None:
    """The first list hides a link and its proof fails; the honest one afterwards comes too late."""
    memory, world = Memory(), window(Lie(listed=hide, proven=flipped))
    refused(world, "its proof does not hold", auditor=memory.auditor(world))
    world.estimator.lie = Lie()
    verdict = refused(world, "signed a second list of links", auditor=memory.auditor(world))
    assert verdict.failure is not None
    assert {"first", "second", "first_signature", "second_signature"} <= set(verdict.failure.evidence)
    accepted(world, auditor=replace(memory.auditor(world), first_links=newest_links))


@pytest.mark.slow
def test_sample_is_the_auditors() -> None:
    """Blocks follow from the auditor's nonce: asked again they are the same, and others are not taken."""
    effort, memory, world = Effort(full=0, sampled=3), Memory(), window()
    verdict = accepted(world, effort=effort, auditor=memory.auditor(world))
    assert " estimate=sampled window=" in verdict.line()
    first = list(world.estimator.asked)
    world.estimator.asked.clear()
    accepted(world, effort=effort, auditor=memory.auditor(world))
    assert world.estimator.asked == first
    assert len(memory.names) == 1, "one nonce for the list of links"
    other = Memory()
    other.names = {name: bytes(32) for name in memory.names}
    world.estimator.asked.clear()
    accepted(world, effort=effort, auditor=other.auditor(world))
    assert world.estimator.asked != first

    def chosen(block: Block) -> Block:
        return certificate_block(world, (0, 2, 4))

    world.estimator.lie = Lie(proven=chosen)
    refused(world, "does not hold", effort=effort)


def certificate_block(world: World, ranks: tuple[int, ...]) -> Block:
    policy, reach = world.manifest.policy, world.estimator.reach(NORTH)
    scope = certificate.Scope(SIZE, backend().key.digest, world.digest, bytes(32), NORTH, policy, reach)
    c_e = [one.signed.request.c_e for one, _ in world.estimator.records(NORTH)]
    return certificate.make_block(scope, ranks, c_e, link_list.Listing(frozenset(LINKED)))


@pytest.mark.slow
def test_the_list_is_kept_before_a_block_is_asked_for() -> None:
    memory, world = Memory(), window()
    order: list[str] = []
    auditor = memory.auditor(world)
    batch = world.estimator.batch

    def first_links(manifest: bytes, signed: bytes) -> bytes:
        order.append("kept")
        return signed

    def asked(*arguments: Any) -> Any:
        order.append("asked")
        return batch(*arguments)

    world.estimator.batch = asked  # type: ignore[method-assign]
    accepted(world, auditor=replace(auditor, first_links=first_links))
    assert order[0] == "kept"
    assert order.count("kept") == 1
    assert "asked" in order


# --- keys and refusals -----------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_keys_of_the_provider_are_unsafe() -> None:
    world = window()
    auditor = world.auditor()
    mine = replace(auditor.estimates[0], made_by="provider")
    undecided(world, 9, "unsafe: the keys are made by provider", auditor=replace(auditor, estimates=(mine,)))


@pytest.mark.slow
def test_no_key_no_verdict() -> None:
    world = window()
    undecided(world, 9, "ragseal-verifier keygen", auditor=replace(world.auditor(), estimates=()))


@pytest.mark.slow
def test_another_key_in_the_auditors_folder_is_no_verdict() -> None:
    """The auditor's own mistake: the file of its key holds another one, and every proof would seem false."""
    world = window()
    configured = world.auditor().estimates[0]
    wrong = replace(configured, digest=bytes(32))
    undecided(world, 9, "holds another key", auditor=replace(world.auditor(), estimates=(wrong,)))


@pytest.mark.slow
def test_a_provider_that_does_not_deliver_gets_no_verdict() -> None:
    """It signed nothing: it may be away, or somebody else may answer for it."""
    world = window()

    def nothing_there() -> Any:
        raise LedgerError("no estimate here")

    world.estimator.signed = nothing_there  # type: ignore[method-assign]
    undecided(world, 9, "no estimate here")


# A list of links that leaves a tenant out: its coalition is then in no estimate, and every block asked for holds.


#: alice and bob of tenant north ask the same, carol of tenant south asks alone; the policy counts on nobody joining.
SAME, OTHER = [60, 60, 60, 72], [127, 0, 0, 0]
MATCH = "the links must cover every tenant of the manifest, in its order"


def links_cover_window(body: Callable[[LinkList], LinkList] = lambda body: body, k_max: int = 1) -> World:
    world = World()
    estimator: Estimator = binding(world)
    estimator.lie = Lie(body=body)
    world.estimator = estimator
    world.commit(policy_=policy(k_max=k_max, epsilon_account="40"))
    for account, e in (("alice", SAME), ("bob", SAME), ("carol", OTHER)):
        world.ask(account, e=list(e))
    world.close()
    return world


def links_cover_refused(world: World, match: str) -> None:
    verdict = world.audit()
    assert verdict.failure is not None, f"accepted: {verdict.line()}"
    assert verdict.failure.number == 9, verdict.line()
    assert match in verdict.failure.message, verdict.line()


def test_the_coalition_is_there() -> None:
    """Told honestly the window has no verdict for its coalition, and passes where the policy counts on it."""
    verdict = links_cover_window().audit()
    assert verdict.verdict == "NO VERDICT"
    assert verdict.obstacle is not None
    assert verdict.obstacle.number == 9
    assert "2 accounts ask as one, the policy counts on k_max = 1" in verdict.obstacle.message
    assert all(pseudonym(name) in verdict.obstacle.message for name in ("alice", "bob"))
    verdict = links_cover_window(k_max=2).audit()
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
    links_cover_refused(links_cover_window(body), MATCH)


def turned(body: LinkList) -> LinkList:
    return replace(body, tenants=body.tenants[::-1])


def twice(body: LinkList) -> LinkList:
    return replace(body, tenants=(*body.tenants, body.tenants[-1]))


@pytest.mark.parametrize("body", [turned, twice])
def test_another_order(body: Callable[[LinkList], LinkList]) -> None:
    """Two lists of one window that say the same would be two signed bodies: there is one way to write it."""
    links_cover_refused(links_cover_window(body, k_max=2), MATCH)
