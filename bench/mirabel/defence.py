# SPDX-License-Identifier: GPL-3.0-or-later
"""Who reads what: without a guard, with Mirabel on clean scores, and by this product's list with and without a guard.

The product's list is that of a noise class as it is served: scores clipped to a window, in whole steps of a geometric
table, noise over every slot, the K largest as a set; flagged slots are read, ranked by the account.  ``noised`` is
Mirabel on all noised scores before the selection, which no window has.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ragseal.kernel.noise import build_table
from ragseal.prover.commitment.guard import Rule, detect_in_list, hide, moments, threshold, withheld
from ragseal.prover.planning.quality import TableSampler, largest_slots

Scores = npt.NDArray[np.float32]

PLAIN, CLEAN, LIST, RETURNED, NOISED = "no guard", "clean", "list", "list, returned", "list, noised"
DEFENCES = (PLAIN, CLEAN, LIST, RETURNED, NOISED)
LAW, STEPS, K = "geometric-16", 96, 50  #: the window is six times as wide as the noise's scale
WINDOWS = {"words": (0.1, 0.6)}  #: score windows; others have minilm's public one
PUBLIC = (0.3, 0.5)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one query brought."""

    texts: list[int]  #: documents that the account reads, best first
    withheld: int | None = None  #: the document whose text was kept back; shown as a slot number


def found(scores: Scores, rule: Rule) -> npt.NDArray[np.bool_]:
    """Algorithm 1's decision for every row of (queries, documents)."""
    return np.array([_beyond(row, rule) for row in scores.astype(float).tolist()], dtype=np.bool_)


def _beyond(row: list[float], rule: Rule) -> bool:
    """As :func:`ragseal.prover.commitment.guard.detect`, without looking for the target's place."""
    top = max(row)
    others = [*row]
    others.remove(top)
    mean, deviation = moments(others)
    return deviation > 0 and top > threshold(mean, deviation, len(row), rule)


class Index:
    """Clean scores of queries, and the lists that the mechanism draws from them."""

    def __init__(self, scores: Scores, embedder: str, seed: int) -> None:
        """``scores``: cosines, shape (queries, documents)."""
        self.scores = scores
        lo, hi = WINDOWS.get(embedder, PUBLIC)
        steps = np.clip(np.floor((scores - lo) / (hi - lo) * STEPS), 0, STEPS).astype(np.int64)
        noise = TableSampler(build_table(LAW)).draw(np.random.default_rng([seed, scores.shape[1]]), scores.shape)
        self.noised = steps + noise
        most = min(K, scores.shape[1])
        self._lists = largest_slots(self.noised, most)
        self._flagged = [sorted(int(i) for i in row if steps[q, i] > 0) for q, row in enumerate(self._lists)]

    def near(self, query: int) -> dict[int, int]:
        """What the product's guard sees of a list: clean scores of its flagged slots, in units of y."""
        return {i: round(float(self.scores[query, i]) * 127 * 127) for i in self._flagged[query]}

    def flagged(self, query: int) -> list[int]:
        """Flagged slots of the query's list."""
        return self._flagged[query]

    def seen(self, query: int, defence: str, k: int, rule: Rule) -> Seen:
        """What the account reads under a defence: k texts at most."""
        row = self.scores[query]
        if defence == PLAIN:
            return Seen([int(i) for i in np.argsort(-row, kind="stable")[:k]])
        if defence == CLEAN:
            return Seen(hide(row.astype(float).tolist(), k, rule))
        if defence == NOISED:
            noised = self.noised[query].astype(float).tolist()
            left = set(hide(noised, min(K, len(noised)), rule))
            return Seen(self._ranked(query, [i for i in self._flagged[query] if i in left], k))
        kept = withheld(self.near(query), len(row), rule) if defence == RETURNED else ()
        texts = self._ranked(query, [i for i in self._flagged[query] if i not in kept], k)
        return Seen(texts, kept[0] if kept else None)

    def found_in_list(self, query: int, rule: Rule) -> bool:
        """Whether the product's guard takes the best of the list for too near."""
        return detect_in_list([float(y) for y in self.near(query).values()], self.scores.shape[1], rule).found

    def _ranked(self, query: int, slots: Sequence[int], k: int) -> list[int]:
        return sorted(slots, key=lambda i: (-float(self.scores[query, i]), i))[:k]
