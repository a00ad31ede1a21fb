# SPDX-License-Identifier: GPL-3.0-or-later
"""Results in the order of what they are of, some of them made at once."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ragseal.prover.workers.crew import LOOK, Crew
from ragseal.prover.workers.interface import StoppingError

A = TypeVar("A")
T = TypeVar("T")


@dataclass
class _Job(Generic[A, T]):
    make: Callable[[A], T]
    item: A
    made: Future[T] = field(default_factory=Future)

    def __call__(self) -> None:
        if not self.made.set_running_or_notify_cancel():
            return
        try:
            made = self.make(self.item)
        except BaseException as error:
            self.made.set_exception(error)
        else:
            self.made.set_result(made)


class InOrder:
    """Threads that all who ask share.  Each who asks has as many in line as there are places, so they take turns."""

    def __init__(self, places: Callable[[], int], name: str) -> None:
        """``places``: how many are made at once; asked as it goes."""
        self._places = places
        self._crew: Crew[_Job[Any, Any]] = Crew(places, name)

    def results(self, make: Callable[[A], T], items: Iterable[A], wanted_still: Callable[[], None]) -> Iterator[T]:
        """What ``make`` makes of each item.

        Args:
            wanted_still: asked before each; raises when nobody waits any more.

        Raises:
            StoppingError: after :meth:`stop`.
            Exception: as ``make``; what is under way then is finished, nothing new is begun.
        """
        left, under_way, more = iter(items), deque[Future[T]](), True
        try:
            wanted_still()
            while True:
                while more and len(under_way) < max(1, self._places()):
                    try:
                        job = _Job(make, next(left))
                    except StopIteration:
                        more = False
                    else:
                        self._crew.submit(job)
                        under_way.append(job.made)
                if not under_way:
                    return
                wanted_still()
                if wait([under_way[0]], LOOK if more else None).done:  # else there may be more places by now
                    yield under_way.popleft().result()
        except CancelledError:
            raise StoppingError from None
        finally:
            for one in under_way:
                one.cancel()

    def stop(self) -> None:
        """Begin nothing any more; does not wait."""
        for job in self._crew.stop():
            if job.made.cancel():
                job.made.set_running_or_notify_cancel()  # else whoever waits for it is not woken
