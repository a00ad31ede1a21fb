# SPDX-License-Identifier: GPL-3.0-or-later
"""The batched proof of opening: one Schnorr proof that many commitments are what they claim.  Protocol section 2.

Commitments D_1..D_T over stated bases are folded with powers of chi, which hashes all of them, and knowledge of an
opening of sum_t chi^t D_t over exactly those bases is proven: T-special sound.  Three uses: the columns of an index
(condition 1), C_e and C_y of the same e (condition 2, two relations that share a witness), and the hints C_h
(condition 3).  A component along any other base, or the use of chi before the commitments were fixed, forges
anything; both are refused by construction, as chi and the challenge are recomputed by the verifier.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragseal.kernel import field
from ragseal.kernel.curve import IDENTITY, POINT_BYTES, Group
from ragseal.kernel.encoding import POINT, Blob, Codec, Many, Message
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import R
from ragseal.kernel.transcript import challenge

MAX_RESPONSES = 1 << 24


@dataclass(frozen=True, slots=True)
class Opening(Message):
    """Announcements (one a relation) and responses (one a witness entry)."""

    TAG: ClassVar[str] = "opening"
    CODECS: ClassVar[Sequence[Codec]] = (Many(POINT, 4), Blob(32 * MAX_RESPONSES))

    announcements: tuple[bytes, ...]
    responses: bytes


@dataclass(frozen=True, slots=True)
class Relation:
    """``commitments`` (T of them) that open over ``bases``, base j taking witness entry ``slots[j]``.

    ``slots`` is a sequence of (start, stop) ranges of the witness, concatenated; their total length is that of bases.
    """

    bases: bytes
    slots: tuple[tuple[int, int], ...]
    commitments: tuple[bytes, ...]

    def pick(self, vector: bytes) -> bytes:
        return b"".join(vector[32 * a : 32 * b] for a, b in self.slots)


def powers(chi: int, count: int) -> list[int]:
    """chi^0 .. chi^(count-1)."""
    out = [1]
    for _ in range(count - 1):
        out.append(out[-1] * chi % R)
    return out[:count]


def _digest_inputs(context: bytes, folded: Sequence[bytes], announcements: Sequence[bytes]) -> tuple[bytes, ...]:
    return (context, b"".join(folded), b"".join(announcements))


def _fold(group: Group, relations: Sequence[Relation], chi: int) -> list[bytes]:
    folded = []
    for relation in relations:
        if not relation.commitments:
            raise ProofError("a batch of no commitments proves nothing")
        weights = field.pack(powers(chi, len(relation.commitments)))
        folded.append(group.msm(b"".join(relation.commitments), weights))
    return folded


def fold_challenge(use: str, context: bytes) -> int:
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
    folded = _fold(group, relations, fold_challenge(use, context))
    announcements = [group.msm(r.bases, r.pick(nonces)) for r in relations]
    c = challenge(f"opening/{use}", *_digest_inputs(context, folded, announcements))
    return Opening(tuple(announcements), group.respond(nonces, c, witness))


def verify_opening(
    group: Group, use: str, context: bytes, relations: Sequence[Relation], size: int, proof: Opening
) -> None:
    """Check a batched opening of ``size`` witness entries.

    Raises:
        ProofError: wrong shape, a point off the curve, or an equation that does not hold.
    """
    if len(proof.announcements) != len(relations):
        raise ProofError(f"{use} opening: {len(relations)} announcements expected")
    if len(proof.responses) != 32 * size:
        raise ProofError(f"{use} opening: {size} responses expected, {len(proof.responses) // 32} given")
    group.check(b"".join(proof.announcements))
    for relation in relations:
        group.check(b"".join(relation.commitments))
    folded = _fold(group, relations, fold_challenge(use, context))
    c = challenge(f"opening/{use}", *_digest_inputs(context, folded, proof.announcements))
    closing = field.pack([(R - c) % R, R - 1])
    for relation, statement, announcement in zip(relations, folded, proof.announcements, strict=True):
        responses = relation.pick(proof.responses)
        if len(relation.bases) // POINT_BYTES != len(responses) // 32:
            raise ProofError(f"{use} opening: bases and witness slots differ in number")
        if group.msm(relation.bases + statement + announcement, responses + closing) != IDENTITY:
            raise ProofError(f"the {use} opening does not hold: a commitment is not what it claims")
