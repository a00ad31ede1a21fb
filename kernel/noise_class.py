# SPDX-License-Identifier: GPL-3.0-or-later
"""A class of the circuit with noise: scores in whole steps, fine bits by rank among the places, one shard or several.

A score is its digit k = floor(w / 2^c), a number of steps of the noise table.  Fine bits belong to the rank of a place
and not to its slot, two ranks share a hash, and so the set of places has to be unique.

An index has 1 to S shards of N slots.  What a shard has of its own: slots 0..N-1, places, an entry, a theta.  What all
shards share counts slots over the whole index: slot i of shard h has the id h N + i.  All K winners may lie in one
shard, and each shard may fail on its own, so R and G are chosen for S shards at once (docs/proofs/noise.md, sections
3 and 4).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property, lru_cache, singledispatch
from typing import ClassVar

from ragseal.kernel import noise, overflow
from ragseal.kernel.errors import AttestationError, PolicyError
from ragseal.kernel.law import Asked, AttestationClass
from ragseal.kernel.params import (
    ELEMENTS_PER_BLOCK,
    GEOMETRIC,
    GRID_EXPONENT,
    MAX_SHARDS,
    NOISE_LAWS,
    OVERFLOW_EXPONENT,
    UNIFORM_BITS,
    ClassSizes,
)

PLACES_PER_ELEMENT = 2  #: ranks whose fine bits one output of the wide permutation holds
ELEMENT_BITS = 208  #: of an output that may be used: what is left is its canonical top


@dataclass(frozen=True)
class NoiseClass(ClassSizes, AttestationClass):
    """One class of the circuit with noise.  ``a`` and ``b`` are the free rationals of the overflow bound."""

    kind: ClassVar[str] = "noise"
    laws: ClassVar[tuple[str, ...]] = NOISE_LAWS
    table_kind: ClassVar[str] = "noise table"
    by_chance: ClassVar[str] = "noise"

    name: str
    law: str  #: one of NOISE_LAWS
    N: int  #: slots of a shard, a multiple of q
    K: int  #: slots returned, of all shards together
    R: int  #: places of a shard, an even number
    m: int  #: coarse bits a slot
    q: int  #: slots a coarse element
    c: int  #: bits of a range-checked chunk; 2^c score units make a step
    a: Fraction
    b: Fraction
    S: int  #: shards of an index at most

    def __post_init__(self) -> None:
        def need(ok: bool, why: str) -> None:
            if not ok:
                raise PolicyError(f"noise class {self.name!r}: {why}")

        need(self.law in NOISE_LAWS, f"law must be one of {NOISE_LAWS}, not {self.law!r}")
        need(1 <= self.K < self.R - 1 and self.R <= self.N, "needs 1 <= K < R - 1 and R <= N")
        need(self.R % PLACES_PER_ELEMENT == 0, f"places must be a multiple of {PLACES_PER_ELEMENT}")
        need(1 <= self.S <= MAX_SHARDS, f"needs 1 <= S <= {MAX_SHARDS}")
        need(self.S * self.N < 1 << 31, "all shards must be below 2^31 slots")
        need(self.q >= 1 and self.q * self.m <= ELEMENT_BITS, f"q * m must not exceed {ELEMENT_BITS} bits")
        need(self.N % self.q == 0, f"capacity {self.N} must be a multiple of q = {self.q}")
        need(2 <= self.m <= self.c <= 18, "needs 2 <= m <= c <= 18")
        need(PLACES_PER_ELEMENT * self.fine_bits <= ELEMENT_BITS, "two places' fine bits do not fit an element")
        need(self.a > 1 and 0 < self.b < 1, "overflow bound needs a > 1 and 0 < b < 1")
        need(self.L + 1 + self.m + self.c < 200, "look-up keys would not fit a field element")
        need(self.reach_span < 1 << self.c, "the noise of coarse bits spans more than a chunk")

    @property
    def L(self) -> int:
        """Bits of a slot's id in the whole index."""
        return (self.S * self.N - 1).bit_length()

    @cached_property
    def table(self) -> noise.NoiseTable:
        """The canonical table of the class's law."""
        return noise.build_table(self.law)

    @cached_property
    def bounds(self) -> tuple[int, ...]:
        """Q(k): the largest noise, in steps, of a slot with coarse bits k = 0..2^m - 1."""
        return noise.coarse_quantiles(self.table, self.m)

    @property
    def reach_span(self) -> int:
        """Q(2^m - 1) - Q(0), steps."""
        return self.bounds[-1] - self.bounds[0]

    @property
    def step_bits(self) -> int:
        """A step of the noise table is 2^step_bits units of a score."""
        return self.c

    def window_of(self, width: int) -> int:
        """H as a statement has it, for a score window of ``width`` units: whole steps."""
        return width >> self.c

    def shift_of(self, width: int) -> int:
        """Delta_b: the worst shift of one query in table steps (docs/proofs/noise.md, section 2).

        At least 1: what no policy may open (H = 0) can still stand in a log, and is accounted.
        """
        return max(1, self.window_of(width))

    def widest(self, shift: int) -> int:
        """The largest width whose shift is at most ``shift`` steps: what is less than one more step is cut off."""
        return ((shift + 1) << self.c) - 1

    @property
    def sizes(self) -> str:
        return f"K={self.K} R={self.R} m={self.m}"

    def least_ids(self, shards: int) -> int:
        """K."""
        return self.K

    def most_ids(self, shards: int) -> int:
        """K."""
        return self.K

    def check_lists(self, ids: int, shards: int, decoy_rate: int) -> None:
        """K, or none of a policy that release 0.3.0 could read; R proves the rest."""
        if ids not in (0, self.K):
            raise PolicyError(f"a list of class {self.name!r} has {self.K} ids, not {ids}: let ids be {self.K}")

    def asked(self, hmax: int, lo: int, ids: int, decoy_rate: int) -> Asked:
        """H."""
        return Asked((hmax,))

    def check_asked(self, asked: Asked, shards: int) -> None:
        most = 1 << self.c
        if len(asked.inputs) != 1 or not 0 <= asked.inputs[0] <= most:
            raise AttestationError(
                f"H is out of range: {', '.join(map(str, asked.inputs))}, where class {self.name!r} holds 0 to {most}"
            )

    def check_range(self, hmax: int, lo: int, least: int, most: int) -> None:
        """As :func:`check_scores`, of scores in units of w."""
        check_scores(self, hmax, least >> self.c, most >> self.c)

    def tried(self) -> tuple[Asked, int, int]:
        """A quarter of what the noise leaves of a chunk."""
        steps = ((1 << self.c) - self.reach_span) // 4
        return Asked((steps,)), steps << self.c, self.R // 2

    @property
    def counts(self) -> bool:
        """Of the geometric law."""
        return self.law == GEOMETRIC

    def tables(self, decoy_rate: int) -> tuple[noise.NoiseTable, ...]:
        """The canonical one of its law."""
        if decoy_rate:
            raise PolicyError(f"class {self.name!r} has noise and no decoys: decoy_rate must be 0, not {decoy_rate}")
        return (self.table,)

    def whole(self, shards: int) -> WholeIndex:
        """As :func:`whole_index`."""
        return whole_index(self, shards)

    def stated_of_shard(self, shard: int, shards: int) -> tuple[int, ...]:
        """Its number, and how many there are."""
        return shard, shards

    def overflow_bound_holds(self) -> bool:
        """With S shards, by R, a and b."""
        return overflow_bound(self, self.S) <= Fraction(1, 1 << OVERFLOW_EXPONENT)

    def overflow_without(self, chunks: int) -> Fraction:
        """a^chunks 2^-64, 1 at most; of more slots than places nothing better is known."""
        if chunks > self.R:  # before the power: a policy may name 2^32 slots
            return Fraction(1)
        return min(Fraction(1), self.a**chunks * Fraction(1, 1 << OVERFLOW_EXPONENT))

    def outside_grid(self, chunks: int) -> Fraction:
        """g."""
        return _outside_grid(self, chunks)

    @property
    def fine_elements(self) -> int:
        """Elements that hold the places' fine bits."""
        return self.R // PLACES_PER_ELEMENT

    @property
    def fine_blocks(self) -> int:
        """Wide permutations a query for fine bits."""
        return -(-self.fine_elements // ELEMENTS_PER_BLOCK)

    @property
    def fine_bits(self) -> int:
        """Bits of a uniform below its coarse ones."""
        return UNIFORM_BITS - self.m

    @property
    def fine_chunks(self) -> int:
        return -(-self.fine_bits // self.c)

    @property
    def fine_last_bits(self) -> int:
        """Width of the highest fine chunk."""
        return self.fine_bits - self.c * (self.fine_chunks - 1)

    @property
    def fine_filler(self) -> int:
        """Chunks between two places' fine bits and the canonical top of their element."""
        return self.filler(PLACES_PER_ELEMENT * self.fine_bits)

    @property
    def fine_top_position(self) -> int:
        return PLACES_PER_ELEMENT * self.fine_bits + self.fine_filler * self.c

    @property
    def fine_top(self) -> int:
        return self.top_chunks(self.fine_top_position)

    @property
    def uniform_chunks(self) -> int:
        return -(-UNIFORM_BITS // self.c)

    @property
    def compare_chunks(self) -> int:
        """Chunks of the comparison v 2^L - i against v* 2^L - i*."""
        return -(-(self.c + 1 + self.L) // self.c)

    @cached_property
    def grid(self) -> int:
        """G: theta takes 2^m - G + 1 .. 2^m; all S shards together find no theta with 2^-80 a query at most."""
        return smallest_grid(self.N, self.R, self.m, self.S)


@lru_cache(maxsize=64)
def smallest_grid(N: int, R: int, m: int, shards: int) -> int:
    """The smallest G with P(Bin(N, G / 2^m) <= R - 1) <= 2^-80 / shards (docs/proofs/noise.md, section 4).

    Raises:
        PolicyError: even all coarse values do not give it: R is too close to N.
    """
    limit = Fraction(1, shards << GRID_EXPONENT)

    def enough(G: int) -> bool:
        return overflow.few_exceed_bound(N, R, G, m) <= limit

    found = overflow.least(0, 1 << m, enough)  # the probability falls as G grows
    if found is None:
        raise PolicyError(f"no threshold grid gives 2^-{GRID_EXPONENT} for N={N}, R={R}, m={m}; use a larger N")
    return found


def overflow_bound(cls: NoiseClass, shards: int) -> Fraction:
    """An upper bound of P(some shard overflows) in one query over ``shards`` of them, for every score vector.

    A shard overflows where R of its slots or more can reach the last winner's score: the places hold R - 1 such slots.
    The last winner is one of shards N slots, and each of ``shards`` may overflow (docs/proofs/noise.md, section 3).
    """
    one = overflow.overflow_bound(cls.N, cls.K, cls.R - 1, cls.m, cls.a, cls.b, cls.table)
    return one * shards * shards


@lru_cache(maxsize=64)
def _outside_grid(cls: NoiseClass, chunks: int) -> Fraction:
    others = cls.N - chunks
    if others < cls.R:
        return Fraction(1)
    return overflow.few_exceed_bound(others, cls.R, cls.grid, cls.m)


@dataclass(frozen=True)
class WholeIndex(NoiseClass):
    """What an accountant sees of an index: one mechanism over ``N`` slots, those of all its shards together.

    docs/proofs/noise.md, section 1: T has the law that it would have if every slot had fine bits of its own.
    """

    shard: NoiseClass
    shards: int

    @property
    def L(self) -> int:
        """Bits of an id as every shard's circuit has it, however many shards this index has."""
        return self.shard.L

    @cached_property
    def grid(self) -> int:
        """G of each shard."""
        return self.shard.grid

    def whole(self, shards: int) -> WholeIndex:
        """Itself."""
        return self

    def outside_grid(self, chunks: int) -> Fraction:
        """Any shard alone may find no theta, and fewer slots find it less often."""
        return min(Fraction(1), self.shards * self.shard.outside_grid(chunks))

    @property
    def fine_elements(self) -> int:
        """Elements that hold the places' fine bits, in all shards."""
        return self.shards * self.shard.fine_elements


@singledispatch
def with_noise(cls: AttestationClass) -> NoiseClass:
    """The class, if it has noise.

    Raises:
        PolicyError: it has another law.
    """
    raise PolicyError(f"class {cls.name!r} has the law {cls.law!r}, which has no noise: choose a class with noise")


@with_noise.register
def _itself(cls: NoiseClass) -> NoiseClass:
    return cls


def whole_index(cls: NoiseClass, shards: int) -> WholeIndex:
    """The index of so many shards of a class, for accounting.

    Raises:
        PolicyError: the class has no index of so many: more could overflow more often than its places are proven for.
    """
    if not 1 <= shards <= cls.S:
        raise PolicyError(f"an index of {shards} shards, but class {cls.name!r} is for 1 to {cls.S} together")
    given = {f.name: getattr(cls, f.name) for f in fields(NoiseClass)}
    return WholeIndex(**{**given, "N": cls.N * shards, "S": 1}, shard=cls, shards=shards)


def check_scores(cls: NoiseClass, steps: int, least: int, most: int) -> None:
    """Whether every query of a policy is provable in a class, whatever the data: chunks are wide enough.

    Args:
        steps: H, the score window's width in steps.
        least, most: digits k that any score may have, by the norms of embeddings.

    Raises:
        PolicyError: says which bound does not hold and what to change.
    """

    def need(ok: bool, why: str) -> None:
        if not ok:
            raise PolicyError(why)

    chunk = 1 << cls.c
    top, low = cls.bounds[-1], cls.bounds[(1 << cls.m) - cls.grid]  # low: Q(theta - 1) for the grid's first theta
    need(steps >= 1, "a score window of less than one step returns nothing to read")
    need(least <= 0 <= most, "no digit range is without 0")
    need(steps - least < chunk, f"{steps} steps of window and {-least} below it do not fit {cls.c} bits")
    need(most <= chunk, f"{most} steps above the window's lower end do not fit {cls.c} bits")
    need(steps + top - low <= chunk, "the window and the noise above the threshold do not fit a chunk")
    spread = steps + top + cls.table.cut + 1
    need(spread << cls.L <= 1 << (cls.c * cls.compare_chunks), "the noisy scores do not fit their comparison")
