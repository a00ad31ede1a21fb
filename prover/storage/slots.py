# SPDX-License-Identifier: GPL-3.0-or-later
"""What the slots of a window's versions hold: kept once for as long as it stays as it is.  SPEC A.12.13.

A row of ``version_texts`` is one slot's document with its quantised vector, from version ``number`` on and before
version ``until`` (of rows that still hold there is none).  So a version takes what changed, not the whole index once
more: accounts, each question of whom keeps a version until its window is retired, cannot fill the disk with copies.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import ItemsView, Iterator, Mapping, ValuesView
from dataclasses import dataclass
from itertools import repeat
from typing import Any

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import AuditError, CommitmentError
from ragseal.kernel.slot_text import Metadata, SlotText
from ragseal.prover.storage.state import State

Matrix = npt.NDArray[np.int8]
_Row = tuple[str, str, bytes, bytes]  #: id, text, metadata, vector

PART = 4096  #: rows that are read at a time
OVERHEAD = 300  #: bytes of memory that a slot's text takes beside its characters
IN_MEMORY = 1 << 26  #: bytes of texts of a version that are held in memory, so that answers do not look them up
_TEXT = "document, text, metadata"
_LIVES = "manifest = ?1 AND tenant = ?2 AND number <= ?3 AND (until IS NULL OR until > ?3)"


def store(
    db: sqlite3.Connection, manifest: bytes, tenant: str, number: int, matrix: Matrix, texts: Mapping[int, SlotText]
) -> None:
    """Write what differs from the version before, in the caller's transaction.  ``matrix``: (N, d) int8, in force."""
    query = "SELECT slot, document, text, metadata, row FROM version_texts WHERE manifest = ? AND tenant = ?"
    held: dict[int, _Row] = {slot: (document, text, bytes(metadata), bytes(row)) for slot, document, text, metadata, row
                             in db.execute(f"{query} AND until IS NULL", (manifest, tenant))}  # fmt: skip
    made = {slot: (one.id, one.text, one.metadata.encode(), matrix[slot].tobytes()) for slot, one in texts.items()}
    ended = [(number, manifest, tenant, slot) for slot, what in held.items() if made.get(slot) != what]
    begun = [(manifest, number, tenant, slot, *what) for slot, what in made.items() if held.get(slot) != what]
    end = "UPDATE version_texts SET until = ? WHERE manifest = ? AND tenant = ? AND slot = ? AND until IS NULL"
    db.executemany(end, ended)
    db.executemany("INSERT INTO version_texts VALUES (?, ?, ?, ?, ?, ?, ?, ?, NULL)", begun)


def withdraw(db: sqlite3.Connection, manifest: bytes, number: int) -> None:
    """As if version ``number`` had never been stored; nothing newer may be there.  In the caller's transaction."""
    db.execute("DELETE FROM version_texts WHERE manifest = ? AND number >= ?", (manifest, number))
    db.execute("UPDATE version_texts SET until = NULL WHERE manifest = ? AND until >= ?", (manifest, number))


@dataclass(frozen=True, slots=True)
class Slots:
    """The filled slots of one version, as the database has them."""

    state: State
    manifest: bytes
    tenant: str
    number: int

    def each(self, columns: str) -> Iterator[tuple[Any, ...]]:
        """The slot and these columns of every one, in order; a part at a time is in memory."""
        query = f"SELECT slot, {columns} FROM version_texts WHERE {_LIVES} AND slot > ?4 ORDER BY slot LIMIT {PART}"
        last = -1
        while part := self.state.rows(query, (*self._own, last)):
            yield from part
            last = part[-1][0]

    def one(self, slot: int) -> SlotText | None:
        """What can be read of a slot; None: nothing is in it.  Raises CommitmentError as :func:`stored`."""
        query = f"SELECT document, text, metadata FROM version_texts WHERE {_LIVES} AND slot = ?4"
        found = self.state.row(query, (*self._own, slot))
        return None if found is None else stored(*found)

    def size(self) -> int:
        """Bytes of memory that it takes to hold what can be read."""
        query = f"SELECT TOTAL(LENGTH(text) + LENGTH(metadata) + {OVERHEAD}) FROM version_texts WHERE {_LIVES}"
        found = self.state.row(query, self._own)
        return int(found[0]) if found else 0

    @property
    def _own(self) -> tuple[bytes, str, int]:
        return self.manifest, self.tenant, self.number


class StoredTexts(Mapping[int, SlotText]):
    """What can be read of a version's slots, looked up whenever it is asked for: memory does not grow with texts.

    Once the window is retired, nothing can be read any more.
    """

    def __init__(self, slots: Slots, filled: npt.NDArray[np.bool_]) -> None:
        """``filled``: one a slot, whether something is in it."""
        self._slots, self._filled = slots, filled

    def __getitem__(self, slot: int) -> SlotText:
        found = self._slots.one(slot) if slot in self else None
        if found is None:
            raise KeyError(slot)
        return found

    def __contains__(self, slot: object) -> bool:
        return isinstance(slot, int) and 0 <= slot < len(self._filled) and bool(self._filled[slot])

    def __iter__(self) -> Iterator[int]:
        return iter(np.flatnonzero(self._filled).tolist())

    def __len__(self) -> int:
        return int(self._filled.sum())

    def items(self) -> ItemsView[int, SlotText]:
        return _Items(self)

    def values(self) -> ValuesView[SlotText]:
        return _Values(self)

    def in_order(self) -> Iterator[tuple[int, SlotText]]:
        """All of them, by slot; a part at a time is in memory."""
        for slot, *columns in self._slots.each(_TEXT):
            yield slot, stored(*columns)


class _Items(ItemsView[int, SlotText]):
    def __init__(self, texts: StoredTexts) -> None:
        super().__init__(texts)
        self._texts = texts

    def __iter__(self) -> Iterator[tuple[int, SlotText]]:
        return self._texts.in_order()


class _Values(ValuesView[SlotText]):
    def __init__(self, texts: StoredTexts) -> None:
        super().__init__(texts)
        self._texts = texts

    def __iter__(self) -> Iterator[SlotText]:
        return (content for _, content in self._texts.in_order())


def load_texts(slots: Slots, capacity: int) -> Mapping[int, SlotText]:
    """By slot what can be read of a version: in memory, where it is not too much for that.

    Raises:
        CommitmentError: as :func:`stored`; a slot does not fit.
    """
    if slots.size() <= IN_MEMORY:
        return {slot: stored(*columns) for slot, *columns in slots.each(_TEXT)}
    filled = np.zeros(capacity, dtype=np.bool_)
    for slot, _ in slots.each("number"):
        if not 0 <= slot < capacity:
            raise CommitmentError(f"stored slot {slot} does not fit an index of {capacity}: restore a backup")
        filled[slot] = True
    return StoredTexts(slots, filled)


def by_slot(texts: Mapping[int, SlotText], capacity: int) -> Iterator[SlotText | None]:
    """What every slot of an index holds, one after the other."""
    if not isinstance(texts, StoredTexts):
        yield from map(texts.get, range(capacity))
        return
    at = 0
    for slot, content in texts.in_order():
        yield from repeat(None, slot - at)
        yield content
        at = slot + 1
    yield from repeat(None, capacity - at)


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
