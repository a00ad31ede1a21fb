# SPDX-License-Identifier: GPL-3.0-or-later
"""A sigma proof that a committed scalar is the squared norm of a committed vector.  SPEC C.5.

Statement: P = sum_j p_j H_j + u H_d and C = <p, p> S + w B.  The prover announces X = sum_j x_j H_j + v H_d and the two
cross terms T1 = 2 <x, p> S + t1 B and T0 = <x, x> S + t0 B, gets c, and answers q = x + c p, v + c u and
z = t0 + c t1 + c^2 w.  Checked are

    sum_j q_j H_j + (v + c u) H_d = X + c P          and          <q, q> S + z B = T0 + c T1 + c^2 C.

Soundness: two answers to one announcement open P and X, since nobody knows a relation of the H_j; then q = x + c p for
every c, and three answers determine the coefficients of c^2: C = <p, p> S + w B, with nothing along any other base.
Zero knowledge (perfect, for an honest challenge): q, v + c u, z, c and the point T1 are uniform and independent, since
x, v, t0 and t1 are; X and T0 follow from the two equations.  A nonce that is used twice gives p away.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragseal.kernel import field
from ragseal.kernel.bn254 import IDENTITY, POINT_BYTES, Group
from ragseal.kernel.encoding import ELEMENT, POINT, Blob, Codec, Message
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import R
from ragseal.kernel.policy import MAX_DIMENSION
from ragseal.kernel.transcript import challenge


@dataclass(frozen=True, slots=True)
class SquaredNorm(Message):
    """A proof that a committed scalar is the squared norm of a committed vector.  SPEC C.5."""

    TAG: ClassVar[str] = "squared-norm"
    CODECS: ClassVar[Sequence[Codec]] = (POINT, POINT, POINT, Blob(32 * (MAX_DIMENSION + 1)), ELEMENT)

    announcement: bytes  #: X
    linear: bytes  #: T1
    constant: bytes  #: T0
    responses: bytes  #: q_0 .. q_(d-1) and v + c u, 32 bytes each
    closing: int  #: z


@dataclass(frozen=True, slots=True)
class NormStatement:
    """P over ``generators`` (H_0 .. H_d), C over ``scalar_base`` (S) and ``blinder_base`` (B)."""

    generators: bytes
    scalar_base: bytes
    blinder_base: bytes
    vector: bytes  #: P
    square: bytes  #: C


def nonces_needed(dimension: int) -> int:
    """Fresh uniform scalars for one proof: x, v, t1, t0."""
    return dimension + 3


def _challenge(context: bytes, statement: NormStatement, announcement: bytes, linear: bytes, constant: bytes) -> int:
    points = (statement.generators, statement.scalar_base, statement.blinder_base, statement.vector, statement.square)
    return challenge("squared-norm", context, *points, announcement, linear, constant)


def _square(packed: bytes) -> int:
    return sum(x * x for x in field.unpack(packed)) % R


def prove_squared_norm(
    group: Group, context: bytes, statement: NormStatement, witness: bytes, blinder: int, nonces: bytes
) -> SquaredNorm:
    """The proof for ``witness`` = (p_0 .. p_(d-1), u), packed, and w = ``blinder``.

    ``context`` names everything that the statement depends on; ``nonces`` are :func:`nonces_needed` fresh scalars.
    """
    if len(nonces) != len(witness) + 2 * field.FIELD_BYTES or len(witness) * 2 != len(statement.generators):
        raise ProofError("witness, nonces and generators differ in number")
    x, (t1, t0) = nonces[: len(witness)], field.unpack(nonces[len(witness) :])
    p, q = field.unpack(witness)[:-1], field.unpack(x)[:-1]
    bases = statement.scalar_base + statement.blinder_base
    announcement = group.msm(statement.generators, x)
    cross = 2 * sum(a * b for a, b in zip(p, q, strict=True)) % R
    linear = group.msm(bases, field.pack([cross, t1]))
    constant = group.msm(bases, field.pack([_square(x[: -field.FIELD_BYTES]), t0]))
    c = _challenge(context, statement, announcement, linear, constant)
    closing = (t0 + c * t1 + c * c * blinder) % R
    return SquaredNorm(announcement, linear, constant, group.respond(x, c, witness), closing)


def verify_squared_norm(group: Group, context: bytes, statement: NormStatement, proof: SquaredNorm) -> None:
    """Check a proof.

    Raises:
        ProofError: wrong shape, a malformed point, or an equation that does not hold.
    """
    if len(proof.responses) * 2 != len(statement.generators):
        raise ProofError(f"squared norm: {len(statement.generators) // POINT_BYTES} responses expected")
    group.check(statement.vector + statement.square + proof.announcement + proof.linear + proof.constant)
    c = _challenge(context, statement, proof.announcement, proof.linear, proof.constant)
    closing = field.pack([(R - c) % R, R - 1])
    if group.msm(statement.generators + statement.vector + proof.announcement, proof.responses + closing) != IDENTITY:
        raise ProofError("the squared norm does not hold: the vector is not what its commitment opens to")
    points = (
        statement.scalar_base + statement.blinder_base + statement.square + proof.linear + proof.constant
    )  # fmt: skip
    square = _square(proof.responses[: -field.FIELD_BYTES])
    scalars = field.pack([square, proof.closing, (R - c * c % R) % R, (R - c) % R, R - 1])
    if group.msm(points, scalars) != IDENTITY:
        raise ProofError("the squared norm does not hold: the committed scalar is not that of the vector")
