# SPDX-License-Identifier: GPL-3.0-or-later
"""DP-KSA: private answers of a provider that nobody checks ("Differentially Private Retrieval-Augmented Generation").

N documents are retrieved and answered from one by one; keywords that many of the answers share are released with noise;
the account gets an answer from question and keywords.  For two indices that differ in one document's content, and any
k_max accounts with n_max answers each, the answers are (epsilon, delta)-indistinguishable, up to the key's
pseudorandomness, if two things hold: an answer rests on its own document alone (:class:`ragseal.generators.Generator`),
and one document changes one of those retrieved, as in an exact search (an approximate one may differ in many).  Not
covered: how long an answer takes, and how many documents the index has.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Sequence
from dataclasses import dataclass

from ragseal.generators import Generator
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.answers.budget import AnswerPolicy, Budget
from ragseal.prover.answers.each import Progress, answer_each
from ragseal.prover.answers.final import final_answer, zero_shot
from ragseal.prover.answers.histogram import Histogram, histogram_of, votes_of
from ragseal.prover.answers.keywords import STOP_WORDS, keywords_of
from ragseal.prover.answers.release import Released, release
from ragseal.prover.answers.stream import Stream

#: ``retrieve(question, n)``: the n nearest documents, or all there are.
Retrieve = Callable[[str, int], Sequence[str]]

#: ``key(account, count, question)``: of the noise of an account's count-th answer, see
#: :func:`ragseal.prover.answers.stream.answer_key`.
Key = Callable[[str, int, str], bytes]


@dataclass(frozen=True, slots=True)
class PrivateAnswer:
    """``text`` and ``released`` are the account's; ``failed``, documents without an answer, the operator's alone."""

    text: str
    released: Released
    failed: tuple[tuple[int, str], ...]


class PrivateAnswers:
    """Answers under one policy, for one index."""

    def __init__(
        self,
        generator: Generator,
        retrieve: Retrieve,
        policy: AnswerPolicy,
        budget: Budget,
        key: Key,
        stop_words: frozenset[str] = STOP_WORDS,
    ) -> None:
        """
        Raises:
            PolicyError: a policy that no noise keeps.
        """
        self._generator = generator
        self._retrieve = retrieve
        self._policy = policy
        self._budget = budget
        self._key = key
        self._stop_words = stop_words
        self._cost = policy.cost()

    def answer(self, account: str, question: str, progress: Progress | None = None) -> PrivateAnswer:
        """One answer, for one unit of the account's budget.

        Whatever can go wrong goes wrong before that is spent and does not depend on what any document says.

        Raises:
            BudgetError: the account has had all its answers.
            ConfigurationError: the index has fewer documents than an answer takes.
            AuditError: the generator does not answer the question at all.
        """
        self._budget.check(account)
        without = zero_shot(self._generator, question)
        documents = retrieved(self._retrieve, question, self._policy.documents)
        answers = answer_each(self._generator, question, documents, progress)
        histogram = keyword_histogram(question, answers.texts, self._stop_words)
        count = self._budget.spend(account)
        released = release(histogram, self._policy.ks, self._cost, Stream(self._key(account, count, question)))
        return PrivateAnswer(final_answer(self._generator, question, released.words, without), released, answers.failed)


def retrieved(retrieve: Retrieve, question: str, count: int) -> Sequence[str]:
    """``count`` documents.

    Raises:
        ConfigurationError: there are fewer, or none.
    """
    documents = retrieve(question, count)
    if not documents:
        raise ConfigurationError("the index is empty: put documents into it before asking for private answers")
    if len(documents) < count:
        raise ConfigurationError(
            f"the index has {len(documents)} documents, a private answer takes {count}: put more, or take a smaller "
            "ensemble"
        )
    return documents[:count]


def keyword_histogram(question: str, answers: Sequence[str], stop_words: Container[str] = STOP_WORDS) -> Histogram:
    """How many answers hold each keyword that the question does not hold itself: the account knows those, and answers
    that repeat the question would agree on nothing else."""
    asked = keywords_of(question, stop_words)
    return histogram_of([vote - asked for vote in votes_of(answers, stop_words)])
