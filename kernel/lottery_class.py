# SPDX-License-Identifier: GPL-3.0-or-later
"""A class of the lottery: exact scores with a tie-break, and prizes that come before every score.

docs/proofs/lottery.md proves the bounds below for every score vector; everything is exact, and rounded upwards where it
is rounded.
"""

from __future__ import annotations

import hashlib
import math
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property, lru_cache
from typing import Any, ClassVar

from ragseal.kernel import overflow
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.law import AttestationClass, bound_table
from ragseal.kernel.params import (
    COIN_BITS,
    GRID_EXPONENT,
    OVERFLOW_EXPONENT,
    PROTOCOL_VERSION,
)

LOTTERY = "lottery"  #: the law's name
ELEMENT_BITS = 208  #: of an output that may be used: what is left is its canonical top
DISTANCE_CHUNKS = 2  #: of a score's distances: to the threshold, to 0, to the full window
_FRACTION_BITS = 384  #: of a probability that is rounded up


PRIZE_TABLE_TAG = b"ragseal.prize-table"


@dataclass(frozen=True, slots=True)
class PrizeTable:
    """Which coarse values win a prize: what a policy binds of the lottery where others bind a noise table."""

    law: ClassVar[str] = LOTTERY

    m: int  #: coarse bits
    prizes: int  #: j: the highest of their 2^m values win

    def canonical_bytes(self) -> bytes:
        """``u8 len(tag) || tag || u16 protocol version || u8 m || u32 prizes``, integers big-endian."""
        head = bytes([len(PRIZE_TABLE_TAG)]) + PRIZE_TABLE_TAG + PROTOCOL_VERSION.to_bytes(2, "big")
        return head + self.m.to_bytes(1, "big") + self.prizes.to_bytes(4, "big")

    def digest(self) -> bytes:
        """SHA-256 of :meth:`canonical_bytes`, 32 bytes."""
        return hashlib.sha256(self.canonical_bytes()).digest()

    def check(self) -> None:
        """No rule but the digest: all that a class has are legal."""

    def evidence(self) -> dict[str, object]:
        """What an auditor's report says of it."""
        values = 1 << self.m
        return {"law": self.law, "prizes": self.prizes, "coarse_values": values, "table_digest": self.digest()}


