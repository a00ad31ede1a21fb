# SPDX-License-Identifier: GPL-3.0-or-later
"""Commitments to the hints of a proof, and what their batched opening proves.  SPEC B.5, B.7.

C_h holds the hints.  A second commitment, C_1, holds the bounds b_i where the circuit's wire is beta b_i: a verifier
multiplies it by beta.  The bounds are hints as well, and nothing in the circuit ties the two; one witness for both
relations does.  A slot's four hints stand together in it, so that bounds are spread
over its whole first part: were they all in one half, a round of folding would have the identity to send, which is
refused.

On the wire the commitments of a proof are one field: C_h, and C_1 behind it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ragseal.kernel import field
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.errors import ProofError
from ragseal.kernel.opening import Relation
from ragseal.kernel.params import R
from ragseal.kernel.scaled_layout import BOUND, SLOT_HINTS

MAX_COMMITMENTS = 2  #: C_h and C_1


@dataclass(frozen=True, slots=True)
class HintBases:
    """Points over which the hints of one class are committed, 64 bytes each."""

    hints: bytes  #: W_0, W_1, ...
    blinder: bytes  #: B
    scaled: bytes = b""  #: G^b_0 .. G^b_(N-1), the points of beta b_i; none where a statement has C_h alone

    @property
    def count(self) -> int:
        """Commitments of a proof, and blinders of its hints: C_h, and C_1."""
        return 2 if self.scaled else 1

    @property
    def size(self) -> int:
        """Entries of the opening's witness: the hints, and a blinder for each commitment."""
        return len(self.hints) // POINT_BYTES + self.count

    def commit(self, group: Group, h: bytes, blinders: Sequence[int]) -> bytes:
        """C_h, and C_1 behind it, of packed hints."""
        made = group.msm(self.hints + self.blinder, h + field.to_bytes(blinders[0]))
        if self.scaled:
            made += group.msm(self.scaled + self.blinder, packed_bounds(h, self._slots) + field.to_bytes(blinders[1]))
        return made

    def witness(self, h: bytes, blinders: Sequence[int]) -> bytes:
        """What one proof puts into the batch's opening."""
        return h + field.pack(blinders)

    def split(self, committed: bytes) -> tuple[bytes, ...]:
        """The points of one proof's commitments.

        Raises:
            ProofError: another number of points than the class has.
        """
        if len(committed) != self.count * POINT_BYTES:
            raise ProofError(
                f"commitments to hints: {len(committed) // POINT_BYTES} points, and the class has {self.count}"
            )
        return tuple(committed[at : at + POINT_BYTES] for at in range(0, len(committed), POINT_BYTES))

    def relations(self, committed: Sequence[bytes]) -> tuple[Relation, ...]:
        """C_h over {W_j, B} and nothing else; C_1 over {G^b_i, B} too, the bounds in common.

        Raises:
            ProofError: another number of commitments than the class has.
        """
        points = [self.split(one) for one in committed]
        size = len(self.hints) // POINT_BYTES
        relations = [Relation(self.hints + self.blinder, ((0, size + 1),), tuple(c_h for c_h, *_ in points))]
        if self.scaled:
            bounds = [SLOT_HINTS * i + BOUND for i in range(self._slots)]
            places = (*((at, at + 1) for at in bounds), (size + 1, size + 2))
            relations.append(Relation(self.scaled + self.blinder, places, tuple(c_1 for _, c_1 in points)))
        return tuple(relations)

    @property
    def _slots(self) -> int:
        return len(self.scaled) // POINT_BYTES


def packed_bounds(h: bytes, slots: int) -> bytes:
    """b_0 .. b_(N-1) out of packed hints that begin with slots."""
    size = field.FIELD_BYTES
    return b"".join(h[at : at + size] for at in range(BOUND * size, SLOT_HINTS * slots * size, SLOT_HINTS * size))


def scaled_blinder(blinders: Sequence[int], beta: int) -> int:
    """The coefficient of B in C_h + beta C_1."""
    return (blinders[0] + sum(beta * x for x in blinders[1:])) % R
