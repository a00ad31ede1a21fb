# SPDX-License-Identifier: GPL-3.0-or-later
"""Which documents were erased: by a keyed hash of tenant and id, so that no list of ids is kept.  SPEC G.12."""

from __future__ import annotations

import hmac
import sqlite3
from collections.abc import Callable, Sequence

from ragseal.prover.base.randomness import Draw
from ragseal.prover.storage.retirement import DEFAULT_RETAIN
from ragseal.prover.storage.state import State


def erased_of(state: State, tenant: str) -> Callable[[str], bool]:
    """Whether a tenant's document of an id was erased and not put again since."""
    key = known_key(state)
    known = {bytes(one) for (one,) in state.rows("SELECT hash FROM erased")} if key is not None else set()
    if key is None or not known:
        return lambda name: False
    return lambda name: hash_of(key, tenant, name) in known


def put_again(db: sqlite3.Connection, tenant: str, names: Sequence[str]) -> None:
    """The operator has put these documents: from now on their sources are followed as any other's."""
    found = db.execute("SELECT key FROM erasing").fetchone()
    if found is not None:
        db.executemany("DELETE FROM erased WHERE hash = ?", [(hash_of(found[0], tenant, name),) for name in names])


def key_of(db: sqlite3.Connection, draw: Draw) -> bytes:
    db.execute("INSERT OR IGNORE INTO erasing VALUES (1, ?, ?)", (draw(32), DEFAULT_RETAIN))
    return bytes(db.execute("SELECT key FROM erasing").fetchone()[0])


def known_key(state: State) -> bytes | None:
    found = state.row("SELECT key FROM erasing")
    return None if found is None else bytes(found[0])


def hash_of(key: bytes, tenant: str, name: str) -> bytes:
    """Of tenant and id; the tenant's length keeps two pairs apart."""
    whose = tenant.encode()
    return hmac.digest(key, b"erased" + len(whose).to_bytes(4, "big") + whose + name.encode(), "sha256")
