# SPDX-License-Identifier: GPL-3.0-or-later
"""Accountants for what is really released: K slot ids, not N noisy scores.  SPEC D.14.

Setting: every slot's clipped score lies in [0, Delta] table steps, empty slots included, and carries fresh noise X of
the table; slot i* differs between the two indices.  Reveal everything random of the other slots.  Let tau be the K-th
largest of their N - 1 noise values: its law is public, P(tau <= x) = P(Bin(N-1, P(X > x)) <= K-1).  Since scores are
not negative, i* can only be released when its noisy score is at least tau.  Three certified bounds follow.

Ordered (Theorem A; any function of the released slots and their noisy scores).  A noisy score below tau is censored.
For epsilon >= 0 the outcomes that matter are the uncensored ones: loss ln p(x-Delta)/p(x) with probability
P(tau <= x) p(x - Delta).  A document may score higher under either index, query by query, so the pair is made
symmetric: the same curve mirrored below 0, which is the smallest one that covers both directions.

Set (Theorem B; ids in slot order, nothing else).  Given the others, the release is one bit, {c + X >= theta}, with
theta in [tau, tau + Delta + 1]: the K-th of the others scores at most tau + Delta, one more for ties.  One
query is dominated by the curve E_tau sup_theta max over directions of the bit's curve, which is composed like any
other, and independently its Renyi moment is at most E_tau sup_theta max over directions.  (The recursion of Theorem B,
which optimises theta against the whole remaining game, would be up to 4 % tighter at middling n; it is not built.)

These hold under conditions that the circuit enforces: the clip at lo proven for all slots, noise in every slot, always
exactly K ids.  All probabilities are rounded upwards.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ragseal.accounting.pld import LossAtoms, Vector, compose_atoms, infinite_loss_mass, loss_atoms
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import NoiseTable
from ragseal.kernel.overflow import power_up

_U = 2.0**-53
_FIXED_BITS = 1024
_CURVE_POINTS = 1 << 13
_CELL = 1  # thresholds of one cell share one, larger, interval of theta
_NEGLIGIBLE = 1e-40  # probability of thresholds that are charged to delta instead of looked at
_SLACK = 1e-12
_ORDERS = (math.log(1e-4), math.log(1e3))  # of a Renyi order less 1, as logarithms


@dataclass(frozen=True, slots=True)
class TopKReport:
    """Epsilons at one delta, each valid for a release of the set; ``ordered`` also with its order and scores."""

    ordered: float  #: Theorem A
    set_curve: float  #: Theorem B, one-query curve composed
    set_renyi: float  #: Theorem B, Renyi moments
    order: float  #: the Renyi order of ``set_renyi``; any order above 1 is valid

    @property
    def best(self) -> float:
        """Epsilon of the released set."""
        return min(self.ordered, self.set_curve, self.set_renyi)


@lru_cache(maxsize=8)
def threshold_law(table: NoiseTable, N: int, K: int) -> tuple[int, ...]:
    """Upper bounds of P(tau <= x) in units of 2^-1024, x = -C-1 .. C, each within 2^-900; tau as in the module's text.

    Raises:
        PolicyError: not 1 <= K < N.
    """
    if not 1 <= K < N:
        raise PolicyError("the top-K channel needs 1 <= K < N")
    others = N - 1
    coefficients = [math.comb(others, j) for j in range(K)]
    bits = _FIXED_BITS + max(coefficients).bit_length()
    widen = bits - table.bits
    out = []
    for x in range(-table.cut - 1, table.cut + 1):
        above = table.tail(x)
        miss = (table.total - above) << widen
        power = power_up(miss, others - K + 1, bits)  # miss^(N-1-j) for j = K-1, then falling j
        total = 0
        for j in range(K - 1, -1, -1):
            hits = -(-(above**j << bits) >> table.bits * j)
            total += -(-coefficients[j] * hits * power >> bits)
            power = -(-power * miss >> bits)
        out.append(min(-(-total >> (bits - _FIXED_BITS)), 1 << _FIXED_BITS))
    return tuple(out)


def _up(numerator: int) -> float:
    """Units of 2^-1024 as a float, rounded upwards."""
    return math.nextafter(numerator / (1 << _FIXED_BITS), math.inf)


def _symmetric(loss: Vector, mass: Vector, infinite: float) -> LossAtoms:
    """The pair with the given positive losses (raised by the slack) and infinite mass, its curve mirrored below 0."""
    mirrored = mass * np.exp(-loss) * (1 + 4 * _SLACK)
    middle = 1.0 - infinite - float((mass + mirrored).sum())
    middle = max(0.0, middle) + 1e-14
    # What the losses were rounded up by must not be taken back below 0.
    return LossAtoms(
        np.concatenate([loss, -loss + 2 * _SLACK, np.array([0.0])]),
        np.concatenate([mass, mirrored, np.array([middle])]),
    )


@lru_cache(maxsize=16)
def ordered_atoms(table: NoiseTable, shift: int, N: int, K: int) -> LossAtoms:
    """Losses of one query under Theorem A.  Infinite losses are those of the full vector."""
    full = loss_atoms(table, shift)
    below = threshold_law(table, N, K)
    values = range(shift - table.cut, table.cut + 1)
    reach = np.array([_up(below[x + table.cut + 1]) for x in values])
    positive = full.loss > 0
    mass = full.mass[positive] * reach[positive] * (1 + 4 * _U)
    return _symmetric(full.loss[positive], mass, 0.0)


def _reach(table: NoiseTable, first: int, last: int) -> Vector:
    """P(X >= theta), theta = first .. last, correctly rounded."""
    return np.array([table.tail(theta - 1) / table.total for theta in range(first, last + 1)])


def set_curve(table: NoiseTable, shift: int, N: int, K: int) -> tuple[Vector, Vector]:
    """(epsilons, deltas): upper bounds of E_tau sup_theta of the bit's curve on a grid from 0 to the largest loss."""
    C = table.cut
    losses = np.maximum.accumulate(loss_atoms(table, shift).loss)  # of outputs shift - C .. C; equal ones carry noise
    epsilons: Vector = np.linspace(0.0, float(losses[-1]) * (1 + 1e-9) + 1e-9, _CURVE_POINTS)
    low, high = -C - 1, C + shift + 2
    offset = low - shift - 2
    reach = _reach(table, offset, high + 2)

    def gain(theta: npt.NDArray[np.int64] | int, part: slice = slice(None)) -> Vector:
        """P(X + shift >= theta) - e^epsilon P(X >= theta) of a part of the epsilons, rounded upwards."""
        raised, plain = reach[theta - shift - offset], reach[theta - offset]
        return np.maximum(raised * (1 + 4 * _U) - lowered[part] * plain * (1 - 8 * _U), 0.0)

    # The gain rises in theta while the loss at theta is below epsilon: one maximum, then clamped to the interval.  The
    # losses are off by about 1e-12, so the search starts at or before the true maximum; what lies between has losses
    # within 7e-12 of epsilon, and the gain at epsilon - 1e-11 already exceeds the true maximum by more than that costs.
    best = np.searchsorted(losses, epsilons - 5 * _SLACK, side="left").astype(np.int64) + shift - C
    lowered = np.exp(epsilons - 10 * _SLACK)
    free = gain(best)  # where no interval is in the way; best rises, so an interval cuts it at two places
    deltas = np.zeros(_CURVE_POINTS)
    for start, stop, probability in _threshold_cells(table, N, K):
        if probability < _NEGLIGIBLE:
            deltas += probability
            continue
        first, last = start, stop + shift + 1
        value = np.zeros(_CURVE_POINTS)
        for a, b in ((first, last), (shift + 1 - last, shift + 1 - first)):  # second: document scores lower, mirrored
            a, b = max(a, low), min(b, high)
            if a > b:
                continue
            below, above = int(np.searchsorted(best, a, side="left")), int(np.searchsorted(best, b, side="right"))
            parts = gain(a, slice(below)), free[below:above], gain(b, slice(above, None))
            value = np.maximum(value, np.concatenate(parts))
        deltas += probability * value * (1 + 4 * _U)
    return epsilons, np.minimum(deltas * (1 + 1e-12), 1.0)


