# SPDX-License-Identifier: GPL-3.0-or-later
"""Exact draws from laws with exponentials in them, by integers alone (Canonne, Kamath and Steinke, 2020).

No probability is ever computed: a coin that falls with probability exp(-x), x rational, is thrown by means of coins
with rational probabilities.  How long a draw takes depends on what is drawn, so an answer is not to be timed by it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Protocol


class Uniform(Protocol):
    """Where randomness comes from."""

    def below(self, bound: int) -> int:
        """A uniform integer in [0, bound)."""
        ...


def coin(uniform: Uniform, p: Fraction) -> bool:
    """True with probability p in [0, 1]."""
    return uniform.below(p.denominator) < p.numerator


def exponential_coin(uniform: Uniform, x: Fraction) -> bool:
    """True with probability exp(-x), x >= 0 (their Algorithm 1)."""
    for _ in range(math.floor(x)):
        if not _small_coin(uniform, Fraction(1)):
            return False
    return _small_coin(uniform, x - math.floor(x))


def _small_coin(uniform: Uniform, x: Fraction) -> bool:
    """True with probability exp(-x), x in [0, 1]: the alternating series, one term a coin."""
    k = 1
    while coin(uniform, x / k):
        k += 1
    return k % 2 == 1


def discrete_laplace(uniform: Uniform, scale: int) -> int:
    """An integer with probability proportional to exp(-|x| / scale), scale >= 1 (their Algorithm 2)."""
    while True:
        low = uniform.below(scale)
        if not exponential_coin(uniform, Fraction(low, scale)):
            continue
        high = 0
        while _small_coin(uniform, Fraction(1)):
            high += 1
        size = low + scale * high
        negative = bool(uniform.below(2))
        if negative and not size:
            continue  # else 0 would be drawn twice as often
        return -size if negative else size


def discrete_gaussian(uniform: Uniform, variance: Fraction) -> int:
    """An integer with probability proportional to exp(-x^2 / (2 variance)), variance > 0 (their Algorithm 3)."""
    scale = math.isqrt(math.floor(variance)) + 1
    while True:
        found = discrete_laplace(uniform, scale)
        off = abs(found) - variance / scale
        if exponential_coin(uniform, off * off / (2 * variance)):
            return found


def exponential_choice(uniform: Uniform, utilities: Sequence[Fraction]) -> int:
    """A place i with probability proportional to exp(utilities[i]): any place, kept with exp(utility - highest).

    This is the law of the place of the largest of ``utilities[i] + Gumbel(1)``, which floats cannot draw exactly.
    """
    highest = max(utilities)
    while True:
        i = uniform.below(len(utilities))
        if exponential_coin(uniform, highest - utilities[i]):
            return i
