# SPDX-License-Identifier: GPL-3.0-or-later
"""Why SQLite refused: by its own code, and by what a look at the file shows.

The file itself is never opened for that: a process that closes any descriptor of a database drops its locks on it.
"""

from __future__ import annotations

import contextlib
import os
import sqlite3
from pathlib import Path

from ragseal.runtime.edges.cause import Cause
from ragseal.runtime.edges.filesystem import cause_of, processes_with
from ragseal.runtime.edges.mounts import mount_of, room, size
from ragseal.runtime.edges.private import here

_BACKUP = "restore it from a backup"


def why_database(error: sqlite3.Error, path: Path) -> str:
    """What SQLite says, what was looked at, and a way out."""
    return str(database_cause(error, path))


def database_cause(error: sqlite3.Error, path: Path) -> Cause:
    """As :func:`why_database`, taken apart."""
    code = getattr(error, "sqlite_errorname", "") or ""
    head = str(error) or code
    for prefix, look in _LOOKS.items():
        if code.startswith(prefix):
            try:
                found = look(path, code)
            except OSError as trouble:
                return Cause(head + here(f" ({path} itself could not be looked at: {trouble.strerror})"))
            return Cause(head + here(f" ({found})"))
    return Cause(head)


_FULL = 1 << 20  #: bytes; SQLite's smallest writes may fail where less is free


def _full(path: Path, code: str) -> Cause:
    return Cause(str(room(path)), "make room there")


def _busy(path: Path, code: str) -> Cause:
    holders = processes_with(path)
    if holders:
        said = f"processes {', '.join(map(str, holders))} have {path} open"
        return Cause(said, "end what is not ragseal, or try again")
    return Cause(f"{path} is locked by another program", "end that one, or try again")


def _io(path: Path, code: str) -> Cause:
    what = code.removeprefix("SQLITE_IOERR").removeprefix("_").lower().replace("_", " ") or "a read or write"
    left = room(path)
    if left.free < _FULL:  # files of SQLite's own that grow, such as -shm, fail with this code on a full disk
        return _full(path, code)
    where = mount_of(path) or f"the file system of {path}"
    said = f"{what} failed on {where}, where {size(left.free)} are free"
    return Cause(said, "see the system's log, and check the disk")


def _read_only(path: Path, code: str) -> Cause:
    mount = mount_of(path)
    if mount is not None and mount.read_only:
        return Cause(f"{mount} is mounted read-only", "mount it read-write")
    return _permissions(path)


def _cannot_open(path: Path, code: str) -> Cause:
    if not os.path.lexists(path):
        return cause_of(FileNotFoundError(2, "it is not there"), path)
    if path.is_dir():
        return Cause(f"{path} is a folder", "move it away")
    return _permissions(path)


def _permissions(path: Path) -> Cause:
    for one in (path, path.parent):
        if not os.access(one, os.R_OK | os.W_OK, effective_ids=True):
            return cause_of(PermissionError(13, f"{one} cannot be written"), one)
    return Cause(f"{path} and its folder can be written by this user", "see what else holds it, and `ulimit -n`")


def _damaged(path: Path, code: str) -> Cause:
    with contextlib.suppress(OSError):
        return Cause(f"{path} of {path.stat().st_size:,} bytes holds what SQLite did not write", _BACKUP)
    return Cause(f"{path} holds what SQLite did not write", _BACKUP)


def _locks(path: Path, code: str) -> Cause:
    return Cause(f"{mount_of(path) or 'its file system'} does not lock as SQLite needs it", "use a local disk")


def _memory(path: Path, code: str) -> Cause:
    return Cause("this program got no more memory", "give it more, or end others")


_LOOKS = {
    "SQLITE_FULL": _full,
    "SQLITE_BUSY": _busy,
    "SQLITE_IOERR_NOMEM": _memory,
    "SQLITE_IOERR_LOCK": _locks,
    "SQLITE_IOERR_RDLOCK": _locks,
    "SQLITE_IOERR": _io,
    "SQLITE_READONLY": _read_only,
    "SQLITE_CANTOPEN": _cannot_open,
    "SQLITE_PERM": _read_only,
    "SQLITE_CORRUPT": _damaged,
    "SQLITE_NOTADB": _damaged,
    "SQLITE_PROTOCOL": _locks,
    "SQLITE_NOLFS": _locks,
    "SQLITE_NOMEM": _memory,
}
