# SPDX-License-Identifier: GPL-3.0-or-later
"""Results in the order of what they are of, some of them made at once."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Hashable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, wait
from dataclasses import dataclass, field
from typing import Any, Generic, TypeVar

from ragseal.prover.workers.crew import LOOK, Crew
from ragseal.prover.workers.interface import StoppingError

A = TypeVar("A", bound=Hashable)
T = TypeVar("T")


@dataclass
class _Job(Generic[A, T]):
    make: Callable[[A], T]
    item: A
    made: Future[T] = field(default_factory=Future)
    askers: int = 0  #: who wait for it; at none it is not begun any more

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
        self._mutex = threading.Lock()
        self._jobs: dict[tuple[Callable[[Any], Any], Hashable], _Job[Any, Any]] = {}  #: that somebody waits for

    def results(self, make: Callable[[A], T], items: Iterable[A], wanted_still: Callable[[], None]) -> Iterator[T]:
        """What ``make`` makes of each item.

        Where others ask for the same item of an equal ``make`` meanwhile, it is made once for all of them: none waits
        in a place for what is made in another.

        Args:
            wanted_still: asked before each; raises when nobody waits any more.

        Raises:
            StoppingError: after :meth:`stop`.
            Exception: as ``make``; what is under way then is finished, nothing new is begun.
        """
        left, under_way, more = iter(items), deque[_Job[A, T]](), True
        try:
            wanted_still()
            while True:
                while more and len(under_way) < max(1, self._places()):
                    try:
                        item = next(left)
                    except StopIteration:
                        more = False
                    else:
                        under_way.append(self._join(make, item))
                if not under_way:
                    return
                wanted_still()
                if wait([under_way[0].made], LOOK if more else None).done:  # else there may be more places by now
                    job = under_way.popleft()
                    self._leave(job)
                    yield job.made.result()
        except CancelledError:
            raise StoppingError from None
        finally:
            for job in under_way:
                self._leave(job)

    def stop(self) -> None:
        """Begin nothing any more; does not wait."""
        for job in self._crew.stop():
            if job.made.cancel():
                job.made.set_running_or_notify_cancel()  # else whoever waits for it is not woken

    def _join(self, make: Callable[[A], T], item: A) -> _Job[A, T]:
        """Wait for the job of others who ask for the same, or for a new one."""
        with self._mutex:
            job = self._jobs.get((make, item))
            if job is None or job.made.done():  # what has failed is tried again
                job = _Job(make, item)
                self._crew.submit(job)
                self._jobs[make, item] = job
            job.askers += 1
        return job

    def _leave(self, job: _Job[A, T]) -> None:
        with self._mutex:
            job.askers -= 1
            if job.askers:
                return
            if self._jobs.get((job.make, job.item)) is job:
                del self._jobs[job.make, job.item]
            job.made.cancel()
