# SPDX-License-Identifier: GPL-3.0-or-later
"""Withholding: a provider that no longer answers does not take back what it has signed.

What the auditor holds already (log, receipts, what it saw before) convicts without one more answer.  Else a provider
whose lie stands in its log would just stop to answer, and every audit of it would be NO VERDICT for ever.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import pytest

from ragseal.accounting.rounding import upward
from ragseal.kernel.beacon import BeaconSeal
from ragseal.kernel.commitment import (
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import TransportError
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.verifier.audit import verification
from ragseal.verifier.evidence.evidence import ReceiptFile
from ragseal.verifier.report import document, page, summary
from tests import simulator
from tests.attacks import test_records
from tests.attacks.test_outsiders import ASKED, Between
from tests.simulator import CLOSES, GROUP, NOW, SimulatedEvidence, World, policy, pseudonym, resign
from tests.simulator.parties import LOUD

pytestmark = pytest.mark.slow

Shown = list[ReceiptFile]

WITHHELD = {"manifest": 2, "index_file": 4, "RegistryAsk": 6, "ProofsAsk": 8, "LinksAsk": 9, "BlocksAsk": 9}


class Silent(Between):
    """A provider that does not answer one kind of call."""

    def __init__(self, world: World, call: str) -> None:
        super().__init__(call, self._silence, world)

    @staticmethod
    def _silence(data: bytes) -> bytes:
        raise TransportError("no answer in 60 s")


def audit(evidence: SimulatedEvidence, now: int = NOW, **options: Any) -> verification.Verdict:
    auditor = options.pop("auditor", None) or evidence.world.auditor()
    clock, deadline = options.pop("clock", lambda: 0.0), options.pop("deadline", None)
    around = verification.Environment(GROUP, now, clock, random.Random(7).randbytes, deadline=deadline)
    return verification.audit(evidence, auditor, around, **options)


# --- lies that log and receipts show by themselves -------------------------------------------------------------------


def _receipt(name: str) -> Callable[[], tuple[World, Shown]]:
    def lie() -> tuple[World, Shown]:
        world = World()
        world.commit()
        for account in ("alice", "carol", "bob"):
            world.ask(account)
        world.close()
        return world, test_records.RECEIPT_CHEATS[name][0](world, world.receipts())  # type: ignore[arg-type]

    return lie


def _log(change: Callable[[World], None]) -> Callable[[], tuple[World, Shown]]:
    def lie() -> tuple[World, Shown]:
        world = World.honest()
        change(world)
        return world, []

    return lie


def _ask_too_often(world: World) -> None:
    world.messages.pop()
    world.ask("alice")
    world.close()


def _drop_a_record(world: World) -> None:
    del world.messages[world.at(WindowClose) - 2]


def _count_less(world: World) -> None:
    world.messages[-1] = replace(world.messages[-1], records=6)  # type: ignore[type-var]


def _unseal(world: World) -> None:
    del world.messages[world.at(BeaconSeal)]


def _open_too_early(world: World) -> None:
    at = world.at(WindowOpen)
    world.messages[at - 1 : at + 1] = world.messages[at - 1 : at + 1][::-1]


def _acknowledge_another_receipt() -> tuple[World, Shown]:
    world = simulator.asked(request={"last_receipt": bytes(range(32))})
    return world, world.receipts()


def _advertise() -> tuple[World, Shown]:
    return World.honest(policy_=policy(epsilon_account="1/2")), []


LIES: dict[str, tuple[int, str, Callable[[], tuple[World, Shown]]]] = {
    **{name: (7, message, _receipt(name)) for name, (_, message, _) in test_records.RECEIPT_CHEATS.items()},
    "two_receipts_for_one_request": (7, "acknowledges a receipt different", _acknowledge_another_receipt),
    "beacon_never_sealed": (5, "opened its nonce before a seal|never sealed", _log(_unseal)),
    "opened_before_the_beacon_was_complete": (5, "before the beacon was complete", _log(_open_too_early)),
    "seq_gap": (6, "is missing: a record was dropped", _log(_drop_a_record)),
    "closing_entry_counts_less": (6, "the closing entry counts", _log(_count_less)),
    "account_above_n_max": (6, f"account {pseudonym('alice')!r} exceeds its 3 queries", _log(_ask_too_often)),
    "less_advertised_than_the_noise_gives": (11, "the policy advertises epsilon", _advertise),
}


@pytest.mark.parametrize("call", WITHHELD)
@pytest.mark.parametrize("name", LIES)
def test_what_is_withheld_hides_no_lie_that_is_there_already(name: str, call: str) -> None:
    step, message, lie = LIES[name]
    world, receipts = lie()
    verdict = audit(Silent(world, call), receipts=receipts)
    assert verdict.line().startswith(f"FAIL step={step} "), verdict.line()
    assert verdict.failure is not None
    assert any(part in verdict.failure.message for part in message.split("|")), verdict.line()
    statuses = {one.number: one.status for one in verdict.steps}
    assert statuses[step] == "failed"
    if WITHHELD[call] < step:
        assert statuses[WITHHELD[call]] == "no verdict", "what was withheld still shows"


@pytest.mark.parametrize("call", WITHHELD)
def test_of_an_honest_window_withholding_is_no_verdict(call: str) -> None:
    world = World.honest()
    verdict = audit(Silent(world, call), receipts=world.receipts())
    assert verdict.line().startswith(f"NO VERDICT step={WITHHELD[call]} "), verdict.line()
    assert verdict.budget is None, "an epsilon beside an open step would be read as one that holds"


def test_once_a_step_is_open_nothing_more_is_asked() -> None:
    world = World.honest()
    asked: list[str] = []

    class Counted(SimulatedEvidence):
        def index_file(self, manifest: bytes, tenant: str) -> bytes:
            asked.append("index")
            raise TransportError("away")

        def deliver(self, ask: Any, proof: bytes) -> bytes:
            asked.append(type(ask).__name__)
            return super().deliver(ask, proof)

    assert audit(Counted(world)).verdict == "NO VERDICT"
    assert asked == ["index"]
    asked.clear()
    assert audit(Counted(world), auditor=replace(world.auditor(), keys={})).verdict == "NO VERDICT"
    assert asked == []


@pytest.mark.parametrize("name", LIES)
def test_an_auditor_without_the_key_with_a_wrong_clock_or_out_of_time_still_sees_them(name: str) -> None:
    step, _, lie = LIES[name]
    world, receipts = lie()
    clock = [0.0]

    class Slow(SimulatedEvidence):
        """A provider that plays for time gains nothing either."""

        def index_file(self, manifest: bytes, tenant: str) -> bytes:
            clock[0] += 100
            return super().index_file(manifest, tenant)

    found = [
        audit(SimulatedEvidence(world), auditor=replace(world.auditor(), keys={}), receipts=receipts),
        audit(SimulatedEvidence(world), now=0, receipts=receipts),
        audit(Slow(world), receipts=receipts, clock=lambda: clock[0], deadline=10.0),
    ]
    assert [one.line().startswith(f"FAIL step={step} ") for one in found] == [True] * 3, [one.line() for one in found]


# --- a log that is not shown to its end ------------------------------------------------------------------------------


def _noted(world: World, note: bytes, number: int) -> ReceiptFile:
    """A receipt over another note, as the provider signs it."""
    file = world.receipts()[number]
    body = replace(file.receipt.body, checkpoint=note)
    return replace(file, name=f"noted-{number}", receipt=resign(world, file.receipt, body), answer=None)


def _rewritten() -> World:
    other = World.honest()
    other.messages[2] = other.commit_entry("auditor", bytes(32), other.auditor_key)
    return other


def test_an_old_note_hides_no_fork() -> None:
    """Two receipts over one size, or one that the old note itself contradicts behind one that is newer than it."""
    world, other = World.honest(), _rewritten()
    newer, size = world.receipts()[-1], len(world.messages) - 4
    old = World.honest()
    del old.messages[size:]
    forked = World.honest()
    forked.messages[2] = other.messages[2]
    del forked.messages[size:]
    for receipts in (
        [_noted(world, world.checkpoint(), 0), _noted(world, other.checkpoint(), 1)],
        [newer, _noted(world, forked.checkpoint(), 0)],
    ):
        verdict = audit(SimulatedEvidence(old), receipts=receipts)
        assert verdict.line().startswith("FAIL step=1 "), verdict.line()
        assert verdict.failure is not None
        assert {"older", "newer"} <= set(verdict.failure.evidence)
    assert audit(SimulatedEvidence(old), receipts=[newer]).verdict == "NO VERDICT"


@pytest.mark.parametrize("call", ["checkpoint", "entries"])
def test_a_fork_between_notes_needs_no_entry(call: str) -> None:
    """What is remembered and what a receipt holds contradict each other, whatever the log still shows."""
    world, other = World.honest(), _rewritten()
    world.remember()
    verdict = audit(Silent(world, call), receipts=[_noted(world, other.checkpoint(), 0)])
    assert verdict.line().startswith("FAIL step=1 "), verdict.line()
    assert audit(Silent(world, call), receipts=world.receipts()).verdict == "NO VERDICT"


def test_a_new_note_that_contradicts_the_remembered_one_convicts_without_its_entries() -> None:
    world, other = World.honest(), _rewritten()
    world.remember()
    other.remembered = world.remembered
    assert audit(Silent(other, "entries")).line().startswith("FAIL step=1 ")


def test_an_old_note_hides_no_broken_promise() -> None:
    world, receipts = LIES["receipt_for_another_record"][2]()
    note = world.checkpoint()
    del world.messages[-2:]  # what is served is an old copy, and the auditor knows
    auditor = replace(world.auditor(), remembered=open_checkpoint(note, world.signer.verifier))
    assert audit(SimulatedEvidence(world), auditor=auditor, receipts=receipts).line().startswith("FAIL step=7 ")


@pytest.mark.parametrize("name", ["seq_gap", "account_above_n_max", "receipt_for_another_record"])
def test_a_window_that_is_never_closed_hides_no_lie(name: str) -> None:
    step, _, lie = LIES[name]
    world, receipts = lie()
    world.messages.pop()
    receipts = [one for one in receipts if one.receipt.body.index < len(world.messages)]
    assert audit(SimulatedEvidence(world), receipts=receipts).line().startswith(f"FAIL step={step} ")
    honest = World.honest()
    honest.messages.pop()
    assert audit(SimulatedEvidence(honest), receipts=honest.receipts()).line().startswith("NO VERDICT step=2 ")


def test_records_of_a_window_that_is_never_opened() -> None:
    world = World.honest()
    del world.messages[world.at(WindowOpen)]
    verdict = audit(SimulatedEvidence(world), window="w1")
    assert verdict.line().startswith("FAIL step=2 manifest: the log holds a record of the window"), verdict.line()


# --- an entry that this build does not know --------------------------------------------------------------------------

FOREIGN = b"\x05hello"


@pytest.mark.parametrize("name", LIES)
def test_an_entry_of_an_unknown_kind_hides_no_lie_before_it(name: str) -> None:
    """Attack: one made-up entry behind the lie, and no build ever reads the log to its end."""
    step, message, lie = LIES[name]
    world, receipts = lie()
    world.raw[len(world.messages)] = FOREIGN
    world.messages.append(WindowClose(bytes(32), 0, 0))
    verdict = audit(SimulatedEvidence(world), receipts=receipts)
    assert verdict.line().startswith(f"FAIL step={step} "), verdict.line()
    assert verdict.failure is not None
    assert any(part in verdict.failure.message for part in message.split("|")), verdict.line()
    shown = {one.number: one for one in verdict.steps}[1]
    assert (shown.status, "of a kind that this build does not know" in shown.message) == ("no verdict", True)


class _Newer(list[Message]):
    """Entries of a provider whose build knows one kind more, which it writes at one place."""

    def __init__(self, world: World, place: int) -> None:
        super().__init__()
        self.place = place
        world.raw[place] = FOREIGN

    def append(self, message: Message) -> None:
        if len(self) == self.place:
            super().append(WindowClose(bytes(32), 0, 0))
        super().append(message)

    def __iadd__(self, more: Iterable[Message]) -> _Newer:  # type: ignore[misc, override]
        for message in more:
            self.append(message)
        return self


@pytest.mark.parametrize("name", ["", "w1"])
@pytest.mark.parametrize("place", range(17))
def test_an_entry_of_an_unknown_kind_in_an_honest_log_is_no_lie(place: int, name: str) -> None:
    """The auditor's own build is old: whatever follows that entry it cannot judge."""
    world = World()
    world.messages = _Newer(world, place)
    world.commit()
    world.queries()
    world.close()
    if place == 16:
        list.append(world.messages, WindowClose(bytes(32), 0, 0))
    assert len(world.messages) == 17
    world.remember()
    for receipts in ([], world.receipts()):
        verdict = audit(SimulatedEvidence(world), receipts=receipts, window=name)
        assert verdict.line().startswith(f"NO VERDICT step=1 log: entry {place} is of a kind"), verdict.line()
        assert [one.number for one in verdict.steps if one.status == "failed"] == []
        assert verdict.set_aside == []


