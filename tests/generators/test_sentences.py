# SPDX-License-Identifier: GPL-3.0-or-later
"""The generator of sentences: which one it says, and that no other text has a part in that."""

from __future__ import annotations

import gc
import random
from weakref import WeakValueDictionary

import pytest

from ragseal.generators import NOTHING, Generator, SentenceGenerator, Sentences, chosen_sentence
from ragseal.generators import sentences as module
from ragseal.generators.extractive import sentences_of
from ragseal.generators.sentences import MAX_READ, ReadText
from ragseal.kernel.errors import EncodingError

PALACE = "It will rain. The family lives in the palace in Tokyo. More rain!"


def trigrams(text: str) -> set[str]:
    """By the sets' own definition, without hashes."""
    words = "".join(letter if letter.isalnum() else " " for letter in text.casefold()).split()
    padded = f" {' '.join(words)} "
    return {padded[at : at + 3] for at in range(len(padded) - 2)}


def test_blank_questions_are_refused() -> None:
    with pytest.raises(EncodingError, match="the question is blank"):
        SentenceGenerator().answer(" ", ["text"])


def test_the_best_sentence_answers() -> None:
    generator: Generator = SentenceGenerator()
    assert generator.answer("who lives in the palace in tokyo?", [PALACE]) == "The family lives in the palace in Tokyo."
    assert generator.answer("rain?", ["Rain fell. Rain fell."]) == "Rain fell."
    assert Sentences(["Rain fell. Rain fell."]).chosen("rain?") == [0], "of equals the earlier one"
    assert generator.answer("about harbours", ["Nothing. A meadow.", "One harbour is here."]) == "One harbour is here."
    assert generator.answer("???", ["... !!!"]) == "... !!!"


def test_short_words_of_a_question_count_only_where_it_has_no_others() -> None:
    text = "It is the sum of the day. Copper."
    assert SentenceGenerator().answer("what is the copper of the day", [text]) == "Copper."
    assert SentenceGenerator().answer("is it", ["Copper. It is."]) == "It is."


def test_keywords_steer_the_choice_and_alone_are_the_answer() -> None:
    generator = SentenceGenerator()
    assert generator.answer("what?", ["Rain falls. Family matters."], ["family"]) == "Family matters."
    assert generator.answer("who?", [], ["family", "imperial"]) == "family, imperial"
    assert generator.answer("who?", []) == NOTHING


def test_the_beginning_of_a_text_is_read_and_no_more() -> None:
    """So no text, however long, costs the others' time."""
    text = "word " * (MAX_READ // 5) + "\nThe harbour."
    assert "harbour" not in SentenceGenerator().answer("the harbour?", [text])
    assert "harbour" in SentenceGenerator().answer("the harbour?", [text[60:]])


def test_the_score_is_the_damped_cosine_of_the_sets() -> None:
    rng = random.Random(7)
    words = ["".join(rng.choices("abcdé ß", k=rng.randint(4, 9))).strip() or "long" for _ in range(60)]
    for _ in range(200):
        text = " ".join(" ".join(rng.choices(words, k=rng.randint(1, 8))).capitalize() + "." for _ in range(7))
        question = rng.choice(words)
        asked = trigrams(" ".join([word for word in question.casefold().split() if len(word) > 3] or question.split()))
        scores = []
        for sentence in sentences_of(text):
            own = trigrams(sentence)
            # one more: a sentence without a trigram has a size too
            scores.append(len(own & asked) ** 2 / (len(own) + 1 + 100))
        assert Sentences([text]).chosen(question) == [scores.index(max(scores))]


@pytest.mark.parametrize("others", [0, 1, 40, 1500])
def test_no_other_text_has_a_part_in_what_is_chosen(others: int) -> None:
    rng = random.Random(others)
    words = ["copper", "harbour", "lantern", "meadow", "palace", "family", "rain", "report"]

    def text() -> str:
        return " ".join(" ".join(rng.choices(words, k=5)).capitalize() + "." for _ in range(rng.randint(0, 9)))

    mine = "Rain on the meadow. A lantern in the harbour. Copper."
    texts = [text() for _ in range(others)]
    at = rng.randint(0, others)
    read = Sentences([*texts[:at], mine, *texts[at:]])
    assert len(read) == others + 1
    chosen = read.chosen("where is the lantern?")
    assert chosen_sentence(mine, chosen[at]) == "A lantern in the harbour."
    for place, one in enumerate([*texts[:at], mine, *texts[at:]]):
        assert (chosen[place] < 0) == (not one)
        assert chosen_sentence(one, chosen[place]) == (
            SentenceGenerator().answer("where is the lantern?", [one]) if one else ""
        )


def test_an_index_without_texts_has_no_sentence() -> None:
    assert Sentences([]).chosen("what?") == []
    assert Sentences(["", " \n"]).chosen("what?") == [-1, -1]
    assert chosen_sentence("", -1) == ""


def test_a_text_that_is_known_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """And counts for what it counted for, wherever it stands now."""
    asked: list[str] = []
    real = module.sentences_of

    def seen(text: str) -> list[str]:
        asked.append(text)
        return real(text)

    monkeypatch.setattr(module, "sentences_of", seen)
    known: WeakValueDictionary[bytes, ReadText] = WeakValueDictionary()
    texts = ["Rain on the meadow. A lantern in the harbour.", "", PALACE, PALACE]
    first = Sentences(texts, known)
    asked.clear()
    second = Sentences([PALACE, "Copper. The lantern.", *texts], known)
    assert asked == ["Copper. The lantern."]
    question = "where is the lantern?"
    assert second.chosen(question)[2:] == first.chosen(question)
    assert second.chosen(question) == Sentences([PALACE, "Copper. The lantern.", *texts]).chosen(question)
    del second
    gc.collect()
    assert len(known) == 3, "of what nobody keeps nothing is known"


def test_a_surrogate_in_a_text_is_read() -> None:
    assert Sentences(["One \ud800 harbour. Copper."], {}).chosen("copper") == [1]
