# SPDX-License-Identifier: GPL-3.0-or-later
"""Calls that are made at once, each in a thread of its own, and what they have given by one instant.

No call waits for another: there is no queue, and no thread serves two of them.  A call that is late is as one that
failed.  Its thread is left to itself, since Python cannot end it: a generator of a served model hangs up by itself
(:meth:`ragseal.generators.Limited.within`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import TypeVar

from ragseal.runtime.timer import Timer

T = TypeVar("T")


class Lanes:
    """Belongs to one event loop."""

    def __init__(self, timer: Timer) -> None:
        self._timer = timer

    async def ended_by(self, instant: float, calls: Sequence[Callable[[], T]]) -> list[T | BaseException]:
        """What each of the calls gave or raised; TimeoutError of one that has not ended by then.

        It returns at ``instant``, and no earlier where all have ended.
        """
        outcomes: list[T | BaseException] = [TimeoutError("late") for _ in calls]
        taken = False

        def ended(place: int, outcome: T | BaseException) -> None:
            if not taken:
                outcomes[place] = outcome

        begin = partial(_begin, asyncio.get_running_loop(), calls, ended)
        try:
            _thread(begin)  # whose many starts would hold up what else the event loop does now
        except RuntimeError as error:
            outcomes = [error for _ in calls]
        await self._timer.until(instant)
        taken = True
        return outcomes


Ended = Callable[[int, T | BaseException], None]


def _thread(work: Callable[[], None]) -> None:
    """Raises RuntimeError: the machine has no thread left."""
    threading.Thread(target=work, name="generator", daemon=True).start()


def _begin(loop: asyncio.AbstractEventLoop, calls: Sequence[Callable[[], T]], ended: Ended[T]) -> None:
    for place, call in enumerate(calls):
        try:
            _thread(partial(_lane, loop, call, partial(ended, place)))
        except RuntimeError as error:  # as a generator that fails
            _tell(loop, partial(ended, place), error)


def _lane(loop: asyncio.AbstractEventLoop, call: Callable[[], T], ended: Callable[[T | BaseException], None]) -> None:
    outcome: T | BaseException
    try:
        outcome = call()
    except BaseException as error:  # whatever a generator does, it does to its own call
        outcome = error
    _tell(loop, ended, outcome)


def _tell(
    loop: asyncio.AbstractEventLoop, ended: Callable[[T | BaseException], None], outcome: T | BaseException
) -> None:
    with suppress(RuntimeError):  # the loop is over
        loop.call_soon_threadsafe(ended, outcome)
