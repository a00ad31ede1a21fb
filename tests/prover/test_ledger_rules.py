# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider refuses to enter: an honest log up to some entry, and then what may not stand there.  SPEC A, B."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import commitment as kernel
from ragseal.kernel import signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.beacon import BeaconCommit, BeaconOpening, BeaconSeal, beacon_commitment, beacon_value
from ragseal.kernel.commitment import WindowClose, WindowOpen
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AttestationError, AuditError, CommitmentError, LedgerError
from ragseal.kernel.verdict import log_digest
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import ServeOptions, Serving
from ragseal.prover.storage.history import History, coarse
from ragseal.prover.storage.window import Stage, Window
from tests.attacks import test_following as following
from tests.simulator import OPENS, World, key_of, policy
from tests.simulator.entries import signed_manifest
from tests.simulator.provider import AUDITOR_KEY, NOW, Asker, Clock, Participant, make_policy, open_provider, serving_on
from tests.simulator.world import ORIGIN

ELSE = key_of("else")
MANIFEST, COMMITTED, SEALED, PROVIDER_OPENED, COMPLETE, OPEN, ASKED, CLOSED = 1, 3, 4, 5, 7, 8, 11, 16


@cache
def honest() -> World:
    """A closed window of seven records; nobody changes it."""
    world = World()
    world.commit()
    world.queries()
    world.close()
    return world


def replayed(world: World, entries: int | None = None) -> History:
    """The history of the log's first so many entries."""
    history = History(ORIGIN, signature.public_bytes(world.provider), log_digest(world.signer.verifier.vkey()))
    for index, entry in enumerate(world.entries()[:entries]):
        history.add(index, entry)
    return history


def manifest(world: World, key: Ed25519PrivateKey | None = None, **changes: Any) -> Message:
    """Of a window w2 that has everything of its own; signed by the provider unless ``key`` is somebody else's."""
    own = {"window": "w2", "c_seed": 5, "beacon_commitment": beacon_commitment("provider", b"2" * 32), **changes}
    return signed_manifest(replace(world.manifest, **own), key or world.provider)


def after_it(world: World, opens: int) -> Message:
    return manifest(world, policy=policy(opens=opens, closes=opens + 3600))


def opening(world: World, owner: str) -> Message:
    return next(one for one in world.messages if isinstance(one, BeaconOpening) and one.owner == owner)


def record(world: World, **changes: Any) -> Message:
    """The record that follows the third one."""
    one = world.messages[ASKED]
    assert isinstance(one, Record)
    request = {key: changes.pop(key) for key in ("ctr",) if key in changes}
    return replace(one, signed=replace(one.signed, request=replace(one.signed.request, **request)), **changes)


