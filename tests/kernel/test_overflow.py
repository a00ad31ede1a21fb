# SPDX-License-Identifier: GPL-3.0-or-later
"""The overflow bound: published numbers, minimality, and brute force against tiny laws."""

from __future__ import annotations

import itertools
import math
import random
from fractions import Fraction

import numpy as np
import pytest

from ragseal.circuits import bound as proven
from ragseal.kernel import overflow
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import NoiseTable, build_table, coarse_quantiles
from ragseal.kernel.params import GAUSSIAN, GEOMETRIC

pytestmark = pytest.mark.slow

LIMIT = Fraction(1, 1 << 64)

# N, K, m, law, and the smallest number of places that the bound proves.
PUBLISHED = [
    (5184, 10, 11, GAUSSIAN, 42),
    (5184, 10, 11, GEOMETRIC, 46),
    (15776, 10, 12, GAUSSIAN, 48),
    (15776, 10, 12, GEOMETRIC, 51),
    (32768, 10, 13, GAUSSIAN, 49),
    (8352, 50, 11, GAUSSIAN, 90),
]


@pytest.mark.parametrize(("N", "K", "m", "law", "R"), PUBLISHED)
def test_published_places(N: int, K: int, m: int, law: str, R: int) -> None:
    table = build_table(law)
    found, a, b = proven.find_bound(N, K, m, table)
    assert found == R
    assert overflow.overflow_bound(N, K, R, m, a, b, table) <= LIMIT
    assert overflow.overflow_bound(N, K, R - 1, m, a, b, table) > LIMIT


def test_bad_moments_do_not_prove_a_good_class() -> None:
    table = build_table(GAUSSIAN)
    R, a, b = proven.find_bound(8352, 10, 11, table)
    for N, x, y in ((8352, a * 2, b), (8352, a, b / 2), (2 * 8352, a, b)):
        assert overflow.overflow_bound(N, 10, R, 11, x, y, table) > LIMIT
    with pytest.raises(PolicyError):
        overflow.overflow_bound(100, 10, 10, 11, a, b, table)
    with pytest.raises(PolicyError, match="places"):
        proven.find_bound(12, 10, 3, table)


def test_power_is_rounded_upwards() -> None:
    rng = random.Random(3)
    for bits in (12, 40):
        for _ in range(200):
            base, n = rng.randrange(1, 3 << bits), rng.randrange(0, 40)
            exact = Fraction(base, 1 << bits) ** n
            assert Fraction(overflow.power_up(base, n, bits), 1 << bits) >= exact


def test_binomial_tail_is_tight_from_above() -> None:
    for N, K, numerator in ((40, 3, 5), (200, 1, 9), (60, 20, 24)):
        p = Fraction(numerator, 64)
        exact = sum((math.comb(N, j) * p**j * (1 - p) ** (N - j) for j in range(K)), Fraction(0))
        bound = overflow.few_exceed_bound(N, K, int(p * (1 << 128)), 128)
        assert exact <= bound <= exact + Fraction(1, 1 << 300)


def test_exceed_and_flag_by_definition() -> None:
    table, m = tiny_table((4, 3, 2, 1)), 3
    quantiles = coarse_quantiles(table, m)
    for z, (above, flagged) in zip(range(-4, 5), overflow.exceed_and_flag(table, m), strict=True):
        uniforms = [(u << 108) + (1 << 107) for u in range(16)]
        values = [table.inverse(u) for u in uniforms]
        assert above * 16 == sum(v > z for v in values) << 112
        assert flagged * 16 == sum(quantiles[u >> 109] >= z >= v for u, v in zip(uniforms, values, strict=True)) << 112


def tiny_table(masses: tuple[int, ...]) -> NoiseTable:
    """A table whose masses are sixteenths, so that sixteen uniforms enumerate it exactly."""
    assert masses[0] + 2 * sum(masses[1:]) == 16
    return NoiseTable(GAUSSIAN, tuple(p << 108 for p in masses))


