# SPDX-License-Identifier: GPL-3.0-or-later
"""What an explicit attack on the released set reaches: a lower bound of the true epsilon.  SPEC D.14.

The database: every other slot scores the same level, the slot in question scores 0 or the whole window.  The attacker
asks the same query n times and counts how often the slot is released.  The counts are binomial with two known chances,
so their (epsilon, delta) curve is exact; no accountant may certify less than it, whatever its theorem says.  Equal
values of the table are decided by the order of slots, of which ours is the first.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np

from ragseal.accounting.pld import Vector
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import NoiseTable

Chance = tuple[float, float]  #: (ln p, ln (1 - p))

_LEVELS = 17  # levels of the other slots that are tried


def log_chance(table: NoiseTable, N: int, K: int, lead: int) -> Chance:
    """(ln P, ln (1 - P)) that a slot is among the K best when it scores ``lead`` table steps more than all others."""
    if not 1 <= K < N:
        raise PolicyError("the top-K channel needs 1 <= K < N")
    mass, above, stay = _law(table, lead)
    chance = np.full(mass.size, -np.inf)
    rest = np.full(mass.size, -np.inf)
    for j in range(min(N, _spread(N, K))):
        choose = math.lgamma(N) - math.lgamma(j + 1) - math.lgamma(N - j)
        with np.errstate(invalid="ignore"):
            term = choose + np.nan_to_num(j * above, nan=0.0) + np.nan_to_num((N - 1 - j) * stay, nan=0.0)
        if j < K:
            chance = np.logaddexp(chance, term)
        else:
            rest = np.logaddexp(rest, term)
    hit = np.exp(np.minimum(chance, 0.0))
    # Beyond the terms that were added the chance to stay in is negligible.
    miss = np.where(chance < -1e-3, -np.expm1(np.minimum(chance, 0.0)), np.exp(rest))
    return math.log(float(mass @ hit)), math.log(float(mass @ miss))


def _spread(N: int, K: int) -> int:
    return K + 60


@lru_cache(maxsize=64)
def _law(table: NoiseTable, lead: int) -> tuple[Vector, Vector, Vector]:
    """(p(x), ln P(another slot beats x + lead), ln P(it does not)); equal values are ours."""
    values, total = range(-table.cut, table.cut + 1), table.total
    mass = np.array([table.mass(x) / total for x in values])
    over = np.array([table.tail(x + lead) / total for x in values])
    stay = np.array([table.cdf(x + lead) / total for x in values])
    with np.errstate(divide="ignore"):
        return mass, np.log(over), np.log(stay)


def count_epsilon(n: int, high: Chance, low: Chance, delta: float) -> float:
    """Epsilon of Bin(n, p) against Bin(n, q) at delta, each chance as (ln p, ln (1 - p)), p >= q; both directions."""
    j = np.arange(n + 1)
    logs = np.concatenate([[0.0], np.cumsum(np.log(np.arange(1, n + 1)))])
    choose = logs[-1] - logs - logs[::-1]

    def tails(chance: Chance) -> tuple[Vector, Vector]:
        law = choose + j * chance[0] + (n - j) * chance[1]
        return np.logaddexp.accumulate(law[::-1])[::-1], np.logaddexp.accumulate(law)

    best = 0.0
    for p, q in zip(tails(high), tails(low), strict=True):
        for a, b in ((p, q), (q, p)):
            certain = np.exp(a) > delta
            if certain.any():
                gain = a[certain] + np.log1p(-delta * np.exp(-a[certain])) - b[certain]
                best = max(best, float(gain.max()))
    return best


def attack_epsilon(table: NoiseTable, *, N: int, K: int, shift: int, n: int, delta: float) -> float:
    """The largest epsilon that the attack shows for n queries at ``delta``, over the levels of the other slots.

    Raises:
        PolicyError: numbers out of range.
    """
    if shift < 1 or n < 1 or not 0 < delta < 1:
        raise PolicyError("an attack needs a sensitivity, at least one query and a delta strictly between 0 and 1")
    return max(count_epsilon(n, high, low, delta) for high, low in _chances(table, N, K, shift))


@lru_cache(maxsize=32)
def _chances(table: NoiseTable, N: int, K: int, shift: int) -> tuple[tuple[Chance, Chance], ...]:
    """For every level of the others: the chances of the slot at the top and at the bottom of the window."""
    levels = sorted({round(shift * i / (_LEVELS - 1)) for i in range(_LEVELS)})
    return tuple((log_chance(table, N, K, shift - level), log_chance(table, N, K, -level)) for level in levels)
