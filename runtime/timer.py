# SPDX-License-Identifier: GPL-3.0-or-later
"""Instants to wait for, by a clock that nobody sets."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Timer:
    """The machine's monotonic clock, or another one in tests."""

    now: Callable[[], float] = time.monotonic  #: seconds since whenever
    pause: Callable[[float], Awaitable[None]] = asyncio.sleep  #: so many seconds

    async def until(self, instant: float) -> None:
        """Wait for an instant of :attr:`now`; one that is over has come."""
        left = instant - self.now()
        if left > 0:
            await self.pause(left)
