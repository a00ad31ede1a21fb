# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairings and points of G2 for those who check a ceremony: by the native module, or by plain Python without it.

Source of the plain Python, which is some hundred times slower: :mod:`ragseal.groth16.pairing`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.backends.native import available, native
from ragseal.groth16 import pairing
from ragseal.groth16.pairing import G2Point, encode_g2
from ragseal.kernel.bn254 import encode_point
from ragseal.kernel.errors import ProofError
from ragseal.kernel.msm import Affine


def cancel(pairs: Sequence[tuple[Affine, G2Point]]) -> bool:
    """Whether the product of e(P_i, Q_i) is 1; every Q_i is a point of the subgroup, a P_i may be the identity.

    Raises:
        ConfigurationError: neither the native module nor py_ecc is installed.
        ProofError: a point is not of its group; plain Python looks at none.
    """
    if not available():
        return pairing.is_one(pairing.miller(pairs))
    left = b"".join(bytes(64) if p is None else encode_point(p) for p, _ in pairs)
    try:
        return native.pairings_cancel(left, b"".join(encode_g2(q) for _, q in pairs))
    except native.NativeError as error:
        raise ProofError(str(error)) from None


def in_subgroup(point: G2Point) -> bool:
    """Whether a point of the twist has order r.  Raises ConfigurationError as :func:`cancel`."""
    if not available():
        return pairing.in_subgroup(point)
    try:
        native.g2_check(encode_g2(point))
    except native.NativeError:
        return False
    return True


def multiple(point: G2Point, factor: int) -> G2Point | None:
    """factor * Q of a point of the twist, in the subgroup or not; None is the identity.

    Args:
        factor: from 0 to below 2^256.

    Raises:
        ConfigurationError: as :func:`cancel`.
        ProofError: the point is not on the twist; plain Python does not look.
    """
    if not available():
        return pairing.combination([point], [factor])
    try:
        found = native.g2_multiply(encode_g2(point), factor.to_bytes(32, "big"))
    except native.NativeError as error:
        raise ProofError(str(error)) from None
    if not any(found):
        return None
    x1, x0, y1, y0 = (int.from_bytes(found[i : i + 32], "big") for i in range(0, len(found), 32))
    return x0, x1, y0, y1
