# SPDX-License-Identifier: GPL-3.0-or-later
"""The checklist on honest evidence, sampling, later windows, and what ends without a verdict."""

from __future__ import annotations

import itertools
import random
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from ragseal.kernel import errors, noise, signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import WindowClose, WindowOpen
from ragseal.kernel.errors import AuditError, TransportError
from ragseal.kernel.inquiry import ASKS, BlocksAsk, Delivery, LinksAsk, ProofsAsk, Refusal, RegistryAsk
from ragseal.ledger.checkpoint import SignedCheckpoint, open_checkpoint
from ragseal.verifier.audit import verification
from ragseal.verifier.evidence.evidence import Refused, Undecided
from ragseal.verifier.outcome import checklist
from ragseal.verifier.outcome.outcome import Verdict
from ragseal.verifier.report import document, page
from ragseal.verifier.steps import receipts as handed_in
from ragseal.verifier.steps.log import LogTree, LogView
from ragseal.verifier.steps.sample import Sample, confidence_of
from tests.attacks.checks import EMBEDDING_CHECKED, without
from tests.classes import TINY
from tests.simulator import (
    CLOSES,
    GROUP,
    NOW,
    OPENS,
    TENANTS,
    SimulatedEvidence,
    World,
    asked,
    key_of,
    policy,
    pseudonym,
)

pytestmark = pytest.mark.slow

# --- honest ----------------------------------------------------------------------------------------------------------


def test_honest_window_passes() -> None:
    world = World.honest()
    world.remember()
    verdict = world.audit(receipts=world.receipts())
    assert verdict.failure is None, verdict.line()
    assert verdict.line().startswith("PASS epsilon_audit=")
    what = f"window=w1@{world.digest.hex()[:8]} log=test.example/log"
    assert verdict.line().endswith(f" left_out=0 mode=full keys=auditor records=7 {what}")
    assert [step.number for step in verdict.steps] == list(range(1, 12))
    assert {step.status for step in verdict.steps} == {"ok"}
    assert [(t.tenant, t.total, t.checked, t.acknowledged) for t in verdict.tallies] == [
        ("north", 5, 5, 5),
        ("south", 2, 2, 2),
    ]
    assert world.asked == [[0, 1, 2, 3, 4, 5, 6]]


def test_without_receipts_the_last_records_are_unacknowledged() -> None:
    verdict = World.honest().audit()
    assert verdict.steps[6].status == "not asked", "no receipt was given, so none is ok"
    assert [(t.tenant, t.acknowledged) for t in verdict.tallies] == [("north", 3), ("south", 1)]


def test_unchecked_records_are_counted_and_qualified() -> None:
    world = World()
    world.commit()
    world.ask("alice", checked=False)
    world.ask("bob")
    world.close()
    verdict = world.audit()
    assert verdict.verdict == "PASS"
    assert verdict.budget is not None
    details = verdict.budget.details()
    assert (details["checked_records"], details["unchecked_records"]) == (1, 1)
    assert details["epsilon_of_unchecked_records_if_their_embeddings_ignore_the_index"] == verdict.budget.epsilon


def test_where_the_policy_demands_it_no_record_is_unchecked() -> None:
    """Its provider refuses such a query (tests/prover/test_admission.py): in the log it is the provider's own act."""
    world = World()
    world.commit(policy_=policy(checked=True))
    world.ask("alice")
    world.ask("bob", checked=False)
    world.close()
    verdict = world.audit()
    assert "FAIL step=6 records: record 1: its account did not check the embedding, which the policy" in verdict.line()
    with without(EMBEDDING_CHECKED):
        assert world.audit().verdict == "PASS"
    world = World()
    world.commit(policy_=policy(checked=True))
    world.ask("alice")
    world.close()
    assert world.audit().verdict == "PASS"


def test_empty_window_passes() -> None:
    world = World()
    world.commit()
    world.close()
    assert " records=0 window=w1@" in world.audit().line()


