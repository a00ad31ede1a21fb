# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider refuses to enter: an honest log up to some entry, and then what may not stand there.  SPEC A, B."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.attestation import Record
from ragseal.kernel.beacon import BeaconOpening, beacon_commitment
from ragseal.kernel.commitment import WindowClose, WindowOpen
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AuditError, CommitmentError
from ragseal.kernel.verdict import log_digest
from ragseal.prover.storage.history import History, coarse
from ragseal.prover.storage.window import Stage
from tests.attacks import test_following as following
from tests.simulator import OPENS, World, key_of, policy
from tests.simulator.entries import signed_manifest
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
    "a window twice": (MANIFEST, lambda w: w.messages[0], "none is opened twice"),
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
