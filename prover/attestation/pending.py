# SPDX-License-Identifier: GPL-3.0-or-later
"""Prepares that were answered and wait for their Retrieve.  SPEC B.1."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from ragseal.kernel.errors import BudgetError

PENDING_SECONDS = 600.0  #: how long a Prepare waits for its Retrieve
PENDING_PER_ACCOUNT = 16
PENDING_TOTAL = 1 << 16


@dataclass(frozen=True, slots=True)
class Pending:
    """A Prepare that was answered."""

    request: bytes  #: the Prepare's canonical bytes
    query_digest: bytes
    embedding: bytes
    blinder: int
    c_e: bytes
    reply: bytes
    expires: float

    def __repr__(self) -> str:
        return "Pending(...)"


class PendingTable:
    """Answered Prepares by (manifest, account, request id), bounded for each account and in all.

    Losing an entry costs nothing: C_e is a function of the request, so the same Prepare brings the same bytes back.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._table: dict[tuple[bytes, str], dict[bytes, Pending]] = {}
        self._count = 0

    def find(self, manifest: bytes, account: str, request_id: bytes) -> Pending | None:
        mine = self._table.get((manifest, account), {})
        found = mine.get(request_id)
        return found if found is not None and found.expires > self._clock() else None

    def add(self, manifest: bytes, account: str, request_id: bytes, pending: Pending) -> None:
        """Raises BudgetError: the table is full of other accounts' unfinished requests."""
        mine = self._table.setdefault((manifest, account), {})
        if request_id not in mine:
            while len(mine) >= PENDING_PER_ACCOUNT:
                del mine[next(iter(mine))]
                self._count -= 1
            if self._count >= PENDING_TOTAL:
                self._purge()
            if self._count >= PENDING_TOTAL:
                raise BudgetError(f"too many unfinished requests: ask again in at most {PENDING_SECONDS:.0f} s")
            self._count += 1
        self._table.setdefault((manifest, account), mine)[request_id] = pending

    def drop(self, manifest: bytes, account: str, request_id: bytes) -> None:
        if self._table.get((manifest, account), {}).pop(request_id, None) is not None:
            self._count -= 1

    def expires(self) -> float:
        return self._clock() + PENDING_SECONDS

    def _purge(self) -> None:
        now = self._clock()
        for owner in list(self._table):
            kept = {k: p for k, p in self._table[owner].items() if p.expires > now}
            self._count -= len(self._table[owner]) - len(kept)
            if kept:
                self._table[owner] = kept
            else:
                del self._table[owner]
