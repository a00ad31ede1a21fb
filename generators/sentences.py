# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that are a sentence of the text given, chosen by shared letters: no model, no queue, nothing sent anywhere.

:class:`Sentences` reads many texts before any question.  A question is then compared with all of them, so the work of
a question does not depend on the texts that are answered from.  SPEC A.14.7.5.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from dataclasses import dataclass
from itertools import islice

import numpy as np
import numpy.typing as npt

from ragseal.generators.extractive import sentences_of
from ragseal.generators.interface import NOTHING, check_asked

MAX_READ = 4096  #: characters of one text; what stands behind them is not read
NAME = "sentences"

DAMPING = 100  #: trigrams: those of a sentence of common length

_NO_TRIGRAM = 0  #: in every sentence and in no question
_BLOCK = 512  #: texts that are read, or compared with a question, at once: memory does not grow with their number
_SHORT = 3  #: letters of words that say little of what a question is about
_GAP = re.compile(r"[\W_]+")

Codes = npt.NDArray[np.uint16]


class SentenceGenerator:
    """The sentence that shares most with the question.  Implements :class:`ragseal.generators.Generator`."""

    @property
    def name(self) -> str:
        return NAME

    def answer(self, question: str, contexts: Sequence[str], keywords: Sequence[str] = ()) -> str:
        """See :meth:`ragseal.generators.Generator.answer`: with texts their best sentence, where keywords count as
        part of the question; with keywords alone these, in the order given; with neither NOTHING."""
        check_asked(question, contexts, keywords)
        text = "\n".join(text[:MAX_READ] for text in contexts)
        if not (found := sentences_of(text)):
            return ", ".join(keywords) if keywords else NOTHING
        [chosen] = Sentences([text], most=len(text)).chosen(" ".join([question, *keywords]))
        return found[chosen]


@dataclass(frozen=True, slots=True, weakref_slot=True, eq=False)
class ReadText:
    """A text that was read: each sentence as the set of its trigrams, runs of three characters by 16 bits of a hash."""

    codes: Codes  #: of its sentences, one after the other
    sizes: Codes  #: how many each sentence has, one at least


Known = MutableMapping[bytes, ReadText]  #: texts that were read, by their digests


class Sentences:
    """The sentences of many texts, which are read before any question.

    A sentence's score is shared^2 / (size + DAMPING): a cosine's square up to a factor, in which short sentences gain
    less by being short.  Nothing about one text enters what is chosen of another.
    """

    def __init__(self, texts: Iterable[str], known: Known | None = None, most: int = MAX_READ) -> None:
        """
        Args:
            texts: read one after the other; none is kept.
            known: what was read before, which is not read again; what is read now is added.
            most: characters that are read of one text.
        """
        self._texts: list[ReadText] = []
        source = iter(texts)
        while block := [text[:most] for text in islice(source, _BLOCK)]:
            self._texts += _read(block) if known is None else _read_once(block, known)

    def __len__(self) -> int:
        """Of the texts."""
        return len(self._texts)

    def chosen(self, question: str) -> list[int]:
        """The number of each text's best sentence, counted from 0, the earlier among equals; -1: it has no sentence.

        The same work whichever of the texts the caller then answers from.
        """
        asked = np.zeros(1 << 16, dtype=np.uint8)
        asked[_trigrams([_about(question)])[0]] = 1
        asked[_NO_TRIGRAM] = 0
        best: list[int] = []
        for start in range(0, len(self._texts), _BLOCK):
            best += _best(self._texts[start : start + _BLOCK], asked)
        return best


def chosen_sentence(text: str, chosen: int) -> str:
    """A sentence of a text that :class:`Sentences` read, by its number; "" where it has none."""
    return sentences_of(text[:MAX_READ])[chosen] if chosen >= 0 else ""


def _read_once(texts: Sequence[str], known: Known) -> Iterator[ReadText]:
    names = [hashlib.sha256(text.encode("utf-8", "surrogatepass")).digest() for text in texts]
    found = [known.get(name) for name in names]  # held from here on: they may be known weakly
    fresh = _read([text for text, one in zip(texts, found, strict=True) if one is None])
    for name, one in zip(names, found, strict=True):
        if one is None:
            one = known[name] = next(fresh)
        yield one


def _read(texts: Sequence[str]) -> Iterator[ReadText]:
    found = [sentences_of(text) for text in texts]
    codes, sizes = _trigrams([sentence for sentences in found for sentence in sentences])
    each = np.cumsum([len(sentences) for sentences in found], dtype=np.int64)[:-1]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)])[each]
    for own, size in zip(np.split(codes, ends), np.split(sizes, each), strict=True):
        yield ReadText(own.copy(), size.astype(np.uint16))  # a part would hold the others in memory


def _best(texts: Sequence[ReadText], asked: npt.NDArray[np.uint8]) -> list[int]:
    """The number of each text's best sentence; -1: it has none.  ``asked``: 1 at the trigrams of the question."""
    each = np.array([len(text.sizes) for text in texts])
    best = np.full(len(texts), -1, dtype=np.int64)
    if each.any():
        there = np.flatnonzero(each)
        sizes = np.concatenate([text.sizes for text in texts], dtype=np.int64)
        codes = np.concatenate([text.codes for text in texts])
        shared = np.add.reduceat(asked.take(codes), np.cumsum(sizes) - sizes, dtype=np.int64)
        scores = shared * shared / (sizes + DAMPING)  # one rounding: the same on every machine
        first = (np.cumsum(each) - each)[there]
        most = np.repeat(np.maximum.reduceat(scores, first), each[there])
        at = np.flatnonzero(scores == most)
        _, earliest = np.unique(np.repeat(there, each[there])[at], return_index=True)
        best[there] = at[earliest] - first
    return best.tolist()


def _about(question: str) -> str:
    """The longer words of a question; all of them where it has no longer ones."""
    words = _GAP.split(question.casefold())
    return " ".join([word for word in words if len(word) > _SHORT] or words)


def _trigrams(sentences: Sequence[str]) -> tuple[Codes, npt.NDArray[np.int64]]:
    """The different trigrams of each sentence, _NO_TRIGRAM first, one sentence after the other; how many each has.

    Words are folded and stand between single spaces.
    """
    if not sentences:
        return np.zeros(0, np.uint16), np.zeros(0, np.int64)
    folded = list(_folded(sentences))
    letters = np.frombuffer("".join(folded).encode("utf-32-le", "surrogatepass"), dtype="<u4").astype(np.uint32)
    sentence = np.repeat(np.arange(len(folded), dtype=np.int64), [len(one) for one in folded])
    hashed = letters[:-2] * np.uint32(0x9E3779B1)  # odd factors, products modulo 2^32
    hashed += letters[1:-1] * np.uint32(0x85EBCA6B)
    hashed += letters[2:] * np.uint32(0xC2B2AE35)
    inside = sentence[:-2] == sentence[2:]
    codes = np.maximum(hashed[inside] >> np.uint32(16), 1).astype(np.int64)
    keys = np.concatenate([np.arange(len(folded)) << 16 | _NO_TRIGRAM, sentence[:-2][inside] << 16 | codes])
    keys.sort()  # numpy's own `unique` hashes, at ten times the cost
    keys = keys[np.concatenate([[True], keys[1:] != keys[:-1]])]
    return (keys & 0xFFFF).astype(np.uint16), np.bincount(keys >> 16, minlength=len(folded))


def _folded(sentences: Sequence[str]) -> Iterator[str]:
    for sentence in sentences:
        yield f" {_GAP.sub(' ', sentence.casefold()).strip()} "
