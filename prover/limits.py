# SPDX-License-Identifier: GPL-3.0-or-later
"""How much work an account may ask for that its budget of queries does not count.

n_max charges answers.  A Prepare that is never followed by its Retrieve, and an answer that is asked for again, cost
the provider an embedding or a signature and would otherwise be free.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Hashable

from ragseal.kernel.errors import BudgetError

BURST = 64  #: answers of old requests at once
PER_SECOND = 8.0  #: in the long run
PREPARES_A_QUERY, PREPARES_SPARE = 4, 16  #: Prepares of an account in a window: so many times n_max, and so many more


class Buckets:
    """A token bucket for each key; belongs to one event loop.  Keys are registered accounts, so memory is bounded."""

    def __init__(
        self, burst: int = BURST, per_second: float = PER_SECOND, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._burst, self._rate, self._clock = float(burst), per_second, clock
        self._left: dict[Hashable, tuple[float, float]] = {}  #: tokens left, and when that was

    def take(self, key: Hashable) -> None:
        """Raises BudgetError, with the seconds to wait, when ``key`` calls too often."""
        now = self._clock()
        left, since = self._left.get(key, (self._burst, now))
        left = min(self._burst, left + (now - since) * self._rate)
        if left < 1:
            raise BudgetError(f"this account asks for old answers too often: wait {(1 - left) / self._rate:.1f} s")
        self._left[key] = left - 1, now


class Prepares:
    """Counts an account's Prepares of a window since this process was started."""

    def __init__(self) -> None:
        self._count: dict[tuple[bytes, str], int] = {}

    def charge(self, manifest: bytes, account: str, n_max: int) -> None:
        """Raises BudgetError when an account has prepared many times more queries than it may ask."""
        limit = PREPARES_A_QUERY * n_max + PREPARES_SPARE
        done = self._count.get((manifest, account), 0)
        if done >= limit:
            raise BudgetError(
                f"this account has sent {done} Prepares in this window, where it may ask {n_max} queries: finish those "
                "that are pending, or wait for the next window"
            )
        self._count[manifest, account] = done + 1
