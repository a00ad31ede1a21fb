# SPDX-License-Identifier: GPL-3.0-or-later
"""AUC, exact limits and lower bounds: against scipy, against pairs counted one by one, and by their own coverage."""

from __future__ import annotations

import math

import numpy as np
import pytest
import scipy  # whose `stats` is loaded where a test uses it: it takes a second

from ragseal.accounting.statistics import at_least, binomial_lower, binomial_upper, delong, lower_bounds
from ragseal.kernel.errors import ConfigurationError


@pytest.mark.parametrize(
    ("hits", "n"), [(0, 10), (1, 10), (5, 10), (9, 10), (10, 10), (3, 400), (399, 400), (137, 999)]
)
@pytest.mark.parametrize("alpha", [0.05, 1e-3, 1e-6])
def test_clopper_pearson(hits: int, n: int, alpha: float) -> None:
    lower = scipy.stats.beta.ppf(alpha, hits, n - hits + 1) if hits else 0.0
    upper = scipy.stats.beta.ppf(1 - alpha, hits + 1, n - hits) if hits < n else 1.0
    assert binomial_lower(hits, n, alpha) == pytest.approx(lower, rel=1e-9, abs=1e-15)
    assert binomial_upper(hits, n, alpha) == pytest.approx(upper, rel=1e-9)
    if hits == n:  # closed form
        assert binomial_lower(n, n, alpha) == pytest.approx(alpha ** (1 / n), rel=1e-9)


def test_binomial_tails() -> None:
    for n, p in ((1, 0.3), (20, 0.01), (50, 0.5), (300, 0.97)):
        for k in (0, 1, n // 3, n - 1, n, n + 1):
            assert at_least(n, p, k) == pytest.approx(scipy.stats.binom.sf(k - 1, n, p), rel=1e-9, abs=1e-14)


def test_delong_against_pairs_and_placements() -> None:
    rng = np.random.default_rng(2)
    x, y = rng.integers(0, 6, 23), rng.integers(0, 5, 31)  # many ties
    pairs = (x[:, None] > y) + (x[:, None] == y) / 2
    found = delong(x, y)
    assert found.auc == pytest.approx(pairs.mean())
    assert found.auc == pytest.approx(scipy.stats.mannwhitneyu(x, y).statistic / (len(x) * len(y)))
    of_x, of_y = pairs.mean(axis=1), pairs.mean(axis=0)
    assert found.se == pytest.approx(math.sqrt(of_x.var(ddof=1) / len(x) + of_y.var(ddof=1) / len(y)))
    with pytest.raises(ConfigurationError, match="two samples"):
        delong([1], [0, 0])


def test_an_interval_that_chance_says_nothing_about() -> None:
    assert delong([1, 1, 1], [0, 0, 0]).interval(0.01) == (0.0, 1.0)
    assert delong([1, 1], [1, 1]).interval(0.01) == (0.0, 1.0)


def test_the_interval_covers_as_often_as_it_says() -> None:
    rng = np.random.default_rng(3)
    true = 0.5 + (0.5 - 0.1) / 2
    inside = 0
    for _ in range(1500):
        low, high = delong(rng.random(80) < 0.5, rng.random(80) < 0.1).interval(0.05)
        inside += low <= true <= high
    assert 0.93 <= inside / 1500 <= 0.97


def test_lower_bounds_find_the_best_event() -> None:
    """All of 60 against none of 60: the event itself, at the limits that belong to it."""
    found = lower_bounds([1] * 60, [0] * 60, 1e-6, 1e-3)
    each = 1e-3 / (2 * 2) / 2  # two events, two directions, two limits
    least, most = each ** (1 / 60), 1 - each ** (1 / 60)
    assert found.epsilon == pytest.approx(math.log((least - 1e-6) / most), rel=1e-9)
    assert found.advantage == pytest.approx(least - most, rel=1e-9)
    assert lower_bounds([0] * 60, [1] * 60, 1e-6, 1e-3) == found  # worlds have no order
    assert lower_bounds([1] * 60, [1] * 60, 1e-6, 1e-3).epsilon == 0
    # delta counts: what happens in one world only, but hardly ever, shows no epsilon
    assert lower_bounds([1] * 60, [0] * 60, 0.95, 1e-3).epsilon == 0


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_a_mechanism_at_its_epsilon_is_hardly_ever_accused(epsilon: float) -> None:
    """Randomised response is exactly epsilon-private; bounds above epsilon are errors, one of a hundred."""
    rng = np.random.default_rng(4)
    p = math.exp(epsilon) / (1 + math.exp(epsilon))
    wrong = close = 0
    for _ in range(200):
        one, other = (rng.random(600) < p).astype(int), (rng.random(600) < 1 - p).astype(int)
        bound = lower_bounds(one.tolist(), other.tolist(), 0.0, 0.01)
        wrong += bound.epsilon > epsilon or bound.advantage > 2 * p - 1
        close += bound.epsilon > epsilon / 3
    assert wrong <= 6
    assert close > 150
