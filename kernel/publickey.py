# SPDX-License-Identifier: GPL-3.0-or-later
"""Which 32 bytes may stand as an Ed25519 public key: canonical, and not a point of small order.

Under a key of order 1, 2, 4 or 8 one signature verifies for many bodies, or for every one (RFC 8032 verification asks
only for [S]B = R + [k]A, and [k]A takes at most eight values): its owner is bound by nothing.  So such a key is refused
wherever a message names it and wherever a signature is checked.
"""

from __future__ import annotations

from ragseal.kernel.errors import EncodingError

KEY_BYTES = 32
FIELD_PRIME = 2**255 - 19
_Y8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7  # y of two points of order 8
_SMALL_ORDER_Y = frozenset({0, 1, FIELD_PRIME - 1, _Y8, FIELD_PRIME - _Y8})


def check_public_key(key: bytes) -> None:
    """Refuse what binds nobody.

    Raises:
        EncodingError: not 32 bytes, y not below 2^255 - 19, or a point of order 1, 2, 4 or 8.
    """
    if len(key) != KEY_BYTES:
        raise EncodingError(f"an Ed25519 public key has {KEY_BYTES} bytes, not {len(key)}")
    y = int.from_bytes(key, "little") & (2**255 - 1)
    if y >= FIELD_PRIME:
        raise EncodingError("the public key is not in canonical form: its y is not below 2^255 - 19")
    if y in _SMALL_ORDER_Y:
        raise EncodingError("the public key is a point of small order: one signature under it fits many texts")
