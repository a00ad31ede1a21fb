# SPDX-License-Identifier: GPL-3.0-or-later
"""A class of the decoys' circuit: how many slots, draws and returned ids one proof has room for.

What a policy chooses is outside of it: K, lo and the table of draws.  A shard has all of these sizes of its own; ids of
the whole index count over its shards, ``shard N + slot``.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from ragseal.kernel.errors import PolicyError
from ragseal.kernel.params import COARSE_CANONICAL_BITS, MAX_SHARDS, MODULUS_BITS, PACKED_BITS, class_values

DECOYS = "decoys"  #: the law's name
TAG_DRAWS = 9  #: Poseidon domain: blocks of draws
TAG_LIST = 10  #: Poseidon domain: commitments to returned ids
ELEMENT_BITS = 208  #: of a permutation's output that hold ids: what is left is its canonical top
UNIFORM_EXPONENT = 64  #: the number of draws is drawn from 2^64 values at least
HASH_INPUTS = 15  #: of one hash of a list, its tag left out


@dataclass(frozen=True)
class DecoysClass:
    """One class, of at most ``S`` shards of ``N`` slots each."""

    name: str
    N: int  #: slots of a shard
    draws: int  #: J_max: ids that one query draws in a shard at most
    room: int  #: ids that one shard's proof returns at most
    c: int  #: bits of a range-checked chunk
    chunks: int  #: chunks of a score's distance, 1 or 2
    S: int = 1  #: shards at most

    def __post_init__(self) -> None:
        def need(ok: bool, why: str) -> None:
            if not ok:
                raise PolicyError(f"decoys class {self.name!r}: {why}")

        need(self.N >= 2, "needs 2 slots at least")
        need(1 <= self.S <= MAX_SHARDS and self.S * self.N < 1 << 31, f"needs 1 <= S <= {MAX_SHARDS} and S N < 2^31")
        need(self.draws >= 1 and 1 <= self.room <= self.N, "needs a draw, and room for 1 to N ids")
        need(2 <= self.c <= 18 and self.chunks in (1, 2), "needs 2 <= c <= 18 and 1 or 2 chunks")
        need(self.L <= 24, "ids have 24 bits at most")

    @property
    def law(self) -> str:
        return DECOYS

    @property
    def L(self) -> int:
        """Bits of a drawn id: the smallest L with 2^L >= N."""
        return (self.N - 1).bit_length()

    @property
    def id_bits(self) -> int:
        """Bits of an id of the whole index."""
        return (self.S * self.N - 1).bit_length()

    @property
    def uniform_ids(self) -> int:
        """u: ids at the beginning whose bits say how many draws follow."""
        return -(-UNIFORM_EXPONENT // self.L)

    @property
    def per_element(self) -> int:
        """Ids that one output of a permutation holds."""
        return ELEMENT_BITS // self.L

    @property
    def elements(self) -> int:
        """Outputs that hold the uniform and all draws."""
        return -(-(self.uniform_ids + self.draws) // self.per_element)

    @property
    def filler(self) -> int:
        """Chunks between an output's ids and its canonical top."""
        return max(0, (MODULUS_BITS - self.per_element * self.L - COARSE_CANONICAL_BITS) // self.c)

    @property
    def top_position(self) -> int:
        """First bit of an output's canonical top."""
        return self.per_element * self.L + self.filler * self.c

    @property
    def top(self) -> int:
        """Chunks of the canonical top."""
        return -(-(MODULUS_BITS - self.top_position) // self.c)

    def chunks_of(self, bits: int) -> int:
        """Chunks of a number of so many bits."""
        return -(-bits // self.c)

    @property
    def id_chunks(self) -> int:
        """Chunks of a drawn id, and of the distance of two returned ones."""
        return self.chunks_of(self.L)

    @property
    def whole_chunks(self) -> int:
        """Chunks of a distance between ids of the whole index."""
        return self.chunks_of(self.id_bits)

    @property
    def uniform_chunks(self) -> int:
        """Chunks of a distance of the uniform to either end of its row."""
        return self.chunks_of(self.uniform_ids * self.L)

    @property
    def total_chunks(self) -> int:
        """Chunks of the difference between the number of ids and K."""
        return self.chunks_of((self.S * self.room).bit_length())

    @property
    def reach(self) -> int:
        """A score's distances lie below this: 2^(chunks c)."""
        return 1 << (self.chunks * self.c)

    @property
    def full(self) -> bool:
        """Every drawn id is a slot: N is a power of two."""
        return self.N == 1 << self.L

    @property
    def ids_per_element(self) -> int:
        """Returned ids, each with its flag, that one input of the list's hash holds."""
        return PACKED_BITS // (self.L + 1)

    @property
    def packed_elements(self) -> int:
        return -(-self.room // self.ids_per_element)

    def to_mapping(self) -> dict[str, Any]:
        """The class as plain values.  Inverse of :func:`decoys_class_from_mapping`."""
        return {"law": DECOYS, **{name: getattr(self, name) for name in self.__dataclass_fields__}}


def check_scores(cls: DecoysClass, lo: int, least: int, most: int) -> None:
    """Whether every list of a policy is provable in a class, whatever the data: distances fit their chunks.

    Args:
        lo: a slot matches with a score above it.
        least, most: that any score may have, by the norms of embeddings; 0 is between them, as an empty slot's.

    Raises:
        PolicyError: they do not.
    """
    if lo < 0 or not least <= 0 <= most:
        raise PolicyError("an empty slot scores 0, which lies within all scores and matches nothing")
    if max(lo, most) + 1 - least >= cls.reach:
        raise PolicyError(
            f"scores from {least} to {max(lo, most)} do not fit the {cls.chunks * cls.c} bits of class {cls.name!r}"
        )


def decoys_class_from_mapping(values: dict[str, Any]) -> DecoysClass:
    """Build a class.

    Raises:
        PolicyError: unknown, missing or contradictory parameters, or another law.
    """
    own = dict(values)
    law = own.pop("law", None)
    if law != DECOYS:
        raise PolicyError(f"law must be {DECOYS!r}, not {law!r}")
    return DecoysClass(**class_values(DecoysClass, own, "decoys class"))
