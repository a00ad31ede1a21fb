# SPDX-License-Identifier: GPL-3.0-or-later
"""What long work tells whoever waits for it."""

from __future__ import annotations

from collections.abc import Callable

#: Told (what is being done, done, total) now and then; a total of 0 is not known.
Progress = Callable[[str, int, int], None]


def nothing(what: str, done: int, total: int) -> None:
    """No progress shown."""
