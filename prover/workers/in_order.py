# SPDX-License-Identifier: GPL-3.0-or-later
"""Results in the order of what they are of, some of them made at once."""

from __future__ import annotations

import itertools
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import CancelledError, Future, ThreadPoolExecutor
from typing import TypeVar

from ragseal.prover.workers.interface import StoppingError

A = TypeVar("A")
T = TypeVar("T")


class InOrder:
    """Threads that all who ask share.  Each who asks has as many in line as there are places, so they take turns."""

    def __init__(self, places: int, name: str) -> None:
        """``places``: how many are made at once."""
        self._places = places
        self._pool = ThreadPoolExecutor(places, name)

    def results(self, make: Callable[[A], T], items: Iterable[A], wanted_still: Callable[[], None]) -> Iterator[T]:
        """What ``make`` makes of each item.

        Args:
            wanted_still: asked before each; raises when nobody waits any more.

        Raises:
            StoppingError: after :meth:`stop`.
            Exception: as ``make``; what is under way then is finished, nothing new is begun.
        """
        left, under_way = iter(items), deque[Future[T]]()

        def submit(count: int) -> None:
            for item in itertools.islice(left, count):
                try:
                    under_way.append(self._pool.submit(make, item))
                except RuntimeError:  # shut down
                    raise StoppingError from None

        try:
            wanted_still()
            submit(self._places)
            while under_way:
                wanted_still()
                yield under_way.popleft().result()
                submit(1)
        except CancelledError:
            raise StoppingError from None
        finally:
            for one in under_way:
                one.cancel()

    def stop(self) -> None:
        """Begin nothing any more; does not wait."""
        self._pool.shutdown(wait=False, cancel_futures=True)
