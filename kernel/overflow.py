# SPDX-License-Identifier: GPL-3.0-or-later
"""How many places a class opens, and how fine its threshold grid is.  SPEC M.7 and M.8.

A query overflows when more than R slots must open their fine bits.  Fix any score vector and let slot j be the K-th
winner, with noisy score v*.  Of the other slots at most K - 1 lie above v*, each is flagged independently, and if the
flagged ones do not fit, at least x = R - K + 1 of them are flagged and not above v*.  For a > 1 and 0 < b < 1 the
exponential-moment bound, and a union over j, give

    P(overflow) <= N a^-x b^-(K-1) max_z (1 + (a-1) P(z) - (1-b) A(z))^N,

A(z) = P(z_b > z), P(z) = P(Q(k) >= z) - A(z): z is how far the slot's clipped score lies below v*, in table steps, so
the maximum covers every score vector.  z beyond the table gives the factor 1, so exponent N instead of N - 1 is safe.

Decisions are exact: integers, and fixed point that is only ever rounded against the claim.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import NoiseTable, coarse_quantiles

_FRACTION_BITS = 320  # of the upward-rounded powers
_UNIT = 1 << _FRACTION_BITS


def power_up(base: int, exponent: int, bits: int = _FRACTION_BITS) -> int:
    """An upper bound of (base / 2^bits)^exponent in the same fixed point, for base >= 0; above by less than 2^-bits
    times a few exponents when base <= 2^bits."""
    result, square = 1 << bits, base
    while exponent:
        if exponent & 1:
            result = -(-result * square >> bits)
        exponent >>= 1
        if exponent:
            square = -(-square * square >> bits)
    return result


@lru_cache(maxsize=32)
def exceed_and_flag(table: NoiseTable, m: int) -> tuple[tuple[int, int], ...]:
    """Pairs (A(z), P(z)) out of the table's total for z from below the table's support to above it.

    A(z): the noise exceeds z.  P(z): the slot is flagged although its noise does not.
    """
    quantiles = coarse_quantiles(table, m)
    cell = table.bits - m
    out = []
    for z in range(-table.cut - 1, table.cut + 2):
        above = table.tail(z)
        flagged = len(quantiles) - bisect_left(quantiles, z)
        out.append((above, (flagged << cell) - above))
    return tuple(out)


def overflow_bound(N: int, K: int, R: int, m: int, a: Fraction, b: Fraction, table: NoiseTable) -> Fraction:
    """An upper bound of the overflow probability of one query, over every score vector; rounded upwards only.

    Raises:
        PolicyError: not 1 <= K < R <= N, or not a > 1 > b > 0.
    """
    if not (1 <= K < R <= N and a > 1 and 0 < b < 1):
        raise PolicyError("the overflow bound needs 1 <= K < R <= N, a > 1 and 0 < b < 1")
    flag_weight = (a.numerator - a.denominator) * b.denominator
    exceed_weight = (b.denominator - b.numerator) * a.denominator
    worst = max(flag_weight * flagged - exceed_weight * above for above, flagged in exceed_and_flag(table, m))
    scale = a.denominator * b.denominator * table.total
    base = -(-(scale + worst) * _UNIT // scale)
    moment = Fraction(power_up(base, N), _UNIT)
    return N * moment / (a ** (R - K + 1) * b ** (K - 1))  # exact: fractions


@lru_cache(maxsize=1024)  # a class's grid is asked for with every layout of it
def few_exceed_bound(N: int, K: int, mass: int, out_of: int) -> Fraction:
    """An upper bound of P(Bin(N, mass / 2^out_of) <= K - 1), within 2^-300, for 0 <= mass <= 2^out_of."""
    if K > N:
        return Fraction(1)
    # Every power is rounded up by 2^-bits at least and then multiplied by a binomial coefficient: make room for both.
    bits = _FRACTION_BITS + max(math.comb(N, j).bit_length() for j in range(K))
    total = 0
    for j in range(K):
        hits = -(-(mass**j << bits) >> out_of * j)
        misses = power_up(((1 << out_of) - mass) << (bits - out_of), N - j, bits)
        total += -(-math.comb(N, j) * hits * misses >> bits)
    return Fraction(total, 1 << bits)


def least(low: int, high: int, enough: Callable[[int], bool]) -> int | None:
    """The least of low + 1 to high that is ``enough``, as is all above one that is; None: not even ``high`` is."""
    if low >= high or not enough(high):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high
