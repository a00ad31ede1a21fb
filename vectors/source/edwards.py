# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures that only the owner of an Ed25519 key can make: with a component of small order in R or in the key.

Under RFC 8032 a verifier may multiply its equation by the cofactor 8, which such components do not survive, or may not.
The two kinds disagree about these, and nothing is multiplied here.  SPEC G.4.2.
"""

from __future__ import annotations

import hashlib

from ragseal.kernel.publickey import FIELD_PRIME as P
from vectors.source.values import digest

ORDER = 2**252 + 27742317777372353535851937790883648493  #: of the prime subgroup
Point = tuple[int, int]  #: affine x and y

_D = -121665 * pow(121666, -1, P) % P
NEUTRAL: Point = (0, 1)


def add(a: Point, b: Point) -> Point:
    product = _D * a[0] * b[0] * a[1] * b[1] % P
    x = (a[0] * b[1] + a[1] * b[0]) * pow(1 + product, -1, P)
    y = (a[1] * b[1] + a[0] * b[0]) * pow(1 - product, -1, P)
    return x % P, y % P


def times(scalar: int, a: Point) -> Point:
    total = NEUTRAL
    for bit in bin(scalar)[2:]:
        total = add(total, total)
        total = add(total, a) if bit == "1" else total
    return total


def at(y: int, sign: int = 0) -> Point:
    """The point with this y, and x even or odd."""
    square = (y * y - 1) * pow(_D * y * y + 1, -1, P) % P
    x = pow(square, (P + 3) // 8, P)
    x = x if (x * x - square) % P == 0 else x * pow(2, (P - 1) // 4, P) % P
    assert (x * x - square) % P == 0
    return (x if x % 2 == sign else P - x, y)


BASE = at(4 * pow(5, -1, P) % P)
SMALL = at(0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7)  #: of order 8


def packed(a: Point) -> bytes:
    return (a[1] | (a[0] & 1) << 255).to_bytes(32, "little")


def signed(message: bytes, in_key: int, in_r: int | None, residue: int | None = None) -> tuple[bytes, bytes]:
    """A key and a signature with ``SMALL`` so many times in each.

    Args:
        in_r: None: so many times that the equation holds as it stands, without the cofactor.
        residue: what the challenge is to be modulo 8; the nonce is tried until it is.
    """
    secret = int.from_bytes(digest("key with a component of small order"), "little") % ORDER
    key = packed(add(times(secret, BASE), times(in_key, SMALL)))
    for attempt in range(1000):
        nonce = int.from_bytes(digest(f"nonce {attempt}"), "little") % ORDER
        for count in (in_r,) if in_r is not None else range(8):
            r = packed(add(times(nonce, BASE), times(count, SMALL)))
            challenge = int.from_bytes(hashlib.sha512(r + key + message).digest(), "little") % ORDER
            fits = in_r is not None or (count + challenge * in_key) % 8 == 0
            if fits and (residue is None or challenge % 8 == residue):
                return key, r + ((nonce + challenge * secret) % ORDER).to_bytes(32, "little")
    raise AssertionError("no nonce was found")
