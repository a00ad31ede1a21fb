# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider's hand on the ledger: every entry passes the rules of :class:`History` inside the writer's queue.

An entry is built, checked against everything before it and taken into the history in one step of the log's single
writer, so two requests can never get the same seq and nothing follows a closing entry.
"""

from __future__ import annotations

import asyncio
import bisect
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from ragseal.kernel.attestation import Record
from ragseal.kernel.commitment import WindowClose, WindowOpen
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AuditError, CommitmentError, LedgerError
from ragseal.kernel.verdict import log_digest
from ragseal.kernel.versions import IndexUpdate
from ragseal.ledger.log import MAX_ENTRY_BYTES, Appended, Log
from ragseal.ledger.published import PublicLog
from ragseal.prover.storage.history import History
from ragseal.prover.storage.window import Window

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

    def __init__(self, ledger: Log, provider_key: bytes, frozen: str | None = None) -> None:
        """Replays the whole log.

        Args:
            frozen: why nothing is entered, of a copy.

        Raises:
            LedgerError: an entry that this program would never have written.
        """
        self.ledger = ledger
        self.history = History(ledger.origin, provider_key, log_digest(ledger.verifier.vkey()))
        self._next = 0
        self._failure: str | None = None
        self._frozen = frozen
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

    async def append_all(self, *makes: Callable[[], Message]) -> list[Entry | BaseException]:
        """Append several entries that follow each other, each of which may be refused by itself as by :meth:`append`.

        They are in the queue together, so that in general nothing comes between them, not even a crash.
        """
        return await asyncio.gather(*(self.append(make) for make in makes), return_exceptions=True)

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
        self.refuse_frozen()
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

    @property
    def frozen(self) -> bool:
        """Whether this is a copy's log, which takes nothing."""
        return self._frozen is not None

    def refuse_frozen(self) -> None:
        """Refuse what would end in an entry, before any work is done for it.  LedgerError: this is a copy's log."""
        if self._frozen is not None:
            raise LedgerError(self._frozen)

    def _reveal(self, built: Sequence[Message]) -> None:
        """Show an entry at once, unless that would show when accounts ask (SPEC G.6.3).

        A beacon is a conversation in the log that cannot wait; but strangers take part in it, and beside an open window
        each of its entries would bring the records before it to light.
        """
        ends = isinstance(built[0], WindowOpen | WindowClose)
        ends |= isinstance(built[0], IndexUpdate) and built[0].number == 1  # behind the opening, before any record
        if ends or (self.history.open is None and not isinstance(built[0], Record)):
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

    def shown(self, name: str) -> Window:
        """A window that the public may know of, by name; for the empty name the open one, else the newest.

        Raises:
            CommitmentError: there is none.
        """
        history, size = self.history, self.public.size
        if name:
            found: Window | None = history.named(name)
        elif history.open is not None:
            found = history.open
        else:
            found = next((w for w in reversed(history.windows.values()) if w.index < size), None)
        if found is None or found.index >= size:  # where its manifest stands says how many records came before it
            raise CommitmentError(
                f"this provider's ledger holds no window {name!r}"
                if name
                else "this provider has not committed a window yet: ask again once it has"
            )
        return found

    def published_update(self, window: Window, number: int) -> bool:
        """Whether the public may know of this version of a window's indices; 0: those that its manifest commits to."""
        return not number or (number <= len(window.updates) and window.updates[number - 1][0] < self.public.size)

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
