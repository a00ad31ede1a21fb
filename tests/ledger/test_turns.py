# SPDX-License-Identifier: GPL-3.0-or-later
"""Observers, exporters and witness policies across turns of a log's key.  SPEC G.6.13."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.kernel.rotation import MAX_TURNS, Rotation
from ragseal.kernel.verdict import log_digest
from ragseal.ledger import learning, observer, witness
from ragseal.ledger.checkpoint import Checkpoint, open_checkpoint
from ragseal.ledger.entries import describe
from ragseal.ledger.log import Log
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import COSIGNATURE, Note, NoteSigner
from ragseal.ledger.observer import AlarmError, Observer
from ragseal.ledger.policy import Policy
from ragseal.ledger.published import PublicLog
from ragseal.ledger.tiles import TileFolder
from ragseal.ledger.turns import LogKey, TurnedTwiceError, TurnError, TurnProof, follow, read_turn, turns_in
from ragseal.ledger.witness import UnprovenError, Witness
from tests.attacks.checks import without
from tests.attacks.removal import Check

ORIGIN = "log.example/w"


def signer(number: int) -> NoteSigner:
    return NoteSigner(ORIGIN, Ed25519PrivateKey.from_private_bytes(bytes(31) + bytes([number])))


FIRST, SECOND, THIRD = (signer(number) for number in (1, 2, 3))
OWN = NoteSigner("w.example", Ed25519PrivateKey.from_private_bytes(bytes(31) + b"\x09"), COSIGNATURE)


class Peer:
    """A log, as whoever serves it shows it."""

    def __init__(self, log: Log) -> None:
        self.log, self.newest, self.cosigned_note = log, log.checkpoint, b""

    async def checkpoint(self) -> bytes:
        return self.newest()

    async def rotations(self) -> list[bytes]:
        return [proof.encode() for proof in self.log.turns()]

    async def cosigned(self) -> bytes | None:
        return self.cosigned_note or None

    async def consistency(self, old: int, new: int) -> list[bytes]:
        return self.log.consistency(old, new)

    async def entries(self, start: int, count: int) -> list[bytes]:
        return self.log.entries(start, count)[:3]

    async def add_cosignature(self, size: int, witness: str, line: str) -> None: ...


class Bench:
    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.log = self.make("log")
        self.peer: Any = Peer(self.log)
        self.witness = Witness(folder / "state", OWN)
        self.now = 1_700_000_000

    def make(self, name: str, text: bytes = b"entry") -> Log:
        made = Log.create(self.folder / name, FIRST)
        grow(made, 4, text)
        return made

    def observer(self, policy: Policy | None = None) -> Observer:
        """As in a fresh process."""
        self.now += 5
        return Observer(self.peer, FIRST.verifier, self.folder / "state", self.witness, lambda: self.now, policy)


def grow(log: Log, count: int, text: bytes = b"entry") -> None:
    log.append_now([lambda index: text + b" %d" % index] * count)


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.log.close()
    made.witness.close()


@pytest.mark.asyncio
@pytest.mark.parametrize("overlap", [0, 3])
async def test_an_observer_follows_turns_by_itself(bench: Bench, overlap: int) -> None:
    await bench.observer().step()
    bench.log.rotate(SECOND, overlap)
    grow(bench.log, 5)
    assert (await bench.observer().step()).size == 10
    bench.log.rotate(THIRD)
    grow(bench.log, 1)
    step = await bench.observer().step()
    assert (step.size, step.new_entries) == (12, 2)
    again = bench.observer()
    assert again.log == bench.log.verifier, "kept beside its memory"
    assert again.remembered() is not None


@pytest.mark.asyncio
async def test_an_observer_that_comes_after_the_turns_is_given_the_first_key(bench: Bench) -> None:
    for one in (SECOND, THIRD):
        bench.log.rotate(one)
    grow(bench.log, 2)
    assert (await bench.observer().step()).first_contact


@pytest.mark.asyncio
@pytest.mark.parametrize("knowing", [False, True])
async def test_an_observer_takes_no_note_of_the_old_key_alone(bench: Bench, knowing: bool) -> None:
    await bench.observer().step()
    bench.log.rotate(SECOND, overlap=100)
    grow(bench.log, 2)
    if knowing:
        await bench.observer().step()
        grow(bench.log, 1)
    bench.peer.newest = lambda: _only(bench.log.checkpoint(), 0)
    with pytest.raises(LedgerError):
        await bench.observer().step()
    with without(Check(observer, "refuse_unknown_turn")), without(Check(LogKey, "at", lambda key, size: key.first)):
        await bench.observer().step()
    bench.peer.newest = bench.log.checkpoint
    assert bench.observer().alarm() is None


def _only(note: bytes, line: int) -> bytes:
    parsed = Note.parse(note)
    return Note(parsed.text, (parsed.signatures[line],)).encode()


@pytest.mark.asyncio
async def test_a_fork_by_a_stolen_old_key_raises_no_alarm_once_the_turn_is_known(bench: Bench) -> None:
    """What it was led to remember is void: it stops, says why, and convicts nobody."""
    fork = bench.make("fork")
    grow(fork, 6, b"forged")
    bench.peer = Peer(fork)
    await bench.observer().step()
    fork.close()
    bench.peer = Peer(bench.log)
    bench.log.rotate(SECOND)
    grow(bench.log, 5)
    assert bench.log.size == fork.size
    with pytest.raises(UnprovenError, match="a thief of that key"):
        await bench.observer().step()
    grow(bench.log, 1)
    with pytest.raises(UnprovenError, match="a thief of that key"):
        await bench.observer().step()
    assert bench.observer().alarm() is None
    with without(Check(witness, "void_memory", _forked)), pytest.raises(_ForkedError):
        await _at_the_size_of(bench, fork.size)


class _ForkedError(Exception):
    pass


def _forked(*_: Any) -> Exception:
    return _ForkedError()


async def _at_the_size_of(bench: Bench, size: int) -> None:
    bench.peer.newest = lambda: bench.log.checkpoint_at(size)
    await bench.observer().step()


@pytest.mark.asyncio
async def test_a_turn_of_a_log_that_was_not_proven_is_forgotten(bench: Bench) -> None:
    """By the process that saw it, too: what is shown next is judged by what was remembered before."""

    async def refuses(old: int, new: int) -> list[bytes]:
        raise LedgerError("not now")

    follower = bench.observer()
    await follower.step()
    bench.log.rotate(SECOND)
    grow(bench.log, 2)
    bench.peer.consistency, proves = refuses, bench.peer.consistency
    with pytest.raises(UnprovenError, match="gives no proof"):
        await follower.step()
    assert len(follower.log.keys) == 1
    bench.peer.consistency = proves
    await follower.step()
    assert follower.log == bench.log.verifier


@pytest.mark.asyncio
async def test_two_turns_of_one_key_raise_the_alarm(bench: Bench) -> None:
    fork = bench.make("fork")
    for log, key in ((bench.log, SECOND), (fork, THIRD)):
        log.rotate(key)
        grow(log, 2)
    await bench.observer().step()
    bench.peer = Peer(fork)
    with pytest.raises(AlarmError, match="has signed two different turns") as raised:
        await bench.observer().step()
    words = [
        Rotation.decode((raised.value.folder / name).read_bytes()) for name in ("older.rotation", "newer.rotation")
    ]
    for one in words:
        one.verify_old()
    assert words[0].contradicts(words[1])
    assert json.loads((raised.value.folder / "alarm.json").read_text())["kind"] == "turned-twice"
    fork.close()


@pytest.mark.asyncio
async def test_a_turn_that_a_stranger_made_up_is_not_learnt(bench: Bench) -> None:
    """Somebody in between serves a log of his own that begins as the true one does."""
    thief = signer(7)
    turn = bench.log.signer.turn(SECOND, 4, bench.log._checkpoint.root, 0)
    forged = replace(turn, new_key=thief.verifier.public_key)
    forged = forged.signed(thief.private_key, thief.private_key)
    entries = [*bench.log.entries(0, 4), forged.encode(), b"his own"]
    note = Checkpoint(ORIGIN, len(entries), MerkleTree(entries).root()).sign(thief)

    class Between:
        async def rotations(self) -> list[bytes]:
            tree = MerkleTree(entries[:5])
            note = Checkpoint(ORIGIN, 5, tree.root())
            lines = Note.parse(note.sign(FIRST)).signatures + Note.parse(note.sign(thief)).signatures
            return [TurnProof(forged, tuple(tree.path(4, 5)), Note(note.text(), lines).encode()).encode()]

        async def entries(self, start: int, count: int) -> list[bytes]:
            return entries[start : start + count]

    assert await learning.learn(Between(), note, FIRST.verifier) == FIRST.verifier
    with without(Check(Rotation, "verify_old")):
        assert len((await learning.learn(Between(), note, FIRST.verifier)).keys) == 2


@pytest.mark.asyncio
async def test_tiles_are_exported_across_a_turn(bench: Bench, tmp_path: Path) -> None:
    folder = TileFolder(tmp_path / "tiles", FIRST.verifier)
    await folder.update(bench.peer)
    bench.log.rotate(SECOND, overlap=1)
    grow(bench.log, 1)
    await folder.update(bench.peer)
    folder.close()
    grow(bench.log, 2)
    again = TileFolder(tmp_path / "tiles", FIRST.verifier)
    assert (await again.update(bench.peer)).size == 8
    again.close()
    known = TileFolder(tmp_path / "tiles", FIRST.verifier).known()
    assert known is not None
    assert known.checkpoint.size == 8
    fresh = TileFolder(tmp_path / "fresh", FIRST.verifier)
    bench.peer.newest = lambda: _only(bench.log.checkpoint_at(6), 0)
    with pytest.raises(UnprovenError, match="is not signed by the key that it turns to"):
        await fresh.update(bench.peer)


@pytest.mark.asyncio
async def test_a_witness_policy_names_the_first_key(bench: Bench) -> None:
    bench.log.rotate(SECOND)
    grow(bench.log, 1)
    lines = f"log {FIRST.verifier.vkey()}\nwitness one {OWN.verifier.vkey()}\nquorum one\n"
    policy = Policy.parse(lines.encode()).of(bench.log.verifier)
    note = Note.parse(bench.log.checkpoint())
    bench.peer.cosigned_note = note.with_signatures([OWN.sign(note.text, bench.now)]).encode()
    assert policy.open(bench.peer.cosigned_note, bench.log.verifier).checkpoint.size == 6
    assert (await bench.observer(policy).step()).size == 6
    with pytest.raises(ConfigurationError):
        Policy.parse(f"log {SECOND.verifier.vkey()}\nquorum none\n".encode()).of(bench.log.verifier)


def test_only_public_turns_are_shown(bench: Bench) -> None:
    public = PublicLog(bench.log)
    bench.log.rotate(SECOND)
    assert public.turns() == []
    public.reveal()
    assert follow(FIRST.verifier, [proof.encode() for proof in public.turns()]) == bench.log.verifier


def test_a_turn_is_said_in_one_sentence(bench: Bench) -> None:
    turn = bench.log.rotate(SECOND)
    said = describe(turn.encode())["says"]
    assert said.startswith("from here on the log is signed by the key ")
    assert SECOND.verifier.public_key.hex() in said
    assert "says" not in describe(turn.encode()[:-1] + b"\0")


def test_damaged_turns_are_refused(tmp_path: Path) -> None:
    (tmp_path / "turns").write_bytes(b"torn")
    with pytest.raises(ConfigurationError, match="remove it"):
        learning.load_turns(tmp_path / "turns", FIRST.verifier)


def test_a_key_of_another_name_or_of_before_is_refused(bench: Bench) -> None:
    other = NoteSigner("else.example/w", SECOND.private_key)
    with pytest.raises(LedgerError, match="has the name of the log"):
        bench.log.rotate(other)
    bench.log.rotate(SECOND)
    with pytest.raises(LedgerError, match="id of one that the log had"):
        bench.log.rotate(FIRST)
    assert bench.log.size == 5
    open_checkpoint(bench.log.checkpoint(), bench.log.verifier)


# Where one key of a log ends and the next begins, and which turns are none: the rules alone. SPEC G.6.13.


BEFORE = [b"entry %d" % number for number in range(4)]
ROOT = MerkleTree(BEFORE).root()


LOG = FIRST.verifier


def turn(
    number: int = 1,
    old: NoteSigner = FIRST,
    new: NoteSigner = SECOND,
    index: int = len(BEFORE),
    root: bytes = ROOT,
    overlap: int = 0,
) -> Rotation:
    made = Rotation(
        log_digest(LOG.vkey()), number, old.verifier.public_key, new.verifier.public_key, index, root,
        index + 1 + overlap, bytes(64), bytes(64),
    )  # fmt: skip
    return made.signed(old.private_key, new.private_key)


def note(entries: Sequence[bytes], *signers: NoteSigner, size: int | None = None) -> bytes:
    """``size``: that the note says, where it is not that of the tree."""
    point = Checkpoint(ORIGIN, len(entries) if size is None else size, MerkleTree(entries).root())
    lines = tuple(line for one in signers for line in Note.parse(point.sign(one)).signatures)
    return Note(point.text(), lines).encode()


def proof(one: Rotation, entries: Sequence[bytes], *signers: NoteSigner) -> TurnProof:
    """With the path of the entry behind BEFORE in the tree of ``entries``, and their note."""
    path = MerkleTree(entries).path(len(BEFORE), len(entries))
    return TurnProof(one, tuple(path), note(entries, *signers))


def test_the_old_key_counts_up_to_the_turn_and_signs_through_the_overlap() -> None:
    key = LogKey.of(LOG, [turn(overlap=2), turn(2, SECOND, THIRD, index=9)])
    one, two, three = (each.verifier for each in (FIRST, SECOND, THIRD))
    assert [key.at(size) for size in (0, 4, 5, 9, 10)] == [one, one, two, two, three]
    for size, signing in [(4, (one,)), (5, (one, two)), (7, (one, two)), (8, (two,)), (9, (two,)),
                          (10, (two, three)), (11, (three,))]:  # fmt: skip
        assert key.signing(size) == signing, size


def test_a_turn_may_begin_where_the_overlap_before_it_ends_and_no_earlier() -> None:
    key = LogKey.of(LOG, [turn(overlap=2)])
    assert len(key.turned(turn(2, SECOND, THIRD, index=7)).turns) == 2
    with pytest.raises(TurnError, match="begins in the overlap"):
        key.turned(turn(2, SECOND, THIRD, index=6))


def test_what_is_no_next_turn_of_this_log() -> None:
    key = LogKey.of(LOG, [turn()])
    for wrong, said in [
        (replace(turn(2, SECOND, THIRD, index=9), log=bytes(32)), "of a different log's key"),
        (turn(3, SECOND, THIRD, index=9), "does not come behind"),
        (turn(2, FIRST, THIRD, index=9), "gives up a key that did not sign"),
        (turn(2, SECOND, FIRST, index=9), "id of one that the log had"),
        (replace(turn(2, SECOND, THIRD, index=9), root=bytes(32)), "not signed by its old key"),
        (replace(turn(2, SECOND, THIRD, index=9), by_new=bytes(64)), "not signed by its new key"),
    ]:
        with pytest.raises(TurnError, match=said):
            key.turned(wrong)


def test_a_turn_stands_in_its_place_behind_its_history() -> None:
    entry = turn().encode()
    assert read_turn(LOG, 4, entry, lambda: ROOT) == LogKey.of(LOG, [turn()])
    for index, root in ((5, ROOT), (4, MerkleTree([b"other", *BEFORE[1:]]).root())):
        with pytest.raises(TurnError, match="signed for another place or history"):
            read_turn(LOG, index, entry, lambda root=root: root)  # type: ignore[misc]
    with pytest.raises(TurnError, match="is not a turn of a key"):
        read_turn(LOG, 4, entry[:-1], lambda: ROOT)
    entries = [*BEFORE, entry, b"more"]
    found = turns_in(LOG, entries, 0, lambda size: MerkleTree(entries[:size]).root())
    assert found == LogKey.of(LOG, [turn()])
    assert turns_in(found, entries, 0, lambda size: MerkleTree(entries[:size]).root()) == found


def test_two_words_of_one_key_convict_the_log_at_one_place_only() -> None:
    key = LogKey.of(LOG, [turn()])
    with pytest.raises(TurnedTwiceError):
        read_turn(key, 4, turn(new=THIRD).encode(), lambda: ROOT)
    with pytest.raises(TurnError, match="a thief of the key can have signed the later one") as said:
        read_turn(key, 9, turn(new=THIRD, index=9).encode(), lambda: ROOT)
    assert not isinstance(said.value, TurnedTwiceError)
    somebody = replace(turn(new=THIRD), by_old=bytes(64))
    with pytest.raises(TurnError) as said:
        read_turn(key, 4, somebody.encode(), lambda: ROOT)
    assert not isinstance(said.value, TurnedTwiceError)


def test_a_turn_is_followed_in_a_history_that_both_keys_signed() -> None:
    """The last entry of a tree that both signed, and what the turn says stands before it."""
    entries = [*BEFORE, turn().encode()]
    good = proof(turn(), entries, FIRST, SECOND)
    known = LogKey.of(LOG, [turn()])
    assert good.follow(LOG) == good.follow(known) == follow(LOG, [good.encode()]) == known
    longer, other = [*entries, b"more"], turn(root=bytes(32))
    for wrong in [
        proof(turn(), entries, FIRST),
        proof(turn(), entries, SECOND),
        proof(turn(), entries, THIRD, FIRST),
        proof(turn(), longer, FIRST, SECOND),
        replace(good, path=proof(turn(), longer, FIRST, SECOND).path),
        replace(good, checkpoint=note([*BEFORE, b"another entry"], FIRST, SECOND)),
        replace(good, checkpoint=note(entries, FIRST, SECOND, size=9)),
        proof(other, [*BEFORE, other.encode()], FIRST, SECOND),
    ]:
        with pytest.raises(TurnError, match="is in no history that both of its keys signed"):
            wrong.follow(LOG)


def test_a_chain_of_turns_is_bounded() -> None:
    one = proof(turn(), [*BEFORE, turn().encode()], FIRST, SECOND).encode()
    assert len(follow(LOG, [one] * MAX_TURNS).turns) == 1
    with pytest.raises(TurnError, match=f"a log has at most {MAX_TURNS}"):
        follow(LOG, [one] * (MAX_TURNS + 1))
    with pytest.raises(TurnError, match="is shown that is none"):
        follow(LOG, [one[:-1]])
