# SPDX-License-Identifier: GPL-3.0-or-later
"""An observer in a window's beacon, against a real provider and against what a cheating one would show it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.beacon import PROVIDER, BeaconCommit, BeaconOpening, BeaconSeal, beacon_commitment
from ragseal.kernel.commitment import SignedManifest, WindowOpen
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AttestationError, ConfigurationError, LedgerError
from ragseal.ledger import beacon_place
from ragseal.ledger.beacon_command import take_part
from ragseal.ledger.beacon_place import MOST_ENTRIES, BeaconPlace, Stage
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.observer import Observer
from ragseal.ledger.remote import RemoteBeacon, RemoteLedger
from ragseal.ledger.witness import UnprovenError, Witness
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.storage.journal import read_entries
from ragseal.prover.storage.window import Stage as WindowStage
from ragseal.prover.wire.service import Listening, Server
from ragseal.runtime.rpc import open_channel
from tests.ledger.test_observer import LOG, Peer
from tests.simulator.provider import AUDITOR_KEY, NOW, Participant, make_policy, open_provider

pytestmark = pytest.mark.slow

KEY = Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x07")
NONCE = b"\x05" * 32


def place(path: Path, now: float = NOW, name: str = "ours") -> BeaconPlace:
    return BeaconPlace(path / "beacon.json", name, KEY, lambda count: NONCE[:count], lambda: now)


@contextmanager
def observer(path: Path, remote: Any, log: Any, own: BeaconPlace | None) -> Iterator[Observer]:
    witness = Witness(path, NoteSigner("o.example", KEY, COSIGNATURE))
    try:
        yield Observer(remote, log, path, witness, lambda: NOW, place=own)
    finally:
        witness.close()


@pytest.mark.parametrize("followed_before", [False, True])
def test_a_window_opens_with_the_observers_nonce(tmp_path: Path, followed_before: bool) -> None:
    """It commits, waits for the seal and the provider's nonce, and opens; so do its restarts."""
    folder = tmp_path / "o"
    folder.mkdir()

    async def run() -> None:
        provider = open_provider(tmp_path / "p")
        provider.commit(make_policy(), "w1")
        rules = BeaconRules(2, 20.0, {"ours": signature.public_bytes(KEY)})
        server = Server(provider, ServeOptions(False, 0.0, rules, publish=0), Listening("127.0.0.1:0"))
        await server.start()
        try:
            async with open_channel(server.address) as channel:
                remote, entrance = RemoteLedger(channel), RemoteBeacon(channel)
                if followed_before:  # its frontier is behind the manifest already, and nothing of it is known
                    with observer(folder, remote, log_key(provider), None) as follower:
                        await follower.step()
                window = provider.journal.history.named("")
                auditor = Participant("auditor", window.digest, AUDITOR_KEY)
                await entrance.commit(auditor.commit().encode())
                said = ""
                for _ in range(200):  # a new process each time
                    said = await part(folder, remote, log_key(provider), entrance, said)
                    if PROVIDER in window.openings and "observer-ours" in window.openings:
                        break
                    await asyncio.sleep(0.02)
                await entrance.open(auditor.open().encode())
                assert window.stage is WindowStage.OPEN
                assert tuple(window.openings) == (PROVIDER, "observer-ours", "auditor")
                assert window.openings["observer-ours"] == NONCE
                said = await part(folder, remote, log_key(provider), entrance, said)
                assert said == f"window w1: {Stage.OPENED.value}"
        finally:
            await server.stop()
            provider.close()

    asyncio.run(run())


async def part(folder: Path, remote: Any, log: Any, entrance: RemoteBeacon, said: str) -> str:
    own = place(folder)
    with observer(folder, remote, log, own) as follower:
        return await take_part(follower, own, entrance, said)


def log_key(provider: Provider) -> Any:
    return provider.state.log_key


