# SPDX-License-Identifier: GPL-3.0-or-later
"""The connections of a small server, and which of them ends when all places are taken.  SPEC G.7.8.

A few machines can fill every place with connections that ask next to nothing.  So a full server does not turn a machine
away that has fewer connections than another one: of whoever has most, the one that has been idle longest ends.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter
from dataclasses import dataclass, field


@dataclass(slots=True, eq=False)
class Visit:
    """One connection: whose, and whether it waits for a request (idle) or is in the middle of one, since when."""

    machine: str
    task: asyncio.Task[None] | None = None
    transport: asyncio.Transport | None = None  #: once its handshake is done
    idle: bool = True
    since: float = field(default_factory=time.monotonic)

    def turn(self, idle: bool) -> None:
        self.idle, self.since = idle, time.monotonic()

    async def end(self, seconds: float = 0.2) -> None:
        """End it in the middle of whatever it does, and wait so long for that."""
        if self.transport is not None:
            self.transport.abort()  # a cancellation that comes together with data can get lost; this cannot
        if self.task is not None:
            self.task.cancel()
            await asyncio.wait({self.task}, timeout=seconds)


class Visits:
    """All connections of one server; for one event loop."""

    def __init__(self, most: int, most_of_one: int) -> None:
        """``most`` connections at once, ``most_of_one`` of one machine."""
        self._most, self._most_of_one = most, most_of_one
        self._visits: set[Visit] = set()
        self._of: Counter[str] = Counter()  #: connections, by machine

    def __len__(self) -> int:
        return len(self._visits)

    @property
    def crowded(self) -> bool:
        """Whether more than half of the places are taken."""
        return 2 * len(self._visits) > self._most

    def tasks(self) -> list[asyncio.Task[None]]:
        return [visit.task for visit in self._visits if visit.task is not None]

    async def begin(self, machine: str) -> Visit | None:
        """A place for a machine, if need be that of another one; None: there is none for this machine."""
        if self._of[machine] < self._most_of_one and len(self._visits) >= self._most:
            other = self._least(machine)
            if other is not None:
                await other.end()
        if self._of[machine] >= self._most_of_one or len(self._visits) >= self._most:
            return None
        visit = Visit(machine)
        self._visits.add(visit)
        self._of[machine] += 1
        return visit

    def gone(self, visit: Visit) -> None:
        """A connection has ended."""
        self._visits.discard(visit)
        self._of[visit.machine] -= 1
        if not self._of[visit.machine]:
            del self._of[visit.machine]

    def _least(self, machine: str) -> Visit | None:
        """The connection that has to go for another machine's: idle ones first, then the one longest at its request.

        None where this machine has as many as any other: nobody's place is taken for it.  The only connection of a
        machine is not ended in the middle of a request.
        """
        most = max(self._of.values())
        if self._of[machine] >= most:
            return None
        found = [one for one in self._visits if self._of[one.machine] == most and (one.idle or most > 1)]
        return min(found, key=lambda one: (not one.idle, one.since), default=None)
