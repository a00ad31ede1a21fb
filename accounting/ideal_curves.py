# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact (epsilon, delta) curves of the ideal laws: the second route of the epsilon audit.  SPEC D.14.

Nothing here looks at the integer table.  The Gaussian curve is Balle and Wang's closed form at mu = Delta sqrt(n) /
sigma.  The two-sided geometric curve comes from the closed-form moment generating function of its privacy loss, which
lives on a lattice, by inversion along a saddle line; no convolution and no rounding of losses is involved.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import PolicyError

_SQRT2 = math.sqrt(2.0)
_MOST_POINTS = 1 << 21


def erfcx(x: float) -> float:
    """exp(x^2) erfc(x) for x >= 0, relative error below 1e-13."""
    if x < 20.0:
        return math.exp(x * x) * math.erfc(x)
    # Asymptotic series; from x = 20 on its terms fall below 1e-16 long before they grow again.
    term, total, k = 1.0, 1.0, 1
    inverse = 1.0 / (2.0 * x * x)
    while abs(term) > 1e-17:
        term *= -(2 * k - 1) * inverse
        total += term
        k += 1
    return total / (x * math.sqrt(math.pi))


def gaussian_log_delta(mu: float, epsilon: float) -> float:
    """ln delta(epsilon) of the Gaussian mechanism, Phi(mu/2 - eps/mu) - e^eps Phi(-mu/2 - eps/mu), for epsilon >= 0."""
    u, v = (epsilon / mu - mu / 2) / _SQRT2, (epsilon / mu + mu / 2) / _SQRT2
    if u <= 0:
        # e^eps Phi(-v sqrt 2) = e^(-u^2) erfcx(v) / 2, since v^2 - u^2 = eps.
        return math.log((math.erfc(u) - math.exp(-u * u) * erfcx(v)) / 2)
    difference = erfcx(u) - erfcx(v)
    return -u * u + math.log(difference / 2) if difference > 0 else -math.inf


def gaussian_epsilon(mu: float, delta: float) -> float:
    """The epsilon >= 0 with delta(epsilon) = delta on the Gaussian curve, to about 1e-12 relative.

    Raises:
        PolicyError: mu is not positive or delta not in (0, 1).
    """
    _check(mu, delta)
    target = math.log(delta)
    high = mu * mu / 2 + mu * math.sqrt(-2 * target)  # the tail bound delta <= P(loss > epsilon)
    return _falling_root(lambda epsilon: gaussian_log_delta(mu, epsilon) - target, high)


def _check(mu: float, delta: float) -> None:
    if not (mu > 0 and math.isfinite(mu) and 0 < delta < 1):
        raise PolicyError("accounting needs a positive sensitivity and a delta strictly between 0 and 1")


def _falling_root(function: Callable[[float], float], high: float) -> float:
    """Upper end of a bracket of the zero of a falling function on [0, high]; 0 if it starts below zero."""
    if function(0.0) <= 0:
        return 0.0
    low = 0.0
    while high - low > 1e-13 * high:
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return high


def gaussian_auc(mu: float) -> float:
    """Largest area under the ROC curve of any attack, Phi(mu / sqrt 2)."""
    return math.erfc(-mu / 2) / 2


def gaussian_advantage(mu: float) -> float:
    """Largest membership advantage of any attack (total variation), 2 Phi(mu/2) - 1."""
    return math.erf(mu / (2 * _SQRT2))


