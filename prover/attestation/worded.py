# SPDX-License-Identifier: GPL-3.0-or-later
"""The secrets of answers in words: computed on a schedule, and durable before the record that fixes them.  SPEC A.14.

Every step ends at an instant that policy and class give (:mod:`ragseal.prover.answers.schedule`), whatever the
generator does and however many documents take part.  Requests share no step in which a generator is asked.
"""

from __future__ import annotations

import asyncio
import logging
import threading
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial

from ragseal.generators import SentenceGenerator, Sentences
from ragseal.generators.interface import within
from ragseal.kernel.attestation import Prepare
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.policy import Policy
from ragseal.prover.answers.final import zero_shot
from ragseal.prover.answers.lanes import Lanes
from ragseal.prover.answers.missed import Missed
from ragseal.prover.answers.schedule import LANES, Schedule, at_once, schedule_of
from ragseal.prover.attestation.answer_secrets import MAX_ANSWERED, AnswerJob, Row, kept_secrets, store_secrets
from ragseal.prover.attestation.answering_context import AnsweringContext
from ragseal.prover.attestation.attested import Voting, cannot_write, checked_question, near_documents, written
from ragseal.prover.attestation.retrieval import QuerySecrets, answer_counts, decode_embedding, query_key
from ragseal.prover.base.limits import WORDED_AT_ONCE
from ragseal.prover.commitment.vocabularies import stored_vocabulary
from ragseal.prover.storage.history import History
from ragseal.prover.storage.participations import Participations, allowed, counted, counting
from ragseal.prover.storage.state import State
from ragseal.runtime.group_commit import Batches
from ragseal.runtime.threads import most_threads

log = logging.getLogger("ragseal.provider")


@dataclass(frozen=True, slots=True)
class TakingPart:
    """The documents of one answer."""

    documents: tuple[bytes, ...]  #: as they are counted
    places: tuple[int, ...]  #: among the documents of the version
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Storing:
    job: AnswerJob
    kept: QuerySecrets
    part: TakingPart


