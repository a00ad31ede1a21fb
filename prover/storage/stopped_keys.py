# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys under which nothing is proven any more, since a proof under them failed.  SPEC A.9.5."""

from __future__ import annotations

from ragseal.prover.storage.state import State


def stopped(state: State, key_digest: bytes) -> str | None:
    """Why nothing is proven under a key any more, None if it works.

    It survives restarts: under a crafted key each attempt could tell whoever made it something about the witness.
    """
    found = state.row("SELECT reason FROM stopped_keys WHERE key_digest = ?", (key_digest,))
    return None if found is None else str(found[0])


def release(state: State, key_digest: bytes) -> None:
    """Let a stopped key be used again: the operator knows why it failed."""
    with state.transaction() as db:
        db.execute("DELETE FROM stopped_keys WHERE key_digest = ?", (key_digest,))


def stop_key(state: State, key_digest: bytes, reason: str) -> None:
    """Prove nothing more under a key, for this reason."""
    with state.transaction() as db:
        db.execute("INSERT OR REPLACE INTO stopped_keys VALUES (?, ?)", (key_digest, reason))
