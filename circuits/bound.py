# SPDX-License-Identifier: GPL-3.0-or-later
"""Looking for the smallest number of opened slots that the overflow bound proves, and for the a and b that prove it.

Floats serve only to look; what is found is checked exactly (:mod:`ragseal.kernel.overflow`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import NoiseTable
from ragseal.kernel.overflow import exceed_and_flag, overflow_bound
from ragseal.kernel.params import OVERFLOW_EXPONENT

_SEARCH_DENOMINATOR = 10_000


def _upper_hull(points: tuple[tuple[int, int], ...], total: int) -> list[tuple[float, float]]:
    """The points that can maximise (a-1) P - (1-b) A for some a > 1 > b: upper hull of (A, P), out of ``total``."""
    hull: list[tuple[int, int]] = []
    for x, y in sorted(points):
        while len(hull) > 1:
            (x0, y0), (x1, y1) = hull[-2:]
            if (x1 - x0) * (y - y0) < (y1 - y0) * (x - x0):
                break
            hull.pop()
        if hull and hull[-1][0] == x:
            hull.pop()  # same A, larger P: points are sorted
        hull.append((x, y))
    return [(x / total, y / total) for x, y in hull]


_GOLDEN = (math.sqrt(5) - 1) / 2
_SEARCH_LIMIT = 6.0  #: of ln a and -ln b


def _golden(function: Callable[[float], float], low: float, high: float) -> float:
    """Argument of the minimum of a convex function on [low, high], to about 1e-5."""
    x0, x1 = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    y0, y1 = function(x0), function(x1)
    while high - low > 1e-5:
        if y0 < y1:
            high, x1, y1 = x1, x0, y0
            x0 = high - _GOLDEN * (high - low)
            y0 = function(x0)
        else:
            low, x0, y0 = x0, x1, y1
            x1 = low + _GOLDEN * (high - low)
            y1 = function(x1)
    return (low + high) / 2


def _search(N: int, K: int, R: int, hull: list[tuple[float, float]], union: int = 1) -> tuple[float, float, float]:
    """(ln bound, a, b), approximately minimal: the logarithm of the bound is convex in (ln a, -ln b)."""

    def log_bound(u: float, w: float) -> float:
        worst = max(math.expm1(u) * flagged + math.expm1(-w) * above for above, flagged in hull)
        return math.log(N * union) - (R - K + 1) * u + (K - 1) * w + N * math.log1p(worst)

    def best_w(u: float) -> float:
        return _golden(lambda w: log_bound(u, w), 1e-3, _SEARCH_LIMIT)

    u = _golden(lambda u: log_bound(u, best_w(u)), 1e-3, _SEARCH_LIMIT)
    w = best_w(u)
    return log_bound(u, w), math.exp(u), math.exp(-w)


def find_bound(N: int, K: int, m: int, table: NoiseTable, union: int = 1) -> tuple[int, Fraction, Fraction]:
    """The smallest R for which ``union`` times this bound gives 2^-64, and rationals a and b that prove it exactly.

    Raises:
        PolicyError: no R <= N is enough.
    """
    hull = _upper_hull(exceed_and_flag(table, m), table.total)
    target = -OVERFLOW_EXPONENT * math.log(2)
    low, high = K, N  # the bound fails at low, is hoped for at high
    found: dict[int, tuple[Fraction, Fraction]] = {}
    while high - low > 1:
        R = (low + high) // 2
        value, a, b = _search(N, K, R, hull, union)
        if value <= target:
            rationals = _rational(a), _rational(b)
            if overflow_bound(N, K, R, m, *rationals, table) * union <= Fraction(1, 1 << OVERFLOW_EXPONENT):
                found[R] = rationals
                high = R
                continue
        low = R
    if high not in found:
        raise PolicyError(f"no number of places proves 2^-{OVERFLOW_EXPONENT} for N={N}, K={K}, m={m}; use a larger N")
    return (high, *found[high])


def _rational(x: float) -> Fraction:
    return Fraction(round(x * _SEARCH_DENOMINATOR), _SEARCH_DENOMINATOR)
