# SPDX-License-Identifier: GPL-3.0-or-later
"""Commitments that stand for a proof's hidden inputs, and what their batched openings prove.  SPEC B.5, B.7.

A proof of a shard has as many as its law needs, and a record has one more, C_v, for what its shards share: the verifier
adds the same C_v to vk_x of every shard's proof.  Some of them hold the same values over different bases.  Nothing in a
circuit ties those; one witness that opens all of them does.  So commitments are grouped by their witness: a
:class:`Use` is one opening of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from ragseal.kernel import field
from ragseal.kernel.bn254 import POINT_BYTES, Group, split_points
from ragseal.kernel.errors import ProofError
from ragseal.kernel.opening import Relation

MAX_POINTS = 7  #: commitments of one shard's proof, whatever its law
MAX_USES = 5  #: openings of a batch, whatever its law


@dataclass(frozen=True, slots=True)
class Over:
    """What one commitment is made over."""

    bases: bytes  #: points, 64 bytes each; the last one is B
    entries: tuple[tuple[int, int], ...]  #: ranges of the witness, its blinders behind it, that they take in order


@dataclass(frozen=True, slots=True)
class Use:
    """Commitments that one witness opens."""

    name: str  #: of the opening, in its challenges
    entries: int  #: of the witness, blinders left out
    over: tuple[Over, ...]  #: each takes a blinder of its own, in this order behind the entries

    @property
    def size(self) -> int:
        """Entries of the witness, a blinder for each commitment among them."""
        return self.entries + len(self.over)

    def commit(self, group: Group, witness: bytes, blinders: Sequence[int]) -> bytes:
        """The commitments, one behind the other.

        Args:
            witness: packed, blinders left out.
        """
        vector = witness + field.pack(blinders)
        relations = (Relation(one.bases, one.entries, ()) for one in self.over)
        return b"".join(group.msm(one.bases, one.pick(group, vector)) for one in relations)

    def relations(self, committed: Sequence[Sequence[bytes]]) -> list[Relation]:
        """Of commitments over many witnesses, those of each together."""
        return [
            Relation(one.bases, one.entries, tuple(points[k] for points in committed))
            for k, one in enumerate(self.over)
        ]


@dataclass(frozen=True, slots=True)
class CommittedBases:
    """All bases of one class under one key."""

    own: tuple[Use, ...]  #: of a shard's proof; on the wire its commitments stand in this order
    shared: Use  #: of a record: C_v, and behind it the sums below
    sums: tuple[int, ...] = ()  #: those of a shard's commitments whose sums over shards `shared` opens, too

    @property
    def names(self) -> tuple[str, ...]:
        """Of a batch's openings, in order."""
        return (*(use.name for use in self.own), self.shared.name)

    @property
    def count(self) -> int:
        """Commitments of a shard's proof."""
        return sum(len(use.over) for use in self.own)

    def commit(self, group: Group, witnesses: Sequence[bytes], blinders: Sequence[Sequence[int]]) -> bytes:
        """A shard's commitments, one behind the other.

        Args:
            witnesses: of every use, packed.
            blinders: of every use, one a commitment.
        """
        used = zip(self.own, witnesses, blinders, strict=True)
        return b"".join(use.commit(group, witness, own) for use, witness, own in used)

    def commit_shared(self, group: Group, shared: Sequence[int], blinder: int) -> bytes:
        """C_v of what a record's shards share."""
        first = Use(self.shared.name, self.shared.entries, self.shared.over[:1])
        return first.commit(group, field.pack(shared), [blinder])

    def split(self, committed: bytes, shards: int) -> list[tuple[bytes, ...]]:
        """The commitments of every shard of a record.

        Raises:
            ProofError: another number of points than the class has.
        """
        if len(committed) != POINT_BYTES * self.count * shards:
            raise ProofError(
                f"a proof over {shards} shards has {self.count} commitments each; there are "
                f"{len(committed) // POINT_BYTES} in all"
            )
        points = split_points(committed)
        return [tuple(points[at : at + self.count]) for at in range(0, len(points), self.count)]

    def relations(
        self, records: Sequence[Sequence[tuple[bytes, ...]]], shared: Sequence[bytes]
    ) -> list[tuple[Use, list[Relation]]]:
        """What each opening of a batch is about, in order.

        Args:
            records: the commitments of every shard of every record, as :meth:`split` has them.
            shared: C_v of every record.
        """
        proofs = list(chain.from_iterable(records))
        found, at = list[tuple[Use, list[Relation]]](), 0
        for use in self.own:
            end = at + len(use.over)
            found.append((use, use.relations([points[at:end] for points in proofs])))
            at = end
        first, *others = self.shared.over
        last = [Relation(first.bases, first.entries, tuple(shared))]
        for position, one in zip(self.sums, others, strict=True):
            number = {len(own) for own in records}
            if len(number) != 1:
                raise ProofError("records of one batch have as many shards each")
            sums = tuple(b"".join(points[position] for points in own) for own in records)
            last.append(Relation(one.bases, one.entries, sums, parts=(1,) * number.pop()))
        return [*found, (self.shared, last)]