Case = tuple[int, Callable[[World], Message], str]
REFUSED: dict[str, Case] = {
    "a window twice": (MANIFEST, lambda w: w.messages[0], "a window is never opened twice"),
    "a seed twice": (
        MANIFEST, lambda w: manifest(w, c_seed=w.manifest.c_seed), "the seed of window 'w1' is used again",
    ),
    "a nonce twice": (
        MANIFEST, lambda w: manifest(w, beacon_commitment=w.manifest.beacon_commitment), "the beacon nonce of window",
    ),
    "another origin": (MANIFEST, lambda w: manifest(w, origin="else.example/log"), "names another ledger"),
    "another log": (MANIFEST, lambda w: manifest(w, log=bytes(32)), "names another ledger"),
    "another provider": (
        MANIFEST, lambda w: manifest(w, ELSE, provider_key=signature.public_bytes(ELSE)), "names another ledger",
    ),
    "a stranger": (
        MANIFEST, lambda w: w.commit_entry("stranger", b"s" * 32, key_of("s")), "beyond the manifest's auditors",
    ),
    "another auditor": (
        MANIFEST, lambda w: w.commit_entry("auditor", b"s" * 32, key_of("s")), "names another key for auditor",
    ),
    "an early opening": (COMMITTED, lambda w: opening(w, "provider"), "between its seal and the opening"),
    "no beacon": (COMMITTED, lambda w: w.messages[COMPLETE], "opens once, after its beacon is sealed"),
    "a record too early": (COMPLETE, lambda w: record(w, seq=0), "takes no records: it is not open"),
    "an end too early": (COMPLETE, lambda w: WindowClose(w.digest, 0, OPENS + 60), "cannot be closed: it is not open"),
    "two commitments": (
        COMMITTED, lambda w: w.commit_entry("observer-1", b"s" * 32, key_of("observer")), "committed to another nonce",
    ),
    "no provider": (COMMITTED, lambda w: w.seal_entry("observer-1", "auditor"), "names the provider first"),
    "a provider that is not first": (
        COMMITTED, lambda w: w.seal_entry("observer-1", "provider", "auditor"), "names the provider first",
    ),
    "no auditor": (COMMITTED, lambda w: w.seal_entry("provider", "observer-1"), "last every auditor"),
    "an auditor that is not last": (
        COMMITTED, lambda w: w.seal_entry("provider", "auditor", "observer-1"), "last every auditor",
    ),
    "who has not committed": (
        COMMITTED, lambda w: w.seal_entry("provider", "observer-2", "auditor"), "who has not committed",
    ),
    "a late commitment": (
        SEALED, lambda w: w.commit_entry("observer-3", b"3" * 32, key_of("3")), "no further participants",
    ),
    "not sealed": (SEALED, lambda w: BeaconOpening(w.digest, "observer-9", bytes(32)), "is not named by the seal"),
    "an auditor that opens first": (PROVIDER_OPENED, lambda w: opening(w, "auditor"), "auditors open last"),
    "an observer that opens first": (SEALED, lambda w: opening(w, "observer-1"), "the provider opens first"),
    "another nonce": (
        SEALED, lambda w: BeaconOpening(w.digest, "provider", bytes(32)), "a nonce different from the one",
    ),
    "opened again": (PROVIDER_OPENED, lambda w: opening(w, "provider"), "has opened already"),
    "the same seal": (SEALED, lambda w: w.seal_entry("provider", "observer-1", "auditor"), "can only drop owners"),
    "a seal too late": (COMPLETE, lambda w: w.seal_entry("provider", "auditor"), "once an auditor has opened"),
    "an incomplete beacon": (COMPLETE - 1, lambda w: w.messages[COMPLETE], "the beacon is not complete"),
    "another beacon": (COMPLETE, lambda w: WindowOpen(w.digest, w.beacon + 1, OPENS + 60), "a beacon different from"),
    "open again": (OPEN, lambda w: w.messages[COMPLETE], "opens once"),
    "a gap": (ASKED, lambda w: record(w, seq=4), "record 4 does not follow record 2"),
    "a record again": (ASKED, lambda w: record(w, seq=2), "record 2 does not follow record 2"),
    "a time before the last": (ASKED, lambda w: record(w, time=OPENS + 60), "does not follow record 2"),
    "a time behind the end": (
        ASKED, lambda w: record(w, time=w.manifest.policy.ends(OPENS + 60) // 60 * 60 + 60),
        "dated after the window's end",
    ),
    "a number left out": (ASKED, lambda w: record(w, ctr=9), "request 9 of"),
    "a record too few": (ASKED, lambda w: WindowClose(w.digest, 2, OPENS + 6000), "has 3 records, not 2"),
    "a record too many": (ASKED, lambda w: WindowClose(w.digest, 4, OPENS + 6000), "has 3 records, not 4"),
    "an end before the last record": (ASKED, lambda w: WindowClose(w.digest, 3, OPENS + 60), "has 3 records"),
    "a record behind the end": (CLOSED, lambda w: record(w, seq=7), "takes no records"),
    "closed again": (CLOSED, lambda w: w.messages[-1], "cannot be closed"),
    "an overlap": (
        CLOSED, lambda w: after_it(w, replayed(w).named("").ends - 60), "would open before 'w1' ended",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_what_an_auditor_would_not_accept_is_not_entered(name: str) -> None:
    entries, make, said = REFUSED[name]
    world = honest()
    history = replayed(world, entries)
    with pytest.raises(CommitmentError, match=said):
        history.add(entries, make(world).encode())
    for index, entry in enumerate(world.entries()[entries:], entries):
        history.add(index, entry)  # what was refused has changed nothing
    assert history.named("w1").stage is Stage.CLOSED


ACCEPTED: dict[str, tuple[int, Callable[[World], Message]]] = {
    "a window of its own": (MANIFEST, manifest),
    "a seal without who is missing": (PROVIDER_OPENED, lambda w: w.seal_entry("provider", "auditor")),
    "a record of the last minute": (ASKED, lambda w: record(w, time=w.manifest.policy.ends(OPENS + 60) // 60 * 60)),
    "a record of the same minute": (ASKED, lambda w: record(w, time=w.messages[ASKED - 1].time)),  # type: ignore[attr-defined]
    "an end with the last record": (ASKED, lambda w: WindowClose(w.digest, 3, w.messages[ASKED - 1].time)),  # type: ignore[attr-defined]
    "the next window": (CLOSED, lambda w: after_it(w, replayed(w).named("").ends)),
}  # fmt: skip


@pytest.mark.parametrize("name", ACCEPTED)
def test_what_stands_at_a_bound_is_entered(name: str) -> None:
    entries, make = ACCEPTED[name]
    replayed(honest(), entries).add(entries, make(honest()).encode())


def test_a_manifest_that_its_provider_did_not_sign_is_not_entered() -> None:
    world = honest()
    with pytest.raises(AuditError, match="signature"):
        replayed(world, MANIFEST).add(MANIFEST, manifest(world, ELSE).encode())


def test_a_window_opens_from_its_time_on_until_it_may_open() -> None:
    world = honest()
    terms = world.manifest.policy
    for time, taken in (
        (terms.opens - 60, False),
        (terms.opens, True),
        (terms.opens_by, True),
        (terms.opens_by + 60, False),
    ):
        history, entry = replayed(world, COMPLETE), WindowOpen(world.digest, world.beacon, time).encode()
        assert coarse(time) == time
        if taken:
            history.add(COMPLETE, entry)
            assert history.open is history.newest
        else:
            with pytest.raises(CommitmentError, match=r"would open before|too late for the window to open"):
                history.add(COMPLETE, entry)
            assert history.open is None


def test_two_windows_follow_each_other_as_the_auditor_wants_it() -> None:
    replayed(following.honest().world)
    refused: list[tuple[Callable[[], following.Two], str]] = [
        (following.opened_before_the_other_is_closed, "a window opens only after the one before it was closed"),
        (following.taken_after_a_newer_one, "is over: a newer manifest is in the ledger"),
        (following.taken_behind_the_manifest_of_a_newer_one, "would open before 'w1' ended"),
        (following.sealed_again_beside_an_open_window, "a second seal can only drop owners whose opening is missing"),
    ]
    for cheat, said in refused:
        with pytest.raises(AuditError, match=said):
            replayed(cheat().world)


def test_a_window_that_was_passed_over_is_told_from_one_that_has_opened() -> None:
    two = following.Two()
    two.begin()
    two.prepare("w3")
    history = replayed(two.world)
    first, second, third = history.windows.values()
    assert [history.passed_over(one) for one in (first, second, third)] == [False, True, False]
    assert (history.open, history.newest, history.following, history.current) == (first, third, third, first)
    assert history.named("w2") is second
    assert history.named("") is third


# The beacon's order, and which entries may follow each other in the log. SPEC A.8.


# --- beacon ----------------------------------------------------------------------------------------------------------


def committed(tmp_path: Path) -> tuple[Provider, Window]:
    provider = open_provider(tmp_path / "p")
    provider.commit(make_policy(), "w1")
    window = provider.journal.history.newest
    assert window is not None
    return provider, window


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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


@pytest.mark.slow
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
