# SPDX-License-Identifier: GPL-3.0-or-later
"""The mechanism in plain integers: ids that are drawn, and the best others, as many as are missing to K.

docs/proofs/decoys.md proves what one list and one return tell.  What the native engine computes is compared with this.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.kernel.decoys.bounds import most_listed
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.decoys.table import DrawTable
from ragseal.kernel.errors import AttestationError, PolicyError, UnprovableError
from ragseal.kernel.params import ELEMENTS_PER_BLOCK, TAG_DRAWS
from ragseal.kernel.poseidon import permute
from ragseal.kernel.statement import Returned, canonical_limit


@dataclass(frozen=True, slots=True)
class Draws:
    """What one shard draws for one request."""

    elements: tuple[int, ...]  #: outputs of permutations that hold the ids
    values: tuple[int, ...]  #: all ids in them: of the uniform, of the draws, of what is left of the last output
    number: int  #: J: so many draws count
    ids: tuple[int, ...]  #: the J drawn ids, void and repeated ones too

    def slots(self, N: int) -> tuple[int, ...]:
        """P: drawn slots, increasing."""
        return tuple(sorted({one for one in self.ids if one < N}))


def elements_of(cls: DecoysClass, key: int, shard: int) -> tuple[int, ...]:
    """Outputs 1..16 of the width-17 permutations of (0, key, block + TAG_DRAWS 2^32, shard, 0, ...)."""
    out: list[int] = []
    for block in range(-(-cls.elements // ELEMENTS_PER_BLOCK)):
        out += permute([0, key, block + (TAG_DRAWS << 32), shard] + [0] * 13)[1 : 1 + ELEMENTS_PER_BLOCK]
    return tuple(out[: cls.elements])


def read_draws(cls: DecoysClass, table: DrawTable, elements: Sequence[int]) -> Draws:
    """The number of draws and their ids out of a shard's elements.

    Raises:
        UnprovableError: an element has no canonical form (2^-44 each, whatever the data are).
    """
    limit = canonical_limit(cls.top_position)
    if any(element >> cls.top_position >= limit for element in elements):
        raise UnprovableError("an element is outside the canonical decomposition; the record cannot be proven")
    mask, u = (1 << cls.L) - 1, cls.uniform_ids
    values = tuple((element >> (cls.L * j)) & mask for element in elements for j in range(cls.per_element))
    number = table.number(sum(value << (cls.L * j) for j, value in enumerate(values[:u])))
    return Draws(tuple(elements), values, number, values[u : u + number])


@dataclass(frozen=True, slots=True)
class Selection:
    """One query over all shards: T, and what a proof of it needs."""

    draws: tuple[Draws, ...]  #: of every shard
    drawn: tuple[tuple[int, ...], ...]  #: P of every shard, slots of that shard
    returned: tuple[tuple[Returned, ...], ...]  #: T of every shard, by slot of that shard, with flags
    results: tuple[tuple[int, int], ...]  #: (shard, slot) of what is in T by its score, best first
    short: bool  #: every slot with a score is in T, and they are fewer than would fit
    over: bool  #: more than K are drawn

    @property
    def total(self) -> int:
        """|T|."""
        return sum(len(own) for own in self.returned)

    def listed(self, N: int) -> tuple[Returned, ...]:
        """T, by slot of the whole index of shards of ``N``."""
        return tuple(Returned(h * N + one.slot, one.flag) for h, own in enumerate(self.returned) for one in own)


def choose(drawn: Sequence[Sequence[int]], scores: Sequence[Sequence[int]], lo: int, K: int) -> list[tuple[int, int]]:
    """(shard, slot) of the first max(0, K - |P|) slots outside of P with y > lo, by (y descending, id ascending)."""
    taken = [set(own) for own in drawn]
    matching = [
        (-y, shard, slot)
        for shard, own in enumerate(scores)
        for slot, y in enumerate(own)
        if y > lo and slot not in taken[shard]
    ]
    return [(shard, slot) for _, shard, slot in sorted(matching)[: max(0, K - sum(map(len, taken)))]]


def select(cls: DecoysClass, table: DrawTable, key: int, scores: Sequence[Sequence[int]], lo: int, K: int) -> Selection:
    """T with its flags.

    Args:
        table: of draws, the policy's.
        key: of the request (:func:`ragseal.kernel.mechanism.noise_key`), one for all shards.
        scores: y of every slot of every shard; 0 of empty and hidden ones.
        lo: a slot matches with y > lo.
        K: ids of a list, unless more are drawn or fewer match.

    Raises:
        AttestationError: another shape than the class has, or scores that no proof of the class takes: a provider asks
            before it makes a record.
        PolicyError: the table or K is not for the class.
        UnprovableError: an element without canonical form, or more drawn slots than a list may have or the class has
            room for, the results that all may lie in one shard among them: a function of what is drawn alone.
    """
    if not 1 <= len(scores) <= cls.S or any(len(own) != cls.N for own in scores):
        raise AttestationError(f"scores of 1 to {cls.S} shards of {cls.N} slots are needed")
    if lo < 0:
        raise AttestationError("lo is 0 at least: an empty slot, whose score is 0, matches nothing")
    if not 1 <= K <= len(scores) * cls.room or table.L != cls.L or table.bits != cls.uniform_ids * cls.L:
        raise PolicyError(f"class {cls.name!r} takes 1 to {cls.room} ids a shard, and tables of {cls.L} bits an id")
    table.rows(cls.draws)
    every = [0, *(y for own in scores for y in own)]  # 0: some slot may be empty
    if max(lo, *every) + 1 - min(every) >= cls.reach:
        raise AttestationError(f"scores from {min(every)} to {max(every)} are out of the range of class {cls.name!r}")
    draws = tuple(read_draws(cls, table, elements_of(cls, key, shard)) for shard in range(len(scores)))
    drawn = tuple(one.slots(cls.N) for one in draws)
    if sum(map(len, drawn)) > most_listed(table, cls.N, K, len(scores)):
        raise UnprovableError("more is drawn than a list may have; the query has no answer (2^-64)")
    missing = max(0, K - sum(map(len, drawn)))
    if any(len(own) + missing > cls.room for own in drawn):
        raise UnprovableError("what is drawn leaves a shard too little room; the record cannot be proven (2^-64)")
    results = choose(drawn, scores, lo, K)
    lists = [set(own) for own in drawn]
    for shard, slot in results:
        lists[shard].add(slot)
    returned = tuple(
        tuple(Returned(slot, own[slot] > lo) for slot in sorted(there))
        for there, own in zip(lists, scores, strict=True)
    )
    total = sum(map(len, lists))
    return Selection(draws, drawn, returned, tuple(results), total < K, total > K)
