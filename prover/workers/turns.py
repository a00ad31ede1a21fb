# SPDX-License-Identifier: GPL-3.0-or-later
"""Turns: a lock that is handed on in the order in which it was asked for."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """Whoever takes it anew for every proof takes turns with the others: a plain lock may be one's for ever."""

    def __init__(self) -> None:
        self._mutex = threading.Lock()
        self._taken = False
        self._waiting: deque[threading.Event] = deque()

    def __enter__(self) -> None:
        with self._mutex:
            if not self._taken:
                self._taken = True
                return
            mine = threading.Event()
            self._waiting.append(mine)
        mine.wait()

    def __exit__(self, *_: object) -> None:
        with self._mutex:
            if self._waiting:
                self._waiting.popleft().set()  # it stays taken: nobody who comes now is faster
            else:
                self._taken = False

    @contextmanager
    def handed_on(self) -> Iterator[None]:
        """Others have the turn that the caller holds, while it waits for somebody else."""
        self.__exit__()
        try:
            yield
        finally:
            self.__enter__()
