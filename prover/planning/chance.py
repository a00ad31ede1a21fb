# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a document comes back under a policy, from public numbers alone: noise table, N, K, score window, gain.

The document scores as given, all other slots score lo or less: what an index gives that holds one good answer.  Every
other document above lo makes it a little rarer; no tenant's scores are looked at.  Scores are whole steps: at equal
values, under the lottery too, half of the other slots lose to it, which are those behind it if it stands in the middle.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
import numpy.typing as npt

from ragseal.kernel import noise
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.params import COIN_BITS
from ragseal.kernel.policy import Policy

Vector = npt.NDArray[np.float64]
LEFT = 10  #: results that a list should have for scores


@lru_cache(maxsize=4)
def _law(law: str) -> tuple[Vector, Vector]:
    """(P(z_b = x), P(z_b >= x)) for x = -C..C, with one 0 more at the end of the second."""
    table = noise.build_table(law)
    steps = range(-table.cut, table.cut + 1)
    mass = np.array([table.mass(x) for x in steps], dtype=np.float64) / table.total
    above = np.array([table.tail(x - 1) for x in (*steps, table.cut + 1)], dtype=np.float64) / table.total
    return mass, above


def comes_back(cls: AttestationClass, signal: int, prizes: int = 0) -> float:
    """Probability that one document is among the K largest of N noisy scores.

    Args:
        signal: gain * (y - lo) of the document, y clipped to the window; every other slot has 0.
        prizes: of the policy, under the lottery.
    """
    if isinstance(cls, LotteryClass):
        return _in_lottery(cls, signal, prizes)
    mass, above = _law(cls.law)
    cut = len(mass) // 2
    own = np.arange(-cut, cut + 1) + (signal >> cls.step_bits) + 0.5
    larger = np.interp(own, np.arange(-cut, cut + 2), above, right=0.0)  # P(another slot's noise is above it)
    return float(np.clip(mass @ _at_most(cls.K - 1, cls.N - 1, larger), 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class Prizes:
    """What the lottery takes of a list."""

    mean: float  #: slots that win one in a query
    crowded: float  #: of all queries: those in which fewer than LEFT of the K results, or of all, are left to scores

    def in_words(self, K: int) -> str:
        """How much of a list of K it is."""
        return (
            f"{self.mean:.3g} slots win a prize on average, whatever was asked, and come first in a list of {K}; in "
            f"{self.crowded:.1%} of all queries fewer than {min(K, LEFT)} places are left to scores"
        )


def prizes_of(policy: Policy, cls: LotteryClass) -> Prizes:
    """Under a policy, coin or not."""
    return prizes_taken(cls, policy.prizes(cls))


def prizes_taken(cls: LotteryClass, prizes: int) -> Prizes:
    """Of a list where ``prizes`` of the 2^m coarse values win: every slot of the capacity draws, empty ones too."""
    p = prizes / (1 << cls.m)
    left = max(0, cls.K - LEFT)
    return Prizes(cls.N * p, float(1 - _at_most(left, cls.N, np.array([p]))[0]))


def _in_lottery(cls: LotteryClass, signal: int, prizes: int) -> float:
    """The same under the lottery: prizes come first, then the document, but for ties with empty slots' own bits."""
    values = 1 << cls.m
    u = np.arange(values)
    beyond = np.maximum(0, values - prizes - 1 - (signal + u)) + np.where(signal + u < values - prizes, 0.5, 0.0)
    ahead = np.where(u >= values - prizes, values - 1 - u + 0.5, prizes + beyond)
    return float(np.clip(_at_most(cls.K - 1, cls.N - 1, ahead / values).mean(), 0.0, 1.0))


def _at_most(most: int, n: int, p: Vector) -> Vector:
    """P(Bin(n, p) <= most), by element."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p, log_q = np.log(p), np.log1p(-np.minimum(p, 1.0))
        total = np.zeros_like(p)
        for j in range(most + 1):
            whole = math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1)
            total += np.exp(whole + (j * log_p if j else 0.0) + (n - j) * log_q)
    return np.where(p >= 1.0, float(most >= n), np.where(p <= 0.0, 1.0, np.minimum(total, 1.0)))


def at(policy: Policy, cls: AttestationClass, y: int) -> float:
    """:func:`comes_back` of a document whose score is ``y`` (127^2 is cosine 1) under a policy, its coin included."""
    seen = 1 - policy.hidden / (1 << COIN_BITS)
    signal = policy.gain * (min(max(y, policy.lo), policy.hi) - policy.lo)
    return seen * comes_back(policy.whole(cls), signal, policy.prizes(cls))
