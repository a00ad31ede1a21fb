# SPDX-License-Identifier: GPL-3.0-or-later
"""Group commit: calls that come while one is under way share the next one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from typing import Generic, TypeVar

Item = TypeVar("Item")
Outcome = TypeVar("Outcome")


class Batches(Generic[Item, Outcome]):
    """Runs ``work`` on lists of items, one list at a time, in a thread; belongs to one event loop.

    A lone item is worked on at once.  Whatever ``work`` raises, every item of its list gets.
    """

    def __init__(
        self,
        work: Callable[[list[Item]], Sequence[Outcome | Exception]],
        limit: int,
        executor: Executor | None = None,
    ) -> None:
        """
        Args:
            work: gives an outcome for each of at most ``limit`` items; one that is an exception fails its item.
            executor: whose thread works; None: one of the event loop's.
        """
        self._work = work
        self._limit = limit
        self._executor = executor
        self._waiting: list[tuple[Item, asyncio.Future[Outcome]]] = []
        self._drain: asyncio.Task[None] | None = None

    async def submit(self, item: Item) -> Outcome:
        """The outcome of one item; raises what ``work`` raises.  Cancelled while it waits, it is not worked on."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[Outcome] = loop.create_future()
        self._waiting.append((item, future))
        if self._drain is None or self._drain.done():
            self._drain = loop.create_task(self._run())
        return await future

    def refuse(self, error: Exception) -> None:
        """Fail every item that waits; what is being worked on gets its outcome."""
        for _, future in self._waiting:
            if not future.done():
                future.set_exception(error)
        self._waiting.clear()

    async def _run(self) -> None:
        while self._waiting:
            batch = [(item, future) for item, future in self._waiting[: self._limit] if not future.done()]
            del self._waiting[: self._limit]
            if not batch:
                continue
            try:
                outcomes = await self._worked([item for item, _ in batch])
                for (_, future), outcome in zip(batch, outcomes, strict=True):
                    if future.done():
                        continue
                    if isinstance(outcome, Exception):
                        future.set_exception(outcome)
                    else:
                        future.set_result(outcome)
            except Exception as error:  # whatever it is, nobody may wait for ever
                for _, future in batch:
                    if not future.done():
                        future.set_exception(error)

    async def _worked(self, items: list[Item]) -> Sequence[Outcome | Exception]:
        if self._executor is None:
            return await asyncio.to_thread(self._work, items)
        return await asyncio.get_running_loop().run_in_executor(self._executor, self._work, items)