# --- what is shown of an audit that is not decided -------------------------------------------------------------------


@pytest.mark.parametrize("call", ["ProofsAsk", "BlocksAsk"])
def test_no_epsilon_is_shown_while_a_step_is_open(call: str) -> None:
    """It stood there as "ok", under a NO VERDICT."""
    world = World.honest()
    passed = audit(SimulatedEvidence(world))
    assert passed.budget is not None
    shown = upward(passed.budget.epsilon)
    assert shown in page.render(document.build(passed))
    assert "epsilon_account" not in passed.steps[10].evidence, "labelled as what is advertised; this one is computed"
    assert "epsilon_of_one_account" in passed.steps[10].evidence
    verdict = audit(Silent(world, call))
    assert verdict.verdict == "NO VERDICT"
    assert [key for step in verdict.steps for key in step.evidence if key.startswith("epsilon")] == []
    assert {one.number: one.status for one in verdict.steps}[11] == "not reached"
    assert shown not in page.render(document.build(verdict))


def test_a_failure_says_how_many_answers_the_log_has_though_the_registry_is_withheld() -> None:
    world, receipts = LIES["receipt_for_another_record"][2]()
    report = document.build(audit(Silent(world, "RegistryAsk"), receipts=receipts))
    assert (report["verdict"], report["records"]) == ("FAIL", 3)
    assert "it did not come to any answers" not in summary.sentences(report)[0]


