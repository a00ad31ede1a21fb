# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers from the sentences of the texts: which ones, in which order, and what there is without any."""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
import pytest

from ragseal.embedder import Embedder
from ragseal.embedder.interface import Vectors
from ragseal.generators import NOTHING, ExtractiveGenerator, Generator
from ragseal.generators.extractive import MAX_SENTENCE, sentences_of
from ragseal.kernel.errors import ConfigurationError, EncodingError

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


def test_blank_questions_are_refused(embedder: Embedder) -> None:
    with pytest.raises(EncodingError, match="the question is blank"):
        ExtractiveGenerator(embedder).answer(" ", ["text"])


def test_the_best_sentence_answers(embedder: Embedder) -> None:
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
