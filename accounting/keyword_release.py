# SPDX-License-Identifier: GPL-3.0-or-later
"""What a release of keywords costs (DP-KSA: FindBestK, then propose-test-release), by Renyi bounds and by exact losses.

One query of the mechanism: k is drawn from a public range with weights exp(epsilon_k (d_k + r(k)) / 4), where the gap
d_k of the histogram moves by at most 2 with one document replaced; then the k words are released if
Z > T + 2 - max(2, d_k), Z a discrete Gaussian of variance parameter v, T the least integer with P(Z > T) <= delta_test.

Drawing k is epsilon_k-private.  Of the test: if both gaps of two neighbours are at most 2 it passes with probability at
most P(Z > T) and the sets may differ; otherwise the sets are the same, and one bit is released whose probabilities are
those of gaps up to 2 apart (`docs/proofs/keyword-release.md`).  The paper charges the noisy gap instead of the bit:
that is :meth:`ReleaseCost.renyi_epsilon`, with v for its 4 sigma^2.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Context, Decimal, localcontext
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate, pairwise

import numpy as np

from ragseal.accounting.closed_forms import mironov
from ragseal.accounting.pld import LossAtoms, compose_atoms
from ragseal.kernel.errors import PolicyError

SHIFT = 2  #: by which one document moves a gap
ORDERS = tuple(1 + 2 ** (i / 8) for i in range(-16, 97))  #: of Renyi bounds: 1.25 to 4097
LARGEST_VARIANCE = 10**6

_DIGITS = 60
_EXACT = Context(prec=_DIGITS)
_RELATIVE = Decimal(10) ** -50  #: far above the rounding of sums of 10^5 terms with 60 digits
_LOSS_SLACK = 1e-12
_UP = 1 + 2.0**-50


class DiscreteGaussian:
    """P(Z = x) proportional to exp(-x^2 / 2v) on the integers, to 50 digits."""

    def __init__(self, variance: Fraction) -> None:
        """
        Raises:
            PolicyError: a variance that is not in (0, LARGEST_VARIANCE].
        """
        if not 0 < variance <= LARGEST_VARIANCE:
            raise PolicyError(f"the variance of the test's noise is above 0 and at most {LARGEST_VARIANCE}")
        self.variance = variance
        # Weights behind the last one are below 10^-57 of the sum together.
        self.last = math.isqrt(math.ceil(2 * variance * 140)) + 20
        with localcontext(_EXACT):
            twice = 2 * _decimal(variance)
            self._weights = [(-(x * x) / twice).exp() for x in map(Decimal, range(self.last + 1))]
            self._total = 2 * sum(self._weights[1:], Decimal(0)) + self._weights[0]
            self._tails = [*accumulate(reversed(self._weights), initial=Decimal(0))][::-1]  # sums from x upwards

    def above(self, x: int) -> Decimal:
        """P(Z > x), to a relative 10^-50 where it is not below 10^-57."""
        with localcontext(_EXACT):
            if x < 0:
                return 1 - self.above(-x - 1)
            return self._tails[min(x + 1, self.last + 1)] / self._total

    def up_to(self, x: int) -> Decimal:
        """P(Z <= x), without the cancellation of 1 - P(Z > x)."""
        return self.above(-x - 1)


@lru_cache(maxsize=256)
def discrete_gaussian(variance: Fraction) -> DiscreteGaussian:
    return DiscreteGaussian(variance)


def threshold_for(variance: Fraction, delta: Fraction) -> int:
    """T: the least integer at which P(Z > T) <= delta, decided with 50 digits and on the safe side of them.

    Raises:
        PolicyError: no such variance, or a delta that is not in [10^-40, 1/2].
    """
    if not Fraction(1, 10**40) <= delta <= Fraction(1, 2):
        raise PolicyError("the test's share of delta is at least 10^-40 and at most 1/2")
    law = discrete_gaussian(variance)
    low, high = -1, law.last
    with localcontext(_EXACT):
        allowed = _decimal(delta) * (1 - _RELATIVE)
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if law.above(middle) <= allowed else (middle, high)
    return high


@dataclass(frozen=True)
class ReleaseCost:
    """The public numbers of one query on which its cost depends."""

    epsilon_k: Fraction  #: of drawing k
    variance: Fraction  #: v of the test's noise, (2 sigma)^2 in the paper's letters
    threshold: int  #: T

    @property
    def failure(self) -> float:
        """P(Z > T), rounded up: that a test passes which should not."""
        return float(discrete_gaussian(self.variance).above(self.threshold)) * _UP

    def renyi(self, order: float) -> float:
        """Renyi bound of one query (the paper's Theorems A.9 to A.12), but for the failure."""
        return pure_renyi(float(self.epsilon_k), order) + order * SHIFT**2 / (2 * float(self.variance))

    def renyi_epsilon(self, queries: int, delta: float) -> float:
        """Epsilon of so many adaptive queries by the paper's accountant: failures add up, the rest of delta is for the
        conversion (Theorem A.6); inf where failures take all of it."""
        rest = delta - queries * self.failure
        if rest <= 0:
            return math.inf
        return min(mironov(queries * self.renyi(order), order, rest) for order in ORDERS)

    @cached_property
    def atoms(self) -> LossAtoms:
        """Finite losses of one query, both parts of it."""
        epsilon = float(self.epsilon_k)
        test = _test_atoms(self.variance, self.threshold)
        if not epsilon:
            return test
        loss = np.array([epsilon, -epsilon])
        mass = np.array([1 / (1 + math.exp(-epsilon)), 1 / (1 + math.exp(epsilon))])  # randomised response
        both = (loss[:, None] + test.loss[None, :]).ravel() + _LOSS_SLACK
        return LossAtoms(both, (mass[:, None] * test.mass[None, :]).ravel() * _UP)

    def epsilon(self, queries: int, delta: float) -> float:
        """Epsilon of so many adaptive queries by composing their exact losses, rounded up; inf where there is none."""
        if queries < 1 or not 0 < delta < 1:
            raise PolicyError("accounting needs at least one query and a delta between 0 and 1")
        infinite = -math.expm1(queries * math.log1p(-self.failure)) * (1 + 1e-12)
        if infinite >= delta:
            return math.inf
        return compose_atoms(self.atoms, queries, delta, infinite).epsilon(delta)


def pure_renyi(epsilon: float, order: float) -> float:
    """Renyi bound of an epsilon-private draw (Bun and Steinke; the paper's Theorem A.9)."""
    if not epsilon:
        return 0.0
    # ln((sinh(a e) - sinh((a-1) e)) / sinh(e)) = ln of E_Q (P/Q)^a for randomised response, without overflow.
    a = order
    up, down = a * epsilon - math.log1p(math.exp(epsilon)), -a * epsilon + epsilon - math.log1p(math.exp(epsilon))
    exact = (max(up, down) + math.log1p(math.exp(-abs(up - down)))) / (a - 1)
    return min(a * epsilon**2 / 2, exact)


@lru_cache(maxsize=64)
def _test_atoms(variance: Fraction, threshold: int) -> LossAtoms:
    """Finite losses of the test: the pair whose curve is the largest of those of all neighbours.

    A pair of laws is its set of error rates (Q-mass, P-mass) of events; the hull of several such sets belongs to the
    pair that is nowhere below any of them, and its edges are that pair's outcomes.
    """
    law = discrete_gaussian(variance)
    with localcontext(_EXACT):
        one = Decimal(1)
        wrong = law.above(threshold)
        points = {(Decimal(0), wrong), (one - wrong, one), (one, one)}
        for gap in range(SHIFT, SHIFT + 2 * law.last):
            fails = law.up_to(threshold - gap + SHIFT)
            if fails <= wrong:
                break  # that it fails is likelier in the pair of two sets already
            for other in range(gap + 1, gap + SHIFT + 1):
                p, q = law.above(threshold - gap + SHIFT), law.above(threshold - other + SHIFT)
                not_p, not_q = fails, law.up_to(threshold - other + SHIFT)
                points |= {(p, q), (q, p), (not_p, not_q), (not_q, not_p)}
        hull: list[tuple[Decimal, Decimal]] = []
        for point in sorted(points):
            while hull and (hull[-1][0] == point[0] or (len(hull) > 1 and not _right_turn(hull[-2], hull[-1], point))):
                hull.pop()
            hull.append(point)
        edges = [(b[1] - a[1], b[0] - a[0]) for a, b in pairwise(hull) if b[1] > a[1]]
        losses = [float((p / q).ln()) for p, q in edges]
    return LossAtoms(np.array(losses) + _LOSS_SLACK, np.array([float(p) for p, _ in edges]) * _UP)


def _right_turn(a: tuple[Decimal, Decimal], b: tuple[Decimal, Decimal], c: tuple[Decimal, Decimal]) -> bool:
    return (b[0] - a[0]) * (c[1] - b[1]) < (b[1] - a[1]) * (c[0] - b[0])


def _decimal(x: Fraction) -> Decimal:
    return Decimal(x.numerator) / Decimal(x.denominator)


# --- from an epsilon to the numbers ----------------------------------------------------------------------------------

_STEP = Fraction(1, 4096)  #: of epsilon_k
_FAILURES = Fraction(1, 2)  #: share of delta that failures take


def cost_for(
    epsilon: float, delta: Fraction, queries: int, *, share: Fraction = Fraction(1, 2), exact: bool = True
) -> ReleaseCost:
    """The least noise at which so many queries cost at most (epsilon, delta).

    Args:
        share: of the Renyi bound that drawing k takes; the test takes the rest.
        exact: by :meth:`ReleaseCost.epsilon`; else by the paper's :meth:`ReleaseCost.renyi_epsilon`.

    Raises:
        PolicyError: numbers that ask for nothing, or an epsilon that no variance reaches.
    """
    if queries < 1 or not 0 < share < 1 or not 0 < delta < 1 or not 0 < epsilon < math.inf:
        raise PolicyError("an epsilon above 0, delta and share between 0 and 1 and at least one query are needed")
    failures = delta * _FAILURES / queries

    def at(log_rho: float) -> ReleaseCost:
        rho = math.exp(log_rho)
        variance = Fraction(math.ceil(64 * SHIFT**2 / (2 * rho * float(1 - share))), 64)
        drawn = max(int(math.sqrt(2 * rho * float(share)) / _STEP), 1) * _STEP
        return ReleaseCost(drawn, variance, threshold_for(variance, failures))

    low = math.log(SHIFT**2 / (2 * (LARGEST_VARIANCE / 2) * float(1 - share)))
    if at(low).renyi_epsilon(queries, float(delta)) > epsilon:
        raise PolicyError(
            f"epsilon {epsilon:g} for {queries} queries takes more noise than any histogram rises above: allow fewer "
            "queries or a larger epsilon"
        )
    low = _last(
        low, math.log(max(4 * epsilon, 1e-3)), 24, lambda x: _keeps(at(x).renyi_epsilon, queries, delta, epsilon)
    )
    if exact:  # which is below the Renyi bound, and not far below; the promise rests on no such experience
        while not _keeps(at(low).epsilon, queries, delta, epsilon):
            low -= 0.1
        low = _last(low, low + math.log(4), 8, lambda x: _keeps(at(x).epsilon, queries, delta, epsilon))
    return at(low)


def _keeps(spent: Callable[[int, float], float], queries: int, delta: Fraction, epsilon: float) -> bool:
    return spent(queries, float(delta)) <= epsilon


def _last(low: float, high: float, steps: int, holds: Callable[[float], bool]) -> float:
    """The last number that holds, by bisection from one that does."""
    for _ in range(steps):
        middle = (low + high) / 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
