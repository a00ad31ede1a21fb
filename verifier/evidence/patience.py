# SPDX-License-Identifier: GPL-3.0-or-later
"""Waiting for a peer that is away, slow or busy: none of that says anything about it, so it is asked again."""

from __future__ import annotations

import random
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TypeVar

from ragseal.kernel.errors import AuditError, BudgetError, MismatchError, TransportError

PATIENCE = 600.0  #: seconds that an audit waits for one answer by default
FIRST, LONGEST = 0.5, 15.0  #: seconds between two questions, at first and at most
SHORTEST_CALL = 1.0  #: seconds that a call gets at least, however near the deadline

T = TypeVar("T")


def final(error: AuditError) -> bool:
    """Whether asking again is of no use."""
    return not isinstance(error, TransportError | BudgetError) or isinstance(error, MismatchError)


@dataclass(slots=True)
class Patience:
    """How long to ask again; one answer begins the time anew."""

    seconds: float = PATIENCE
    deadline: float | None = None  #: by ``clock``: of everything together
    tell: Callable[[str], None] = lambda text: None  #: shows that and why it waits
    clock: Callable[[], float] = time.monotonic
    sleep: Callable[[float], None] = time.sleep
    _random: random.Random = field(default_factory=random.Random)

    def left(self) -> float:
        """Seconds until the deadline."""
        return float("inf") if self.deadline is None else self.deadline - self.clock()

    def call_seconds(self, seconds: float) -> float:
        """A call's own time, cut at the deadline."""
        return max(SHORTEST_CALL, min(seconds, self.left()))

    def ask(self, once: Callable[[], T]) -> T:
        """``once``, again and again while the peer is away or busy.

        Raises:
            TransportError: it stayed so for longer than the patience or the deadline.
            AuditError: whatever else the peer answers, at once.
        """
        began, pause = 0.0, 0.0
        while True:
            if self.left() <= 0:
                raise TransportError("the audit's deadline has passed while the provider was asked: see --deadline")
            try:
                return once()
            except AuditError as error:
                if final(error):
                    raise
                if not pause:  # the first failure: however long the call took that it ended
                    began, pause = self.clock(), FIRST
                waited = self.clock() - began
                if waited + pause > self.seconds or pause > self.left():
                    said = f"{error} (asked again for {waited:.0f} s)" if waited > 1 else str(error)
                    raise TransportError(said) from None
                self.tell(f"waiting for the provider, {waited:.0f} of at most {self.seconds:.0f} s: {error}")
            self.sleep(pause * self._random.uniform(0.5, 1.0))  # callers that were refused together come back apart
            pause = min(2 * pause, LONGEST)
