# SPDX-License-Identifier: GPL-3.0-or-later
"""Theta for an embedder: how often windows of accounts that do not collude look like a coalition.  SPEC C.11.

Null model: honest accounts who ask different things.  A window is a random choice of the queries in random order, dealt
to accounts in turn; links of related queries are left out, they are what the estimate is to find; a false alarm is
c > k_max.  Beside the rate measured in such windows stands the rate of any link between two accounts if pairs were
independent, 1 - exp(-pairs * rate of a pair), which takes its place where a window has more records than there are
queries.

Every rate has an exact two-sided interval (Clopper and Pearson): of the windows that were drawn, or of the pairs, taken
as independent.  Theta is the least whose interval ends within the target.  It says nothing about other questions than
those like the given ones, and :func:`least_queries` says how few are too few.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from ragseal.accounting.statistics import binomial_lower, binomial_upper
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.estimate import FULL, link_threshold
from ragseal.prover.planning.similarities import THETAS, Pairs, Similarities

QUANTILES = (0.5, 0.9, 0.99, 0.999, 0.9999)
CONFIDENCE = 0.95  #: of every interval, two-sided
APART = 3  #: the queries fill a window so many times, or two drawn windows are much the same one


@dataclass(frozen=True, slots=True)
class Window:
    """The honest window of the null model."""

    accounts: int
    each: int  #: queries of an account
    tau: int

    @property
    def records(self) -> int:
        return self.accounts * self.each

    def pairs(self) -> int:
        """Pairs of records of different accounts at most tau apart; records are dealt in turn."""
        n, reach = self.records, min(self.tau, self.records - 1)
        own = sum(n - distance for distance in range(self.accounts, reach + 1, self.accounts))
        return reach * n - reach * (reach + 1) // 2 - own


def interval(hits: int, n: int) -> tuple[float, float]:
    """Exact two-sided interval of a rate at :data:`CONFIDENCE`, each end wrong with half of the rest."""
    each = (1 - CONFIDENCE) / 2
    return binomial_lower(hits, n, each), binomial_upper(hits, n, each)


def least_queries(window: Window, target: Fraction) -> int:
    """How many queries a calibration needs at least, or it shows nothing.

    Enough to draw windows that differ (:data:`APART`); or, where that is fewer, so many pairs that a rate of a link
    within the target could follow, if none of them linked.
    """
    pairs = window.pairs() * -math.log((1 - CONFIDENCE) / 2) / -math.log1p(-float(target))
    return min(APART * window.records, math.isqrt(math.ceil(2 * pairs)) + 2)


def largest_false(found: Similarities, window: Window, k_max: int, draws: int, rng: np.random.Generator) -> Pairs:
    """The largest threshold at which c > k_max, for each of ``draws`` honest windows; below the lowest theta, 0.

    Raises:
        ConfigurationError: the window has more records than there are queries.
    """
    if window.records > found.queries:
        raise ConfigurationError(
            f"a window of {window.records} records cannot be drawn from {found.queries} different queries"
        )
    out = np.zeros(draws, dtype=np.int64)
    a, b, product = found.close[np.argsort(-found.close[:, 2], kind="stable")].T
    chunk = max(1, (1 << 22) // max(1, len(product)))
    for start in range(0, draws, chunk):
        rank = rng.permuted(np.tile(np.arange(found.queries), (min(chunk, draws - start), 1)), axis=1)
        first, second = rank[:, a], rank[:, b]
        meet = (first < window.records) & (second < window.records) & (abs(first - second) <= window.tau)
        for i, row in enumerate(meet):
            links = np.stack([first[i, row], second[i, row], product[row]], axis=1)
            out[start + i] = _crossing(links.tolist(), window.accounts, k_max)
    return out


def _crossing(links: list[list[int]], accounts: int, k_max: int) -> int:
    """Product of the link, taken in falling order, that joins more than k_max accounts; 0 if none does."""
    component: dict[int, list[int]] = {}
    for a, b, product in links:
        x, y = component.setdefault(a, [a]), component.setdefault(b, [b])
        if x is not y:
            x += y
            if len({record % accounts for record in x}) > k_max:
                return product
            component.update(dict.fromkeys(y, x))
    return 0


def report(found: Similarities, window: Window, k_max: int, target: Fraction, draws: int, seed: int) -> dict[str, Any]:
    """Everything the command prints: distributions, rates by theta, the least theta that keeps the target."""
    fitting = window.records <= found.queries
    largest = largest_false(found, window, k_max, draws, np.random.default_rng(seed)) if fitting else None
    rates: list[dict[str, Any]] = []
    for theta in THETAS:
        threshold = link_threshold(theta)
        expected = window.pairs() * found.pair_rate(threshold)
        predicted = -math.expm1(-expected)
        if largest is None:
            ends = interval(found.linked(threshold), found.unrelated)
            low, high = (-math.expm1(-window.pairs() * rate) for rate in ends)
        else:
            low, high = interval(int((largest >= threshold).sum()), draws)
        rates.append({
            "theta": str(theta),
            "threshold": threshold,
            "pair_rate": found.pair_rate(threshold),
            "false_links": expected,
            "predicted": predicted,
            "measured": None if largest is None else float((largest >= threshold).mean()),
            "interval": [low, high],
            "found": found.found(threshold),
        })  # fmt: skip
    kept = [i for i in range(len(rates)) if all(rate["interval"][1] <= target for rate in rates[i:])]
    return {
        "queries": found.queries,
        "norms": list(found.norms),
        "unrelated": {
            "pairs": found.unrelated,
            "quantiles": {str(q): found.quantile(q) for q in QUANTILES},
            "largest": found.quantile(1.0),
        },
        "related": {
            "pairs": len(found.related),
            "quantiles": {str(q): float(np.quantile(found.related, q)) / FULL for q in (0.1, 0.5, 0.9)}
            if len(found.related)
            else None,
        },
        "window": {"accounts": window.accounts, "each": window.each, "tau": window.tau, "pairs": window.pairs()},
        "k_max": k_max,
        "draws": draws if fitting else 0,
        "confidence": CONFIDENCE,
        "least_queries": least_queries(window, target),
        "seed": seed,
        "target": str(target),
        "theta": rates[kept[0]]["theta"] if kept else None,
        "rates": rates,
    }
