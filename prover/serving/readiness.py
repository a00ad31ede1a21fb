# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether a serving provider takes calls, and whether it answers queries.  Nothing that the ledger does not show.

The two differ for most of a provider's calls: before a window opens its auditor has to reach the beacon, and behind its
closing the audit comes.  A balancer that waited for an open window would wait for ever.
"""

from __future__ import annotations

from collections.abc import Callable

from ragseal.prover.storage.journal import Journal


class Readiness:
    """Of one serving provider."""

    def __init__(self, journal: Journal, clock: Callable[[], float]) -> None:
        """``clock``: seconds since 1970."""
        self._journal, self._clock = journal, clock
        self._serves = False

    def serves(self, serves: bool) -> None:
        """It does from now on, or it is stopping."""
        self._serves = serves

    def trouble(self) -> str:
        """Why no calls are taken; empty where they are."""
        if not self._serves:
            return "starting or stopping"
        return "the ledger takes nothing more: see the log" if self._journal.failure is not None else ""

    def no_answers(self) -> str:
        """Why queries are not answered, as far as that is everybody's; empty where they are."""
        window, now = self._journal.history.open, self._clock()
        if window is None:
            return "no window is open"
        if now > window.closes:
            return "the window's closing time has passed"
        return "the next version of the indices is overdue" if window.overdue(now) else ""
