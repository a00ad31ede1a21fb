# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are there completely or not at all, also after a power cut."""

from __future__ import annotations

import contextlib
import fcntl
import os
import secrets
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError, LedgerError


def sync_directory(directory: Path) -> None:
    """Make names created or replaced in a directory durable.  Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def write_durably(path: Path, data: bytes, *, mode: int = 0o644, replace: bool = True) -> None:
    """Write ``data`` beside ``path``, sync it, and put it in place in one step.

    With ``replace=False`` an existing file is left alone and FileExistsError raised.  Raises OSError.
    """
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        try:
            with open(descriptor, "wb", closefd=False) as file:
                file.write(data)
                file.flush()
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
        if replace:
            os.replace(temporary, path)
        else:
            os.link(temporary, path)  # fails if the name is taken, unlike rename
            os.unlink(temporary)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(temporary)
        raise
    sync_directory(path.parent)


class DirectoryLock:
    """An exclusive lock on a directory's ``lock`` file for the life of this object (or until :meth:`release`).

    The operating system drops it when the process dies, so there is never a stale one to remove by hand.
    """

    def __init__(self, directory: Path, what: str, instead: str = "") -> None:
        """``what`` is locked, for people; ``instead``: what else may be done than to stop the other process.

        Raises:
            LedgerError: another process holds the lock.
            ConfigurationError: it cannot be made.
        """
        path = directory / "lock"
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(f"cannot open {path}: {error.strerror}") from None
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._descriptor)
            raise LedgerError(
                f"{what} in {directory} is in use by another process: stop that one first, two would fork the history"
                f"{instead}"
            ) from None

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
