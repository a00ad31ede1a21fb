# SPDX-License-Identifier: GPL-3.0-or-later
"""What changed in a table of PostgreSQL: triggers note ids in an outbox, and NOTIFY wakes whoever follows.

The outbox holds ids and the number of the transaction that touched them, no content: what an id's row is, the follower
reads itself.  It reads entries of transactions below its snapshot's xmin only.  All of those have ended, so none can
appear later below a mark; serial numbers, which are drawn before a commit, would skip rows.
"""

from __future__ import annotations

import hashlib
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

import psycopg
from psycopg import sql

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.sources.interface import StaleMark

KEPT_DAYS = 7  #: how long the outbox keeps an entry; who was away for longer reads everything
BATCH = 1000  #: ids at a time, and as many more as the last transaction has
MARK_SECONDS = 3600  #: a mark that nothing happened after is renewed once it is so old
_CLEARED_EVERY = 3600.0  #: seconds between two clearings of the outbox

_NOTE = """
BEGIN
  IF TG_OP = 'TRUNCATE' THEN
    INSERT INTO {outbox} (id) VALUES (NULL);
  ELSE
    IF TG_OP <> 'INSERT' THEN
      INSERT INTO {outbox} (id) VALUES (OLD.{id}::text);
    END IF;
    IF TG_OP <> 'DELETE' THEN
      INSERT INTO {outbox} (id) VALUES (NEW.{id}::text);
    END IF;
  END IF;
  PERFORM pg_catalog.pg_notify({channel}, '');
  RETURN NULL;
END
"""


@dataclass(frozen=True, slots=True)
class Position:
    """A moment of the outbox: every transaction below ``next`` has ended."""

    outbox: int  #: the outbox table's oid: one that was made anew forgot what the old one knew
    next: int
    at: int  #: the server's clock, seconds since 1970

    def encode(self) -> str:
        return f"{self.outbox}:{self.next}:{self.at}"

    @classmethod
    def decode(cls, mark: str) -> Position:
        """Raises StaleMark: the snapshot was read when there was no outbox yet."""
        parts = mark.split(":")
        if len(parts) != 3 or not all(part.isascii() and part.isdigit() for part in parts):
            raise StaleMark("the newest snapshot was read before there was an outbox")
        return cls(*map(int, parts))

    def near(self, other: Position) -> bool:
        return self.outbox == other.outbox and self.at - other.at < MARK_SECONDS


