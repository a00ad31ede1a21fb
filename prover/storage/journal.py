# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider's hand on the ledger: every entry passes the rules of :class:`History` inside the writer's queue.

An entry is built, checked against everything before it and taken into the history in one step of the log's single
writer, so two requests can never get the same seq and nothing follows a closing entry.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import MAX_PARTICIPANTS
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AuditError, LedgerError
from ragseal.ledger.log import MAX_ENTRY_BYTES, Appended, Log
from ragseal.ledger.published import PublicLog
from ragseal.prover.storage.history import History, Window

_PAGE = 256


@dataclass(frozen=True, slots=True)
class Entry:
    """An entry that is durable, with the proof that it is: always the same bytes for the same entry."""

    index: int
    data: bytes
    checkpoint: bytes  #: signed note of the size at which it is the last one
    path: tuple[bytes, ...]


class Journal:
    """A log and the history it tells.  Reads come from any thread, appends from one event loop."""

    def __init__(self, ledger: Log, provider_key: bytes) -> None:
        """Replays the whole log.

        Raises:
            LedgerError: an entry that this program would never have written.
        """
        self.ledger = ledger
        self.history = History(ledger.origin, provider_key)
        self._next = 0
        self._failure: str | None = None
        for entry in read_entries(ledger):
            self.history.replay(self._next, entry)
            self._next += 1
        self.public = PublicLog(ledger)  #: what strangers may read: records wait for the coarse tick

    async def append(self, make: Callable[[], Message]) -> Entry:
        """Append what ``make`` gives when it is the entry's turn.

        Raises:
            AuditError: whatever ``make`` or the history refuses; nothing was appended.
            LedgerError: storage failed; the provider takes nothing more until it is started again.
        """
        built: list[Message] = []
        try:
            appended = await self.ledger.append(lambda index: self._build(index, make, built))
        except AuditError as error:
            self._refused(error, built)
            raise
        self._reveal(built)
        return self._entry(appended)

    def append_now(self, make: Callable[[], Message]) -> Entry:
        """As :meth:`append`, for programs without an event loop."""
        built: list[Message] = []
        try:
            outcome = self.ledger.append_now([lambda index: self._build(index, make, built)])[0]
        except AuditError as error:
            self._refused(error, built)
            raise
        if isinstance(outcome, Exception):
            raise outcome
        self._reveal(built)
        return self._entry(outcome)

    def _build(self, index: int, make: Callable[[], Message], built: list[Message]) -> bytes:
        if self._failure is not None:
            raise LedgerError(self._failure)
        if index != self._next:
            raise LedgerError("the ledger is not where this program left it: stop the provider and start it again")
        message = make()
        data = message.encode()
        if len(data) > MAX_ENTRY_BYTES:
            raise LedgerError(f"a ledger entry is at most {MAX_ENTRY_BYTES} bytes, this one has {len(data)}")
        self.history.add(index, data)
        self._next += 1
        built.append(message)
        return data

    def _reveal(self, built: Sequence[Message]) -> None:
        if not isinstance(built[0], Record):  # the beacon is a conversation in the log: it cannot wait
            self.public.reveal()

    def _refused(self, error: AuditError, built: Sequence[Message]) -> None:
        if built:  # the history is ahead of the log now: only a new replay can tell what is there
            self._failure = f"the provider stopped taking entries ({error}): start it again once that is mended"

    @staticmethod
    def _entry(appended: Appended) -> Entry:
        bundle = appended.bundle
        return Entry(bundle.index, appended.entry, bundle.checkpoint, tuple(bundle.path))

    @property
    def failure(self) -> str | None:
        """Why nothing more is taken; None while all is well."""
        return self._failure

    def published_records(self, window: Window) -> int:
        """How many records of a window the public may know of."""
        return bisect.bisect_left(window.records, self.public.size)

    # --- reads: what is durable and signed, never more ---

    def data(self, index: int) -> bytes:
        """The bytes of an entry; LedgerError beyond the log's size."""
        if self._failure is not None and index >= self.ledger.size:
            raise LedgerError(self._failure)
        return self.ledger.entry(index)

    def entry(self, index: int) -> Entry:
        """An entry with its inclusion path, as :meth:`append` gave it."""
        size = index + 1
        data, path = self.ledger.entry(index), tuple(self.ledger.inclusion(index, size))
        return Entry(index, data, self.ledger.checkpoint_at(size), path)

    def index_of(self, data: bytes, start: int) -> int:
        """Where an entry of the beacon of the window that begins at ``start`` stands; LedgerError if nowhere."""
        stop = min(self.ledger.size, start + 4 * MAX_PARTICIPANTS + 8)
        for index in range(start, stop):
            if self.ledger.entry(index) == data:
                return index
        raise LedgerError("the entry is not durable yet: try again")


def read_entries(ledger: Log) -> Iterator[bytes]:
    """Every entry of a log, in order."""
    size = ledger.size
    for start in range(0, size, _PAGE):
        yield from ledger.entries(start, min(_PAGE, size - start))


def read_page(ledger: Log, indices: Sequence[int]) -> list[bytes]:
    """The entries with these increasing indices, in one read where they stand close together."""
    if not indices:
        return []
    first, span = indices[0], indices[-1] - indices[0] + 1
    if span > 4 * len(indices):
        return [ledger.entry(index) for index in indices]
    found = ledger.entries(first, span)
    return [found[index - first] for index in indices]
