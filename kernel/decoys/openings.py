# SPDX-License-Identifier: GPL-3.0-or-later
"""The commitments of a record's proofs, what a verifier makes of them, and what each of them opens over.

Of a shard's proof these are, beside C_y of the record:

    C_m     m over P_0 .. P_(N-1)           C_b     b_1 .. b_(N-1) over P_1 .. P_(N-1)
    C_im    i m_i over P_1 .. P_(N-1)       C_b'    b_1 .. b_N over P_0 .. P_(N-1)
    C_m''   m over Z_0 .. Z_(N-1)           C_h     hints over W, high chunks over Z among them
    C_n     the shard's number of ids over NH

and of a record C_v, what all shards share, over V.  P are the points of x, Z those of z; C_m'' is of classes with two
chunks a distance.  Each has a blinder of its own over B.  Nothing in the circuit ties C_m, C_im and C_m'', or C_b and
C_b': one witness for all of them does, entry by entry.  They are never merged by a challenge: some m answers to
``C_m + psi C_im`` whatever the two open to.

Messages come in this order: columns; C_e, C_y and t_commit in the record; all points here; then alpha and beta, which
hash all of that; then the proof; then chi of each opening.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from ragseal.kernel import field
from ragseal.kernel.bn254 import IDENTITY, POINT_BYTES, Group
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.decoys.hints import ShardAssignment, Shared
from ragseal.kernel.decoys.statement import SHARED
from ragseal.kernel.errors import ProofError
from ragseal.kernel.opening import Relation
from ragseal.kernel.params import R

MEMBERS, BEHIND, HINTS, COUNTS, LISTS = "members", "behind", "hints", "counts", "lists"  #: uses of openings


@dataclass(frozen=True, slots=True)
class ShardPoints:
    """The commitments of one shard's proof, 64 bytes each."""

    members: tuple[bytes, ...]  #: C_m, C_im, and C_m'' of classes with two chunks
    behind: tuple[bytes, bytes]  #: C_b, C_b'
    hints: bytes  #: C_h
    count: bytes  #: C_n

    def all(self) -> bytes:
        return b"".join((*self.members, *self.behind, self.hints, self.count))


@dataclass(frozen=True, slots=True)
class ShardBlinders:
    """Their coefficients of B, in the same shape: fresh and uniform for each proof."""

    members: tuple[int, ...]
    behind: tuple[int, int]
    hints: int
    count: int


def weights_of(cls: DecoysClass, beta: int) -> tuple[tuple[int, ...], tuple[int, int]]:
    """By what a verifier multiplies the points of members and behind; C_y by -1, all others by 1."""
    two = cls.chunks == 2
    first = beta + (pow(beta, 4, R) << cls.c if two else 0)
    members = (first % R, beta * beta % R, *([pow(beta, 4, R)] if two else []))
    cube = pow(beta, 3, R)
    return members, ((1 - cube) % R, cube)