def overflow_probability(scores: tuple[int, ...], K: int, R: int, m: int, table: NoiseTable) -> float:
    """Exact, by enumeration of all uniforms: more than R slots can reach the K-th winner."""
    N = len(scores)
    quantiles = np.array(coarse_quantiles(table, m))
    noise = np.array([table.inverse(u << 108) for u in range(16)])
    bound = quantiles[np.arange(16) >> (4 - m)]
    assert (noise <= bound).all()
    index = np.indices((16,) * N).reshape(N, -1)
    values = noise[index] + np.array(scores)[:, None]
    reach = bound[index] + np.array(scores)[:, None]
    winner = np.sort(values, axis=0)[N - K]
    return float(((reach >= winner).sum(axis=0) > R).mean())


@pytest.mark.parametrize(("N", "K", "R", "m"), [(4, 1, 2, 3), (4, 1, 3, 3), (5, 1, 3, 3), (5, 2, 4, 3), (5, 1, 4, 4)])
@pytest.mark.parametrize(
    "masses", [(4, 3, 2, 1), (8, 3, 1), (2, 1, 1, 1, 1, 1, 1, 1), (6, 4, 1), (4, 1, 1, 1, 1, 1, 1)]
)
def test_bound_holds_for_every_score_vector(masses: tuple[int, ...], N: int, K: int, R: int, m: int) -> None:
    table = tiny_table(masses)
    moments = [Fraction(x, 4) for x in (5, 6, 8, 12, 20, 40, 100)]
    weights = [Fraction(x, 10) for x in (1, 3, 5, 7, 9)]
    bound = min(overflow.overflow_bound(N, K, R, m, a, b, table) for a, b in itertools.product(moments, weights))
    rng = random.Random(N * 100 + R)
    vectors = [(0,) * N, *(tuple(rng.choice((0, 1, 2, 5)) for _ in range(N)) for _ in range(3))]
    worst = max(overflow_probability(v, K, R, m, table) for v in vectors)
    assert worst <= bound


@pytest.mark.parametrize("scores", ["equal", "one far above", "two clusters", "spread"])
def test_bound_of_the_geometric_law_against_samples(scores: str) -> None:
    """300 slots, K = 3, m = 6: how often more than R slots are flagged, at scores in table steps."""
    table, (N, K, m) = build_table(GEOMETRIC), (300, 3, 6)
    x = np.zeros(N, dtype=int)
    if scores == "one far above":
        x[7] = 5000
    elif scores == "two clusters":
        x[::2] = 90
    elif scores == "spread":
        x = np.arange(N)
    quantiles = np.array(coarse_quantiles(table, m))
    cdf = np.array([table.cdf(z) / 2**112 for z in range(-table.cut, table.cut + 1)])
    uniform = np.random.default_rng(11).random((4000, N))
    values = x + np.searchsorted(cdf, uniform, side="right") - table.cut
    reach = x + quantiles[np.floor(uniform * (1 << m)).astype(int)]
    assert (reach >= values).all()
    flagged = (reach >= np.sort(values, axis=1)[:, N - K][:, None]).sum(axis=1)
    for R in (16, 20, 24, 28):
        _, a, b = proven._search(N, K, R, proven._upper_hull(overflow.exceed_and_flag(table, m), table.total))
        bound = overflow.overflow_bound(N, K, R, m, Fraction(a), Fraction(b), table)
        assert (flagged > R).mean() <= bound
    assert bound < 1
    assert (flagged > 4).mean() > 0.01


def test_bound_is_not_vacuous_at_moderate_size() -> None:
    # 300 slots, K = 3, m = 6: the bound is about 1e-2 at this R, sampling sees less than that and more than nothing.
    table, (N, K, m) = build_table(GAUSSIAN), (300, 3, 6)
    quantiles = np.array(coarse_quantiles(table, m))
    rng = np.random.default_rng(11)
    cdf = np.array([table.cdf(x) / 2**112 for x in range(-table.cut, table.cut + 1)])
    uniform = rng.random((4000, N))
    values = np.searchsorted(cdf, uniform, side="right") - table.cut
    reach = quantiles[np.floor(uniform * (1 << m)).astype(int)]
    kth = np.sort(values, axis=1)[:, N - K]
    flagged = (reach >= kth[:, None]).sum(axis=1)
    for R in (20, 24, 28):
        hull = proven._upper_hull(overflow.exceed_and_flag(table, m), table.total)
        _, a, b = proven._search(N, K, R, hull)
        bound = overflow.overflow_bound(N, K, R, m, Fraction(a), Fraction(b), table)
        assert (flagged > R).mean() <= bound
    assert (flagged > 8).mean() > 0.01
    assert bound < 1
