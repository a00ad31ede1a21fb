# SPDX-License-Identifier: GPL-3.0-or-later
"""An index grows by shards of its class: keys, circuit and what a proof of a shard costs stay.  SPEC A.3.1.

A document that this period has no place for waits: it has a slot below 0, which no version of an index reads.  The next
window then takes as many shards as all documents need, with head-room, and throws its own coins over new places.  Old
places cannot be kept: which documents came after the index had grown would show in their slots.
"""

from __future__ import annotations

from ragseal.circuits.sizes import HEAD_ROOM
from ragseal.kernel.classes import AttestationClass
from ragseal.prover.storage.state import State


def shards_in_use(state: State, cls: AttestationClass) -> int:
    """Shards of every index now: those of the settings, or of a window that took more since."""
    found = state.row("SELECT MAX(capacity) FROM tenants")
    return max(state.settings.shards, int(found[0] or 0) // cls.N if found else 0)


def shards_due(state: State, cls: AttestationClass) -> int:
    """Shards that all documents need, with head-room, as far as the class has them; never fewer than now."""
    found = state.row("SELECT MAX(n) FROM (SELECT COUNT(*) AS n FROM documents GROUP BY tenant)")
    wanted = -(-int(found[0] or 0) * HEAD_ROOM.numerator // (HEAD_ROOM.denominator * cls.N)) if found else 0
    return max(shards_in_use(state, cls), min(wanted, cls.S))


def waiting(state: State) -> dict[str, int]:
    """By tenant how many documents wait for a place; tenants without any are left out."""
    query = "SELECT tenant, COUNT(*) FROM documents WHERE slot < 0 GROUP BY tenant ORDER BY tenant"
    return {str(tenant): int(count) for tenant, count in state.rows(query)}


def waiting_slots(state: State, tenant: str, count: int) -> list[int]:
    """Slots below 0 that none of the tenant's documents has."""
    found = state.row("SELECT MIN(slot) FROM documents WHERE tenant = ?", (tenant,))
    lowest = min(0, int(found[0] or 0)) if found else 0
    return [lowest - 1 - n for n in range(count)]
