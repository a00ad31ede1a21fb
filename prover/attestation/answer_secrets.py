# SPDX-License-Identifier: GPL-3.0-or-later
"""The secrets of answers: computed, and durable before the record that fixes them.  SPEC B.2 to B.4.

Those of answers in words follow a schedule of their own (:mod:`ragseal.prover.attestation.worded`).
"""

from __future__ import annotations

import sqlite3
from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.backends.poseidon import noise_key
from ragseal.kernel.attestation import SignedRequest
from ragseal.kernel.errors import AttestationError
from ragseal.prover.attestation.answering_context import AnsweringContext
from ragseal.prover.attestation.open_window import OpenWindow
from ragseal.prover.attestation.pending import Pending
from ragseal.prover.attestation.retrieval import PLACE, Place, Query, QuerySecrets, answer_query, query_key
from ragseal.prover.commitment.index import Version
from ragseal.prover.storage.state import State
from ragseal.runtime.group_commit import Batches

Row = tuple[bytes, str, int, bytes, bytes]  #: a Place, and secrets

MAX_ANSWERED = 16  #: requests that are worked on together and whose secrets share one transaction


@dataclass(frozen=True, slots=True)
class AnswerJob:
    """A request whose answer is to be computed."""

    opened: OpenWindow
    version: Version
    message: SignedRequest
    pending: Pending

    def query(self) -> Query:
        """What the answer is computed from, besides the index.  AttestationError: the window has no beacon yet."""
        beacon = self.opened.window.beacon
        if beacon is None:
            raise AttestationError("the window is not open")
        noise = noise_key(self.opened.secrets.limbs, beacon, self.message.request.ctx())
        return Query(self.pending.embedding, self.pending.blinder, noise)


def kept_secrets(state: State, places: Sequence[Place]) -> dict[Place, bytes]:
    """The secrets that are stored for any of these, in one read."""
    asked = ", ".join(["(?, ?, ?, ?)"] * len(places))
    rows = state.rows(  # an outer loop over what is asked for: a list after IN would read the whole table
        f"WITH asked({PLACE}) AS (VALUES {asked}) SELECT * FROM asked CROSS JOIN queries USING ({PLACE})",
        [part for place in places for part in place],
    )
    return {(manifest, account, ctr, request): kept for manifest, account, ctr, request, kept in rows}


def store_secrets(db: sqlite3.Connection, rows: Sequence[Row]) -> None:
    """In the caller's transaction."""
    db.executemany("INSERT INTO queries VALUES (?, ?, ?, ?, ?)", rows)


class AnswerSecrets:
    """Answers of one provider as they are computed, several in one transaction.  Coroutines run in one event loop."""

    def __init__(self, state: State, tools: AnsweringContext) -> None:
        self._state = state
        self._tools = tools
        self._together: Batches[AnswerJob, QuerySecrets] = Batches(self._compute_all, MAX_ANSWERED)

    async def fix(self, job: AnswerJob) -> QuerySecrets:
        """Compute the answer and make durable all that its proof will need.

        Rows are kept by the signed bytes and never replaced: after a storage failure nobody knows which of two requests
        with one ctr is in the ledger, and the secrets of both must be there.
        """
        return await self._together.submit(job)

    def _compute_all(self, jobs: list[AnswerJob]) -> list[QuerySecrets | Exception]:
        """One transaction, and so one sync, for all that could be computed."""
        outcomes: list[QuerySecrets | Exception] = []
        rows: list[Row] = []
        places = [query_key(job.opened.digest, job.message) for job in jobs]
        known = kept_secrets(self._state, places)
        for job, place in zip(jobs, places, strict=True):
            try:
                stored = known.get(place)
                if stored is not None:  # stopped between here and the record: same bytes again
                    outcomes.append(QuerySecrets.decode(stored))
                    continue
                kept = self._compute(job)
                row = (*place, kept.encode())
            except Exception as error:  # it is this request's alone
                outcomes.append(error)
                continue
            outcomes.append(kept)
            rows.append(row)
        if rows:
            with self._state.transaction() as db:
                store_secrets(db, rows)
        return outcomes

    def _compute(self, job: AnswerJob) -> QuerySecrets:
        opened, tools = job.opened, self._tools
        return answer_query(
            tools.group,
            tools.engine,
            opened.key,
            job.version,
            opened.rules(job.version.tenant),
            job.query(),
            tools.draw,
        )
