# SPDX-License-Identifier: GPL-3.0-or-later
"""A reference prover's values of one shard's committed hints, in :class:`ShardedLayout` order.

What the native engine computes is compared with this.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from ragseal.kernel.ranked_hints import PartialHints
from ragseal.kernel.sharded_class import ShardedClass
from ragseal.kernel.sharded_mechanism import ShardedSelection
from ragseal.kernel.sharded_statement import ShardedLayout


def sharded_hints(
    cls: ShardedClass, selection: ShardedSelection, shard: int, w: Sequence[int], steps: int
) -> list[int]:
    """The hint vector h (signed integers) of an honest prover of one shard; ``w``: its own N scores.

    Raises:
        AttestationError: a value leaves its range, that is the policy overflows the class.
    """
    made = PartialHints(cls, ShardedLayout(cls))
    made.put_slots(selection.shards[shard], w, steps)
    made.put_thresholds(selection.shards[shard], selection.threshold_slot)
    packed = [one.packed for one in selection.returned]
    made.put("returned", packed)
    chunks, ch = cls.returned_chunks, made.ch
    for a, b in itertools.pairwise([-1, *packed, 2 * len(selection.shards) * cls.N]):
        made.put("returnedGap", ch.low(b - a - 1, chunks))
    first = 2 * shard * cls.N
    for one in packed:
        below, beyond = one < first, one >= first + 2 * cls.N
        low, high = one - first, first + 2 * cls.N - 1 - one
        made.put("insideBelow", [int(below)])
        made.put("insideBeyond", [int(beyond)])
        made.put("insideLow", ch.low(-1 - low if below else low, chunks))
        made.put("insideHigh", ch.low(-1 - high if beyond else high, chunks))
    return made.complete()
