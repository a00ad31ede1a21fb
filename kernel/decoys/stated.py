# SPDX-License-Identifier: GPL-3.0-or-later
"""What the decoys' circuit states: the commitments of its proofs, and what a verifier makes of them.

Of a shard's proof these are, beside C_y of the record:

    C_m     m over P_0 .. P_(N-1)           C_b     b_1 .. b_(N-1) over P_1 .. P_(N-1)
    C_im    i m_i over P_1 .. P_(N-1)       C_b'    b_1 .. b_N over P_0 .. P_(N-1)
    C_m''   m over Z_0 .. Z_(N-1)           C_h     hints over W, high chunks over Z among them
    C_n     the shard's number of ids over NH

and of a record C_v, what all shards share, over V.  P are the points of x, Z those of z; C_m'' is of classes with two
chunks a distance.  Each has a blinder of its own over B.  Nothing in the circuit ties C_m, C_im and C_m'', or C_b and
C_b': one witness for all of them does, entry by entry.  They are never merged by a challenge: some m answers to
``C_m + psi C_im`` whatever the two open to.  The length of the whole list in C_v is the sum of its shards' numbers,
since one entry opens both.

Messages come in this order: columns; C_e, C_y and the lists' commitments in the record; all points here; then alpha and
beta, which hash all of that; then the proof; then chi of each opening.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ragseal.kernel import field
from ragseal.kernel.bn254 import IDENTITY, POINT_BYTES, Group
from ragseal.kernel.committed import CommittedBases, Over, Use
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.decoys.statement import HIGH, SHARED, DecoysLayout, list_commitment, slot_wires
from ragseal.kernel.params import R
from ragseal.kernel.poseidon import poseidon
from ragseal.kernel.stated import Points, Poseidon, Stated
from ragseal.kernel.statement import Returned

MEMBERS, BEHIND, HINTS, COUNTS, LISTS = "members", "behind", "hints", "counts", "lists"  #: uses of openings


@dataclass(frozen=True)
class DecoysStated(Stated):
    """Of a class of decoys."""

    cls: DecoysClass

    wide_hints = frozenset({HIGH, "inverse"})  # z, and an inverse in the field
    wide_scores = True  # x has powers of beta

    @cached_property
    def layout(self) -> DecoysLayout:
        return DecoysLayout(self.cls)

    def bases(self, points: Points, group: Group) -> CommittedBases:
        N, at, two = self.cls.N, self.layout, self.cls.chunks == 2
        slots, hints = points(at.scores_at, N), points(at.hints_at, at.size)
        count, shared = points(at.behind_at, 1), points(at.shared_at, len(SHARED))
        b = points(at.blind_at, 1)
        high = [Over(hints[: POINT_BYTES * N] + b, ((0, N), (N + 2, N + 3)))] if two else []
        members = (
            Over(slots + b, ((0, N), (N, N + 1))),
            Over(numbered(group, slots) + b, ((1, N), (N + 1, N + 2))),
            *high,
        )
        behind = (
            Over(slots[POINT_BYTES:] + b, ((0, N - 1), (N, N + 1))),  # no base is for b_0, which is 0
            Over(slots + b, ((0, N), (N + 1, N + 2))),
        )
        size, values = at.size, len(SHARED)
        own = (
            Use(MEMBERS, N, members),
            Use(BEHIND, N, behind),
            Use(HINTS, size, (Over(hints + b, ((0, size + 1),)),)),
            Use(COUNTS, 1, (Over(count + b, ((0, 2),)),)),
        )
        lists = (
            Over(shared + b, ((0, values + 1),)),
            Over(count + b, ((values - 1, values), (values + 1, values + 2))),
        )
        return CommittedBases(own, Use(LISTS, values, lists), sums=(len(members) + len(behind) + 1,))

    def scales(self, beta: int) -> tuple[int, ...]:
        """-C_y + (beta + 2^c beta^4) C_m + beta^2 C_im + beta^4 C_m'' + (1 - beta^3) C_b + beta^3 C_b' + the others."""
        two, cube, fourth = self.cls.chunks == 2, pow(beta, 3, R), pow(beta, 4, R)
        first = (beta + (fourth << self.cls.c if two else 0)) % R
        high = (fourth,) if two else ()
        return R - 1, first, beta * beta % R, *high, (1 - cube) % R, cube, 1, 1, 1

    def wires(self, w: Sequence[int], witnesses: Sequence[bytes], beta: int) -> bytes:
        members, behind, h, count = witnesses
        size = field.FIELD_BYTES * self.cls.N * (self.cls.chunks - 1)
        opened = list(field.unpack(members)), list(field.unpack(behind)), list(field.unpack(h[:size]))
        x, z = slot_wires(self.cls, w, opened, beta)
        return field.pack(x) + field.pack(z) + h[size:] + count

    def lists(
        self, salt: int, returned: Sequence[Returned], shards: int, hashed: Poseidon = poseidon
    ) -> tuple[int, ...]:
        """One of every shard (:func:`list_commitment`)."""
        N = self.cls.N
        own: list[list[Returned]] = [[] for _ in range(shards)]
        for one in returned:
            own[one.slot // N].append(Returned(one.slot % N, one.flag))
        return tuple(list_commitment(self.cls, salt, part, shard, hashed) for shard, part in enumerate(own))

    def lists_due(self, shards: int) -> int:
        """One a shard."""
        return shards


def numbered(group: Group, points: bytes) -> bytes:
    """i P_i for i = 1 .. N-1, by doubling and adding all at once."""
    rest = [points[at : at + POINT_BYTES] for at in range(POINT_BYTES, len(points), POINT_BYTES)]
    total = IDENTITY * len(rest)
    for bit in reversed(range(len(rest).bit_length())):
        picked = b"".join(one if i >> bit & 1 else IDENTITY for i, one in enumerate(rest, 1))
        total = group.fold(total + picked, 2)
    return total
