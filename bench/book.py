# SPDX-License-Identifier: GPL-3.0-or-later
"""The record book as an outsider keeps it: every entry of a log, every root, and what was acknowledged, compared."""

from __future__ import annotations

import hashlib
from collections import Counter

from bench.asker import Kept
from ragseal.kernel.attestation import Record, SealedAnswer
from ragseal.kernel.commitment import WindowClose
from ragseal.kernel.encoding import peek_tag
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.merkle import Frontier, leaf_hash, verify_inclusion
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.remote import RemoteLedger


class BookError(AssertionError):
    """What a provider or observer must never do, whatever happens to it."""


def require(condition: bool, what: str) -> None:
    if not condition:
        raise BookError(what)


class Book:
    """All entries of one log in order, with the root of every size: any note ever signed can be held against it."""

    def __init__(self, log: NoteVerifier) -> None:
        self.log = log
        self.entries: list[bytes] = []
        self.roots: list[bytes] = [Frontier().root()]
        self.records: dict[int, Record] = {}  #: by ledger index
        self._frontier = Frontier()
        self._requests: set[tuple[bytes, str, bytes]] = set()
        self._counters: Counter[tuple[bytes, str]] = Counter()
        self._sequence: Counter[bytes] = Counter()
        self._closed: set[bytes] = set()

    def add(self, entry: bytes) -> None:
        """The next entry; BookError for a record that may not be there."""
        index = len(self.entries)
        self.entries.append(entry)
        self._frontier.add(leaf_hash(entry))
        self.roots.append(self._frontier.root())
        tag = peek_tag(entry)
        if tag == WindowClose.TAG:
            self._closed.add(WindowClose.decode(entry).manifest)
        if tag != Record.TAG:
            return
        record = self.records[index] = Record.decode(entry)
        request, window = record.signed.request, record.manifest
        identity = (window, request.account, request.request_id)
        require(window not in self._closed, f"entry {index}: a record after its window was closed")
        require(identity not in self._requests, f"entry {index}: a second record of request {request.request_id.hex()}")
        self._requests.add(identity)
        require(
            record.seq == self._sequence[window], f"entry {index}: seq {record.seq} after {self._sequence[window] - 1}"
        )
        self._sequence[window] += 1
        counter = (window, request.account)
        require(request.ctr == self._counters[counter] + 1, f"entry {index}: ctr {request.ctr} of {request.account}")
        self._counters[counter] += 1

    async def follow(self, remote: RemoteLedger) -> int:
        """Fetch what is new, check the newest note; returns its size."""
        note = await remote.checkpoint()
        size = open_checkpoint(note, self.log).checkpoint.size
        require(size >= len(self.entries), f"the log shrank from {len(self.entries)} to {size}")
        while len(self.entries) < size:
            for entry in await remote.entries(len(self.entries), size - len(self.entries)):
                self.add(entry)
        self.check_note(note)
        return size

    async def read_again(self, remote: RemoteLedger) -> None:
        """Every entry is still the one that was read before."""
        at = 0
        while at < len(self.entries):
            for entry in await remote.entries(at, min(1024, len(self.entries) - at)):
                require(entry == self.entries[at], f"entry {at} is not the one that it was")
                at += 1

    def check_note(self, note: bytes) -> None:
        """A note of the log, signed, and of the very entries that are known: no other history was ever signed."""
        point = open_checkpoint(note, self.log).checkpoint
        require(
            point.size < len(self.roots), f"a note of size {point.size} was signed, the log has {len(self.entries)}"
        )
        require(point.root == self.roots[point.size], f"two roots were signed for size {point.size}: a fork")

    def check_answer(self, kept: Kept) -> int:
        """An acknowledged answer: its record is in the book, where the receipt says, and its account can open it.

        Returns its ledger index.
        """
        answer = SealedAnswer.decode(kept.received)
        body = answer.receipt.body
        require(answer.record.signed.encode() == kept.sent, f"entry {body.index}: another request than was sent")
        require(body.index < len(self.entries), f"entry {body.index} was acknowledged, the log has {len(self.entries)}")
        entry = answer.record.encode()
        require(self.entries[body.index] == entry, f"entry {body.index} was acknowledged with other bytes")
        self.check_note(body.checkpoint)
        point = open_checkpoint(body.checkpoint, self.log).checkpoint
        verify_inclusion(leaf_hash(entry), body.index, point.size, answer.receipt.path, point.root)
        require(kept.open().openings.digest() == body.openings_digest, f"entry {body.index}: other openings")
        return body.index

    def count(self, manifest: bytes) -> int:
        """Records of a window."""
        return self._sequence[manifest]

    def digest(self) -> str:
        """Of all entries: for reports."""
        return hashlib.sha256(b"".join(self.roots[-1:])).hexdigest()
