# SPDX-License-Identifier: GPL-3.0-or-later
"""The signing keys of windows: fresh for each, certified by the manifest that names it.  SPEC A.1.4.

A window's key signs its seals, receipts, deliveries and links.  It stays when the window is retired, since audits of
retired windows are answered too, and it tells nothing of what the window held.
"""

from __future__ import annotations

import sqlite3

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import CommitmentError
from ragseal.prover.storage.state import State


def store_window_key(db: sqlite3.Connection, manifest: bytes, key: Ed25519PrivateKey) -> None:
    """Keep it, in the transaction that keeps the window."""
    db.execute("INSERT OR REPLACE INTO window_keys VALUES (?, ?)", (manifest, key.private_bytes_raw()))


def load_window_key(state: State, manifest: bytes) -> Ed25519PrivateKey:
    """The key of a window.  CommitmentError: this state has none, so nothing of that window can be signed."""
    found = state.row("SELECT key FROM window_keys WHERE manifest = ?", (manifest,))
    if found is None or len(found[0]) != 32:
        raise CommitmentError(
            "this provider's state holds no signing key of that window: restore state.db from a backup"
        )
    return Ed25519PrivateKey.from_private_bytes(found[0])
