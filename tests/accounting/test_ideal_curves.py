# SPDX-License-Identifier: GPL-3.0-or-later
"""The ideal curves: published values, tiny deltas, and the lattice inversion against plain convolution."""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pytest

from ragseal.accounting import ideal_curves
from ragseal.kernel.errors import PolicyError


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
