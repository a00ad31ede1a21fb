# SPDX-License-Identifier: GPL-3.0-or-later
"""Followers of a log whose key turns, and whoever stands in between: observers, exporters, witnesses, accounts.

SPEC G.6.13.  A stranger signs nothing and can add lines to notes and keep answers back; a thief has an old key.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.kernel.rotation import Rotation
from ragseal.ledger import learning, turned_tree, turns
from ragseal.ledger.checkpoint import Checkpoint, has_unknown_line
from ragseal.ledger.learning import load_turns
from ragseal.ledger.log import Log
from ragseal.ledger.note import Note, NoteSignature
from ragseal.ledger.tiles import TURNS, TileFolder
from ragseal.ledger.turns import KeptTurns, TurnError
from ragseal.ledger.witness import UnprovenError
from ragseal.ledger.witness_http import AddCheckpoint, WitnessSite
from tests.attacks import turn_checks as checks
from tests.attacks.checks import without
from tests.ledger.test_turns import FIRST, ORIGIN, SECOND, THIRD, Bench, Peer, grow, signer


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.log.close()
    made.witness.close()


def with_line(note: bytes, key_id: bytes, size: int = 64) -> bytes:
    """The note with a line under the log's name that nobody signed."""
    return Note.parse(note).with_signatures([NoteSignature(ORIGIN, key_id, bytes(size))]).encode()


class Unread(Peer):
    """A log whose entries are not to be read."""

    async def entries(self, start: int, count: int) -> list[bytes]:
        raise AssertionError("nobody has signed what is read here")


@pytest.mark.asyncio
async def test_a_note_that_nobody_signed_has_no_follower_hash_anything(bench: Bench, tmp_path: Path) -> None:
    """Whoever stands in between names any size it likes, under a line by a key that nobody knows."""
    vast = Checkpoint(ORIGIN, 1 << 60, bytes(32)).sign(signer(7))
    bench.peer = Unread(bench.log)
    bench.peer.newest = lambda: vast
    tiles = TileFolder(tmp_path / "tiles", FIRST.verifier)
    with pytest.raises(LedgerError, match="no signature by a known key"):
        await bench.observer().step()
    with pytest.raises(LedgerError, match="no signature by a known key"):
        await tiles.update(bench.peer)
    with without(checks.SIGNED_BEFORE_HASHED), pytest.raises(AssertionError):
        await bench.observer().step()
    tiles.close()


@pytest.mark.asyncio
async def test_a_line_that_was_added_does_not_cost_an_observer_its_memory(bench: Bench) -> None:
    """It claims to be by the key that was given up, which does not count: nobody looks whether it verifies."""
    await bench.observer().step()
    bench.log.rotate(SECOND)
    grow(bench.log, 1)
    for number in range(2):
        bench.peer.newest = lambda: with_line(bench.log.checkpoint(), FIRST.verifier.key_id)
        if number:
            with without(checks.REMEMBERED_LINES_VERIFY):
                await bench.observer().step()
            with pytest.raises(LedgerError, match="does not verify"):
                await bench.observer().step()
        else:
            await bench.observer().step()
            grow(bench.log, 1)
            assert (await bench.observer().step()).size == 7


@pytest.mark.asyncio
async def test_a_thief_leaves_no_turn_of_its_own_with_a_follower(bench: Bench, tmp_path: Path) -> None:
    """It shows a fork that turns to its key: who remembers the log goes on with that one."""
    fork = bench.make("fork", b"forged")
    fork.rotate(THIRD)
    grow(fork, 3)
    tiles = TileFolder(tmp_path / "tiles", FIRST.verifier)
    grow(bench.log, 2)
    for honest in (True, False):
        bench.peer = Peer(bench.log)
        if honest:
            await bench.observer().step()
            await tiles.update(bench.peer)
        bench.peer = Peer(fork)
        observer = bench.observer()
        with pytest.raises(UnprovenError):
            await observer.step()
        with pytest.raises(UnprovenError):
            await tiles.update(bench.peer)
        assert not (tmp_path / "tiles" / TURNS).exists()
        bench.peer = observer._remote = Peer(bench.log)  # type: ignore[assignment]
        assert (await observer.step()).size == (await bench.observer().step()).size == 6
        assert (await tiles.update(bench.peer)).size == 6
    bench.peer = Peer(fork)
    with without(checks.FOLLOWED_BEFORE_KEPT), pytest.raises(UnprovenError):
        await bench.observer().step()
    bench.peer = Peer(bench.log)
    with pytest.raises(LedgerError, match="no signature by a known key"):
        await bench.observer().step()
    tiles.close()
    fork.close()


def test_a_line_that_is_none_of_a_log_key_has_nobody_look_for_turns(bench: Bench) -> None:
    """A witness may have any name; its lines are longer."""
    witnessed = Note.parse(with_line(bench.log.checkpoint(), b"abcd", 72))
    assert not has_unknown_line(witnessed, FIRST.verifier)
    assert has_unknown_line(Note.parse(with_line(bench.log.checkpoint(), b"abcd")), FIRST.verifier)
    with without(checks.LINES_OF_A_LOG_KEY):
        assert has_unknown_line(witnessed, FIRST.verifier)


# --- a public witness, which reads no entry ---


