# SPDX-License-Identifier: GPL-3.0-or-later
"""Requests that were admitted and whose records follow at their own time: what waits for them.  SPEC A.14.9.

Where the claim is answers, seconds lie between a request's admission and its record.  Nothing that comes meanwhile may
refuse it, since what it comes to depends on documents by then.  So a window closes once the requests that it admitted
are in the ledger, and takes no new ones while it waits; and no version of its indices is entered behind which a record
could not name the version any more that its request was admitted over.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager

from ragseal.kernel.versions import nameable
from ragseal.prover.storage.window import Window


class UnderWay:
    """Belongs to one event loop."""

    def __init__(self) -> None:
        self._versions: dict[bytes, Counter[int]] = {}  #: admitted requests by window and version
        self._closing: Counter[bytes] = Counter()
        self._changed = asyncio.Event()

    @contextmanager
    def admitted(self, window: Window, version: int) -> Iterator[None]:
        """Around an admitted request over this version, to its record or its end without one."""
        counts = self._versions.setdefault(window.digest, Counter())
        counts[version] += 1
        try:
            yield
        finally:
            counts[version] -= 1
            if not counts[version]:
                del counts[version]
            if not counts:
                self._versions.pop(window.digest, None)
            self._changed.set()

    def closing(self, window: Window) -> bool:
        """Whether the window is about to close: it admits nothing."""
        return self._closing[window.digest] > 0

    def keeps_out(self, window: Window, number: int) -> bool:
        """Whether an admitted request is over a version that no record may name once this one is entered."""
        over = self._versions.get(window.digest, Counter())
        return bool(over) and min(over) <= number - nameable(window.manifest.policy)

    @asynccontextmanager
    async def ended(self, window: Window) -> AsyncIterator[None]:
        """Inside, every request that the window admitted has ended, and it admits none."""
        self._closing[window.digest] += 1
        try:
            while self._versions.get(window.digest):
                self._changed.clear()
                await self._changed.wait()
            yield
        finally:
            self._closing[window.digest] -= 1
