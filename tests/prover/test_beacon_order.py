# SPDX-License-Identifier: GPL-3.0-or-later
"""The beacon's order, and which entries may follow each other in the log.  SPEC A.8."""

from __future__ import annotations

import asyncio
import dataclasses
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import commitment as kernel
from ragseal.kernel import signature
from ragseal.kernel.beacon import BeaconCommit, BeaconOpening, BeaconSeal, beacon_value
from ragseal.kernel.errors import AttestationError, CommitmentError, LedgerError
from ragseal.kernel.verdict import log_digest
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import ServeOptions, Serving
from ragseal.prover.storage.history import History
from ragseal.prover.storage.window import Stage, Window
from tests.simulator.provider import AUDITOR_KEY, NOW, Asker, Clock, Participant, make_policy, open_provider, serving_on

pytestmark = pytest.mark.slow


# --- beacon ----------------------------------------------------------------------------------------------------------


def committed(tmp_path: Path) -> tuple[Provider, Window]:
    provider = open_provider(tmp_path / "p")
    provider.commit(make_policy(), "w1")
    window = provider.journal.history.newest
    assert window is not None
    return provider, window


def test_the_auditor_opens_last_and_strangers_not_at_all(tmp_path: Path) -> None:
    async def run() -> None:
        provider, window = committed(tmp_path)
        auditor = Participant("auditor", window.digest, AUDITOR_KEY, b"a" * 32)
        observer = Participant("observer-x", window.digest, Ed25519PrivateKey.generate(), b"o" * 32)
        async with serving_on(provider) as serving:
            beacon = serving.beacon
            for owner in ("provider", "observer-", "somebody"):
                bad = Participant(owner, window.digest, Ed25519PrivateKey.generate(), b"s" * 32)
                with pytest.raises(CommitmentError):
                    await beacon.commit(bad.commit().encode())
            early = observer.open().encode()
            with pytest.raises(CommitmentError):
                await beacon.open(early)
            unsigned = dataclasses.replace(observer.commit(), signature=bytes(64))
            with pytest.raises(AttestationError):
                await beacon.commit(unsigned.encode())
            await beacon.commit(observer.commit().encode())
            size = provider.ledger.size
            await beacon.commit(observer.commit().encode())
            assert provider.ledger.size == size
            other = Participant("observer-x", window.digest, Ed25519PrivateKey.generate(), b"z" * 32)
            with pytest.raises(CommitmentError, match="already"):
                await beacon.commit(other.commit().encode())
            await beacon.commit(auditor.commit().encode())
            while "provider" not in window.openings:
                await asyncio.sleep(0.01)
            late = Participant("observer-late", window.digest, Ed25519PrivateKey.generate(), b"l" * 32)
            with pytest.raises(CommitmentError, match="sealed"):
                await beacon.commit(late.commit().encode())
            with pytest.raises(CommitmentError, match="open last"):
                await beacon.open(auditor.open().encode())
            wrong = BeaconOpening(window.digest, "observer-x", b"w" * 32)
            with pytest.raises(CommitmentError, match="a nonce different"):
                await beacon.open(wrong.encode())
            for owner in ("provider", "observer-late"):
                with pytest.raises(CommitmentError):
                    await beacon.open(BeaconOpening(window.digest, owner, b"o" * 32).encode())
            alice = Asker("alice", serving)
            with pytest.raises(AttestationError, match="not open yet"):
                await alice.prepare(alice.message("early"))
            await beacon.open(observer.open().encode())
            assert await beacon.open(observer.open().encode()) is window
            await beacon.open(auditor.open().encode())
            assert window.stage is Stage.OPEN
            nonce = provider.window_secrets(window.digest).nonce
            opened = [("provider", nonce), ("observer-x", b"o" * 32), ("auditor", b"a" * 32)]
            assert window.beacon == beacon_value(window.digest, opened)

    asyncio.run(run())


@pytest.mark.parametrize(("early", "later", "stage"), [(-600, 0, Stage.OPEN), (0, 86520, Stage.SEALED)])
def test_a_window_opens_in_its_time_only(tmp_path: Path, early: int, later: int, stage: Stage) -> None:
    clock = Clock()

    async def run() -> None:
        provider = open_provider(tmp_path / "p", clock)
        provider.commit(make_policy(), "w1")
        window = provider.journal.history.named("w1")
        auditor = Participant("auditor", window.digest, AUDITOR_KEY, b"a" * 32)
        serving = Serving(provider, ServeOptions(False, 0.0, BeaconRules(1, 5.0)))
        clock.now = NOW + early
        await serving.start()
        await serving.beacon.commit(auditor.commit().encode())
        while "provider" not in window.openings:
            await asyncio.sleep(0.01)
        if early == 0:
            clock.now = NOW + later
        opening = asyncio.create_task(serving.beacon.open(auditor.open().encode()))
        await asyncio.sleep(1.0)
        assert window.stage is Stage.SEALED
        clock.now = NOW + later
        if stage is Stage.OPEN:
            await opening
        assert window.stage is stage
        opening.cancel()
        await serving.stop()
        provider.close()

    asyncio.run(run())


