# SPDX-License-Identifier: GPL-3.0-or-later
"""Whether this machine's clock can be believed: against its own files, and against what keeps it in time."""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from collections.abc import Iterable
from datetime import UTC, datetime
from pathlib import Path

import ragseal
from ragseal.runtime.edges.cause import Cause, Finding

PROBE = "clock"
SLACK = 60.0  #: seconds by which a file may be newer than now
APART = 2.0  #: seconds between this clock and that of a file server
DAY = 86_400.0
MOST_FILES = 10_000  #: of a folder that are looked at
_TIMEX_BYTES = 512  #: more than the kernel's struct timex has
_UNSYNCHRONIZED = 5  #: TIME_ERROR of adjtimex


def clock(folder: Path, now: float | None = None) -> Finding:
    """Compare the clock with the program's files, the folder's files and its file system.

    Args:
        now: seconds since 1970; None: the clock's.
    """
    at = time.time() if now is None else now
    shown = _time(at)
    package = Path(ragseal.__file__).stat().st_mtime
    if at < package - DAY:
        said = f"it says {shown}, and this program was installed at {_time(package)}"
        return Finding.wrong(PROBE, Cause(said, "set the clock"))
    newest = max(_times(folder), default=0.0)
    if newest > at + SLACK:
        said = f"it says {shown}, and a file in {folder} is of {_time(newest)}"
        return Finding.wrong(PROBE, Cause(said, "set the clock, or see who wrote that file"))
    differs = _file_server(folder)
    if differs is not None and abs(differs) > APART:
        said = f"files in {folder} get a time that is {differs:+.0f} s from it"
        return Finding.wrong(PROBE, Cause(said, "have both machines follow one time server"))
    if _kept_in_time() is False:
        said = f"it says {shown}; no program keeps it in time (adjtimex)"
        return Finding.unchecked(PROBE, said, "start chrony or systemd-timesyncd, or compare it by eye")
    return Finding.ok(PROBE, f"it says {shown}, later than every file looked at")


def _time(at: float) -> str:
    return f"{datetime.fromtimestamp(at, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _times(folder: Path) -> Iterable[float]:
    try:
        with os.scandir(folder) as entries:
            for _, entry in zip(range(MOST_FILES), entries, strict=False):
                yield entry.stat(follow_symlinks=False).st_mtime
    except OSError:
        return


def _file_server(folder: Path) -> float | None:
    """Seconds by which a new file's time differs from the clock; None where none can be made."""
    try:
        with tempfile.TemporaryFile(dir=folder) as made:
            made.write(b"x")
            made.flush()
            os.fsync(made.fileno())
            return os.fstat(made.fileno()).st_mtime - time.time()
    except OSError:
        return None


def _kept_in_time() -> bool | None:
    """Whether the kernel follows a time server; None where it cannot be asked."""
    try:
        asked = ctypes.create_string_buffer(_TIMEX_BYTES)  # all zero: nothing is changed
        answer = ctypes.CDLL(None).adjtimex(asked)
    except (OSError, AttributeError):
        return None
    return None if answer < 0 else bool(answer != _UNSYNCHRONIZED)
