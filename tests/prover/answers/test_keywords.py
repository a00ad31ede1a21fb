# SPDX-License-Identifier: GPL-3.0-or-later
"""From answers to keywords and counts, and from keywords to the last answer."""

from __future__ import annotations

import hmac
import itertools
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction

import numpy as np
import pytest

from ragseal.generators import NOTHING
from ragseal.kernel.errors import ConfigurationError, EncodingError, TransportError
from ragseal.prover.answers.each import answer_each
from ragseal.prover.answers.final import final_answer, zero_shot
from ragseal.prover.answers.histogram import Histogram, histogram_of, votes_of, zero_one
from ragseal.prover.answers.keywords import MAX_CHARACTERS, MAX_KEYWORDS, STOP_WORDS, keywords_of
from ragseal.prover.answers.sampling import (
    coin,
    discrete_gaussian,
    discrete_laplace,
    exponential_choice,
    exponential_coin,
)
from ragseal.prover.answers.stream import Stream, answer_key

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


# Exact draws: bits of a key are what they are, frequencies are those of the laws, within what chance allows.


DRAWS = 6000
LIMIT = 5.0  #: standard deviations; the streams are fixed, so a test that passes once passes always


def stream(name: str) -> Stream:
    return Stream(name.encode().ljust(32, b"\0"))


def close(draw: Callable[[], int], law: Mapping[int, float], draws: int = DRAWS) -> None:
    """Every value as often as its probability says, and none that has none."""
    counts = Counter(draw() for _ in range(draws))
    total = math.fsum(law.values())
    assert set(counts) <= set(law)
    for value, weight in law.items():
        p = weight / total
        assert abs(counts[value] - draws * p) <= LIMIT * math.sqrt(draws * p * (1 - p)) + 1


# --- bits ------------------------------------------------------------------------------------------------------------


def test_a_key_of_another_length_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="takes 32"):
        Stream(b"short")


def test_bits_are_those_of_hmac_sha_512_in_counter_mode_each_used_once() -> None:
    key = bytes(range(32))
    blocks = [hmac.digest(key, b"ragseal/private-answer/" + i.to_bytes(8, "big"), "sha512") for i in range(3)]
    whole = int.from_bytes(b"".join(blocks), "big")
    made = Stream(key)
    widths = [1, 7, 0, 500, 9, 512, 400, 107]
    joined = 0
    for width in widths:
        joined = joined << width | made.bits(width)
    assert sum(widths) == 1536
    assert joined == whole


def test_integers_below_a_bound_are_uniform() -> None:
    for bound in (1, 2, 5, 8):
        made = stream(f"below {bound}")
        close(lambda made=made, bound=bound: made.below(bound), dict.fromkeys(range(bound), 1.0))


def test_a_key_differs_with_each_thing_that_it_is_of() -> None:
    asked = ((1, 2), 3, b"window", "ann", 1, "who?")
    others = [((2, 1), *asked[1:]), ((1, 2), 4, *asked[2:]), ((1, 2), 3, b"windox", "ann", 1, "who?"),
              ((1, 2), 3, b"window", "bob", 1, "who?"), ((1, 2), 3, b"window", "ann", 2, "who?"),
              ((1, 2), 3, b"windo", "wann", 1, "who?"), ((1, 2), 3, b"window", "ann", 1, "why?")]  # fmt: skip
    keys = {answer_key(*one) for one in [asked, asked, *others]}
    assert len(keys) == 1 + len(others)
    assert {len(key) for key in keys} == {32}


# --- laws ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [Fraction(0), Fraction(1), Fraction(2, 7)])
def test_a_rational_coin(p: Fraction) -> None:
    made = stream(f"coin {p}")
    close(lambda: int(coin(made, p)), {one: q for one, q in ((1, float(p)), (0, float(1 - p))) if q})


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(5, 2)])
def test_an_exponential_coin(x: Fraction) -> None:
    made = stream(f"exponential {x}")
    p = math.exp(-x)
    close(lambda: int(exponential_coin(made, x)), {one: q for one, q in ((1, p), (0, 1 - p)) if q})


@pytest.mark.parametrize("scale", [1, 3])
def test_the_discrete_laplace_law(scale: int) -> None:
    made = stream(f"laplace {scale}")
    close(lambda: discrete_laplace(made, scale), {x: math.exp(-abs(x) / scale) for x in range(-60, 61)}, 3000)


@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(4), Fraction(133, 10)])
def test_the_discrete_gaussian_law(variance: Fraction) -> None:
    made = stream(f"gaussian {variance}")
    law = {x: math.exp(-x * x / (2 * variance)) for x in range(-40, 41)}
    close(lambda: discrete_gaussian(made, variance), {x: w for x, w in law.items() if w}, 3000)


def test_the_exponential_choice() -> None:
    utilities = [Fraction(0), Fraction(-3, 2), Fraction(1, 3), Fraction(0)]
    made = stream("choice")
    close(lambda: exponential_choice(made, utilities), {i: math.exp(u) for i, u in enumerate(utilities)})


def test_draws_are_the_same_on_every_machine() -> None:
    made = stream("vector")
    drawn = [discrete_gaussian(made, Fraction(59, 8)) for _ in range(12)]
    assert drawn == VECTOR
    assert [exponential_choice(made, [Fraction(i, 5) for i in range(9)]) for _ in range(8)] == CHOSEN


VECTOR = [0, -2, 1, -8, -1, 5, -4, 5, 1, 0, -6, -1]
CHOSEN = [7, 8, 4, 2, 8, 8, 1, 4]
