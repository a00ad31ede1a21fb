# SPDX-License-Identifier: GPL-3.0-or-later
"""What the slots of a window's versions hold: kept once for as long as it stays as it is.  SPEC A.12.13.

A row of ``version_texts`` is one slot's document with its quantised vector, from version ``number`` on and before
version ``until`` (of rows that still hold there is none).  So a version takes what changed, not the whole index once
more: accounts, each question of whom keeps a version until its window is retired, cannot fill the disk with copies.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import AuditError, CommitmentError
from ragseal.kernel.slot_text import Metadata, SlotText
from ragseal.prover.storage.state import State

Matrix = npt.NDArray[np.int8]
_Row = tuple[str, str, bytes, bytes]  #: id, text, metadata, vector

PART = 4096  #: rows that are in memory at a time
OVERHEAD = 300  #: bytes of memory that a slot's text takes beside its characters
TEXT = "document, text, metadata"  #: columns of what can be read
_VERSION = "version_texts", "manifest = ?1 AND tenant = ?2 AND number <= ?3 AND (until IS NULL OR until > ?3)"
_DOCUMENTS = "documents", "tenant = ?1"


class Readable(Protocol):
    """What rows are read from: the database as it is whenever it is asked, or a snapshot of it."""

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]: ...

    def row(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None: ...


@dataclass(frozen=True, slots=True)
class Written:
    """What a transaction has written so far, to be read inside it."""

    db: sqlite3.Connection

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        return self.db.execute(query, values).fetchall()

    def row(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        found: tuple[Any, ...] | None = self.db.execute(query, values).fetchone()
        return found


@dataclass(frozen=True, slots=True)
class Slots:
    """The filled slots of an index, as the database has them.  One is made by a function below."""

    source: Readable
    table: str
    condition: str
    values: tuple[bytes | str | int, ...]  #: of its parameters

    def each(self, columns: str) -> Iterator[tuple[Any, ...]]:
        """The slot and these columns of every one, in order; a part at a time is in memory."""
        query, last = f"SELECT slot, {columns} {self._own} AND slot > {self._slot} ORDER BY slot LIMIT {PART}", -1
        while part := self.source.rows(query, (*self.values, last)):
            yield from part
            last = part[-1][0]

    def one(self, slot: int) -> SlotText | None:
        """What can be read of a slot; None: nothing is in it.  Raises CommitmentError as :func:`stored`."""
        found = self.source.row(f"SELECT {TEXT} {self._own} AND slot = {self._slot}", (*self.values, slot))
        return None if found is None else stored(*found)

    def size(self) -> int:
        """Bytes of memory that it takes to hold what can be read."""
        found = self.source.row(f"SELECT TOTAL(LENGTH(text) + LENGTH(metadata) + {OVERHEAD}) {self._own}", self.values)
        return int(found[0]) if found else 0

    def longest(self, count: int) -> list[tuple[str, int]]:
        """Id and bytes of what can be read (id, text and metadata) of the longest ones, the longest first."""
        length = "LENGTH(CAST(document AS BLOB)) + LENGTH(CAST(text AS BLOB)) + LENGTH(metadata) AS length"
        query = f"SELECT document, {length} {self._own} ORDER BY length DESC, document LIMIT {self._slot}"
        return [(str(name), int(size)) for name, size in self.source.rows(query, (*self.values, count))]

    @property
    def _own(self) -> str:
        return f"FROM {self.table} WHERE {self.condition}"

    @property
    def _slot(self) -> str:
        return f"?{len(self.values) + 1}"


def version_slots(source: Readable, manifest: bytes, tenant: str, number: int) -> Slots:
    """Those of a version of a window's index."""
    return Slots(source, *_VERSION, (manifest, tenant, number))


def document_slots(source: Readable, tenant: str) -> Slots:
    """Those of a tenant's documents now, which the next version will hold."""
    return Slots(source, *_DOCUMENTS, (tenant,))


