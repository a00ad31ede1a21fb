# SPDX-License-Identifier: GPL-3.0-or-later
"""A class of the ranked mechanism for one shard of a larger index: at most S shards of N slots, one threshold for all.

What a shard has of its own is what :class:`ragseal.kernel.ranked_class.RankedClass` says: slots 0..N-1, places, an
entry, a theta.  What all shards share counts slots over the whole index: slot i of shard h has the id h N + i.  All K
winners may lie in one shard, and each shard may fail on its own, so R and G are chosen for S shards at once
(docs/proofs/shards.md, section 4).
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cached_property
from typing import Any

from ragseal.kernel import overflow
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import MAX_SHARDS, OVERFLOW_EXPONENT, class_values
from ragseal.kernel.ranked_class import RankedClass, smallest_grid


@dataclass(frozen=True)
class ShardedClass(RankedClass):
    """One circuit class for shards.  ``N``, ``R`` and ``grid`` are those of a shard, ``K`` and ``L`` of the whole."""

    S: int  #: shards at most

    def __post_init__(self) -> None:
        super().__post_init__()
        if not 2 <= self.S <= MAX_SHARDS or self.S * self.N >= 1 << 31:
            raise PolicyError(f"sharded class {self.name!r}: needs 2 <= S <= {MAX_SHARDS} and S * N below 2^31 slots")

    @property
    def L(self) -> int:
        """Bits of a slot's id in the whole index."""
        return (self.S * self.N - 1).bit_length()

    @cached_property
    def grid(self) -> int:
        """G for which all S shards together find no theta with 2^-80 a query at most."""
        return smallest_grid(self.N, self.R, self.m, self.S)


def sharded_class_from_mapping(values: dict[str, Any]) -> ShardedClass:
    """Build a sharded class.  PolicyError as :func:`class_values`, or contradictory parameters."""
    return ShardedClass(**class_values(ShardedClass, values, "sharded class"))


def shards_overflow_bound(cls: ShardedClass, shards: int) -> Fraction:
    """An upper bound of P(some shard overflows) in one query over ``shards`` of them, for every score vector.

    The last winner is one of shards N slots, and each of ``shards`` may have R slots that reach it
    (docs/proofs/shards.md, section 4).
    """
    one = overflow.overflow_bound(cls.N, cls.K, cls.R - 1, cls.m, cls.a, cls.b, cls.table)
    return one * shards * shards


def shards_overflow_bound_holds(cls: ShardedClass) -> bool:
    """Whether the class's R, a, b prove P(some shard overflows) <= 2^-64 a query, with S shards.  Exact."""
    return shards_overflow_bound(cls, cls.S) <= Fraction(1, 1 << OVERFLOW_EXPONENT)


@dataclass(frozen=True)
class WholeIndex(RankedClass):
    """What an accountant sees of an index of shards: one mechanism over ``N`` slots, those of all shards together.

    docs/proofs/shards.md, section 1: T has the law that it would have if every slot had fine bits of its own.
    """

    shard: ShardedClass
    shards: int

    @property
    def L(self) -> int:
        """Bits of an id as every shard's circuit has it, however many shards this index has."""
        return self.shard.L

    @cached_property
    def grid(self) -> int:
        """G of each shard."""
        return self.shard.grid

    @property
    def fine_elements(self) -> int:
        """Elements that hold the places' fine bits, in all shards."""
        return self.shards * self.shard.fine_elements


def whole_index(cls: ShardedClass, shards: int) -> WholeIndex:
    """The index of so many shards of a class, for accounting.

    Raises:
        PolicyError: the class has no index of so many: more could overflow more often than its places are proven for.
    """
    if not 2 <= shards <= cls.S:
        raise PolicyError(f"an index of {shards} shards, but class {cls.name!r} is for 2 to {cls.S} together")
    given = {f.name: getattr(cls, f.name) for f in fields(RankedClass)}
    of_the_whole = {"name": f"{cls.name} x {shards}", "N": cls.N * shards}
    return WholeIndex(**{**given, **of_the_whole}, shard=cls, shards=shards)
