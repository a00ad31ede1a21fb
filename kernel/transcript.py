# SPDX-License-Identifier: GPL-3.0-or-later
"""Hashes with a domain tag each, and Fiat-Shamir challenges.  SPEC G.2 and G.10.

``tagged_hash(tag, a, b, ...)`` is SHA-256 over ``u8 len || "ragseal/v1/" + tag`` and, for every part, its u64 length
and bytes: no concatenation is ambiguous and no digest of one purpose can serve another.
"""

from __future__ import annotations

import hashlib

from ragseal.kernel import field
from ragseal.kernel.errors import ProofError
from ragseal.kernel.params import PROTOCOL_VERSION, R

_PREFIX = f"ragseal/v{PROTOCOL_VERSION}/"


def tagged_hash(tag: str, *parts: bytes) -> bytes:
    """32-byte SHA-256 digest of tagged, length-prefixed parts."""
    label = (_PREFIX + tag).encode("ascii")
    h = hashlib.sha256(bytes([len(label)]) + label)
    for part in parts:
        h.update(len(part).to_bytes(8, "big"))
        h.update(part)
    return h.digest()


def tagged_element(tag: str, *parts: bytes) -> int:
    """A field element of 31 bytes of :func:`tagged_hash`."""
    return field.digest_element(tagged_hash(tag, *parts))


def nonzero_element(tag: str, *parts: bytes) -> int:
    """As :func:`tagged_element`; zero is refused, as a look-up challenge of 0 would be degenerate.

    Raises:
        ProofError: the digest is zero (2^-248; the statement must then be made anew).
    """
    value = tagged_element(tag, *parts)
    if value == 0:
        raise ProofError(f"challenge {tag} is zero; make a new proof")
    return value


def challenge(tag: str, *parts: bytes) -> int:
    """A challenge uniform in the scalar field: 512 bits of hash reduced mod r (bias below 2^-250)."""
    low = tagged_hash(tag, b"\x00", *parts)
    high = tagged_hash(tag, b"\x01", low)
    return int.from_bytes(high + low, "big") % R