def test_a_missing_observer_is_left_out_before_the_auditor_opens(tmp_path: Path) -> None:
    async def run() -> None:
        provider, window = committed(tmp_path)
        auditor = Participant("auditor", window.digest, AUDITOR_KEY, b"a" * 32)
        observer = Participant("observer-x", window.digest, Ed25519PrivateKey.generate(), b"o" * 32)
        serving = Serving(provider, ServeOptions(False, 0.0, BeaconRules(participants=2, wait=0.3)))
        await serving.start()
        for participant in (observer, auditor):
            await serving.beacon.commit(participant.commit().encode())
        while window.seal is None or len(window.seal.owners) == 3:
            await asyncio.sleep(0.02)
        assert window.seal.owners == ("provider", "auditor")
        with pytest.raises(CommitmentError, match="not named"):
            await serving.beacon.open(observer.open().encode())
        await serving.beacon.open(auditor.open().encode())
        assert window.stage is Stage.OPEN
        await serving.stop()
        provider.close()

    asyncio.run(run())


def test_a_beacon_goes_on_after_a_restart_and_another_auditor_is_refused(tmp_path: Path) -> None:
    async def run() -> None:
        provider, window = committed(tmp_path)
        rules = BeaconRules(1, 5.0)
        auditor = Participant("auditor", window.digest, AUDITOR_KEY, b"a" * 32)
        serving = Serving(provider, ServeOptions(False, 0.0, rules))
        await serving.start()
        impostor = Participant("auditor", window.digest, Ed25519PrivateKey.generate(), b"i" * 32)
        with pytest.raises(CommitmentError, match="names another key for auditor"):
            await serving.beacon.commit(impostor.commit().encode())
        await serving.beacon.commit(auditor.commit().encode())
        while "provider" not in window.openings:
            await asyncio.sleep(0.01)
        await serving.stop()
        provider.close()
        provider = open_provider(tmp_path / "p")
        serving = Serving(provider, ServeOptions(False, 0.0, rules))
        await serving.start()
        after = await serving.beacon.open(auditor.open().encode())
        assert after.stage is Stage.OPEN
        await serving.stop()
        provider.close()

    asyncio.run(run())


# --- history ---------------------------------------------------------------------------------------------------------


def test_seals_have_an_order_and_only_shrink(tmp_path: Path) -> None:
    provider, window = committed(tmp_path)
    for owner in ("auditor", "observer-x", "observer-y"):
        key = AUDITOR_KEY if owner == "auditor" else Ed25519PrivateKey.generate()
        window.add_commit(Participant(owner, window.digest, key, owner.ljust(32).encode()).commit())

    def seal(*owners: str) -> None:
        window.add_seal(BeaconSeal(window.digest, owners, bytes(64)))

    for owners in (
        ("provider",),
        ("auditor", "provider"),
        ("provider", "observer-x"),
        ("provider", "observer-x", "observer-x", "auditor"),
        ("provider", "observer-z", "auditor"),
    ):
        with pytest.raises(CommitmentError):
            seal(*owners)
    seal("provider", "observer-x", "auditor")
    for owners in (("provider", "observer-x", "auditor"), ("provider", "observer-y", "auditor")):
        with pytest.raises(CommitmentError, match="only drop"):
            seal(*owners)
    nonce = provider.window_secrets(window.digest).nonce
    window.add_opening(BeaconOpening(window.digest, "provider", nonce))
    window.add_opening(BeaconOpening(window.digest, "observer-x", b"observer-x".ljust(32)))
    with pytest.raises(CommitmentError, match="only drop"):  # who has opened cannot be dropped: no choice of nonces
        seal("provider", "auditor")
    provider.close()


def test_a_copied_commitment_is_refused(tmp_path: Path) -> None:
    provider, window = committed(tmp_path)
    key = Ed25519PrivateKey.generate()
    made = BeaconCommit(
        window.digest, "observer-x", signature.public_bytes(key), window.manifest.beacon_commitment, bytes(64)
    )
    signed = dataclasses.replace(made, signature=signature.sign(key, "beacon-commit", made.body()))
    with pytest.raises(CommitmentError, match="copy"):
        window.add_commit(signed)
    with pytest.raises(AttestationError, match="signature"):
        window.add_commit(made)
    assert not window.commits
    provider.close()


def test_a_ledger_with_strange_entries_is_not_continued(tmp_path: Path) -> None:
    provider, window = committed(tmp_path)
    entry, log = window.signed.encode(), log_digest(provider.ledger.verifier.vkey())
    for strange in (b"noise", entry, kernel.WindowClose(window.digest, 0, NOW).encode()):
        history = History(provider.ledger.origin, provider.public_key, log)
        history.replay(0, entry)
        with pytest.raises(LedgerError, match="entry 1"):
            history.replay(1, strange)
    for other in (
        History(provider.ledger.origin, bytes(32), log),
        History(provider.ledger.origin, provider.public_key, bytes(32)),
    ):
        with pytest.raises(LedgerError, match="provider key"):
            other.replay(0, entry)
    provider.close()
