# SPDX-License-Identifier: GPL-3.0-or-later
"""What the circuit with noise states, and its commitments.  SPEC B.5, B.7.

Of a shard's proof C_h holds the hints, and C_1 the bounds b_i where the circuit's wire is beta b_i: a verifier
multiplies C_1 by beta.  The bounds are hints as well, and one witness for both relations ties the two.  A slot's four
hints stand together in it, so that bounds are spread over its whole first part: were they all in one half, a round of
folding would have the identity to send, which is refused.  C_v holds the threshold (v*, i*) of a record.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ragseal.kernel import field
from ragseal.kernel.bn254 import Group
from ragseal.kernel.committed import CommittedBases, Over, Use
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_statement import BOUND, SLOT_HINTS, THRESHOLD, NoiseLayout
from ragseal.kernel.params import TAG_PLACES, R
from ragseal.kernel.poseidon import poseidon
from ragseal.kernel.stated import Points, Poseidon, Stated
from ragseal.kernel.statement import Returned, pack_returned

HINTS, THRESHOLDS = "hints", "thresholds"  #: uses of openings


@dataclass(frozen=True)
class NoiseStated(Stated):
    """Of a class with noise."""

    cls: NoiseClass

    wide_hints = frozenset({"placeBefore", "placeUpto"})  # values of the noise's distribution function

    @cached_property
    def layout(self) -> NoiseLayout:
        return NoiseLayout(self.cls)

    def bases(self, points: Points, group: Group) -> CommittedBases:
        """C_h over {W_j, B}, C_1 over {G^b_i, B}, C_v over {V*, I*, B}; nothing else in any of them."""
        at, size, blinder = self.layout, self.layout.size, points(self.layout.blind_at, 1)
        bounds = ((SLOT_HINTS * i + BOUND, SLOT_HINTS * i + BOUND + 1) for i in range(self.cls.N))
        hints = Over(points(at.hints_at, size) + blinder, ((0, size + 1),))
        scaled = Over(points(at.behind_at, at.behind) + blinder, (*bounds, (size + 1, size + 2)))
        shared = len(THRESHOLD)
        threshold = Over(points(at.shared_at, shared) + blinder, ((0, shared + 1),))
        return CommittedBases((Use(HINTS, size, (hints, scaled)),), Use(THRESHOLDS, shared, (threshold,)))

    def scales(self, beta: int) -> tuple[int, ...]:
        """C_w + C_h + beta C_1 + C_v."""
        return 1, 1, beta, 1

    def wires(self, w: Sequence[int], witnesses: Sequence[bytes], beta: int) -> bytes:
        (h,) = witnesses
        scaled = [beta * b % R for b in field.unpack(packed_bounds(h, self.cls.N))]
        return field.pack(w) + h + field.pack(scaled)

    def lists(
        self, salt: int, returned: Sequence[Returned], shards: int, hashed: Poseidon = poseidon
    ) -> tuple[int, ...]:
        """One of the whole index: Poseidon(tag, salt, packed ids with flags ...)."""
        return (hashed(TAG_PLACES, salt, *pack_returned(self.cls, returned)),)

    def lists_due(self, shards: int) -> int:
        """One of all shards."""
        return 1


def packed_bounds(h: bytes, slots: int) -> bytes:
    """b_0 .. b_(N-1) out of packed hints that begin with slots."""
    size = field.FIELD_BYTES
    return b"".join(h[at : at + size] for at in range(BOUND * size, SLOT_HINTS * slots * size, SLOT_HINTS * size))
