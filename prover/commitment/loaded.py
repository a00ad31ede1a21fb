# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a window is slow to load: kept in memory for a few windows, and loaded for accounts so often only.  SPEC B.9.

That of windows in force is never given up for another's, and a window that is being loaded keeps nobody else waiting:
old windows are asked for at all times, and their accounts must not stand in the way of those that ask now.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from ragseal.prover.base.limits import LOADS, LOADS_A_SECOND
from ragseal.runtime.tokenbucket import TokenBuckets

T = TypeVar("T")


class Loaded(Generic[T]):
    """Loads by manifest digest and keeps what is in force and what was asked for last.  From any thread."""

    def __init__(self, load: Callable[[bytes], T], in_force: Callable[[], frozenset[bytes]], others: int) -> None:
        """
        Args:
            load: manifest digest -> what is kept.  Blocks; runs once at a time for a window, beside other windows'.
            in_force: manifest digests of the newest window and the open one.
            others: how many windows' are kept beside these.  Whatever somebody still holds is not loaded again.
        """
        self._load, self._in_force, self._others = load, in_force, others
        self._kept: OrderedDict[bytes, T] = OrderedDict()
        self._held: WeakValueDictionary[bytes, T] = WeakValueDictionary()
        self._loading: dict[bytes, threading.Lock] = {}
        self._mutex = threading.Lock()  #: never held while something is loaded

    def in_force(self, manifest: bytes) -> bool:
        """Whether a window is the newest or open."""
        return manifest in self._in_force()

    def find(self, manifest: bytes) -> T | None:
        """What is in memory.  Does not block."""
        with self._mutex:
            found = self._kept.get(manifest)
            if found is None:
                return self._held.get(manifest)
            self._kept.move_to_end(manifest)
            return found

    def get(self, manifest: bytes) -> T:
        """What is in memory, or loaded now.  Blocks; raises what ``load`` raises."""
        found = self.find(manifest)
        if found is not None:
            return found
        with self._mutex:
            loading = self._loading.setdefault(manifest, threading.Lock())
        with loading:
            found = self.find(manifest)
            if found is None:
                found = self._load(manifest)
                self._keep(manifest, found)
            return found

    def put(self, manifest: bytes, found: T) -> None:
        """Keep what was just made as if it had been loaded."""
        self._keep(manifest, found)

    def forget(self, manifest: bytes) -> None:
        """Load it anew when it is asked for next: what is on disk has changed."""
        with self._mutex:
            self._kept.pop(manifest, None)
            self._held.pop(manifest, None)

    def _keep(self, manifest: bytes, found: T) -> None:
        in_force = self._in_force()
        with self._mutex:
            self._kept[manifest] = self._held[manifest] = found
            others = [one for one in self._kept if one not in in_force]
            for old in others[: max(0, len(others) - self._others)]:
                del self._kept[old]


class Loads(Generic[T]):
    """Loads for accounts.  Belongs to one event loop.

    Older windows are loaded one after the other, in one thread, and for an account so often only: whoever is registered
    in many windows could have them loaded in turn without end.
    """

    def __init__(self, loaded: Loaded[T], refusal: str) -> None:
        """``refusal``: how the refusal of an account begins that has older windows loaded too often."""
        self._loaded = loaded
        self._buckets = TokenBuckets(LOADS, LOADS_A_SECOND, refusal)
        self._now, self._older = asyncio.Lock(), asyncio.Lock()

    async def of(self, manifest: bytes, account: bytes) -> T:
        """What is loaded of a window, for the account with this public key.

        Raises:
            BudgetError: it has had older windows loaded too often; never for one in force.
            AuditError: it cannot be loaded.
        """
        found = self._loaded.find(manifest)
        if found is not None:
            return found
        in_force = self._loaded.in_force(manifest)
        if not in_force:
            self._buckets.take(account)
        async with self._now if in_force else self._older:  # a thread for each, however many wait
            return await asyncio.to_thread(self._loaded.get, manifest)