def _threshold_cells(table: NoiseTable, N: int, K: int) -> list[tuple[int, int, float]]:
    """(first, last, probability) of cells that cover all values of tau, probabilities rounded upwards."""
    below = threshold_law(table, N, K)
    error = 1 << (_FIXED_BITS - 900)
    cells = []
    for start in range(-table.cut, table.cut + 1, _CELL):
        stop = min(start + _CELL - 1, table.cut)
        up = below[stop + table.cut + 1]
        down = max(0, below[start + table.cut] - error)
        cells.append((start, stop, _up(max(0, up - down))))
    return cells


def curve_atoms(epsilons: Vector, deltas: Vector) -> tuple[LossAtoms, float]:
    """A symmetric pair whose curve is at least the given one, and its mass of infinite loss.

    The lower convex hull of points above a convex curve (in e^epsilon) still lies above it; its kinks are the losses.
    """
    x, y = np.exp(epsilons), deltas
    hull: list[int] = []
    for i in range(x.size):
        while len(hull) > 1:
            j, k = hull[-2], hull[-1]
            if (y[k] - y[j]) * (x[i] - x[k]) <= (y[i] - y[k]) * (x[k] - x[j]):
                break
            hull.pop()
        hull.append(i)
    px, py = x[hull], y[hull]
    slope = np.diff(py) / np.diff(px)  # minus the Q-mass of the losses above
    kink = np.append(slope[1:], 0.0) - slope
    # At the last point the curve is closed: what is left of delta there counts as infinite loss.
    noise = 16 * _U * (py[:-1] / np.diff(px) + np.append(py[1:-1] / np.diff(px)[1:], 0.0))
    mass = np.maximum(kink, 0.0) * px[1:] * (1 + 8 * _U) + noise * px[1:]
    infinite = float(py[-1])
    return _symmetric(epsilons[hull][1:] + _SLACK, mass, infinite), infinite


