# SPDX-License-Identifier: GPL-3.0-or-later
"""Where one key of a log ends and the next begins, and which turns are none: the rules alone.  SPEC G.6.13."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.rotation import MAX_TURNS, Rotation
from ragseal.kernel.verdict import log_digest
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import Note, NoteSigner
from ragseal.ledger.turns import LogKey, TurnedTwiceError, TurnError, TurnProof, follow, read_turn, turns_in

ORIGIN = "log.example/w"
BEFORE = [b"entry %d" % number for number in range(4)]
ROOT = MerkleTree(BEFORE).root()


def signer(number: int) -> NoteSigner:
    return NoteSigner(ORIGIN, Ed25519PrivateKey.from_private_bytes(bytes(31) + bytes([number])))


FIRST, SECOND, THIRD = (signer(number) for number in (1, 2, 3))
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
