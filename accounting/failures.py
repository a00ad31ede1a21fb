# SPDX-License-Identifier: GPL-3.0-or-later
"""Named failures: what the refusals of n queries take from delta, under either claim.  SPEC D.15, M.8.

A query that cannot be proven is refused, and a refusal tells something about scores.  ``docs/proofs/refusals.md`` says
why what stands here is enough and has no factor e^epsilon: a query is charged if the noise of the slots that the two
worlds have in common might let a refusal depend on the others.  Where a document's slots can only raise scores (claim
until-delivered) less has to be charged.

Elements of coarse bits, and of a noise class's fine bits, are tested before a score is looked at: they cost nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.noise_class import NoiseClass, WholeIndex
from ragseal.kernel.overflow import few_exceed_bound
from ragseal.kernel.params import GRID_EXPONENT, OVERFLOW_EXPONENT


@dataclass(frozen=True, slots=True)
class Failures:
    """Probabilities over all queries, upper bounds."""

    overflow: Fraction  #: more slots could win than there are places
    grid: Fraction  #: the threshold below the grid of theta

    @property
    def total(self) -> Fraction:
        return self.overflow + self.grid


def every_list(cls: AttestationClass, chunks: int, queries: int) -> Failures:
    """Under claim every-list, for a document of so many slots: n (a^chunks 2^-64 + g).

    Each probability is 1 at most; of a document of more slots than places nothing better is known.

    Raises:
        PolicyError: the class has the law lottery, under which that claim bounds nothing.
    """
    if isinstance(cls, LotteryClass):
        raise PolicyError(f"class {cls.name!r} has the law {cls.law!r}, under which no epsilon of every list follows")
    once = min(Fraction(1), cls.a**chunks / (1 << OVERFLOW_EXPONENT)) if chunks <= cls.R else Fraction(1)
    return Failures(queries * once, queries * _outside_grid(cls, chunks))


def until_delivered(cls: AttestationClass, chunks: int, queries: int) -> Failures:
    """Under claim until-delivered: n 2^-64, and n g, of the lottery n 2^-80."""
    grid = _outside_grid(cls, chunks) if isinstance(cls, NoiseClass) else Fraction(1, 1 << GRID_EXPONENT)
    return Failures(Fraction(queries, 1 << OVERFLOW_EXPONENT), queries * grid)


@lru_cache(maxsize=64)
def _outside_grid(cls: NoiseClass, chunks: int) -> Fraction:
    """g: how likely at most the noise of all slots but ``chunks`` leaves it open whether theta is in the grid."""
    if isinstance(cls, WholeIndex):  # any shard alone may find no theta, and fewer slots find it less often
        return min(Fraction(1), cls.shards * _outside_grid(cls.shard, chunks))
    others = cls.N - chunks
    if others < cls.R:
        return Fraction(1)
    return few_exceed_bound(others, cls.R, cls.grid, cls.m)
