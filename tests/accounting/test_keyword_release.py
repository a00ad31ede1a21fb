# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release of keywords costs: threshold, Renyi bound and exact losses, against each other and by force."""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator, Mapping
from dataclasses import replace
from fractions import Fraction

import pytest

from ragseal.accounting.keyword_release import (
    ORDERS,
    SHIFT,
    ReleaseCost,
    cost_for,
    discrete_gaussian,
    pure_renyi,
    threshold_for,
)
from ragseal.kernel.errors import PolicyError
from ragseal.prover.answers.histogram import Histogram, histogram_of
from ragseal.prover.answers.release import Range, needed_noise, weights_of_k

Law = Mapping[tuple[int, tuple[str, ...]], float]
COST = ReleaseCost(Fraction(2), Fraction(3, 2), 3)  # little noise, so that small histograms show what they can
KS = Range(1, 3)


# --- the test's noise ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("variance", [Fraction(0), Fraction(-1), Fraction(10**6 + 1)])
def test_variances_that_no_test_has_are_refused(variance: Fraction) -> None:
    with pytest.raises(PolicyError, match="variance"):
        threshold_for(variance, Fraction(1, 10))


@pytest.mark.parametrize("delta", [Fraction(0), Fraction(2, 3), Fraction(1, 10**41)])
def test_shares_of_delta_that_no_test_has_are_refused(delta: Fraction) -> None:
    with pytest.raises(PolicyError, match="share of delta"):
        threshold_for(Fraction(1), delta)


@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(59, 8), Fraction(400)])
def test_tails_are_those_of_the_law(variance: Fraction) -> None:
    law = discrete_gaussian(variance)
    weights = {x: math.exp(-x * x / (2 * variance)) for x in range(-300, 301)}
    total = math.fsum(weights.values())
    for x in (-30, -3, -1, 0, 1, 2, 7, 40):
        tail = math.fsum(w for y, w in weights.items() if y > x) / total
        assert float(law.above(x)) == pytest.approx(tail, rel=1e-12, abs=1e-300)
        assert law.above(x) + law.up_to(x) == pytest.approx(1, abs=1e-40)


@pytest.mark.parametrize("variance", [Fraction(1, 2), Fraction(59, 8), Fraction(400)])
@pytest.mark.parametrize("delta", [Fraction(1, 2), Fraction(1, 10**4), Fraction(1, 10**30)])
def test_the_threshold_is_the_least_that_keeps_the_failure_within_its_share(
    variance: Fraction, delta: Fraction
) -> None:
    threshold = threshold_for(variance, delta)
    law = discrete_gaussian(variance)
    assert law.above(threshold) <= float(delta) < law.above(threshold - 1)
    # Near the paper's quantile of the continuous law, where the variance makes the two laws alike.
    if variance > 1 and delta == Fraction(1, 10**4):
        assert abs(threshold - 3.719 * math.sqrt(variance)) <= 1


# --- Renyi against exact losses --------------------------------------------------------------------------------------


def test_the_renyi_bound_of_a_draw_is_that_of_randomised_response() -> None:
    for epsilon, order in itertools.product((0.01, 0.5, 3.0), (1.25, 2.0, 9.0)):
        p = 1 / (1 + math.exp(-epsilon))
        exact = math.log(p**order * (1 - p) ** (1 - order) + (1 - p) ** order * p ** (1 - order)) / (order - 1)
        sinh = (math.sinh(order * epsilon) - math.sinh((order - 1) * epsilon)) / math.sinh(epsilon)
        assert exact == pytest.approx(math.log(sinh) / (order - 1))  # the paper's form of it
        assert pure_renyi(epsilon, order) == pytest.approx(min(exact, order * epsilon**2 / 2))
    assert pure_renyi(0.0, 2.0) == 0.0
    assert pure_renyi(50.0, 4000.0) == pytest.approx(50.0, rel=1e-3)  # no overflow


@pytest.mark.parametrize("queries", [1, 20, 500])
def test_exact_losses_are_below_the_renyi_bound_and_not_far_below(queries: int) -> None:
    cost = ReleaseCost(Fraction(1, 8), Fraction(256), threshold_for(Fraction(256), Fraction(1, 10**8)))
    renyi, exact = cost.renyi_epsilon(queries, 1e-4), cost.epsilon(queries, 1e-4)
    assert exact <= renyi
    assert exact >= renyi / 2
    for order in ORDERS:  # the losses' own moments are below the bound at every order
        moment = (
            math.fsum(cost.atoms.mass * [math.exp((order - 1) * x) for x in cost.atoms.loss]) if order < 40 else 1.0
        )
        assert math.log(moment) / (order - 1) <= cost.renyi(order) * (1 + 1e-9)


