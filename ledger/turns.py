# SPDX-License-Identifier: GPL-3.0-or-later
"""A log's key with its turns: which key counts at which size, and how a follower comes to know.  SPEC G.6.13.

A log is named by its first key for good.  Whoever hashes it takes a turn from its entries; whoever does not (an
account) is shown the entry, its path, and the note of the size behind it, which both keys have signed.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from ragseal.kernel.encoding import HASH, Blob, Codec, Many, Message, Nested, peek_tag
from ragseal.kernel.errors import AuditError, EncodingError, LedgerError
from ragseal.kernel.rotation import MAX_TURNS, Rotation
from ragseal.kernel.verdict import log_digest
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import Frontier, leaf_hash, verify_inclusion
from ragseal.ledger.note import MAX_NOTE_BYTES, Note, NoteVerifier, verify_note

MAX_PATH = 63


class TurnError(LedgerError):
    """A turn of a log's key that does not hold.  Whoever shows it may have made it up."""


class TurnedTwiceError(LedgerError):
    """One old key has signed two different turns: both statements together convict the log (SPEC G.6.13)."""

    def __init__(self, known: Rotation, other: Rotation) -> None:
        super().__init__(
            f"the log's key {known.old_key.hex()} has signed two different turns: at entry {known.index} to "
            f"{known.new_key.hex()}, at entry {other.index} to {other.new_key.hex()}"
        )
        self.known, self.other = known, other


@dataclass(frozen=True, slots=True)
class LogKey(NoteVerifier):
    """A log's first key, which names it, and every turn since.  ``vkey`` and ``key_id`` are the first key's."""

    turns: tuple[Rotation, ...] = ()

    @classmethod
    def of(cls, log: NoteVerifier, turns: Iterable[Rotation] = ()) -> LogKey:
        """A log's key with ``turns`` behind those that it has, each of them checked.  TurnError: one does not hold."""
        made = log if isinstance(log, LogKey) else cls(log.name, log.public_key, log.algorithm)
        for turn in turns:
            made = made.turned(turn)
        return made

    @property
    def first(self) -> NoteVerifier:
        """The key that names the log, alone."""
        return NoteVerifier(self.name, self.public_key, self.algorithm)

    @property
    def keys(self) -> tuple[NoteVerifier, ...]:
        """All keys in their order."""
        return (self.first, *(NoteVerifier(self.name, turn.new_key) for turn in self.turns))

    @property
    def newest(self) -> NoteVerifier:
        return self.keys[-1]

    def at(self, size: int) -> NoteVerifier:
        """One key counts for one size: up to a turn's index the old one, behind it the new one."""
        return self.keys[sum(size > turn.index for turn in self.turns)]

    def signing(self, size: int) -> tuple[NoteVerifier, ...]:
        """Whose lines a note of ``size`` entries has: the old key's first, in the overlap."""
        count = sum(size > turn.index for turn in self.turns)
        both = count > 0 and size <= self.turns[count - 1].until
        return self.keys[count - both : count + 1]

    def turned(self, turn: Rotation) -> LogKey:
        """This key with one more turn, signed by both keys.  Where it stands in the log is for the caller to check.

        Raises:
            TurnError: of another log, out of order, of a key that the log had before, or not signed by both.
        """
        if turn.log != log_digest(self.vkey()):
            raise TurnError(f"the turn is of a different log's key than that of {self.name}")
        if turn.number != len(self.turns) + 1:
            raise TurnError(f"turn {turn.number} does not come behind turn {len(self.turns)} of {self.name}")
        if turn.old_key != self.newest.public_key:
            raise TurnError(f"turn {turn.number} of {self.name} gives up a key that did not sign the log")
        if self.turns and turn.index < self.turns[-1].until:
            raise TurnError(f"turn {turn.number} of {self.name} begins in the overlap of the turn before it")
        new = NoteVerifier(self.name, turn.new_key)
        if any(new.key_id == key.key_id for key in self.keys):
            raise TurnError(f"turn {turn.number} of {self.name} goes to a key with the id of one that the log had")
        try:
            turn.verify()
        except AuditError as error:
            raise TurnError(str(error)) from None
        return replace(self, turns=(*self.turns, turn))


def is_turn(entry: bytes) -> bool:
    """Whether an entry claims to be a turn."""
    try:
        return peek_tag(entry) == Rotation.TAG
    except AuditError:
        return False


def read_turn(log: NoteVerifier, index: int, entry: bytes, root: Callable[[], bytes]) -> LogKey:
    """A log's key behind its entry ``index``, where that entry is a turn (:func:`is_turn`).

    Args:
        root: gives the root of all entries before it, hashed by the caller.

    Raises:
        TurnedTwiceError: the old key has signed another turn than the known one.
        TurnError: the entry is none that the log's keys signed for this place.
    """
    key = LogKey.of(log)
    try:
        turn = Rotation.decode(entry)
    except AuditError as error:
        raise TurnError(f"entry {index} is not a turn of a key: {error}") from None
    refuse_contradiction(key, turn)
    if turn.index != index or turn.root != root():
        raise TurnError(f"entry {index} is a turn that was signed for another place or history")
    if turn.number <= len(key.turns):
        if turn.body() == key.turns[turn.number - 1].body():
            return key  # two signatures over the same words say the same
        raise TurnError(f"entry {index} is another turn {turn.number} of {log.name} than the known one")
    return key.turned(turn)


