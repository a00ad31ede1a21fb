# SPDX-License-Identifier: GPL-3.0-or-later
"""A timer whose instants come as soon as every generator that will end by itself has ended."""

from __future__ import annotations

import asyncio
import threading

from ragseal.runtime.timer import Timer

LANE = "generator"  #: what threads of lanes are called


class Instants:
    """Time that passes while nobody works.  Of one event loop."""

    def __init__(self) -> None:
        self.now = 0.0
        self.stuck = 0  #: generators' calls that do not end before the test lets them
        self.timer = Timer(lambda: self.now, self._pause)

    async def _pause(self, seconds: float) -> None:
        instant = self.now + seconds
        while sum(one.name == LANE for one in threading.enumerate()) > self.stuck:
            await asyncio.sleep(0.002)
        for _ in range(3):
            await asyncio.sleep(0)  # what the threads left with the event loop
        self.now = max(self.now, instant)
