# SPDX-License-Identifier: GPL-3.0-or-later
"""A new placement key for a tenant's documents, between windows.  SPEC A.3.1, A.3.2."""

from __future__ import annotations

from ragseal.kernel.errors import CommitmentError
from ragseal.prover.base.randomness import Draw
from ragseal.prover.commitment.document_rows import begun, require_revision
from ragseal.prover.commitment.placement import ASIDE, KEY_BYTES, IndexShape, next_slots
from ragseal.prover.storage.history import History
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Stage


def new_period(state: State, tenant: str, shape: IndexShape, draw: Draw) -> None:
    """Draw a new placement key and place all of a tenant's documents afresh; deleted ones' places are free again.

    Every version that is committed from now on belongs to the new period, and to a coin period of its own
    (:mod:`ragseal.prover.commitment.coin_placement`).  Callers see to it that no window of the old one still runs
    (:func:`require_no_window`).

    Those that still have no place wait.

    Raises:
        CommitmentError: no such tenant, or more documents than places in an index that does not grow.
    """
    running = begun(state, tenant)
    if running is None:
        raise CommitmentError(f"tenant {tenant!r} has no documents: `ragseal-provider documents put` adds some")
    placement = draw(KEY_BYTES)
    # those that wait come last, and of those the last that came: its slot is the lowest
    query = "SELECT slot FROM documents WHERE tenant = ? ORDER BY slot < 0, ABS(slot)"
    old = [slot for (slot,) in state.rows(query, (tenant,))]
    placed = min(len(old), shape.places)
    if placed < len(old) and not shape.most:
        raise CommitmentError(
            f"tenant {tenant!r} has {len(old)} documents, a period of this class {shape.places} places"
        )
    given = next_slots(placement, 0, placed, shape) + [-1 - n for n in range(len(old) - placed)]
    moves = zip(given, old, strict=True)
    line = (tenant, placement, placed, shape.capacity, shape.block_slots, running.revision + 1)
    with state.transaction() as db:
        require_revision(db, tenant, running.revision)
        db.execute("UPDATE documents SET slot = slot + ? WHERE tenant = ?", (ASIDE, tenant))  # out of each other's way
        for slot, before in moves:
            db.execute("UPDATE documents SET slot = ? WHERE tenant = ? AND slot = ?", (slot, tenant, before + ASIDE))
        db.execute("DELETE FROM resting WHERE tenant = ?", (tenant,))
        db.execute("INSERT OR REPLACE INTO tenants VALUES (?, ?, ?, ?, ?, ?)", line)


def require_no_window(history: History, now: float) -> None:
    """Raises CommitmentError: a window is open, or may still open, whose period a new placement would break."""
    newest = history.newest
    if newest is None or newest.stage is Stage.CLOSED:
        return
    if newest.stage is Stage.OPEN or now <= newest.closes:
        raise CommitmentError(
            f"window {newest.manifest.window!r} is {newest.stage.name.lower()}: documents get new slots only "
            "between windows; close it first"
        )
