# SPDX-License-Identifier: GPL-3.0-or-later
"""The two tables of a PostgreSQL that stands between a provider and its workers, and how both talk to it.

The database sees ciphertexts, which key proves, names of workers, and when.  Whatever it says or hides costs time only.
"""

from __future__ import annotations

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ragseal.kernel.errors import AuditError, ConfigurationError, TransportError
from ragseal.kernel.printable import printable
from ragseal.prover.base.postgres_uri import secrets_of

CONNECT_SECONDS = 10
DEADLINE = 30.0  #: seconds for one statement; keepalives say nothing of a server that stands still or waits for a lock
KEEPALIVE = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3"}
FORM = "postgres://USER@HOST/DB"
DROPPED_DAYS = 1  #: for which a dropped worker's name stays

_LOCK = 7_241_530_212  #: of whoever makes the tables: two that make one at once collide
#: Assignments may be lost at any time, and are made again: unlogged, their ciphertexts are in no write-ahead log.  They
#: do not compress.
_TABLES = """
CREATE UNLOGGED TABLE IF NOT EXISTS ragseal_assignments (
  id bytea PRIMARY KEY, queue text NOT NULL, provider text NOT NULL, key text NOT NULL, body bytea NOT NULL,
  made timestamptz NOT NULL DEFAULT now(),
  worker text, claimed timestamptz, lease timestamptz, claims int NOT NULL DEFAULT 0,
  result bytea, refused text);
ALTER TABLE ragseal_assignments ALTER body SET STORAGE EXTERNAL;
CREATE INDEX IF NOT EXISTS ragseal_assignments_in_turn ON ragseal_assignments (queue, made);
CREATE TABLE IF NOT EXISTS ragseal_workers (
  queue text NOT NULL, worker text NOT NULL, seen timestamptz NOT NULL, dropped text, PRIMARY KEY (queue, worker));
"""


def text_of(value: object, most: int) -> str:
    """A value of a row as logs and people get it: a database, or who writes into it, may put in what it likes."""
    return printable(value[:most]) if isinstance(value, str) else ""


def bytes_of(value: object) -> bytes:
    """A value that should be bytes; empty where it is not: bytes(5000000000) would be as many."""
    return value if isinstance(value, bytes) else b""


def place_of(conninfo: str) -> str:
    """Where a connection URI leads, without user and password."""
    found = conninfo_to_dict(conninfo)
    return f"postgres://{found.get('host', '')}/{found.get('dbname', '')}"


class Rows:
    """A connection to the tables, made when it is needed and anew after a failure.  Any thread, one at a time."""

    def __init__(self, conninfo: str) -> None:
        """Raises ConfigurationError: no connection URI.  Connects to nothing yet."""
        self._secrets, self._conninfo = secrets_of(conninfo, FORM), conninfo
        self.place = place_of(conninfo)
        self._mutex = threading.Lock()
        self._db: psycopg.Connection[Any] | None = None
        self._cut = False  #: whether a deadline cut what is under way

    def run(self, query: str, values: tuple[Any, ...] = (), deadline: float | None = None) -> list[tuple[Any, ...]]:
        """The rows that a statement gives, in a transaction of its own; binary.

        Args:
            deadline: seconds that it may take, and as many to wait for another thread's; None: DEADLINE.

        Raises:
            TransportError: the database is not there, does not answer, or not now.
            ConfigurationError: it refuses.
        """
        seconds = DEADLINE if deadline is None else deadline
        with self._turn(seconds), self._errors():
            if self._db is None or self._db.closed:
                self._db = self._connected(seconds)
            with self._within(self._db, seconds):
                found = self._db.execute(query, values, binary=True)
                return found.fetchall() if found.description is not None else []

    @contextmanager
    def _turn(self, seconds: float) -> Iterator[None]:
        if not self._mutex.acquire(timeout=seconds):
            raise TransportError(f"the database of proofs at {self.place} does not answer")
        try:
            yield
        finally:
            self._mutex.release()

    @contextmanager
    def _within(self, db: psycopg.Connection[Any], seconds: float) -> Iterator[None]:
        """Ends the connection, and so whoever waits for it, after a time: a server need not answer ever."""
        with socket.socket(fileno=os.dup(db.fileno())) as its:
            timer = threading.Timer(seconds, self._end, [its])
            timer.daemon = True
            timer.start()
            try:
                yield
            finally:
                timer.cancel()
                timer.join()

    def _end(self, its: socket.socket) -> None:
        self._cut = True
        with suppress(OSError):  # it ended meanwhile
            its.shutdown(socket.SHUT_RDWR)

    def _connected(self, seconds: float) -> psycopg.Connection[Any]:
        db = psycopg.connect(
            self._conninfo,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            application_name="ragseal",
            **KEEPALIVE,  # type: ignore[arg-type]
        )
        try:
            with self._within(db, seconds):
                db.execute(f"SET statement_timeout = {int(2000 * DEADLINE)}")  # of whom nobody listens to any more
                if db.execute("SELECT to_regclass('ragseal_workers')").fetchone() == (None,):
                    with db.transaction():
                        db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                        db.execute(_TABLES)
        except BaseException:
            db.close()
            raise
        return db

    def close(self) -> None:
        """Ends what another thread has under way as well."""
        db = self._db
        if db is not None and self._mutex.locked():
            with suppress(OSError, psycopg.Error), socket.socket(fileno=os.dup(db.fileno())) as its:
                its.shutdown(socket.SHUT_RDWR)
        with suppress(TransportError), self._turn(CONNECT_SECONDS):
            if self._db is not None:
                self._db.close()
                self._db = None

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            said = " ".join(str(error).split())[:300]
            for secret in self._secrets:
                said = said.replace(secret, "***")
            said = said or type(error).__name__
            if self._cut:
                self._cut, said = False, "it accepts connections and does not answer"
            if self._db is not None and self._db.broken:
                self._db.close()
            said, state = printable(said), error.sqlstate
            kind: type[AuditError] = TransportError if state is None or state[:2] in _PASSING else ConfigurationError
            raise kind(f"the database of proofs at {self.place}: {said}") from None


#: Answers of a server that mean "not now" and not "never"; a lost connection has none.
_PASSING = frozenset({"08", "53", "57", "40"})
