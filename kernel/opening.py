# SPDX-License-Identifier: GPL-3.0-or-later
"""The batched proof of opening: many commitments are what they claim, in logarithmic size.  SPEC B.7.

Commitments D_1..D_T over stated bases are combined with powers of chi, which hashes all of them, and knowledge of an
opening x of D = sum_t chi^t D_t over exactly those bases is proven: announcement A = <r, G>, challenge c, and instead
of the response z = r + c x a folding argument for <z, G> = A + c D (kernel/folding.py).  Three uses: the columns of
an index (SPEC A.3), C_e and C_y of the same e (SPEC B.7, two relations that share a witness), and the hints C_h
(SPEC B.7).  A component along any other base, or the use of a challenge before what it follows was fixed, forges
anything; both are refused by construction, as the verifier recomputes chi, c and every u.

Soundness.  The proof is (T, 2, 3, ..., 3)-special sound, with T choices of chi, two of c and three of u in each of
rho rounds, so its knowledge error is at most kappa = (T - 1)/r + 1/r + 2 rho/(2^248 - 1).  Each challenge hashes all
that came before, so after Q hash evaluations the Fiat-Shamir proof has knowledge error at most (Q + 1) kappa (Attema,
Fehr, Klooss, TCC 2022: the loss does not grow with the number of rounds).  For T <= 2^22 commitments (2^16 records of
64 shards) and rho <= 21 rounds kappa is below 2^-231: 128 bits are left against 2^103 hash evaluations.  The extractor
runs the prover T * 2 * 3^rho times, that is O(T n^1.6), and what it finds is an opening whatever the bases; only that
openings are unique rests on discrete logarithms.

Zero knowledge.  r is uniform and fresh, so z is uniform whatever x is; A follows from z, and the folding from z and
public bases: whoever chooses c and z first simulates everything.  With one r for two batches, L of both would give
commitments to half of the witness from which the blinders are gone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragseal.kernel import field, folding
from ragseal.kernel.bn254 import IDENTITY, POINT_BYTES, Group
from ragseal.kernel.encoding import ELEMENT, POINT, Codec, Many, Message
from ragseal.kernel.errors import ProofError
from ragseal.kernel.folding import MAX_RELATIONS, MAX_SIZE, SHORTEST
from ragseal.kernel.params import R
from ragseal.kernel.transcript import challenge, tagged_hash

FACTOR_BYTES = 16  #: of what an equation is multiplied by
_MAX_FOLDS = 2 * MAX_RELATIONS * (len(folding.lengths(MAX_SIZE, 1)) - 1)


@dataclass(frozen=True, slots=True)
class Opening(Message):
    """A proof of opening: announcements, L and R of every round, and the responses that are left.  SPEC B.7.3."""

    TAG: ClassVar[str] = "folded-opening"
    CODECS: ClassVar[Sequence[Codec]] = (
        Many(POINT, MAX_RELATIONS), Many(POINT, _MAX_FOLDS), Many(ELEMENT, SHORTEST * MAX_RELATIONS),
    )  # fmt: skip

    announcements: tuple[bytes, ...]  #: A_k of every relation, in order
    folds: tuple[bytes, ...]  #: of every round L of every relation, then R of every relation
    responses: tuple[int, ...]  #: what is left of z, at most 8 a relation


@dataclass(frozen=True, slots=True)
class Relation:
    """``commitments`` (T of them) that open over ``bases``, base j taking witness entry ``slots[j]``.

    ``slots`` is a sequence of (start, stop) ranges of the witness, concatenated; their total length is that of bases.
    Ranges may meet: with factors, several bases that take one entry are added up.
    """

    bases: bytes
    slots: tuple[tuple[int, int], ...]
    commitments: tuple[bytes, ...]
    factors: tuple[int, ...] = ()  #: by which the bases of each range are multiplied, not 0; none: all by 1
    parts: tuple[int, ...] = (1,)  #: a commitment is the sum of so many points, multiplied by these

    def pick(self, group: Group, vector: bytes) -> bytes:
        """The scalar of every base, for the vector's entries."""
        picked = [vector[32 * a : 32 * b] for a, b in self.slots]
        if self.factors:
            picked = [group.combine([part], [factor]) for part, factor in zip(picked, self.factors, strict=True)]
        return b"".join(picked)

    def spread(self, group: Group, size: int) -> bytes:
        """One point for every entry of a witness: what the bases that take it add up to, the identity where none does.

        With factors that is a multiplication a base; whoever verifies needs none of them (:meth:`pick`).
        """
        if not self.factors:
            return folding.spread(self.bases, self.slots, size)
        total, at = bytes(POINT_BYTES * size), 0
        for (start, stop), factor in zip(self.slots, self.factors, strict=True):
            end = at + POINT_BYTES * (stop - start)
            own = folding.spread(self.bases[at:end], ((start, stop),), size)
            total, at = group.fold(own + total, factor), end
        return total


def powers(chi: int, count: int) -> list[int]:
    """chi^0 .. chi^(count-1)."""
    out = [1]
    for _ in range(count - 1):
        out.append(out[-1] * chi % R)
    return out[:count]


