# SPDX-License-Identifier: GPL-3.0-or-later
"""A reference prover's values of one record's committed inputs, in :class:`DecoysLayout` order.

What the native engine computes is compared with this.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from ragseal.kernel.chunks import Chunks
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.decoys.law import Draws, Selection
from ragseal.kernel.decoys.statement import HIGH, DecoysLayout
from ragseal.kernel.decoys.table import DrawTable
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.params import R
from ragseal.kernel.statement import Returned, canonical_limit


@dataclass(frozen=True, slots=True)
class Shared:
    """What all shards of a record have in common: the opening of C_v, in the circuit's order."""

    threshold: int  #: v*: what is not drawn is returned from it on, up to i* at v* itself
    threshold_slot: int  #: i*, an id of the whole index
    short: int
    over: int
    total: int  #: |T|

    def values(self) -> list[int]:
        return [self.threshold, self.threshold_slot, self.short, self.over, self.total]


@dataclass(frozen=True, slots=True)
class ShardAssignment:
    """The openings of one shard's commitments."""

    members: tuple[int, ...]  #: m_0 .. m_(N-1)
    behind: tuple[int, ...]  #: b_1 .. b_N
    hints: tuple[int, ...]  #: h, of two chunks with hi_0 .. hi_(N-1) before all else
    count: int  #: ids that the shard returns


def shared_of(cls: DecoysClass, selection: Selection, scores: Sequence[Sequence[int]], lo: int) -> Shared:
    """The threshold of a selection: the last result, or what no slot outside of T reaches."""
    last = len(scores) * cls.N - 1  # no slot lies behind it
    if selection.short:
        return Shared(lo + 1, last, 1, 0, selection.total)
    if selection.results:
        shard, slot = selection.results[-1]
        return Shared(scores[shard][slot], shard * cls.N + slot, 0, 0, selection.total)
    lists = [{one.slot for one in own} for own in selection.returned]
    others = (y for own, there in zip(scores, lists, strict=True) for i, y in enumerate(own) if i not in there)
    return Shared(max([lo + 1, *(y + 1 for y in others)]), last, 0, int(selection.over), selection.total)


def assign(
    cls: DecoysClass, table: DrawTable, selection: Selection, scores: Sequence[Sequence[int]], lo: int, K: int
) -> tuple[Shared, tuple[ShardAssignment, ...]]:
    """An honest prover's openings, of all shards.

    Raises:
        AttestationError: a score or a difference of scores leaves its range.
    """
    shared = shared_of(cls, selection, scores, lo)
    shards = range(len(scores))
    return shared, tuple(_assign(cls, table, selection, scores[h], shared, (h, lo, K)) for h in shards)


def _assign(
    cls: DecoysClass, table: DrawTable, selection: Selection, y: Sequence[int], shared: Shared, at: tuple[int, int, int]
) -> ShardAssignment:
    shard, lo, K = at
    made = _Hints(cls)
    draws, returned, base = selection.draws[shard], selection.returned[shard], shard * cls.N
    made.put_draws(draws, table)
    past = int(shared.threshold_slot < base)
    entry = shared.threshold + past
    step = cls.N if selection.short or not selection.results else shared.threshold_slot - base
    behind = [int(i > step) if not past else 0 for i in range(cls.N + 1)]
    slots = {one.slot for one in returned}
    high = []
    for i in range(cls.N):
        if i in slots:
            high.append(0)
        else:
            high += made.ch.split(entry - 1 + behind[i] - y[i], cls.chunks)[1:]
    if cls.chunks == 2:
        made.put(HIGH, high)
    made.put_elements(draws, returned, y, behind, entry, lo)
    made.put("past", [past])
    made.put("pastLow", made.ch.low(base - 1 - shared.threshold_slot if past else -base + shared.threshold_slot,
                                    cls.whole_chunks))  # fmt: skip
    made.put("thresholdLow", made.ch.low(shared.threshold - lo - 1, cls.chunks))
    made.put("totalLow", made.ch.low((shared.over - shared.short) * (shared.total - K), cls.total_chunks))
    members = tuple(int(i in slots) for i in range(cls.N))
    return ShardAssignment(members, tuple(behind[1:]), made.complete(), len(returned))


class _Hints:
    """A hint vector that is filled group by group."""

    def __init__(self, cls: DecoysClass) -> None:
        self.cls, self.ch, self.layout = cls, Chunks(cls.c), DecoysLayout(cls)
        self._values: dict[str, list[int]] = {group.name: [] for group in self.layout.groups}

    def put(self, name: str, values: Sequence[int]) -> None:
        if values:  # arrays of size 0 are left out
            self._values[name] += values

    def put_draws(self, draws: Draws, table: DrawTable) -> None:
        cls, ch, u = self.cls, self.ch, self.cls.uniform_ids
        for value in draws.values:
            self.put("value", [value])
            self.put("valueLow", ch.exact(value, cls.L)[:-1])
        used = cls.per_element * cls.L
        for element in draws.elements:
            self.put("rest", [ch.look((element >> (used + cls.c * j)) % (1 << cls.c)) for j in range(cls.filler)])
            top = element >> cls.top_position
            self.put("rest", ch.low(top, cls.top))
            self.put("rest", ch.low(canonical_limit(cls.top_position) - 1 - top, cls.top))
        rows = table.rows(cls.draws)
        uniform = sum(value << (cls.L * j) for j, value in enumerate(draws.values[:u]))
        first = rows[draws.number - 1] if draws.number else 0
        self.put("act", [int(j < draws.number) for j in range(cls.draws)])
        self.put("uniformLow", ch.low(uniform - first, cls.uniform_chunks))
        self.put("uniformHigh", ch.low(rows[draws.number] - 1 - uniform, cls.uniform_chunks))
        for value in draws.values[u : u + cls.draws] if not cls.full else ():
            self.put("void", [int(value >= cls.N)])
            self.put("voidLow", ch.low(max(0, value - cls.N), cls.id_chunks))

    def put_elements(
        self,
        draws: Draws,
        returned: Sequence[Returned],
        y: Sequence[int],
        behind: Sequence[int],
        entry: int,
        lo: int,
    ) -> None:
        cls, ch = self.cls, self.ch
        hits, n = Counter(draws.ids), len(returned)
        last = returned[-1].slot if n else -1
        ids = [one.slot for one in returned] + [last + 1 + k for k in range(cls.room - n)]
        before = 0
        for k, slot in enumerate(ids):
            used = int(k < n)
            after = behind[slot + 1] if used else before
            score = y[slot] if used else lo
            count, flag = (hits[slot], int(returned[k].flag)) if used else (0, 0)
            distance = entry - 1 + before - score
            for name, value in {
                "used": used, "id": slot, "distance": distance, "behind": after, "hits": count,
                "inverse": pow(count, -1, R) if count else 0, "drawn": int(count > 0), "flag": flag,
            }.items():  # fmt: skip
                self.put(name, [value])
            self.put("winLow", ch.low(-1 - distance if used and not count else 0, cls.chunks))
            self.put("flagLow", ch.low(score - lo - 1 if flag else lo - score, cls.chunks))
            before = after
        for one, two in pairwise(ids):
            self.put("idLow", ch.low(two - one - 1, cls.id_chunks))

    def complete(self) -> tuple[int, ...]:
        self._values["rangeCount"] = [self.ch.seen[j] for j in range(1 << self.cls.c)]
        for group in self.layout.groups:
            if len(self._values[group.name]) != group.count:
                raise AttestationError(f"{len(self._values[group.name])} values of {group.name}, not {group.count}")
        return tuple(x for group in self.layout.groups for x in self._values[group.name])
