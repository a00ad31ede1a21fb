# SPDX-License-Identifier: GPL-3.0-or-later
"""Range-checked values as the chunks that a circuit looks up, and how often it looks each of them up."""

from __future__ import annotations

from collections import Counter

from ragseal.kernel.errors import AttestationError


class Chunks:
    """Splits range-checked values into chunks and counts every look-up in the range table."""

    def __init__(self, c: int) -> None:
        self.c = c
        self.seen: Counter[int] = Counter()

    def look(self, value: int) -> int:
        if not 0 <= value < 1 << self.c:
            raise AttestationError("a chunk is out of range: the policy overflows its circuit class")
        self.seen[value] += 1
        return value

    def split(self, value: int, count: int) -> list[int]:
        """All ``count`` chunks of a value in [0, 2^(c count)); AttestationError outside."""
        if not 0 <= value < 1 << (self.c * count):
            raise AttestationError("a comparison is out of range: the policy overflows its circuit class")
        return [self.look((value >> (self.c * j)) & ((1 << self.c) - 1)) for j in range(count)]

    def low(self, value: int, count: int) -> list[int]:
        """The committed chunks of a comparison: all but the highest, which the circuit derives."""
        return self.split(value, count)[:-1]

    def exact(self, value: int, bits: int) -> list[int]:
        """Chunks of a value in [0, 2^bits) exactly: a narrow highest chunk is looked up scaled as well."""
        count = -(-bits // self.c)
        chunks = self.split(value, count)
        last = bits - self.c * (count - 1)
        if last < self.c:
            self.look(chunks[-1] << (self.c - last))
        return chunks
