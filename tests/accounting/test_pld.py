# SPDX-License-Identifier: GPL-3.0-or-later
"""The composed loss distribution bounds exact small cases tightly; infinite loss; domination of smaller shifts."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from functools import cache

import numpy as np
import pytest

from ragseal.accounting import ideal_curves, pld
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import TOTAL, NoiseTable, build_table


def tiny(weights: tuple[int, ...]) -> NoiseTable:
    unit = TOTAL // (weights[0] + 2 * sum(weights[1:]))
    rest = [p * unit for p in weights[1:]]
    return NoiseTable("gaussian-512", (TOTAL - 2 * sum(rest), *rest))


def exact_delta(table: NoiseTable, shift: int, n: int, epsilon: float, *, reverse: bool = False) -> float:
    """Sum over all n-tuples of outputs of (P - e^epsilon Q)+, by definition."""
    sign = -1 if reverse else 1
    outputs = range(-table.cut - shift, table.cut + shift + 1)
    pairs = [(table.mass(x - sign * shift) / table.total, table.mass(x) / TOTAL) for x in outputs]
    total = 0.0
    for combination in itertools.product([pair for pair in pairs if pair[0] > 0], repeat=n):
        p, q = math.prod(c[0] for c in combination), math.prod(c[1] for c in combination)
        total += max(0.0, p - math.exp(epsilon) * q)
    return total


def exact_single_epsilon(table: NoiseTable, shift: int, delta: Fraction) -> float:
    """One query, exact: the best event is {output > x}, so epsilon = max ln((P(> x) - delta) / Q(> x))."""
    best = 0.0
    for x in range(-table.cut - 1, table.cut):
        excess = Fraction(table.tail(x - shift), table.total) - delta
        if excess > 0:
            best = max(best, math.log(excess / Fraction(table.tail(x), table.total)))
    return best


TINY = [tiny((4, 3, 2, 1)), tiny((40, 30, 16, 7, 2, 1)), tiny((64, 48, 32, 14, 2))]


@pytest.mark.slow
@pytest.mark.parametrize("table", TINY)
@pytest.mark.parametrize(("shift", "n"), [(1, 1), (1, 2), (2, 2), (1, 3), (3, 3)])
def test_composition_bounds_the_definition(table: NoiseTable, shift: int, n: int) -> None:
    infinite = pld.infinite_loss_mass(table, shift, n)
    for steer in (0.05, 0.3):
        composed = pld.compose(table, shift, n, min(0.95, steer + infinite))
        low = max(0.0, float(composed.loss[0]))
        for epsilon in np.linspace(low, max(low, float(composed.loss[-1]) * 0.98), 9):
            exact = exact_delta(table, shift, n, float(epsilon))
            assert exact <= composed.delta(float(epsilon)) <= exact + 3e-4
            assert exact_delta(table, shift, n, float(epsilon), reverse=True) == pytest.approx(exact, abs=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian-512", "geometric-16"])
@pytest.mark.parametrize("shift", [1, 16, 128, 700])
@pytest.mark.parametrize("exponent", [3, 6, 9])
def test_single_query_against_exact_rationals(law: str, shift: int, exponent: int) -> None:
    table, delta = build_table(law), Fraction(1, 10**exponent)
    exact = exact_single_epsilon(table, shift, delta)
    if pld.infinite_loss_mass(table, shift, 1) >= delta:
        pytest.skip("infinite")
    found = pld.compose(table, shift, 1, float(delta)).epsilon(float(delta))
    pure = pld.truncated_pure_epsilon(table, shift, 1, float(delta))
    assert exact <= found <= exact * (1 + 1e-3) + 2e-5
    assert exact <= pure


@pytest.mark.slow
@pytest.mark.parametrize("law", ["gaussian-512", "geometric-16"])
def test_smaller_shifts_are_dominated(law: str) -> None:
    table = build_table(law)
    for exponent in (2, 6):
        values = [exact_single_epsilon(table, shift, Fraction(1, 10**exponent)) for shift in (1, 2, 3, 31, 32, 33)]
        assert values == sorted(values)


@pytest.mark.slow
def test_infinite_mass_is_exact_and_upward() -> None:
    table = build_table("gaussian-512")
    for shift, n in ((1, 1), (128, 1000), (640, 1), (640, 223), (1024, 3)):
        once = Fraction(table.tail(table.cut - shift), TOTAL)
        exact = 1 - (1 - once) ** n
        mass = pld.infinite_loss_mass(table, shift, n)
        assert exact <= Fraction(mass) <= exact * (1 + Fraction(1, 10**15))
    assert pld.infinite_loss_mass(table, 2 * table.cut + 1, 1) >= 1


@pytest.mark.slow
def test_largest_finite_n_is_the_edge() -> None:
    table = build_table("gaussian-512")
    edge = pld.largest_finite_n(table, 2432, 1e-6)
    assert 200 < edge < 250
    assert pld.infinite_loss_mass(table, 2432, edge) < 1e-6
    assert pld.infinite_loss_mass(table, 2432, edge + 1) >= 1e-6
    assert pld.compose(table, 2432, edge, 1e-6).epsilon(1e-6) < math.inf
    assert pld.compose(table, 2432, edge + 1, 1e-6).epsilon(1e-6) == math.inf
    assert pld.largest_finite_n(table, 4096, 1e-6) == 0


@pytest.mark.slow
def test_result_does_not_depend_on_what_steers_the_window() -> None:
    table = build_table("gaussian-512")
    values = [pld.compose(table, 256, 50, steer).epsilon(1e-6) for steer in (1e-5, 1e-6, 1e-8)]
    assert max(values) <= min(values) * (1 + 1e-6)


@pytest.mark.slow
def test_out_of_range_is_refused() -> None:
    table = build_table("gaussian-512")
    for shift, n in ((0, 1), (1, 0), (-3, 1)):
        with pytest.raises(PolicyError):
            pld.compose(table, shift, n, 1e-6)
    with pytest.raises(PolicyError, match="support"):
        pld.loss_atoms(table, 2 * table.cut + 1)
    assert pld.truncated_pure_epsilon(table, 2 * table.cut + 1, 1, 1e-6) == math.inf


@pytest.mark.slow
def test_losses_above_the_window_are_charged() -> None:
    # A window that ends far below the largest composed loss: what it leaves out must not be forgotten.
    table, shift, n = TINY[1], 1, 3
    atoms = pld.loss_atoms(table, shift)
    infinite = pld.infinite_loss_mass(table, shift, n)
    composed = pld._compose_on_grid(atoms, n, 0.5, 0.5, 0.6, 12, infinite)
    assert composed.loss[-1] < 0.81
    assert composed.above > 0
    for epsilon in (0.3, 0.5, 0.7):
        assert composed.delta(epsilon) >= exact_delta(table, shift, n, epsilon)
        stripped = pld.ComposedLoss(composed.loss, composed.weight, 0.0, composed.infinite)
        assert stripped.delta(0.79) < exact_delta(table, shift, n, 0.79)


@pytest.mark.slow
@pytest.mark.parametrize(("shift", "n", "delta"), [(1, 100, 1e-6), (64, 10, 1e-4), (256, 1000, 1e-9), (32, 1, 1e-3)])
@pytest.mark.parametrize("law", ["gaussian-512", "geometric-16"])
def test_epsilon_is_that_of_plain_bisection(law: str, shift: int, n: int, delta: float) -> None:
    """To the last bit: a step that costs what is left between the ends decides as the whole sum does."""
    composed = pld.compose(build_table(law), shift, n, delta)
    if pld.infinite_loss_mass(build_table(law), shift, n) >= delta:
        assert composed.epsilon(delta) == math.inf
        return
    low, high = max(0.0, float(composed.loss[0])), float(composed.loss[-1])
    while high - low > 1e-12 * high:
        middle = (low + high) / 2
        low, high = (low, middle) if composed.delta(middle) <= delta else (middle, high)
        if middle in (low, high) and high - low <= math.ulp(high):
            break
    assert composed.epsilon(delta) == high * (1 + 8 * 2.0**-53)


@pytest.mark.slow
def test_an_excess_is_its_sum_wherever_the_ends_have_moved() -> None:
    rng = np.random.default_rng(1)
    loss, weight = np.sort(rng.uniform(0, 3000, 5000)), rng.exponential(1, 5000)
    excess, low, high = pld.Excess(loss, weight, 0.0, float(loss[-1])), 0.0, float(loss[-1])
    for upwards in rng.integers(0, 2, 40):
        middle = (low + high) / 2
        above = loss > middle
        whole = float((weight[above] * -np.expm1(middle - loss[above])).sum())
        assert excess.at(middle) == pytest.approx(whole, rel=pld.Excess.ERROR, abs=0)
        excess.narrow(upwards=bool(upwards))
        low, high = (middle, high) if upwards else (low, middle)


# The ideal curves: published values, tiny deltas, and the lattice inversion against plain convolution.


@cache
def nodes_and_weights() -> tuple[np.ndarray, np.ndarray]:
    """Gauss-Legendre on [-1, 1], found when a test asks: it takes a second, and every worker collects every file."""
    return np.polynomial.legendre.leggauss(400)


@pytest.mark.parametrize(
    ("sigma", "accounts", "epsilon"),
    [
        (422.47, 1, 1.000),
        (422.47, 10, 3.525),
        (422.47, 50, 8.885),
        (422.47, 100, 13.507),
        (3584.39, 1, 0.10138),
        (3584.39, 10, 0.34711),
        (3584.39, 50, 0.82190),
        (3584.39, 100, 1.19412),
        (1335.96, 10, 1.0),
        (65.29, 1, 8.0),
    ],
)
def test_published_gaussian_epsilons(sigma: float, accounts: int, epsilon: float) -> None:
    # 10^4 queries an account, sensitivity 1, delta = 1e-6.
    assert ideal_curves.gaussian_epsilon(math.sqrt(accounts * 1e4) / sigma, 1e-6) == pytest.approx(epsilon, rel=2e-4)


@pytest.mark.parametrize("mu", [0.001, 0.05, 1.0, 6.0, 40.0, 800.0])
@pytest.mark.parametrize("exponent", [1, 6, 12, 40, 200])
def test_gaussian_root_and_integral(mu: float, exponent: int) -> None:
    delta = 10.0**-exponent
    epsilon = ideal_curves.gaussian_epsilon(mu, delta)
    if epsilon == 0.0:
        assert ideal_curves.gaussian_log_delta(mu, 0.0) <= math.log(delta)
        return
    # delta = integral over losses l > eps of density(l) (1 - e^(eps - l)), loss ~ N(mu^2/2, mu^2), in log domain.
    start = (epsilon - mu * mu / 2) / mu
    width = min(40.0, 60.0 / max(1.0, start))
    nodes, weights = nodes_and_weights()
    x = start + width * (nodes + 1) / 2
    integrand = np.exp(-(x * x - start * start) / 2) * -np.expm1(-mu * (x - start))
    integral = float((weights * integrand).sum()) * width / 2 / math.sqrt(2 * math.pi)
    assert math.log(integral) - start * start / 2 == pytest.approx(math.log(delta), rel=1e-9, abs=1e-8)


def test_erfcx_meets_its_series() -> None:
    assert ideal_curves.erfcx(0.0) == 1.0
    assert ideal_curves.erfcx(19.999999) == pytest.approx(ideal_curves.erfcx(20.0), rel=1e-7)
    assert ideal_curves.erfcx(25.0) == pytest.approx(math.exp(625.0) * math.erfc(25.0), rel=1e-11)
    assert ideal_curves.erfcx(1e8) == pytest.approx(1 / (1e8 * math.sqrt(math.pi)), rel=1e-14)


def test_attack_numbers() -> None:
    assert ideal_curves.gaussian_auc(1e4**0.5 / 3584.39) == pytest.approx(0.508, abs=1e-3)
    assert ideal_curves.gaussian_auc(1e6**0.5 / 422.47) == pytest.approx(0.953, abs=1e-3)
    assert ideal_curves.gaussian_advantage(1e-6) == pytest.approx(1e-6 / math.sqrt(2 * math.pi), rel=1e-6)


@pytest.mark.parametrize(("shift", "n"), [(1, 1), (1, 10), (2, 7), (16, 3), (40, 5), (256, 2), (8, 60)])
def test_geometric_inversion_against_convolution(shift: int, n: int) -> None:
    curve = ideal_curves.GeometricCurve(shift, n, 32)
    r = math.exp(-1 / 32)
    x = np.arange(-4000, 4000)
    mass = (1 - r) / (1 + r) * r ** np.abs(x - shift)
    loss = (np.abs(x) - np.abs(x - shift)) / 32
    lattice = np.zeros(shift + 1)
    np.add.at(lattice, np.round((loss * 32 + shift) / 2).astype(int), mass)
    composed = np.ones(1)
    for _ in range(n):
        composed = np.convolve(composed, lattice)
    points = (2.0 * np.arange(n * shift + 1) - n * shift) / 32
    for fraction in (0.0, 0.3, 0.77, 0.99):
        epsilon = fraction * curve.top
        exact = float((composed * np.clip(-np.expm1(epsilon - points), 0, None)).sum())
        if exact < 0.9:
            assert curve.log_delta(epsilon) == pytest.approx(math.log(exact), abs=1e-8)
    for delta in (1e-2, 1e-6, 1e-9):
        epsilon = curve.epsilon(delta)
        exact = float((composed * np.clip(-np.expm1(epsilon - points), 0, None)).sum())
        assert exact == pytest.approx(delta, rel=1e-5) or epsilon == 0.0
        assert 0 <= epsilon <= curve.top


def test_nonsense_is_refused() -> None:
    for mu, delta in ((0.0, 1e-6), (1.0, 0.0), (1.0, 1.0), (math.nan, 0.1), (math.inf, 0.1)):
        with pytest.raises(PolicyError):
            ideal_curves.gaussian_epsilon(mu, delta)
    for shift, n in ((0, 1), (1, 0)):
        with pytest.raises(PolicyError):
            ideal_curves.GeometricCurve(shift, n, 32)
