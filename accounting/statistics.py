# SPDX-License-Identifier: GPL-3.0-or-later
"""What samples of two worlds prove about the mechanism between them: AUC, and lower bounds of advantage and epsilon.

Every limit is one-sided at a stated error probability.  Binomial limits are exact (Clopper and Pearson 1934); the AUC's
is DeLong's, on the logit scale.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from statistics import NormalDist

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import ConfigurationError

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Roc:
    """An empirical AUC and its standard error."""

    auc: float
    se: float

    def interval(self, alpha: float) -> tuple[float, float]:
        """Two-sided interval with error alpha; (0, 1) where the error is 0 and so says nothing about chance."""
        if self.se == 0 or not 0 < self.auc < 1:
            return 0.0, 1.0
        middle = math.log(self.auc / (1 - self.auc))
        half = NormalDist().inv_cdf(1 - alpha / 2) * self.se / (self.auc * (1 - self.auc))
        return 1 / (1 + math.exp(half - middle)), 1 / (1 + math.exp(-half - middle))


def midranks(values: Vector) -> Vector:
    """Ranks from 1, ties sharing their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], dtype=np.float64)


def delong(inside: npt.ArrayLike, outside: npt.ArrayLike) -> Roc:
    """Mann-Whitney AUC of a statistic that should be larger ``inside``, with DeLong's standard error.

    By midranks (Sun and Xu 2014), which equals the U statistic over all pairs, ties counting one half.

    Raises:
        ConfigurationError: fewer than two samples of a world.
    """
    x, y = np.asarray(inside, dtype=np.float64), np.asarray(outside, dtype=np.float64)
    m, n = len(x), len(y)
    if m < 2 or n < 2:
        raise ConfigurationError("an AUC with a standard error needs two samples of each world: ask more often")
    joint = midranks(np.concatenate([x, y]))
    over = (joint[:m] - midranks(x)) / n  # share of the other world below each sample
    under = 1 - (joint[m:] - midranks(y)) / m
    return Roc(float(over.mean()), math.sqrt(over.var(ddof=1) / m + under.var(ddof=1) / n))


def at_least(n: int, p: float, k: int) -> float:
    """P(Bin(n, p) >= k)."""
    if k <= 0:
        return 1.0
    if p in (0.0, 1.0) or k > n:
        return float(p == 1.0 and k <= n)
    log_p, log_q, whole = math.log(p), math.log1p(-p), math.lgamma(n + 1)

    def term(j: int) -> float:
        return math.exp(whole - math.lgamma(j + 1) - math.lgamma(n - j + 1) + j * log_p + (n - j) * log_q)

    below = k < n * p  # sum the side that is small
    total = math.fsum(term(j) for j in (range(k) if below else range(k, n + 1)))
    return min(1.0, max(0.0, 1 - total if below else total))


def _root(rising: Callable[[float], float], target: float) -> tuple[float, float]:
    low, high = 0.0, 1.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(middle) < target else (low, middle)
    return low, high


@lru_cache(maxsize=1 << 12)
def binomial_lower(hits: int, n: int, alpha: float) -> float:
    """The largest p that ``hits`` of ``n`` exclude from below: P(p < limit) holds with error at most alpha."""
    return 0.0 if hits == 0 else _root(lambda p: at_least(n, p, hits), alpha)[0]


def binomial_upper(hits: int, n: int, alpha: float) -> float:
    """The matching limit from above."""
    return 1.0 - binomial_lower(n - hits, n, alpha)


@dataclass(frozen=True, slots=True)
class LowerBounds:
    """What no mechanism with a smaller epsilon (at delta) or advantage would show, except with probability alpha."""

    epsilon: float
    advantage: float


def lower_bounds(inside: Sequence[int], outside: Sequence[int], delta: float, alpha: float) -> LowerBounds:
    """From a count for each trial in two worlds, by every threshold test and its complement, in both directions.

    For an event S and an (epsilon, delta) mechanism P_in(S) <= e^epsilon P_out(S) + delta, and the same with the worlds
    swapped.  All events share alpha (Bonferroni): thresholds are chosen after the fact.
    """
    events = list(_events(inside, outside))
    m, n = len(inside), len(outside)
    each = alpha / (2 * max(1, len(events)))
    epsilon = advantage = 0.0
    for one, other in events:
        for (a, of_a), (b, of_b) in (((one, m), (other, n)), ((other, n), (one, m))):
            least, most = binomial_lower(a, of_a, each / 2), binomial_upper(b, of_b, each / 2)
            advantage = max(advantage, least - most)
            if least > delta and most > 0:
                epsilon = max(epsilon, math.log((least - delta) / most))
    return LowerBounds(epsilon, advantage)


def _events(inside: Sequence[int], outside: Sequence[int]) -> Iterator[tuple[int, int]]:
    """How many trials of each world lie in {count >= t}, and in its complement, for every t that splits anything."""
    values = sorted({*inside, *outside})
    for t in values[1:]:
        one, other = sum(x >= t for x in inside), sum(x >= t for x in outside)
        yield one, other
        yield len(inside) - one, len(outside) - other
