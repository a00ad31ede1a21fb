# SPDX-License-Identifier: GPL-3.0-or-later
"""The two tables of a PostgreSQL that stands between a provider and its workers, and how both talk to it.

The database sees ciphertexts, which key proves, names of workers, and when.  Whatever it says or hides costs time only.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import quote

import psycopg
from psycopg.conninfo import conninfo_to_dict

from ragseal.kernel.errors import AuditError, ConfigurationError, TransportError

CONNECT_SECONDS = 10
KEEPALIVE = {"keepalives_idle": "10", "keepalives_interval": "5", "keepalives_count": "3"}
FORM = "postgres://USER@HOST/DB"
DROPPED_DAYS = 1  #: for which a dropped worker's name stays

_LOCK = 7_241_530_212  #: of whoever makes the tables: two that make one at once collide
_TABLES = """
CREATE TABLE IF NOT EXISTS ragseal_assignments (
  id bytea PRIMARY KEY, queue text NOT NULL, provider text NOT NULL, key text NOT NULL, body bytea NOT NULL,
  made timestamptz NOT NULL DEFAULT now(),
  worker text, claimed timestamptz, lease timestamptz, claims int NOT NULL DEFAULT 0,
  result bytea, refused text);
CREATE INDEX IF NOT EXISTS ragseal_assignments_in_turn ON ragseal_assignments (queue, made);
CREATE TABLE IF NOT EXISTS ragseal_workers (
  queue text NOT NULL, worker text NOT NULL, seen timestamptz NOT NULL, dropped text, PRIMARY KEY (queue, worker));
"""


def secrets_of(conninfo: str) -> list[str]:
    """What of a connection URI no message may show; ConfigurationError: it is none."""
    try:
        found = conninfo_to_dict(conninfo)
    except psycopg.Error:  # its message quotes the URI
        raise ConfigurationError(f"that is no connection URI of PostgreSQL; the form is {FORM}") from None
    secret = [str(found[name]) for name in ("password", "sslpassword") if found.get(name)]
    return [*secret, *(quote(one, safe="") for one in secret)]


def place_of(conninfo: str) -> str:
    """Where a connection URI leads, without user and password."""
    found = conninfo_to_dict(conninfo)
    return f"postgres://{found.get('host', '')}/{found.get('dbname', '')}"


class Rows:
    """A connection to the tables, made when it is needed and anew after a failure.  Any thread, one at a time."""

    def __init__(self, conninfo: str) -> None:
        """Raises ConfigurationError: no connection URI.  Connects to nothing yet."""
        self._secrets, self._conninfo = secrets_of(conninfo), conninfo
        self.place = place_of(conninfo)
        self._mutex = threading.Lock()
        self._db: psycopg.Connection[Any] | None = None

    def run(self, query: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
        """The rows that a statement gives, in a transaction of its own; binary.

        Raises:
            TransportError: the database is not there, or not now.
            ConfigurationError: it refuses.
        """
        with self._mutex, self._errors():
            if self._db is None or self._db.closed:
                self._db = self._connected()
            found = self._db.execute(query, values, binary=True)
            return found.fetchall() if found.description is not None else []

    def _connected(self) -> psycopg.Connection[Any]:
        db = psycopg.connect(
            self._conninfo,
            autocommit=True,
            connect_timeout=CONNECT_SECONDS,
            application_name="ragseal",
            **KEEPALIVE,  # type: ignore[arg-type]
        )
        try:
            if db.execute("SELECT to_regclass('ragseal_workers')").fetchone() == (None,):
                with db.transaction():
                    db.execute("SELECT pg_advisory_xact_lock(%s)", (_LOCK,))
                    db.execute(_TABLES)
        except BaseException:
            db.close()
            raise
        return db

    def close(self) -> None:
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
            if self._db is not None and self._db.broken:
                self._db.close()
            state = error.sqlstate
            kind: type[AuditError] = TransportError if state is None or state[:2] in _PASSING else ConfigurationError
            raise kind(f"the database of proofs at {self.place}: {said}") from None


#: Answers of a server that mean "not now" and not "never"; a lost connection has none.
_PASSING = frozenset({"08", "53", "57", "40"})
