# SPDX-License-Identifier: GPL-3.0-or-later
"""What the sharded circuit states: its public inputs in their order, and the commitments among them.

As :mod:`ragseal.kernel.ranked_statement`, but for this.  Clear inputs gain ``shard``, its number from 0 on,
and ``shards``, how many the index has; a verifier supplies both.  The threshold (v*, i*), i* an id of the whole index,
is no hint: it stands behind the scaled bounds, held by C_v, of which a record has one.  A verifier adds the same C_v to
vk_x of every shard's proof, so that all shards have one threshold.  T's packed ids are those of the whole index.

Legend of the hints that are not the ranked circuit's:

returnedGap         chunks of t'_0, of the distances between T's packed ids, and of what the last leaves to 2 shards N
insideBelow, insideBeyond       bits of an id: it lies in a shard before this one, in one behind it
insideLow, insideHigh           chunks of an id's distances to this shard's first and last packed id
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from ragseal.kernel import field
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.errors import ProofError
from ragseal.kernel.opening import Equations, Opening, Relation, verify_opening
from ragseal.kernel.proofs import Statement
from ragseal.kernel.ranked_statement import RankedLayout
from ragseal.kernel.sharded_class import ShardedClass

CLEAR_NAMES = ("c_seed", "beacon", "ctx", "hmax", "t_commit", "shard", "shards", "alpha", "beta")
THRESHOLD = ("threshold", "thresholdSlot")  #: held by C_v


class ShardedLayout(RankedLayout):
    """The hint vector h of a sharded class, beta times the bounds behind it, then the threshold."""

    def __init__(self, cls: ShardedClass) -> None:
        shapes: list[tuple[str, tuple[int, ...]]] = []
        for name, shape in self.ranked_shapes(cls):
            if name == "returnedGap":
                shape = (cls.K + 1, cls.returned_chunks - 1)
            if name not in THRESHOLD:
                shapes.append((name, shape))
        shapes += [
            ("insideBelow", (cls.K,)), ("insideBeyond", (cls.K,)),
            ("insideLow", (cls.K, cls.returned_chunks - 1)), ("insideHigh", (cls.K, cls.returned_chunks - 1)),
        ]  # fmt: skip
        super().__init__(cls, shapes)

    @property
    def clear(self) -> int:
        return len(CLEAR_NAMES)

    @property
    def threshold_at(self) -> int:
        """Index of v*; i* follows."""
        return self.scaled_at + self.cls.N

    @property
    def public(self) -> int:
        """All public inputs of the circuit: clear, blinder, scores, hints, scaled bounds, threshold."""
        return self.threshold_at + len(THRESHOLD)


@dataclass(frozen=True, slots=True)
class ShardStatement(Statement):
    """The clear inputs of one shard's proof without the challenges; all but ``shard`` are equal in all shards."""

    shard: int
    shards: int

    def clear(self) -> list[int]:
        return [self.c_seed, self.beacon, self.ctx, self.hmax, self.t_commit, self.shard, self.shards]


def shard_statements(cls: ShardedClass, common: Statement, shards: int) -> tuple[ShardStatement, ...]:
    """What the proofs of a record state, one of every shard, in their order: nobody but the verifier numbers them.

    Raises:
        ProofError: the class has no index of so many shards.
    """
    if not 1 <= shards <= cls.S:
        raise ProofError(f"an index of {shards} shards; class {cls.name!r} has 1 to {cls.S}")
    given = {f.name: getattr(common, f.name) for f in fields(Statement)}
    return tuple(ShardStatement(**given, shard=shard, shards=shards) for shard in range(shards))


@dataclass(frozen=True, slots=True)
class ThresholdBases:
    """V*, I* and B of a key, over which C_v commits to a record's threshold."""

    points: bytes

    def commit(self, group: Group, threshold: int, slot: int, blinder: int) -> bytes:
        """C_v = v* V* + i* I* + rho_v B."""
        return group.msm(self.points, self.witness(threshold, slot, blinder))

    def witness(self, threshold: int, slot: int, blinder: int) -> bytes:
        """What one record puts into the batch's opening."""
        return field.pack((threshold, slot, blinder))

    @property
    def size(self) -> int:
        return len(self.points) // POINT_BYTES

    def relation(self, committed: Sequence[bytes]) -> Relation:
        """C_v of every record over {V*, I*, B} and nothing else."""
        return Relation(self.points, ((0, self.size),), tuple(committed))


def verify_thresholds(
    group: Group,
    bases: ThresholdBases,
    context: bytes,
    committed: Sequence[bytes],
    proof: Opening,
    later: Equations | None = None,
) -> None:
    """The opening of a batch's thresholds, one of every record; ProofError if it does not hold.

    Without it C_v could have components along other inputs, and change those of every shard's proof.  ``context`` must
    hold every statement, commitment and proof of the batch.
    """
    verify_opening(group, "thresholds", context, [bases.relation(committed)], bases.size, proof, later)