def test_finite_losses_have_both_masses_but_for_failures() -> None:
    for cost in (COST, ReleaseCost(Fraction(1, 3), Fraction(59, 8), 9)):
        atoms, test = cost.atoms, replace(cost, epsilon_k=Fraction(0)).atoms
        assert atoms.mass.sum() == pytest.approx(1 - cost.failure, rel=1e-9)
        assert (atoms.mass * [math.exp(-x) for x in atoms.loss]).sum() == pytest.approx(1 - cost.failure, rel=1e-9)
        assert atoms.loss.max() == pytest.approx(float(cost.epsilon_k) + test.loss.max())
        assert atoms.loss.min() == pytest.approx(test.loss.min() - float(cost.epsilon_k))


def test_failures_that_take_all_of_delta_leave_no_epsilon() -> None:
    cost = ReleaseCost(Fraction(1, 8), Fraction(16), threshold_for(Fraction(16), Fraction(1, 1000)))
    assert cost.failure == pytest.approx(7.6e-4, rel=0.3)
    assert math.isinf(cost.epsilon(10, 1e-3))
    assert math.isinf(cost.renyi_epsilon(10, 1e-3))
    assert math.isfinite(cost.epsilon(10, 1e-1))


@pytest.mark.slow
def test_costs_are_found_for_a_promise_and_keep_it() -> None:
    for exact in (True, False):
        cost = cost_for(3.0, Fraction(1, 10**4), 5, exact=exact)
        spent = cost.epsilon(5, 1e-4) if exact else cost.renyi_epsilon(5, 1e-4)
        assert 2.9 < spent <= 3.0
        assert cost.failure * 5 <= 0.5e-4 * 1.000001
    assert cost_for(3.0, Fraction(1, 10**4), 5).variance < cost_for(3.0, Fraction(1, 10**4), 5, exact=False).variance


@pytest.mark.parametrize(
    "asked", [(0.0, Fraction(1, 10), 1), (1.0, Fraction(0), 1), (1.0, Fraction(1), 1), (1.0, Fraction(1, 10), 0),
              (math.inf, Fraction(1, 10), 1)],
)  # fmt: skip
def test_promises_that_mean_nothing_are_refused(asked: tuple[float, Fraction, int]) -> None:
    with pytest.raises(PolicyError, match="needed"):
        cost_for(*asked)


def test_a_promise_that_no_noise_keeps_is_refused() -> None:
    with pytest.raises(PolicyError, match="allow fewer queries"):
        cost_for(0.01, Fraction(1, 10**6), 10**6, exact=False)


# --- by force --------------------------------------------------------------------------------------------------------


def law_of(histogram: Histogram, cost: ReleaseCost) -> Law:
    """Every outcome of one query with its probability, from the integers that the mechanism decides by."""
    weights = [math.exp(w) for w in weights_of_k(histogram, KS, cost)]
    noise = discrete_gaussian(cost.variance)
    found: dict[tuple[int, tuple[str, ...]], float] = {}
    for k, weight in enumerate(weights, KS.low):
        passes = float(noise.above(needed_noise(histogram, k, cost)))
        chance = weight / math.fsum(weights)
        for words, p in ((histogram.top(k), passes), ((), 1 - passes)):
            found[k, words] = found.get((k, words), 0.0) + chance * p
    return found


def delta_between(one: Law, other: Law, epsilon: float) -> float:
    return math.fsum(max(0.0, p - math.exp(epsilon) * other.get(outcome, 0.0)) for outcome, p in one.items())


def neighbours() -> Iterator[tuple[Histogram, Histogram]]:
    """All pairs of histograms of five votes over three words that differ in one vote."""
    votes = [frozenset(v) for size in range(4) for v in itertools.combinations("abc", size)]
    seen = set()
    for rest in itertools.combinations_with_replacement(votes, 4):
        kept = histogram_of(rest)
        if kept in seen:  # what counts is the histogram
            continue
        seen.add(kept)
        made = [histogram_of([*rest, vote]) for vote in votes]
        yield from itertools.permutations(made, 2)


@pytest.fixture(scope="module")
def pairs() -> list[tuple[Histogram, Histogram]]:
    return list(dict.fromkeys(neighbours()))


