# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows and logs that change after the fact: forks, shrunken logs, other policies, a seed for the second time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.beacon import (
    BeaconOpening,
    beacon_value,
)
from ragseal.kernel.commitment import (
    Manifest,
    SignedManifest,
    WindowOpen,
)
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.observer import AlarmError, Observer
from ragseal.ledger.witness import UnprovenError, Witness
from tests.attacks.checks import (
    LOG_EXTENDS,
    LOG_GROWS,
    MANIFEST_OF_THE_LOG,
    NOT_DATED_BACK,
    OBSERVER_CONSISTENCY,
    OBSERVER_HASHES,
    OPENED_ONCE,
    SEALED_FOR_BETTER,
    SEED_ONCE,
    WINDOW_NAME_ONCE,
    without,
)
from tests.attacks.machine import policy
from tests.attacks.removal import Removable
from tests.attacks.world import AttackWorld, accepted, queried, refused, undecided
from tests.simulator import key_of
from tests.simulator.entries import signed_manifest

pytestmark = pytest.mark.slow


def _signed(world: AttackWorld, manifest: Manifest) -> SignedManifest:
    return signed_manifest(manifest, world.provider)


def _other_history(world: AttackWorld) -> None:
    """Record 1 gets another time, in a log of the same size, signed by the same key."""
    at = world.messages.index(world.records()[1])
    world.messages[at] = replace(world.records()[1], time=world.records()[1].time + 60)


def forked_ledger() -> AttackWorld:
    """This auditor saw one history; the audit is shown another of the same size."""
    world = queried()
    world.remember()
    _other_history(world)
    return world


def shrunken_ledger() -> AttackWorld:
    """An entry that the auditor saw is gone."""
    world = queried()
    world.messages.append(world.messages[-1])
    world.remember()
    world.messages.pop()
    return world


def policy_shown_is_another() -> AttackWorld:
    """Whoever asks is shown a manifest with a wider score window than the one that is in the log."""
    world = queried()
    world.shown_manifest = _signed(world, replace(world.manifest, policy=policy(hi=6400))).encode()
    return world


def policy_changed_after_opening() -> AttackWorld:
    """The window's manifest is entered again with another policy while the window is open."""
    world = queried()
    changed = _signed(world, replace(world.manifest, policy=policy(n_max=9)))
    world.shown_manifest = world.messages[0].encode()
    world.messages.insert(len(world.messages) - 2, changed)
    return world


def reopened_with_the_same_seed() -> AttackWorld:
    """A window that was committed to and abandoned is committed to again, with the seed that it had."""
    world = AttackWorld()
    world.enter_manifest("w0")
    seed = world.manifest.c_seed
    world.commit("w1")
    assert world.manifest.c_seed == seed
    for account in ("alice", "carol", "bob"):
        world.ask(account)
    world.close()
    return world


def opened_twice() -> AttackWorld:
    """A second opening entry with the same beacon, hence the same noise for whatever is asked again."""
    world = queried()
    opening = world.messages[world.at(WindowOpen)]
    world.messages.insert(world.at(WindowOpen) + 1, opening)
    return world


def dated_back() -> AttackWorld:
    """The window's times lie before the moment at which this auditor drew the nonce, by the auditor's own clock."""
    world = queried()
    opening = world.messages[world.at(WindowOpen)]
    assert isinstance(opening, WindowOpen)
    world.drawn[world.digest] = opening.time + 601
    return world


def sealed_again_for_a_better_beacon() -> AttackWorld:
    """The auditor released its nonce for one seal; with the nonce in hand the provider sealed again, and says so."""
    world = AttackWorld()
    world.commit()
    at = world.at(BeaconOpening, 2)
    nonces = [("provider", world.provider_nonce), ("auditor", world.nonces[world.digest])]
    world.messages.insert(at, world.seal_entry("provider", "auditor"))
    world.beacon = beacon_value(world.digest, nonces)
    world.messages[-1] = replace(world.messages[-1], beacon=world.beacon)  # type: ignore[type-var]
    for account in ("alice", "carol", "bob"):
        world.ask(account)
    world.close()
    return world


CHEATS: dict[Callable[[], AttackWorld], tuple[int, str, Removable]] = {
    forked_ledger: (1, "the log was forked", LOG_EXTENDS),
    policy_shown_is_another: (2, "shows a manifest of this window different", MANIFEST_OF_THE_LOG),
    policy_changed_after_opening: (2, "occurs in two manifests: it was opened again", WINDOW_NAME_ONCE),
    reopened_with_the_same_seed: (2, "the seed commitment was used by an earlier window", SEED_ONCE),
    opened_twice: (2, "the window was opened 2 times", OPENED_ONCE),
    sealed_again_for_a_better_beacon: (
        5,
        "was sealed again without observer-1, whose nonce was known",
        SEALED_FOR_BETTER,
    ),
}