@pytest.fixture(scope="module")
def signed(tmp_path_factory: pytest.TempPathFactory) -> tuple[SignedManifest, Ed25519PrivateKey, bytes]:
    """A real manifest, its window's key, and the provider's nonce."""
    provider = open_provider(tmp_path_factory.mktemp("p") / "p")
    provider.commit(make_policy(), "w1")
    entry = next(e for e in read_entries(provider.ledger) if BeaconPlace.wants(e))
    secrets = provider.window_secrets(provider.journal.history.named("").digest)
    provider.close()
    return SignedManifest.decode(entry), secrets.key, secrets.nonce  # type: ignore[return-value]


Shown = Callable[..., list[bytes]]


@pytest.fixture
def shown(signed: tuple[SignedManifest, Ed25519PrivateKey, bytes]) -> Shown:
    """Entries from the manifest on."""

    def entries(*messages: Message) -> list[bytes]:
        return [one.encode() for one in (signed[0], *messages)]

    return entries


def seal(
    signed: tuple[SignedManifest, Ed25519PrivateKey, bytes], owners: Sequence[str], key: Ed25519PrivateKey | None = None
) -> BeaconSeal:
    plain = BeaconSeal(signed[0].manifest.digest(), tuple(owners), bytes(64))
    return replace(plain, signature=signature.sign(key or signed[1], "beacon-seal", plain.body()))


def committed(own: BeaconPlace, entries: list[bytes]) -> BeaconCommit:
    own.take(0, entries, len(entries))
    stage, _, commit = own.due()
    assert stage is Stage.COMMITTED
    assert isinstance(commit, BeaconCommit)
    return commit


def test_it_opens_behind_the_seal_and_the_providers_nonce_alone(tmp_path: Path, signed: Any, shown: Shown) -> None:
    """A nonce that is known before the seal stands lets the provider choose who takes part."""
    digest = signed[0].manifest.digest()
    own = place(tmp_path)
    commit = committed(own, shown())
    commit.verify()
    ours, first = seal(signed, ("provider", commit.owner, "auditor")), BeaconOpening(digest, PROVIDER, signed[2])

    def due(*messages: Message) -> tuple[Stage, Any]:
        own.take(0, shown(commit, *messages), 9)
        stage, _, message = own.due()
        return stage, message

    assert due() == (Stage.COMMITTED, None)
    assert due(ours) == (Stage.COMMITTED, None)
    assert due(first) == (Stage.COMMITTED, None)
    opening = BeaconOpening(digest, commit.owner, NONCE)
    assert due(ours, first) == (Stage.COMMITTED, opening)
    assert due(ours, first, opening) == (Stage.OPENED, None)
    assert due(seal(signed, ("provider", "auditor")), first) == (Stage.LEFT_OUT, None)
    with pytest.raises(AttestationError, match="beacon-seal signature"):
        due(seal(signed, ("provider", commit.owner, "auditor"), KEY), first)
    with pytest.raises(LedgerError, match="had not committed to"):
        due(ours, replace(first, nonce=bytes(32)))


def test_what_is_not_the_log_is_not_looked_at(tmp_path: Path, signed: Any, shown: Shown) -> None:
    """Entries without the signed root: a nonce could be had for a seal that stands in no log."""
    peer = Peer(3)
    peer.entries_signed += shown()
    own = place(tmp_path)
    with observer(tmp_path, peer, LOG.verifier, own) as follower:
        _shown_beside_the_log(own, follower, peer, signed)


def _shown_beside_the_log(own: BeaconPlace, follower: Observer, peer: Peer, signed: Any) -> None:
    asyncio.run(follower.step())
    commit = own.due()[2]
    assert isinstance(commit, BeaconCommit)
    first = BeaconOpening(signed[0].manifest.digest(), PROVIDER, signed[2])
    forged = [commit.encode(), seal(signed, ("provider", commit.owner, "auditor")).encode(), first.encode()]
    peer.shown = peer.entries_signed + forged
    peer.grow(3)
    with pytest.raises(UnprovenError, match="do not give the root"):
        asyncio.run(follower.step())
    assert own.due()[2] == commit, "what was shown beside the log is forgotten"
    peer.entries_signed[-3:], peer.shown = forged, None
    asyncio.run(follower.step())
    assert isinstance(own.due()[2], BeaconOpening)


