# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor's own copy of the log: re-hashed to the signed root, decoded, and consistent with the past.  SPEC D.1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import MESSAGES, SignedManifest
from ragseal.kernel.encoding import Message, decode_any, peek_tag
from ragseal.kernel.errors import AuditError
from ragseal.kernel.params import PROTOCOL_VERSION
from ragseal.ledger.checkpoint import SignedCheckpoint, open_checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteVerifier
from ragseal.verifier.evidence.evidence import (
    ASK_AGAIN,
    DELIVER_AGAIN,
    OTHER_LOG,
    OWN_BUILD,
    Evidence,
    Refused,
    Undecided,
)

MAX_ENTRIES = 1 << 22  #: an audit holds the log in memory
MAX_LOG_BYTES = 1 << 30  #: the same; with all that is made of them entries take about eight times their bytes
PAGE = 4096  #: entries asked for at once
ENTRIES: tuple[type[Message], ...] = (*MESSAGES, Record)  #: every kind of message that a log of this protocol holds

M = TypeVar("M", bound=Message)


class Forked(Refused):
    """Two notes that the log's key signed contradict each other; both are the evidence."""

    def __init__(self, message: str, older: SignedCheckpoint, newer: SignedCheckpoint) -> None:
        super().__init__(message, **_both(older, newer))


@dataclass(frozen=True, slots=True)
class LogTree:
    """The bytes of every entry up to a signed checkpoint, which they hash to.

    Whether two notes contradict each other is decided here: for that, no entry has to be understood.
    """

    signed: SignedCheckpoint
    entries: tuple[bytes, ...]
    tree: MerkleTree

    @property
    def size(self) -> int:
        return len(self.entries)

    def extends(self, older: SignedCheckpoint, whose: str) -> None:
        """This log continues the tree of an older signed checkpoint.

        Raises:
            Undecided: that checkpoint is newer: whoever is between can show an old note of this log.
            Forked: it was rewritten; the two signed notes together are the proof of it.
        """
        size, root = older.checkpoint.size, older.checkpoint.root
        if size > self.size:
            raise _stale(self.size, size, whose, _both(older, self.signed))
        if self.tree.root(size) != root:
            if older.void:
                raise void_note(older, whose)
            raise Forked(
                f"the log was forked: its first {size} entries do not give the root of {whose}", older, self.signed
            )


@dataclass(frozen=True, slots=True)
class LogView(LogTree):
    """The log as it can be read: its entries decoded, up to the first one that this build does not know."""

    messages: tuple[Message, ...]

    def to_its_end(self) -> None:
        """Every entry is decoded.

        Raises:
            Undecided: an unknown kind of entry; of it and of what follows it nothing is known.
        """
        if len(self.messages) < self.size:
            raise Undecided(f"entry {len(self.messages)} is of a kind that this build does not know", OWN_BUILD)

    def of(self, kind: type[M]) -> Iterator[tuple[int, M]]:
        """(index, message) of one kind, in log order."""
        for index, message in enumerate(self.messages):
            if isinstance(message, kind):
                yield index, message

    def manifests(self) -> list[tuple[int, SignedManifest]]:
        return list(self.of(SignedManifest))


def _both(older: SignedCheckpoint, newer: SignedCheckpoint) -> dict[str, str]:
    return {"older": older.note.encode().decode(), "newer": newer.note.encode().decode()}


def void_note(older: SignedCheckpoint, whose: str) -> Undecided:
    """A note of a key that does not count for its size convicts nobody: that key may have been stolen (G.6.13)."""
    return Undecided(
        f"the log does not continue {whose}, which is signed only by a key that the log had given up by that size: a "
        "thief of that key showed it, or the provider did",
        "compare with others what they were shown; then move that note away, and audit again",
        older=older.note.encode().decode(),
    )


def _stale(served: int, known: int, whose: str, notes: dict[str, str]) -> Undecided:
    """A signed note of fewer entries is no fork: it was true once, and whoever kept it can serve it."""
    return Undecided(
        f"the log that is served has {served} entries, {whose} has {known}: it is an old copy, or the log shrank",
        "audit again, over another network: a provider that cannot show the newer log never gets a verdict",
        **notes,
    )


# --- notes -----------------------------------------------------------------------------------------------------------


def read_note(evidence: Evidence, log_key: NoteVerifier) -> SignedCheckpoint:
    """The newest checkpoint that is served.

    Raises:
        Undecided: a note that is none, or not signed by this key for this log.
    """
    note = evidence.checkpoint()
    try:
        return open_checkpoint(note, log_key)
    except AuditError as error:
        raise Undecided(str(error), OTHER_LOG, note=note) from None


def one_history(notes: Sequence[SignedCheckpoint]) -> None:
    """No two signed notes give two roots for the same number of entries; for that not one entry is needed.

    Raises:
        Forked: two of them do.
    """
    seen: dict[int, SignedCheckpoint] = {}
    for note in notes:
        if note.void:
            continue
        size = note.checkpoint.size
        other = seen.setdefault(size, note)
        if other.checkpoint.root != note.checkpoint.root:
            raise Forked(f"the log was forked: two roots for its first {size} entries", other, note)


# --- entries ---------------------------------------------------------------------------------------------------------


