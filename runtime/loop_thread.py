# SPDX-License-Identifier: GPL-3.0-or-later
"""An event loop in a thread of its own, for what must not hold up the loop that answers."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

STOP_SECONDS = 5.0  #: that running work gets; a name that is looked up may take longer, and holds nobody up


class LoopThread:
    """Runs coroutines in its own loop, with its own pool of threads for slow calls such as name look-ups."""

    def __init__(self, name: str) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
        self._thread.start()

    async def run(self, work: Coroutine[Any, Any, T]) -> T:
        """What a coroutine gives that runs in the thread's loop; the caller's loop goes on meanwhile."""
        return await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work, self._loop))

    def begin(self, work: Coroutine[Any, Any, Any]) -> None:
        """Let a coroutine run there until it ends, or until :meth:`stop`."""
        asyncio.run_coroutine_threadsafe(work, self._loop)

    async def stop(self) -> None:
        """Cancel what runs and end the thread; again is harmless."""
        if self._loop.is_closed():
            return
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self.run(self._cancel()), STOP_SECONDS)
        self._loop.call_soon_threadsafe(self._loop.stop)
        await asyncio.to_thread(self._thread.join, STOP_SECONDS)
        if not self._thread.is_alive():
            self._loop.close()

    async def _cancel(self) -> None:
        tasks = asyncio.all_tasks() - {asyncio.current_task()}
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
