# SPDX-License-Identifier: GPL-3.0-or-later
"""How many answers of a budget period each document took part in: the individual filter of SPEC A.14.4.

A document is known by a keyed hash of tenant and id, as erased ones are (SPEC G.12.3), so counts may outlive the
window, and the document, without a list of ids.  A count grows in the transaction that makes the answer's secrets
durable: before the record, and so before anything leaves.
"""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.policy import Policy
from ragseal.prover.base.randomness import Draw
from ragseal.prover.storage import tombstones
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Window

_TOGETHER = 500  #: windows of one query


class Participations:
    """The counts of one provider.  Methods block and may be called from any thread."""

    def __init__(self, state: State, draw: Draw) -> None:
        self._state = state
        self._draw = draw
        self._key: bytes | None = None

    def document(self, tenant: str, name: str) -> bytes:
        """What a document is counted under."""
        if self._key is None:
            with self._state.transaction() as db:
                self._key = tombstones.key_of(db, self._draw)
        return tombstones.hash_of(self._key, tenant, name)

    @staticmethod
    def charge(db: sqlite3.Connection, manifest: bytes, documents: Iterable[bytes]) -> None:
        """One answer more of each, in the caller's transaction."""
        db.executemany(
            "INSERT INTO participations VALUES (?, ?, 1) "
            "ON CONFLICT (manifest, document) DO UPDATE SET answers = answers + 1",
            [(manifest, document) for document in documents],
        )


def counting(windows: Iterable[Window], policy: Policy) -> list[bytes]:
    """Digests of the windows whose answers a policy's filter counts: those that did not end before its period."""
    begins = policy.period_start - policy.period_start % COARSE_TIME
    return [one.digest for one in windows if one.close is None or one.close.time >= begins]


def counted(state: State, manifests: Sequence[bytes]) -> Counter[bytes]:
    """Answers by document over these windows."""
    found: Counter[bytes] = Counter()
    for start in range(0, len(manifests), _TOGETHER):
        part = tuple(manifests[start : start + _TOGETHER])
        marks = ", ".join("?" * len(part))
        query = f"SELECT document, SUM(answers) FROM participations WHERE manifest IN ({marks}) GROUP BY document"
        for document, answers in state.rows(query, part):
            found[bytes(document)] += int(answers)
    return found


def allowed(counts: Mapping[bytes, int], document: bytes, most: int) -> bool:
    """Whether a document may take part in one answer more: its own history alone decides."""
    return counts.get(document, 0) < most
