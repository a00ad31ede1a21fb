# SPDX-License-Identifier: GPL-3.0-or-later
"""Which placement a coin period's windows were committed under: there is one for each tenant.  SPEC A.11.10.

Documents that were placed afresh would have other coins under the same throw, and would stand where others stood.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable

from ragseal.prover.storage.state import State


def remember_placements(db: sqlite3.Connection, coin_period: bytes, tenants: Iterable[str]) -> None:
    """Keep that these tenants' documents stand under these coins where they stand now; the first time counts.

    Args:
        coin_period: digest of the manifest that throws the coins.
    """
    for tenant in tenants:
        db.execute(
            "INSERT OR IGNORE INTO coin_placements SELECT name, ?, placement FROM tenants WHERE name = ?",
            (coin_period, tenant),
        )


def placed_afresh(state: State, coin_period: bytes) -> list[str]:
    """Tenants whose documents were placed afresh since they stood under these coins: no window may carry those on."""
    query = (
        "SELECT t.name FROM tenants t JOIN coin_placements c ON c.tenant = t.name "
        "WHERE c.coin_period = ? AND c.placement <> t.placement ORDER BY t.name"
    )
    return [str(name) for (name,) in state.rows(query, (coin_period,))]
