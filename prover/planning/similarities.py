# SPDX-License-Identifier: GPL-3.0-or-later
"""How alike questions are: exact products of all their pairs, related ones apart from unrelated ones."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import EncodingError
from ragseal.kernel.estimate import FULL, Embeddings, link_threshold

Pairs = npt.NDArray[np.int64]

THETAS = tuple(Fraction(i, 100) for i in range(30, 100))
_BLOCK = 512


@dataclass(frozen=True, slots=True)
class Similarities:
    """Products of all pairs of queries, in units of 127^2 = 1."""

    queries: int
    histogram: Pairs  #: unrelated pairs by product + FULL * 2
    close: Pairs  #: (m, 3): unrelated a < b and their product, from the lowest theta on
    related: Pairs  #: products of related pairs, increasing
    norms: tuple[int, int]  #: least and largest squared norm

    @property
    def unrelated(self) -> int:
        """How many pairs."""
        return int(self.histogram.sum())

    def quantile(self, share: float) -> float:
        """Cosine that ``share`` of the unrelated pairs do not exceed."""
        rank = max(1, math.ceil(share * self.unrelated))
        return (int(np.searchsorted(np.cumsum(self.histogram), rank)) - 2 * FULL) / FULL

    def linked(self, threshold: int) -> int:
        """How many unrelated pairs link."""
        return int(self.histogram[2 * FULL + threshold :].sum())

    def pair_rate(self, threshold: int) -> float:
        """Share of unrelated pairs that link."""
        return self.linked(threshold) / max(1, self.unrelated)

    def found(self, threshold: int) -> float | None:
        """Share of related pairs that link."""
        return float((self.related >= threshold).mean()) if len(self.related) else None


def similarities(embeddings: Embeddings, related: frozenset[tuple[int, int]]) -> Similarities:
    """Exact products of all pairs."""
    wide = embeddings.astype(np.int64)
    norms = (wide * wide).sum(axis=1)
    if norms.max() >= 2 * FULL:
        raise EncodingError("these embeddings are not quantised unit vectors")
    n, least = len(wide), link_threshold(THETAS[0])
    floats = embeddings.astype(np.float64)  # exact, and faster than integers
    histogram = np.zeros(4 * FULL + 1, dtype=np.int64)
    pairs = np.array(sorted(related), dtype=np.int64).reshape(-1, 2)
    close = []
    for start in range(0, n, _BLOCK):
        products = (floats[start : start + _BLOCK] @ floats.T).astype(np.int64)
        rows = np.arange(start, start + len(products))
        count = np.arange(n) > rows[:, None]
        mine = pairs[(pairs[:, 0] >= start) & (pairs[:, 0] < start + len(products))]
        count[mine[:, 0] - start, mine[:, 1]] = False
        histogram += np.bincount(products[count] + 2 * FULL, minlength=len(histogram))
        a, b = np.nonzero(count & (products >= least))
        close.append(np.stack([a + start, b, products[a, b]], axis=1))
    alike = np.sort((wide[pairs[:, 0]] * wide[pairs[:, 1]]).sum(axis=1))
    return Similarities(n, histogram, np.concatenate(close), alike, (int(norms.min()), int(norms.max())))
