# SPDX-License-Identifier: GPL-3.0-or-later
"""Commitments to the thresholds of records, and what their batched opening proves.  SPEC B.5.3, B.7.

C_v holds (v*, i*) of a record, in whose every proof it stands.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.kernel import field
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.opening import Equations, Opening, Relation, verify_opening


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
