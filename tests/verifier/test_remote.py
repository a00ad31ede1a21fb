# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence over real gRPC: the same verdict, bounded sizes, and silence told apart from refusal."""

from __future__ import annotations

import random
from typing import Any

import pytest

from ragseal.kernel.errors import (
    BudgetError,
    CommitmentError,
    ConfigurationError,
    LedgerError,
    MismatchError,
    TransportError,
)
from ragseal.kernel.inquiry import ProofsAsk
from ragseal.verifier.audit import verification
from ragseal.verifier.evidence import remote
from ragseal.verifier.evidence.evidence import Undecided
from ragseal.verifier.evidence.patience import Patience
from ragseal.verifier.evidence.remote import RemoteEvidence
from tests.simulator import GROUP, NOW, World
from tests.verifier.wire import provider

AROUND = verification.Environment(GROUP, NOW, lambda: 0.0, random.Random(7).randbytes)


def test_an_audit_over_the_wire_passes() -> None:
    world = World.honest()
    with provider(world) as (address, _), RemoteEvidence(address) as evidence:
        verdict = verification.audit(evidence, world.auditor(), AROUND, receipts=world.receipts())
    assert verdict.line() == world.audit(receipts=world.receipts()).line()
    assert verdict.verdict == "PASS"


@pytest.mark.parametrize("error", [ConfigurationError("no"), CommitmentError("no"), LedgerError("no")])
def test_a_named_refusal_is_no_verdict(error: Exception) -> None:
    """Nobody signed it: a proxy, a stranger or a full disk may have said so."""
    world = World.honest()
    with provider(world) as (address, servicer), RemoteEvidence(address) as evidence:
        servicer.trouble = error
        verdict = verification.audit(evidence, world.auditor(), AROUND)
    assert verdict.obstacle is not None, verdict.line()
    assert verdict.steps[1].evidence.get("manifest_shown_beside_the_log", "").startswith("set aside")
    assert verdict.obstacle.number == 4
    assert "refuses without signing" in verdict.line()


def test_nobody_there_is_no_verdict() -> None:
    world = World.honest()
    with provider(world) as (address, _):
        pass
    with RemoteEvidence(address, timeout=2.0) as evidence:
        verdict = verification.audit(evidence, world.auditor(), AROUND)
    assert verdict.line().startswith("NO VERDICT step=1 log: "), verdict.line()
    assert "cannot be reached" in verdict.line()


def test_an_internal_error_of_the_provider_is_no_verdict() -> None:
    world = World.honest()
    with provider(world) as (address, servicer), RemoteEvidence(address) as evidence:
        servicer.trouble = RuntimeError("bug")
        verdict = verification.audit(evidence, world.auditor(), AROUND)
    assert verdict.line().startswith("NO VERDICT step=2 manifest: "), verdict.line()
    assert "INTERNAL" in verdict.line()


# --- patience --------------------------------------------------------------------------------------------------------


class Time:
    """A clock that only sleeping moves."""

    def __init__(self) -> None:
        self.now, self.told = 0.0, list[str]()

    def sleep(self, seconds: float) -> None:
        self.now += seconds

    def patience(self, seconds: float, deadline: float | None = None) -> Patience:
        return Patience(seconds, deadline, self.told.append, lambda: self.now, self.sleep)


@pytest.mark.parametrize("error", [BudgetError("busy"), TransportError("later"), RuntimeError("bug")])
def test_a_busy_provider_is_asked_again(error: Exception) -> None:
    """Four strangers in its queue, a restart, a slow disk: the audit waits, says so, and passes."""
    world, time = World.honest(), Time()
    with provider(world) as (address, servicer), RemoteEvidence(address, patience=time.patience(60)) as evidence:
        servicer.trouble, servicer.troubles = error, 3
        verdict = verification.audit(evidence, world.auditor(), AROUND)
    assert verdict.verdict == "PASS", verdict.line()
    assert servicer.troubles == 0
    assert len(time.told) == 3
    assert "waiting for the provider" in time.told[0]
    assert 0 < time.now < 60


def test_a_provider_that_stays_busy_gets_no_verdict() -> None:
    world, time = World.honest(), Time()
    with provider(world) as (address, servicer), RemoteEvidence(address, patience=time.patience(60)) as evidence:
        servicer.trouble = BudgetError("busy")
        verdict = verification.audit(evidence, world.auditor(), AROUND)
    assert verdict.line().startswith("NO VERDICT step=2 manifest: "), verdict.line()
    assert "busy (asked again for" in verdict.line()
    assert 30 < time.now <= 60


def test_the_deadline_ends_the_waiting() -> None:
    world, time = World.honest(), Time()
    with provider(world) as (address, servicer), RemoteEvidence(address, patience=time.patience(600, 20)) as evidence:
        servicer.trouble = BudgetError("busy")
        verdict = verification.audit(evidence, world.auditor(), AROUND)
    assert verdict.verdict == "NO VERDICT"
    assert time.now <= 20


def test_a_call_is_no_longer_than_the_deadline() -> None:
    time = Time()
    patience = time.patience(600, 20)
    assert patience.call_seconds(5) == 5
    assert patience.call_seconds(1800) == 20
    time.now = 15
    assert patience.call_seconds(1800) == 5
    time.now = 25
    with pytest.raises(TransportError, match="deadline"):
        patience.ask(lambda: 1)


def test_what_no_waiting_helps_with_is_not_waited_for() -> None:
    time = Time()
    for error in (MismatchError("another program"), LedgerError("no")):
        with pytest.raises(type(error)):
            time.patience(600).ask(lambda error=error: (_ for _ in ()).throw(error))  # type: ignore[misc]
    assert time.now == 0


def test_patience_begins_when_a_call_fails_not_when_it_was_made() -> None:
    """A proof took two hours, then the connection broke: it is asked for again."""
    time, calls = Time(), []

    def slow() -> int:
        calls.append(time.now)
        if len(calls) == 1:
            time.now += 7200
            raise TransportError("broken")
        return 5

    assert time.patience(60).ask(slow) == 5


def test_every_repeated_ask_is_a_new_one() -> None:
    """An ask grows old, and an answer to an old one is none."""
    world, time = World.honest(), Time()
    asks = []
    with provider(world) as (address, servicer), RemoteEvidence(address, patience=time.patience(60)) as evidence:
        honest = servicer.evidence.deliver

        def deliver(ask: Any, proof: bytes) -> bytes:
            asks.append(ask)
            return b"junk" if len(asks) == 1 else honest(ask, proof)

        servicer.evidence.deliver = deliver  # type: ignore[method-assign]
        verdict = verification.audit(evidence, world.auditor(), AROUND)
    assert verdict.verdict == "PASS", verdict.line()
    assert type(asks[0]) is type(asks[1])
    assert asks[0].nonce != asks[1].nonce


def test_an_endless_stream_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_INDEX_BYTES", 20_000)
    monkeypatch.setattr(remote, "MAX_BATCH_BYTES", 20_000)
    world = World.honest()
    with provider(world) as (address, servicer), RemoteEvidence(address) as evidence:
        assert evidence.index_file(world.digest, "north") == world.files["north"].encode()
        servicer.endless = True
        with pytest.raises(Undecided, match="oversized"):
            evidence.index_file(world.digest, "north")
        with pytest.raises(Undecided, match="oversized"):
            evidence.deliver(ProofsAsk(world.digest, 0, bytes(16), (0, 1)), bytes(64))


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:http", ""])
def test_bad_addresses_are_refused(address: str) -> None:
    with pytest.raises(ConfigurationError):
        RemoteEvidence(address)
