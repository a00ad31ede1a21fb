# SPDX-License-Identifier: GPL-3.0-or-later
"""n-fold composition of a privacy loss that lives on a lattice.  SPEC D.14.

The ideal laws' losses are multiples of one span, so nothing is moved to a grid and composition is a plain convolution
of the tilted law.  Floating point, no bound on its error: this checks the certified route and never replaces it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from ragseal.accounting.pld import Excess, LossAtoms, Vector, tail_epsilon
from ragseal.kernel.errors import PolicyError

_MOST_POINTS = 1 << 20
_DEVIATIONS = 24.0  # of the tilted law inside one period of the convolution


@dataclass(frozen=True, slots=True)
class LatticeLoss:
    """One query: loss ``(first + j) * span`` has mass ``mass[j]``; the rest is lost to losses that do not matter."""

    mass: Vector
    first: int
    span: float

    def _atoms(self) -> LossAtoms:
        index = np.nonzero(self.mass > 0)[0]
        loss: Vector = (self.first + index).astype(np.float64) * self.span
        return LossAtoms(loss, self.mass[index])

    def coarser(self, factor: int) -> LatticeLoss:
        """The same on a lattice of ``factor`` spans; every mass is split so that both laws keep theirs."""
        if factor == 1:
            return self
        index = self.first + np.arange(self.mass.size)
        below = np.floor_divide(index, factor)
        rest = (index - below * factor) * self.span
        upper = self.mass * np.expm1(-rest) / math.expm1(-factor * self.span)
        mass = np.zeros(int(below[-1] - below[0]) + 2)
        np.add.at(mass, below - below[0], self.mass - upper)
        np.add.at(mass, below - below[0] + 1, upper)
        return LatticeLoss(np.maximum(mass, 0.0), int(below[0]), factor * self.span)

    def epsilon(self, n: int, delta: float) -> float:
        """The epsilon >= 0 of n queries with delta(epsilon) = delta.

        Raises:
            PolicyError: n below 1 or delta not in (0, 1).
        """
        if n < 1 or not 0 < delta < 1:
            raise PolicyError("accounting needs at least one query and a delta strictly between 0 and 1")
        centre, tilt = tail_epsilon(self._atoms(), n, delta)
        centre = max(centre, 0.0)
        points, factor = _points(self, n, tilt, centre)
        one = self.coarser(factor)
        loss = (one.first + np.arange(one.mass.size)) * one.span
        with np.errstate(divide="ignore"):
            exponent = np.log(one.mass) + tilt * loss
        top = float(exponent.max())
        cumulant = top + math.log(float(np.exp(exponent - top).sum()))
        circle = np.bincount(np.arange(one.mass.size) % points, np.exp(exponent - cumulant), points)
        composed = np.maximum(np.fft.irfft(np.fft.rfft(circle) ** n, points), 0.0)
        lowest = round(centre / one.span) - points // 2
        index = np.arange(lowest, lowest + points)
        losses: Vector = index * np.float64(one.span)
        # Far below the centre a weight may overflow: delta is 1 there anyway, and a mass of 0 weighs nothing.
        with np.errstate(divide="ignore"):
            weight = np.log(composed[(index - n * one.first) % points]) + (n * cumulant - tilt * losses)
        weight = np.exp(np.minimum(weight, 600.0))

        def at(epsilon: float) -> float:
            start = int(np.searchsorted(losses, epsilon, side="right"))
            return float((weight[start:] * -np.expm1(epsilon - losses[start:])).sum())

        low, high = 0.0, float(losses[-1])
        if at(low) <= delta:
            return 0.0
        excess = Excess(losses, weight, low, high)
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            near = excess.at(middle)
            above = near > delta if abs(near - delta) > Excess.ERROR * near else at(middle) > delta
            excess.narrow(upwards=above)
            low, high = (middle, high) if above else (low, middle)
        return high


def _points(loss: LatticeLoss, n: int, tilt: float, centre: float) -> tuple[int, int]:
    """(points of the convolution, factor by which the lattice has to be coarsened)."""
    atoms = loss._atoms()
    exponent = np.log(atoms.mass) + tilt * atoms.loss
    tilted = np.exp(exponent - exponent.max())
    tilted /= tilted.sum()
    mean = float((tilted * atoms.loss).sum())
    deviation = math.sqrt(n * float((tilted * (atoms.loss - mean) ** 2).sum()))
    # Epsilon lies below the tail bound by a few deviations at most, or by a few nats over the tilt.
    width = _DEVIATIONS * deviation + min(40 / tilt, 2 * centre) + 64 * loss.span
    factor = max(1, math.ceil(width / loss.span / _MOST_POINTS))
    return 1 << max(12, math.ceil(math.log2(width / loss.span / factor + 2))), factor