def _transcript(
    use: str, context: bytes, size: int, combined: Sequence[bytes], announcements: Sequence[bytes]
) -> tuple[bytes, int]:
    """The transcript up to the announcements, and c."""
    parts = (context, size.to_bytes(4, "big"), b"".join(combined), b"".join(announcements))
    transcript = tagged_hash(f"opening/{use}/announced", *parts)
    return transcript, challenge(f"opening/{use}", transcript)


def _combined(group: Group, relations: Sequence[Relation], chi: int) -> list[bytes]:
    combined = []
    for relation in relations:
        if not relation.commitments:
            raise ProofError("a batch of no commitments proves nothing")
        weights = powers(chi, len(relation.commitments))
        scalars = field.pack([weight * part % R for weight in weights for part in relation.parts])
        combined.append(group.msm(b"".join(relation.commitments), scalars))
    return combined


def batching_challenge(use: str, context: bytes) -> int:
    """chi: hashes ``context``, which must hold every statement and commitment of the batch."""
    return challenge(f"opening/{use}/chi", context)


def prove_opening(
    group: Group, use: str, context: bytes, relations: Sequence[Relation], witness: bytes, nonces: bytes
) -> Opening:
    """Prove knowledge of the folded ``witness`` (packed scalars, already combined with powers of chi).

    ``nonces`` are as many fresh uniform scalars; a nonce used for two batches reveals combinations of the witness.
    """
    if len(witness) != len(nonces):
        raise ProofError("as many nonces as witness entries are needed")
    size = len(witness) // field.FIELD_BYTES
    combined = _combined(group, relations, batching_challenge(use, context))
    announcements = [group.msm(r.bases, r.pick(group, nonces)) for r in relations]
    transcript, c = _transcript(use, context, size, combined, announcements)
    bases = [r.spread(group, size) for r in relations]
    folds, final = folding.fold(group, use, transcript, bases, group.respond(nonces, c, witness))
    return Opening(tuple(announcements), tuple(folds), tuple(field.unpack(final)))


class Equations:
    """Equations between points that are checked together, with one multi-scalar multiplication for all over one base.

    Each is multiplied by 128 random bits.  In a group of prime order a sum over equations of which one does not hold is
    the identity for at most one value of that one's factor, so with probability 2^-128 at most, whoever made them: the
    factors are drawn once all that the equations are about was given.
    """

    def __init__(self, group: Group, random: Callable[[int], bytes]) -> None:
        """
        Args:
            random: so many bytes that whoever made the openings cannot foresee.
        """
        self._group, self._random = group, random
        self._over: dict[bytes, bytes] = {}  #: coefficients by bases
        self._points: list[bytes] = []
        self._scalars: list[int] = []

    def add(self, bases: bytes, coefficients: bytes, points: Sequence[bytes], scalars: Sequence[int]) -> None:
        """<coefficients, bases> + <scalars, points> = 0; ``points`` were checked, and are not the identity."""
        factor = 0
        while not factor:
            factor = int.from_bytes(self._random(FACTOR_BYTES), "big")
        known = self._over.get(bases)
        vectors, factors = ([coefficients], [factor]) if known is None else ([known, coefficients], [1, factor])
        self._over[bases] = self._group.combine(vectors, factors)
        self._points += points
        self._scalars += [factor * x % R for x in scalars]

    def hold(self) -> bool:
        """Whether all of them hold; none is left to check then."""
        points = b"".join((*self._over, *self._points))
        scalars = b"".join((*self._over.values(), field.pack(self._scalars)))
        self._over, self._points, self._scalars = {}, [], []
        return not points or self._group.msm(points, scalars) == IDENTITY


def verify_opening(
    group: Group,
    use: str,
    context: bytes,
    relations: Sequence[Relation],
    size: int,
    proof: Opening,
    later: Equations | None = None,
) -> None:
    """Check a batched opening of ``size`` witness entries: one multi-scalar multiplication a relation.

    Args:
        later: takes the equations, and says whether they hold, together with those of other openings.

    Raises:
        ProofError: wrong shape, a point off the curve or the identity, or an equation that does not hold.
    """
    count = len(relations)
    if len(proof.announcements) != count:
        raise ProofError(f"{use} opening: {count} announcements expected")
    group.check(b"".join((*proof.announcements, *proof.folds)))
    for relation in relations:
        group.check(b"".join(relation.commitments))
    combined = _combined(group, relations, batching_challenge(use, context))
    transcript, c = _transcript(use, context, size, combined, proof.announcements)
    final = field.pack(proof.responses)
    coefficients, weights = folding.unfold(group, use, transcript, size, count, proof.folds, final)
    closing = [-w % R for w in (weights[0], weights[0] * c, *weights[1:])]
    for k, (relation, statement) in enumerate(zip(relations, combined, strict=True)):
        own = relation.pick(group, coefficients)
        if len(relation.bases) // POINT_BYTES != len(own) // field.FIELD_BYTES:
            raise ProofError(f"{use} opening: bases and witness slots differ in number")
        points = (proof.announcements[k], statement, *proof.folds[k::count])
        if later is not None:
            later.add(relation.bases, own, points, closing)
        elif group.msm(relation.bases + b"".join(points), own + field.pack(closing)) != IDENTITY:
            raise ProofError(f"the {use} opening does not hold: a commitment is not what it claims")
