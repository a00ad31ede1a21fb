# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that are sentences of the texts given, chosen by an embedder: no model of language, nothing sent anywhere."""

from __future__ import annotations

import re
from collections.abc import Sequence

import numpy as np

from ragseal.embedder import Embedder, quantise
from ragseal.generators.interface import NOTHING, check_asked
from ragseal.kernel.errors import ConfigurationError

MAX_SENTENCE = 1000  #: characters; longer ones are cut into pieces of that length at a space
MAX_SENTENCES = 4096  #: of one call; what comes behind them is not read

#: A sentence ends with its mark, a space and something that may begin one; a line ends it too.  Blanks are tried from
#: their first one on only: a run of them is no more work than as many letters.
_END = re.compile(r"""(?:(?<=[.!?])|(?<=[.!?]["')\]]))\s+(?=["'(\[]?[^\W_a-z])|(?<!\s)\s*\n\s*""")


class ExtractiveGenerator:
    """The ``sentences`` best sentences of the texts, in the order of the texts.

    Implements :class:`ragseal.generators.Generator`.  Which ones is decided by integer products of quantised vectors,
    the earlier sentence first among equals, so the last bits of floats decide nothing but ties at a rounding.
    """

    def __init__(self, embedder: Embedder, sentences: int = 1) -> None:
        """
        Raises:
            ConfigurationError: fewer than one sentence.
        """
        if sentences < 1:
            raise ConfigurationError(f"{sentences} sentences are not an answer: take at least one")
        self._embedder = embedder
        self._sentences = sentences

    @property
    def name(self) -> str:
        return f"extractive-{self._sentences}"

    def answer(self, question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> str:
        """See :meth:`ragseal.generators.Generator.answer`: with texts their best sentences, where keywords count as
        part of the question; with keywords alone these, in the order given; with neither NOTHING."""
        check_asked(question, contexts, keywords)
        found = [sentence for text in contexts for sentence in sentences_of(text)][:MAX_SENTENCES]
        if not found:
            return ", ".join(keywords) if keywords else NOTHING
        if len(found) <= self._sentences:
            return " ".join(found)
        asked = quantise(self._embedder.embed([" ".join([question, *keywords])], role="query"))[0].astype(np.int64)
        scores = quantise(self._embedder.embed(found)).astype(np.int64) @ asked
        best = sorted(range(len(found)), key=lambda i: (-int(scores[i]), i))[: self._sentences]
        return " ".join(found[i] for i in sorted(best))


def sentences_of(text: str) -> list[str]:
    """A text's sentences in order, without the space around them, none of them empty or longer than MAX_SENTENCE."""
    return [piece for sentence in _END.split(text) for piece in _pieces(sentence.strip())]


def _pieces(sentence: str) -> list[str]:
    pieces = []
    while len(sentence) > MAX_SENTENCE:
        at = sentence.rfind(" ", 1, MAX_SENTENCE + 1)
        at = at if at > 0 else MAX_SENTENCE
        pieces.append(sentence[:at].rstrip())
        sentence = sentence[at:].lstrip()
    return [*pieces, sentence] if sentence else pieces
