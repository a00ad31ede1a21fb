# SPDX-License-Identifier: GPL-3.0-or-later
"""The four public retrievers: BM25, dense, hybrid, hybrid with re-ranking.

BM25 is the library bm25s; vectors are those of the embedder, quantised as the mechanism quantises them, so that orders
are exact.  Ties go to the context that stands first.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from bench.saferag.words import sentences, words
from ragseal.embedder import Embedder, Quantised, quantise
from ragseal.embedder.interface import Role
from ragseal.kernel.errors import ConfigurationError

FUSION = 60  #: of reciprocal rank fusion, the constant that its authors chose
DEEP = 4  #: times N contexts are re-ranked

Scores = npt.NDArray[np.float64]


class Retriever(Protocol):
    """Ranks the contexts of one index."""

    def top(self, question: str, count: int) -> list[str]:
        """The ``count`` contexts that fit best, best first; a noised retriever may find fewer."""
        ...


class Ranked:
    """The best contexts by the scores of a function."""

    def __init__(self, contexts: Sequence[str], scores: Callable[[str], Scores]) -> None:
        self.contexts, self.scores = check_index(contexts), scores

    def order(self, question: str) -> list[int]:
        found: list[int] = np.argsort(-self.scores(question), kind="stable").tolist()
        return found

    def top(self, question: str, count: int) -> list[str]:
        check_count(self.contexts, count)
        return [self.contexts[i] for i in self.order(question)[:count]]


def check_index(contexts: Sequence[str]) -> Sequence[str]:
    if not contexts:
        raise ConfigurationError("the index is empty: give it contexts, one a line of db.txt")
    return contexts


def check_count(contexts: Sequence[str], count: int) -> None:
    if not 1 <= count <= len(contexts):
        raise ConfigurationError(
            f"{count} contexts are to be retrieved from an index of {len(contexts)}: ask for fewer (--top)"
        )


def bm25(contexts: Sequence[str]) -> Ranked:
    """BM25 over words.

    Raises:
        ConfigurationError: the library is not installed, or the index is empty.
    """
    try:
        import bm25s
    except ImportError:
        raise ConfigurationError("BM25 needs bm25s: run `make setup`, or pip install 'ragseal[bench]'") from None
    model: Any = bm25s.BM25()
    model.index([words(text) for text in check_index(contexts)], show_progress=False)
    return Ranked(contexts, lambda question: np.asarray(model.get_scores(words(question)), dtype=np.float64))


def rows_of(embedder: Embedder, texts: Sequence[str], role: Role = "document") -> Quantised:
    """int8 rows, as an index holds them."""
    return quantise(embedder.embed(texts, role=role))


def dense(contexts: Sequence[str], embedder: Embedder) -> Ranked:
    """By the product of quantised vectors, which the mechanism adds its noise to."""
    rows = rows_of(embedder, check_index(contexts)).astype(np.int64)

    def scores(question: str) -> Scores:
        return np.asarray(rows @ rows_of(embedder, [question], "query")[0].astype(np.int64), dtype=np.float64)

    return Ranked(contexts, scores)


def hybrid(contexts: Sequence[str], embedder: Embedder) -> Ranked:
    """BM25 and dense by reciprocal rank fusion."""
    parts = (bm25(contexts), dense(contexts, embedder))

    def scores(question: str) -> Scores:
        total = np.zeros(len(contexts))
        for part in parts:
            for rank, at in enumerate(part.order(question), 1):
                total[at] += 1 / (FUSION + rank)
        return total

    return Ranked(contexts, scores)


class Reranker(Protocol):
    """Compares a question with each context anew."""

    @property
    def name(self) -> str: ...

    def scores(self, question: str, contexts: Sequence[str]) -> Sequence[float]: ...


class SentenceReranker:
    """The embedded fall-back for a cross-encoder: the best product of the question with a sentence of the context."""

    name = "embedded fall-back: best sentence by the embedder"

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder

    def scores(self, question: str, contexts: Sequence[str]) -> Sequence[float]:
        asked = rows_of(self._embedder, [question], "query")[0].astype(np.int64)
        return [float((rows_of(self._embedder, sentences(text)).astype(np.int64) @ asked).max()) for text in contexts]


class CrossEncoderReranker:
    """A named cross-encoder of sentence-transformers."""

    def __init__(self, model: str) -> None:
        """
        Raises:
            ConfigurationError: the library is not installed, or the model cannot be loaded.
        """
        try:
            from sentence_transformers import CrossEncoder
        except ImportError:
            raise ConfigurationError(
                "a cross-encoder needs sentence-transformers: pip install 'ragseal[torch]', or leave out --reranker"
            ) from None
        try:
            self._model: Any = CrossEncoder(model)
        except (OSError, ValueError) as error:
            raise ConfigurationError(f"cannot load the cross-encoder {model}: {error}") from None
        self.name = f"cross-encoder {model}"

    def scores(self, question: str, contexts: Sequence[str]) -> Sequence[float]:
        return [float(x) for x in self._model.predict([(question, text) for text in contexts])]


class Reranked:
    """The first contexts of another retriever, in a re-ranker's order."""

    def __init__(self, first: Ranked, reranker: Reranker) -> None:
        self._first, self._reranker = first, reranker

    def top(self, question: str, count: int) -> list[str]:
        check_count(self._first.contexts, count)
        found = self._first.top(question, min(DEEP * count, len(self._first.contexts)))
        scores = self._reranker.scores(question, found)
        order = sorted(range(len(found)), key=lambda i: (-scores[i], i))
        return [found[i] for i in order[:count]]


PUBLIC = ("BM25", "dense", "hybrid", "hybrid-rerank")


def public(name: str, contexts: Sequence[str], embedder: Embedder, reranker: Reranker) -> Retriever:
    """One of PUBLIC over an index."""
    if name == "BM25":
        return bm25(contexts)
    if name == "dense":
        return dense(contexts, embedder)
    both = hybrid(contexts, embedder)
    return both if name == "hybrid" else Reranked(both, reranker)