@lru_cache(maxsize=16)
def set_atoms(table: NoiseTable, shift: int, N: int, K: int) -> tuple[LossAtoms, float]:
    """Losses of one query under Theorem B, and its mass of infinite loss."""
    return curve_atoms(*set_curve(table, shift, N, K))


@lru_cache(maxsize=16)
def set_renyi(table: NoiseTable, shift: int, N: int, K: int) -> SetRenyi:
    """The Renyi moments of one query under Theorem B."""
    return SetRenyi(table, shift, N, K)


def _window_maximum(values: Vector, width: int) -> Vector:
    """Maximum of values[i : i + width] for every i with a full window."""
    blocks = -(-values.size // width)
    padded = np.full(blocks * width, -np.inf)
    padded[: values.size] = values
    table = padded.reshape(blocks, width)
    prefix = np.maximum.accumulate(table, axis=1).ravel()
    suffix = np.maximum.accumulate(table[:, ::-1], axis=1)[:, ::-1].ravel()
    count = values.size - width + 1
    out: Vector = np.maximum(suffix[:count], prefix[width - 1 : width - 1 + count])
    return out


class SetRenyi:
    """Renyi moments of one query's set release (Theorem B), infinite losses left out and charged to delta."""

    def __init__(self, table: NoiseTable, shift: int, N: int, K: int) -> None:
        if not 1 <= shift <= 2 * table.cut:
            raise PolicyError(f"a sensitivity of {shift} steps is outside the table")
        C, total = table.cut, table.total
        below = threshold_law(table, N, K)
        error = 1 << (_FIXED_BITS - 900)
        chance = [_up(below[x + C + 1] - max(0, below[x + C] - error)) for x in range(-C, C + 1)]
        with np.errstate(divide="ignore"):
            self._log_chance = np.log(np.array(chance)) + _SLACK
            # theta over [-C, C + shift + 1].  Outcomes X + shift > C, and mirrored X < shift - C, have infinite loss.
            thetas = range(-C, C + shift + 2)
            plain = np.log(np.array([table.tail(t - 1) / total for t in thetas]))
            plain_not = np.log(np.array([(total - table.tail(t - 1)) / total for t in thetas]))
            raised = np.log(np.array([table.tail(t - shift - 1) / total for t in thetas]))
            raised_not = np.log(np.array([(total - table.tail(t - shift - 1)) / total for t in thetas]))
            lost = table.tail(C - shift)
            kept = [max(0, table.tail(t - shift - 1) - lost) / total for t in thetas]
            lost_not = table.cdf(shift - C - 1)
            kept_not = [max(0, (total - table.tail(t - 1)) - lost_not) / total for t in thetas]
            self._terms = (
                (np.log(np.array(kept)), plain),
                (raised_not, plain_not),
                (np.log(np.array(kept_not)), raised_not),
                (plain, raised),
            )
        self._width = shift + 2

    def log_moment(self, order: float) -> float:
        """ln E_tau sup_theta max over directions of sum P^a Q^(1-a), rounded upwards, for order a > 1."""

        def term(p: Vector, q: Vector) -> Vector:
            with np.errstate(invalid="ignore"):
                value = order * p + (1 - order) * q
            out: Vector = np.where(np.isneginf(p), -np.inf, value)
            return out

        up = np.logaddexp(term(*self._terms[0]), term(*self._terms[1]))
        down = np.logaddexp(term(*self._terms[2]), term(*self._terms[3]))
        worst = _window_maximum(np.maximum(up, down), self._width)
        terms = self._log_chance + worst
        top = float(terms.max())
        total = top + math.log(float(np.exp(terms - top).sum()))
        return total + 1e-11 * order

    def at(self, order: float, n: int, delta: float) -> float:
        """Epsilon of n queries from the moments of one order, at a delta that infinite losses were taken from."""
        a = order
        value = (n * self.log_moment(a) - math.log(delta) - math.log(a)) / (a - 1) + math.log1p(-1 / a)
        return max(0.0, value * (1 + 1e-12)) if math.isfinite(value) else math.inf

    def epsilon(self, n: int, delta: float) -> tuple[float, float]:
        """(epsilon, order): the smallest of :meth:`at` over the orders that were tried."""
        low, high = _ORDERS
        tried: dict[float, float] = {}
        for _ in range(4):
            tried |= {float(x): self.at(1 + math.exp(float(x)), n, delta) for x in np.linspace(low, high, 17)}
            best = min(tried, key=lambda x: tried[x])
            width = (high - low) / 16
            low, high = max(_ORDERS[0], best - width), min(_ORDERS[1], best + width)
        return tried[best], 1 + math.exp(best)


def topk_epsilon(table: NoiseTable, *, N: int, K: int, shift: int, n: int, delta: float) -> TopKReport:
    """Epsilon of n adaptive queries that release K of N slots, at the table's share of delta.

    Args:
        table: a table for which :func:`ragseal.kernel.noise.check_table` holds.
        shift: Delta_b, table steps.
        delta: probability left for the noise.  The caller takes named failures from it.

    Raises:
        PolicyError: numbers out of range.
    """
    if not 0 < delta < 1 or n < 1 or shift < 1:
        raise PolicyError("accounting needs a sensitivity, at least one query and a delta strictly between 0 and 1")
    infinite = infinite_loss_mass(table, shift, n)
    if infinite >= delta:
        return TopKReport(math.inf, math.inf, math.inf, math.inf)
    ordered = compose_atoms(ordered_atoms(table, shift, N, K), n, delta, infinite).epsilon(delta)
    atoms, once = set_atoms(table, shift, N, K)
    endless = n * once * (1 + 1e-12)
    curve = compose_atoms(atoms, n, delta, endless).epsilon(delta) if endless < delta else math.inf
    renyi, order = math.inf, math.inf
    if infinite < delta * 0.999:
        renyi, order = set_renyi(table, shift, N, K).epsilon(n, delta - infinite)
    return TopKReport(ordered, curve, renyi, order)
