# SPDX-License-Identifier: GPL-3.0-or-later
"""How a program that serves is told to end."""

from __future__ import annotations

import asyncio
import contextlib
import signal


def asked_to_stop() -> asyncio.Event:
    """Set by SIGINT or SIGTERM from here on; belongs to the running loop."""
    stop, loop = asyncio.Event(), asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):  # not every platform's loop can
            loop.add_signal_handler(number, stop.set)
    return stop
