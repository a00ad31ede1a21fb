# SPDX-License-Identifier: GPL-3.0-or-later
"""What a test of workers waits for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any


class InBackground:
    """A call that waits, in a thread."""

    def __init__(self, call: Callable[[], Any]) -> None:
        self._outcome: list[Any] = []

        def run() -> None:
            try:
                self._outcome.append(call())
            except BaseException as error:
                self._outcome.append(error)

        self._thread = threading.Thread(target=run, daemon=True)  # one that waits for ever keeps no test run
        self._thread.start()

    def outcome(self, seconds: float = 90.0) -> Any:
        self._thread.join(seconds)
        assert self._outcome, "it still waits"
        return self._outcome[0]


def until(what: Callable[[], object], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.02)
