# SPDX-License-Identifier: GPL-3.0-or-later
"""The log's one connection to SQLite, and its failures as LedgerErrors that say what may be relied on."""

from __future__ import annotations

import contextlib
import sqlite3
from collections.abc import Iterable, Iterator
from pathlib import Path

from pymerkle import SqliteTree

from ragseal.kernel.errors import LedgerError
from ragseal.ledger.turned_tree import TURNS_INDEX
from ragseal.runtime.edges.databases import why_database
from ragseal.runtime.edges.filesystem import why

CACHE_BYTES = 64 * 1024 * 1024


class TransientError(LedgerError):
    """A storage failure after which SQLite has certainly rolled back (disk full, busy)."""


@contextlib.contextmanager
def storage(action: str, database: Path | None = None) -> Iterator[None]:
    """Storage errors as LedgerError with the way out; ``database`` is looked at, where it is named."""
    try:
        yield
    except sqlite3.Error as error:
        code = getattr(error, "sqlite_errorname", "")
        said = str(error) if database is None else why_database(error, database)
        if code.startswith(("SQLITE_FULL", "SQLITE_BUSY")):
            raise TransientError(f"{action}: {said}; nothing of this was recorded") from None
        raise LedgerError(f"{action}: the database failed: {said}; restart once that is mended") from None
    except OSError as error:
        said = why(error, database)
        raise LedgerError(f"{action}: the file system failed: {said}; restart once that is mended") from None
    except ValueError as error:  # pymerkle: leaf indices with gaps
        raise LedgerError(f"{action}: the database is damaged ({error}). Restore it from a copy") from None


def connect(database: Path) -> SqliteTree:
    """The only connection to the database there ever is: SQLite before 3.51.3 can corrupt a WAL shared by two."""
    tree = SqliteTree(str(database), capacity=CACHE_BYTES)
    try:
        for pragma in ("locking_mode=EXCLUSIVE", "busy_timeout=2000", "journal_mode=WAL", "synchronous=FULL"):
            tree.con.execute(f"PRAGMA {pragma}")
        tree.con.execute("PRAGMA fullfsync=1")
        tree.con.execute("PRAGMA temp_store=MEMORY")  # no file that is opened when it is needed
        if tree.con.execute("PRAGMA journal_mode").fetchone() != "wal":
            raise LedgerError(f"{database}: this file system cannot hold a write-ahead log; use a local disk")
    except BaseException:
        tree.close()
        raise
    return tree


def layout_of_another(database: Path) -> bool:
    """Whether a log's database that nobody has open has tables, indices, triggers or views that no log of ours has.

    Raises:
        LedgerError: it cannot be read.
    """
    with storage("read the ledger's layout"), contextlib.closing(SqliteTree(":memory:")) as own:
        own.con.execute(TURNS_INDEX)
        own.con.row_factory = None
        with contextlib.closing(sqlite3.connect(database)) as given:
            given.execute("PRAGMA trusted_schema=OFF")
            return bool(_layout(given) - _layout(own.con))


def _layout(database: sqlite3.Connection) -> set[tuple[str, ...]]:
    rows: Iterable[tuple[str, str, str, str | None]] = database.execute(
        "SELECT type, name, tbl_name, sql FROM sqlite_master"
    )
    return {(kind, name, table, " ".join((sql or "").split())) for kind, name, table, sql in rows}