@pytest.mark.parametrize("cheat", CHEATS, ids=lambda cheat: cheat.__name__)
def test_windows_that_change(cheat: Callable[[], AttackWorld]) -> None:
    step, message, check = CHEATS[cheat]
    refused(cheat(), step, message, window="w1")
    with without(check):
        accepted(cheat(), window="w1")


def test_a_window_that_is_dated_back() -> None:
    """It never passes; but the clock that it contradicts is the auditor's own, so it does not convict either."""
    undecided(dated_back(), 2, "it is dated back", window="w1")
    with without(NOT_DATED_BACK):
        accepted(dated_back(), window="w1")


def test_a_shrunken_ledger() -> None:
    """It never passes; but an old signed note is one that anybody may have kept, so it does not convict either.

    Without this check the smaller log still does not give the root that was seen: the tree has no such size.
    """
    undecided(shrunken_ledger(), 1, "or the log shrank")
    with without(LOG_GROWS):
        undecided(shrunken_ledger(), 1, "are not in a tree of")


def test_a_fork_told_by_an_accounts_receipt() -> None:
    """One account was answered from a history that the others never see; its receipt carries the proof."""
    world = queried()
    receipts = world.receipts()
    _other_history(world)
    verdict = refused(world, 1, "the log was forked", receipts=receipts[2:])
    assert verdict.failure is not None
    older, newer = (str(verdict.failure.evidence[name]).encode() for name in ("older", "newer"))
    for note in (older, newer):  # two signed notes that no honest log gives, for anybody to check
        open_checkpoint(note, world.signer.verifier)
    with without(LOG_EXTENDS):
        accepted(world, receipts=receipts[2:])


class _TwoFaces:
    """A provider's ledger that shows each observer a history of its own."""

    def __init__(self, world: AttackWorld) -> None:
        self.world = world

    async def checkpoint(self) -> bytes:
        return self.world.checkpoint()

    async def consistency(self, old: int, new: int) -> list[bytes]:
        return MerkleTree(self.world.entries()).consistency(old, new)

    async def entries(self, start: int, count: int) -> list[bytes]:
        return self.world.entries()[start : start + count]

    async def add_cosignature(self, size: int, witness: str, line: str) -> None:
        self.cosigned = size


def _watched(world: AttackWorld, folder: Path, looks: Callable[[Observer], None]) -> None:
    """An observer of this world with a memory in ``folder``."""
    witness = Witness(folder, NoteSigner("watch.example", key_of("watch"), COSIGNATURE))
    remote: Any = _TwoFaces(world)
    try:
        looks(Observer(remote, world.signer.verifier, folder, witness, lambda: 1_800_000_000.0))
    finally:
        witness.close()


def _rewritten(folder: Path) -> AttackWorld:
    """What an observer cosigned is rewritten, and grows; the observer has lost its hashes of the old entries."""
    world = queried()
    last = world.messages.pop()

    def first(observer: Observer) -> None:
        assert asyncio.run(observer.step()).size == len(world.messages)

    folder.mkdir()
    _watched(world, folder, first)
    _other_history(world)
    world.messages.append(last)
    for kept in folder.glob("*.frontier"):
        kept.unlink()
    return world


@pytest.mark.parametrize(
    ("check", "match"),
    [(OBSERVER_CONSISTENCY, "does not prove that it continues"), (OBSERVER_HASHES, "signed other entries before")],
    ids=["consistency_proof", "entries"],
)
def test_an_observer_is_shown_a_rewritten_ledger(tmp_path: Path, check: Removable, match: str) -> None:
    """Two independent checks, each of which alone stops it; without both the rewritten log is cosigned.

    Only the entries convict the log: a proof that fails is nobody's signature.
    """
    other = OBSERVER_HASHES if check is OBSERVER_CONSISTENCY else OBSERVER_CONSISTENCY

    def alarmed(observer: Observer) -> None:
        if check is OBSERVER_CONSISTENCY:
            with pytest.raises(UnprovenError, match=match):
                asyncio.run(observer.step())
            return
        with pytest.raises(AlarmError, match=match) as raised:
            asyncio.run(observer.step())
        for name in ("older.note", "newer.note"):  # two signed notes: enough to convict with the public key alone
            open_checkpoint((raised.value.folder / name).read_bytes(), world.signer.verifier)

    with without(other):
        world = _rewritten(tmp_path / "alarmed")
        _watched(world, tmp_path / "alarmed", alarmed)
        with without(check):
            world = _rewritten(tmp_path / "fooled")

            def fooled(observer: Observer) -> None:
                assert asyncio.run(observer.step()).size == len(world.messages)

            _watched(world, tmp_path / "fooled", fooled)