class Outbox:
    """The outbox of one table and id column, over a connection in autocommit mode."""

    def __init__(self, db: psycopg.Connection[dict[str, Any]], table: str, id_column: str) -> None:
        """Raises ConfigurationError: no such table or column, as far as this role may see."""
        self._db = db
        self._id = id_column
        self._quoted = sql.Identifier(*table.split(".")).as_string(db)
        found = self._row(
            "SELECT n.nspname AS schema, c.relname AS name FROM pg_class c JOIN pg_namespace n "
            "ON n.oid = c.relnamespace WHERE c.oid = to_regclass(%s)",
            self._quoted,
        )
        if found is None:
            raise ConfigurationError(
                f"PostgreSQL shows this role no table {table!r}; name its schema, too, or grant USAGE"
            )
        self._table = sql.Identifier(found["schema"], found["name"])
        digest = hashlib.sha256("\0".join((found["schema"], found["name"], id_column)).encode()).hexdigest()
        self._name = f"ragseal_{digest[:16]}"
        self._outbox = sql.Identifier(found["schema"], self._name)
        self._types: dict[str, str] = {}
        if id_column not in self.types():
            raise ConfigurationError(f"table {table!r} has no column {id_column!r} for ids")
        self._listening = False
        self._cleared = float("-inf")

    def types(self) -> dict[str, str]:
        """The table's columns and their types, as SQL names them."""
        if not self._types:
            rows = self._db.execute(
                "SELECT attname AS name, format_type(atttypid, atttypmod) AS kind FROM pg_attribute "
                "WHERE attrelid = to_regclass(%s) AND attnum > 0 AND NOT attisdropped",
                [self._quoted],
            ).fetchall()
            self._types = {row["name"]: row["kind"] for row in rows}
        return self._types

    def there(self) -> bool:
        found = self._row("SELECT to_regclass(%s) IS NOT NULL AS there", self._outbox.as_string(self._db))
        return found is not None and bool(found["there"])

    def require(self) -> None:
        """Listen, so that nothing after this goes unnoticed.  ConfigurationError: there is no outbox."""
        if not self.there():
            raise ConfigurationError(
                "the table has no outbox to follow: `documents sync --install-trigger` makes one, with a role that has "
                "TRIGGER on the table and CREATE on its schema; or sync without --follow as often as needed"
            )
        if not self._listening:
            self._db.execute(sql.SQL("LISTEN {}").format(sql.Identifier(self._name)))
            self._listening = True

    def position(self) -> Position:
        """That of the running transaction's snapshot."""
        found = self._row(
            "SELECT to_regclass(%s)::oid::bigint AS outbox, pg_snapshot_xmin(pg_current_snapshot())::text::bigint "
            "AS next, extract(epoch FROM now())::bigint AS at",
            self._outbox.as_string(self._db),
        )
        assert found is not None  # a SELECT without FROM
        return Position(found["outbox"] or 0, found["next"], found["at"])

    def since(self, since: Position) -> tuple[Position, list[str]]:
        """Where the running snapshot stands, and the ids that were touched between; fewer, and so far, if many were.

        Raises:
            StaleMark: another outbox or server, entries that were cleared, or the table was emptied.
        """
        now = self.position()
        if now.outbox != since.outbox or now.next < since.next:
            raise StaleMark("the mark is of another outbox or server")
        if now.at - since.at > (KEPT_DAYS - 1) * 86400:
            raise StaleMark(f"the mark is older than what the outbox keeps, {KEPT_DAYS} days")
        between = sql.SQL("FROM {} WHERE txid >= {} AND txid < {}")
        some = between.format(self._outbox, sql.Literal(since.next), sql.Literal(now.next))
        first = self._one(sql.SQL("SELECT min(txid) AS txid {}").format(some))
        behind = self._one(sql.SQL("SELECT txid {} ORDER BY txid OFFSET {} LIMIT 1").format(some, sql.Literal(BATCH)))
        if first is not None and behind is not None:
            now = replace(now, next=max(behind, first + 1))  # whole transactions, one at least
        until = between.format(self._outbox, sql.Literal(since.next), sql.Literal(now.next))
        rows = self._db.execute(sql.SQL("SELECT DISTINCT id {}").format(until)).fetchall()
        if any(row["id"] is None for row in rows):
            raise StaleMark("the table was emptied")
        return now, [row["id"] for row in rows]

    def wait(self, seconds: float, stop: threading.Event) -> None:
        """Until a change is told or ``seconds`` are over; shortly only, while a transaction with changes is running."""
        self._clear()
        ends = time.monotonic() + seconds
        query = "SELECT 1 AS txid FROM {} WHERE txid >= pg_snapshot_xmin(pg_current_snapshot())::text::bigint LIMIT 1"
        if self._one(sql.SQL(query).format(self._outbox)) is not None:
            ends = min(ends, time.monotonic() + 1.0)
        while not stop.is_set() and (left := ends - time.monotonic()) > 0:
            if any(True for _ in self._db.notifies(timeout=min(left, 0.5), stop_after=1)):
                return

    def install(self) -> None:
        """Make table, function and triggers in one transaction.  ConfigurationError: the outbox's name is taken."""
        with self._db.transaction():
            owner = self._row(
                "SELECT pg_get_userbyid(relowner) = current_user AS own FROM pg_class WHERE oid = to_regclass(%s)",
                self._outbox.as_string(self._db),
            )
            if owner is None:
                self._db.execute(
                    sql.SQL(
                        "CREATE TABLE {} (id text, txid bigint NOT NULL DEFAULT pg_current_xact_id()::text::bigint, "
                        "at timestamptz NOT NULL DEFAULT now())"
                    ).format(self._outbox)
                )
                self._db.execute(sql.SQL("CREATE INDEX ON {} (txid)").format(self._outbox))
            elif not owner["own"]:  # its triggers would run with this role's rights
                raise self._not_own("table")
            function = self._row(
                "SELECT pg_get_userbyid(proowner) = current_user AS own FROM pg_proc WHERE oid = to_regprocedure(%s)",
                f"{self._outbox.as_string(self._db)}()",
            )
            if function is not None and not function["own"]:  # who owns it changes what every writer to the table runs
                raise self._not_own("function")
            # run by whoever writes to the table, so with the rights of who installs it, and names that none can shadow
            body = sql.SQL(_NOTE).format(
                outbox=self._outbox, id=sql.Identifier(self._id), channel=sql.Literal(self._name)
            )
            self._db.execute(
                sql.SQL(
                    "CREATE OR REPLACE FUNCTION {}() RETURNS trigger LANGUAGE plpgsql SECURITY DEFINER "
                    "SET search_path = pg_catalog, pg_temp AS {}"
                ).format(self._outbox, sql.Literal(body.as_string(self._db)))
            )
            # or any role's own table could fill the outbox, and empty it with a TRUNCATE; triggers do not ask for it
            self._db.execute(sql.SQL("REVOKE ALL ON FUNCTION {}() FROM PUBLIC").format(self._outbox))
            for name, event, each in (
                (self._name, "INSERT OR UPDATE OR DELETE", "ROW"),
                (f"{self._name}_all", "TRUNCATE", "STATEMENT"),
            ):
                self._db.execute(sql.SQL("DROP TRIGGER IF EXISTS {} ON {}").format(sql.Identifier(name), self._table))
                self._db.execute(
                    sql.SQL("CREATE TRIGGER {} AFTER {} ON {} FOR EACH {} EXECUTE FUNCTION {}()").format(
                        sql.Identifier(name), sql.SQL(event), self._table, sql.SQL(each), self._outbox
                    )
                )

    def _not_own(self, what: str) -> ConfigurationError:
        return ConfigurationError(
            f"the {what} {self._name} is another role's: it is not used; drop it, or install as that role"
        )

    def _clear(self) -> None:
        """Forget old entries, where this role may; whoever installed the outbox may do it otherwise."""
        if time.monotonic() - self._cleared < _CLEARED_EVERY:
            return
        self._cleared = time.monotonic()
        query = sql.SQL("DELETE FROM {} WHERE at < now() - make_interval(days => {})")
        with suppress(psycopg.errors.InsufficientPrivilege):
            self._db.execute(query.format(self._outbox, sql.Literal(KEPT_DAYS)))

    def _row(self, query: str, *values: str) -> dict[str, Any] | None:
        return self._db.execute(query, list(values)).fetchone()

    def _one(self, query: sql.Composed) -> int | None:
        found = self._db.execute(query).fetchone()
        return None if found is None else found["txid"]
