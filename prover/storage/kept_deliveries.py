# SPDX-License-Identifier: GPL-3.0-or-later
"""What auditors were given of a window, for when it cannot be made again: once the window is retired.  SPEC G.13.3.

A retired window has no secrets to open commitments with.  What was delivered before is delivered again byte for byte;
so is what a full audit asks for, which a window's provider delivers to itself before it retires the window.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.kernel.transcript import tagged_hash
from ragseal.prover.storage.state import State

KEPT_BYTES = 1 << 26  #: of one window's deliveries to samples; an auditor that asks for ever others fills no disk


class KeptDeliveries:
    """Payloads by what was asked for.  Methods block; call them from any thread."""

    def __init__(self, state: State) -> None:
        self._state = state

    def find(self, manifest: bytes, ask: bytes) -> bytes | None:
        """What was kept for :func:`proofs_ask` or :func:`blocks_ask`."""
        query = "SELECT payload FROM kept_deliveries WHERE manifest = ? AND ask = ?"
        found = self._state.row(query, (manifest, ask))
        return None if found is None else bytes(found[0])

    def keep(self, manifest: bytes, ask: bytes, payload: bytes, always: bool = False) -> None:
        """Keep it, the first time that it is made; ``always``: whatever else is kept.

        Raises:
            ConfigurationError: the disk refuses.
        """
        query = "SELECT COALESCE(SUM(LENGTH(payload)), 0) FROM kept_deliveries WHERE manifest = ?"
        found = self._state.row(query, (manifest,))
        if not always and (found is None or int(found[0]) + len(payload) > KEPT_BYTES):
            return
        with self._state.transaction(durable=False) as db:
            db.execute("INSERT OR IGNORE INTO kept_deliveries VALUES (?, ?, ?)", (manifest, ask, payload))


def proofs_ask(seqs: Sequence[int]) -> bytes:
    """A name for proofs of exactly these records."""
    return tagged_hash("kept-proofs", *(seq.to_bytes(8, "big") for seq in seqs))


def blocks_ask(key_digest: bytes, tenant: str, blocks: Sequence[Sequence[int]]) -> bytes:
    """A name for proofs of exactly these blocks under this key."""
    ranks = (b"".join(rank.to_bytes(8, "big") for rank in block) for block in blocks)
    return tagged_hash("kept-blocks", key_digest, tenant.encode(), *ranks)
