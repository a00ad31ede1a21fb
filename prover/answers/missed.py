# SPDX-License-Identifier: GPL-3.0-or-later
"""How many calls about documents failed or were late: for the operator, and coarsely.

An account that saw it would see documents without noise, so it stands in ``status`` alone: in no metric and no log.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass

SECONDS = 3600  #: of which it is told
_SHARES = ((100, "less than 1 in 100"), (10, "1 to 10 in 100"), (1, "more than 10 in 100"))


@dataclass(frozen=True, slots=True)
class _Turn:
    """The calls of one turn of an answer."""

    time: float
    calls: int
    late: int
    failed: int


class Missed:
    """Of the answers of the last hour.  Belongs to one event loop."""

    def __init__(self, clock: Callable[[], float]) -> None:
        """``clock``: seconds since 1970."""
        self._clock = clock
        self._answers: deque[_Turn] = deque()

    def note(self, outcomes: Sequence[object]) -> None:
        """What the calls of one turn gave; a call that is late is a TimeoutError, one that failed another exception."""
        late = sum(isinstance(one, TimeoutError) for one in outcomes)
        failed = sum(isinstance(one, BaseException) for one in outcomes) - late
        self._forget()
        if outcomes:
            self._answers.append(_Turn(self._clock(), len(outcomes), late, failed))

    def shares(self) -> dict[str, str]:
        """By "late" and "failed" which share of all calls it is, as one of three words; nothing of what never was."""
        self._forget()
        calls = sum(one.calls for one in self._answers)
        late, failed = sum(one.late for one in self._answers), sum(one.failed for one in self._answers)
        return {what: _share(count, calls) for what, count in (("late", late), ("failed", failed)) if count}

    def _forget(self) -> None:
        while self._answers and self._answers[0].time <= self._clock() - SECONDS:
            self._answers.popleft()


def lines(shares: dict[str, str]) -> list[str]:
    """For people."""
    ways_out = {
        "late": "let the model batch more calls, or take a longer answered_by or a larger similarity",
        "failed": "the model's own log says why",
    }
    return [
        f"answers in words: {share} of the last hour's calls about documents "
        f"{'were late' if what == 'late' else 'failed'}, and such documents count for nothing: {ways_out[what]}"
        for what, share in shares.items()
    ]


def _share(count: int, calls: int) -> str:
    """The last one stands for whatever is above."""
    return next(text for least, text in _SHARES if count * least < calls or least == 1)
