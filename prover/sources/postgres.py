# SPDX-License-Identifier: GPL-3.0-or-later
"""PostgreSQL, with vectors of pgvector: one snapshot of a table, and what changed since by an outbox.

    postgres:postgresql://reader@db.example/app?table=chunks&id=id&text=body&vector=embedding&metadata=source,title

A snapshot is one REPEATABLE READ, READ ONLY transaction with a cursor on the server's side.  It takes SELECT on the
table (or view).  Identifiers are quoted by the driver; ``where`` is SQL of the operator's own and goes in as it is.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, cast

import numpy as np
import psycopg
from psycopg import sql
from psycopg.rows import dict_row

from ragseal.kernel.errors import ConfigurationError, EncodingError, TransportError
from ragseal.kernel.slot_text import MAX_VALUE
from ragseal.prover.base.postgres_uri import secrets_of
from ragseal.prover.commitment.corpora import DEFAULT_LIMITS
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.commitment.documents import Delete
from ragseal.prover.sources.interface import Item, Refused
from ragseal.prover.sources.postgres_outbox import Outbox, Position
from ragseal.prover.sources.reading import refused, take_row
from ragseal.prover.sources.spec import Columns, columns_of, need, split

FORM = (
    "postgres:postgresql://USER@HOST/DB?table=TABLE&id=COLUMN&text=COLUMN&vector=COLUMN&metadata=COLUMN,...&where=SQL"
)
_OPTIONS = ("table", "id", "text", "title", "vector", "metadata", "where")

FETCH = 256  #: rows between two round trips: with texts at their limit a quarter of a GiB
CONNECT_SECONDS = 10
KEEPALIVE = {"keepalives_idle": "30", "keepalives_interval": "10", "keepalives_count": "3"}  #: a dead peer is noticed

#: Answers of a server that mean "not now" and not "never"; a lost connection has none.
_PASSING = ("08", "53", "57", "40")


def open_at(location: str, vectors: bool, notes: Notes) -> PostgresSource:
    """As :func:`ragseal.prover.sources.opening.open_source`; connects."""
    place, options, rest = _take_options(location)
    conninfo = place + ("?" + rest if rest else "")
    columns = columns_of(options, vectors, Columns(), "embedding")
    return PostgresSource(conninfo, need("table", options, FORM), columns, options.get("where"), notes)


def _take_options(location: str) -> tuple[str, dict[str, str], str]:
    """Connection URI, our options, and the options that are the server's (sslmode and the like)."""
    place, _, query = location.partition("?")
    pairs = query.split("&") if query else []
    ours = [pair for pair in pairs if pair.partition("=")[0] in _OPTIONS]
    _, options = split("-?" + "&".join(ours) if ours else "-", _OPTIONS, FORM)
    if place and not place.startswith(("postgresql://", "postgres://")):
        raise ConfigurationError(f"a PostgreSQL source names its database as a URI; the form is {FORM}")
    return place or "postgresql://", options, "&".join(pair for pair in pairs if pair not in ours)


