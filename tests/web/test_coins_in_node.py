# SPDX-License-Identifier: GPL-3.0-or-later
"""Coins, as the browser's checks see them: a provider that thins its indices otherwise signs a log that says so.

A real window with coins is published; then the log names another file for one tenant, and is signed anew.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.beacon import BeaconOpening, beacon_value
from ragseal.kernel.commitment import BeaconSeal, SignedManifest, Thinning, WindowClose
from ragseal.kernel.emptied import EmptiedFile
from ragseal.kernel.proofs import ProofBatch
from ragseal.kernel.thinning import ThinnedFile
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteSigner
from ragseal.ledger.proof_files import columns_path, write_files
from ragseal.prover.commitment.window_secrets import thinned_index, window_index
from ragseal.prover.serving import publishing
from tests.attacks.test_coins_of_a_period import window
from tests.simulator import OPENS
from tests.simulator.coined import CoinedWorld
from tests.simulator.entries import beacon_seal
from tests.simulator.live import live
from tests.simulator.ticking import Ticking, ticking
from tests.web.published import NODE, Published, Said, export_log
from tests.web.test_window_in_node import links_swapped, other_response

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]


@dataclass
class Log:
    """A log as the observer exports it."""

    signer: NoteSigner
    all: list[bytes]

    def entries(self) -> list[bytes]:
        return self.all

    def checkpoint(self) -> bytes:
        return Checkpoint(self.signer.name, len(self.all), MerkleTree(self.all).root()).sign(self.signer)


@dataclass
class Scene:
    folder: Path
    log: Log
    files: list[ThinnedFile]  #: of every tenant, in the log's order

    def published(self) -> Published:
        made: Any = self.log
        export_log(made, self.folder)
        return Published(self.folder, self.log.signer.verifier.vkey())


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Scene:
    folder = tmp_path_factory.mktemp("coins")
    with live(folder / "scene", coins=True) as provider:
        with provider.client() as client:
            client.ask("report about topic 5")
        provider.call(provider.server.serving.turn(provider.window))
        tools, window = provider.provider, provider.window
        publishing.export(tools, provider.server.serving.proofs, folder / "public", "", lambda *_: None)
        assert window.thinning is not None
        files = [thinned_index(tools.state, window.digest, one.tenant) for one in window.thinning.tenants]
        entries = [tools.ledger.entry(index) for index in range(tools.ledger.size)]
        log = Log(tools.state.log_signer, entries)
    return Scene(folder / "public", log, [ThinnedFile.decode(file) for file in files])


@pytest.fixture
def scene(made: Scene) -> Scene:
    """The honest window; the files of a forgery are named by their own digests, so nothing honest is replaced."""
    return replace(made, log=Log(made.log.signer, list(made.log.all)))


def thinning_at(scene: Scene) -> int:
    return next(at for at, entry in enumerate(scene.log.all) if entry.startswith(b"\x08thinning"))


def shard_of(own: ThinnedFile, **changes: Any) -> ThinnedFile:
    """With its first shard changed."""
    first, *others = own.shards
    return replace(own, shards=(replace(first, **changes), *others))


def shown_of(own: ThinnedFile, **changes: Any) -> ThinnedFile:
    """With what its first shard shows of coins changed."""
    return shard_of(own, shown=replace(own.shards[0].shown, **changes))


FORGERIES: dict[str, tuple[Callable[[ThinnedFile, ThinnedFile], ThinnedFile], str]] = {
    "the proof of another tenant": (
        lambda own, other: shown_of(own, proof=other.shards[0].shown.proof),
        "the proof that hidden slots are empty does not hold",
    ),
    "the scores of another tenant": (
        lambda own, other: shard_of(own, scores=other.shards[0].scores),
        "the proof that hidden slots are empty does not hold",
    ),
    "another opening of slots": (
        lambda own, other: shown_of(own, slots=other_response(own.shards[0].shown.slots)),
        "a proof of opening does not hold",
    ),
    "another opening of hints": (
        lambda own, other: shown_of(own, hints=other_response(own.shards[0].shown.hints)),
        "a proof of opening does not hold",
    ),
    "a commitment to coins less": (
        lambda own, other: shown_of(
            own, points=replace(own.shards[0].shown.points, coins=own.shards[0].shown.points.coins[:1])
        ),
        "each over 2 keys' points, are expected",
    ),
    "another opening": (
        lambda own, other: replace(own, opening=other_response(own.opening)),
        "a proof of opening does not hold",
    ),
}


def test_the_honest_window_holds(scene: Scene) -> None:
    said = scene.published().check()
    assert (said.state, said.proven) == ("good", 1)
    assert said.of("good")["columns"].endswith("the slots that the coins hide are empty in them, and no others")


@pytest.mark.parametrize("name", FORGERIES)
def test_an_index_that_is_thinned_otherwise_is_seen(name: str, scene: Scene) -> None:
    forge, match = FORGERIES[name]
    at = thinning_at(scene)
    entry = Thinning.decode(scene.log.all[at])
    forged = forge(scene.files[0], scene.files[1])
    kept = (scene.folder / columns_path(forged.columns_digest())).read_bytes()
    lines = (forged.entry(entry.tenants[0].tenant), *entry.tenants[1:])
    scene.log.all[at] = replace(entry, tenants=lines).encode()
    write_files(scene.folder, {columns_path(forged.columns_digest()): forged.encode()})
    try:
        said = scene.published().check()
    finally:
        write_files(scene.folder, {columns_path(forged.columns_digest()): kept})
    assert list(said.bad) == ["columns"], said.lines
    assert match in said.bad["columns"]


def test_a_thinning_before_the_beacon_is_complete_is_seen(scene: Scene) -> None:
    at = thinning_at(scene)
    scene.log.all.insert(at - 1, scene.log.all.pop(at))
    said = scene.published().check()
    assert "thinned before the beacon was complete" in said.bad["index versions"]


# --- in the log alone: a key that stands for one is in no file, and these end before it is looked for -----------------


def logged(world: CoinedWorld, folder: Path) -> Said:
    export_log(world, folder)
    return Published(folder, world.signer.verifier.vkey()).check()


def left_out(late: bool) -> CoinedWorld:
    """An observer commits, is left out by a second seal, and opens all the same: before the thinning, or behind it."""
    world = CoinedWorld()
    world.commit()
    nonces = {one.owner: one.nonce for one in world.messages if isinstance(one, BeaconOpening)}
    opening = world.messages.pop(world.at(BeaconOpening, 1))
    owners = ("provider", "auditor")
    world.messages.insert(world.at(BeaconSeal) + 1, beacon_seal(world.digest, owners, world.window_key))
    world.messages.insert(world.at(Thinning) + late, opening)
    beacon = beacon_value(world.digest, [(owner, nonces[owner]) for owner in owners])
    world.messages[-1] = replace(world.messages[-1], beacon=beacon)  # type: ignore[type-var]
    return world


@pytest.mark.parametrize("late", [False, True])
def test_a_thinning_before_any_opening_is_seen(late: bool, tmp_path: Path) -> None:
    """As the auditor has it, also where the nonce does not count."""
    said = logged(left_out(late), tmp_path)
    assert list(said.bad) == (["index versions"] if late else []), said.lines
    assert not late or "thinned before the beacon was complete" in said.bad["index versions"]


def carried(*, signed: bool = True, **changes: Any) -> CoinedWorld:
    """A window that carries on the coins of one whose manifest is unsigned, or has ``changes``."""
    world = CoinedWorld()
    window(world, 0)
    at = world.at(SignedManifest)
    if changes:
        world.messages.clear()
        world.commit("w0", policy_=world.manifest.policy, **changes)
        world.messages.append(WindowClose(world.digest, 0, OPENS + 600))
    if not signed:
        world.messages[at] = replace(world.messages[at], signature=bytes(64))  # type: ignore[type-var]
    window(world, 1, carries=world.digest)
    return world


def test_coins_are_carried_on_of_a_signed_manifest_of_this_log(tmp_path: Path) -> None:
    assert logged(carried(), tmp_path / "honest").bad == {}
    unsigned = logged(carried(signed=False), tmp_path / "unsigned")
    assert unsigned.bad == {"manifest": "the manifest signature does not hold"}
    tenants = carried().manifest.tenants
    others: dict[str, dict[str, Any]] = {
        "origin": {"origin": "other.example/log"}, "log": {"log": bytes(32)}, "tenants": {"tenants": tenants[:1]},
    }  # fmt: skip
    for name, changes in others.items():
        said = logged(carried(**changes), tmp_path / name)
        assert said.bad == {"manifest": "the manifest carries on coins that are not its own to carry on"}, name
    more = (*tenants, replace(tenants[1], tenant="west"))
    assert logged(carried(tenants=more), tmp_path / "a tenant left").bad == {}


@pytest.mark.parametrize(
    ("before", "holds"),
    [({"class_digest": bytes(32)}, True), ({"shards": 2}, True), ({"class_digest": bytes(32), "shards": 2}, False)],
)
def test_coins_are_not_carried_on_to_shards_of_another_size(
    before: dict[str, Any], holds: bool, tmp_path: Path
) -> None:
    """A slot's coin is of its shard and its place there."""
    world = CoinedWorld()
    window(world, 0, **before)
    window(world, 1, carries=world.digest)
    said = logged(world, tmp_path)
    assert said.bad == ({} if holds else {"manifest": "the manifest carries on coins that are not its own to carry on"})


