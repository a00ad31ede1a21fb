# SPDX-License-Identifier: GPL-3.0-or-later
"""Locks between processes: "another process has it" is said only where the system says so.

A file system without locks answers with other errors, and nobody can be found to be stopped there.
"""

from __future__ import annotations

import errno
import fcntl
import os
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.edges.filesystem import why

HELD = (errno.EWOULDBLOCK, errno.EAGAIN)  #: one number on Linux
LOCKS = Path("/proc/locks")


def try_lock(descriptor: int, path: Path) -> bool:
    """Take an exclusive lock of an open file, or tell that another process has it.

    Raises:
        ConfigurationError: the file system has no locks, or fails; nobody else is to blame.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno in HELD:
            return False
        raise ConfigurationError(_refused(error, path)) from None
    return True


def wait_lock(descriptor: int, path: Path) -> None:
    """Take an exclusive lock of an open file as soon as nobody else has it.

    Raises:
        ConfigurationError: the file system has no locks, or fails.
    """
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError as error:
        raise ConfigurationError(_refused(error, path)) from None


def holder(descriptor: int) -> str:
    """Which process has a file locked, such as ``" (process 12)"``; empty where the system does not say.

    In a container the number may be that of a process outside, which is not listed.
    """
    seen = os.fstat(descriptor)
    place = f"{os.major(seen.st_dev):02x}:{os.minor(seen.st_dev):02x}:{seen.st_ino}"
    try:
        lines = LOCKS.read_text("ascii", "replace").splitlines()
    except OSError:
        return ""
    for line in lines:
        words = line.split()
        if "->" not in words and len(words) > 5 and words[1] == "FLOCK" and words[5] == place and int(words[4]) > 0:
            return f" (process {words[4]})"
    return ""


def _refused(error: OSError, path: Path) -> str:
    if error.errno in (errno.EOPNOTSUPP, errno.ENOTSUP, errno.ENOSYS, errno.EINVAL):
        error = OSError(errno.ENOLCK, error.strerror)
    return f"cannot lock {path}: {why(error, path)}"
