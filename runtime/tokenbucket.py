# SPDX-License-Identifier: GPL-3.0-or-later
"""Token buckets: how often each of many callers may do what costs the server something."""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

from ragseal.kernel.errors import BudgetError

CALLERS = 65_536  #: whose calls are remembered; the one who was quiet longest goes first


class TokenBuckets:
    """A bucket for each caller, which a call takes one token from and time fills again.  For one thread."""

    def __init__(
        self,
        burst: int,
        per_second: float,
        refusal: str = "too many calls",
        callers: int = CALLERS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """
        Args:
            burst: calls at once.
            per_second: calls in the long run.
            refusal: how the refusal begins.
            callers: how many are remembered.
            clock: seconds, monotone.
        """
        self._burst, self._rate, self._refusal = float(burst), per_second, refusal
        self._callers, self._clock = callers, clock
        self._left: dict[Hashable, tuple[float, float]] = {}  # tokens left and when that was, the quietest caller first

    def take(self, caller: Hashable) -> None:
        """One call of ``caller``.

        Raises:
            BudgetError: too many; says when to come again.
        """
        now = self._clock()
        left, since = self._left.pop(caller, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        while len(self._left) >= self._callers:
            self._left.pop(next(iter(self._left)))
        self._left[caller] = (left if left < 1 else left - 1, now)
        if left < 1:
            wait = (1 - left) / self._rate
            raise BudgetError(f"{self._refusal}: ask again in {wait:.{1 if wait < 10 else 0}f} s")
