# SPDX-License-Identifier: GPL-3.0-or-later
"""From the answers of N documents to how many of them hold each keyword.

One document has one answer, one answer one vote, and a vote names each keyword once: with one document replaced, every
count moves by at most 1.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Container, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import EncodingError
from ragseal.prover.answers.keywords import STOP_WORDS, keywords_of

Votes = tuple[frozenset[str], ...]  #: of each document the keywords of its answer


@dataclass(frozen=True)
class Histogram:
    """Counts of keywords and their order statistics; a word that no answer holds counts 0, and so do further ranks."""

    documents: int  #: N
    counts: tuple[tuple[str, int], ...]  #: by word, each 1 to N

    @cached_property
    def ranked(self) -> tuple[tuple[str, int], ...]:
        """By count, highest first; by word among equals."""
        return tuple(sorted(self.counts, key=lambda one: (-one[1], one[0])))

    def count(self, k: int) -> int:
        """H_(k), the k-th highest count, k from 1."""
        return self.ranked[k - 1][1] if k <= len(self.ranked) else 0

    def gap(self, k: int) -> int:
        """d_k = H_(k) - H_(k+1).  With one vote replaced it moves by at most 2, since each of the two moves by 1."""
        return self.count(k) - self.count(k + 1)

    def top(self, k: int) -> tuple[str, ...]:
        """The k words of highest count in canonical order, that of their code points: their counts do not show.

        Where d_k is above 2 it is the same set for every histogram with one vote replaced.
        """
        return tuple(sorted(word for word, _ in self.ranked[:k]))


def votes_of(
    answers: Sequence[str], stop_words: Container[str] = STOP_WORDS, vocabulary: Container[str] | None = None
) -> Votes:
    """Of each answer the set of its keywords (:func:`ragseal.prover.answers.keywords.keywords_of`)."""
    return tuple(keywords_of(answer, stop_words, vocabulary) for answer in answers)


def histogram_of(votes: Sequence[frozenset[str]]) -> Histogram:
    """How many votes hold each keyword."""
    counts = Counter(word for vote in votes for word in vote)
    return Histogram(len(votes), tuple(sorted(counts.items())))


def zero_one(votes: Sequence[frozenset[str]], vocabulary: Sequence[str]) -> npt.NDArray[np.uint8]:
    """Votes as rows over a fixed vocabulary, uint8, shape (len(votes), len(vocabulary)); their sum is the histogram.

    Raises:
        EncodingError: the vocabulary names a word twice, or a vote one that is not in it.
    """
    place = {word: i for i, word in enumerate(vocabulary)}
    if len(place) != len(vocabulary):
        raise EncodingError("the vocabulary names a word twice: name each word once")
    rows = np.zeros((len(votes), len(vocabulary)), dtype=np.uint8)
    for i, vote in enumerate(votes):
        for word in vote:
            if word not in place:
                raise EncodingError(f"{word!r} is not in the vocabulary: take keywords with the vocabulary itself")
            rows[i, place[word]] = 1
    return rows
