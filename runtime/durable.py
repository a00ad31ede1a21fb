# SPDX-License-Identifier: GPL-3.0-or-later
"""Files that are there completely or not at all, also after a power cut."""

from __future__ import annotations

import contextlib
import errno
import os
import secrets
from collections.abc import Callable
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.edges.locks import holder, try_lock


def sync_directory(directory: Path) -> None:
    """Make names created or replaced in a directory durable.  Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


class UnsyncedError(OSError):
    """New content is in place, and its name could not be made durable."""

    def __init__(self, cause: OSError) -> None:
        super().__init__(
            cause.errno, f"{cause.strerror}: the new content is in place, but a power cut may bring the old one back"
        )


def unchanged(error: OSError, said: str) -> str:
    """``said``, such as "; nothing was changed", where that is true of a write that failed; else nothing."""
    return "" if isinstance(error, UnsyncedError) else said


def write_durably(path: Path, data: bytes, *, mode: int = 0o644, replace: bool = True) -> None:
    """Write ``data`` beside ``path``, sync it, and put it in place in one step.

    With ``replace=False`` an existing file is left alone and FileExistsError raised.

    Raises:
        UnsyncedError: it is in place all the same; only of a file that was there before, or may have been.
        OSError: all is as it was.
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
    try:
        sync_directory(path.parent)
    except OSError as error:
        if replace:
            raise UnsyncedError(error) from None
        _undo(lambda: os.unlink(path), error)
        raise


def place_durably(made: Path, target: Path) -> None:
    """Give a folder that is on disk its name, in one step.

    Raises:
        UnsyncedError: it has its name, and neither that nor its old name could be made durable.
        OSError: there is something of that name already, or the disk refuses; it has its old name.
    """
    os.rename(made, target)
    try:
        sync_directory(target.parent)
    except OSError as error:
        _undo(lambda: os.rename(target, made), error)
        raise


def _undo(step: Callable[[], None], error: OSError) -> None:
    """Take a step back; whoever reads what failed is to find nothing done."""
    try:
        step()
    except OSError:
        raise UnsyncedError(error) from None


def append_durably(path: Path, data: bytes, size: int) -> int:
    """Append to a file of which the first ``size`` bytes count, sync it, and give how many do now.  Raises OSError.

    Where that fails the file is cut to what counts; where that fails too, what there is more goes with the next call.
    No buffer stands between: what is left in one is written when it is closed, whatever was cut before.
    """
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        try:
            size = min(size, os.fstat(descriptor).st_size)
            os.ftruncate(descriptor, size)
            written = 0
            while written < len(data):
                written += os.write(descriptor, data[written:])
            os.fsync(descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                os.ftruncate(descriptor, size)
            raise
    finally:
        os.close(descriptor)
    if not size:
        sync_directory(path.parent)  # its name may be new
    return size + len(data)


def spares_of(path: Path) -> list[Path]:
    """Names that :class:`DurableFile` uses beside ``path``."""
    return [path.with_name(f"{path.name}.spare{number}") for number in (0, 1)]


class DurableFile:
    """A file that is replaced whole again and again, also by a program that gets no new descriptor any more.

    Strangers' connections can take every descriptor that a program may have, so all that :meth:`write` needs is open
    beforehand: the folder, a spare file for the next content, and the file itself.  What is replaced keeps a second
    name until a new spare could be opened; where that fails it becomes the spare itself, and only then is a file
    written over: one that has no part in what the name stands for since the folder was synced.
    """

    def __init__(self, path: Path) -> None:
        """``path`` exists.  Raises OSError."""
        self._path = path
        self._names = spares_of(path)
        self._open: list[int] = []  #: descriptors: folder, file, spare
        self._sound = True
        try:
            self._open.append(os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC))
            self._open.append(os.open(path, os.O_RDWR | os.O_CLOEXEC))
            for name in self._names:
                name.unlink(missing_ok=True)  # what a crash left
            self._open.append(self._create(self._names[0]))
            os.fsync(self._open[0])  # other names too: SQLite leaves its log's out when it gets no descriptor for this
        except BaseException:
            self.close()
            raise

    @staticmethod
    def _create(name: Path) -> int:
        return os.open(name, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)

    def write(self, data: bytes) -> None:
        """Put ``data`` in place, durably and in one step.

        Raises:
            OSError: nobody can tell which content a power cut would leave; every later call fails too.
        """
        if not self._sound:
            raise OSError(errno.EIO, "an earlier write failed")
        self._sound = False
        folder, file, spare = self._open
        spare_name, other_name = self._names
        os.ftruncate(spare, 0)
        written = 0
        while written < len(data):
            written += os.pwrite(spare, data[written:], written)
        os.fsync(spare)
        os.link(self._path, other_name)
        os.replace(spare_name, self._path)
        os.fsync(folder)
        self._open, self._names = [folder, spare, file], [other_name, spare_name]
        with contextlib.suppress(OSError):  # no descriptor is free: what was replaced is written over next time
            self._open[2] = self._create(spare_name)
            self._names.reverse()
            os.close(file)
            os.unlink(other_name)
        self._sound = True

    def close(self) -> None:
        """Let go of the file; again is harmless."""
        while self._open:
            os.close(self._open.pop())
        for name in self._names:
            with contextlib.suppress(OSError):
                name.unlink(missing_ok=True)


class DirectoryLock:
    """An exclusive lock on a directory's ``lock`` file for the life of this object (or until :meth:`release`).

    The operating system drops it when the process dies, so there is never a stale one to remove by hand.
    """

    def __init__(self, directory: Path, what: str, instead: str = "") -> None:
        """``what`` is locked, for people; ``instead``: what else may be done than to stop the other process.

        Raises:
            LedgerError: another process holds the lock.
            ConfigurationError: it cannot be made, or the file system has no locks.
        """
        path = directory / "lock"
        try:
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise ConfigurationError(f"cannot open {path}: {why(error, path)}") from None
        try:
            if not try_lock(self._descriptor, path):
                raise LedgerError(
                    f"{what} in {directory} is in use by another process{holder(self._descriptor)}: stop that one "
                    f"first, two would fork the history{instead}"
                ) from BlockingIOError(errno.EAGAIN, "the lock is held")  # by which fsck and status tell it from damage
        except BaseException:
            self.release()
            raise

    def release(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