def read_tree(
    evidence: Evidence, signed: SignedCheckpoint, known: LogTree | None = None, most: int = MAX_LOG_BYTES
) -> LogTree:
    """Fetch every entry below a checkpoint and hash the entries to its root.

    With the ``known`` beginning of the log only what follows it is fetched; all of it is hashed again.  ``most``: bytes
    of entries that are held.

    Raises:
        Undecided: entries that do not give the root, which nobody signed; an oversized log; an older note than that of
            the known beginning.
        Forked: the log does not continue its known beginning.
    """
    size = signed.checkpoint.size
    if size > MAX_ENTRIES:
        raise Undecided(
            f"the log has {size} entries, an audit reads at most {MAX_ENTRIES}", "ask the provider for a new log"
        )
    if known is not None:
        if size < known.size:
            raise _stale(size, known.size, "the log that this auditor read before", _both(known.signed, signed))
        one_history((known.signed, signed))
        if size == known.size:
            return known
    entries = _entries(evidence, known.entries if known is not None else (), size, most)
    if len(entries) != size:
        raise Undecided(f"the log gave {len(entries)} of {size} entries", ASK_AGAIN)
    tree = MerkleTree(entries)
    if tree.root() != signed.checkpoint.root:
        if known is not None:
            # What came may be spoiled, or what was known may not be the beginning of this log: all of it anew tells.
            whole = read_tree(evidence, signed, None, most)
            whole.extends(known.signed, "the log that this auditor read before")
            return whole
        raise Undecided(
            "the entries do not hash to the signed root: on the way or at the provider one was altered, dropped or "
            "reordered",
            DELIVER_AGAIN,
            size=size,
            signed_root=signed.checkpoint.root,
            computed_root=tree.root(),
        )
    return LogTree(signed, entries, tree)


def catch_up(
    tree: LogTree,
    evidence: Evidence,
    log_key: NoteVerifier,
    remember: Callable[[LogTree], SignedCheckpoint],
    most: int = MAX_LOG_BYTES,
    may_ask: Callable[[], None] = lambda: None,
) -> LogTree:
    """The log, remembered, and read on once to what this auditor's folder has newer of it.

    `serve`, `beacon` and `audit` share the folder, and each may be shown another log: what one of them has seen since
    counts for all.  Where the folder has a still newer note by then, only as much is taken as that one was found to
    continue: a log that grows all the time does not keep an audit reading for ever.

    Args:
        may_ask: raises where the provider is asked for nothing more; called only if it must be asked.

    Raises:
        Forked: the log is not the one that was seen.
        Undecided: the provider does not show what was seen.
    """
    kept = remember(tree)
    if kept.checkpoint.size <= tree.signed.checkpoint.size:
        return tree
    may_ask()
    signed = read_note(evidence, log_key)
    one_history((kept, signed))
    tree = read_tree(evidence, signed, tree, most)
    tree.extends(kept, "the checkpoint that this auditor has meanwhile seen")
    newest = remember(tree)
    if newest.checkpoint.size <= tree.signed.checkpoint.size:
        return tree
    entries = tree.entries[: kept.checkpoint.size]
    return LogTree(kept, entries, MerkleTree(entries))


def decoded(tree: LogTree, known: LogView | None = None) -> LogView:
    """The log with its entries decoded, up to the first of an unknown kind; those of its ``known`` beginning are.

    What an entry of an unknown kind means for those after it is unknown, so they are not read; those before it stand.

    Raises:
        Refused: an entry before that one, under the signed root, is not a message of this protocol.
    """
    if known is not None and tree is known:
        return known
    before = known.messages if known is not None else ()
    return LogView(tree.signed, tree.entries, tree.tree, (*before, *_messages(tree.entries, len(before))))


def _entries(evidence: Evidence, known: tuple[bytes, ...], size: int, most: int) -> tuple[bytes, ...]:
    """All entries, page by page, so that no more than a page is held beyond ``most`` bytes."""
    entries, held = list(known), sum(map(len, known))
    while len(entries) < size:
        page = evidence.entries(len(entries), min(len(entries) + PAGE, size))
        entries += page
        held += sum(map(len, page))
        if held > most:
            raise Undecided(
                f"the log has more than {most} bytes in its first {len(entries)} of {size} entries",
                "give --log-bytes, if this machine has eight times the memory, or ask the provider for a new log",
            )
        if not page:
            break
    return tuple(entries)


def _messages(entries: Sequence[bytes], start: int) -> Iterator[Message]:
    """Entries up to the first of an unknown kind; decoding is strict and runs every message's own validate()."""
    for index, data in enumerate(entries[start:], start):
        try:
            yield decode_any(data, ENTRIES)
        except AuditError as error:
            if _foreign(data):
                return
            why = f"entry {index} is not a message of this protocol: {error}"
            raise Refused(why, index=index, entry=data) from None


def _foreign(data: bytes) -> bool:
    """Whether an entry names a kind or a version of the protocol that another build may know."""
    try:
        tag = peek_tag(data)
    except AuditError:
        return False
    version = data[1 + len(tag) : 3 + len(tag)]
    return tag not in {kind.TAG for kind in ENTRIES} or version != PROTOCOL_VERSION.to_bytes(2, "big")
