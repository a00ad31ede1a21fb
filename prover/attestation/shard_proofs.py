# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs of shards whose record is not proven yet: a provider that is killed in between makes only what is missing.

Kept is the proof alone, as the record's entry will have it.  Whoever takes it up makes its statement again and checks
it as an auditor does.  Blinders are derived from the record's secret and its hints (SPEC B.8), so an honest one has the
same C_h and C_v, which its challenges hash; a proof about any other is refused, and made anew.
"""

from __future__ import annotations

import sqlite3

from ragseal.kernel.errors import ProofError
from ragseal.prover.attestation.statements import ShardProving
from ragseal.prover.storage.state import State


class ShardProofs:
    """What is kept of records under way.  Methods may be called from any thread."""

    def __init__(self, state: State) -> None:
        self._state = state

    def find(self, manifest: bytes, seq: int, shard: int, one: ShardProving) -> bytes | None:
        """A proof of this statement that was made before; None: there is none."""
        query = "SELECT proof FROM shard_proofs WHERE manifest = ? AND seq = ? AND shard = ?"
        row = self._state.row(query, (manifest, seq, shard))
        if row is None:
            return None
        proof = bytes(row[0])
        try:
            one.check(proof)
        except ProofError:  # of another statement, or the disk's fault: no failure of the key
            return None
        return proof

    @staticmethod
    def keep(db: sqlite3.Connection, manifest: bytes, seq: int, shard: int, proof: bytes) -> None:
        """Keep a proof that was checked, unless its record is proven by now."""
        db.execute(
            "INSERT OR REPLACE INTO shard_proofs SELECT ?1, ?2, ?3, ?4 "
            "WHERE NOT EXISTS (SELECT 1 FROM proofs WHERE manifest = ?1 AND seq = ?2)",
            (manifest, seq, shard, proof),
        )

    @staticmethod
    def forget(db: sqlite3.Connection, manifest: bytes, seq: int) -> None:
        """The record is proven: its entry holds all of them."""
        db.execute("DELETE FROM shard_proofs WHERE manifest = ? AND seq = ?", (manifest, seq))
