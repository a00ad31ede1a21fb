# SPDX-License-Identifier: GPL-3.0-or-later
"""How a program that serves is told to end, and to look at its settings again."""

from __future__ import annotations

import asyncio
import contextlib
import signal
from collections.abc import Callable


def asked_to_stop() -> asyncio.Event:
    """Set by SIGINT or SIGTERM from here on; belongs to the running loop."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # not every platform's loop can
            loop.add_signal_handler(number, stop.set)
    return stop


def ignore_hangups() -> None:
    """From here to :func:`on_hangup`: what a program has not read yet it need not read again, and it must not end.

    For the main thread; elsewhere, and where there are no such signals, it does nothing.
    """
    with contextlib.suppress(AttributeError, ValueError):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)


def on_hangup(do: Callable[[], object]) -> None:
    """Call ``do`` in the running loop at each SIGHUP from here on.  Does nothing where :func:`ignore_hangups` does."""
    with contextlib.suppress(NotImplementedError, AttributeError, ValueError, RuntimeError):
        asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, do)
