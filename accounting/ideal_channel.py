# SPDX-License-Identifier: GPL-3.0-or-later
"""The top-K accountants once more, for the ideal laws: their second route.  SPEC D.14.

The definitions are those of :mod:`ragseal.accounting.topk`; nothing else is shared.  Noise is the infinite discrete
Gaussian or two-sided geometric law in floating point, never the integer table; thresholds are taken one by one, not in
cells; losses lie exactly on a lattice (Theorem A) or on an even grid joined by chords (Theorem B).  No error bound is
claimed: a certified number that differs from this one by more than a thousandth is not reported.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ragseal.accounting.ideal_composition import LatticeLoss
from ragseal.accounting.pld import Vector
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import LARGEST_CUT, scale_of
from ragseal.kernel.params import GAUSSIAN, NOISE_LAWS

Steps = npt.NDArray[np.int64]

_REACH_GAUSSIAN, _REACH_GEOMETRIC = 16, 100  # where a law is cut, in units of its scale: at e^-100 and less
_GRID = 1 << 13
_NEVER = 1e-60  # thresholds rarer than this are left out


class IdealChannel:
    """One query of shift ``shift`` table steps whose K best of N slots are released.

    Raises:
        PolicyError: an unknown law, or numbers out of range.
    """

    def __init__(self, law: str, N: int, K: int, shift: int) -> None:
        if law not in NOISE_LAWS or not 1 <= K < N or not 1 <= shift <= 2 * LARGEST_CUT:
            raise PolicyError("the ideal channel needs noise, 1 <= K < N and a sensitivity of a table's size")
        self.law, self.N, self.K, self.shift = law, N, K, shift
        self.gaussian, self.scale = law == GAUSSIAN, scale_of(law)
        reach = _REACH_GAUSSIAN if self.gaussian else _REACH_GEOMETRIC
        self.end = reach * self.scale + shift + 2  #: values -end .. end
        x = np.arange(-self.end, self.end + 1, dtype=np.float64)
        log = -(x**2) / (2 * self.scale**2) if self.gaussian else -np.abs(x) / self.scale
        self.log_p: Vector = log - math.log(math.fsum(np.exp(log)))
        tail = np.logaddexp.accumulate(self.log_p[::-1])[::-1]
        #: ln P(X >= x) and ln P(X < x), x = -end .. end
        self.log_reach: Vector = np.minimum(tail, 0.0)
        self.log_miss: Vector = np.minimum(np.concatenate([[-np.inf], tail[::-1][:-1]]), 0.0)
        self.below = self._threshold()
        self.chance: Vector = np.diff(self.below, prepend=0.0)

    def index(self, x: Steps) -> Steps:
        """Index of the value x, ends included."""
        return np.clip(x + self.end, 0, 2 * self.end)

    def _threshold(self) -> Vector:
        """P(tau <= x), tau the K-th largest of N - 1 draws: at most K - 1 of them exceed x."""
        above = np.concatenate([self.log_reach[1:], [-np.inf]])
        stay = np.concatenate([self.log_miss[1:], [0.0]])
        total = np.zeros(above.size)
        for j in range(self.K):
            choose = math.lgamma(self.N) - math.lgamma(j + 1) - math.lgamma(self.N - j)
            with np.errstate(invalid="ignore"):
                power = np.where(j > 0, j * above, 0.0)
            total += np.exp(choose + power + (self.N - 1 - j) * stay)
        return np.minimum(total, 1.0)

    # --- Theorem A ---

    def _span(self) -> tuple[float, int]:
        """(nats a lattice point, lattice points a step of x): the loss at x is that of 2 x - shift half steps."""
        half = self.shift / (2 * self.scale**2) if self.gaussian else 1 / self.scale
        return (half, 2) if self.shift % 2 else (2 * half, 1)

    def ordered(self, n: int, delta: float) -> float:
        """Epsilon of n queries under Theorem A."""
        span, per_step = self._span()
        x = np.arange(self.shift // 2 + 1, self.end + 1)  # positive losses
        mass = self.below[self.index(x)] * np.exp(self.log_p[self.index(x - self.shift)])
        index = (2 * x - self.shift) * per_step // 2
        if not self.gaussian:
            index = np.minimum(index, self.shift * per_step // 2)
        half: Vector = np.bincount(index, mass).astype(np.float64)
        return _mirrored(half, span).epsilon(n, delta)

    # --- Theorem B ---

    def curve(self) -> tuple[Vector, float]:
        """(deltas at k * span, span): E_tau sup over theta and directions of the curve of {c + X >= theta}."""
        if self.gaussian:
            most = (12 * self.scale + self.shift / 2) * self.shift / self.scale**2
        else:
            most = self.shift / self.scale
        span = most / _GRID
        epsilon: Vector = np.arange(_GRID + 1) * np.float64(span)
        if self.gaussian:
            best = np.floor(self.shift / 2 + epsilon * self.scale**2 / self.shift).astype(np.int64) + 1
        else:
            best = np.floor((self.shift + epsilon * self.scale) / 2).astype(np.int64) + 1
            best[-1] = self.shift

        def gain(theta: Steps) -> Vector:
            raised, plain = self.log_reach[self.index(theta - self.shift)], self.log_reach[self.index(theta)]
            with np.errstate(invalid="ignore"):
                out: Vector = np.exp(raised) * -np.expm1(np.minimum(epsilon + plain - raised, 0.0))
            return np.nan_to_num(out)

        free = gain(best)
        values = np.arange(-self.end - 2 * self.shift - 2, self.end + 2 * self.shift + 3)
        of_raised, of_plain = self.log_reach[self.index(values - self.shift)], self.log_reach[self.index(values)]
        chance_raised = np.exp(of_raised)

        def at(theta: int, part: Vector) -> Vector:
            """:func:`gain` at one threshold, of some of the epsilons."""
            raised, plain = of_raised[theta - values[0]], of_plain[theta - values[0]]
            out = np.zeros(part.size)
            if raised > -math.inf:  # and from raised - plain on nothing is gained
                some = part[: part.searchsorted(raised - plain + 1e-6)]
                out[: some.size] = chance_raised[theta - values[0]] * -np.expm1(np.minimum(some + plain - raised, 0.0))
            return out

        def clamped(least: int, most: int) -> Vector:
            """At the best threshold of an interval; the best of all rises with epsilon, so the ends cut it twice."""
            below, above = best.searchsorted(least, side="left"), best.searchsorted(most, side="right")
            return np.concatenate([at(least, epsilon[:below]), free[below:above], at(most, epsilon[above:])])

        deltas = np.zeros(_GRID + 1)
        for tau in np.nonzero(self.chance > _NEVER)[0] - self.end:
            last = int(tau) + self.shift + 1
            up, down = clamped(int(tau), last), clamped(self.shift + 1 - last, self.shift + 1 - int(tau))
            deltas += self.chance[int(tau) + self.end] * np.maximum(up, down)
        return deltas, span

    def set_losses(self, n: int, delta: float) -> float:
        """Epsilon of n queries under Theorem B, the one-query curve composed."""
        deltas, span = one_query_curve(self.law, self.N, self.K, self.shift)
        drop = -np.diff(deltas)
        # Masses of the losses k * span whose curve joins the points by chords in e^epsilon.
        half = np.zeros(deltas.size)
        half[1:] = drop / -math.expm1(-span)
        half[1:-1] -= drop[1:] / math.expm1(span)
        return _mirrored(np.maximum(half, 0.0), span).epsilon(n, delta)

    def log_moment(self, order: float) -> float:
        """ln E_tau sup over theta and directions of sum P^a Q^(1-a)."""
        theta = np.arange(-self.end, self.end + 1)
        plain, miss = self.log_reach, self.log_miss
        raised, raised_miss = plain[self.index(theta - self.shift)], miss[self.index(theta - self.shift)]

        def moment(p: Vector, q: Vector, p_not: Vector, q_not: Vector) -> Vector:
            with np.errstate(invalid="ignore"):
                hit, missed = order * p + (1 - order) * q, order * p_not + (1 - order) * q_not
            return np.asarray(np.logaddexp(np.nan_to_num(hit, nan=-np.inf), np.nan_to_num(missed, nan=-np.inf)))

        worst = np.maximum(moment(raised, plain, raised_miss, miss), moment(plain, raised, miss, raised_miss))
        window = np.lib.stride_tricks.sliding_window_view(worst, self.shift + 2)
        likely = np.nonzero(self.chance > _NEVER)[0]
        likely = likely[likely < window.shape[0]]
        terms = np.log(self.chance[likely]) + window[likely].max(axis=1)
        top = float(terms.max())
        return top + math.log(float(np.exp(terms - top).sum()))

    def set_renyi(self, n: int, delta: float, order: float) -> float:
        """Epsilon of n queries from the Renyi moments of one order."""
        a = order
        return max(0.0, (n * self.log_moment(a) - math.log(delta * a)) / (a - 1) + math.log1p(-1 / a))


@lru_cache(maxsize=32)
def ideal_channel(law: str, N: int, K: int, shift: int) -> IdealChannel:
    """One channel, kept."""
    return IdealChannel(law, N, K, shift)


@lru_cache(maxsize=32)
def one_query_curve(law: str, N: int, K: int, shift: int) -> tuple[Vector, float]:
    """:meth:`IdealChannel.curve`, kept."""
    return ideal_channel(law, N, K, shift).curve()


def _mirrored(half: Vector, span: float) -> LatticeLoss:
    """Losses k * span with masses half[k], k > 0, the same mirrored, and the rest of the probability at 0."""
    k = np.arange(half.size)
    other = half * np.exp(-k * span)
    half[0] = other[0] = 0.0
    middle = max(0.0, 1.0 - float(half.sum()) - float(other.sum()))
    return LatticeLoss(np.concatenate([other[:0:-1], [middle], half[1:]]), 1 - half.size, span)
