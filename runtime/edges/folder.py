# SPDX-License-Identifier: GPL-3.0-or-later
"""What a state folder and its file system can do: tried with files of its own, which are removed again."""

from __future__ import annotations

import contextlib
import fcntl
import os
import sqlite3
import stat
import tempfile
from collections.abc import Callable
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.cause import Cause, Finding
from ragseal.runtime.edges.databases import why_database
from ragseal.runtime.edges.filesystem import owned, user, why
from ragseal.runtime.edges.locks import holder, try_lock
from ragseal.runtime.edges.mounts import NETWORKS, mount_of, standing

NAMES = ("folder", "files", "locks", "database")
LOCK = "lock"  #: of a program that has the folder


def folder(path: Path) -> list[Finding]:
    """Whether the folder is this user's alone, and keeps files, locks and a database as the programs need it."""
    try:
        seen = path.stat()
    except FileNotFoundError as error:
        if os.path.lexists(path):
            return [Finding.wrong("folder", Cause(why(error, path))), *_untried("the folder is not there")]
        return _missing(path)
    except OSError as error:
        said = Cause(f"{path} cannot be looked at: {why(error, path)}")
        return [Finding.wrong("folder", said), *_untried("the folder cannot be looked at")]
    if not stat.S_ISDIR(seen.st_mode):
        said = Cause(f"{path} is no folder", "name the program's state folder")
        return [Finding.wrong("folder", said), *_untried("the folder is none")]
    found = [Finding.ok("folder", _in_use(path))]
    if seen.st_uid != os.geteuid():
        whose = f"{owned(path)}, and this ran as {user(os.geteuid())}"
        found = [Finding.wrong("folder", Cause(whose, "run this, and the program, as the folder's owner"))]
    elif stat.S_IMODE(seen.st_mode) & 0o077:
        found = [Finding.wrong("folder", Cause(f"others may look into it: {owned(path)}", f"chmod 700 {path}"))]
    try:
        made = tempfile.mkdtemp(prefix=".doctor-", dir=path)
    except OSError as error:
        said = Cause(f"no file can be made in {path}: {why(error, path)}")
        return [*found, Finding.wrong("files", said), *_untried("no file can be made there")[1:]]
    try:
        trials: tuple[tuple[str, Callable[[Path], str]], ...] = (
            ("files", _files),
            ("locks", _locks),
            ("database", _database),
        )
        return [*found, *(_tried(name, trial, Path(made)) for name, trial in trials)]
    finally:
        with contextlib.suppress(OSError):
            for left in Path(made).iterdir():
                left.unlink()
            os.rmdir(made)


def used_by(path: Path) -> str:
    """Which process has a state folder, such as ``" (process 12)"``; empty where none has."""
    try:
        descriptor = os.open(path / LOCK, os.O_RDWR | os.O_CLOEXEC)
    except OSError:
        return ""
    try:
        return "" if try_lock(descriptor, path) else holder(descriptor) or " (a process)"
    except ConfigurationError:
        return ""
    finally:
        os.close(descriptor)


def _in_use(path: Path) -> str:
    who = used_by(path)
    return f"{path} is yours alone" + (f", and in use by a running program{who}" if who else "")


def _missing(path: Path) -> list[Finding]:
    above = standing(path)
    if not above.is_dir() or not os.access(above, os.W_OK | os.X_OK, effective_ids=True):
        said = f"{path} is not there and cannot be made: {owned(above)}"
        return [Finding.wrong("folder", Cause(said, "make it for this user")), *_untried("the folder is not there")]
    way = "name it with --state, or make it with `init` or `keygen`"
    return [Finding.unchecked("folder", f"{path} is not there", way), *_untried("the folder is not there")]


def _untried(why_not: str) -> list[Finding]:
    return [Finding.unchecked(name, why_not) for name in NAMES[1:]]


def _tried(name: str, trial: Callable[[Path], str], made: Path) -> Finding:
    try:
        return Finding.ok(name, trial(made))
    except OSError as error:
        return Finding.wrong(name, Cause(why(error, made)))
    except sqlite3.Error as error:
        return Finding.wrong(name, Cause(why_database(error, made / "database")))
    except ConfigurationError as error:
        return Finding.wrong(name, Cause(str(error)))


def _files(made: Path) -> str:
    """What every program does with its files.  Raises OSError."""
    write_durably(made / "one", b"1")
    write_durably(made / "one", b"2")
    write_durably(made / "two", b"1", replace=False)
    os.rename(made / "two", made / "three")
    mount = mount_of(made)
    on = "" if mount is None else f" on {mount}"
    return f"written, synced, linked and renamed{on}"


def _locks(made: Path) -> str:
    """Raises OSError or ConfigurationError."""
    descriptor = os.open(made / "locked", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        if not try_lock(descriptor, made):
            raise ConfigurationError(f"a lock of a new file in {made.parent} is said to be another's")
        fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1)  # of the kind that SQLite takes
        other = os.open(made / "locked", os.O_RDWR | os.O_CLOEXEC)
        try:
            if try_lock(other, made):
                raise ConfigurationError(
                    f"two locks of one file in {made.parent} were given out: locks of its file system exclude nobody; "
                    "keep this folder on a local disk"
                )
        finally:
            os.close(other)
    finally:
        os.close(descriptor)
    mount = mount_of(made)
    if mount is not None and mount.kind in NETWORKS:
        return f"taken and kept; {mount} is of the network, where that may hold on one machine only"
    return "taken, and refused to a second one"


def _database(made: Path) -> str:
    """SQLite with a write-ahead log, as provider and ledger keep it.  Raises sqlite3.Error."""
    database = sqlite3.connect(made / "database", isolation_level=None)
    try:
        mode = database.execute("PRAGMA journal_mode=WAL").fetchone()[0]
        database.execute("PRAGMA synchronous=FULL")
        database.execute("CREATE TABLE tried (number INTEGER)")
        database.execute("INSERT INTO tried VALUES (1)")
    finally:
        database.close()
    if mode != "wal":
        raise ConfigurationError(
            f"{made.parent} cannot hold SQLite's write-ahead log: keep this folder on a local disk"
        )
    return "SQLite keeps a write-ahead log there"
