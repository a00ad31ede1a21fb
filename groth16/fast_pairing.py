# SPDX-License-Identifier: GPL-3.0-or-later
"""Pairings and points of G2 for those who check a ceremony: by the native module, or by plain Python without it.

Source of the plain Python, which is some hundred times slower: :mod:`ragseal.groth16.pairing`.
"""

from __future__ import annotations

from collections.abc import Sequence

from ragseal.backends.native import available, native, native_errors
from ragseal.groth16 import pairing
from ragseal.groth16.pairing import G2Point, encode_g2
from ragseal.kernel.bn254 import decode_point, encode_point
from ragseal.kernel.errors import ProofError
from ragseal.kernel.msm import Affine


def cancel(pairs: Sequence[tuple[Affine, G2Point]]) -> bool:
    """Whether the product of e(P_i, Q_i) is 1; every Q_i is a point of the subgroup, a P_i may be the identity.

    Raises:
        ConfigurationError: neither the native module nor py_ecc is installed.
        ProofError: a point is not of its group.
    """
    left = b"".join(map(encode_point, (p for p, _ in pairs)))
    if not available():
        for at, (_, q) in enumerate(pairs):
            decode_point(left[64 * at : 64 * at + 64])
            pairing.check_g2(q)
        return pairing.is_one(pairing.miller(pairs))
    try:
        return native.pairings_cancel(left, b"".join(encode_g2(q) for _, q in pairs))
    except native.NativeError as error:
        raise ProofError(str(error)) from None


def in_subgroup(point: G2Point) -> bool:
    """Whether this is a point of the twist of order r.  Raises ConfigurationError as :func:`cancel`."""
    try:
        if available():
            with native_errors():
                native.g2_check(encode_g2(point))
        else:
            pairing.check_g2(point)
    except ProofError:
        return False
    return True


def multiple(point: G2Point, factor: int) -> G2Point | None:
    """factor * Q of a point of the twist, in the subgroup or not; None is the identity.

    Args:
        factor: from 0 to below 2^256.

    Raises:
        ConfigurationError: as :func:`cancel`.
        ProofError: the point is not on the twist, or the factor is not such a number.
    """
    if not 0 <= factor < 1 << 256:
        raise ProofError("a factor has 256 bits at most, and no sign")
    if not available():
        if not any(point) or not pairing.on_twist(point):
            raise ProofError("a G2 point is not on the curve")
        return pairing.combination([point], [factor])
    try:
        found = native.g2_multiply(encode_g2(point), factor.to_bytes(32, "big"))
    except native.NativeError as error:
        raise ProofError(str(error)) from None
    if not any(found):
        return None
    x1, x0, y1, y0 = (int.from_bytes(found[i : i + 32], "big") for i in range(0, len(found), 32))
    return x0, x1, y0, y1
