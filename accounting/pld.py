# SPDX-License-Identifier: GPL-3.0-or-later
"""Privacy-loss distribution of the actual integer table, composed n-fold, as a certified upper bound.  SPEC D.14.

One query at shift Delta (table steps) is the pair P = law of z_b + Delta, Q = law of z_b.  Rules T1 to T4 make this
pair dominate every smaller shift, and by the table's symmetry the reversed pair has the same loss distribution, so one
computation covers both directions.  With adaptive queries the n-fold product of a dominating pair dominates.

    delta(eps) = delta_inf + sum over composed losses l > eps of P(l) (1 - e^(eps - l)).

Everything is rounded against the mechanism:

- a loss between two grid points is split onto both so that its P- and its Q-mass are kept; merging the two parts gives
  the original back, so the split experiment can only be more informative;
- losses are raised by 1e-12 and masses inflated by more than the floating-point error made in computing them;
- the composition runs on the exponentially tilted law, centred on the losses that decide delta, so that rounding
  errors are relative to delta and not to 1.  The circular convolution can only add mass to the window; what lies above
  the window is charged by a Chernoff bound;
- the transforms' rounding error is bounded point by point: an entry of a radix-2^k transform is a sum of the inputs,
  each multiplied by at most log2 M unit factors, so it is off by at most 8 u log2(M) sum |f|; that bound is carried
  through the n-th power at every frequency and added to every composed mass.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import NoiseTable

Vector = npt.NDArray[np.float64]

_U = 2.0**-53
_LOSS_SLACK = 1e-12  # above the error of the difference of two logarithms below 100
_GRID_BITS = (19, 22)  # 2^19 composed losses, more for very many queries
_HALF_WIDTH = 14.0  # of the window, in standard deviations of the tilted law
_TILT_LIMITS = (1e-7, 1e5)
_FIXED_BITS = 1024


def infinite_loss_mass(table: NoiseTable, shift: int, n: int) -> float:
    """delta_inf = 1 - (1 - P(z_b > C - shift))^n, rounded upwards.

    It is the probability that one of n queries shows a value that the unshifted table cannot produce.
    """
    return _exact_infinite_mass(table, shift, n)[1]


def _exact_infinite_mass(table: NoiseTable, shift: int, n: int) -> tuple[int, float]:
    """delta_inf in units of 2^-1024 and as a float, both rounded upwards."""
    _check(shift, n)
    finite = (table.total - table.tail(table.cut - shift)) << (_FIXED_BITS - table.bits)
    survive = _power_down(finite, n)
    mass = (1 << _FIXED_BITS) - survive
    return mass, math.nextafter(mass / (1 << _FIXED_BITS), math.inf)


@lru_cache(maxsize=1024)  # :func:`largest_finite_n` asks for a hundred powers, of the same base at every audit
def _power_down(base: int, exponent: int) -> int:
    """A lower bound of (base / 2^1024)^exponent in the same fixed point, base <= 2^1024."""
    result, square = 1 << _FIXED_BITS, base
    while exponent:
        if exponent & 1:
            result = result * square >> _FIXED_BITS
        exponent >>= 1
        if exponent:
            square = square * square >> _FIXED_BITS
    return result


def largest_finite_n(table: NoiseTable, shift: int, delta: float) -> int:
    """The largest n with delta_inf < delta; 0 if a single query already exceeds it."""
    low, high = 0, 1
    while infinite_loss_mass(table, shift, high) < delta:
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if infinite_loss_mass(table, shift, middle) < delta else (low, middle)
    return low


def _check(shift: int, n: int) -> None:
    if shift < 1 or n < 1:
        raise PolicyError("accounting needs a sensitivity of at least one table step and at least one query")


@dataclass(frozen=True, slots=True)
class LossAtoms:
    """Finite losses of one query: ``loss[i]`` (nats, rounded up) has P-mass ``mass[i]`` (rounded up)."""

    loss: Vector
    mass: Vector


def loss_atoms(table: NoiseTable, shift: int) -> LossAtoms:
    """The finite part of the privacy-loss distribution of one query.

    Raises:
        PolicyError: the shift is not in 1..2C, or no output is possible under both laws.
    """
    _check(shift, 1)
    values = range(-table.cut + shift, table.cut + 1)
    if not values:
        raise PolicyError(f"a sensitivity of {shift} steps exceeds the table's whole support: no epsilon exists")
    logs = [math.log(p) for p in table.half]
    loss = np.array([logs[abs(x - shift)] - logs[abs(x)] for x in values]) + _LOSS_SLACK
    mass = np.array([table.mass(x - shift) / table.total for x in values]) * (1 + 4 * _U)
    return LossAtoms(loss, mass)


def _cumulant(atoms: LossAtoms, tilt: float) -> float:
    """ln sum mass e^(tilt loss): a float close to it."""
    return _log_moment(np.log(atoms.mass), atoms.loss, tilt)


def _log_moment(log_mass: Vector, loss: Vector, tilt: float) -> float:
    exponent = log_mass + tilt * loss
    top = float(exponent.max())
    exponent -= top
    return top + math.log(float(np.exp(exponent, out=exponent).sum()))


def tail_epsilon(atoms: LossAtoms, n: int, delta: float) -> tuple[float, float]:
    """(epsilon, t): smallest epsilon with exp(n K(t) - t epsilon) t^t / (1+t)^(1+t) = delta.  Steers the search only.

    The last factor is the largest value of e^(-t (l - eps)) (1 - e^(eps - l)) over l.
    """

    log_mass = np.log(atoms.mass)

    def epsilon(log_tilt: float) -> float:
        t = math.exp(log_tilt)
        return (n * _log_moment(log_mass, atoms.loss, t) - math.log(delta) - math.log1p(t)) / t - math.log1p(1 / t)

    low, high = (math.log(t) for t in _TILT_LIMITS)
    for _ in range(60):
        x0, x1 = low + 0.381966 * (high - low), high - 0.381966 * (high - low)
        low, high = (low, x1) if epsilon(x0) < epsilon(x1) else (x0, high)
    return epsilon((low + high) / 2), math.exp((low + high) / 2)


def _split_onto_grid(atoms: LossAtoms, step: float) -> tuple[npt.NDArray[np.int64], Vector]:
    """(first index, masses) of the atoms moved to multiples of ``step``, P- and Q-mass kept, rounded up."""
    below = np.floor(atoms.loss / step).astype(np.int64)
    # The remainder is exact to 1e-13; the slack in the losses is larger, so a negative one is a rounding artefact.
    rest = np.clip(atoms.loss - below * step, 0.0, step)
    upper = np.minimum(atoms.mass, atoms.mass * np.expm1(-rest) / math.expm1(-step) * (1 + 8 * _U))
    lower = np.maximum(atoms.mass - upper, 0.0) * (1 + 4 * _U)
    first = int(below.min())
    masses = np.zeros(int(below.max()) - first + 2)
    np.add.at(masses, below - first, lower)
    np.add.at(masses, below - first + 1, upper)
    return np.arange(first, first + masses.size), masses * (1 + 4 * atoms.mass.size * _U)


def _power(base: npt.NDArray[np.complex128], n: int) -> npt.NDArray[np.complex128]:
    result = np.ones_like(base)
    square = base.copy()
    while n:
        if n & 1:
            result *= square
        n >>= 1
        if n:
            square *= square
    return result


class Excess:
    """Sum of weight * (1 - e^(epsilon - loss)) over the losses above epsilon, while bisection narrows epsilon down.

    What lies above the upper end enters through two numbers, and every term is positive, so that a step of the
    bisection costs what is left between its ends, and loses no digits.
    """

    ERROR = 1e-12  #: relative, of :meth:`at`: a hundred times what its sums and a hundred steps can be off

    def __init__(self, loss: Vector, weight: Vector, low: float, high: float) -> None:
        """``loss`` is rising; no loss above ``high`` may carry weight."""
        start = int(np.searchsorted(loss, low, side="right"))
        self._loss, self._weight, self._high = loss[start:], weight[start:], high
        # Of what lies above the upper end: the sum there, and the sum of weight * e^(high - loss).
        self._excess = self._beyond = 0.0
        self._middle, self._cut, self._found = high, self._loss.size, 0.0

    def at(self, epsilon: float) -> float:
        """The sum at an epsilon between the ends."""
        self._middle, self._cut = epsilon, int(np.searchsorted(self._loss, epsilon, side="right"))
        between = float((self._weight[self._cut :] * -np.expm1(epsilon - self._loss[self._cut :])).sum())
        self._found = between + self._excess + self._beyond * -math.expm1(epsilon - self._high)
        return self._found

    def narrow(self, upwards: bool) -> None:
        """The epsilon that was asked last becomes the lower end (``upwards``) or the upper one."""
        loss, weight = self._loss, self._weight
        if upwards:
            self._loss, self._weight = loss[self._cut :], weight[self._cut :]
            return
        between = float((weight[self._cut :] * np.exp(self._middle - loss[self._cut :])).sum())
        self._beyond = between + self._beyond * math.exp(self._middle - self._high)
        self._excess, self._high = self._found, self._middle
        self._loss, self._weight = loss[: self._cut], weight[: self._cut]


@dataclass(frozen=True, slots=True)
class ComposedLoss:
    """Losses of n queries inside a window: ``weight[j]`` bounds P(loss[j]); ``above`` bounds what lies above it."""

    loss: Vector
    weight: Vector
    above: float
    infinite: float  #: delta_inf

    def delta(self, epsilon: float) -> float:
        """An upper bound of delta(epsilon), for epsilon not below the window."""
        start = int(np.searchsorted(self.loss, epsilon, side="right"))
        terms = self.weight[start:] * -np.expm1(epsilon - self.loss[start:])
        return (float(terms.sum()) * (1 + 1e-10) + self.above + self.infinite) * (1 + 4 * _U)

    def epsilon(self, delta: float) -> float:
        """The smallest epsilon >= 0 in the window with delta(epsilon) <= delta, rounded up; inf if there is none."""
        low, high = max(0.0, float(self.loss[0])), float(self.loss[-1])
        if high < low or self.delta(high) > delta:
            return math.inf
        if self.delta(low) <= delta:
            return low
        excess = Excess(self.loss, self.weight, low, high)
        while high - low > 1e-12 * high:
            middle = (low + high) / 2
            near = (excess.at(middle) * (1 + 1e-10) + self.above + self.infinite) * (1 + 4 * _U)
            # Too near to be told apart by anything but the sum itself, it is summed.
            close = abs(near - delta) <= Excess.ERROR * near
            enough = self.delta(middle) <= delta if close else near <= delta
            excess.narrow(upwards=not enough)
            low, high = (low, middle) if enough else (middle, high)
            if middle in (low, high) and high - low <= math.ulp(high):
                break
        return high * (1 + 8 * _U)  # grid losses are products of two floats


def compose(table: NoiseTable, shift: int, n: int, delta: float) -> ComposedLoss:
    """The losses of n adaptive queries around the epsilon that belongs to ``delta``, rounded against the mechanism.

    Args:
        table: a table for which :func:`ragseal.kernel.noise.check_table` holds.
        shift: Delta_b, table steps.
        n: queries.
        delta: the probability that steers the window; the result is an upper bound whatever it is.

    Raises:
        PolicyError: shift or n below 1, or a shift beyond the table's support.
    """
    return compose_atoms(loss_atoms(table, shift), n, delta, infinite_loss_mass(table, shift, n))


def compose_atoms(atoms: LossAtoms, n: int, delta: float, infinite: float) -> ComposedLoss:
    """:func:`compose` for the losses of any dominating pair; ``infinite`` bounds n queries' mass of infinite loss."""
    share = max(delta - infinite, delta * 1e-9)
    centre, tilt = tail_epsilon(atoms, n, share)
    centre = max(centre, 0.0)
    tilted = atoms.mass * np.exp(tilt * atoms.loss - _cumulant(atoms, tilt))
    mean = float((tilted * atoms.loss).sum())
    deviation = math.sqrt(n * float((tilted * (atoms.loss - mean) ** 2).sum()))
    # Epsilon lies below this bound by less than a few deviations, or a few nats over the tilt when losses are bounded.
    half = _HALF_WIDTH * deviation + min(20.0 / tilt, centre) + 1e-6 * max(centre, 1e-6)
    # Splitting adds up to step^2 / 4 of variance a query, so the grid grows like sqrt(n): epsilon moves by 1e-5.
    bits = min(max(_GRID_BITS[0], (2500 * math.isqrt(n)).bit_length()), _GRID_BITS[1])
    return _compose_on_grid(atoms, n, tilt, centre, 2 * half, bits, infinite)