@dataclass(frozen=True)
class LotteryClass(AttestationClass):
    """One class of the lottery."""

    kind: ClassVar[str] = LOTTERY
    laws: ClassVar[tuple[str, ...]] = (LOTTERY,)
    table_kind: ClassVar[str] = "prize table"
    by_chance: ClassVar[str] = "a prize"
    coin_only: ClassVar[str] = "bounds one return and nothing else"

    name: str
    law: str  #: LOTTERY
    N: int  #: capacity in slots, a multiple of q
    K: int  #: slots returned
    R: int  #: places: slots that may reach the entry
    m: int  #: coarse bits a slot
    q: int  #: slots a coarse element
    c: int  #: bits of a range-checked chunk
    prizes: int  #: the most of the 2^m coarse values that a policy may let win a prize

    def __post_init__(self) -> None:
        def need(ok: bool, why: str) -> None:
            if not ok:
                raise PolicyError(f"lottery class {self.name!r}: {why}")

        need(self.law == LOTTERY, f"law must be {LOTTERY!r}, not {self.law!r}")
        need(1 <= self.K < self.R <= self.N, "needs 1 <= K < R <= N")
        need(self.N < 1 << 31, "capacity must be below 2^31 slots")
        need(self.q >= 1 and self.q * self.m <= ELEMENT_BITS, f"q * m must not exceed {ELEMENT_BITS} bits")
        need(self.N % self.q == 0, f"capacity {self.N} must be a multiple of q = {self.q}")
        need(2 <= self.m <= self.c <= 18, "needs 2 <= m <= c <= 18")
        need(1 <= self.prizes < 1 << self.m, "prizes must be from 1 to 2^m - 1")
        need(self.prizes < self.grid, f"{self.prizes} prizes leave no theta below them: the grid is {self.grid} wide")

    @property
    def step_bits(self) -> int:
        """Tie-break bits count units of w: a step has one."""
        return 0

    def window_of(self, width: int) -> int:
        """H as a statement has it, for a score window of ``width`` units: the same."""
        return width

    def shift_of(self, width: int) -> int:
        """The worst shift of one query, in units of w.  No return depends on it: prizes come before every score."""
        return max(1, width)

    def widest(self, shift: int) -> int:
        """The largest width whose shift is at most ``shift`` units."""
        return shift

    @property
    def hmax_range(self) -> tuple[int, int]:
        """In units of w."""
        return 1, self.room - (2 << self.m)

    def check_range(self, hmax: int, least: int, most: int) -> None:
        """As :func:`check_window`."""
        check_window(self, hmax, least, most)

    def tried_range(self) -> tuple[int, int]:
        """A quarter of what two chunks hold."""
        return self.room // 4, self.room // 4

    def tables(self) -> tuple[PrizeTable, ...]:
        """Of every number of prizes up to the class's."""
        return tuple(PrizeTable(self.m, prizes) for prizes in range(1, self.prizes + 1))

    @property
    def most_prizes(self) -> int:
        return self.prizes

    def prizes_of(self, table_digest: bytes) -> int:
        return bound_table(self, self.tables(), table_digest).prizes

    def stated(self, prizes: int) -> tuple[int, ...]:
        """j, the policy's."""
        return (prizes,)

    def overflow_bound_holds(self) -> bool:
        """For its own and for fewer prizes."""
        return overflow_bound(self.N, self.K, self.R, self.m, self.prizes) <= Fraction(1, 1 << OVERFLOW_EXPONENT)

    def overflow_without(self, chunks: int) -> Fraction:
        """Two lists can differ for certain."""
        raise PolicyError(f"class {self.name!r} has the law {self.law!r}, under which no epsilon of every list follows")

    def outside_grid(self, chunks: int) -> Fraction:
        """2^-80, which the grid is chosen for."""
        return Fraction(1, 1 << GRID_EXPONENT)

    @property
    def room(self) -> int:
        """Distances that are looked up lie below this: 2^(2c)."""
        return 1 << (DISTANCE_CHUNKS * self.c)

    @property
    def compare_chunks(self) -> int:
        """Chunks of the comparison v 2^L - i against v* 2^L - i*."""
        return -(-(DISTANCE_CHUNKS * self.c + self.L) // self.c)

    @cached_property
    def grid(self) -> int:
        """G: theta takes 2^m - G + 1 .. 2^m - prizes (:func:`smallest_grid`)."""
        return smallest_grid(self.N, self.K, self.m)

    def to_mapping(self) -> dict[str, Any]:
        """The class as plain values.  Inverse of :meth:`from_mapping`."""
        return {f.name: getattr(self, f.name) for f in fields(self)}


def many_exceed_bound(n: int, least: int, mass: int, out_of: int) -> Fraction:
    """An upper bound of P(Bin(n, mass / 2^out_of) >= least), for 0 < mass < 2^out_of; at most 1.

    The first term times a geometric series: each further term is smaller by the first quotient at least.
    """
    if least <= 0:
        return Fraction(1)
    if least > n:
        return Fraction(0)
    other = (1 << out_of) - mass
    above, below = (n - least) * mass, (least + 1) * other  # the quotient of the second term by the first
    if above >= below:
        return Fraction(1)
    first = math.comb(n, least) * mass**least * other ** (n - least)
    term = -((-first << _FRACTION_BITS) >> (out_of * n))
    total = -(-term * below // (below - above))
    return min(Fraction(1), Fraction(total, 1 << _FRACTION_BITS))


def overflow_bound(N: int, K: int, R: int, m: int, prizes: int) -> Fraction:
    """An upper bound of P(more than R slots reach the entry), over every score vector (docs/proofs/lottery.md, 3)."""
    ties = N * many_exceed_bound(N - 1, R - K + 1, 1, m)
    return min(Fraction(1), many_exceed_bound(N, R + 1, prizes, m) + ties)


def smallest_places(N: int, K: int, m: int, prizes: int) -> int:
    """The smallest R above K that :func:`overflow_bound` proves enough.

    Raises:
        PolicyError: not even N - 1 places are.
    """
    limit = Fraction(1, 1 << OVERFLOW_EXPONENT)
    found = overflow.least(K, N - 1, lambda R: overflow_bound(N, K, R, m, prizes) <= limit)  # it falls as R grows
    if found is None:
        raise PolicyError(f"{N} slots have too few places for K = {K} and {prizes} prizes; use fewer of either")
    return found


@lru_cache(maxsize=64)
def smallest_grid(N: int, K: int, m: int) -> int:
    """The smallest G with P(Bin(N, (G - 1) / 2^m) <= K - 1) <= 2^-80 (docs/proofs/lottery.md, section 4).

    Raises:
        PolicyError: even all coarse values do not give it: K is too close to N.
    """
    limit = Fraction(1, 1 << GRID_EXPONENT)

    def enough(G: int) -> bool:
        return overflow.few_exceed_bound(N, K, G - 1, m) <= limit

    found = overflow.least(1, 1 << m, enough)  # the probability falls as G grows
    if found is None:
        raise PolicyError(f"no threshold grid gives 2^-{GRID_EXPONENT} for N={N}, K={K}, m={m}; use a larger N")
    return found


def check_window(cls: LotteryClass, width: int, least: int, most: int) -> None:
    """Whether every query of a policy is provable in a class, whatever the data: distances fit their chunks.

    Args:
        width: H, the score window's width in units of w.
        least, most: w that any score may have, by the norms of embeddings.

    Raises:
        PolicyError: says which bound does not hold.
    """

    def need(ok: bool, why: str) -> None:
        if not ok:
            raise PolicyError(why)

    bits = DISTANCE_CHUNKS * cls.c
    need(width >= 1, "a score window of no width returns nothing to read")
    need(least <= 0 <= most, "no range of scores is without 0")
    need(width - least < cls.room, f"{width} units of window and {-least} below it do not fit {bits} bits")
    need(most <= cls.room, f"{most} units above the window's lower end do not fit {bits} bits")
    need(width + (2 << cls.m) <= cls.room, f"{width} units of window and the prizes above it do not fit {bits} bits")


def return_ratio(m: int, prizes: int, hidden: int, chunks: int = 1) -> Fraction:
    """e^R: how much likelier one return of a document is than of empty slots in its place, at most.  Exact.

    Args:
        m: coarse bits; ``prizes`` of their 2^m values win.
        hidden: numerator of eta, out of 2^COIN_BITS.
        chunks: slots of the document, all under one coin.
    """
    eta = Fraction(hidden, 1 << COIN_BITS)
    return (1 - eta) * Fraction(1 << m, prizes) ** chunks + eta
