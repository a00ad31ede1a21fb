# SPDX-License-Identifier: GPL-3.0-or-later
"""DP-KSA from question to answer: what is released and in which order, what is refused, and when a budget is spent."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from ragseal.accounting.keyword_release import ReleaseCost, threshold_for
from ragseal.generators import NOTHING, Generator
from ragseal.kernel.errors import BudgetError, ConfigurationError, EncodingError, PolicyError, TransportError
from ragseal.prover.answers.budget import AnswerPolicy, Budget
from ragseal.prover.answers.dpksa import PrivateAnswers, keyword_histogram
from ragseal.prover.answers.histogram import Histogram
from ragseal.prover.answers.release import Range, needed_noise, release
from ragseal.prover.answers.stream import Stream
from tests.embedder.embedding_server import Reply
from tests.generators.chat_server import ChatServer, chatting, reply

#: So little noise that what documents agree on comes through.
POLICY = AnswerPolicy(60.0, Fraction(1, 10**3), n_max=2, k_max=1, documents=20, ks=Range(1, 4), exact=False)
DOCUMENTS = ["The imperial family is there."] * 20
VARIANCE = Fraction(59, 8)


class Echo:
    """Says what the documents say, or the keywords."""

    name = "echo"

    def answer(self, question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> str:
        return " ".join([*contexts, *keywords]) or NOTHING


def key(account: str, count: int, question: str = "") -> bytes:
    return hashlib.sha256(f"{account} {count}".encode()).digest()


def answers(
    generator: Generator | None = None, documents: Sequence[str] = DOCUMENTS, policy: AnswerPolicy = POLICY
) -> tuple[PrivateAnswers, Budget]:
    budget = Budget(policy.n_max)
    return PrivateAnswers(generator or Echo(), lambda _, n: documents[:n], policy, budget, key), budget


# --- the release -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("low", "high"), [(0, 3), (3, 2), (1, 129)])
def test_ranges_that_release_nothing_are_refused(low: int, high: int) -> None:
    with pytest.raises(PolicyError, match="1 <= k_low <= k_high"):
        Range(low, high)


def test_a_regulariser_names_each_k() -> None:
    with pytest.raises(PolicyError, match="each k from 2 to 4"):
        Range(2, 4, (Fraction(1),))
    histogram = Histogram(9, (("a", 9), ("b", 8), ("c", 3)))
    assert Range(1, 3).utilities(histogram) == [1, 5, 3]
    assert Range(2, 3, (Fraction(-9, 2), Fraction(0))).utilities(histogram) == [Fraction(1, 2), 3]
    assert (Range(1, 3).best(histogram), Range(2, 3, (Fraction(-9, 2), Fraction(0))).best(histogram)) == (2, 3)


def test_a_gap_of_two_or_less_passes_as_seldom_as_delta_says() -> None:
    cost = ReleaseCost(Fraction(1), VARIANCE, threshold_for(VARIANCE, Fraction(1, 1000)))
    needed = [needed_noise(Histogram(9, (("a", gap),)), 1, cost) for gap in range(6)]
    assert needed == [cost.threshold + x for x in (0, 0, 0, -1, -2, -3)]


def test_words_come_in_the_order_of_the_alphabet_whatever_their_counts() -> None:
    cost = ReleaseCost(Fraction(50), VARIANCE, threshold_for(VARIANCE, Fraction(1, 1000)))
    for counts in ((60, 70, 80), (80, 70, 60), (70, 80, 60)):
        histogram = Histogram(80, tuple(zip(("ash", "bay", "cod"), counts, strict=True)))
        found = release(histogram, Range(3, 3), cost, Stream(key("a", 1)))
        assert (found.words, found.passed) == (("ash", "bay", "cod"), True)


def test_a_release_is_bit_for_bit_that_of_its_key() -> None:
    cost = ReleaseCost(Fraction(1, 4), VARIANCE, 9)
    histogram = Histogram(20, (("ash", 3), ("bay", 14), ("cod", 5)))
    drawn = [release(histogram, Range(1, 4), cost, Stream(key("vector", i))) for i in range(10)]
    assert drawn == [release(histogram, Range(1, 4), cost, Stream(key("vector", i))) for i in range(10)]
    assert "".join(f"{one.k}{'+' if one.passed else '-'}" for one in drawn) == VECTOR


def test_the_questions_own_words_are_no_keywords_of_its_answer() -> None:
    found = keyword_histogram("Who lives in the Palace?", ["The palace lives.", "Family in the palace"])
    assert found.counts == (("family", 1),)


# --- an answer -------------------------------------------------------------------------------------------------------


def test_keywords_that_all_documents_share_come_through() -> None:
    asked, budget = answers()
    told: list[tuple[int, int]] = []
    found = asked.answer("ann", "who is there?", lambda *at: told.append(at))
    assert found.released.passed
    assert found.released.words == ("family", "imperial")
    assert found.text == " ".join(found.released.words)
    assert found.failed == ()
    assert told[-1] == (20, 20)
    assert budget.spent() == {"ann": 1}


def test_without_agreement_the_answer_is_that_without_documents() -> None:
    found = answers(documents=[f"word{i}" for i in range(20)])[0].answer("ann", "who is there?")
    assert (found.text, found.released.words) == (NOTHING, ())


def test_an_answer_draws_noise_of_its_own() -> None:
    keys: list[tuple[str, int, str]] = []

    def noted(account: str, count: int, question: str) -> bytes:
        keys.append((account, count, question))
        return key(account, count)

    asked = PrivateAnswers(Echo(), lambda _, n: DOCUMENTS[:n], POLICY, Budget(2), noted)
    for account in ("ann", "bob", "ann"):
        asked.answer(account, "who?")
    assert keys == [("ann", 1, "who?"), ("bob", 1, "who?"), ("ann", 2, "who?")]


def test_a_question_past_the_budget_is_refused_before_anybody_is_asked() -> None:
    asked, budget = answers()
    for _ in range(2):
        asked.answer("ann", "who?")
    calls: list[str] = []
    asked = PrivateAnswers(Echo(), lambda q, n: calls.append(q) or DOCUMENTS[:n], POLICY, budget, key)
    with pytest.raises(BudgetError, match="ann has had its 2 answers"):
        asked.answer("ann", "who?")
    with pytest.raises(BudgetError):
        budget.spend("ann")
    assert not calls
    assert budget.spent() == {"ann": 2}
    assert asked.answer("bob", "who?").text
    assert Budget(2, budget.spent()).spent() == {"ann": 2, "bob": 1}


@pytest.mark.parametrize(
    ("documents", "match"), [([], "the index is empty"), (DOCUMENTS[:19], "has 19 documents.*takes 20")]
)
def test_too_small_an_index_is_refused_and_costs_nothing(documents: list[str], match: str) -> None:
    asked, budget = answers(documents=documents)
    with pytest.raises(ConfigurationError, match=match):
        asked.answer("ann", "who?")
    assert budget.spent() == {}


@pytest.mark.parametrize("changes", [{"n_max": 0}, {"k_max": 0}, {"documents": 0}, {"documents": 1001}])
def test_policies_that_mean_nothing_are_refused(changes: dict[str, Any]) -> None:
    with pytest.raises(PolicyError):
        replace(POLICY, **changes)


def test_a_policy_pays_for_all_answers_of_a_coalition() -> None:
    together = replace(POLICY, k_max=3).cost()
    assert together == replace(POLICY, n_max=6).cost()
    assert together.renyi_epsilon(6, 1e-3) <= 60.0 < together.renyi_epsilon(9, 1e-3)


# --- a served model --------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def running() -> Iterator[ChatServer]:
    with chatting(lambda system, user: "the imperial family" if "Text 1" in user else user.splitlines()[0]) as made:
        yield made


@pytest.fixture
def server(running: ChatServer) -> ChatServer:
    running.replies.clear()
    running.asked.clear()
    running.away = False
    return running


def test_one_document_changed_changes_one_request(server: ChatServer) -> None:
    documents = [f"Text of {i}." for i in range(20)]
    asked, _ = answers(server.generator(), documents)
    found = asked.answer("ann", "who?")
    assert set(found.released.words) <= {"imperial", "family"}
    before = [one.body for one in server.asked]
    server.asked.clear()
    changed = [*documents[:7], "Something else.", *documents[8:]]
    asked, _ = answers(server.generator(), changed[::-1])  # nor does a document's rank matter
    asked.answer("ann", "who?")
    after = [one.body for one in server.asked]
    texts = [
        sorted(str((one["messages"][1]["content"], one["seed"])) for one in bodies[1:21]) for bodies in (before, after)
    ]
    assert len(set(texts[0]) ^ set(texts[1])) == 2
    assert "imperial" in before[21]["messages"][1]["content"] or "family" in before[21]["messages"][1]["content"]
    assert not any(text in before[21]["messages"][1]["content"] for text in documents)


def _away(server: ChatServer) -> None:
    server.away = True


def _silent(server: ChatServer) -> None:
    server.replies.append(reply(""))


def _refusing(server: ChatServer) -> None:
    server.replies.append(Reply(400, b"no"))


@pytest.mark.parametrize(
    ("breaks", "error"), [(_away, TransportError), (_silent, TransportError), (_refusing, EncodingError)]
)
def test_a_model_that_does_not_answer_the_question_costs_nothing(
    server: ChatServer, breaks: Callable[[ChatServer], None], error: type[Exception]
) -> None:
    breaks(server)
    asked, budget = answers(server.generator(attempts=2))
    with pytest.raises(error):
        asked.answer("ann", "who?")
    assert budget.spent() == {}


@pytest.mark.parametrize("bad", [reply(""), Reply(400, b"too long"), Reply(body=b"?")])
def test_a_document_that_breaks_the_model_is_one_empty_answer_and_no_error(server: ChatServer, bad: Reply) -> None:
    server.replies += [reply("from memory"), reply("the family"), bad]
    asked, budget = answers(server.generator())
    found = asked.answer("ann", "who?")
    assert [i for i, _ in found.failed] == [1]
    assert found.released.passed
    assert budget.spent() == {"ann": 1}


def test_a_model_that_fails_at_the_end_leaves_the_answer_without_documents(server: ChatServer) -> None:
    server.replies += [reply("from memory"), *itertools.repeat(reply("the family"), 20), reply("")]
    found = answers(server.generator())[0].answer("ann", "who?")
    assert found.released.passed
    assert found.text == "from memory"


VECTOR = "1-4-4-1-4-1+2-3-3-2-"
