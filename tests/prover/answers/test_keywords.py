# SPDX-License-Identifier: GPL-3.0-or-later
"""From answers to keywords and counts, and from keywords to the last answer."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np
import pytest

from ragseal.generators import NOTHING
from ragseal.kernel.errors import EncodingError, TransportError
from ragseal.prover.answers.each import answer_each
from ragseal.prover.answers.final import final_answer, zero_shot
from ragseal.prover.answers.histogram import Histogram, histogram_of, votes_of, zero_one
from ragseal.prover.answers.keywords import MAX_CHARACTERS, MAX_KEYWORDS, STOP_WORDS, keywords_of

WORDS = ("ash", "bay", "cod")
VOTES = [frozenset(vote) for size in range(4) for vote in itertools.combinations(WORDS, size)]


@pytest.mark.parametrize(
    ("text", "keywords"),
    [("", set()), ("the of and", set()), ("The Imperial Family", {"imperial", "family"}),
     ("FAMILY, family!", {"family"}),
     ("Tokyo's palace; O’Brien", {"tokyo", "palace", "o'brien"}), ("3.14, 1,000 and 1869.", {"3.14", "1,000", "1869"}),
     ("ﬁne Straße ＡＢＣ", {"fine", "strasse", "abc"}), ("well-known snake_case", {"snake", "case"}),
     ("don't isn't", set()), ("x" * (MAX_CHARACTERS + 1), set()), ("北京 is big", {"北京", "big"})],
)  # fmt: skip
def test_keywords(text: str, keywords: set[str]) -> None:
    assert keywords_of(text) == keywords


def test_stop_words_are_spelt_as_keywords_are() -> None:
    for word in STOP_WORDS:
        assert keywords_of(word, ()) == {word}
    assert keywords_of("It's what she'd say, and that's that.") == set()


def test_other_stop_words_and_a_vocabulary_can_be_named() -> None:
    assert keywords_of("the cod of the bay", {"bay"}) == {"the", "cod", "of"}
    assert keywords_of("the cod of the bay", vocabulary={"bay", "the"}) == {"bay"}


def test_a_long_answer_names_its_first_keywords() -> None:
    text = " ".join(f"w{i} w{i}" for i in range(MAX_KEYWORDS + 5))
    assert keywords_of(text) == {f"w{i}" for i in range(MAX_KEYWORDS)}


def test_counts_ranks_and_gaps() -> None:
    found = histogram_of(votes_of(["cod bay cod", "cod", "", "bay cod ash"]))
    assert found == Histogram(4, (("ash", 1), ("bay", 2), ("cod", 3)))
    assert found.ranked == (("cod", 3), ("bay", 2), ("ash", 1))
    assert [found.count(k) for k in (1, 2, 3, 4, 9)] == [3, 2, 1, 0, 0]
    assert [found.gap(k) for k in (1, 2, 3, 4)] == [1, 1, 1, 0]
    assert found.top(2) == ("bay", "cod")  # not by count
    assert histogram_of([]) == Histogram(0, ())


def test_zero_one_vectors_sum_to_the_histogram() -> None:
    votes = votes_of(["cod bay cod", "cod", "", "bay cod ash"])
    rows = zero_one(votes, WORDS)
    assert rows.dtype == np.uint8
    assert rows.tolist() == [[0, 1, 1], [0, 0, 1], [0, 0, 0], [1, 1, 1]]
    assert dict(zip(WORDS, rows.sum(axis=0).tolist(), strict=True)) == dict(histogram_of(votes).counts)
    with pytest.raises(EncodingError, match="twice"):
        zero_one(votes, (*WORDS, "ash"))
    with pytest.raises(EncodingError, match="not in the vocabulary"):
        zero_one(votes, WORDS[:2])


def test_one_changed_vote_moves_a_count_by_one_and_a_gap_by_two() -> None:
    most_count = most_gap = 0
    for rest in itertools.combinations_with_replacement(VOTES, 2):
        for one, other in itertools.combinations(VOTES, 2):
            before, after = histogram_of([*rest, one]), histogram_of([*rest, other])
            for k in range(1, 5):
                most_count = max(most_count, abs(before.count(k) - after.count(k)))
                most_gap = max(most_gap, abs(before.gap(k) - after.gap(k)))
                if before.gap(k) > 2:
                    assert before.top(k) == after.top(k)
    assert (most_count, most_gap) == (1, 2)  # the gap reaches 2


# --- answers ---------------------------------------------------------------------------------------------------------


class Repeating:
    """Says what a document says, and remembers what it was asked."""

    name = "repeating"

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[str, ...], tuple[str, ...]]] = []
        self.broken_at = ""
        self.fault: Exception = TransportError("away")

    def answer(self, question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> str:
        self.asked.append((tuple(contexts), tuple(keywords)))
        if self.broken_at in [*contexts, *keywords]:
            raise self.fault
        return " ".join([*contexts, *keywords]) or NOTHING


def test_each_document_is_asked_about_by_itself() -> None:
    generator, told = Repeating(), []
    found = answer_each(generator, "q", ["b", "a", "b"], lambda *at: told.append(at))
    assert found.texts == ("b", "a", "b")
    assert generator.asked == [(("b",), ()), (("a",), ()), (("b",), ())]
    assert told == [(1, 3), (2, 3), (3, 3)]


def test_one_changed_document_changes_one_answer_even_where_it_breaks_the_model() -> None:
    generator = Repeating()
    generator.broken_at = "broken"
    before = answer_each(generator, "q", ["a", "b", "c"])
    after = answer_each(generator, "q", ["a", "broken", "c"])
    assert [x != y for x, y in zip(before.texts, after.texts, strict=True)] == [False, True, False]
    assert (after.texts[1], after.failed) == ("", ((1, "away"),))


@pytest.mark.parametrize("fault", [ValueError("a text"), RuntimeError("a model"), MemoryError(), RecursionError()])
def test_no_fault_of_a_document_leaves_its_own_answer(fault: Exception) -> None:
    """An error in place of the account's answer would say that the document was retrieved, and no noise hides that."""
    generator = Repeating()
    generator.broken_at, generator.fault = "broken", fault
    found = answer_each(generator, "q", ["a", "broken", "c"])
    assert found.texts == ("a", "", "c")
    assert found.failed == ((1, type(fault).__name__),)  # its words may be the document's
    assert final_answer(generator, "q", ["broken"], NOTHING) == NOTHING


def test_the_last_answer_rests_on_keywords_in_canonical_order() -> None:
    generator = Repeating()
    assert final_answer(generator, "q", ["cod", "ash", "cod"], NOTHING) == "ash cod"
    assert generator.asked == [((), ("ash", "cod"))]


def test_without_keywords_and_with_a_model_that_fails_it_is_the_answer_without() -> None:
    generator = Repeating()
    without = zero_shot(generator, "q")
    assert final_answer(generator, "q", [], without) == without == NOTHING
    assert len(generator.asked) == 1
    generator.broken_at = "ash"
    assert final_answer(generator, "q", ["ash"], without) == NOTHING
