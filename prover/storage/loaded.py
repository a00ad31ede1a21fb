# SPDX-License-Identifier: GPL-3.0-or-later
"""What of a window is slow to load: kept in memory for a few windows, and loaded for accounts so often only.  SPEC B.9.

The newest window's is never given up for another's, and a window that is being loaded keeps nobody else waiting: old
windows are asked for at all times, and their accounts must not stand in the way of those that ask now.
"""

from __future__ import annotations

import asyncio
import threading
from collections import OrderedDict
from collections.abc import Callable
from typing import Generic, TypeVar
from weakref import WeakValueDictionary

from ragseal.prover.limits import LOADS, LOADS_A_SECOND
from ragseal.runtime.tokenbucket import TokenBuckets

T = TypeVar("T")


class Loaded(Generic[T]):
    """Loads by manifest digest and keeps the newest window's and those that were asked for last.  From any thread."""

    def __init__(self, load: Callable[[bytes], T], newest: Callable[[], bytes | None], most: int) -> None:
        """
        Args:
            load: manifest digest -> what is kept.  Blocks; runs once at a time for a window, beside other windows'.
            newest: the newest window's manifest digest.
            most: how many windows' are kept, the newest included.  Whatever somebody still holds is not loaded again.
        """
        self._load, self._newest, self._most = load, newest, most
        self._kept: OrderedDict[bytes, T] = OrderedDict()
        self._held: WeakValueDictionary[bytes, T] = WeakValueDictionary()
        self._loading: dict[bytes, threading.Lock] = {}
        self._mutex = threading.Lock()  #: never held while something is loaded

    def is_newest(self, manifest: bytes) -> bool:
        return self._newest() == manifest

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

    def forget(self, manifest: bytes) -> None:
        """Load it anew when it is asked for next: what is on disk has changed."""
        with self._mutex:
            self._kept.pop(manifest, None)
            self._held.pop(manifest, None)

    def _keep(self, manifest: bytes, found: T) -> None:
        newest = self._newest()
        with self._mutex:
            self._kept[manifest] = self._held[manifest] = found
            for old in [one for one in self._kept if one != newest][: max(0, len(self._kept) - self._most)]:
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
        self._newest, self._older = asyncio.Lock(), asyncio.Lock()

    async def of(self, manifest: bytes, account: bytes) -> T:
        """What is loaded of a window, for the account with this public key.

        Raises:
            BudgetError: it has had older windows loaded too often; never for the newest window.
            AuditError: it cannot be loaded.
        """
        found = self._loaded.find(manifest)
        if found is not None:
            return found
        newest = self._loaded.is_newest(manifest)
        if not newest:
            self._buckets.take(account)
        async with self._newest if newest else self._older:  # a thread for each, however many wait
            return await asyncio.to_thread(self._loaded.get, manifest)
