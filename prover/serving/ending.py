# SPDX-License-Identifier: GPL-3.0-or-later
"""The end of a window's time, told to the operator before and when it comes: after it accounts get no answers."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from ragseal.prover.storage.history import History
from ragseal.prover.storage.window import Stage
from ragseal.runtime.face import when

WARNINGS = (600, 3600)  #: seconds before the end, the shortest first
POLL_SECONDS = 5.0

log = logging.getLogger("ragseal.provider")


class Ending:
    """Says of the window that accounts are told of, once each, that its time is nearly over and that it is over."""

    def __init__(self, history: History, clock: Callable[[], float]) -> None:
        self._history, self._clock = history, clock
        self._told: set[tuple[bytes, int]] = set()

    async def run(self) -> None:
        """Look every POLL_SECONDS, until cancelled."""
        while True:
            self.look()
            await asyncio.sleep(POLL_SECONDS)

    def look(self) -> None:
        """Log what is due now."""
        window = self._history.current
        if window is None or window.stage is Stage.CLOSED:
            return
        name, closes = window.manifest.window, window.closes
        left = closes - self._clock()
        end = when(closes)
        mark = 0 if left < 0 else next((seconds for seconds in WARNINGS if left <= seconds), None)
        if mark is None or (window.digest, mark) in self._told:
            return
        self._told.add((window.digest, mark))
        following = "close it with `ragseal-provider close`, then commit the next one"
        if mark and window.stage is not Stage.OPEN:
            log.warning("window %s is not open yet, and may not open after %s", name, end)
        elif mark:
            minutes = max(1, round(left / 60))
            log.warning(
                "window %s ends in %d minute%s, at %s: accounts get no answers after that; %s",
                name, minutes, "s" if minutes > 1 else "", end, following,
            )  # fmt: skip
        elif window.stage is Stage.OPEN:
            log.warning("window %s ended at %s: accounts get no more answers; %s", name, end, following)
        else:
            log.warning("window %s ended at %s before it was open: commit a new one", name, end)
