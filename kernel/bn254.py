# SPDX-License-Identifier: GPL-3.0-or-later
"""BN254's G1 in plain Python, and the interface that faster implementations share.

:class:`Group` is what kernel code asks of a curve; :class:`PurePythonGroup` is the reference and the fallback, the
native module's adapter answers the same calls.  Points are 64 bytes x || y, big-endian; the identity is written as 64
zero bytes inside a computation and refused on every wire (SPEC G.3).
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Protocol

from ragseal.kernel import field
from ragseal.kernel.errors import EncodingError, ProofError
from ragseal.kernel.msm import Affine, add_pairs, multi_scalar, multiples
from ragseal.kernel.params import P, R

POINT_BYTES = 64
IDENTITY = bytes(POINT_BYTES)


class Group(Protocol):
    """G1 arithmetic on concatenated 64-byte points and 32-byte scalars.

    Every method raises ProofError for bytes that are no points or scalars, numbers of them that do not fit, and an
    integer that is no element of the field; a negative one stands for r - |x|.
    """

    def check(self, points: bytes) -> None:
        """Every point is on the curve, canonical and not the identity, else ProofError."""

    def msm(self, points: bytes, scalars: bytes) -> bytes:
        """sum_i scalars[i] * points[i]; may be the identity."""

    def hash_to_curve(self, domain: bytes, count: int) -> bytes:
        """``count`` generators of which nobody knows relations."""

    def combine(self, vectors: Sequence[bytes], coefficients: Sequence[int]) -> bytes:
        """sum_t coefficients[t] * vectors[t] mod r for vectors of packed scalars of one length."""

    def respond(self, nonces: bytes, challenge: int, witness: bytes) -> bytes:
        """nonces + challenge * witness mod r, element by element."""

    def fold(self, points: bytes, u: int) -> bytes:
        """u * left + right of the two halves, point by point.  The left half of an odd number is the longer one.

        The identity is allowed in and out; u is not 0.
        """


MAX_GENERATORS = 1 << 26  #: native/src/python/group.rs


def pack_scalar(x: int) -> bytes:
    """An integer as 32 bytes.  ProofError: |x| >= r."""
    try:
        return field.to_bytes(x)
    except EncodingError as error:
        raise ProofError(str(error)) from None


def unpack_scalars(packed: bytes) -> list[int]:
    """Packed scalars as integers.  ProofError: one is not below r, or cut off."""
    try:
        return field.unpack(packed)
    except EncodingError as error:
        raise ProofError(str(error)) from None


def check_count(count: int) -> None:
    """ProofError: nobody needs so many generators, or it is negative."""
    if not 0 <= count <= MAX_GENERATORS:
        raise ProofError(f"{count} generators, where 0 to {MAX_GENERATORS} can be asked for")


def decode_point(data: bytes) -> Affine:
    """Coordinates of a point, None for the identity.

    Raises:
        ProofError: wrong length, coordinate >= p, or not on y^2 = x^3 + 3.
    """
    if len(data) != POINT_BYTES:
        raise ProofError(f"a G1 point has {POINT_BYTES} bytes, not {len(data)}")
    x, y = int.from_bytes(data[:32], "big"), int.from_bytes(data[32:], "big")
    if x == 0 and y == 0:
        return None
    if x >= P or y >= P:
        raise ProofError("point coordinate is not canonical (>= p)")
    if (y * y - x * x * x - 3) % P:
        raise ProofError("point is not on the curve")
    return x, y


def encode_point(point: Affine) -> bytes:
    """64 bytes; 64 zero bytes for the identity."""
    if point is None:
        return IDENTITY
    return point[0].to_bytes(32, "big") + point[1].to_bytes(32, "big")


def split_points(points: bytes) -> list[bytes]:
    """The 64-byte encodings of a concatenation."""
    if len(points) % POINT_BYTES:
        raise ProofError("concatenated points are truncated")
    return [points[i : i + POINT_BYTES] for i in range(0, len(points), POINT_BYTES)]


class PurePythonGroup:
    """The reference implementation of :class:`Group`: right, slow, without native code."""

    def check(self, points: bytes) -> None:
        for data in split_points(points):
            if decode_point(data) is None:
                raise ProofError("the identity point is refused")

    def msm(self, points: bytes, scalars: bytes) -> bytes:
        decoded = [decode_point(d) for d in split_points(points)]
        values = unpack_scalars(scalars)
        if len(decoded) != len(values):
            raise ProofError(f"{len(decoded)} points but {len(values)} scalars")
        return encode_point(multi_scalar(decoded, values))

    def hash_to_curve(self, domain: bytes, count: int) -> bytes:
        check_count(count)
        return b"".join(encode_point(hash_point(domain, j)) for j in range(count))

    def combine(self, vectors: Sequence[bytes], coefficients: Sequence[int]) -> bytes:
        if len(vectors) != len(coefficients) or len({len(v) for v in vectors}) > 1:
            raise ProofError("linear combination of vectors of different lengths")
        total: list[int] = []
        for vector, coefficient in zip(vectors, map(_element, coefficients), strict=True):
            values = unpack_scalars(vector)
            total = total or [0] * len(values)
            total = [(t + coefficient * v) % R for t, v in zip(total, values, strict=True)]
        return field.pack(total)

    def respond(self, nonces: bytes, challenge: int, witness: bytes) -> bytes:
        masks, values, c = unpack_scalars(nonces), unpack_scalars(witness), _element(challenge)
        if len(masks) != len(values):
            raise ProofError(f"{len(masks)} nonces but {len(values)} entries of a witness")
        return field.pack((k + c * a) % R for k, a in zip(masks, values, strict=True))

    def fold(self, points: bytes, u: int) -> bytes:
        decoded, factor = [decode_point(d) for d in split_points(points)], _element(u)
        if not factor:
            raise ProofError("a vector is not folded by 0")
        half = (len(decoded) + 1) // 2
        out: list[Affine] = decoded[half:] + [None] * (2 * half - len(decoded))
        kept = [j for j in range(half) if decoded[j] is not None]
        scaled = dict(zip(kept, multiples([p for p in decoded[:half] if p is not None], factor), strict=True))
        both = [j for j in kept if out[j] is not None]
        sums = add_pairs([scaled[j] for j in both], [p for j in both if (p := out[j]) is not None])
        for j in kept:
            out[j] = scaled[j]
        for j, total in zip(both, sums, strict=True):
            out[j] = total
        return b"".join(map(encode_point, out))


def _element(x: int) -> int:
    """An integer as the element that it stands for."""
    return int.from_bytes(pack_scalar(x), "big")


def hash_point(domain: bytes, index: int) -> tuple[int, int]:
    """Generator ``index`` of a domain by try-and-increment over SHA-512; G1 has cofactor 1."""
    attempt = 0
    while True:
        digest = hashlib.sha512(domain + index.to_bytes(4, "big") + attempt.to_bytes(4, "big")).digest()
        x = int.from_bytes(digest, "big") % P
        square = (x * x * x + 3) % P
        y = pow(square, (P + 1) // 4, P)
        if y * y % P == square and y:
            if y & 1 != digest[0] >> 7:
                y = P - y
            return x, y
        attempt += 1