class PostgresSource:
    """A table or view of PostgreSQL.

    Args:
        conninfo: a connection URI; what it leaves out comes from the environment (PGPASSWORD, PGPASSFILE and so on).
        table: its name, with its schema before a dot where it needs one.
        columns: which are read; the vector is of type vector, halfvec or an array of numbers.
        where: a condition in SQL, the operator's own.
        notes: told which columns are not kept, and which are kept in the server's spelling.

    Raises:
        ConfigurationError: the server refuses: no such table or column, no right.
        TransportError: no connection.
    """

    def __init__(
        self, conninfo: str, table: str, columns: Columns, where: str | None = None, notes: Notes | None = None
    ) -> None:
        self._secrets = secrets_of(conninfo, FORM)
        self._columns, self._notes = columns, Notes() if notes is None else notes
        self._table = sql.Identifier(*table.split("."))
        self._where = where
        with self._errors():
            self._db = psycopg.connect(
                conninfo,
                autocommit=True,
                row_factory=dict_row,
                connect_timeout=CONNECT_SECONDS,
                application_name="ragseal",
                **KEEPALIVE,  # type: ignore[arg-type]
            )
        try:
            info = self._db.info
            condition = "" if where is None else f"&where={where}"
            self._identity = f"postgres:{info.host}:{info.port}/{info.dbname}?table={table}&{columns.told()}{condition}"
            with self._errors():
                self._outbox = Outbox(self._db, table, columns.id)
                missing = [name for name in columns.names() if name not in self._outbox.types()]
                if missing:
                    raise ConfigurationError(f"table {table!r} has no column {missing[0]!r}")
                self._select = self._selected()
                self._rest = [name for name in self._outbox.types() if name not in columns.names()]
        except BaseException:
            self._db.close()
            raise

    def identity(self) -> str:
        return self._identity

    def snapshot(self) -> tuple[Iterator[Item | Refused], str]:
        self._notes.begin(self._columns.metadata)
        with self._errors():
            self._begin()
            try:
                mark = self._outbox.position().encode() if self._outbox.there() else ""
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
        rows = cast(Iterator[Item | Refused], self._read(self._select))  # without deletions in front
        return rows, mark

    def ready(self) -> None:
        with self._errors():
            self._outbox.require()

    def changes(self, mark: str) -> tuple[Iterator[Item | Refused | Delete], str]:
        since = Position.decode(mark)
        with self._errors():
            self._begin()
            try:
                until, names = self._outbox.since(since)
            except BaseException:
                self._db.execute("ROLLBACK")
                raise
        if not names:
            with self._errors():
                self._db.execute("ROLLBACK")
            return iter(()), mark if until.near(since) else until.encode()
        return self._as_they_are(names), until.encode()

    def wait(self, seconds: float, stop: threading.Event) -> None:
        with self._errors():
            self._outbox.wait(seconds, stop)

    def install_trigger(self) -> None:
        """Make the outbox and the triggers that fill it; what is there already is replaced, its entries stay.

        Takes TRIGGER on the table and CREATE on its schema.
        """
        with self._errors():
            self._outbox.install()

    def close(self) -> None:
        self._db.close()

    # --- reading ---

    def _begin(self) -> None:
        self._db.execute("BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY")
        self._db.execute("SET LOCAL TIME ZONE 'UTC'")  # or a role's setting would be in the text of a time

    def _selected(self) -> sql.Composed:
        """The query, with every long value cut behind its limit by the server: a refused row is not carried here."""
        columns, limits = self._columns, DEFAULT_LIMITS
        parts = [
            _cut(columns.id, limits.id_characters, "id"),
            _cut(columns.text, limits.text_characters, "text"),
        ]
        if columns.title is not None:
            parts.append(_cut(columns.title, limits.text_characters, "title"))
        if columns.vector is not None:
            parts.append(sql.SQL("{} AS vector").format(sql.Identifier(columns.vector)))
        kinds = self._outbox.types()
        for at, name in enumerate(columns.metadata):
            alias, kind = f"m{at}", _bare(kinds[name])
            if kind in _PLAIN:
                parts.append(sql.SQL("{} AS {}").format(sql.Identifier(name), sql.Identifier(alias)))
            elif kind in _DATES:
                iso = sql.SQL("to_json({}) #>> '{{}}' AS {}")  # ISO 8601, whatever the session's DateStyle
                parts.append(iso.format(sql.Identifier(name), sql.Identifier(alias)))
            else:
                parts.append(_cut(name, MAX_VALUE, alias))
                if kind not in _TEXTS and kind != _DECIMAL:
                    self._notes.as_written(name, kinds[name])
        return self._from(sql.SQL(", ").join(parts))

    def _from(self, columns: sql.Composed) -> sql.Composed:
        # the operator's own SQL, from the command line: it may do what its role may do
        condition = sql.SQL(self._where) if self._where is not None else sql.SQL("TRUE")
        # the line break ends a comment that the condition may end in
        return sql.SQL("SELECT {} FROM {} WHERE ({}\n)").format(columns, self._table, condition)

    def _read(self, query: sql.Composed, rest: Callable[[], Iterator[Delete]] = lambda: iter(())) -> _Rows:
        """Rows of a query inside the transaction that was begun, behind ``rest``; it ends with them."""
        own = self._columns
        kind = "" if own.vector is None else self._outbox.types()[own.vector].partition("(")[0].rpartition(".")[2]
        try:
            with self._errors():
                yield from rest()
            with self._errors(), self._db.cursor("ragseal") as cursor:
                cursor.itersize = FETCH
                cursor.execute(query, binary=True)
                for number, row in enumerate(cursor, 1):
                    where = f"row {number} of table {self._table.as_string(None)}"
                    yield self._taken(row, kind, where)
        finally:
            if not self._db.closed and not self._db.broken:
                with self._errors():
                    self._db.execute("ROLLBACK")

    def _taken(self, found: dict[str, Any], kind: str, where: str) -> Item | Refused:
        """A row of the query by the table's own names, which errors use."""
        own = self._columns
        row = {name: found[f"m{at}"] for at, name in enumerate(own.metadata)}
        if own.title is not None:
            row[own.title] = found["title"]
        row |= {own.text: found["text"], own.id: found["id"]}
        vector = None
        try:
            for name in own.metadata:
                if row[name] is not None and _bare(self._outbox.types()[name]) == _DECIMAL:
                    row[name] = _decimal(row[name], name, where)
            if own.vector is not None:
                vector = _vector_of(found["vector"], kind, where)
        except EncodingError as error:
            return refused(row, own, error)
        return take_row(row, own, where, self._notes, vector=vector, also=self._rest)

    def _as_they_are(self, names: list[str]) -> _Rows:
        """The rows of these ids now, behind the deletions: ids without a row that is meant."""
        kind = self._outbox.types()[self._columns.id]
        chosen = sql.SQL(" AND {} = ANY (CAST({} AS text[])::{}[])").format(
            sql.Identifier(self._columns.id), sql.Literal(names), sql.SQL(kind)
        )

        def gone() -> Iterator[Delete]:
            id_text = _cut(self._columns.id, DEFAULT_LIMITS.id_characters, "id")
            there = self._db.execute(self._from(id_text) + chosen).fetchall()
            yield from map(Delete, sorted(set(names) - {row["id"] for row in there}))

        return self._read(self._select + chosen, gone)

    @contextmanager
    def _errors(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            said = self._without_secrets(" ".join(str(error).split())[:300])
            state = error.sqlstate
            if state is None and isinstance(error, psycopg.DataError):  # of a value: the next try ends the same
                raise EncodingError(f"PostgreSQL: a value cannot be read: {said}") from None
            if state is None or state.startswith(_PASSING):
                raise TransportError(f"PostgreSQL: {said or type(error).__name__}") from None
            raise ConfigurationError(f"PostgreSQL refuses ({state}): {said}") from None

    def _without_secrets(self, text: str) -> str:
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return text


_Rows = Iterator[Item | Refused | Delete]

#: Types of a metadata column that arrive as they are, as ISO 8601, as numbers and as texts; of any other the server's
#: own text is kept, and noted.
_PLAIN = frozenset({"boolean", "smallint", "integer", "bigint", "real", "double precision"})
_DATES = frozenset({"date", "timestamp without time zone", "timestamp with time zone"})
_DECIMAL = "numeric"
_TEXTS = frozenset({"text", "character varying", "character", "name", "citext", "uuid", '"char"'})

#: How pgvector sends its types: two 16-bit numbers, the first of them the dimension, then the entries, all big-endian.
_ENTRIES = {"vector": ">f4", "halfvec": ">f2"}
_HEADER_BYTES = 4


def _bare(kind: str) -> str:
    """A type without its lengths."""
    return re.sub(r"\([^)]*\)", "", kind)


def _decimal(text: str, name: str, where: str) -> Decimal:
    """A numeric value, which is exact.  EncodingError: cut, since it is longer than any number that is kept."""
    if len(text) > MAX_VALUE:
        raise EncodingError(f"{where}: metadata {name!r} has more than {MAX_VALUE} digits")
    return Decimal(text)


def _cut(name: str, limit: int, alias: str) -> sql.Composed:
    """A column as text, one character beyond its limit at most."""
    return sql.SQL("left({}::text, {}) AS {}").format(
        sql.Identifier(name), sql.Literal(limit + 1), sql.Identifier(alias)
    )


def _vector_of(value: Any, kind: str, where: str) -> Any:
    """A vector's entries, from pgvector's binary form or an array; EncodingError: of another type."""
    form = _ENTRIES.get(kind)
    if form is None or value is None:
        return value
    if not isinstance(value, bytes) or len(value) < _HEADER_BYTES:
        raise EncodingError(f"{where}: its vector is not in pgvector's form")
    entries = np.frombuffer(value[_HEADER_BYTES:], dtype=form)
    if len(entries) != int.from_bytes(value[:2], "big"):
        raise EncodingError(f"{where}: its vector is not in pgvector's form")
    return entries.astype(np.float32)
