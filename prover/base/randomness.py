# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets as arguments: who needs randomness takes a :data:`Draw`, and only the edges pass the system's generator."""

from __future__ import annotations

import hashlib
import hmac
from collections.abc import Callable

from ragseal.kernel.params import R

Draw = Callable[[int], bytes]  #: n -> n uniform secret bytes; ``secrets.token_bytes`` outside tests

_WIDE = 48  #: bytes reduced to one scalar: bias below 2^-128


def scalar(draw: Draw) -> int:
    """One uniform element of the scalar field."""
    return int.from_bytes(draw(_WIDE), "big") % R


def scalars(draw: Draw, count: int) -> list[int]:
    """As many, drawn at once: each draw lets go of the interpreter lock, and may have to wait for it."""
    wide = draw(_WIDE * count)
    return [int.from_bytes(wide[i : i + _WIDE], "big") % R for i in range(0, len(wide), _WIDE)]


def packed_scalars(draw: Draw, count: int) -> bytes:
    """``count`` uniform scalars, 32 bytes each."""
    return b"".join(x.to_bytes(32, "big") for x in scalars(draw, count))


def derived_scalar(secret: bytes, *parts: bytes) -> int:
    """A scalar that only holders of ``secret`` can compute: HMAC-SHA512 over length-prefixed parts."""
    mac = hmac.new(secret, digestmod=hashlib.sha512)
    for part in parts:
        mac.update(len(part).to_bytes(8, "big") + part)
    return int.from_bytes(mac.digest(), "big") % R