def store(
    db: sqlite3.Connection, manifest: bytes, tenant: str, number: int, matrix: Matrix,
    contents: Iterable[SlotText | None],
) -> None:  # fmt: skip
    """Write what differs from the version before, in the caller's transaction; a part at a time is in memory.

    Args:
        matrix: (N, d) int8, in force.
        contents: what can be read, of every slot.
    """
    query = "SELECT slot, document, text, metadata, row FROM version_texts WHERE manifest = ? AND tenant = ?"
    query += " AND until IS NULL AND slot >= ? AND slot < ?"
    end = "UPDATE version_texts SET until = ? WHERE manifest = ? AND tenant = ? AND slot = ? AND until IS NULL"
    every = iter(contents)
    for at in range(0, len(matrix), PART):
        held: dict[int, _Row] = {slot: (document, text, bytes(metadata), bytes(row)) for slot, document, text, metadata,
                                 row in db.execute(query, (manifest, tenant, at, at + PART))}  # fmt: skip
        made: dict[int, _Row] = {slot: (one.id, one.text, one.metadata.encode(), matrix[slot].tobytes())
                                 for slot, one in enumerate(islice(every, PART), at) if one is not None}  # fmt: skip
        ended = [(number, manifest, tenant, slot) for slot, what in held.items() if made.get(slot) != what]
        begun = [(manifest, number, tenant, slot, *what) for slot, what in made.items() if held.get(slot) != what]
        db.executemany(end, ended)
        db.executemany("INSERT INTO version_texts VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)", begun)


def withdraw(db: sqlite3.Connection, manifest: bytes, number: int) -> None:
    """As if version ``number`` had never been stored; nothing newer may be there.  In the caller's transaction."""
    db.execute("DELETE FROM version_texts WHERE manifest = ? AND number >= ?", (manifest, number))
    db.execute("UPDATE version_texts SET until = NULL WHERE manifest = ? AND until >= ?", (manifest, number))


def load_matrix(slots: Slots, shape: tuple[int, int]) -> Matrix:
    """The matrix of a version, empty slots zero.

    Raises:
        CommitmentError: a slot or a vector does not fit.
    """
    matrix = np.zeros(shape, dtype=np.int8)
    for slot, row in slots.each("row"):
        if not 0 <= slot < shape[0] or len(row) != shape[1]:
            raise CommitmentError(
                f"the stored vector of slot {slot} does not fit an index of {shape}: restore a backup"
            )
        matrix[slot] = np.frombuffer(row, dtype=np.int8)
    return matrix


def stored(document: str, text: str, metadata: bytes) -> SlotText:
    """A slot's text from its columns.  Raises CommitmentError: metadata that is none."""
    try:
        return SlotText(document, text, Metadata.decode(metadata))
    except AuditError as error:
        what = f"the stored metadata of document {document[:80]!r} is damaged"
        raise CommitmentError(f"{what} ({error}): restore state.db from a backup") from None


def unused(db: sqlite3.Connection, manifest: bytes) -> list[int]:
    """Rows (by rowid) of which no version is left that has its secrets: nobody needs them any more."""
    alive: dict[str, list[int]] = {}
    kept = "SELECT tenant, number FROM versions WHERE manifest = ? AND secret <> x'' ORDER BY number"
    for tenant, number in db.execute(kept, (manifest,)):
        alive.setdefault(tenant, []).append(number)
    found = []
    query = "SELECT rowid, tenant, number, until FROM version_texts WHERE manifest = ?"
    for rowid, tenant, number, until in db.execute(query, (manifest,)):
        numbers = alive.get(tenant, [])
        at = bisect_left(numbers, number)
        if at == len(numbers) or (until is not None and numbers[at] >= until):
            found.append(rowid)
    return found


def drop_unused(db: sqlite3.Connection, manifest: bytes) -> None:
    """Delete these rows, in the caller's transaction."""
    db.executemany("DELETE FROM version_texts WHERE rowid = ?", [(one,) for one in unused(db, manifest)])


def left_of(state: State, manifest: bytes, number: int) -> int:
    """How many rows a version has that no other one needs, where its own secrets are gone: there should be none."""
    query = (
        "SELECT COUNT(*) FROM version_texts t WHERE manifest = ?1 AND number <= ?2 AND (until IS NULL OR until > ?2) "
        "AND NOT EXISTS (SELECT 1 FROM versions v WHERE v.manifest = ?1 AND v.tenant = t.tenant AND v.secret <> x'' "
        "AND v.number >= t.number AND (t.until IS NULL OR v.number < t.until))"
    )
    found = state.row(query, (manifest, number))
    return int(found[0]) if found else 0
