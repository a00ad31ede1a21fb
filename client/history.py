# SPDX-License-Identifier: GPL-3.0-or-later
"""The log as one account has seen it: every note that it is shown belongs to the one history that it remembers.

The account remembers the newest checkpoint that it has verified.  Whatever note comes later, with an answer or from the
ledger, has to be of the same log, by an RFC 9162 path between the two; a fork is refused with both notes kept.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from ragseal.client.account import AccountState
from ragseal.client.evidence import Evidence
from ragseal.client.link import LedgerLink
from ragseal.kernel.errors import AuditError, LedgerError, TransportError
from ragseal.kernel.versions import IndexUpdate
from ragseal.ledger.checkpoint import Checkpoint, lacks_line, open_checkpoint
from ragseal.ledger.merkle import HASH_SIZE, Frontier, leaf_hash, verify_consistency, verify_inclusion
from ragseal.ledger.note import Note, NoteVerifier
from ragseal.ledger.turns import LogKey, TurnProof, follow

PAGE = 1024  #: entries that are asked for at once


@dataclass(frozen=True, slots=True)
class Shown:
    """A checkpoint that the ledger shows, signed and of the remembered history."""

    note: bytes
    checkpoint: Checkpoint
    newest: bool  #: larger than the remembered one: to be remembered once what it was asked for has been checked


class History:
    """What an account knows of a log, and how it comes to know more."""

    def __init__(self, state: AccountState, log: NoteVerifier, ledger: LedgerLink) -> None:
        """``log``: the pinned key; ``ledger``: where the log is read."""
        self._state, self._log, self._ledger = state, log, ledger

    @property
    def log(self) -> NoteVerifier:
        """The pinned key, with the turns that are known."""
        return self._log

    def learn(self, note: bytes, evidence: Evidence) -> None:
        """Ask for turns of the log's key, where a note has no line of the key that counts as far as is known.

        A turn is believed only in the history that this account remembers and is shown now: a proof of it can be of a
        tree that was made up for this account.  What is found is on disk before it is believed, with its proofs, which
        an auditor reads; a note that is not the log's is still refused by its own check.

        Raises:
            LedgerError: a turn that does not hold or is of another history, or two turns that one old key has signed.
            TransportError: the ledger is out of reach.
        """
        if not lacks_line(note, self._log):
            return
        proofs = self._ledger.rotations()
        for number, proof in enumerate(proofs):
            evidence.add(f"received-rotation-{number}", proof)
        found = follow(self._log, proofs)
        new = found.turns[len(self._log.keys) - 1 :]
        if new:
            shown = open_checkpoint(note, found).checkpoint
            learnt = [one for one in map(TurnProof.decode, proofs) if one.turn.body() in [turn.body() for turn in new]]
            for one in learnt:
                self._in_this_history(one, shown, found, evidence)
            self._state.keep_turns(found, [one.encode() for one in learnt])  # of a known turn anything can be shown
            self._log = found

    def _in_this_history(self, proof: TurnProof, shown: Checkpoint, found: LogKey, evidence: Evidence) -> None:
        """Raises LedgerError unless the tree that a turn ends is of one history with what is remembered and shown."""
        end = Checkpoint.parse(Note.parse(proof.checkpoint).text)
        known = self._state.checkpoint(found)
        if known is not None and not known.void:
            self._one_history(known.checkpoint, end, evidence)
        if shown.size > end.size:
            # The newest entries are public on the tick only (SPEC G.6.3): then what is public has to continue the turn.
            public = open_checkpoint(self._ledger.checkpoint(), found).checkpoint
            shown = min(shown, public, key=lambda one: one.size)
        self._one_history(end, shown, evidence)

    def _one_history(self, one: Checkpoint, other: Checkpoint, evidence: Evidence) -> None:
        old, new = sorted((one, other), key=lambda c: c.size)
        path = self._ledger.consistency(old.size, new.size) if old.size < new.size else []
        evidence.add(f"received-consistency-{old.size}-{new.size}", b"".join(path))
        try:
            verify_consistency(old.size, new.size, path, old.root, new.root)
        except LedgerError as error:
            raise LedgerError(
                f"the turn of the log's key that is shown is of a different history than {self._log.name} of "
                f"{old.size} and {new.size} entries: it is not believed ({error})"
            ) from None

    @property
    def size(self) -> int:
        """Entries of the remembered checkpoint; 0 before the first, and where what was remembered is void."""
        known = self._state.checkpoint()
        return 0 if known is None or known.void else known.checkpoint.size

    def latest(self, evidence: Evidence) -> Shown:
        """The ledger's newest checkpoint.

        Raises:
            LedgerError, EncodingError: not signed by the log, or of another history than the remembered one.
            TransportError: the ledger is out of reach.
        """
        note = evidence.add("received-checkpoint", self._ledger.checkpoint())
        self.learn(note, evidence)
        checkpoint = open_checkpoint(note, self._log).checkpoint
        return Shown(note, checkpoint, self.agrees(checkpoint, evidence))

    def cosigned(self, evidence: Evidence) -> bytes | None:
        """The note that the ledger shows as witnessed, unverified.  TransportError: the ledger is out of reach."""
        note = self._ledger.cosigned()
        if note is None:
            return None
        self.learn(evidence.add("received-cosigned", note), evidence)
        return note

    def remember(self, shown: Shown) -> None:
        """Keep a checkpoint, if it is newer than the one kept."""
        if shown.newest:
            self._state.remember_checkpoint(shown.note)

    def path(self, index: int, size: int) -> list[bytes]:
        """The ledger's inclusion path of entry ``index`` among the first ``size``, unverified."""
        return self._ledger.inclusion(index, size)

    def entry(self, index: int) -> bytes:
        """Entry ``index`` of the ledger, unverified.  LedgerError: it gives none."""
        found = self._ledger.entries(index, 1)
        if not found:
            raise LedgerError(f"the ledger keeps back entry {index}")
        return found[0]

    def update(self, index: int, evidence: Evidence) -> IndexUpdate:
        """Entry ``index``, which names versions of a window's indices, proven to stand in the log that is shown now.

        Raises:
            LedgerError: the log does not hold it there.
            EncodingError: no such entry.
            TransportError: the ledger is out of reach, or does not show it yet.
        """
        shown = self.latest(evidence)
        if index >= shown.checkpoint.size:
            raise TransportError("the log does not show this version of the index yet: ask again in a minute")
        entry = evidence.add(f"entry-{index}", self.entry(index))
        path = self.path(index, shown.checkpoint.size)
        evidence.add("received-inclusion", b"".join(path))
        try:
            verify_inclusion(leaf_hash(entry), index, shown.checkpoint.size, path, shown.checkpoint.root)
        except LedgerError as error:
            raise LedgerError(f"the log does not hold the version of the index that is shown: {error}") from None
        self.remember(shown)
        return IndexUpdate.decode(entry)

    def following(self, entry: bytes, index: int, stop: int, shown: Shown) -> Iterator[bytes]:
        """Entries [index + 1, stop) of a checkpoint behind ``entry``, which is entry ``index``.

        Each page is proven before any of it comes: hashed on from what stands before it, it gives a root that the
        ledger proves to be a beginning of the checkpoint.  So is ``entry``.

        Raises:
            LedgerError: an entry that the checkpoint does not cover, or none where there should be one.
            TransportError: the ledger is out of reach.
        """
        size, root = shown.checkpoint.size, shown.checkpoint.root
        frontier = self._frontier(index)
        frontier.add(leaf_hash(entry))
        while frontier.size < stop:
            at = frontier.size
            page = self._ledger.entries(at, min(PAGE, stop - at))[: stop - at]
            if not page:
                raise LedgerError(f"the ledger keeps back entry {at} of the {size} that it has signed")
            for one in page:
                frontier.add(leaf_hash(one))
            path = self._ledger.consistency(frontier.size, size) if frontier.size < size else []
            try:
                verify_consistency(frontier.size, size, path, frontier.root(), root)
            except LedgerError as error:
                raise LedgerError(
                    f"entries {at} to {frontier.size - 1} are not those that were signed: {error}"
                ) from None
            yield from page

    def _frontier(self, index: int) -> Frontier:
        """The perfect subtrees of the first ``index`` entries, as the ledger says: wrong ones give a wrong root.

        They are the path of the entry behind them in the tree that ends with it (RFC 9162).
        """
        roots = list(reversed(self.path(index, index + 1)))
        if len(roots) != index.bit_count() or any(len(one) != HASH_SIZE for one in roots):
            raise LedgerError(f"the ledger gives no path of entry {index}")
        return Frontier(index, roots)

    def agrees(self, checkpoint: Checkpoint, evidence: Evidence, given: Sequence[bytes] = ()) -> bool:
        """The checkpoint and the remembered one are of one history; True if the new one is to be remembered.

        Args:
            given: the path between the two, where it came with the checkpoint; else the ledger is asked.

        Raises:
            LedgerError: two histories, or a ledger that does not show that they are one.
            TransportError: the ledger is out of reach.
        """
        known = self._state.checkpoint()
        if (
            known is None or known.void
        ):  # a thief of an old key can have shown the void one: the log need not continue it
            return True
        evidence.add("remembered-checkpoint", known.note.encode())
        old, new = sorted((known.checkpoint, checkpoint), key=lambda c: c.size)
        path: Sequence[bytes] = given if old.size < new.size else ()
        if old.size < new.size and not path:
            try:
                path = self._ledger.consistency(old.size, new.size)
            except TransportError:
                raise
            except AuditError as error:
                if open_checkpoint(self._ledger.checkpoint(), self._log).checkpoint.size < new.size:
                    raise TransportError(
                        "the log does not show entries this young yet: ask again in a minute"
                    ) from None
                raise LedgerError(
                    f"the log does not prove that size {old.size} is the beginning of size {new.size}: {error}"
                ) from None
        evidence.add("received-consistency", b"".join(path))
        try:
            verify_consistency(old.size, new.size, path, old.root, new.root)
        except LedgerError as error:
            raise LedgerError(f"the log's checkpoint contradicts the one this account remembers: {error}") from None
        return checkpoint.size > known.checkpoint.size
