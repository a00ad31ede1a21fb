# SPDX-License-Identifier: GPL-3.0-or-later
"""A guard that takes more than its policy allows, or less, or that no policy names.  SPEC M.10, B.4.6."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from ragseal.kernel.attestation import Answer, Openings
from ragseal.verifier.evidence.evidence import ReceiptFile
from tests.attacks.checks import WITHHELD_BY_THE_GUARD, without
from tests.attacks.machine import policy
from tests.attacks.world import AttackWorld, accepted, refused
from tests.simulator import resign

pytestmark = pytest.mark.slow


@cache
def guarded() -> AttackWorld:
    """A closed window whose policy names a guard, all answers as it has them."""
    made = AttackWorld()
    made.commit(
        policy_=policy(lo=0, epsilon_account="100", guard="returned", guard_rho="1/20", guard_formula="precise")
    )
    for name in ("alice", "carol", "bob"):
        made.ask(name)
    made.close()
    return made


def shown(world: AttackWorld, openings: Openings, at: int) -> list[ReceiptFile]:
    """All receipts, one of them signed for other openings."""
    files = world.receipts()
    answer = files[at].answer
    assert answer is not None
    receipt = resign(world, answer.receipt, replace(answer.receipt.body, openings_digest=openings.digest()))
    files[at] = replace(files[at], receipt=receipt, answer=Answer(answer.record, openings, receipt))
    return files


def an_answer(world: AttackWorld) -> tuple[int, Openings]:
    """One with two texts to withhold, or more."""
    for at, file in enumerate(world.receipts()):
        if file.answer is not None and sum(bool(slot.texts) for slot in file.answer.openings.slots) >= 1:
            return at, file.answer.openings
    raise AssertionError("no answer of this window has a text besides the withheld one")


def test_an_honest_window_with_a_guard_passes_and_says_so() -> None:
    verdict = accepted(guarded(), receipts=guarded().receipts())
    assert " guard=returned:precise:1/20 " in verdict.line()


def test_a_guard_that_withholds_more_than_it_may() -> None:
    world = guarded()
    at, openings = an_answer(world)
    everything = replace(openings, slots=tuple(replace(slot, texts=()) for slot in openings.slots))
    files = shown(world, everything, at)
    refused(world, 7, "withholds exactly 1 of", receipts=files)
    with without(WITHHELD_BY_THE_GUARD):
        accepted(world, receipts=files)


def test_a_guard_that_withholds_nothing() -> None:
    """Now and then a text withheld, now and then none: that would say when the guard found something."""
    world = guarded()
    at, openings = an_answer(world)
    donor = next(slot.texts for slot in openings.slots if slot.texts)
    missing = next(i for i, slot in enumerate(openings.slots) if slot.flag and not slot.texts)
    slots = list(openings.slots)
    slots[missing] = replace(slots[missing], texts=donor)
    refused(world, 7, "withholds exactly 1 of", receipts=shown(world, replace(openings, slots=tuple(slots)), at))
