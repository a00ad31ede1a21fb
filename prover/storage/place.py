# SPDX-License-Identifier: GPL-3.0-or-later
"""The Unix socket of a serving provider: one user's, in that user's folder, and nothing else in its place.

Whoever may connect may do all that the folder's owner may.  So the folder is 0700 and the socket 0600, and neither side
uses what it did not make itself: a link, a file, another user's socket.  The provider holds the folder's lock, so a
socket that it finds is what a crash has left.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.edges.filesystem import why

SOCKET = "admin.sock"
_BY_DESCRIPTOR = Path("/proc/self/fd")


@contextmanager
def address(directory: Path) -> Iterator[str]:
    """The socket's address for gRPC, good inside the block.

    A Unix socket's path has at most 107 bytes, and gRPC reads some characters of it in ways of its own, so the folder
    is named by a descriptor where the system can do that.

    Raises:
        ConfigurationError: the folder cannot be opened.
    """
    try:
        folder = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError as error:
        raise ConfigurationError(f"cannot open {directory}: {why(error, directory)}") from None
    try:
        short = _BY_DESCRIPTOR / str(folder)
        yield f"unix:{(short if short.exists() else directory.absolute()) / SOCKET}"
    finally:
        os.close(folder)


def found(directory: Path) -> bool:
    """Whether there is a socket that this user's provider made.

    Raises:
        ConfigurationError: something else has its name, or others may enter the folder.
    """
    path = directory / SOCKET
    try:
        there, folder = os.lstat(path), os.stat(directory)
    except FileNotFoundError:
        return False
    except OSError as error:
        raise ConfigurationError(f"cannot look at {path}: {why(error, path)}") from None
    if not stat.S_ISSOCK(there.st_mode) or there.st_uid != os.geteuid():
        raise ConfigurationError(
            f"{path} is not a socket of this user: no provider made it. Find out who put it there, and remove it"
        )
    _require_private(directory, folder)
    return True


def _require_private(directory: Path, folder: os.stat_result) -> None:
    if folder.st_uid != os.geteuid() or stat.S_IMODE(folder.st_mode) & 0o077:
        raise ConfigurationError(f"{directory} is another user's or open to others: run chmod go= on it")


def clear(directory: Path) -> None:
    """Make a place for a socket: remove what a crash has left.

    Raises:
        ConfigurationError: as :func:`found`; of a folder that others may enter, also where there is nothing yet.
    """
    if found(directory):
        remove(directory)
    try:
        _require_private(directory, os.stat(directory))
    except OSError as error:
        raise ConfigurationError(f"cannot look at {directory}: {why(error, directory)}") from None


def close_to_others(directory: Path) -> None:
    """Give a new socket its mode.  ConfigurationError: it is not there."""
    try:
        os.chmod(directory / SOCKET, 0o600)
    except OSError as error:
        raise ConfigurationError(f"cannot make {directory / SOCKET} private: {why(error)}") from None


def remove(directory: Path) -> None:
    """Remove the socket; again is harmless.  ConfigurationError: it cannot be."""
    try:
        (directory / SOCKET).unlink(missing_ok=True)
    except OSError as error:
        raise ConfigurationError(f"cannot remove {directory / SOCKET}: {why(error, directory / SOCKET)}") from None