def test_a_witness_that_has_the_turns_cosigns_nothing_of_a_stolen_key(bench: Bench, tmp_path: Path) -> None:
    """Two keys of one log would both count at every size."""
    bench.log.rotate(SECOND, overlap=2)
    grow(bench.log, 4)
    path = KeptTurns(bench.log.signer.log.turns).encode()
    keys = learning.with_turns([FIRST.verifier], [path])
    assert keys == [bench.log.verifier]
    site = WitnessSite(bench.witness, tmp_path / "state", keys, lambda: bench.now)
    stolen = Checkpoint(ORIGIN, 9, bench.log._checkpoint.root).sign(FIRST)
    for size in (4, 7, 9):
        old = {4: 0, 7: 4, 9: 7}[size]
        if size == 9:
            refused = site.add_checkpoint(AddCheckpoint(old, tuple(bench.log.consistency(old, 9)), stolen).encode())
            assert refused.status == 403
        proof = tuple(bench.log.consistency(old, size)) if old else ()
        note = bench.log.checkpoint_at(size)
        assert site.add_checkpoint(AddCheckpoint(old, proof, note).encode()).status == 200
        bench.now += 1
    both = WitnessSite(bench.witness, tmp_path / "state", [FIRST.verifier, SECOND.verifier], lambda: bench.now)
    assert both.add_checkpoint(AddCheckpoint(9, (), stolen).encode()).status == 200, (
        "which is why it is given the turns"
    )
    site.close()
    both.close()


def test_turns_for_a_witness_are_of_its_logs_and_of_one_key_each(bench: Bench) -> None:
    bench.log.rotate(SECOND)
    kept = KeptTurns(bench.log.signer.log.turns).encode()
    with pytest.raises(ConfigurationError, match="of none of the logs"):
        learning.with_turns([SECOND.verifier], [kept])
    with pytest.raises(ConfigurationError, match="alone"):
        learning.with_turns([FIRST.verifier, FIRST.verifier], [kept])
    with without(checks.FIRST_KEY_ALONE):
        learning.with_turns([FIRST.verifier, SECOND.verifier], [kept])
    with pytest.raises(ConfigurationError, match="alone"):
        learning.with_turns([FIRST.verifier, SECOND.verifier], [kept])
    with pytest.raises(ConfigurationError, match="do not hold"):
        learning.with_turns([FIRST.verifier], [kept[:-1] + bytes([kept[-1] ^ 1])])


# --- what is kept, and what a log reads of itself ---------------------------------------------------------------------


def test_turns_that_are_kept_are_checked_again(bench: Bench, tmp_path: Path) -> None:
    """A file beside a pin: of another log, in another order, or signed by nobody, it is none."""
    bench.log.rotate(SECOND)
    bench.log.rotate(THIRD)
    first, second = bench.log.signer.log.turns
    path = tmp_path / "kept"
    thief = signer(7).private_key
    for kept, check in (
        ((replace(first, log=bytes(32)).signed(FIRST.private_key, SECOND.private_key),), checks.TURN_OF_THIS_LOG),
        ((second,), None),
        ((first, first), checks.TURN_IN_ORDER),
        ((replace(first, new_key=signer(7).verifier.public_key).signed(thief, thief),), checks.TURN_OLD_SIGNED),
    ):
        path.write_bytes(KeptTurns(kept).encode())
        with pytest.raises(ConfigurationError, match="is damaged"):
            load_turns(path, FIRST.verifier)
        if check is not None and check is not checks.TURN_IN_ORDER:
            with without(check):
                load_turns(path, FIRST.verifier)
    path.write_bytes(KeptTurns((first, second)).encode())
    assert load_turns(path, FIRST.verifier) == bench.log.verifier


def test_a_log_whose_database_has_a_turn_in_another_place_does_not_open(tmp_path: Path) -> None:
    for name, changes in (("root", {"root": bytes(32)}), ("index", {"index": 1, "until": 2})):
        folder = tmp_path / name
        with Log.create(folder, FIRST) as log:
            grow(log, 3)
            turn = log.signer.turn(SECOND, log.size, log._checkpoint.root, 0)
            changed = replace(turn, **changes).signed(FIRST.private_key, SECOND.private_key)  # type: ignore[arg-type]
            log._tree.append_entries([changed.encode()])  # past every check, as whoever has the file can
        with pytest.raises(LedgerError, match="signed for a different entry"):
            Log.open(folder, FIRST, SECOND)
        if name == "root":  # else no key counts at the size of the last note
            with without(checks.READ_IN_ITS_PLACE):
                Log.open(folder, FIRST, SECOND).close()


def test_a_log_whose_database_has_a_turn_that_does_not_decode_does_not_open(tmp_path: Path) -> None:
    with Log.create(tmp_path / "log", FIRST) as log:
        grow(log, 3)
        log._tree.append_entries([turned_tree._HEAD + b"no turn"])
    with pytest.raises(LedgerError, match="is damaged"):
        Log.open(tmp_path / "log", FIRST, SECOND)


def test_no_account_or_auditor_enters_a_turn(bench: Bench) -> None:
    turn = bench.log.signer.turn(SECOND, bench.log.size, bench.log._checkpoint.root, 0)
    refused = bench.log.append_now([lambda index: turn.encode()])[0]
    assert isinstance(refused, LedgerError)
    assert "by rotate()" in str(refused)
    with without(checks.TURNED_BY_ROTATE):
        assert not isinstance(bench.log.append_now([lambda index: turn.encode()])[0], Exception)


def test_more_turns_than_a_log_can_have_are_not_even_read() -> None:
    with pytest.raises(TurnError, match="at most 64"):
        turns.follow(FIRST.verifier, [b""] * 65)
    with without(checks.MANY_TURNS), pytest.raises(TurnError, match="that is none"):
        turns.follow(FIRST.verifier, [b""] * 65)


def test_a_log_makes_a_proof_of_a_turn_once(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Anybody asks for them, as often as they like."""
    bench.log.rotate(SECOND)
    made = bench.log.turns()
    monkeypatch.setattr(Log, "inclusion", lambda *_: pytest.fail("made anew"))
    assert bench.log.turns() == made
    assert isinstance(made[0].turn, Rotation)
