# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider's database, ``state.db``: SQLite, one connection that writes and one that reads.

Whatever is committed is durable, and what was deleted can be scrubbed from the disk.
"""

from __future__ import annotations

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.storage.schema import SCHEMA, SCHEMA_VERSION
from ragseal.runtime.edges.databases import why_database
from ragseal.runtime.edges.filesystem import why

DATABASE = "state.db"
COPIED_PAGES = 1024  #: of the database, between which others get their turn

SCRUBBED_IN_MEMORY = 1 << 26  #: bytes of a database that is rewritten in memory
SCRUB_ROOM = 2  #: a larger one takes so many times its size of disk meanwhile: once beside it, once in its log

T = TypeVar("T")


class Reader:
    """A connection that reads and cannot write.  Every method may be called from any thread."""

    def __init__(self, path: Path) -> None:
        """Raises ConfigurationError: it cannot be had."""
        self._path = path
        self._db = _open_reader(path)
        self.mutex = threading.Lock()  #: held while it reads

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a read, of what is committed: it does not wait for a transaction that is being written.

        Raises:
            ConfigurationError: damaged database.
        """
        with self.mutex:
            try:
                return self._db.execute(query, tuple(values)).fetchall()
            except sqlite3.Error as error:
                said = why_database(error, self._path)
                raise ConfigurationError(f"the provider's database cannot be read: {said}") from None

    def row(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row of a read, or None."""
        found = self.rows(query, values)
        return found[0] if found else None

    @contextmanager
    def moment(self) -> Iterator[None]:
        """Within this block it reads what is committed now, whatever is written meanwhile."""
        self.rows("BEGIN")
        try:
            self.rows("SELECT 1 FROM ledger_mark")  # SQLite takes its moment at the first read
            yield
        finally:
            with suppress(ConfigurationError):
                self.rows("ROLLBACK")

    def close(self) -> None:
        with self.mutex:
            self._db.close()


class Database:
    """An opened database.  Every method may be called from any thread."""

    def __init__(self, path: Path) -> None:
        """Open an existing one.

        Raises:
            ConfigurationError: it is missing, damaged or of another version of this program.
        """
        self.path = path
        self._mutex = threading.RLock()  #: of the connection that writes
        self._failure: str | None = None
        self.refused = ""  #: why the newest write was refused by disk or database; empty where it was taken
        self._db = open_database(path)
        self._reader = Reader(path)
        self._spare: Reader | None = Reader(path)  #: for a snapshot: no file is opened then
        self._spares = threading.Lock()

    @contextmanager
    def transaction(self, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """All or nothing, durable when the block ends (without ``durable``: once a later durable one ends).

        Raises:
            ConfigurationError: the disk or the database refuses; nothing of the block may be relied on.  Where nobody
                can tell what is on disk, as after a failed sync, nothing more is taken until a new start has read it.
        """
        with self._mutex:
            if self._failure is not None:
                raise ConfigurationError(self._failure)
            try:
                if not durable:
                    self._db.execute("PRAGMA synchronous=NORMAL")
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                except BaseException:
                    self._roll_back()  # unless SQLite has done so itself, as on a full disk
                    raise
                self._commit()
            except sqlite3.Error as error:
                self._roll_back()
                self.refused = why_database(error, self.path)
                raise ConfigurationError(
                    f"the provider's database refuses: {self.refused}; nothing was changed"
                ) from None
            finally:
                if not durable:
                    self._db.execute("PRAGMA synchronous=FULL")

    def _commit(self) -> None:
        try:
            self._db.execute("COMMIT")
            self.refused = ""
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", "") in ("SQLITE_FULL", "SQLITE_BUSY"):
                raise  # SQLite has certainly rolled back
            self._roll_back()
            self._failure = (
                f"the provider's database failed while it wrote: {why_database(error, self.path)}; nobody can tell "
                "what is on disk. Check the disk and start the provider again"
            )
            raise ConfigurationError(self._failure) from None

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """As :meth:`Reader.rows`."""
        return self._reader.rows(query, values)

    def row(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row of a read, or None."""
        return self._reader.row(query, values)

    @contextmanager
    def snapshot(self) -> Iterator[Reader]:
        """Reads what is committed when the block begins, until it ends.

        What is deleted meanwhile stays in the write-ahead log: :meth:`scrub` says so.

        Raises:
            ConfigurationError: the database cannot be read.
        """
        with self._spares:
            reader, self._spare = self._spare, None
        reader = reader or Reader(self.path)
        try:
            with reader.moment():
                yield reader
        finally:
            with self._spares:
                kept = self._spare is None
                if kept:
                    self._spare = reader
            if not kept:
                reader.close()

    def copy_to(self, target: Path, moment: Callable[[], T]) -> T:
        """Copy the database as it is at one moment into a new file, while others go on writing.

        Args:
            moment: called in that moment, in which no transaction is under way; its result is returned.

        Raises:
            ConfigurationError: the disk or the database refuses.
        """
        source = _open_reader(self.path)
        try:
            with self._mutex:
                source.execute("BEGIN")
                source.execute("SELECT 1 FROM ledger_mark").fetchall()  # from here on it reads this moment's content
                found = moment()
            os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            copy = sqlite3.connect(target)
            try:
                source.backup(copy, pages=COPIED_PAGES, sleep=0.0)
            finally:
                copy.close()
            return found
        except sqlite3.Error as error:
            said = why_database(error, target)
            raise ConfigurationError(f"the provider's database cannot be copied: {said}") from None
        finally:
            source.close()

    def scrub(self) -> bool:
        """Rewrite the database so that neither a page nor the write-ahead log holds what was deleted.

        Returns:
            False: a copy or a version that is being made reads what was there before; to be called again.

        Raises:
            ConfigurationError: the disk or the database refuses.
        """
        with self._mutex:
            try:
                self._vacuum()  # deleting leaves parts of rows in pages that were split or joined
                self._db.execute("PRAGMA busy_timeout=0")
                try:
                    with self._reader.mutex:  # a read that is under way would keep the log from being emptied
                        (busy, _, _) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                finally:
                    self._db.execute("PRAGMA busy_timeout=5000")
                return not busy
            except sqlite3.Error as error:
                said = why_database(error, self.path)
                raise ConfigurationError(f"the provider's database refuses to be rewritten: {said}") from None

    def _vacuum(self) -> None:
        """Rewrite the database: a small one in memory, a larger one by a nameless temporary file in the state folder.

        That file holds what stays, nothing of what was deleted.

        Raises:
            ConfigurationError: the disk has no room for it.
        """
        folder, size = str(self.path.parent.resolve()), (self.path).stat().st_size
        if size <= SCRUBBED_IN_MEMORY:
            self._db.execute("VACUUM")
            return
        free = shutil.disk_usage(self.path.parent).free
        if free < SCRUB_ROOM * size:
            raise ConfigurationError(
                f"the provider's database has {size >> 20} MiB, and to rewrite it takes {SCRUB_ROOM} times that for a "
                f"moment: only {free >> 20} MiB are free. Make room; what is to be purged waits until then"
            )
        quoted = folder.replace("'", "''")
        try:
            self._db.execute(f"PRAGMA temp_store_directory='{quoted}'")
            if self._db.execute("PRAGMA temp_store_directory").fetchall() == [(folder,)]:
                self._db.execute("PRAGMA temp_store=FILE")  # else nobody knows where it would go
            self._db.execute("VACUUM")
        finally:
            self._db.execute("PRAGMA temp_store=MEMORY")
            self._db.execute("PRAGMA temp_store_directory=''")

    def close(self) -> None:
        self._reader.close()
        with self._spares:
            if self._spare is not None:
                self._spare.close()
        with self._mutex:
            self._db.close()


def _connect(path: Path) -> sqlite3.Connection:
    """A connection that opens no file later on: strangers' connections may hold every descriptor then."""
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA temp_store=MEMORY")
    return database


def _open_reader(path: Path) -> sqlite3.Connection:
    """A second connection, which cannot write.  Raises ConfigurationError: it cannot be had."""
    try:
        database = _connect(path)
        database.execute("PRAGMA query_only=ON")
        database.execute("SELECT 1 FROM sqlite_master").fetchall()  # opens its files now, not at the first question
        return database
    except sqlite3.Error as error:
        raise ConfigurationError(f"cannot open {path}: {why_database(error, path)}") from None


def open_database(path: Path, new: bool = False) -> sqlite3.Connection:
    """Raises ConfigurationError: not a database of ours, or not there: an empty one would hide that all is lost."""
    try:
        os.close(
            os.open(path, os.O_RDWR | (os.O_CREAT if new else 0) | os.O_CLOEXEC, 0o600)
        )  # SQLite gives its WAL the same mode
        database = _connect(path)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "foreign_keys=ON"):
            database.execute(f"PRAGMA {pragma}")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        empty = not database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        if version != SCHEMA_VERSION and not (empty and version == 0):
            database.close()
            raise ConfigurationError(f"{path} was made by another version of ragseal (format {version})")
        database.executescript(SCHEMA)
        database.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        return database
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path} is missing, and with it documents, accounts and the secrets of every window: restore it from a "
            "backup"
        ) from None
    except OSError as error:
        raise ConfigurationError(f"cannot open {path}: {why(error, path)}") from None
    except sqlite3.Error as error:
        raise ConfigurationError(f"cannot open {path}: {why_database(error, path)}") from None