def test_provider_made_keys_are_unsafe() -> None:
    world = World.honest()
    world.made_by = "provider"
    for options in ({}, {"sample": Sample(2)}):
        verdict = world.audit(**options)
        assert verdict.line().startswith("NO VERDICT step=3 keys: unsafe: the keys are made by provider"), (
            verdict.line()
        )
        assert verdict.tone == "open"
        assert verdict.budget is not None
        undecided = [step.number for step in verdict.steps if step.status not in ("ok", "not asked")]
        assert undecided == [3], "all else was checked, and the step that the verdict names is not said to be well"
        values = document.build(verdict)
        assert values["epsilon_audit"] is None
        assert values["attacker_guess"] is None
        assert values["epsilon"]["epsilon_audit"] == verdict.budget.epsilon, "what it would be is in the report"


def test_ceremony_keys_are_named() -> None:
    world = World.honest()
    world.made_by, world.participants = "ceremony", ("alice (0123456789abcdef)", "<b>bob</b> (fedcba9876543210)")
    verdict = world.audit()
    assert " keys=ceremony " in verdict.line()
    values = document.build(verdict)
    assert values["participants"] == list(world.participants)
    assert values["steps"][2]["evidence"]["participants"] == list(world.participants)
    shown = page.render(values)
    assert "ceremony, alice (0123456789abcdef), &lt;b&gt;bob&lt;/b&gt; (fedcba9876543210)" in shown


def test_sampled_audit() -> None:
    world = World.honest()
    verdict = world.audit(sample=Sample(3))
    assert verdict.line().startswith("SAMPLED-PASS epsilon_audit=")
    assert " mode=sampled keys=auditor records=7 proven=3 beta=" in verdict.line()
    assert " confidence=0.99 window=w1@" in verdict.line()
    assert [len(seqs) for seqs in world.asked] == [3]
    tenants = {("south" if seq in (2, 4) else "north") for seq in world.asked[0]}
    assert tenants == {"north", "south"}, "stratified: every tenant is sampled"


def test_a_sample_that_catches_a_share() -> None:
    """Two bad records of seven are to be caught: six are proven, and the line says what is left at that confidence."""
    world = World.honest()
    verdict = world.audit(sample=Sample(detect=Fraction(2, 7), confidence=confidence_of("1-2^-20")))
    assert [len(seqs) for seqs in world.asked] == [verdict.proven]
    assert verdict.beta is not None
    assert verdict.beta < 2 / 7
    assert f" proven={verdict.proven} beta=" in verdict.line()
    assert " confidence=1-2^-20 window=w1@" in verdict.line()
    assert document.build(verdict)["confidence"] == "1-2^-20"


def test_a_sample_of_everything_is_still_a_sample() -> None:
    verdict = World.honest().audit(sample=Sample(99))
    assert verdict.verdict == "SAMPLED-PASS"
    assert verdict.beta == 0.0


def test_sample_catches_only_what_it_draws() -> None:
    honest = World.honest()
    honest.audit(sample=Sample(2))
    (drawn,) = honest.asked
    for seq in range(7):
        world = World.honest()
        world.tamper_entry = lambda e, bad=seq: replace(e, proof=b"\x01" * 256) if e.seq == bad else e  # type: ignore[misc]
        assert world.audit(sample=Sample(2)).verdict == ("FAIL" if seq in drawn else "SAMPLED-PASS")


def test_second_window_adds_to_the_period() -> None:
    world = World.honest()
    first = world.audit()
    changes = {"opens": CLOSES, "closes": CLOSES + 3600}
    world.enter_manifest("w2", policy_=policy(**changes))
    world.enter_beacon()
    world.messages[-1] = replace(world.messages[-1], time=CLOSES + 60)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, CLOSES + 3000))
    world.seq = 0
    second = world.audit(now=NOW + 7200)
    assert first.budget is not None
    assert second.budget is not None, second.line()
    assert second.window is not None
    assert second.window.manifest.window == "w2"
    assert second.budget.queries == 2 * first.budget.queries
    assert second.budget.epsilon > first.budget.epsilon
    assert second.budget.epsilon_account == first.budget.epsilon_account


def test_a_past_period_is_not_charged() -> None:
    world = World.honest()
    changes = {"opens": CLOSES, "closes": CLOSES + 3600, "period_start": CLOSES}
    world.enter_manifest("w2", policy_=policy(**changes))
    world.enter_beacon()
    world.messages[-1] = replace(world.messages[-1], time=CLOSES + 60)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, CLOSES + 3000))
    second = world.audit(now=NOW + 7200)
    assert second.budget is not None, second.line()
    assert [spent.window for spent in second.budget.windows] == ["w2"]


