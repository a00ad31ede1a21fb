# SPDX-License-Identifier: GPL-3.0-or-later
"""The log as the public may read it: its end moves when the owner says so, not with every entry.

A record's time is coarse on purpose (SPEC B.3), and a log that showed each record at the moment it is made would undo
that: whoever polls it would see when every account asks.  So the public reads up to the last size that was revealed.
"""

from __future__ import annotations

from typing import Protocol

from ragseal.kernel.errors import LedgerError
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.turns import TurnProof


class ReadableLog(Protocol):
    """What is read of a log: :class:`ragseal.ledger.log.Log` itself, or a copy of it."""

    @property
    def origin(self) -> str: ...

    @property
    def verifier(self) -> NoteVerifier: ...

    def published(self) -> tuple[int, bytes]: ...

    def checkpoint_at(self, size: int) -> bytes: ...

    def entries(self, start: int, count: int) -> list[bytes]: ...

    def leaf_hashes(self, start: int, count: int) -> list[bytes]: ...

    def inclusion(self, index: int, size: int) -> list[bytes]: ...

    def consistency(self, old: int, new: int) -> list[bytes]: ...

    def turns(self) -> list[TurnProof]: ...


class PublicLog:
    """A read-only view of a log up to the size last revealed; from any thread."""

    def __init__(self, log: ReadableLog, live: bool = False) -> None:
        """All that the log holds now is revealed.  ``live``: every entry is, as soon as it is there."""
        self._log, self.live = log, live
        self._seen = log.published()

    def reveal(self) -> None:
        """Show everything that is durable and signed by now."""
        self._seen = self._log.published()

    def published(self) -> tuple[int, bytes]:
        """Size and signed note of what is public, of one moment."""
        return self._log.published() if self.live else self._seen

    @property
    def size(self) -> int:
        return self.published()[0]

    @property
    def origin(self) -> str:
        return self._log.origin

    @property
    def verifier(self) -> NoteVerifier:
        return self._log.verifier

    def checkpoint_at(self, size: int) -> bytes:
        """The signed note of a public size.  LedgerError beyond."""
        self._check(size)
        return self._log.checkpoint_at(size)

    def entries(self, start: int, count: int) -> list[bytes]:
        """Entries [start, start + count), all of them public.  LedgerError otherwise."""
        self._check_range(start, count)
        return self._log.entries(start, count)

    def leaf_hashes(self, start: int, count: int) -> list[bytes]:
        """Leaf hashes of entries [start, start + count), all of them public.  LedgerError otherwise."""
        self._check_range(start, count)
        return self._log.leaf_hashes(start, count)

    def inclusion(self, index: int, size: int) -> list[bytes]:
        """RFC 9162 inclusion path in a public size."""
        self._check(size)
        return self._log.inclusion(index, size)

    def consistency(self, old: int, new: int) -> list[bytes]:
        """RFC 9162 consistency path between public sizes."""
        self._check(new)
        return self._log.consistency(old, new)

    def turns(self) -> list[TurnProof]:
        """The public turns of the log's key, in order."""
        size = self.size
        return [proof for proof in self._log.turns() if proof.turn.index < size]

    def _check_range(self, start: int, count: int) -> None:
        if start < 0 or count < 1:
            raise LedgerError("ask for at least one entry, counting from 0")
        self._check(start + count)

    def _check(self, size: int) -> None:
        if not 0 <= size <= self.size:
            raise LedgerError(f"size {size} is beyond the published size {self.size}")