def refuse_contradiction(key: LogKey, turn: Rotation) -> None:
    """A turn is none of a key that has turned already.

    Raises:
        TurnedTwiceError: a known turn and this one are different words of one old key about one place.
        TurnError: about two places.  At the second the key had been given up, so that whoever stole it can have signed.
    """
    for known in key.turns:
        if known.contradicts(turn):
            try:
                turn.verify_old()
            except AuditError:
                return  # somebody else's words
            if known.index == turn.index:
                raise TurnedTwiceError(known, turn)
            raise TurnError(
                f"the log's key {known.old_key.hex()} has signed turns at entry {known.index}, which is known, and at "
                f"entry {turn.index}: a thief of the key can have signed the later one. Compare with others which "
                "one the log holds; if it is not the known one, move the kept turns away"
            )


def turns_in(log: NoteVerifier, entries: Sequence[bytes], start: int, root: Callable[[int], bytes]) -> LogKey:
    """A log's key with what its entries from ``start`` on turn it to.

    Args:
        root: gives the root of the first so many entries.

    Raises:
        TurnError, TurnedTwiceError: as :func:`read_turn`.
    """
    key = LogKey.of(log)
    for index, entry in enumerate(entries, start):
        if is_turn(entry):
            key = read_turn(key, index, entry, lambda index=index: root(index))  # type: ignore[misc]
    return key


# --- for whoever does not hash the log --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TurnProof(Message):
    """A turn with its place: the path of its entry in the tree that ends with it, and that size's note."""

    TAG: ClassVar[str] = "turn-proof"
    CODECS: ClassVar[Sequence[Codec]] = (Nested(Rotation), Many(HASH, MAX_PATH), Blob(MAX_NOTE_BYTES))

    turn: Rotation  #: the entry
    path: tuple[bytes, ...]  #: RFC 6962 inclusion path of the last entry in the tree that ends with it
    checkpoint: bytes  #: signed note of that tree's size

    def follow(self, log: NoteVerifier) -> LogKey:
        """The log's key behind this turn.  A turn that is known already changes nothing.

        Raises:
            TurnedTwiceError: the old key has signed another turn than the known one.
            TurnError: a turn that does not hold, or is in no history that both keys have signed.
        """
        key = LogKey.of(log)
        refuse_contradiction(key, self.turn)
        if any(self.turn.body() == known.body() for known in key.turns):
            return key
        turned = key.turned(self.turn)
        old, new = turned.keys[-2:]
        try:
            note = Note.parse(self.checkpoint)
            for one in (old, new):
                verify_note(note, [one])
            point = Checkpoint.parse(note.text)
            if (point.origin, point.size) != (log.name, self.turn.index + 1):
                raise LedgerError(f"it is of {point.size} entries of {point.origin}")
            self._check_place(point)
        except AuditError as error:
            raise TurnError(
                f"turn {self.turn.number} of {log.name} is in no history that both of its keys signed: {error}"
            ) from None
        return turned

    def _check_place(self, point: Checkpoint) -> None:
        """Raises LedgerError: the entry is not the last of the tree, or what stands before it has another root."""
        index = self.turn.index
        verify_inclusion(leaf_hash(self.turn.encode()), index, index + 1, self.path, point.root)
        # RFC 9162: the path of a tree's last leaf is the perfect subtrees before it, the smallest first.
        if Frontier(index, list(reversed(self.path))).root() != self.turn.root:
            raise LedgerError("another root stands before the entry than the turn says")


def follow(log: NoteVerifier, proofs: Sequence[bytes]) -> LogKey:
    """The log's key behind a chain of turns, encoded proofs in their order.

    Raises:
        TurnError, TurnedTwiceError: as :meth:`TurnProof.follow`; a chain that is too long is none.
    """
    if len(proofs) > MAX_TURNS:
        raise TurnError(f"{len(proofs)} turns are shown of {log.name}: a log has at most {MAX_TURNS}")
    key = LogKey.of(log)
    for data in proofs:
        try:
            proof = TurnProof.decode(data)
        except EncodingError as error:
            raise TurnError(f"a turn of {log.name} is shown that is none: {error}") from None
        key = proof.follow(key)
    return key


# --- kept beside a pin ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KeptTurns(Message):
    """What a follower keeps of a log's turns, in their order: each was proven to it before it was kept."""

    TAG: ClassVar[str] = "kept-turns"
    CODECS: ClassVar[Sequence[Codec]] = (Many(Nested(Rotation), MAX_TURNS),)

    turns: tuple[Rotation, ...]  #: numbered from 1 without gap