class WordedSecrets:
    """Of one provider.  Coroutines run in one event loop."""

    def __init__(self, state: State, history: History, tools: AnsweringContext) -> None:
        self._state = state
        self._history = history
        self._tools = tools
        self._participations = Participations(state, tools.draw)
        self._lanes = Lanes(tools.timer)
        self._places: asyncio.Semaphore | None = None
        self.missed = Missed(tools.clock)
        self._reserved: Counter[bytes] = Counter()  #: documents of answers whose counts are not durable yet
        self._filter = threading.RLock()
        self._counting: Batches[tuple[AnswerJob, bytes], QuerySecrets] = Batches(self._count_all, MAX_ANSWERED)
        self._storing: Batches[_Storing, None] = Batches(self._store_all, MAX_ANSWERED)

    def places(self, slots: int) -> asyncio.Semaphore:
        """Of answers that are written at once, over indices of so many slots: a provider's are all of one class."""
        if self._places is None:
            threads, limit = most_threads()
            most = at_once(slots, threads)
            self._places = asyncio.Semaphore(most)
            if most < WORDED_AT_ONCE:
                log.warning(
                    "answers in words are written %d at once, not %d: each may take a thread for every document, and "
                    "this process may have %d threads (%s): raise that for more",
                    most, WORDED_AT_ONCE, threads, limit,
                )  # fmt: skip
        return self._places

    async def fix(self, job: AnswerJob, began: float) -> QuerySecrets:
        """The secrets of the answer to a request that was admitted at the instant ``began`` of the timer.

        Raises:
            EncodingError: a question that no generator is asked.
            TransportError: the generator does not answer the question at all.
            UnprovableError, ConfigurationError, CommitmentError: as they say.
        """
        policy, generator = job.opened.policy, self._tools.generator
        if generator is None:
            raise ConfigurationError("this provider has no generator of answers")
        read: Sentences | None = None  #: held from the admission on: later versions take the place of this one
        if isinstance(generator, SentenceGenerator):
            read = self._tools.readings.of(job.opened.digest, job.message.request.index_digest)
        known = await asyncio.to_thread(kept_secrets, self._state, [query_key(job.opened.digest, job.message)])
        if known:  # stopped between here and the record: same bytes again
            return QuerySecrets.decode(next(iter(known.values())))
        at, tool = schedule_of(policy, len(job.version.matrix)), self._tools
        question = checked_question(Prepare.decode(job.pending.request).query)
        alone = partial(zero_shot, within(generator, at.without), question)
        [without] = await self._lanes.ended_by(began + at.without, [alone])
        if isinstance(without, BaseException):
            raise cannot_write(without, question)
        words = stored_vocabulary(self._state, policy.vocabulary, len(job.version.matrix))
        part = await asyncio.to_thread(self._reserve, job, policy)
        try:
            await tool.timer.until(began + at.documents)
            voting = Voting(within(generator, at.turn), words, policy, question)
            votes = await self._votes(voting, read, part, at, began)
            draft = await self._counting.submit((job, voting.counts(votes)))
            speaks = within(generator, at.text - at.votes)
            last = partial(written, speaks, words, question, draft.returned, without)
            [text] = await self._lanes.ended_by(began + at.text, [last])
            kept = replace(draft, answer=without if isinstance(text, BaseException) else text)
            await self._storing.submit(_Storing(job, kept, part))
        except BaseException:
            await asyncio.to_thread(self._release, [part])
            raise
        return kept

    async def _votes(
        self, voting: Voting, read: Sentences | None, part: TakingPart, at: Schedule, began: float
    ) -> list[frozenset[int]]:
        """What each document counts for.  A served model is asked about it; a call that fails or is late is nothing."""
        if read is None:
            votes = await self._asked(voting, part.texts, at, began)
        else:
            documents = list(zip(part.places, part.texts, strict=True))
            votes = await asyncio.to_thread(voting.of_read, read, documents)
        await self._tools.timer.until(began + at.votes)
        return votes

    async def _asked(self, voting: Voting, texts: Sequence[str], at: Schedule, began: float) -> list[frozenset[int]]:
        votes: list[frozenset[int]] = []
        for first in range(0, len(texts), LANES):
            turn = texts[first : first + LANES]
            end = began + at.turn_of(first) + at.turn
            said = await self._lanes.ended_by(end, [partial(voting.of, text) for text in turn])
            self.missed.note(said)
            votes += [frozenset() if isinstance(one, BaseException) else one for one in said]
        return votes

    # --- who takes part ---

    def _reserve(self, job: AnswerJob, policy: Policy) -> TakingPart:
        """The documents that take part, which nobody else's answer may count beyond the policy's filter meanwhile."""
        near = near_documents(job.version, decode_embedding(job.pending.embedding), policy.similarity)
        named = [(self._participations.document(job.version.tenant, one.name), one) for one in near]
        with self._filter:
            counts = counted(self._state, counting(list(self._history.windows.values()), policy)) + self._reserved
            part = [(name, one) for name, one in named if allowed(counts, name, policy.participations)]
            found = TakingPart(
                tuple(name for name, _ in part),
                tuple(one.place for _, one in part),
                tuple(one.text for _, one in part),
            )
            self._reserved.update(found.documents)
        return found

    def _release(self, parts: Sequence[TakingPart]) -> None:
        with self._filter:
            for one in parts:
                self._reserved.subtract(one.documents)
            self._reserved = +self._reserved

    # --- blocking work, of several requests in one thread: no generator is asked here ---

    def _count_all(self, jobs: list[tuple[AnswerJob, bytes]]) -> list[QuerySecrets | Exception]:
        outcomes: list[QuerySecrets | Exception] = []
        for job, counts in jobs:
            try:
                outcomes.append(self._count(job, counts))
            except Exception as error:  # it is this request's alone
                outcomes.append(error)
        return outcomes

    def _count(self, job: AnswerJob, counts: bytes) -> QuerySecrets:
        opened, tools = job.opened, self._tools
        return answer_counts(
            tools.group,
            tools.engine,
            opened.key,
            opened.policy,
            job.query(),
            counts,
            tools.draw,
        )

    def _store_all(self, found: list[_Storing]) -> list[Exception | None]:
        """One transaction: an answer's secrets, and one participation more of each of its documents."""
        rows: list[Row] = [(*query_key(one.job.opened.digest, one.job.message), one.kept.encode()) for one in found]
        with self._filter:
            with self._state.transaction() as db:
                store_secrets(db, rows)
                for one in found:
                    self._participations.charge(db, one.job.opened.digest, one.part.documents)
            self._release([one.part for one in found])
        return [None] * len(found)