def test_an_earlier_window_can_be_audited_by_name() -> None:
    world = World.honest()
    digest, beacon, manifest = world.digest, world.beacon, world.manifest
    world.enter_manifest("w2", policy_=policy(opens=CLOSES, closes=CLOSES + 3600))
    world.digest, world.beacon, world.manifest = digest, beacon, manifest
    assert world.audit(window="w1").verdict == "PASS"
    assert world.audit().verdict == "PASS", "a window that was not opened yet is not the newest one to audit"


def test_a_window_that_was_never_opened_is_no_verdict() -> None:
    world = World.honest()
    world.enter_manifest("w2", policy_=policy(opens=CLOSES, closes=CLOSES + 3600))
    verdict = world.audit(window="w2")
    assert verdict.line().startswith("NO VERDICT step=2 manifest: the window was not opened"), verdict.line()


def test_a_window_may_open_at_the_first_second_of_its_time() -> None:
    assert World.honest(policy_=policy(opens=OPENS + 60)).audit().verdict == "PASS"


def test_what_the_steps_say_of_an_honest_window() -> None:
    world = World.honest()
    said = {step.number: step.evidence for step in world.audit().steps}
    assert (
        said[2].items()
        >= {
            "opened_at": OPENS + 60,
            "closed_at": world.messages[world.at(WindowClose)].time,  # type: ignore[attr-defined]
            "open_index": world.at(WindowOpen),
            "close_index": world.at(WindowClose),
        }.items()
    )
    records = Counter(one.signed.request.account for one in world.messages if isinstance(one, Record))
    assert sum(said[6][f"records[{tenant}]"] for tenant in ("north", "south")) == records.total()
    assert said[6]["records[north]"] == sum(records[pseudonym(name)] for name in ("alice", "bob"))
    table = noise.build_table(TINY.law)
    assert said[10].items() >= {"law": TINY.law, "cut": table.cut, "table_digest": table.digest()}.items()


def test_receipts_of_another_window_are_checked_against_the_log() -> None:
    world = World.honest()
    receipts = world.receipts()
    world.enter_manifest("w2", policy_=policy(opens=CLOSES, closes=CLOSES + 3600))
    world.enter_beacon()
    world.messages[-1] = replace(world.messages[-1], time=CLOSES + 60)  # type: ignore[type-var]
    world.messages.append(WindowClose(world.digest, 0, CLOSES + 3000))
    verdict = world.audit(receipts=receipts, now=NOW + 7200)
    assert verdict.verdict == "PASS", verdict.line()
    assert verdict.steps[6].evidence["of_other_windows"] == 7


