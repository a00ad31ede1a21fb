# SPDX-License-Identifier: GPL-3.0-or-later
"""What a trial says on standard error while it works."""

from __future__ import annotations

import time

from rich.console import Console
from rich.markup import escape

out = Console(stderr=True, highlight=False, soft_wrap=True)


def indented(text: str) -> None:
    out.print(f"          {text}", markup=False)


class Stopwatch:
    """Prints each stage as it begins and remembers how long it took."""

    def __init__(self) -> None:
        self.seconds: dict[str, float] = {}
        self._name: str | None = None
        self._began = self._start = time.monotonic()

    def stage(self, name: str, text: str) -> None:
        self.end()
        self._name, self._began = name, time.monotonic()
        out.print(f"[bold]{time.monotonic() - self._start:6.1f} s[/]  {escape(text)}")

    def end(self) -> None:
        if self._name is not None:
            self.seconds[self._name] = round(time.monotonic() - self._began, 2)
        self._name = None
        self.seconds["total"] = round(time.monotonic() - self._start, 2)