def test_a_nonce_is_kept_before_it_is_committed_to_and_never_drawn_twice(
    tmp_path: Path, shown: Shown, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit = committed(place(tmp_path), shown())
    again = BeaconPlace(tmp_path / "beacon.json", "ours", KEY, lambda count: b"\x06" * count, lambda: NOW)
    assert again.due()[2] == commit
    (tmp_path / "beacon.json").unlink()
    lost = place(tmp_path)
    other = replace(commit, commitment=beacon_commitment(commit.owner, b"\x06" * 32))
    lost.take(0, shown(other), 2)
    assert lost.due() == (Stage.TAKEN, "w1", None)

    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    (tmp_path / "beacon.json").unlink()
    fresh = place(tmp_path)
    fresh.take(0, shown(), 1)
    monkeypatch.setattr(beacon_place, "write_durably", full)
    for _ in range(2):  # the next look must not take for kept what the disk refused
        with pytest.raises(LedgerError, match="cannot write"):
            fresh.due()
    monkeypatch.undo()
    assert isinstance(sent := fresh.due()[2], BeaconCommit)
    assert place(tmp_path).due()[2] == sent, "what is sent stands in the file"


def test_too_late_is_said_and_nothing_committed(tmp_path: Path, signed: Any, shown: Shown) -> None:
    over = place(tmp_path, now=float(signed[0].manifest.policy.opens_by))
    over.take(0, shown(), 1)
    assert over.due() == (Stage.LATE, "w1", None)
    own = place(tmp_path)
    for last in (seal(signed, ("provider", "auditor")), WindowOpen(signed[0].manifest.digest(), 1, NOW)):
        own.take(0, shown(last), 2)
        assert own.due() == (Stage.LEFT_OUT, "w1", None)
    own.take(0, [], 0)
    assert own.due() == (Stage.NOTHING, "", None)


def test_a_newer_window_takes_the_place_of_the_one_before(tmp_path: Path, signed: Any, shown: Shown) -> None:
    own = place(tmp_path)
    commit = committed(own, shown())
    forged = replace(signed[0], manifest=replace(signed[0].manifest, window="w2"))
    own.take(1, [commit.encode(), forged.encode()], 3)
    with pytest.raises(AttestationError):  # the provider did not sign it
        own.due()


def test_too_many_entries_of_one_window_do_not_hold_up_the_next(tmp_path: Path, signed: Any, shown: Shown) -> None:
    """Nor is more of them kept than one beyond what a beacon can have, in one look or in several."""
    own = place(tmp_path)
    commit = committed(own, shown())
    size = 3
    for count in (MOST_ENTRIES, 1, 3 * MOST_ENTRIES):
        own.take(size, [commit.encode()] * count, size + count)
        size += count
        with pytest.raises(LedgerError, match=f"more than {MOST_ENTRIES} entries"):
            own.due()
        with pytest.raises(LedgerError, match=f"more than {MOST_ENTRIES} entries"):
            place(tmp_path).due()  # a restart
    assert len(json.loads((tmp_path / "beacon.json").read_text())["entries"]) == MOST_ENTRIES + 1
    own.take(size, [commit.encode(), signed[0].encode()], size + 2)
    assert own.due()[0] is Stage.COMMITTED


def test_a_damaged_memory_and_one_of_another_name_are_refused(tmp_path: Path, shown: Shown) -> None:
    committed(place(tmp_path), shown())
    with pytest.raises(ConfigurationError, match="take part --as ours"):
        place(tmp_path, name="other")
    with pytest.raises(ConfigurationError, match="needs a name"):
        place(tmp_path / "none", name="")
    path = tmp_path / "beacon.json"
    for damage in (
        "",
        "[]",
        "{}",
        json.dumps({"owner": "observer-ours", "size": 1, "nonces": {"a": 1}, "entries": []}),
    ):
        path.write_text(damage)
        with pytest.raises(ConfigurationError, match="is damaged"):
            place(tmp_path)
