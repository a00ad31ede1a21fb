# SPDX-License-Identifier: GPL-3.0-or-later
"""The table of draws: how many ids one query draws, as integer masses of 2^(u L).

It is a Poisson law, cut: with independent ids, each slot is then drawn independently of every other one, but for the
cut and the rounding, which docs/proofs/decoys.md counts exactly.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache
from itertools import accumulate, pairwise
from typing import ClassVar

from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import PROTOCOL_VERSION

DECOYS = "decoys"  #: the law's name
UNIFORM_EXPONENT = 64  #: the number of draws is drawn from 2^64 values at least
RATE_BITS = 16  #: a rate is a multiple of 2^-16
TAIL_EXPONENT = 64  #: what a cut leaves out has probability 2^-64 at most
_TAG = b"ragseal.draw-table"
MOST_DRAWS = 1 << 14  #: refuses absurd tables before anything is computed from them


@dataclass(frozen=True, slots=True)
class DrawTable:
    """P(J = j) = masses[j] / 2^bits for j = 0 .. draws."""

    law: ClassVar[str] = DECOYS

    L: int  #: bits of an id
    bits: int  #: u L
    masses: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.masses or min(self.masses) < 0 or sum(self.masses) != 1 << self.bits or self.bits % self.L:
            raise PolicyError("a table of draws has masses of 0 at least that sum to 2^(u L)")

    @property
    def draws(self) -> int:
        """The most ids that are drawn."""
        return len(self.masses) - 1

    def rows(self, draws: int) -> tuple[int, ...]:
        """F(0) .. F(draws), F(j) the sum of masses up to j: what a statement has, for a class of so many draws.

        Raises:
            PolicyError: the table has more draws than the class.
        """
        if self.draws > draws:
            raise PolicyError(f"{self.draws} draws in a class of {draws}: take fewer decoys or a larger class")
        return (*accumulate(self.masses), *[1 << self.bits] * (draws - self.draws))

    def number(self, uniform: int) -> int:
        """J with F(J - 1) <= U < F(J).

        Raises:
            PolicyError: U is outside [0, 2^bits).
        """
        if not 0 <= uniform < 1 << self.bits:
            raise PolicyError(f"a uniform must lie in [0, 2^{self.bits})")
        return bisect_right(tuple(accumulate(self.masses)), uniform)

    def canonical_bytes(self) -> bytes:
        """``u8 len(tag) || tag || u16 protocol version || u8 L || u16 bits || u32 draws || masses``.

        Integers are big-endian; a mass has ``bits // 8 + 1`` bytes.
        """
        head = bytes([len(_TAG)]) + _TAG + PROTOCOL_VERSION.to_bytes(2, "big")
        head += self.L.to_bytes(1, "big") + self.bits.to_bytes(2, "big") + self.draws.to_bytes(4, "big")
        return head + b"".join(mass.to_bytes(self.bits // 8 + 1, "big") for mass in self.masses)

    def digest(self) -> bytes:
        """SHA-256 of :meth:`canonical_bytes`, 32 bytes: what a policy binds."""
        return hashlib.sha256(self.canonical_bytes()).digest()

    def check(self) -> None:
        """No rule but that it can be made: its masses sum to the whole."""

    def evidence(self) -> dict[str, object]:
        """What an auditor's report says of it."""
        mean = sum(j * mass for j, mass in enumerate(self.masses)) / (1 << self.bits)  # exact: for people
        return {"law": self.law, "draws_mean": round(mean, 3), "draws_most": self.draws, "table_digest": self.digest()}


def smallest_draws(rate: Fraction) -> int:
    """The smallest cut J with P(Poisson(rate) > J) <= 2^-64 P(Poisson(rate) <= J): J_max of a table.

    The tail is at most its first term times a geometric series, whose quotients rate / (j + 1) fall.
    """
    numerator, denominator = rate.as_integer_ratio()
    weight, total, j = 1, 1, 0  # rate^j / j! and its sum, times denominator^j j!
    while True:
        j += 1
        weight *= numerator
        total *= denominator * j
        # With scale = denominator^j j!, weight / scale is the first term left out, total / scale the sum before it.
        ahead = denominator * (j + 1) - numerator
        if ahead > 0 and weight * denominator * (j + 1) << TAIL_EXPONENT <= total * ahead:
            return j - 1
        total += weight


@lru_cache(maxsize=64)
def build_table(L: int, rate: int, draws: int = 0) -> DrawTable:
    """Poisson masses of ``rate / 2^RATE_BITS`` draws, cut and rounded.

    Each mass is rounded down; what is missing is added to the largest, the lowest of several.

    Args:
        L: bits of an id.
        rate: 0: J is 0 always, and a list is the K best.
        draws: J_max, 0: the smallest that cuts off 2^-64 at most.

    Raises:
        PolicyError: numbers out of range.
    """
    if not 1 <= L <= 24 or rate < 0 or not 0 <= draws <= MOST_DRAWS or rate >> RATE_BITS >= MOST_DRAWS:
        raise PolicyError(f"a table of draws needs ids of 1 to 24 bits, and 0 to {MOST_DRAWS} draws on average")
    mean = Fraction(rate, 1 << RATE_BITS)
    cut = draws or smallest_draws(mean)
    numerator, denominator = mean.as_integer_ratio()
    # weights[j] is the rate^j / j!, times denominator^cut cut!
    weights = [1]
    for j in range(cut, 0, -1):  # denominator^(cut - j + 1) cut! / (j - 1)!
        weights.append(weights[-1] * denominator * j)
    weights.reverse()
    power = 1
    for j in range(cut + 1):
        weights[j] *= power
        power *= numerator
    bits = -(-UNIFORM_EXPONENT // L) * L
    norm = sum(weights)
    masses = [(weight << bits) // norm for weight in weights]
    masses[masses.index(max(masses))] += (1 << bits) - sum(masses)
    return DrawTable(L, bits, tuple(masses))


def table_of_rows(L: int, rows: Sequence[int]) -> DrawTable:
    """The table of which a statement has F(0) .. F(draws); draws that never come have a mass of 0.

    Raises:
        PolicyError: no such table.
    """
    bits = -(-UNIFORM_EXPONENT // L) * L
    return DrawTable(L, bits, tuple(after - before for before, after in pairwise((0, *rows))))
