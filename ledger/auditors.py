# SPDX-License-Identifier: GPL-3.0-or-later
"""Whose claim an auditor's verdict in a provider's ledger is: the key's, and whether the window names it.  SPEC D.20.3.

A provider should enter no verdict of an auditor that the window's manifest does not name, but it could.  What a reader
is told rests on manifests of the same signed log: every entry up to a checkpoint is hashed to its root once.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Protocol

from ragseal.kernel.commitment import SignedManifest
from ragseal.kernel.encoding import peek_tag
from ragseal.kernel.errors import AuditError, LedgerError
from ragseal.kernel.verdict import AuditVerdict, log_digest
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import Frontier, leaf_hash
from ragseal.ledger.note import NoteVerifier

PAGE = 1024  #: entries that are asked for at once

NAMED = "its claim; the window's manifest names it as an auditor"
STRANGE = "claimed by a key that the manifest does not name"
UNKNOWN = "claimed about a window of which this log has no manifest"
ELSEWHERE = "claimed about another log than this one"


class Entries(Protocol):
    """Where a log is read."""

    async def entries(self, start: int, count: int) -> Sequence[bytes]: ...


class NamedAuditors:
    """The auditors that the manifests of one log name."""

    def __init__(self, log: NoteVerifier) -> None:
        self._log = log_digest(log.vkey())
        self._seen = Frontier()
        self._named: dict[bytes, frozenset[bytes]] = {}
        self._reading = asyncio.Lock()

    async def read(self, source: Entries, point: Checkpoint) -> None:
        """Read on to a verified checkpoint; what was read before is not read again.

        Raises:
            LedgerError: the entries are not those that were signed; nothing of them is kept.
            TransportError: the log cannot be reached.
        """
        async with self._reading:
            seen, named = self._seen.copy(), {}
            while seen.size < point.size:
                page = await source.entries(seen.size, min(PAGE, point.size - seen.size))
                for entry in page[: point.size - seen.size]:
                    seen.add(leaf_hash(entry))
                    named.update(_auditors(entry))
                if not page:
                    raise LedgerError(f"the log keeps back entry {seen.size} of the {point.size} that it signed")
            if seen.size == point.size and seen.root() != point.root:
                raise LedgerError("the log serves entries different from those it signed: run follow for the evidence")
            self._seen = seen
            self._named |= named

    def whose(self, verdict: AuditVerdict) -> str:
        """What a reader is told beside the auditor's key."""
        if verdict.log != self._log:
            return ELSEWHERE
        named = self._named.get(verdict.manifest)
        if named is None:
            return UNKNOWN
        return NAMED if verdict.auditor in named else STRANGE


def is_claim(entry: bytes) -> bool:
    """Whether an entry is an auditor's verdict."""
    try:
        return peek_tag(entry) == AuditVerdict.TAG
    except (AuditError, UnicodeError):
        return False


def _auditors(entry: bytes) -> dict[bytes, frozenset[bytes]]:
    """Of a manifest its digest and the keys of its auditors; of anything else nothing."""
    try:
        if peek_tag(entry) != SignedManifest.TAG:
            return {}
        manifest = SignedManifest.decode(entry).manifest
    except (AuditError, UnicodeError):  # what is in a log may be anything
        return {}
    return {manifest.digest(): frozenset(one.public_key for one in manifest.auditors)}