def test_a_failure_carries_its_own_evidence_only() -> None:
    """An old note, which contradicts nothing, stood in it as the proof of a fork."""
    world = World.honest()
    longer = World.honest()
    longer.enter_manifest("w2")
    auditor = replace(world.auditor(), remembered=open_checkpoint(longer.checkpoint(), world.signer.verifier))
    world.raw[15] = world.messages[15].encode()[:-1]
    verdict = audit(SimulatedEvidence(world), auditor=auditor)
    assert verdict.line().startswith("FAIL step=1 log: entry 15 is not a message"), verdict.line()
    assert verdict.failure is not None
    assert set(verdict.failure.evidence) == {"index", "entry", "error"}
    shown = verdict.steps[0]
    assert {"older", "newer", "index", "entry"} <= set(shown.evidence)
    assert "it is an old copy" in shown.message
    assert "; entry 15 is not a message" in shown.message


# --- what the provider delivered before it fell silent ---------------------------------------------------------------


def test_blocks_of_one_tenant_withheld_hide_nothing_that_the_list_says_of_another() -> None:
    """The signed list joins records of tenant south that are too far apart; north's blocks are asked for first."""
    world = World()
    world.commit(policy_=policy(tau=1))
    for account in ("alice", "carol", "bob", "carol", "carol"):
        world.ask(account)
    world.close()
    assert audit(SimulatedEvidence(world)).verdict == "PASS"
    world.estimator.lie.listed = lambda tenant, links: [*links, (0, 2)] if tenant == "south" else links
    verdict = audit(Silent(world, "BlocksAsk"))
    assert verdict.line().startswith("FAIL step=9 estimate: tenant 'south': a link joins records"), verdict.line()


