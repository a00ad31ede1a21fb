# SPDX-License-Identifier: GPL-3.0-or-later
"""BN254's scalar field: canonical bytes, digests as field elements.

A field element is a Python int in [0, r).  On the wire it is 32 bytes, big-endian, canonical: x and x + r would name
the same element and let two encodings prove one statement, so anything >= r is refused.
"""

from __future__ import annotations

from collections.abc import Iterable

from ragseal.kernel.errors import EncodingError
from ragseal.kernel.params import R

FIELD_BYTES = 32


def to_bytes(x: int) -> bytes:
    """32 bytes, big-endian.  Negative integers stand for r - |x|.

    Raises:
        EncodingError: |x| >= r.
    """
    if not -R < x < R:
        raise EncodingError("integer does not fit a field element")
    return (x + R if x < 0 else x).to_bytes(FIELD_BYTES, "big")


def from_bytes(data: bytes) -> int:
    """The element encoded by 32 big-endian bytes.

    Raises:
        EncodingError: wrong length or not below r.
    """
    if len(data) != FIELD_BYTES:
        raise EncodingError(f"a field element has {FIELD_BYTES} bytes, not {len(data)}")
    x = int.from_bytes(data, "big")
    if x >= R:
        raise EncodingError("field element is not canonical (>= r)")
    return x


def pack(values: Iterable[int]) -> bytes:
    """Concatenated 32-byte encodings."""
    return b"".join(to_bytes(v) for v in values)


def unpack(data: bytes) -> list[int]:
    """Inverse of :func:`pack`.

    Raises:
        EncodingError: not a multiple of 32 bytes, or an element >= r.
    """
    if len(data) % FIELD_BYTES:
        raise EncodingError("packed field elements are truncated")
    return [from_bytes(data[i : i + FIELD_BYTES]) for i in range(0, len(data), FIELD_BYTES)]


def digest_element(digest: bytes) -> int:
    """First 31 bytes of a SHA-256 digest as a field element (SPEC G.2)."""
    if len(digest) != 32:
        raise EncodingError("a digest has 32 bytes")
    return int.from_bytes(digest[:31], "big")


def limbs(secret: bytes) -> tuple[int, int]:
    """A 256-bit secret as two 128-bit limbs (high, low), so that it enters the field without reduction."""
    if len(secret) != 32:
        raise EncodingError("a seed has 32 bytes")
    return int.from_bytes(secret[:16], "big"), int.from_bytes(secret[16:], "big")


def signed(x: int) -> int:
    """The representative of x in (-r/2, r/2)."""
    x %= R
    return x - R if x > R // 2 else x
