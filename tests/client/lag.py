# SPDX-License-Identifier: GPL-3.0-or-later
"""How long an event loop's other tasks wait while questions are asked beside them, as far as this program causes it."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

MOST = 0.02  #: seconds of lag that calls may cause


async def check_lag(asked: Sequence[asyncio.Future[Any]]) -> None:
    """Turn the loop until all are done.

    Other programs may have the processor, so a wait counts up to the processor time that this program spent in it:
    whoever computes in the loop's thread, or elsewhere while no other thread of Python may run, spends all of it.
    """
    waits, works = [], []
    while not all(one.done() for one in asked):
        began, spent, worked = time.perf_counter(), time.process_time(), time.thread_time()
        await asyncio.sleep(0.001)
        waits.append(min(time.perf_counter() - began - 0.001, time.process_time() - spent))
        works.append(time.thread_time() - worked)
    waits.sort()
    # one turn of a hundred: two threads of this program may both be ready, and the machine runs one of them
    usual = waits[int(0.99 * len(waits))]
    print(f"lag of {len(waits)} turns: {usual:.4f} s, most {waits[-1]:.4f} s; most work of the loop {max(works):.4f} s")
    assert usual < MOST
    assert max(works) < MOST
