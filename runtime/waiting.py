# SPDX-License-Identifier: GPL-3.0-or-later
"""``--wait``: a command that is typed before its peer serves goes on trying, and says what it waits for."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TypeVar

import click

from ragseal.kernel.errors import MismatchError, TransportError

T = TypeVar("T")

PAUSE = 1.0  #: seconds between two tries
MOST = 86_400.0  #: seconds that a command may wait

WAIT = click.option(
    "--wait",
    type=click.FloatRange(min=0, max=MOST),
    default=0.0,
    metavar="SECONDS",
    help="Try again for so long while the other side cannot be reached or has no open window yet.",
)


def patiently(
    call: Callable[[], T],
    seconds: float,
    say: Callable[[str], object],
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> T:
    """What ``call`` returns, called again while its peer is not there.

    Args:
        say: told once what is waited for.

    Raises:
        TransportError: the peer is still away after so many seconds.
        MismatchError: it is there, and no repetition helps.
        AuditError: whatever else the call raises, at once.
    """
    end, told = clock() + seconds, False
    while True:
        try:
            return call()
        except MismatchError:
            raise
        except TransportError as error:
            if clock() >= end:
                raise
            if not told:
                say(f"waiting for at most {seconds:g} s: {error}")
                told = True
            pause(min(PAUSE, max(0.0, end - clock())))
