# SPDX-License-Identifier: GPL-3.0-or-later
"""A tenant's documents and its running period, as rows of the provider's database."""

from __future__ import annotations

import hmac
import sqlite3
from dataclasses import dataclass, replace

from ragseal.kernel.errors import CommitmentError
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.storage.state import State


class ChangedMeanwhile(CommitmentError):
    """Somebody else changed a tenant's documents while these were embedded: nothing was done, doing it again may."""


@dataclass(frozen=True, slots=True)
class Begun:
    """A tenant's running period."""

    placement: bytes
    used: int
    capacity: int
    block_slots: int
    revision: int

    def continued(self, tenant: str, shape: IndexShape) -> IndexShape:
        """The shape with this period's capacity, which a window may have raised since ``shape`` was made.

        Raises:
            CommitmentError: the period gives a document another number of slots.
        """
        if self.block_slots != shape.block_slots:
            raise CommitmentError(
                f"tenant {tenant!r} is in a period of {self.block_slots} slots a document, not of "
                f"{shape.block_slots}: begin a new period first (`documents new-period`)"
            )
        return replace(shape, capacity=self.capacity)


def begun(state: State, tenant: str) -> Begun | None:
    query = "SELECT placement, counter, capacity, block_slots, revision FROM tenants WHERE name = ?"
    found = state.row(query, (tenant,))
    return None if found is None else Begun(*found)


def require_revision(db: sqlite3.Connection, tenant: str, revision: int) -> None:
    """Whoever embeds for an hour does not write over what was changed since: raises ChangedMeanwhile."""
    found = db.execute("SELECT revision FROM tenants WHERE name = ?", (tenant,)).fetchone()
    if (found[0] if found else 0) != revision:
        raise ChangedMeanwhile(f"documents of tenant {tenant!r} were changed meanwhile: nothing was done, do it again")


@dataclass(frozen=True, slots=True)
class Listed:
    """One document, as ``documents list`` shows it."""

    id: str
    source: str  #: identity of the source that it was read from; empty for one that was put
    bytes: int  #: of its text


def listed(state: State, tenant: str) -> list[Listed]:
    """A tenant's documents by id, of which the order tells nothing."""
    query = "SELECT document, source, LENGTH(CAST(text AS BLOB)) FROM documents WHERE tenant = ? ORDER BY document"
    return [Listed(str(name), str(source), int(size)) for name, source, size in state.rows(query, (tenant,))]


def of_source(state: State, tenant: str, source: str) -> set[str]:
    """Ids of a tenant's documents that were last read from this source."""
    query = "SELECT document FROM documents WHERE tenant = ? AND source = ?"
    return {str(name) for (name,) in state.rows(query, (tenant, source))}


def mark_of(state: State, tenant: str, source: str) -> str | None:
    """How far a source was read for a tenant; None if it never was."""
    found = state.row("SELECT mark FROM source_marks WHERE tenant = ? AND source = ?", (tenant, source))
    return None if found is None else str(found[0])


def resting_name(placement: bytes, name: str) -> bytes:
    """What is kept of a deleted document's id."""
    return hmac.digest(placement, b"resting" + name.encode(), "sha256")


def put_to_rest(db: sqlite3.Connection, tenant: str, name: str, rest: bytes) -> None:
    """Delete a document; its slot stays kept for it under the name ``rest``, see :func:`resting_name`.

    One that waits has none.
    """
    here = "FROM documents WHERE tenant = ? AND document = ?"
    query = f"INSERT OR REPLACE INTO resting SELECT tenant, ?, slot {here} AND slot >= 0"
    db.execute(query, (rest, tenant, name))
    db.execute(f"DELETE {here}", (tenant, name))


def remove(db: sqlite3.Connection, tenant: str, name: str) -> None:
    """Delete a document that is there, in the caller's transaction."""
    (placement,) = db.execute("SELECT placement FROM tenants WHERE name = ?", (tenant,)).fetchone()
    put_to_rest(db, tenant, name, resting_name(placement, name))


def changed(db: sqlite3.Connection, tenant: str) -> None:
    """What is being embedded for a tenant is done again: it began before the caller's transaction."""
    db.execute("UPDATE tenants SET revision = revision + 1 WHERE name = ?", (tenant,))
