# SPDX-License-Identifier: GPL-3.0-or-later
"""What a coalition sees of the paper's Gaussian noise: a simulation of the law, without circuit, class or engine.

The paper's experiments set sigma by an equation, to as much as 900 score ranges, where a class of this project has
whole steps of sigma / 512.  What they measure is the law, so noise is NumPy's normal at exactly that sigma, from a
seeded generator.  Two channels: the noisy score of one slot, which no account gets but which the DP bound is about
(:class:`ScoreChannel`), and whether a slot is among the K released ids (:class:`HitChannel`).  Queries of one probe are
independent and identically distributed, so sums over many queries are drawn from the law of the sum, not one by one.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from bench.attacks.roc import Vector
from ragseal.kernel.noise import build_table
from ragseal.kernel.params import GAUSSIAN

REACH = 12.0  #: standard deviations of the planted slot's own noise that an exact chance covers on either side
POINTS = 2001  #: at which it is evaluated


@dataclass(frozen=True)
class ScoreChannel:
    """The noisy score of one slot: shift + noise of standard deviation ``sigma``, in one unit."""

    sigma: float

    def sums(self, rng: np.random.Generator, count: int, shift: float, trials: int) -> Vector:
        """``trials`` sums of ``count`` noisy scores: a sum of normals is a normal."""
        return rng.normal(count * shift, self.sigma * math.sqrt(count), trials)


def loss_cells(steps: int) -> tuple[Vector, Vector, Vector]:
    """One query's (probability, log-likelihood ratio, noise) cells of law gaussian-512, where the true score is higher.

    Against a world whose score is lower by so many whole steps, a draw z would have been z + steps there.
    """
    table = build_table(GAUSSIAN)
    p = np.array([table.mass(x) / table.total for x in range(-table.cut, table.cut + 1)])
    there = np.zeros_like(p)
    there[: len(p) - steps] = p[steps:]
    with np.errstate(divide="ignore"):
        return p, np.log(p) - np.log(there), np.arange(-table.cut, table.cut + 1, dtype=np.float64)


class HitChannel:
    """Whether ``slot`` is among the K largest of ``scores`` with noise of standard deviation ``sigma`` on each."""

    def __init__(self, scores: npt.ArrayLike, K: int, sigma: float, slot: int) -> None:
        self.scores, self.K, self.sigma, self.slot = np.asarray(scores, dtype=np.float64), K, sigma, slot

    def probability(self) -> float:
        """P(slot in T) for one query, without sampling.

        Given the slot's own noise the others exceed it independently: the chance that fewer than K do is a
        Poisson-binomial tail, taken at POINTS places of the slot's own normal.
        """
        at = np.linspace(-REACH, REACH, POINTS)
        weight = np.exp(-(at**2) / 2)
        few = np.zeros((self.K, POINTS))  # chance that exactly j of the others so far are above
        few[0] = 1.0
        values, counts = np.unique(np.delete(self.scores, self.slot), return_counts=True)
        for value, count in zip(values, counts, strict=True):
            exceed = _above(at + (self.scores[self.slot] - value) / self.sigma)
            few = _convolve(few, _binomial_start(exceed, int(count), self.K))
        return float(np.dot(weight, few.sum(axis=0)) / weight.sum())

    def retrievals(self, rng: np.random.Generator, count: int, batch: int = 4096) -> Iterator[int]:
        """Hits in simulated retrievals, batch by batch: noise on every slot, the K largest taken."""
        for done in range(0, count, batch):
            size = min(batch, count - done)
            v = self.scores + rng.normal(0, self.sigma, (size, self.scores.size))
            yield int(((v > v[:, [self.slot]]).sum(axis=1) < self.K).sum())


_AT = np.linspace(-2 * REACH, 2 * REACH, 96_001)
_ABOVE = np.array([math.erfc(x / math.sqrt(2)) / 2 for x in _AT.tolist()])


def _above(x: Vector) -> Vector:
    """P(a standard normal exceeds x), within 10^-8."""
    return np.asarray(np.interp(x, _AT, _ABOVE))


def _binomial_start(chance: Vector, count: int, terms: int) -> list[Vector]:
    """P(Bin(count, chance) = j) for j = 0 .. terms - 1."""
    rest = 1 - chance
    return [math.comb(count, j) * chance**j * rest ** (count - j) for j in range(min(terms, count + 1))]


def _convolve(few: Vector, more: list[Vector]) -> Vector:
    """Law of a sum, cut after the terms of ``few``."""
    out = few * more[0]
    for j, part in enumerate(more[1:], start=1):
        out[j:] += few[:-j] * part
    return out
