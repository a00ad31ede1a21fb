# SPDX-License-Identifier: GPL-3.0-or-later
"""Verifying keys under which anybody can prove anything: points that are small multiples of each other.

A proof holds if e(A, B) = e(alpha, beta) e(vk_x, gamma) e(C, delta).  Whoever knows b, c, d, not all 0, with
b beta = c gamma + d delta solves it for any vk_x without a witness: where b is not 0, A = vk_x + (c/b) alpha,
B = gamma + delta, C = A - (d/b) alpha; else A = alpha, B = beta, C = (d/c) vk_x.  In G1, two IC points that are equal
or opposite give two statements one vk_x, and alpha among them gives one statement a product of two points.

A key whose maker threw its secrets away has none of these but for a chance of 2^-230.  Those that a maker keeps to
itself no check can see: whose keys are believed is another question (SPEC A.9).
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.groth16.g2 import add_pairs
from ragseal.groth16.pairing import G2_BYTES, G2Point
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import P

MOST = 16  #: the largest |b|, |c| and |d| that are looked at
_HEAD = POINT_BYTES + 3 * G2_BYTES + 4


def check_relations(key: bytes) -> None:
    """Refuse a key that everybody sees through.

    Args:
        key: the canonical form of a verifying key, whose points were checked: alpha_1 || beta_2 || gamma_2 || delta_2
            || u32be(number of IC points) || IC.

    Raises:
        ProofError: beta, gamma and delta have a relation with coefficients of at most MOST, or two points of alpha and
            IC are equal or opposite.
    """
    beta, gamma, delta = (_g2(key[POINT_BYTES + G2_BYTES * i :][:G2_BYTES]) for i in range(3))
    if _related(beta, gamma, delta):
        raise ProofError(
            "beta, gamma and delta of the verifying key are small multiples of each other: anybody can prove anything "
            "under it, so make or fetch another one"
        )
    points = key[:POINT_BYTES] + key[_HEAD:]
    xs = {points[at : at + POINT_BYTES // 2] for at in range(0, len(points), POINT_BYTES)}
    if len(xs) * POINT_BYTES != len(points):
        raise ProofError(
            "two points of the verifying key's alpha and IC are equal or opposite: a proof under it holds for other "
            "statements, too, so make or fetch another one"
        )


def _g2(data: bytes) -> G2Point:
    x1, x0, y1, y0 = (int.from_bytes(data[i : i + 32], "big") for i in range(0, G2_BYTES, 32))
    return x0, x1, y0, y1


def _related(beta: G2Point, gamma: G2Point, delta: G2Point) -> bool:
    """Whether some b beta + c gamma is d delta, or the identity."""
    seen = {point[:2] for point in _multiples(delta)}
    of_beta, of_gamma = _multiples(beta), _multiples(gamma)
    pairs = [(b, c) for b in of_beta for one in of_gamma for c in (one, _opposite(one))]
    sums = add_pairs([b for b, _ in pairs], [c for _, c in pairs])
    return any(point is None or point[:2] in seen for point in (*sums, *of_beta, *of_gamma))


def _multiples(point: G2Point) -> Sequence[G2Point]:
    """point, 2 point, ..., MOST point."""
    found = [point]
    while len(found) < MOST:
        found += [one for one in add_pairs(found[-1:], [point]) if one is not None]
    return found


def _opposite(point: G2Point) -> G2Point:
    x0, x1, y0, y1 = point
    return x0, x1, -y0 % P, -y1 % P