# A live index, as the browser's checks see it: records over several versions, with coins and without.


def asked(made: Ticking) -> None:
    """One record over each of two versions, a document between them, and a version that no record is over."""
    with made.client() as client:
        client.ask("report about topic 5")
        made.put(("new", "a new report about topic 5"))
        made.tick()
        client.ask("something else")
    made.tick()
    made.end_window()


def log_of(made: Ticking) -> Log:
    ledger = made.provider.ledger
    return Log(made.provider.state.log_signer, [ledger.entry(at) for at in range(ledger.size)])


def published(made: Ticking, log: Log, folder: Path) -> Published:
    publishing.export(made.provider, made.server.serving.proofs, folder, "", lambda *_: None)
    export_log(log, folder)  # type: ignore[arg-type]
    return Published(folder, made.log_key)


@pytest.mark.parametrize("coins", [False, True], ids=["every-list", "until-delivered"])
def test_records_over_several_versions_hold(coins: bool, tmp_path: Path) -> None:
    with ticking(tmp_path / "scene", coins=coins) as made:
        asked(made)
        files = published(made, log_of(made), tmp_path / "public")
        said = files.check()
        assert (said.state, said.proven) == ("good", 2), said.lines
        batch = files.only("proofs/*/0.bin")
        kept = ProofBatch.decode(batch.read_bytes())
        assert [link.number for link in kept.links] == [1, 2]
        batch.write_bytes(links_swapped(kept).encode())
        assert list(files.check().bad) == ["openings"]


