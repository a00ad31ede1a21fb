# SPDX-License-Identifier: GPL-3.0-or-later
"""How near an answer is to the nearest of its references: F1, ROUGE-1, ROUGE-L and Levenshtein similarity, each 0 to 1.

As evaluations of questions and answers take them: words in lower case without punctuation, and for F1 without articles.
"""

from __future__ import annotations

import re
import unicodedata
from collections import Counter
from collections.abc import Callable, Sequence

Metric = Callable[[str, str], float]

_ARTICLES = {"a", "an", "the"}


def words(text: str) -> list[str]:
    """Runs of letters and digits, case folded."""
    return re.findall(r"[^\W_]+", unicodedata.normalize("NFKC", text).casefold())


def f1(answer: str, reference: str) -> float:
    """Harmonic mean of the shares of words that answer and reference have in common, articles left out."""
    return _overlap(
        [w for w in words(answer) if w not in _ARTICLES], [w for w in words(reference) if w not in _ARTICLES]
    )


def rouge_1(answer: str, reference: str) -> float:
    """The same with articles."""
    return _overlap(words(answer), words(reference))


def rouge_l(answer: str, reference: str) -> float:
    """The same for the longest sequence of words that both have in that order."""
    one, other = words(answer), words(reference)
    return _harmonic(_common(one, other), len(one), len(other))


def levenshtein(answer: str, reference: str) -> float:
    """1 less the least number of characters inserted, deleted or replaced, to the length of the longer text; of texts
    in lower case with single spaces."""
    one, other = (" ".join(text.casefold().split()) for text in (answer, reference))
    longer = max(len(one), len(other))
    return 1 - _distance(one, other) / longer if longer else 1.0


METRICS: dict[str, Metric] = {"F1": f1, "ROUGE-1": rouge_1, "ROUGE-L": rouge_l, "Levenshtein": levenshtein}


def scores(answer: str, references: Sequence[str]) -> dict[str, float]:
    """Every metric, each against the reference that it likes best."""
    return {name: max(metric(answer, one) for one in references) for name, metric in METRICS.items()}


def _overlap(one: Sequence[str], other: Sequence[str]) -> float:
    return _harmonic((Counter(one) & Counter(other)).total(), len(one), len(other))


def _harmonic(common: int, one: int, other: int) -> float:
    if not one and not other:
        return 1.0
    return 2 * common / (one + other)


def _common(one: Sequence[str], other: Sequence[str]) -> int:
    row = [0] * (len(other) + 1)
    for x in one:
        before = row
        row = [0]
        for j, y in enumerate(other, 1):
            row.append(before[j - 1] + 1 if x == y else max(before[j], row[-1]))
    return row[-1]


def _distance(one: str, other: str) -> int:
    row = list(range(len(other) + 1))
    for i, x in enumerate(one, 1):
        before, row = row, [i]
        for j, y in enumerate(other, 1):
            row.append(min(before[j] + 1, row[-1] + 1, before[j - 1] + (x != y)))
    return row[-1]
