# SPDX-License-Identifier: GPL-3.0-or-later
"""Small changes of bytes: the ones that break decoders."""

from __future__ import annotations

import random

NUMBERS = (0, 1, 2, 0x7F, 0x80, 0xFF, 0xFFFF, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 1 << 63, (1 << 64) - 1)
TEXTS = (
    b"\x00", b"\n\n", b"\xff\xfe", b'"', b"{}", b"1e999", b"NaN", b"-0", "\u2028".encode(), b"\r\n",
    b"[" * 3000, b'{"a":' * 700, b"9" * 5000,
)  # fmt: skip
MOST = 1 << 16


def mutated(data: bytes, rng: random.Random, other: bytes = b"") -> bytes:
    """One to four changes."""
    out = bytearray(data)
    for _ in range(rng.choice([1, 1, 1, 2, 4])):
        at = rng.randrange(len(out) + 1)
        match rng.randrange(9):
            case 0 if out:
                out[at % len(out)] ^= 1 << rng.randrange(8)
            case 1 if out:
                out[at % len(out)] = rng.randrange(256)
            case 2:
                del out[at:]
            case 3:
                del out[at : at + rng.choice([1, 2, 4, 32])]
            case 4:
                out[at:at] = rng.randbytes(rng.choice([1, 2, 4, 32]))
            case 5:
                width = rng.choice([1, 2, 4, 8])
                order = rng.choice(["big", "little"])
                number = rng.choice(NUMBERS) & ((1 << 8 * width) - 1)
                out[at : at + width] = number.to_bytes(width, order)  # type: ignore[arg-type]
            case 6:
                start = rng.randrange(len(out) + 1)
                out[at:at] = out[start : start + rng.choice([1, 8, 64])]
            case 7:
                out[at:at] = rng.choice(TEXTS)
            case _:
                cut = rng.randrange(len(other) + 1)
                out[at:] = other[cut:]
    return bytes(out[:MOST])