def test_a_manifest_of_another_key_in_the_log_sets_no_receipt_aside(monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider could enter one to be rid of what it signed."""
    world = World.honest()
    signers = handed_in._Signers.of

    def with_another(log: LogView) -> handed_in._Signers:
        found = signers(log)
        another = (world.manifest.origin, world.manifest.log, signature.public_bytes(key_of("another")))
        other_key = signature.public_bytes(key_of("window of another"))
        return replace(found, windows={**found.windows, bytes(32): other_key}, providers=found.providers | {another})

    monkeypatch.setattr(handed_in._Signers, "of", with_another)
    verdict = world.audit(receipts=world.receipts())
    assert verdict.set_aside == []
    assert verdict.steps[6].evidence["receipts"] == 7
    assert verdict.steps[6].evidence["with_answer"] == len([one for one in world.receipts() if one.answer])
    assert verdict.steps[6].evidence["of_other_windows"] == 0


@pytest.mark.parametrize(("tau", "joined"), [(2, 2), (1, 1)])
def test_records_exactly_tau_apart_are_linked(tau: int, joined: int) -> None:
    """The last pair that counts: an honest provider lists it, and no auditor may hold that against it."""
    world = World()
    world.commit(policy_=policy(tau=tau))
    same, other = [90, 90, 0, 0], [0, 0, 90, -90]
    for account, e in (("alice", same), ("alice", other), ("bob", same)):
        world.ask(account, e=e)
    world.close()
    verdict = world.audit()
    assert verdict.verdict == "PASS", verdict.line()
    assert verdict.estimation is not None
    assert verdict.estimation.c == joined


# --- what the auditor asks for with its signature --------------------------------------------------------------------


def _answering(answer: Callable[[World, Any], bytes], kinds: tuple[type, ...] = ASKS) -> verification.Verdict:
    world = World.honest()
    evidence = SimulatedEvidence(world)
    honest = evidence.deliver

    def deliver(ask: Any, proof: bytes) -> bytes:
        return answer(world, ask) if isinstance(ask, kinds) else honest(ask, proof)

    evidence.deliver = deliver  # type: ignore[method-assign]
    around = verification.Environment(GROUP, NOW, lambda: 0.0, random.Random(7).randbytes)
    return verification.audit(evidence, world.auditor(), around)


STEP_OF = {RegistryAsk: 6, ProofsAsk: 8, LinksAsk: 9, BlocksAsk: 9}


@pytest.mark.parametrize("kind", ASKS)
def test_a_signed_delivery_that_does_not_hold_fails(kind: type) -> None:
    verdict = _answering(lambda w, ask: Delivery.sign(w.window_key, ask.digest(), b"nonsense").encode(), (kind,))
    assert verdict.line().startswith(f"FAIL step={STEP_OF[kind]} "), verdict.line()


@pytest.mark.parametrize("kind", ASKS)
def test_a_delivery_that_the_provider_did_not_sign_for_this_ask_is_no_verdict(kind: type) -> None:
    thief = key_of("thief")
    for answer in (
        lambda w, ask: Delivery.sign(thief, ask.digest(), b"nonsense").encode(),
        lambda w, ask: Delivery.sign(w.window_key, bytes(32), b"nonsense").encode(),
        lambda w, ask: Delivery.sign(w.provider, ask.digest(), b"nonsense").encode(),
        lambda w, ask: Refusal.sign(thief, ask.digest(), "I will not").encode(),
        lambda w, ask: Refusal.sign(w.window_key, bytes(32), "I will not").encode(),
        lambda w, ask: b"nonsense",
        lambda w, ask: b"",
    ):
        verdict = _answering(answer, (kind,))
        assert verdict.line().startswith(f"NO VERDICT step={STEP_OF[kind]} "), verdict.line()
        assert "not the provider's word" in verdict.line()


@pytest.mark.parametrize("kind", ASKS)
def test_a_signed_refusal_is_withholding_but_of_blocks(kind: type) -> None:
    """Blocks are proven under a key that this auditor chose, and a provider may not have it."""
    verdict = _answering(lambda w, ask: Refusal.sign(w.window_key, ask.digest(), "I will not").encode(), (kind,))
    outcome = "NO VERDICT" if kind is BlocksAsk else "FAIL"
    assert verdict.line().startswith(f"{outcome} step={STEP_OF[kind]} "), verdict.line()
    ending = verdict.failure or verdict.obstacle
    assert ending is not None
    assert {"ask", "refusal"} <= set(ending.evidence)
    assert ("withheld" in ending.message) == (outcome == "FAIL")


# --- what is no verdict ----------------------------------------------------------------------------------------------


class Away(SimulatedEvidence):
    """A provider that stops answering at one call."""

    def __init__(self, world: World, call: str, error: Exception) -> None:
        super().__init__(world)
        self._call, self._error = call, error

    def __getattribute__(self, name: str) -> Any:
        if name == object.__getattribute__(self, "__dict__").get("_call"):
            raise object.__getattribute__(self, "_error")
        return super().__getattribute__(name)


CALLS = {"checkpoint": 1, "entries": 1, "manifest": 2, "index_file": 4, "registry": 6, "proofs": 8}


def _audit_without(call: str, error: Exception) -> verification.Verdict:
    world = World.honest()
    around = verification.Environment(GROUP, NOW, lambda: 0.0, random.Random(7).randbytes)
    return verification.audit(Away(world, call, error), world.auditor(), around)


@pytest.mark.parametrize("call", CALLS)
def test_a_provider_that_cannot_be_reached_gets_no_verdict(call: str) -> None:
    verdict = _audit_without(call, TransportError("away"))
    assert verdict.line().startswith(f"NO VERDICT step={CALLS[call]} "), verdict.line()
    assert "--patience" in verdict.line()


KINDS = [error for error in vars(errors).values() if isinstance(error, type) and issubclass(error, AuditError)]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("call", [call for call in CALLS if call != "manifest"])
def test_only_an_explicit_refusal_is_a_fail(call: str, kind: type[AuditError]) -> None:
    """Safe by default: whatever error is raised on the way, unless it says that the provider's signature shows."""
    verdict = _audit_without(call, kind("whatever"))
    assert verdict.line().startswith(f"NO VERDICT step={CALLS[call]} "), verdict.line()
    assert verdict.obstacle is not None
    assert verdict.obstacle.way_out


def test_the_step_that_ends_a_checklist_says_how() -> None:
    world = World()
    world.commit()
    for _ in range(4):  # one more than n_max
        world.ask("alice")
    world.close()
    failed = world.audit()
    assert {step.number: step.status for step in failed.steps}[6] == "failed"
    honest = World.honest()
    undecided = honest.audit(auditor=replace(honest.auditor(), nonces={}))
    # Nothing more is asked of the provider; what the log says by itself is checked all the same.
    statuses = {step.number: step.status for step in undecided.steps}
    assert {number for number, status in statuses.items() if status == "no verdict"} == {5}
    assert {number for number, status in statuses.items() if status == "not reached"} == {6, 7, 8, 9, 11}
    assert statuses[10] == "ok"


def test_a_way_out_that_somebody_forgot_is_no_fail() -> None:
    for error, kind in ((Undecided("nobody signed it", ""), "NO VERDICT"), (Refused("signed"), "FAIL")):
        verdict = Verdict()
        verdict.end(checklist.ending_of(4, error))
        assert verdict.verdict == kind
        assert (verdict.failure is None) == (kind == "NO VERDICT")


def test_a_deadline_ends_the_checklist() -> None:
    ticks = itertools.count()
    verdict = World.honest().audit(clock=lambda: float(next(ticks)), deadline=8.0)
    assert verdict.verdict == "NO VERDICT"
    assert "the audit's deadline has passed" in verdict.line()
    assert World.honest().audit(clock=lambda: float(next(ticks)), deadline=1e9).verdict == "PASS"


def test_signed_deliveries_that_do_not_hold_fail_and_unsigned_ones_do_not() -> None:
    world = World.honest()
    honest = world.batch(world.digest, range(7)).encode()
    file = TENANTS["north"].file.encode()
    rng = random.Random(3)
    for data, step in ((honest, 8), (file, 4)):
        cuts = [data[: rng.randrange(len(data))] for _ in range(5)]
        for bad in [*cuts, data + b"\x00", b"", rng.randbytes(200)]:
            broken = World.honest()
            evidence = SimulatedEvidence(broken)
            name = "proofs" if step == 8 else "index_file"
            setattr(evidence, name, lambda *a, bad=bad: bad)
            around = verification.Environment(GROUP, NOW, lambda: 0.0, rng.randbytes)
            verdict = verification.audit(evidence, broken.auditor(), around)
            ending = verdict.failure if step == 8 else verdict.obstacle
            assert ending is not None, verdict.line()
            assert ending.number == step


def test_checkpoint_that_was_seen_is_handed_back_even_when_a_later_step_fails() -> None:
    world = asked(sign_as="mallory")
    verdict = world.audit()
    assert verdict.log is not None
    assert verdict.log.checkpoint == open_checkpoint(world.checkpoint(), world.signer.verifier).checkpoint
    forked = World.honest()
    forked.remembered = verdict.log
    assert forked.audit().log is None, "a fork is never remembered"


def test_breaking_off_does_not_undo_what_was_seen() -> None:
    """A provider that shows a log and drops the connection cannot show another one to the next audit."""
    world = World.honest()
    seen: list[SignedCheckpoint] = []
    evidence = SimulatedEvidence(world)

    def drop(manifest: bytes, seqs: Sequence[int]) -> bytes:
        raise TransportError("the connection was dropped")

    evidence.proofs = drop  # type: ignore[method-assign]

    def remember(log: LogTree) -> SignedCheckpoint:
        seen.append(log.signed)
        return log.signed

    around = verification.Environment(GROUP, NOW, lambda: 0.0, random.Random(7).randbytes)
    verdict = verification.audit(evidence, replace(world.auditor(), remember=remember), around)
    assert verdict.line().startswith("NO VERDICT step=8 proofs: the connection was dropped"), verdict.line()
    assert [one.checkpoint for one in seen] == [open_checkpoint(world.checkpoint(), world.signer.verifier).checkpoint]