def test_no_pair_of_small_histograms_is_told_apart_better_than_accounted(
    pairs: list[tuple[Histogram, Histogram]],
) -> None:
    laws = {h: law_of(h, COST) for pair in pairs for h in pair}
    bounds = {delta: COST.epsilon(1, delta) for delta in (0.04, 0.1, 0.3)}
    assert all(math.isfinite(epsilon) for epsilon in bounds.values())
    for delta, epsilon in bounds.items():
        assert max(delta_between(laws[a], laws[b], epsilon) for a, b in pairs) <= delta
    assert max(delta_between(laws[a], laws[b], 0.5) for a, b in pairs) > 0.04  # small epsilons do not hold


def test_the_whole_mechanism_with_the_papers_scale_is_told_apart_better(
    pairs: list[tuple[Histogram, Histogram]],
) -> None:
    cost = replace(COST, epsilon_k=Fraction(3))
    epsilon = cost.epsilon(1, 0.3)
    for scale, private in ((1, True), (2, False)):  # 2: Gumbel(2 / epsilon)
        used = replace(cost, epsilon_k=scale * cost.epsilon_k)
        worst = max(delta_between(law_of(a, used), law_of(b, used), epsilon) for a, b in pairs)
        assert (worst <= 0.3) is private


@pytest.mark.parametrize("cost", [COST, ReleaseCost(Fraction(0), Fraction(59, 8), 9)])
def test_losses_of_the_test_are_those_of_the_worst_neighbours_and_no_more(cost: ReleaseCost) -> None:
    """With k given, against gaps of every size and both ways in which sets may differ."""
    noise, ks = discrete_gaussian(cost.variance), Range(1, 1)

    def law(gap: int, word: str) -> Law:
        passes = float(noise.above(needed_noise(Histogram(99, ((word, gap),)), 1, cost)))
        return {(1, (word,)): passes, (1, ()): float(noise.up_to(needed_noise(Histogram(99, ((word, gap),)), 1, cost)))}

    assert ks.utilities(Histogram(99, (("a", 7),))) == [7]
    alike = [(law(g, "a"), law(h, "a")) for g in range(60) for h in range(max(0, g - SHIFT), g + SHIFT + 1)]
    unlike = [(law(g, "a"), law(h, "b")) for g in range(SHIFT + 1) for h in range(SHIFT + 1)]
    atoms = replace(cost, epsilon_k=Fraction(0)).atoms
    for epsilon in (-3.0, -1.0, -0.05, 0.0, 0.3, 1.0, 2.0, 3.0, 5.0):
        counted = [m * -math.expm1(epsilon - x) for m, x in zip(atoms.mass, atoms.loss, strict=True) if x > epsilon]
        worst = max(delta_between(a, b, epsilon) for a, b in alike + unlike)
        assert worst == pytest.approx(math.fsum(counted) + cost.failure, rel=1e-9)


def test_drawing_k_with_the_papers_scale_costs_more_than_it_says(pairs: list[tuple[Histogram, Histogram]]) -> None:
    def worst(cost: ReleaseCost) -> float:
        ratios = []
        for a, b in pairs:
            one, other = ([math.exp(w) for w in weights_of_k(h, KS, cost)] for h in (a, b))
            ratios += [
                math.log(p / math.fsum(one)) - math.log(q / math.fsum(other)) for p, q in zip(one, other, strict=True)
            ]
        return max(ratios)

    unrepaired = ReleaseCost(2 * COST.epsilon_k, COST.variance, COST.threshold)  # Gumbel(2 / epsilon)
    assert worst(COST) <= COST.epsilon_k
    assert worst(unrepaired) > COST.epsilon_k


def test_the_counterexample_to_the_papers_scale() -> None:
    before = Histogram(8, (("a", 2), ("b", 6)))
    after = Histogram(8, (("a", 1), ("b", 7), ("c", 1)))
    ks = Range(1, 4)
    for scale, private in ((1, True), (2, False)):
        cost = ReleaseCost(Fraction(2 * scale), COST.variance, COST.threshold)
        laws = []
        for h in (before, after):
            weights = [math.exp(w) for w in weights_of_k(h, ks, cost)]
            laws.append([w / math.fsum(weights) for w in weights])
        assert (max(math.log(p / q) for p, q in zip(*laws, strict=True)) <= 2.0) is private


def test_one_document_moves_a_gap_by_what_is_accounted(pairs: list[tuple[Histogram, Histogram]]) -> None:
    assert max(abs(a.gap(k) - b.gap(k)) for a, b in pairs for k in range(1, 5)) == SHIFT
