# SPDX-License-Identifier: GPL-3.0-or-later
"""AUC, exact limits and lower bounds: against scipy, against pairs counted one by one, and by their own coverage."""

from __future__ import annotations

import itertools
import math
import re

import numpy as np
import pytest
import scipy  # whose `stats` is loaded where a test uses it: it takes a second
from hypothesis import given
from hypothesis import strategies as st

from ragseal.accounting.guess import MOST_TIMES, absence_in_words, best_guess, presence_odds, return_in_words, times
from ragseal.accounting.rounding import per_cent, upward
from ragseal.accounting.statistics import at_least, binomial_lower, binomial_upper, delong, lower_bounds
from ragseal.kernel.errors import ConfigurationError, PolicyError


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


# The best guess under (epsilon, delta), against a search over every mechanism of few outputs; and its rounding.


def _private(one: list[float], other: list[float], epsilon: float, delta: float) -> bool:
    """(epsilon, delta)-indistinguishable, by every event."""
    for event in itertools.product((False, True), repeat=len(one)):
        p = math.fsum(x for x, inside in zip(one, event, strict=True) if inside)
        q = math.fsum(x for x, inside in zip(other, event, strict=True) if inside)
        if p > math.exp(epsilon) * q + delta + 1e-12 or q > math.exp(epsilon) * p + delta + 1e-12:
            return False
    return True


def _right(one: list[float], other: list[float]) -> float:
    """How often the best decision is right from even odds: by every decision."""
    decisions = itertools.product((0, 1), repeat=len(one))
    return max(sum((one, other)[d][i] / 2 for i, d in enumerate(decision)) for decision in decisions)


@pytest.mark.parametrize("delta", [0.0, 0.1, 0.5])
@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0, 3.0])
def test_no_mechanism_of_three_outputs_is_guessed_better_and_one_of_four_is_guessed_as_well(
    epsilon: float, delta: float
) -> None:
    bound = best_guess(epsilon, delta)
    steps = [np.array(p) for p in itertools.product(np.linspace(0, 1, 11), repeat=3) if abs(sum(p) - 1) < 1e-9]
    reached = 0.5
    for one, other in itertools.product(steps, repeat=2):
        if _private(list(one), list(other), epsilon, delta):
            reached = max(reached, _right(list(one), list(other)))
    assert reached <= bound + 1e-9
    least = (1 - delta) / (1 + math.exp(epsilon))  # Kairouz, Oh and Viswanath: the mechanism that dominates all others
    extreme = [delta, (1 - delta) - least, least, 0.0]
    assert _private(extreme, extreme[::-1], epsilon, delta)
    assert _right(extreme, extreme[::-1]) == pytest.approx(bound, abs=1e-12)


def test_even_odds_certainty_and_what_is_no_bound() -> None:
    assert best_guess(0, 0) == 0.5
    assert best_guess(math.log(3), 0) == pytest.approx(0.75)
    assert best_guess(math.inf, 0) == best_guess(9928.0, 1e-6) == best_guess(0, 1) == 1
    for epsilon, delta in ((-0.1, 0.0), (math.nan, 0.0), (1.0, -0.1), (1.0, 1.1), (1.0, math.nan)):
        with pytest.raises(PolicyError, match="no guess follows"):
            best_guess(epsilon, delta)


@given(st.floats(0, 800), st.floats(0, 0.5))
def test_the_guess_grows_with_epsilon_and_delta(epsilon: float, delta: float) -> None:
    assert 0.5 <= best_guess(epsilon, delta) <= best_guess(epsilon + 1, delta) <= 1
    assert best_guess(epsilon, delta) <= best_guess(epsilon, delta + 0.1)


@given(st.floats(1e-9, 1e9))
def test_what_people_read_is_never_below_the_bound(value: float) -> None:
    assert float(upward(value)) >= value * (1 - 1e-15)
    assert float(upward(value)) <= max(value * (1 + 1e-5), value + 1e-6 if value >= 1e-4 else 0)
    assert not re.search(r"\.\d{7,}", upward(value)), "nobody reads a seventh decimal"


def test_rounding_for_people() -> None:
    assert upward(614.2571) == "614.258"  # the provider said 614.257 where the auditor said 614.258
    assert upward(50.0) == "50"
    assert upward(1e-4) == "0.000101"  # from here to 1 six decimals, as nobody reads a seventh
    assert upward(math.nextafter(1e-4, 0)) == "0.0001"
    assert upward(math.inf) == upward(math.nan) == "inf"
    assert per_cent(best_guess(1, 0)) == "73.2 %"
    assert per_cent(0.98201) == "98.3 %"
    assert per_cent(0.5) == "50 %"
    assert per_cent(best_guess(85.77, 1e-6)) == "100 %"


def test_absence_is_what_may_become_sure() -> None:
    assert presence_odds(3.0) == (95.3, 4.7)
    assert absence_in_words(3.0).startswith("may become 95.3 % sure, from even odds, that a document ")
    assert absence_in_words(0.0).startswith("may become 50 % sure")


@pytest.mark.parametrize(
    ("returned", "said"),
    [
        (0.0, "1"),
        (0.001, "2"),
        (1.0, "3"),
        (math.log(1000), "1,000"),
        (math.nextafter(MOST_TIMES, 0), "10,686,474,581,525"),
        (MOST_TIMES, "any number of"),
        (math.inf, "any number of"),
        (math.nan, "any number of"),
        (-0.001, "any number of"),
    ],
)
def test_times_are_rounded_up_and_end_where_they_mean_nothing(returned: float, said: str) -> None:
    assert times(returned) == said
    assert f"at most {said} times as often as that of an empty slot" in return_in_words(returned)