def _compose_on_grid(
    atoms: LossAtoms, n: int, tilt: float, centre: float, width: float, bits: int, infinite: float
) -> ComposedLoss:
    size = 1 << bits
    step = width / size
    index, masses = _split_onto_grid(atoms, step)
    grid: Vector = index.astype(np.float64) * step
    keep = masses > 0
    index, grid, masses = index[keep], grid[keep], masses[keep]
    gridded = LossAtoms(grid, masses)
    cumulant = _cumulant(gridded, tilt)  # a constant that cancels; any float near the true value does
    exponent = np.log(masses) + tilt * grid - cumulant
    magnitude = np.abs(np.log(masses)) + np.abs(tilt * grid) + abs(cumulant) + 8
    tilted = np.exp(exponent) * (1 + 4 * _U * magnitude)
    circle = np.zeros(size)
    np.add.at(circle, index % size, tilted)
    circle *= 1 + 4 * _U * (index.size // size + 2)

    entry_error = 8 * _U * bits * float(circle.sum())
    spectrum = np.fft.rfft(circle)
    powered = _power(spectrum, n)
    modulus = np.abs(spectrum) * (1 + 4 * _U) + entry_error
    power_error = n * (entry_error + 8 * _U * modulus) * modulus ** (n - 1)
    # Each frequency of the half spectrum stands for two.
    error = 2 * float((power_error + 8 * _U * bits * np.abs(powered)).sum()) / size
    composed = np.maximum(np.fft.irfft(powered, size), 0.0) + error * (1 + 1e-9)

    first = round(centre / step) - size // 2
    order = (np.arange(first, first + size)) % size
    loss: Vector = np.arange(first, first + size).astype(np.float64) * step
    log_weight = n * cumulant - tilt * loss
    inflate = 1 + 8 * _U * (abs(n * cumulant) + np.abs(tilt * loss)) + 1e-10
    with np.errstate(over="ignore"):
        weight = np.exp(log_weight) * composed[order] * inflate
    above = _above(gridded, n, tilt, float(loss[-1]))
    return ComposedLoss(loss, np.minimum(weight, 1.0), above, infinite)


def _above(atoms: LossAtoms, n: int, tilt: float, top: float) -> float:
    """Chernoff bound of the P-probability that the composed loss exceeds ``top``; 0 if it cannot."""
    if n * float(atoms.loss.max()) * (1 + 1e-12) < top:
        return 0.0
    best, log_mass = math.inf, np.log(atoms.mass)
    for factor in (1.0, 1.01, 1.03, 1.1, 1.2, 1.3, 1.5, 1.75, 2.0, 2.5, 3.0, 5.0, 10.0, 100.0):
        t = tilt * factor
        cumulant = n * _log_moment(log_mass, atoms.loss, t)
        best = min(best, cumulant - t * top + 1e-12 * (n + abs(t * top) + abs(cumulant)))
    return math.exp(min(best, 0.0))


def truncated_pure_epsilon(table: NoiseTable, shift: int, n: int, delta: float) -> float:
    """n times the largest loss once outcomes of total probability at most delta are given up; inf if impossible.

    A plain bound: every outcome above x_0 is charged to delta in full, and losses are non-decreasing in the outcome
    (T4), so the rest costs at most ln p(x_0 - shift) / p(x_0) a query.
    """
    _check(shift, n)
    give_up = table.total * delta / n
    low, high = shift - table.cut - 1, table.cut + 1
    while high - low > 1:  # smallest x_0 with P(z_b + shift > x_0) <= delta / n
        middle = (low + high) // 2
        low, high = (low, middle) if table.tail(middle - shift) * (1 + 1e-12) <= give_up else (middle, high)
    if high > table.cut or high - shift < -table.cut:
        return math.inf
    loss = math.log(table.mass(high - shift)) - math.log(table.mass(high)) + _LOSS_SLACK
    return max(0.0, n * loss * (1 + 4 * _U))
