# SPDX-License-Identifier: GPL-3.0-or-later
"""Lists of links, blocks and samples that are not the window's, and keys that bind nobody.  SPEC C, D.8, D.9."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ragseal.kernel import certificate, link_list
from ragseal.kernel.certificate import Block, BlockBatch
from ragseal.kernel.errors import LedgerError
from ragseal.verifier.evidence.evidence import Auditor, newest_links
from ragseal.verifier.steps.blocks import Effort
from tests.attacks.checks import (
    LINKS_OF_THE_WINDOW,
    LINKS_SIGNED,
    without,
)
from tests.attacks.estimate_scene import LINKED, NORTH, accepted, flipped, hide, refused, window
from tests.attacks.world import undecided
from tests.simulator import World
from tests.simulator.estimates import SIZE, Lie
from tests.simulator.keys import block_backend as backend

pytestmark = pytest.mark.slow


# --- windows, blocks, samples ----------------------------------------------------------------------------------------


def test_links_of_another_window() -> None:
    world = window(Lie(body=lambda body: replace(body, manifest=bytes(32))))
    refused(world, "the links are of a different window")
    with without(LINKS_OF_THE_WINDOW):
        accepted(world)


def test_links_not_signed_by_the_provider() -> None:
    world = window()
    honest = world.estimator.signed
    world.estimator.signed = lambda: replace(honest(), signature=bytes(64))  # type: ignore[method-assign]
    refused(world, "signature")
    with without(LINKS_SIGNED):
        accepted(world)


def swapped(batch: BlockBatch) -> BlockBatch:
    return replace(batch, blocks=tuple(reversed(batch.blocks)))


def test_blocks_in_another_order() -> None:
    refused(window(Lie(batch=swapped)), "does not hold")


def test_fewer_blocks_than_asked() -> None:
    world = window(Lie(batch=lambda batch: replace(batch, blocks=batch.blocks[:1])))
    refused(world, "3 blocks were asked for, 1 delivered")


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


def test_second_list_of_links() -> None:
    """The first list hides a link and its proof fails; the honest one afterwards comes too late."""
    memory, world = Memory(), window(Lie(listed=hide, proven=flipped))
    refused(world, "its proof does not hold", auditor=memory.auditor(world))
    world.estimator.lie = Lie()
    verdict = refused(world, "signed a second list of links", auditor=memory.auditor(world))
    assert verdict.failure is not None
    assert {"first", "second", "first_signature", "second_signature"} <= set(verdict.failure.evidence)
    accepted(world, auditor=replace(memory.auditor(world), first_links=newest_links))


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
    scope = certificate.Scope(SIZE, backend().key.digest, world.digest, bytes(32), NORTH, world.manifest.policy)
    c_e = [one.signed.request.c_e for one, _ in world.estimator.records(NORTH)]
    return certificate.make_block(scope, ranks, c_e, link_list.Listing(frozenset(LINKED)))


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


def test_keys_of_the_provider_are_unsafe() -> None:
    world = window()
    auditor = world.auditor()
    mine = replace(auditor.estimates[0], made_by="provider")
    undecided(world, 9, "unsafe: the keys are made by provider", auditor=replace(auditor, estimates=(mine,)))


def test_no_key_no_verdict() -> None:
    world = window()
    undecided(world, 9, "ragseal-verifier keygen", auditor=replace(world.auditor(), estimates=()))


def test_another_key_in_the_auditors_folder_is_no_verdict() -> None:
    """The auditor's own mistake: the file of its key holds another one, and every proof would seem false."""
    world = window()
    configured = world.auditor().estimates[0]
    wrong = replace(configured, digest=bytes(32))
    undecided(world, 9, "holds another key", auditor=replace(world.auditor(), estimates=(wrong,)))


def test_a_provider_that_does_not_deliver_gets_no_verdict() -> None:
    """It signed nothing: it may be away, or somebody else may answer for it."""
    world = window()

    def nothing_there() -> Any:
        raise LedgerError("no estimate here")

    world.estimator.signed = nothing_there  # type: ignore[method-assign]
    undecided(world, 9, "no estimate here")
