# SPDX-License-Identifier: GPL-3.0-or-later
"""Threads that take jobs from one line, as many as there are places: their number follows while they work."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Generic, TypeVar

from ragseal.prover.workers.interface import StoppingError

LOOK = 1.0  #: seconds between two looks whether there are more places, while jobs wait
IDLE = 30.0  #: seconds without a job after which a thread ends

J = TypeVar("J", bound=Callable[[], object])


class Crew(Generic[J]):
    """Runs jobs in the order in which they came.  Methods may be called from any thread.

    A job raises nothing.  Where places become fewer, threads end with the job that they have: nothing is broken off.
    """

    def __init__(self, places: Callable[[], int], name: str, begun: bool = True) -> None:
        """
        Args:
            places: how many jobs are under way at once; asked whenever a job comes or ends, and while some wait.
            begun: else nothing is done before :meth:`begin`.
        """
        self._places, self._name, self._begun = places, name, begun
        self._changed = threading.Condition()
        self._line: deque[J] = deque()
        self._threads: set[threading.Thread] = set()
        self._idle = 0  #: threads that will take the next job: those that wait, and those that were just started
        self._number = 0
        self._keeper: threading.Thread | None = None
        self._stopped = threading.Event()

    def submit(self, job: J) -> None:
        """Put a job at the end of the line.  Raises StoppingError: after :meth:`stop`."""
        with self._changed:
            if self._stopped.is_set():
                raise StoppingError
            self._line.append(job)
            self._grow()

    def begin(self) -> None:
        with self._changed:
            self._begun = True
            self._grow()

    def stop(self) -> list[J]:
        """Begin no job any more; does not wait.  Gives those that were not begun."""
        with self._changed:
            self._stopped.set()
            left = list(self._line)
            self._line.clear()
            self._changed.notify_all()
        return left

    def join(self, timeout: float) -> None:
        """Wait for jobs under way, after :meth:`stop`; so many seconds at most."""
        end = time.monotonic() + timeout
        with self._changed:
            threads = list(self._threads)
        for thread in threads:
            thread.join(max(0.0, end - time.monotonic()))

    def _grow(self) -> None:
        """Threads for what waits, as far as there are places.  The lock is held."""
        if not self._begun or self._stopped.is_set() or not self._line:
            return
        self._changed.notify(len(self._line))
        missing = min(len(self._line) - self._idle, max(1, self._places()) - len(self._threads))
        for _ in range(missing):
            self._number, self._idle = self._number + 1, self._idle + 1
            thread = threading.Thread(target=self._run, name=f"{self._name}-{self._number}", daemon=True)
            self._threads.add(thread)
            thread.start()
        if self._keeper is None and len(self._line) > self._idle:
            self._keeper = threading.Thread(target=self._keep, name=f"{self._name}-places", daemon=True)
            self._keeper.start()

    def _keep(self) -> None:
        """More threads as soon as there are more places, while all of them have a job that takes long."""
        while not self._stopped.wait(LOOK):
            with self._changed:
                if not self._line:
                    self._keeper = None
                    return
                self._grow()

    def _run(self) -> None:
        while (job := self._next()) is not None:
            job()
            with self._changed:
                self._idle += 1

    def _next(self) -> J | None:
        """The next job; None: this thread is one too many."""
        with self._changed:
            end = time.monotonic() + IDLE
            while True:
                over = self._stopped.is_set() or len(self._threads) > max(1, self._places())
                if self._line and not over:
                    self._idle -= 1
                    return self._line.popleft()
                left = end - time.monotonic()
                if over or left <= 0:
                    self._idle -= 1
                    self._threads.discard(threading.current_thread())
                    self._changed.notify()  # it may have been woken in the place of one that stays
                    return None
                self._changed.wait(left)
