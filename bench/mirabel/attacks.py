# SPDX-License-Identifier: GPL-3.0-or-later
"""Membership inference by what an answer says: S2MIA, MBA and IA.  Each is queries of a text, and a score of answers.

S2MIA asks with the first half and compares the answer with the whole text by BLEU; its second score, perplexity, needs
a model that gives probabilities and is left out.  MBA masks words and counts those that the answer has.  IA asks
questions that the text answers, and counts right answers; they are read from a file, made by a generator, or are
sentences with a word asked for.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Protocol

import numpy as np

from bench.mirabel.corpus import WORD, cloze, json_lines, words
from ragseal.generators import Generator
from ragseal.kernel.errors import ConfigurationError

MASKS = 10  #: words of a text that MBA masks; fewer where a text has few
ASKED = 5  #: questions of IA about a text; the paper asks 30
_MADE = (
    "Write {count} short questions that only the text below answers. Put each on a line of its own, with its answer of "
    "one or two words behind a bar, such as: Which city? | Paris"
)


class Attack(Protocol):
    """Asks about one text, and says from the answers how likely it is in the index."""

    @property
    def name(self) -> str: ...

    def queries(self, name: str, text: str) -> list[str]: ...

    def score(self, name: str, text: str, answers: Sequence[str]) -> float: ...


def bleu(candidate: Sequence[str], reference: Sequence[str], most: int = 4) -> float:
    """BLEU of one sentence: n-grams up to ``most``, counts of those above single words one more."""
    if not candidate or not reference:
        return 0.0
    logs = 0.0
    for n in range(1, most + 1):
        have = Counter(tuple(candidate[i : i + n]) for i in range(len(candidate) - n + 1))
        want = Counter(tuple(reference[i : i + n]) for i in range(len(reference) - n + 1))
        both, total = sum((have & want).values()), sum(have.values())
        if n == 1 and not both:
            return 0.0
        added = int(n > 1)
        logs += math.log((both + added) / (total + added)) / most
    return math.exp(logs + min(0.0, 1 - len(reference) / len(candidate)))


class S2MIA:
    name = "S2MIA"

    def queries(self, name: str, text: str) -> list[str]:
        parts = text.split()
        return [" ".join(parts[: (len(parts) + 1) // 2])]

    def score(self, name: str, text: str, answers: Sequence[str]) -> float:
        return bleu(words(answers[0]), words(text))


class MBA:
    name = "MBA"

    def __init__(self, seed: int, masks: int = MASKS) -> None:
        self._seed, self._masks = seed, masks

    def _masked(self, name: str, text: str) -> list[tuple[int, int]]:
        """Places of the masked words: a function of seed and document."""
        places = [found.span() for found in WORD.finditer(text) if len(found[0]) > 3]
        rng = np.random.default_rng([self._seed, *name.encode()])
        chosen = rng.permutation(len(places))[: min(self._masks, len(places) // 3)]
        return [places[i] for i in sorted(chosen)]

    def queries(self, name: str, text: str) -> list[str]:
        out, last = [], 0
        for i, (start, end) in enumerate(self._masked(name, text), 1):
            out += [text[last:start], f"[Mask_{i}]"]
            last = end
        return ["".join([*out, text[last:]])]

    def score(self, name: str, text: str, answers: Sequence[str]) -> float:
        masked = [text[start:end].lower() for start, end in self._masked(name, text)]
        told = set(words(answers[0]))
        return sum(word in told for word in masked) / max(1, len(masked))


class IA:
    name = "IA"

    def __init__(self, known: Mapping[str, int], asked: Mapping[str, Sequence[tuple[str, str]]] | None = None) -> None:
        """
        Args:
            known: in how many documents a word is.
            asked: (question, answer) of documents by id; those of others are made here.
        """
        self._known, self._asked = known, asked or {}

    def _questions(self, name: str, text: str) -> list[tuple[str, str]]:
        made = list(self._asked.get(name, ())) or cloze(text, self._known)
        return made[:ASKED] or [(text[:200], words(text)[-1])]

    def queries(self, name: str, text: str) -> list[str]:
        return [question for question, _ in self._questions(name, text)]

    def score(self, name: str, text: str, answers: Sequence[str]) -> float:
        right = [answer for _, answer in self._questions(name, text)]
        told = [answer.lower() for answer in answers]
        return sum(a.lower() in b for a, b in zip(right, told, strict=True)) / len(right)


def read_questions(path: Path) -> dict[str, list[tuple[str, str]]]:
    """IA's questions by document: one object a line, ``{"id": ..., "question": ..., "answer": ...}``.

    Raises:
        ConfigurationError: names the line.
    """
    out: dict[str, list[tuple[str, str]]] = {}
    for at, line in enumerate(json_lines(path), 1):
        values = [line.get(key) for key in ("id", "question", "answer")]
        if not all(isinstance(value, str) and value.strip() for value in values):
            raise ConfigurationError(f'{path}, line {at}: needs texts "id", "question" and "answer"')
        out.setdefault(str(values[0]), []).append((str(values[1]), str(values[2])))
    return out


def generated_questions(generator: Generator, texts: Mapping[str, str]) -> dict[str, list[tuple[str, str]]]:
    """IA's questions by a generator; lines of its answer without a bar are passed over."""
    out = {}
    for name, text in texts.items():
        told = generator.answer(_MADE.format(count=ASKED), [text])
        pairs = [line.partition("|") for line in told.splitlines() if "|" in line]
        out[name] = [(a.strip(), b.strip()) for a, _, b in pairs if a.strip() and b.strip()]
    return out
