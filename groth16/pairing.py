# SPDX-License-Identifier: GPL-3.0-or-later
"""G2 points and pairing products of BN254 without native code, by py_ecc (the extra ``pure``).

G2 points are x.c0, x.c1, y.c0, y.c1 as integers; on the wire 128 bytes with the imaginary part first (EIP-197).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from functools import lru_cache
from typing import Any

from ragseal.kernel.errors import ProofError, UnavailableError
from ragseal.kernel.msm import Affine
from ragseal.kernel.params import P, R

G2_BYTES = 128

#: x.c0, x.c1, y.c0, y.c1 of a point that is not the identity.
G2Point = tuple[int, int, int, int]
G1_GENERATOR = (1, 2)
G2_GENERATOR: G2Point = (
    10857046999023057135944570762232829481370756359578518086990519993285655852781,
    11559732032986387107991004021392285783925812861821192530917403151452391805634,
    8495653923123431417604973247489272438418190587263600148770280649306958101930,
    4082367875863433681332203403145435568316851327593401208105741076214120093531,
)
#: Coefficient of the twist y^2 = x^3 + TWIST: 3 / (9 + i).
TWIST = (
    19485874751759354771024239261021720505790618469301721065564631296452457478373,
    266929791119991161246907387137283842545076965332900288569378510910307636690,
)


@lru_cache(maxsize=1)
def _py_ecc() -> Any:
    limit = sys.getrecursionlimit()
    try:
        from py_ecc import optimized_bn128
    except ImportError:
        raise UnavailableError(
            "checking keys, proofs and contributions without the native module needs py_ecc: "
            "`pip install 'ragseal[pure]'`, or run `make setup` for both"
        ) from None
    finally:
        sys.setrecursionlimit(limit)  # py_ecc lifts it for all of the process when it is imported
    return optimized_bn128


def on_twist(point: G2Point) -> bool:
    """y^2 = x^3 + TWIST for reduced coordinates."""
    x0, x1, y0, y1 = point
    s0, s1 = (x0 + x1) * (x0 - x1) % P, 2 * x0 * x1 % P
    c0, c1 = s0 * x0 - s1 * x1 + TWIST[0], s0 * x1 + s1 * x0 + TWIST[1]
    return ((y0 + y1) * (y0 - y1) - c0) % P == 0 and (2 * y0 * y1 - c1) % P == 0


def _lift(point: G2Point) -> Any:
    ecc = _py_ecc()
    return ecc.FQ2(point[:2]), ecc.FQ2(point[2:]), ecc.FQ2.one()


def in_subgroup(point: G2Point) -> bool:
    """Whether a point of the twist has order r."""
    ecc = _py_ecc()
    return bool(ecc.is_inf(ecc.multiply(_lift(point), R)))


def check_g2(point: G2Point) -> None:
    """On the twist, in the subgroup, not the identity (zeros).

    Raises:
        ProofError: which of them fails.
    """
    if not any(point):
        raise ProofError("the G2 identity is refused")
    if not on_twist(point):
        raise ProofError("a G2 point is not on the curve")
    if not in_subgroup(point):
        raise ProofError("a G2 point is outside the subgroup")


def decode_g2(data: bytes) -> G2Point:
    """A proper point from its 128 bytes on the wire.

    Raises:
        ProofError: wrong length, a coordinate >= p, or :func:`check_g2`.
    """
    if len(data) != G2_BYTES:
        raise ProofError(f"a G2 point has {G2_BYTES} bytes, not {len(data)}")
    x1, x0, y1, y0 = (int.from_bytes(data[i : i + 32], "big") for i in range(0, G2_BYTES, 32))
    if max(x0, x1, y0, y1) >= P:
        raise ProofError("a point coordinate is not canonical (>= p)")
    check_g2((x0, x1, y0, y1))
    return x0, x1, y0, y1


def encode_g2(point: G2Point) -> bytes:
    """Inverse of :func:`decode_g2`."""
    x0, x1, y0, y1 = point
    return b"".join(c.to_bytes(32, "big") for c in (x1, x0, y1, y0))


def miller(pairs: Sequence[tuple[Affine, G2Point]]) -> Any:
    """The product of the Miller loops of e(P, Q); pairs with the identity of G1 count as 1."""
    ecc = _py_ecc()
    product = ecc.FQ12.one()
    for point, other in pairs:
        if point is not None:
            lifted = ecc.FQ(point[0]), ecc.FQ(point[1]), ecc.FQ.one()
            product = product * ecc.pairing(_lift(other), lifted, final_exponentiate=False)
    return product


def is_one(product: Any) -> bool:
    """Whether a product of Miller loops is 1 in the target group."""
    ecc = _py_ecc()
    return bool(ecc.final_exponentiate(product) == ecc.FQ12.one())


def negated(point: Affine) -> Affine:
    """-P in G1."""
    return None if point is None else (point[0], P - point[1])


def combination(points: Sequence[G2Point | None], scalars: Sequence[int]) -> G2Point | None:
    """sum_i scalars[i] * points[i] of a few points of the subgroup; None is the identity."""
    ecc = _py_ecc()
    total = ecc.Z2
    for point, scalar in zip(points, scalars, strict=True):
        if point is not None:
            total = ecc.add(total, ecc.multiply(_lift(point), scalar))
    if ecc.is_inf(total):
        return None
    x, y = ecc.normalize(total)
    return int(x.coeffs[0]), int(x.coeffs[1]), int(y.coeffs[0]), int(y.coeffs[1])
