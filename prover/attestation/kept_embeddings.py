# SPDX-License-Identifier: GPL-3.0-or-later
"""Embeddings of Prepares, kept where the same text may get another vector the next time.  SPEC B.1.

A Prepare that comes again, after whatever crash, must bring the same C_e: its account may have signed a request about
it.  A model on this machine computes it anew; a server elsewhere may not, so what it said is kept before it is told.
"""

from __future__ import annotations

import hashlib

from ragseal.prover.storage.state import State


class KeptEmbeddings:
    """By the Prepare's canonical bytes, for one window at a time.  Methods block; call them from any thread."""

    def __init__(self, state: State) -> None:
        self._state = state

    def find(self, canonical: bytes) -> bytes | None:
        """The embedding that was told for this Prepare."""
        found = self._state.row("SELECT embedding FROM prepared WHERE prepare = ?", (_digest(canonical),))
        return None if found is None else bytes(found[0])

    def keep(self, manifest: bytes, canonical: bytes, embedding: bytes) -> None:
        """Make it durable; those of other windows, which take no more requests, are deleted."""
        with self._state.transaction() as db:
            db.execute("DELETE FROM prepared WHERE manifest != ?", (manifest,))
            db.execute("INSERT OR IGNORE INTO prepared VALUES (?, ?, ?)", (_digest(canonical), manifest, embedding))


def _digest(canonical: bytes) -> bytes:
    return hashlib.sha256(canonical).digest()
