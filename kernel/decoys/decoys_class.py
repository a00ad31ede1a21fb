# SPDX-License-Identifier: GPL-3.0-or-later
"""A class of the decoys' circuit: how many slots, draws and returned ids one proof has room for.

What a policy chooses is outside of it: K, lo and the table of draws.  A shard has all of these sizes of its own; ids of
the whole index count over its shards, ``shard N + slot``.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any, ClassVar

from ragseal.kernel.decoys.bounds import most_listed, smallest_room
from ragseal.kernel.decoys.table import DECOYS, RATE_BITS, UNIFORM_EXPONENT, DrawTable, build_table
from ragseal.kernel.errors import AttestationError, PolicyError
from ragseal.kernel.law import Asked, AttestationClass
from ragseal.kernel.params import COARSE_CANONICAL_BITS, MAX_LISTED, MAX_SHARDS, MODULUS_BITS, PACKED_BITS

ELEMENT_BITS = 208  #: of a permutation's output that hold ids: what is left is its canonical top
HASH_INPUTS = 15  #: of one hash of a list, its tag left out


@dataclass(frozen=True)
class DecoysClass(AttestationClass):
    """One class, of at most ``S`` shards of ``N`` slots each."""

    kind: ClassVar[str] = DECOYS
    laws: ClassVar[tuple[str, ...]] = (DECOYS,)
    table_kind: ClassVar[str] = "table of draws"
    by_chance: ClassVar[str] = "a draw"
    noisy: ClassVar[bool] = False
    scaled: ClassVar[bool] = False

    name: str
    N: int  #: slots of a shard
    draws: int  #: J_max: ids that one query draws in a shard at most
    room: int  #: ids that one shard's proof returns at most
    c: int  #: bits of a range-checked chunk
    chunks: int  #: chunks of a score's distance, 1 or 2
    S: int = 1  #: shards at most
    law: str = DECOYS

    def __post_init__(self) -> None:
        def need(ok: bool, why: str) -> None:
            if not ok:
                raise PolicyError(f"decoys class {self.name!r}: {why}")

        need(self.law == DECOYS, f"law must be {DECOYS!r}, not {self.law!r}")
        need(self.N >= 2, "needs 2 slots at least")
        need(1 <= self.S <= MAX_SHARDS and self.S * self.N < 1 << 31, f"needs 1 <= S <= {MAX_SHARDS} and S N < 2^31")
        need(self.draws >= 1 and 1 <= self.room <= self.N, "needs a draw, and room for 1 to N ids")
        # Else a list would be refused for its length, which scores have a part in.
        need(self.S * self.room <= MAX_LISTED, f"a list of all shards has {MAX_LISTED} ids at most")
        need(2 <= self.c <= 18 and self.chunks in (1, 2), "needs 2 <= c <= 18 and 1 or 2 chunks")
        need(self.L <= 24, "ids have 24 bits at most")

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
        return {one.name: getattr(self, one.name) for one in fields(self)}

    # --- as a policy, a record and an accountant ask it ---

    @property
    def sizes(self) -> str:
        return f"draws={self.draws} room={self.room}"

    def least_ids(self, shards: int) -> int:
        """None, where nothing matches and nothing is drawn."""
        return 0

    def most_ids(self, shards: int) -> int:
        """As many as all shards have room for."""
        return shards * self.room

    def most_listed(self, ids: int, shards: int, decoy_rate: int) -> int:
        """K, or the quantile of what all shards draw: far fewer than they have room for."""
        return min(self.most_ids(shards), most_listed(self.table(decoy_rate), self.N, ids, shards))

    def check_lists(self, ids: int, shards: int, decoy_rate: int) -> None:
        """K, and room for what is drawn beside all results."""
        most = self.most_ids(shards)
        if not 1 <= ids <= most:
            raise PolicyError(
                f"a list of class {self.name!r} over {shards} shards has 1 to {most} ids, not {ids}: the nearest is "
                f"ids = {min(max(ids, 1), most)}"
            )
        due = smallest_room(self.table(decoy_rate), self.N, ids, shards)
        if due > self.room:
            mean = decoy_rate / (1 << RATE_BITS)  # exact: for people
            raise PolicyError(
                f"{ids} ids with {mean:.4g} draws of a shard on average need room for {due} ids "
                f"a shard, class {self.name!r} has room for {self.room}: take fewer ids, fewer decoys or a larger class"
            )

    def table(self, decoy_rate: int) -> DrawTable:
        """The table of draws of a rate, for ids of this class.

        Args:
            decoy_rate: draws of a shard on average, times 2^16; 0: nothing is ever drawn.

        Raises:
            PolicyError: more than the class has room for.
        """
        if not 0 <= decoy_rate <= self.draws << RATE_BITS:  # before anything is computed from it: a log may hold any
            mean = decoy_rate / (1 << RATE_BITS)  # exact: for people
            raise PolicyError(
                f"{mean:.4g} draws of a shard on average are out of range: class {self.name!r} "
                f"has room for {self.draws}"
            )
        table = build_table(self.L, decoy_rate)
        table.rows(self.draws)
        return table

    def tables(self, decoy_rate: int) -> tuple[DrawTable, ...]:
        """The one that follows from the rate."""
        return (self.table(decoy_rate),)

    def asked(self, hmax: int, lo: int, ids: int, decoy_rate: int) -> Asked:
        """lo and K; F(0) .. F(draws)."""
        return Asked((lo, ids), self.table(decoy_rate).rows(self.draws))

    def check_asked(self, asked: Asked, shards: int) -> None:
        if len(asked.inputs) != 2 or len(asked.table) != self.draws + 1:
            raise AttestationError(f"class {self.name!r} is asked for lo, K and a table of {self.draws + 1} entries")
        lo, ids = asked.inputs
        if not 0 <= lo < self.reach or not 1 <= ids <= self.most_ids(shards):
            raise AttestationError(
                f"lo = {lo} and K = {ids} are out of range: class {self.name!r} takes lo of 0 to "
                f"{self.reach - 1} and 1 to {self.most_ids(shards)} ids"
            )

    @property
    def step_bits(self) -> int:
        """Scores are compared as they are."""
        return 0

    def window_of(self, width: int) -> int:
        """No list depends on how far a score is above lo but for its order."""
        return 0

    def shift_of(self, width: int) -> int:
        """No return depends on a shift."""
        return 1

    def check_range(self, hmax: int, lo: int, least: int, most: int) -> None:
        """As :func:`check_scores`."""
        check_scores(self, lo, least, most)

    def tried(self) -> tuple[Asked, int, int]:
        """A quarter of what a distance holds; as many draws as the class has, at a third of them on average."""
        reach = self.reach // 4
        most = max(1, min(self.room // 2, self.draws // 3))
        return Asked((reach // 8, most), self._tried_table().rows(self.draws)), reach, most

    def _tried_table(self) -> DrawTable:
        """Of as many draws on average as leave the cut where the class has it, and half of its room empty."""
        return build_table(self.L, max(1, (min(self.draws, self.room) << 16) // 6), self.draws)

    def stated_of_shard(self, shard: int, shards: int) -> tuple[int, ...]:
        """Its number."""
        return (shard,)

    def overflow_bound_holds(self) -> bool:
        """Room is checked with a policy's table (docs/proofs/decoys.md, section 4): a class has no bound of its own."""
        return True

    def overflow_without(self, chunks: int) -> Fraction:
        """Two lists can differ for certain."""
        raise PolicyError(f"class {self.name!r} has the law {self.law!r}, under which no epsilon of every list follows")

    def outside_grid(self, chunks: int) -> Fraction:
        """There is no grid."""
        return Fraction(0)


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
