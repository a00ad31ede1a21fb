# SPDX-License-Identifier: GPL-3.0-or-later
"""The observer against honest, forking, shrinking and lying logs; evidence must convict with the public key alone."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import AuditError, BudgetError, LedgerError, TransportError
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.merkle import MerkleTree, verify_consistency
from ragseal.ledger.note import COSIGNATURE, Note, NoteSigner
from ragseal.ledger.observer import AlarmError, Observer
from ragseal.ledger.policy import Policy
from ragseal.ledger.witness import UnprovenError, Witness

LOG = NoteSigner("log.example/w", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x01"))
KEY = NoteSigner("w.example", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x02"), COSIGNATURE)
WRONG = b"A" * 43 + b"=\n"


class Peer:
    """A log that says whatever ``entries`` and ``shown`` hold: signed are the former, served the latter."""

    def __init__(self, count: int, text: str = "entry") -> None:
        self.entries_signed = [f"{text} {i}".encode() for i in range(count)]
        self.shown: list[bytes] | None = None
        self.cosigned: list[tuple[int, str, str]] = []
        self.down = self.silent = False
        self.asked: list[tuple[int, int]] = []

    def grow(self, count: int) -> None:
        self.entries_signed += [f"more {i}".encode() for i in range(count)]

    async def checkpoint(self) -> bytes:
        if self.down:
            raise TransportError("down")
        return Checkpoint(LOG.name, len(self.entries_signed), MerkleTree(self.entries_signed).root()).sign(LOG)

    async def consistency(self, old: int, new: int) -> list[bytes]:
        if self.silent:
            raise LedgerError("no")
        return MerkleTree(self.entries_signed).consistency(old, new)

    async def rotations(self) -> list[bytes]:
        return []

    async def entries(self, start: int, count: int) -> list[bytes]:
        self.asked.append((start, count))
        return (self.shown or self.entries_signed)[start : start + count][:3]

    async def add_cosignature(self, size: int, witness: str, line: str) -> None:
        self.cosigned.append((size, witness, line))


class Bench:
    def __init__(self, directory: Path) -> None:
        self.directory, self.now = directory, 1_700_000_000
        self.open()

    def open(self) -> None:
        self.witness = Witness(self.directory, KEY)

    def restart(self) -> None:
        self.witness.close()
        self.open()

    def observer(self, peer: Peer) -> Observer:
        remote: Any = peer
        return Observer(remote, LOG.verifier, self.directory, self.witness, lambda: self.now)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path / "state")


@pytest.mark.asyncio
async def test_an_honest_log_is_followed_and_cosigned(bench: Bench) -> None:
    peer = Peer(5)
    first = await bench.observer(peer).step()
    assert (first.first_contact, first.size, first.new_entries, first.delivered) == (True, 5, 5, True)
    peer.grow(4)
    bench.now += 60
    bench.restart()
    peer.asked.clear()
    seen: list[tuple[int, int]] = []
    second = await bench.observer(peer).step(lambda done, total: seen.append((done, total)))
    assert (second.first_contact, second.size, second.new_entries) == (False, 9, 4)
    assert peer.asked == [(5, 4), (8, 1)]  # only what is new is fetched
    assert seen == [(8, 9), (9, 9)]
    assert [size for size, _, _ in peer.cosigned] == [5, 9]
    status = bench.observer(peer).status()
    assert status is not None
    assert (status.consistent_since, status.last_checked, status.size, status.alarm) == (
        1_700_000_000,
        1_700_000_060,
        9,
        "",
    )


@pytest.mark.asyncio
async def test_an_empty_log_needs_no_proof_that_it_grew(bench: Bench) -> None:
    peer = Peer(0)
    assert (await bench.observer(peer).step()).size == 0
    peer.grow(2)
    peer.silent = True
    for _ in range(2):  # nor does one that did not grow
        assert (await bench.observer(peer).step()).size == 2


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("error", "said"),
    [(BudgetError("too soon"), "not now, the next look brings another (too soon)"), (LedgerError("no"), "no")],
)
async def test_a_cosignature_that_the_log_does_not_take_is_told(bench: Bench, error: AuditError, said: str) -> None:
    peer = Peer(2)

    async def refuses(size: int, witness: str, line: str) -> None:
        raise error

    peer.add_cosignature = refuses  # type: ignore[method-assign]
    step = await bench.observer(peer).step()
    assert (step.size, step.delivered, step.delivery) == (2, False, said)


@pytest.mark.asyncio
async def test_an_unreachable_log_is_no_alarm(bench: Bench) -> None:
    peer = Peer(5)
    await bench.observer(peer).step()
    peer.down = True
    with pytest.raises(TransportError):
        await bench.observer(peer).step()
    assert bench.observer(peer).alarm() is None


def fork(peer: Peer) -> None:
    peer.entries_signed[1] = b"rewritten"


def fork_and_grow(peer: Peer) -> None:
    peer.entries_signed[1] = b"rewritten"
    peer.grow(3)


def shrink(peer: Peer) -> None:
    del peer.entries_signed[3:]


def refuse(peer: Peer) -> None:
    peer.grow(3)
    peer.silent = True


def serve_others(peer: Peer) -> None:
    peer.grow(3)
    peer.shown = [*peer.entries_signed[:6], b"not what was signed", *peer.entries_signed[7:]]


@pytest.mark.asyncio
@pytest.mark.parametrize(("cheat", "kind"), [(fork, "fork"), (fork_and_grow, "rewritten")])
async def test_cheating_raises_an_alarm_that_stands(bench: Bench, cheat: Callable[[Peer], None], kind: str) -> None:
    peer = Peer(5)
    await bench.observer(peer).step()
    cheat(peer)
    with pytest.raises(AlarmError) as caught:
        await bench.observer(peer).step()
    folder = caught.value.folder
    about = json.loads((folder / "alarm.json").read_text())
    assert about["kind"] == kind
    older = open_checkpoint((folder / "older.note").read_bytes(), LOG.verifier).checkpoint
    newer = open_checkpoint((folder / "newer.note").read_bytes(), LOG.verifier).checkpoint
    assert older.size == 5
    assert (newer.size, newer.root) != (older.size, older.root)
    with pytest.raises(LedgerError):
        verify_consistency(older.size, newer.size, [], older.root, newer.root)
    assert [size for size, _, _ in peer.cosigned] == [5]
    status = bench.observer(peer).status()
    assert status is not None
    assert folder.name in status.alarm
    honest = Peer(5)
    bench.restart()
    with pytest.raises(AlarmError, match="an alarm is standing"):
        await bench.observer(honest).step()
    folder.rename(bench.directory.parent / "dealt-with")
    assert (await bench.observer(honest).step()).size == 5


def spoil(peer: Peer) -> None:
    """A proof that somebody in between has changed."""
    peer.grow(3)
    honest = peer.consistency

    async def changed(old: int, new: int) -> list[bytes]:
        return [bytes(32), *(await honest(old, new))[1:]]

    peer.consistency = changed  # type: ignore[method-assign]


@pytest.mark.asyncio
@pytest.mark.parametrize(
    ("trouble", "said"),
    [
        (shrink, "shows an older checkpoint of 3 entries"),
        (refuse, "no proof that it only grew"),
        (spoil, "does not prove that it continues"),
        (serve_others, "do not give the root"),
    ],
)
async def test_what_anybody_in_between_can_bring_about_is_no_alarm(
    bench: Bench, trouble: Callable[[Peer], None], said: str
) -> None:
    """A replayed note, a busy log, a spoiled proof, wrong entries: nothing is cosigned, and the next look is free."""
    peer = Peer(5)
    await bench.observer(peer).step()
    trouble(peer)
    with pytest.raises(UnprovenError, match=said):
        await bench.observer(peer).step()
    assert bench.observer(peer).alarm() is None
    assert [size for size, _, _ in peer.cosigned] == [5]
    status = bench.observer(peer).status()
    assert status is not None
    assert said in status.trouble
    assert not status.alarm
    honest = Peer(5)
    honest.grow(4)
    assert (await bench.observer(honest).step()).size == 9
    status = bench.observer(honest).status()
    assert status is not None
    assert not status.trouble


@pytest.mark.asyncio
async def test_wrong_entries_are_found_at_first_contact_too(bench: Bench) -> None:
    peer = Peer(5)
    peer.shown = [b"other"] * 5
    with pytest.raises(UnprovenError, match="do not give the root"):
        await bench.observer(peer).step()
    assert not peer.cosigned


@pytest.mark.asyncio
@pytest.mark.parametrize("damage", [b"", b"junk", b"5\nAAAA\n", b"99\n", b"5\n" + WRONG + WRONG, None])
async def test_a_lost_or_damaged_frontier_costs_time_only(bench: Bench, damage: bytes | None) -> None:
    peer = Peer(5)
    await bench.observer(peer).step()
    frontier = next(bench.directory.glob("*.frontier"))
    if damage is None:
        frontier.unlink()
    else:
        frontier.write_bytes(damage)
    peer.grow(2)
    peer.asked.clear()
    assert (await bench.observer(peer).step()).size == 7
    assert peer.asked[0][0] == 0


@pytest.mark.asyncio
async def test_old_entries_served_differently_are_found_when_hashed_again(bench: Bench) -> None:
    peer = Peer(5)
    await bench.observer(peer).step()
    next(bench.directory.glob("*.frontier")).unlink()
    peer.grow(2)
    peer.shown = [b"changed", *peer.entries_signed[1:]]
    with pytest.raises(UnprovenError, match="do not give the root"):
        await bench.observer(peer).step()


@pytest.mark.asyncio
async def test_under_a_policy_only_what_a_quorum_cosigned_is_followed(bench: Bench) -> None:
    other = NoteSigner("other.example", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x07"), COSIGNATURE)
    policy = Policy.parse(f"witness o {other.verifier.vkey()}\nquorum o\n".encode())

    class Witnessed(Peer):
        note: bytes | None = None

        async def cosigned(self) -> bytes | None:  # type: ignore[override]
            return self.note

        async def add_cosignature(self, size: int, witness: str, line: str) -> None:
            self.taken = size

    peer = Witnessed(5)
    del peer.__dict__["cosigned"]
    remote: Any = peer
    observer = Observer(remote, LOG.verifier, bench.directory, bench.witness, lambda: bench.now, policy)
    with pytest.raises(UnprovenError, match="no witness has cosigned"):
        await observer.step()
    peer.note = await peer.checkpoint()
    with pytest.raises(UnprovenError, match="not the quorum 'o'"):
        await observer.step()
    assert observer.remembered() is None
    found = Note.parse(peer.note)
    peer.note = found.with_signatures([other.sign(found.text, 1000)]).encode()
    peer.grow(4)
    assert (await observer.step()).size == 5  # the newest has no quorum yet
    assert peer.taken == 5
    found = Note.parse(await peer.checkpoint())
    peer.note = found.with_signatures([other.sign(found.text, 1010)]).encode()
    bench.now += 10
    assert (await observer.step()).size == 9
    peer.note = found.with_signatures([other.sign("spoiled\n", 1010)]).encode()
    with pytest.raises(LedgerError, match="does not verify"):
        await observer.step()
