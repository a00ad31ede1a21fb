# SPDX-License-Identifier: GPL-3.0-or-later
"""Token buckets: how often each of many callers may do what costs the server something."""

from __future__ import annotations

import math
import re
import time
from collections.abc import Callable, Hashable
from dataclasses import dataclass

from ragseal.kernel.errors import BudgetError, ConfigurationError

_UNITS = {"s": 1.0, "m": 60.0, "h": 3600.0}

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
            said = f"{self._refusal}: ask again in {wait:.{1 if wait < 10 else 0}f} s"
            raise BudgetError(said, retry_after_ms=math.ceil(1000 * wait))

    def give_back(self, caller: Hashable) -> None:
        """A call of ``caller`` is charged elsewhere: its token comes back."""
        left, since = self._left.get(caller, (self._burst, 0.0))
        if left < self._burst:
            self._left[caller] = (min(self._burst, left + 1), since)

    def change(self, burst: int, per_second: float) -> None:
        """Other numbers from now on; what is in the buckets stays, up to the new burst."""
        self._burst, self._rate = float(burst), per_second


@dataclass(frozen=True, slots=True)
class Rate:
    """So many calls at once, and as many in each span of time: ``30/m`` is 30 at once and 30 a minute."""

    calls: int
    seconds: float

    def __str__(self) -> str:
        unit = next((name for name, seconds in _UNITS.items() if seconds == self.seconds), f"{self.seconds:g}s")
        return f"{self.calls}/{unit}"

    @classmethod
    def parse(cls, text: str) -> Rate:
        """Raises ConfigurationError: not NUMBER/s, NUMBER/m or NUMBER/h."""
        found = re.fullmatch(r"([1-9][0-9]{0,6})/([smh])", text)
        if found is None:
            raise ConfigurationError(f"{text!r} is not a rate: write 5/s, 30/m or 1000/h")
        return cls(int(found[1]), _UNITS[found[2]])

    @classmethod
    def optional(cls, text: str | None) -> Rate | None:
        """As :meth:`parse`; no text is no rate."""
        return None if text is None else cls.parse(text)


class Throttle:
    """Buckets that an operator may turn on, change and turn off while calls come.  For one thread."""

    def __init__(self, refusal: str, callers: int = CALLERS, clock: Callable[[], float] = time.monotonic) -> None:
        """As of :class:`TokenBuckets`; nothing is refused before :meth:`allow`."""
        self._refusal, self._callers, self._clock = refusal, callers, clock
        self._buckets: TokenBuckets | None = None

    def allow(self, rate: Rate | None) -> None:
        """From now on so many calls of each caller; None: as many as come."""
        if rate is None:
            self._buckets = None
        elif self._buckets is None:
            per_second = rate.calls / rate.seconds
            self._buckets = TokenBuckets(rate.calls, per_second, self._refusal, self._callers, self._clock)
        else:
            self._buckets.change(rate.calls, rate.calls / rate.seconds)

    def take(self, caller: Hashable) -> None:
        """One call of ``caller``.  BudgetError: too many; says when to come again."""
        if self._buckets is not None:
            self._buckets.take(caller)
