# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor's own copy of the log: re-hashed to the signed root, decoded, and consistent with the past.  SPEC D.1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import MESSAGES, SignedManifest
from ragseal.kernel.encoding import Message, decode_any
from ragseal.kernel.errors import AuditError, LedgerError
from ragseal.ledger.checkpoint import SignedCheckpoint, open_checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteVerifier
from ragseal.verifier.evidence import Evidence, Refused

MAX_ENTRIES = 1 << 22  #: an audit holds the log in memory
ENTRIES = (*MESSAGES, Record)  #: every kind of message that a log of this protocol holds

M = TypeVar("M", bound=Message)


@dataclass(frozen=True, slots=True)
class LogView:
    """Every entry up to a signed checkpoint."""

    signed: SignedCheckpoint
    entries: tuple[bytes, ...]
    messages: tuple[Message, ...]
    tree: MerkleTree

    @property
    def size(self) -> int:
        return len(self.entries)

    def of(self, kind: type[M]) -> Iterator[tuple[int, M]]:
        """(index, message) of one kind, in log order."""
        for index, message in enumerate(self.messages):
            if isinstance(message, kind):
                yield index, message

    def manifests(self) -> list[tuple[int, SignedManifest]]:
        return list(self.of(SignedManifest))

    def precedes(self, newer: SignedCheckpoint) -> None:
        """A newer signed checkpoint is not of a smaller log, nor of another one of the same size.

        Raises:
            Refused: the log shrank or was rewritten.
        """
        size, root = newer.checkpoint.size, newer.checkpoint.root
        both = {"older": self.signed.note.encode().decode(), "newer": newer.note.encode().decode()}
        if size < self.size:
            raise Refused(f"the log shrank from {self.size} to {size} entries", **both)
        if size == self.size and root != self.signed.checkpoint.root:
            raise Refused(f"the log was forked: two roots for its first {size} entries", **both)

    def extends(self, older: SignedCheckpoint, whose: str) -> None:
        """This log continues the tree of an older signed checkpoint.

        Raises:
            Refused: it shrank or was rewritten; the two signed notes together are the proof of it.
        """
        size, root = older.checkpoint.size, older.checkpoint.root
        both = {"older": older.note.encode().decode(), "newer": self.signed.note.encode().decode()}
        if size > self.size:
            raise Refused(f"the log shrank: {whose} has size {size}, the log now {self.size}", **both)
        if self.tree.root(size) != root:
            raise Refused(f"the log was forked: its first {size} entries do not give the root of {whose}", **both)


def read_log(evidence: Evidence, log_key: NoteVerifier, known: LogView | None = None) -> LogView:
    """Fetch the newest checkpoint and every entry below it, and hash the entries to its root.

    With the ``known`` beginning of the log only what follows it is fetched; all of it is hashed again.

    Raises:
        LedgerError: wrong signature or origin, entries that do not give the root, an oversized log.
        Refused: an entry that is no message of this protocol.
    """
    signed = open_checkpoint(evidence.checkpoint(), log_key)
    size = signed.checkpoint.size
    if size > MAX_ENTRIES:
        raise LedgerError(f"the log has {size} entries, an audit reads at most {MAX_ENTRIES}")
    if known is not None:
        known.precedes(signed)
        if known.size == size:
            return known
    before = known.entries if known is not None else ()
    entries = (*before, *evidence.entries(len(before), size))
    if len(entries) != size:
        raise LedgerError(f"the log gave {len(entries)} of {size} entries")
    tree = MerkleTree(entries)
    if tree.root() != signed.checkpoint.root:
        raise Refused(
            "the entries do not hash to the signed root: an entry was altered, dropped or reordered",
            size=size,
            signed_root=signed.checkpoint.root,
            computed_root=tree.root(),
        )
    decoded = known.messages if known is not None else ()
    return LogView(signed, entries, (*decoded, *_messages(entries, len(decoded))), tree)


def _messages(entries: Sequence[bytes], start: int) -> Iterator[Message]:
    """Decoded entries; decoding is strict and runs every message's own validate()."""
    for index, data in enumerate(entries[start:], start):
        try:
            yield decode_any(data, ENTRIES)
        except AuditError as error:
            raise Refused(f"entry {index} is no message of this protocol: {error}", index=index) from None
