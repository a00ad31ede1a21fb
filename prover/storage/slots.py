# SPDX-License-Identifier: GPL-3.0-or-later
"""What the slots of a window's versions hold: kept once for as long as it stays as it is.  SPEC A.12.13.

A row of ``version_texts`` is one slot's document with its quantised vector, from version ``number`` on and before
version ``until`` (of rows that still hold there is none).  So a version takes what changed, not the whole index once
more: accounts, each question of whom keeps a version until its window is retired, cannot fill the disk with copies.
"""

from __future__ import annotations

import sqlite3
from bisect import bisect_left
from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import AuditError, CommitmentError
from ragseal.kernel.slot_text import Metadata, SlotText
from ragseal.prover.storage.state import State

Matrix = npt.NDArray[np.int8]
_Row = tuple[str, str, bytes, bytes]  #: id, text, metadata, vector


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


def load(state: State, manifest: bytes, tenant: str, number: int) -> tuple[dict[int, SlotText], dict[int, bytes]]:
    """By slot what can be read of a version, and the vectors.

    Raises:
        CommitmentError: as :func:`stored`.
    """
    query = (
        "SELECT slot, document, text, metadata, row FROM version_texts "
        "WHERE manifest = ?1 AND tenant = ?2 AND number <= ?3 AND (until IS NULL OR until > ?3)"
    )
    texts, rows = dict[int, SlotText](), dict[int, bytes]()
    for slot, document, text, metadata, row in state.rows(query, (manifest, tenant, number)):
        texts[slot] = stored(document, text, metadata)
        rows[slot] = row
    return texts, rows


def assembled(rows: Mapping[int, bytes], shape: tuple[int, int]) -> Matrix:
    """The matrix with these vectors, empty slots zero.

    Raises:
        CommitmentError: a slot or a vector does not fit.
    """
    matrix = np.zeros(shape, dtype=np.int8)
    for slot, row in rows.items():
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