def test_a_version_whose_hidden_slots_are_not_shown_to_be_empty(tmp_path: Path) -> None:
    with ticking(tmp_path / "scene", coins=True) as made:
        asked(made)
        log = log_of(made)
        at, update = made.window.updates[-1]
        data = [
            window_index(made.provider.state, made.window.digest, one.tenant, update.number) for one in update.tenants
        ]
        own, other = map(EmptiedFile.decode, data)
        line, shard = update.tenants[0], own.shards[0]
        shown = shard.shown
        files = published(made, log, tmp_path / "public")
        for forged, why in (
            (
                replace(own, shards=(replace(shard, shown=replace(shown, slots=other_response(shown.slots))),)),
                "a proof of opening does not hold",
            ),
            (
                replace(own, shards=(replace(shard, shown=replace(shown, hints=other_response(shown.hints))),)),
                "a proof of opening does not hold",
            ),
            (
                replace(own, shards=(replace(shard, shown=replace(shown, proof=other.shards[0].shown.proof)),)),
                "the proof that hidden slots are empty does not hold",
            ),
        ):
            entry = forged.entry(line.tenant, line.text_root)
            log.all[at] = replace(update, tenants=(entry, *update.tenants[1:])).encode()
            export_log(log, files.folder)  # type: ignore[arg-type]
            (files.folder / columns_path(line.columns_digest)).write_bytes(forged.encode())
            said = files.check()
            assert list(said.bad) == ["columns"], said.lines
            assert why in said.bad["columns"]
