# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking again after a peer could not be reached: the same signed bytes go out, so no query is spent twice.

Only transport errors are met like this, and refusals that say when to come again (google.rpc.RetryInfo).  Whatever else
a provider says is an answer, and is not argued with.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TypeVar

from ragseal.kernel.errors import AuditError, BudgetError, ConfigurationError, MismatchError, TransportError

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Retries:
    """How often, and after how long.  Waits double up to ``most`` and are drawn from [0, wait], seconds (full jitter:
    accounts that a provider dropped together do not come back together).  A wait that the provider names comes before
    that; where it is longer than ``most``, nobody waits."""

    attempts: int = 4  #: calls in all
    first: float = 0.5
    most: float = 15.0
    unreached: bool = True  #: also where a peer could not be reached; else where it says when to come again, alone

    def __post_init__(self) -> None:
        if self.attempts < 1 or not 0 <= self.first <= self.most:
            raise ConfigurationError(
                f"retries need attempts >= 1 and 0 <= first <= most, not {self.attempts}, {self.first}, {self.most}"
            )

    def waits(self) -> Iterator[float]:
        """Seconds to wait before each call but the first."""
        wait = self.first
        for _ in range(self.attempts - 1):
            yield random.uniform(0, wait)
            wait = min(2 * wait, self.most)

    def helps(self, error: Exception) -> bool:
        """Whether the same call may go better after the waits of this."""
        meant = self.unreached or isinstance(error, BudgetError)
        return meant and self.passes(error) and self.named(error) <= self.most

    @staticmethod
    def passes(error: Exception) -> bool:
        """Whether the same call may go better later, however late."""
        if isinstance(error, BudgetError):
            return error.retry_after_ms is not None
        return isinstance(error, TransportError) and not isinstance(error, MismatchError)

    @staticmethod
    def named(error: Exception) -> float:
        """Seconds that the provider asks for before the next call."""
        return (error.retry_after_ms or 0) / 1000 if isinstance(error, BudgetError) else 0.0

    def meet(self, call: Callable[[], T], pause: Callable[[float], object] = time.sleep) -> T:
        """What ``call`` returns, called again where that may help.

        Args:
            pause: waits so many seconds; true gives up, with the error that it waited for.

        Raises: what the last call raised.
        """
        for wait in self.waits():
            try:
                return call()
            except AuditError as error:
                if not self.helps(error) or pause(wait + self.named(error)):
                    raise
        return call()


ONCE = Retries(attempts=1)
