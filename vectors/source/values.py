# SPDX-License-Identifier: GPL-3.0-or-later
"""Values of the vectors: each follows from its name by SHA-256, so no run and no machine makes others."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import fields
from functools import cache
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import bn254, field
from ragseal.kernel.encoding import Message
from ragseal.kernel.params import R
from ragseal.kernel.slot_text import Number

EXACT = 1 << 53  #: from here on integers are decimal text, which no JSON reader rounds


def stream(name: str, size: int) -> bytes:
    """``size`` bytes: SHA-256 of name and counter."""
    blocks = (hashlib.sha256(f"ragseal vectors {name} {i}".encode()).digest() for i in range(-(-size // 32)))
    return b"".join(blocks)[:size]


def digest(name: str) -> bytes:
    return stream(name, 32)


def scalar(name: str) -> int:
    """Uniform below r."""
    return int.from_bytes(stream(name, 64), "big") % R


def scalars(name: str, count: int) -> list[int]:
    return [scalar(f"{name} {i}") for i in range(count)]


def packed(name: str, count: int) -> bytes:
    return field.pack(scalars(name, count))


@cache
def point(name: str) -> bytes:
    """A point of G1 of which nobody knows a relation."""
    return bn254.encode_point(bn254.hash_point(b"ragseal vectors " + name.encode(), 0))


def points(name: str, count: int) -> bytes:
    return b"".join(point(f"{name} {i}") for i in range(count))


def signing(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(digest(f"key {name}"))


def public(name: str) -> bytes:
    return signing(name).public_key().public_bytes_raw()


def entropy(name: str) -> Callable[[int], bytes]:
    """A source of bytes that goes on where it stopped."""
    used = 0

    def take(size: int) -> bytes:
        nonlocal used
        used += 1
        return stream(f"{name} {used}", size)

    return take


# --- as JSON ---------------------------------------------------------------------------------------------------------


def number(value: int) -> int | str:
    return value if abs(value) < EXACT else str(value)


def shown(value: Any) -> Any:
    """Bytes in hexadecimal, large integers as decimal text, a message as its fields by name."""
    if isinstance(value, Message | Number):
        return {f.name: shown(getattr(value, f.name)) for f in fields(value)}  # type: ignore[arg-type]
    if isinstance(value, dict):
        return {name: shown(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [shown(item) for item in value]
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, int) and not isinstance(value, bool):
        return number(value)
    return value


def flipped(data: bytes, at: int, bit: int = 0) -> bytes:
    """One bit of byte ``at`` changed."""
    at %= len(data)
    return data[:at] + bytes([data[at] ^ 1 << bit]) + data[at + 1 :]
