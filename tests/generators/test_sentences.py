# SPDX-License-Identifier: GPL-3.0-or-later
"""The generator of sentences: which one it says, and that no other text has a part in that."""

from __future__ import annotations

import gc
import random
import threading
import time
from collections.abc import Sequence
from typing import Any, cast
from weakref import WeakValueDictionary

import numpy as np
import pytest

from ragseal.embedder import Embedder
from ragseal.embedder.interface import Vectors
from ragseal.generators import (
    NOTHING,
    ExtractiveGenerator,
    Generator,
    SentenceGenerator,
    Sentences,
    chosen_sentence,
    named_generator,
)
from ragseal.generators import sentences as module
from ragseal.generators.alone import AloneGenerator
from ragseal.generators.extractive import MAX_SENTENCE, sentences_of
from ragseal.generators.interface import Limited, within
from ragseal.generators.sentences import MAX_READ, ReadText
from ragseal.kernel.errors import ConfigurationError, EncodingError, TransportError
from tests.generators.chat_server import chatting

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


# Answers from the sentences of the texts: which ones, in which order, and what there is without any.


WORDS = ("tokyo", "palace", "family", "rain")


class Counting:
    """Vectors that count words, and remember what was embedded: an embedder whose scores can be worked out by hand."""

    def __init__(self) -> None:
        self.seen: list[tuple[str, ...]] = []

    def embed(self, texts: Sequence[str], *, role: str = "document", progress: Any = None) -> Vectors:
        self.seen.append(tuple(texts))
        rows = [[1.0, *(float(text.lower().count(word)) for word in WORDS)] for text in texts]
        return np.array([np.array(row) / np.linalg.norm(row) for row in rows], dtype=np.float32)


@pytest.fixture
def embedder() -> Embedder:
    return cast(Embedder, Counting())


def test_a_generator_without_sentences_is_refused(embedder: Embedder) -> None:
    with pytest.raises(ConfigurationError, match="at least one"):
        ExtractiveGenerator(embedder, 0)


def test_blank_questions_get_no_sentences(embedder: Embedder) -> None:
    with pytest.raises(EncodingError, match="the question is blank"):
        ExtractiveGenerator(embedder).answer(" ", ["text"])


def test_the_best_sentence_stands_first(embedder: Embedder) -> None:
    text = "It will rain. The family lives in the palace in Tokyo. More rain!"
    generator: Generator = ExtractiveGenerator(embedder)
    assert generator.answer("who lives in the palace in tokyo?", [text]) == "The family lives in the palace in Tokyo."
    assert generator.answer("rain?", [text]) == "It will rain."  # of equals the earlier one
    assert generator.name == "extractive-1"


def test_several_stand_in_the_order_of_the_texts(embedder: Embedder) -> None:
    generator = ExtractiveGenerator(embedder, 2)
    assert (
        generator.answer("tokyo palace", ["Tokyo. Rain.", "Nothing. A palace in tokyo."]) == "Tokyo. A palace in tokyo."
    )


def test_keywords_steer_the_choice(embedder: Embedder) -> None:
    text = "Rain falls. Family matters."
    assert ExtractiveGenerator(embedder).answer("what?", [text], ["family"]) == "Family matters."


def test_keywords_alone_are_the_answer_and_nothing_is_said_to_be_nothing(embedder: Embedder) -> None:
    generator = ExtractiveGenerator(embedder)
    assert generator.answer("who?", [], ["family", "imperial"]) == "family, imperial"
    assert generator.answer("who?", []) == NOTHING
    assert cast(Counting, embedder).seen == []


def test_an_answer_rests_on_its_own_call_alone(embedder: Embedder) -> None:
    generator = ExtractiveGenerator(embedder)
    texts = ["Rain. Tokyo.", "Palace. Family.", "Rain. Rain again."]
    alone = [generator.answer("family", [text]) for text in texts]
    for seen in cast(Counting, embedder).seen:
        assert len({text.split(".")[0] for text in seen}) <= 2  # the question, or the sentences of one text
    assert [generator.answer("family", [text]) for text in reversed(texts)] == alone[::-1]


@pytest.mark.parametrize(
    ("text", "sentences"),
    [("", []), (" \n ", []), ("one", ["one"]), ("One. Two! Three?", ["One.", "Two!", "Three?"]),
     ("pi is 3.14 and e.g. this", ["pi is 3.14 and e.g. this"]), ("a\n\nb", ["a", "b"]),
     ('"Yes." He left.', ['"Yes."', "He left."]), ("He left (late). So did I.", ["He left (late).", "So did I."]),
     ("word " * 300, [("word " * 200).strip(), ("word " * 100).strip()]),
     ("x" * 2500, ["x" * 1000, "x" * 1000, "x" * 500])],
)  # fmt: skip
def test_sentences(text: str, sentences: list[str]) -> None:
    assert sentences_of(text) == sentences
    assert all(0 < len(sentence) <= MAX_SENTENCE for sentence in sentences_of(text))


def test_a_text_of_blanks_takes_no_longer_than_another() -> None:
    """Else one document could hold up the answers of which others are part."""
    began = time.process_time()
    assert sentences_of("one" + 100_000 * " " + "two") == ["one", "two"]
    assert time.process_time() - began < 1


# A model in two places: no document reaches the second one, and none is waited for there.


def test_what_is_asked_without_documents_does_not_wait_for_those(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KEY_OF_BOTH", "k")
    go, asked = threading.Event(), threading.Event()

    def busy(system: str, user: str) -> str:
        asked.set()
        assert go.wait(20)
        return "of a document"

    with chatting(busy) as first, chatting(lambda system, user: f"alone: {user}") as second:
        names = f"chat:big@{first.base}", f"chat:big@{second.base}"
        generator = named_generator(names[0], "KEY_OF_BOTH", alone=names[1], quotes=False)
        said: list[str] = []
        about = threading.Thread(target=lambda: said.append(generator.answer("What?", ["a secret document"])))
        about.start()
        assert asked.wait(20)
        assert "What?" in generator.answer("What?", [])
        assert "copper" in generator.answer("What?", [], ["copper"])
        assert said == []
        go.set()
        about.join(20)
        assert said == ["of a document"]
        assert "secret" not in repr(second.asked)
        assert len(second.asked) == 2
    assert "without documents chat:big" in generator.name


def test_both_places_give_up_in_time() -> None:
    go = threading.Event()

    def stuck(system: str, user: str) -> str:
        go.wait(20)
        return "late"

    with chatting(stuck) as first, chatting(stuck) as second:
        generator = named_generator(f"chat:big@{first.base}", alone=f"chat:big@{second.base}")
        assert isinstance(generator, AloneGenerator)
        assert isinstance(generator, Limited)
        for contexts in ([], ["a document"]):
            with pytest.raises(TransportError):
                within(generator, 0.3).answer("What?", contexts)
        go.set()


@pytest.mark.parametrize(
    "names", [("extractive", "chat:m@http://localhost:1/v1"), ("chat:m@http://localhost:1/v1", "extractive")]
)
def test_the_generator_of_sentences_has_no_second_server(names: tuple[str, str]) -> None:
    with pytest.raises(ConfigurationError, match="second server"):
        named_generator(names[0], alone=names[1])