class GeometricCurve:
    """n queries of the ideal two-sided geometric law of scale b at an integer shift.

    The loss of one query is -shift/b (mass r^shift / (1+r)), shift/b (mass 1/(1+r)), and (2x - shift)/b with mass
    (1-r)/(1+r) r^(shift-x) for 0 < x < shift, r = exp(-1/b); composed losses lie on a lattice of span 2/b.
    """

    def __init__(self, shift: int, n: int, scale: int) -> None:
        if shift < 1 or n < 1 or scale < 1:
            raise PolicyError("accounting needs a sensitivity of at least one table step and at least one query")
        self.shift, self.n, self.scale = shift, n, scale
        self.span = 2.0 / scale
        self.top = n * shift / scale  #: the largest composed loss
        r = math.exp(-1.0 / scale)
        x = np.arange(shift + 1)
        log_mass = math.log1p(-r) - math.log1p(r) - (shift - x) / scale
        log_mass[0], log_mass[-1] = -shift / scale - math.log1p(r), -math.log1p(r)
        self._log_mass = log_mass
        self._loss = (2.0 * x - shift) / scale

    def _moments(self, tilt: float) -> tuple[float, float, float]:
        """Cumulant of one query at ``tilt``, and mean and variance of the tilted loss."""
        exponent = self._log_mass + tilt * self._loss
        peak = float(exponent.max())
        weights = np.exp(exponent - peak)
        total = float(weights.sum())
        weights /= total
        mean = float((weights * self._loss).sum())
        return peak + math.log(total), mean, float((weights * (self._loss - mean) ** 2).sum())

    def log_moment(self, order: float) -> float:
        """ln E_Q (P/Q)^order of one query, order > 1."""
        return self._moments(order - 1)[0]

    def _saddle(self, epsilon: float) -> float:
        """The t > 0 that minimises M(t)^n e^(-t epsilon) t^t / (1+t)^(1+t), a bound of delta; its ln is convex in t."""
        low, high = math.log(1e-9), math.log(1e9)
        for _ in range(60):
            middle = (low + high) / 2
            t = math.exp(middle)
            slope = self.n * self._moments(t)[1] - epsilon - math.log1p(1 / t)
            low, high = (middle, high) if slope < 0 else (low, middle)
        return math.exp((low + high) / 2)

    def _characteristic(self, tilt: float, angle: npt.NDArray[np.float64]) -> npt.NDArray[np.complex128]:
        """E exp((tilt + i angle / span) (loss - shift/b)): two atoms and a geometric sum over the points between."""
        r = math.exp(-1.0 / self.scale)
        down = np.exp(-tilt * self.span - 1j * angle)  # one lattice point down from the top
        ratio = r * down
        interior = (1 - r) * ratio * (1 - ratio ** (self.shift - 1)) / (1 - ratio)
        return np.asarray((1 + interior + ratio**self.shift) / (1 + r), dtype=np.complex128)

    def log_delta(self, epsilon: float) -> float:
        """ln delta(epsilon) for epsilon >= 0, by inversion on the vertical line through the saddle.

        Answers 0 (delta = 1) where the saddle is too close to the pole at 0 to integrate: epsilon is then far below
        the mean of the composed loss and delta close to 1.
        """
        first = math.floor((epsilon + self.top) / self.span) + 1  # lattice index of the first loss above epsilon
        if first > self.n * self.shift:
            return -math.inf
        tilt = self._saddle(epsilon)
        if tilt * self.span * (_MOST_POINTS // 2) < 80:
            return 0.0
        cumulant, _, variance = self._moments(tilt)
        width = math.sqrt(self.n * variance) / self.span
        # Aliases of the tilted law and of the summed tail sit a whole period away: both fall like a Gaussian, or like
        # exp(-tilt span) a lattice point.
        points = 1 << max(10, math.ceil(math.log2(40 * width + 80 / (tilt * self.span) + 64)))
        points = min(points, _MOST_POINTS)
        angle = 2 * math.pi * (np.arange(points) - points // 2) / points
        # Characteristic function of (top - loss)/span >= 0, so that the exponents stay small near the top.
        unit = self._characteristic(tilt, angle) / self._characteristic(tilt, np.zeros(1))
        back = self.n * self.shift - first  # lattice points from the first loss to the top
        step = tilt * self.span + 1j * angle
        tail = 1 / (1 - np.exp(-step)) - math.exp(epsilon - self._at(first)) / (1 - np.exp(-step - self.span))
        terms = unit**self.n * np.exp(1j * angle * back) * tail
        value = float(terms.real.mean())
        if value <= 0:
            return -math.inf
        return self.n * cumulant - tilt * self._at(first) + math.log(value)

    def _at(self, index: int) -> float:
        return -self.top + index * self.span

    def epsilon(self, delta: float) -> float:
        """The epsilon >= 0 with delta(epsilon) = delta, to 1e-9 relative; below n * shift / b, where delta is 0."""
        _check(float(self.shift), delta)
        target = math.log(delta)
        low, high = 0.0, self.top
        epsilon = _falling_root(lambda e: self._log_bound(e) - target, self.top)
        for _ in range(100):
            value = self.log_delta(epsilon) - target
            if epsilon == 0.0 and value <= 0:
                return 0.0
            low, high = (epsilon, high) if value > 0 else (low, epsilon)
            # ln delta falls with slope -t, t the saddle, up to slowly varying factors: Newton, kept inside the bracket.
            following = epsilon + value / self._saddle(epsilon)
            if not low <= following <= high or not math.isfinite(following):
                following = (low + high) / 2
            if abs(following - epsilon) <= 1e-10 * high:
                break
            epsilon = following
        return epsilon

    def _log_bound(self, epsilon: float) -> float:
        """ln of an upper bound of delta(epsilon), from the moment generating function alone."""
        t = self._saddle(epsilon)
        return self.n * self._moments(t)[0] - t * epsilon - math.log1p(t) - t * math.log1p(1 / t)
