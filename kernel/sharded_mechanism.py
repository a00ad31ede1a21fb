# SPDX-License-Identifier: GPL-3.0-or-later
"""The ranked mechanism over several shards in plain integers: places of every shard, one threshold, the top K of all.

What the native engine computes is compared with this.  docs/proofs/shards.md proves that its law is that of noise drawn
for every slot of the whole index on its own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.kernel.errors import AttestationError
from ragseal.kernel.ranked_mechanism import RankedSelection, at_threshold, open_places
from ragseal.kernel.sharded_class import ShardedClass
from ragseal.kernel.statement import Returned


@dataclass(frozen=True, slots=True)
class ShardedSelection:
    """One query over all shards: the set T, by ids of the whole index, and what every shard's proof opens."""

    shards: tuple[RankedSelection, ...]  #: slots count from the shard's first one, ``threshold_slot`` too
    threshold: int  #: v*, the K-th largest score of all
    threshold_slot: int  #: i*, an id of the whole index
    returned: tuple[Returned, ...]  #: T, by id

    @property
    def ids(self) -> tuple[int, ...]:
        """The slots of T, increasing."""
        return tuple(one.slot for one in self.returned)


def select_sharded(cls: ShardedClass, key: int, w: Sequence[Sequence[int]], steps: int) -> ShardedSelection:
    """Noise over every slot of every shard and the exact top K by (v, -id).

    Args:
        key: of the request's noise, one for all shards.
        w: N integers of every shard.
        steps: H, the window's width in steps.

    Raises:
        AttestationError: no shards or more than S, or another number of scores than the capacity.
        UnprovableError: one shard has a completeness failure.
    """
    if not 1 <= len(w) <= cls.S:
        raise AttestationError(f"{len(w)} shards, class {cls.name!r} has 1 to {cls.S}")
    opened = [open_places(cls, key, scores, steps, shard) for shard, scores in enumerate(w)]
    values = ((-p.score, shard * cls.N + p.slot) for shard, one in enumerate(opened) for p in one.places)
    least, slot = sorted(values)[cls.K - 1]
    shards = [at_threshold(cls, one, -least, slot - shard * cls.N) for shard, one in enumerate(opened)]
    return ShardedSelection(
        shards=tuple(shards),
        threshold=-least,
        threshold_slot=slot,
        returned=tuple(
            Returned(shard * cls.N + one.slot, one.flag) for shard, own in enumerate(shards) for one in own.returned
        ),
    )
