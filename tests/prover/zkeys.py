# SPDX-License-Identifier: GPL-3.0-or-later
"""A .zkey taken apart and put together again."""

from __future__ import annotations

import struct


def sections(zkey: bytes) -> dict[int, bytes]:
    """A container's sections by kind, in the file's order."""
    found, at = {}, 12
    while at < len(zkey):
        kind, size = struct.unpack_from("<IQ", zkey, at)
        found[kind] = zkey[at + 12 : at + 12 + size]
        at += 12 + size
    return found


def written(zkey: bytes, parts: dict[int, bytes]) -> bytes:
    return zkey[:12] + b"".join(struct.pack("<IQ", kind, len(part)) + part for kind, part in parts.items())
