# SPDX-License-Identifier: GPL-3.0-or-later
"""The secrets of answers: computed, and durable before the record that fixes them.  SPEC B.2 to B.4.

Both kinds: the slots that a window returns, and the histogram behind an answer in words (SPEC A.14).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from ragseal.backends.poseidon import noise_key
from ragseal.kernel.attestation import Prepare, SignedRequest
from ragseal.kernel.errors import AttestationError, ConfigurationError
from ragseal.prover.answers.attested import histogram, near_documents, without_documents, written
from ragseal.prover.attestation.answering_context import AnsweringContext
from ragseal.prover.attestation.pending import Pending
from ragseal.prover.attestation.retrieval import (
    PLACE,
    Place,
    QuerySecrets,
    answer_counts,
    answer_query,
    decode_embedding,
    query_key,
)
from ragseal.prover.commitment.index import Version
from ragseal.prover.storage.history import History
from ragseal.prover.storage.participations import Participations, allowed, counted, counting
from ragseal.prover.storage.state import State
from ragseal.prover.storage.vocabularies import stored_vocabulary
from ragseal.prover.storage.window import Window
from ragseal.prover.storage.window_secrets import WindowSecrets
from ragseal.runtime.group_commit import Batches

MAX_ANSWERED = 16  #: requests that are worked on together and whose secrets share one transaction


@dataclass(frozen=True, slots=True)
class AnswerJob:
    """A request whose answer is to be computed."""

    window: Window
    secrets: WindowSecrets
    version: Version
    message: SignedRequest
    pending: Pending


class AnswerSecrets:
    """Answers of one provider as they are computed, several in one transaction.  Coroutines run in one event loop."""

    def __init__(self, state: State, history: History, tools: AnsweringContext) -> None:
        self._state = state
        self._history = history
        self._tools = tools
        self._participations = Participations(state, tools.draw)
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
        rows: list[tuple[bytes, str, int, bytes, bytes]] = []
        charges: list[tuple[bytes, tuple[bytes, ...]]] = []  # documents that take part, by manifest, in this batch
        places = [query_key(job.window.digest, job.message) for job in jobs]
        known = self._kept(places)
        for job, place in zip(jobs, places, strict=True):
            try:
                stored = known.get(place)
                if stored is not None:  # stopped between here and the record: same bytes again
                    outcomes.append(QuerySecrets.decode(stored))
                    continue
                documents: tuple[bytes, ...] = ()
                if job.window.manifest.policy.answers:
                    kept, documents = self._compute_answer(job, charges)
                else:
                    kept = self._compute(job)
                row = (*place, kept.encode())
            except Exception as error:  # it is this request's alone
                outcomes.append(error)
                continue
            outcomes.append(kept)
            rows.append(row)
            charges.append((job.window.digest, documents))
        if rows:
            with self._state.transaction() as db:
                db.executemany("INSERT INTO queries VALUES (?, ?, ?, ?, ?)", rows)
                for manifest, documents in charges:
                    self._participations.charge(db, manifest, documents)
        return outcomes

    def _kept(self, places: Sequence[Place]) -> dict[Place, bytes]:
        """The secrets that are stored for any of these, in one read."""
        asked = ", ".join(["(?, ?, ?, ?)"] * len(places))
        rows = self._state.rows(  # an outer loop over what is asked for: a list after IN would read the whole table
            f"WITH asked({PLACE}) AS (VALUES {asked}) SELECT * FROM asked CROSS JOIN queries USING ({PLACE})",
            [part for place in places for part in place],
        )
        return {(manifest, account, ctr, request): kept for manifest, account, ctr, request, kept in rows}

    def _compute_answer(
        self, job: AnswerJob, charges: list[tuple[bytes, tuple[bytes, ...]]]
    ) -> tuple[QuerySecrets, tuple[bytes, ...]]:
        """Of a window of the claim answers: the histogram's secrets, and which documents took part.

        Args:
            charges: of the answers of this batch, which no transaction holds yet.
        """
        window, secrets, tools, policy = job.window, job.secrets, self._tools, job.window.manifest.policy
        generator = tools.generator
        if window.beacon is None or generator is None:
            raise ConfigurationError("this provider has no generator of answers, or the window is not open")
        question = Prepare.decode(job.pending.request).query
        without = without_documents(generator, question)
        words = stored_vocabulary(self._state, policy.vocabulary, len(job.version.matrix))
        windows = list(self._history.windows.values())  # one may be committed to in another thread meanwhile
        counts = counted(self._state, counting(windows, policy))
        for _, documents in charges:
            counts.update(documents)
        tenant = job.version.tenant
        part = [
            (self._participations.document(tenant, one.name), one.text)
            for one in near_documents(job.version, decode_embedding(job.pending.embedding), policy.similarity)
        ]
        part = [(name, text) for name, text in part if allowed(counts, name, policy.participations)]
        kept = answer_counts(
            tools.engine,
            tools.group,
            tools.key_of(window.manifest.key_digest),
            policy,
            noise_key(secrets.limbs, window.beacon, job.message.request.ctx()),
            job.pending.embedding,
            job.pending.blinder,
            histogram(generator, words, policy, question, [text for _, text in part]),
            tools.draw,
        )
        text = written(generator, words, question, kept.returned, without)
        return replace(kept, answer=text), tuple(name for name, _ in part)

    def _compute(self, job: AnswerJob) -> QuerySecrets:
        window, secrets, request, tools = job.window, job.secrets, job.message.request, self._tools
        if window.beacon is None:
            raise AttestationError("the window is not open")
        return answer_query(
            tools.group,
            tools.engine,
            tools.key_of(window.manifest.key_digest),
            job.version,
            window.manifest.policy,
            noise_key(secrets.limbs, window.beacon, request.ctx()),
            job.pending.embedding,
            job.pending.blinder,
            tools.draw,
        )
