# SPDX-License-Identifier: GPL-3.0-or-later
"""Evidence over real gRPC: the same verdict, bounded sizes, and silence told apart from refusal."""

from __future__ import annotations

import random

import pytest

from ragseal.kernel.errors import CommitmentError, ConfigurationError, LedgerError, TransportError
from ragseal.kernel.inquiry import ProofsAsk
from ragseal.verifier import remote, verification
from ragseal.verifier.evidence import Refused
from ragseal.verifier.remote import RemoteEvidence
from tests.verifier.simulator import GROUP, NOW, World
from tests.verifier.wire import provider

AROUND = verification.Surroundings(GROUP, NOW, lambda: 0.0, random.Random(7).randbytes)


def test_an_audit_over_the_wire_passes() -> None:
    world = World.honest()
    with provider(world) as (address, _), RemoteEvidence(address) as evidence:
        verdict = verification.audit(evidence, world.auditor(), AROUND, receipts=world.receipts())
    assert verdict.line() == world.audit(receipts=world.receipts()).line()
    assert verdict.verdict == "PASS"


@pytest.mark.parametrize("error", [ConfigurationError("no"), CommitmentError("no"), LedgerError("no")])
def test_a_named_refusal_is_a_failure_of_the_step(error: Exception) -> None:
    """Also a refusal that calls itself a configuration error: that word is the auditor's own."""
    world = World.honest()
    with provider(world) as (address, servicer), RemoteEvidence(address) as evidence:
        servicer.trouble = error
        verdict = verification.audit(evidence, world.auditor(), AROUND)
    assert verdict.failure is not None
    assert verdict.failure.number == 2
    assert "answers: no" in verdict.line()


def test_nobody_there_is_no_verdict() -> None:
    world = World.honest()
    with provider(world) as (address, _):
        pass
    with RemoteEvidence(address, timeout=2.0) as evidence, pytest.raises(TransportError, match="cannot be reached"):
        verification.audit(evidence, world.auditor(), AROUND)


def test_an_internal_error_of_the_provider_is_no_verdict() -> None:
    world = World.honest()
    with provider(world) as (address, servicer), RemoteEvidence(address) as evidence:
        servicer.trouble = RuntimeError("bug")
        with pytest.raises(TransportError, match="INTERNAL"):
            verification.audit(evidence, world.auditor(), AROUND)


def test_an_endless_stream_is_cut(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MAX_INDEX_BYTES", 20_000)
    monkeypatch.setattr(remote, "MAX_BATCH_BYTES", 20_000)
    world = World.honest()
    with provider(world) as (address, servicer), RemoteEvidence(address) as evidence:
        assert evidence.index_file(world.digest, "north") == world.files["north"].encode()
        servicer.endless = True
        with pytest.raises(Refused, match="oversized"):
            evidence.index_file(world.digest, "north")
        with pytest.raises(Refused, match="oversized"):
            evidence.deliver(ProofsAsk(world.digest, 0, bytes(16), (0, 1)), bytes(64))


@pytest.mark.parametrize("address", ["nowhere", "127.0.0.1:http", ""])
def test_bad_addresses_are_refused(address: str) -> None:
    with pytest.raises(ConfigurationError):
        RemoteEvidence(address)