@dataclass(frozen=True)
class DecoysBases:
    """Points of a key over which a class's commitments are made."""

    cls: DecoysClass
    slots: bytes  #: P_0 .. P_(N-1)
    hints: bytes  #: of the hints, of two chunks Z_0 .. Z_(N-1) first
    count: bytes  #: NH
    shared: bytes  #: V, in the order of :data:`SHARED`
    blinder: bytes  #: B
    group: Group

    @cached_property
    def scaled(self) -> bytes:
        """i P_i for i = 1 .. N-1, by doubling and adding all at once."""
        points = self.slots[POINT_BYTES:]
        total = IDENTITY * (self.cls.N - 1)
        for bit in reversed(range((self.cls.N - 1).bit_length())):
            picked = b"".join(
                points[POINT_BYTES * i :][:POINT_BYTES] if (i + 1) >> bit & 1 else IDENTITY
                for i in range(self.cls.N - 1)
            )
            total = self.group.fold(total + picked, 2)
        return total

    @property
    def high(self) -> bytes:
        """Z_0 .. Z_(N-1); none of classes with one chunk."""
        return self.hints[: POINT_BYTES * self.cls.N * (self.cls.chunks - 1)]

    # --- relations --------------------------------------------------------------------------------------------------

    def members_of(self, committed: Sequence[Sequence[bytes]]) -> tuple[Relation, ...]:
        """C_m, C_im and C_m'' of every proof: witness m_0 .. m_(N-1), and a blinder for each.

        Raises:
            ProofError: another number of points than the class has.
        """
        N = self.cls.N
        bases = [(self.slots, 0), (self.scaled, 1), *([(self.high, 0)] if self.high else [])]
        if any(len(points) != len(bases) for points in committed):
            raise ProofError(f"class {self.cls.name!r} has {len(bases)} commitments to the returned slots")
        return tuple(
            Relation(own + self.blinder, ((first, N), (N + k, N + k + 1)), tuple(points[k] for points in committed))
            for k, (own, first) in enumerate(bases)
        )

    def behind_of(self, committed: Sequence[tuple[bytes, bytes]]) -> tuple[Relation, ...]:
        """C_b and C_b' of every proof: witness b_1 .. b_N, and a blinder for each.  No base is for b_0, which is 0."""
        N = self.cls.N
        return (
            Relation(
                self.slots[POINT_BYTES:] + self.blinder, ((0, N - 1), (N, N + 1)), tuple(one for one, _ in committed)
            ),
            Relation(self.slots + self.blinder, ((0, N), (N + 1, N + 2)), tuple(one for _, one in committed)),
        )

    def hints_of(self, committed: Sequence[bytes]) -> tuple[Relation, ...]:
        """C_h of every proof: witness the hints, and a blinder."""
        size = len(self.hints) // POINT_BYTES
        return (Relation(self.hints + self.blinder, ((0, size + 1),), tuple(committed)),)

    def counts_of(self, committed: Sequence[bytes]) -> tuple[Relation, ...]:
        """C_n of every proof: witness a number of ids, and a blinder."""
        return (Relation(self.count + self.blinder, ((0, 2),), tuple(committed)),)

    def lists_of(self, shared: Sequence[bytes], counts: Sequence[Sequence[bytes]]) -> tuple[Relation, ...]:
        """C_v of every record, and the sum of its shards' C_n: witness what shards share, and a blinder for each.

        The list's length in C_v is the sum of its shards' numbers, since both relations take it from one entry.
        """
        size = len(SHARED)
        number = {len(own) for own in counts}
        if len(number) != 1:
            raise ProofError("records of one batch have as many shards each")
        return (
            Relation(self.shared + self.blinder, ((0, size + 1),), tuple(shared)),
            Relation(
                self.count + self.blinder,
                ((size - 1, size), (size + 1, size + 2)),
                tuple(b"".join(own) for own in counts),
                parts=(1,) * number.pop(),
            ),
        )

    # --- a prover's side --------------------------------------------------------------------------------------------

    def commit(self, one: ShardAssignment, blinders: ShardBlinders) -> ShardPoints:
        """The commitments of one shard."""
        members = field.pack([*one.members, *blinders.members])
        behind = field.pack([*one.behind, *blinders.behind])
        group = self.group

        def over(relations: tuple[Relation, ...], witness: bytes) -> tuple[bytes, ...]:
            return tuple(group.msm(relation.bases, relation.pick(group, witness)) for relation in relations)

        own = over(self.members_of([]), members)
        first, second = over(self.behind_of([]), behind)
        hints = group.msm(self.hints + self.blinder, field.pack([*one.hints, blinders.hints]))
        count = group.msm(self.count + self.blinder, field.pack([one.count, blinders.count]))
        return ShardPoints(own, (first, second), hints, count)

    def commit_shared(self, shared: Shared, blinder: int) -> bytes:
        """C_v."""
        return self.group.msm(self.shared + self.blinder, field.pack([*shared.values(), blinder]))

    # --- a verifier's side ------------------------------------------------------------------------------------------

    def hidden(self, c_y: bytes, points: ShardPoints, shared: bytes, beta: int) -> bytes:
        """What stands for all hidden public inputs of a shard's proof in vk_x: C_x + C_z + C_h + C_n + C_v."""
        members, behind = weights_of(self.cls, beta)
        if len(points.members) != len(members):
            raise ProofError(f"class {self.cls.name!r} has {len(members)} commitments to the returned slots")
        scalars = field.pack([-1, *members, *behind, 1, 1, 1])
        return self.group.msm(c_y + points.all() + shared, scalars)


def blinder_wire(cls: DecoysClass, rho_y: int, own: ShardBlinders, rho_v: int, beta: int) -> int:
    """The value of the circuit's blinder: the coefficient of B in what a verifier adds up."""
    members, behind = weights_of(cls, beta)
    scaled = zip((*members, *behind), (*own.members, *own.behind), strict=True)
    return (-rho_y + sum(w * x for w, x in scaled) + own.hints + own.count + rho_v) % R
