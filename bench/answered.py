# SPDX-License-Identifier: GPL-3.0-or-later
"""Retrieval and the answers of single documents, computed once for all cells of an experiment about answers."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from bench.answer_files import Asked
from ragseal.embedder import Embedder, quantise
from ragseal.embedder.interface import Progress
from ragseal.generators import Generator
from ragseal.generators.extractive import sentences_of
from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.answers.dpksa import keyword_histogram, retrieved
from ragseal.prover.answers.each import answer_each
from ragseal.prover.answers.final import zero_shot
from ragseal.prover.answers.histogram import Histogram
from ragseal.runtime.terminal import progress_bars

PLAIN = 2  #: documents that plain retrieval answers from, as in the paper


class Index:
    """An exact search: integer products of quantised vectors, the earlier document first among equals."""

    def __init__(self, embedder: Embedder, texts: Sequence[str], progress: Progress | None = None) -> None:
        self._embedder = embedder
        self._texts = texts
        self._rows = quantise(embedder.embed(texts, progress=progress)).astype(np.int32) if texts else None

    def __call__(self, question: str, count: int) -> list[str]:
        if self._rows is None:
            return []
        asked = quantise(self._embedder.embed([question], role="query"))[0].astype(np.int32)
        best = np.argsort(-(self._rows @ asked), kind="stable")[:count]
        return [self._texts[i] for i in best]


@dataclass(frozen=True)
class Answered:
    """A question with what is computed once: answers of its documents, nearest first, and those of the baselines."""

    asked: Asked
    each: tuple[str, ...]
    without: str
    plain: str

    @functools.cache  # noqa: B019
    def histogram(self, documents: int) -> Histogram:
        return keyword_histogram(self.asked.question, self.each[:documents])


def answer_all(
    generator: Generator, index: Index, questions: Sequence[Asked], most: int, embedder: Embedder | None = None
) -> tuple[Answered, ...]:
    """Ask the generator about every question: without documents, with the nearest two, and about each of ``most``.

    Args:
        embedder: one that remembers: it is shown all sentences at once, which is faster than document by document.

    Raises:
        ConfigurationError: fewer documents than that, or a generator that answers from none of them.
        AuditError: the generator does not answer.
    """
    without = [zero_shot(generator, asked.question) for asked in questions]
    lists = [retrieved(index, asked.question, most) for asked in questions]
    with progress_bars() as bars:
        if embedder is not None:
            sentences = list(
                dict.fromkeys(one for documents in lists for text in documents for one in sentences_of(text))
            )
            task = bars.add_task("sentences", total=len(sentences))
            embedder.embed(sentences, progress=lambda done, _: bars.update(task, completed=done))
        task = bars.add_task("answers of documents", total=len(questions) * most)
        found = []
        for asked, documents, alone in zip(questions, lists, without, strict=True):
            plain = generator.answer(asked.question, documents[:PLAIN])
            each = answer_each(generator, asked.question, documents, lambda *_: bars.advance(task))
            if len(each.failed) == len(documents):
                raise ConfigurationError(f"no document of {asked.question!r} was answered from: {each.failed[0][1]}")
            found.append(Answered(asked, each.texts, alone, plain))
    return tuple(found)