# --- what only the auditor's own build hides -------------------------------------------------------------------------


def test_an_unknown_class_of_another_window_hides_no_false_epsilon_of_this_one() -> None:
    """An earlier window of the period names a class that this build does not have."""

    def after_another_class(**changes: Any) -> verification.Verdict:
        world = World()
        world.commit("w0", policy_=policy(class_name="unheard-of"))
        world.messages.append(WindowClose(world.digest, 0, CLOSES))
        world.enter_manifest("w1", policy_=policy(opens=CLOSES, closes=CLOSES + 3600, **changes))
        world.enter_beacon()
        world.messages[-1] = replace(world.messages[-1], time=CLOSES + 60)  # type: ignore[type-var]
        world.messages.append(WindowClose(world.digest, 0, CLOSES + 3000))
        return audit(SimulatedEvidence(world), now=NOW + 7200)

    verdict = after_another_class(epsilon_account="1/2")
    assert verdict.line().startswith("FAIL step=11 epsilon: the policy advertises epsilon 1/2"), verdict.line()
    verdict = after_another_class()
    assert verdict.line().startswith("NO VERDICT step=11 epsilon: window 'w0' of the period"), verdict.line()
    boundless = {**LOUD, "n_max": 3000, "epsilon_account": "1000000", "delta": "1/10000000"}
    verdict = after_another_class(**boundless, k_max=200)
    assert verdict.line().startswith("FAIL step=11 epsilon: "), verdict.line()


def test_every_ask_is_withheld_once() -> None:
    assert set(ASKED) < set(WITHHELD)
