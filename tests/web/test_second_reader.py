# SPDX-License-Identifier: GPL-3.0-or-later
"""The second reader itself: it tells a log that contradicts itself from one that does not, and which check of the page
sees a lie: without exactly that check the page lets it pass.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from ragseal.kernel.attestation import Record
from ragseal.verifier.outcome.outcome import Ending, Verdict
from tests.attacks import test_folding
from tests.attacks.world import Cheat, queried
from tests.simulator import World
from tests.web.published import NODE
from tests.web.second_reader import SecondReader
from tests.web.test_attacks_in_node import LIES

pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")


def failed(message: str) -> Verdict:
    verdict = Verdict(origin="log")
    verdict.failure = Ending(6, message, {})
    return verdict


def test_what_the_browsers_checks_let_pass_is_named() -> None:
    reader, lie = SecondReader(), World.honest()
    lie.raw[lie.at(Record)] = lie.messages[lie.at(Record)].encode() + b"\x00"
    reader.note(lie, 6, failed("a lie"), {})
    reader.note(World.honest(), 6, failed("something that is not so"), {})
    reader.note(World.honest(), 6, failed("the registry is another"), {})  # nothing public shows it
    reader.note(World.honest(), 9, failed("links"), {})
    assert len(reader.orders) == 2
    [unseen] = reader.unseen()
    assert unseen.startswith("6: something that is not so | ")
    assert SecondReader().unseen() == []


def made(lie: str) -> Callable[[], World]:
    def make() -> World:
        world = World.honest()
        LIES[lie][0](world)
        return world

    return make


def proof_of_another_request() -> World:
    return queried(Cheat(proven=lambda statement, _: replace(statement, ctx=statement.ctx ^ 1)))


def hints_outside_their_span() -> World:
    return queried(next(iter(test_folding.VARIANTS.values())))


#: The step of the audit that sees it, and what the page says.
LOGGED: dict[str, tuple[Callable[[], World], int, str]] = {
    "an unsigned manifest": (made("an unsigned manifest"), 2, "signature does not hold"),
    "opened before its time": (made("opened before its time"), 2, "opened outside the time"),
    "the auditor not last": (made("the auditor not last"), 5, "not among the beacon's last entries"),
    "another beacon": (made("another beacon"), 5, "not what the nonces give"),
    "a record behind the closing": (made("a record behind the closing"), 6, "in a window that is not its own"),
    "a record before its window": (made("a record before its window"), 6, "is outside the window"),
}
PROVEN: dict[str, tuple[Callable[[], World], int, str]] = {
    "a proof of another request": (proof_of_another_request, 8, "proofs do not hold together"),
    "hints outside their span": (hints_outside_their_span, 8, "an opening of hidden inputs or of an embedding"),
}


@pytest.mark.parametrize(
    "lies", [pytest.param(LOGGED, id="logged"), pytest.param(PROVEN, id="proven", marks=pytest.mark.slow)]
)
def test_a_lie_is_seen_by_one_check_of_the_page(lies: dict[str, tuple[Callable[[], World], int, str]]) -> None:
    """With one check of the page taken away, one lie of all is not seen any more."""
    reader = SecondReader()
    for name, (make, step, _) in lies.items():
        reader.note(make(), step, failed(name), {})
    assert len(reader.orders) == len(lies)
    for name, (_, step, words) in lies.items():
        [unseen] = reader.unseen(words)
        assert unseen.startswith(f"{step}: {name} | ")
        assert "'state': 'bad'" not in unseen
