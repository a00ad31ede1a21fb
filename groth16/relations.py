# SPDX-License-Identifier: GPL-3.0-or-later
"""Verifying keys under which anybody can prove what is false: points with relations that everybody sees.  SPEC A.9.17.

A proof holds if e(A, B) = e(alpha, beta) e(vk_x, gamma) e(C, delta), vk_x = IC_0 + sum_j x_j IC_j.

In G2, b beta = c gamma + d delta, not all of b, c, d 0, solves it for any vk_x without a witness: where b is not 0,
A = vk_x + (c/b) alpha, B = gamma + delta, C = A - (d/b) alpha; else A = alpha, B = beta, C = (d/c) vk_x.

In G1, sum_j a_j IC_j = 0 takes a proof of x to x + t a for every t, where a_0 = 0; such a commitment over these bases
has many openings, too.  Where a_0 is not 0, vk_x = 0 at x_j = a_j / a_0, and (alpha, beta, 0) proves that statement;
where vk_x = t alpha, (alpha, beta + t gamma, 0) does.  So alpha and IC must be independent as far as anybody knows.

An honest key has no relation that was fixed before the key was made, but for a chance of about 2^-230: the columns of
its public inputs are independent wherever one commitment is opened over them (SPEC A.9.3, A.9.8), so a relation, or an
IC point that is the identity, is a root of a polynomial in its maker's secrets.  Two inputs of different commitments
with proportional columns would show when the first key of a circuit is made, which is read as any other.

Relations with three terms or with large coefficients are too many to look for, and what a maker knows of its own
points no reader sees: whose keys are believed is another question (SPEC A.9).
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.backends.group import default_group
from ragseal.groth16.g2 import add_pairs
from ragseal.groth16.pairing import G2_BYTES, G2Point
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import P

MOST = 16  #: the largest size of a coefficient that is looked at
_HEAD = POINT_BYTES + 3 * G2_BYTES + 4


def check_relations(key: bytes) -> None:
    """Refuse a key that everybody sees through.

    Args:
        key: the canonical form of a verifying key, whose points were checked: alpha_1 || beta_2 || gamma_2 || delta_2
            || u32be(number of IC points) || IC.

    Raises:
        ProofError: beta, gamma and delta, or two points of alpha and IC, have a relation with coefficients of at most
            MOST.
    """
    beta, gamma, delta = (_g2(key[POINT_BYTES + G2_BYTES * i :][:G2_BYTES]) for i in range(3))
    if _related(beta, gamma, delta):
        raise ProofError(
            "beta, gamma and delta of the verifying key are small multiples of each other: anybody can prove anything "
            "under it, so make or fetch another one"
        )
    if _aligned(key[:POINT_BYTES] + key[_HEAD:]):
        raise ProofError(
            "a point of the verifying key's alpha and IC is a small multiple of another one: a proof under it holds "
            "for other statements, too, so make or fetch another one"
        )


def _aligned(points: bytes) -> bool:
    """Whether a P = b Q for two of the points, 1 <= |a|, |b| <= MOST."""
    group, multiple, xs = default_group(), points, set[bytes]()
    for factor in range(1, MOST + 1):
        multiple = points if factor == 1 else group.fold(multiple + points, 1)
        xs.update(multiple[at : at + POINT_BYTES // 2] for at in range(0, len(multiple), POINT_BYTES))
    return len(xs) * POINT_BYTES < MOST * len(points)


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
