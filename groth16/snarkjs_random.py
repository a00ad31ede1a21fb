# SPDX-License-Identifier: GPL-3.0-or-later
"""How snarkjs draws numbers and points from a seed: a contribution's challenge, and all of a beacon.  SPEC A.9.13.

Source: ffjavascript's ``ChaCha`` (D. J. Bernstein, 20 rounds, counter from zero, no nonce) and ``fromRng`` of its
fields and curves.  A drawn field element is taken as it lies in memory there: times 2^-256.
"""

from __future__ import annotations

import hashlib
import struct

from ragseal.groth16 import fast_pairing
from ragseal.groth16.pairing import TWIST, G2Point
from ragseal.kernel.errors import ProofError
from ragseal.kernel.msm import Point
from ragseal.kernel.params import P, R

SEED_BYTES = 32
#: Of G2: what a point of the twist is multiplied with to lie in the subgroup.
COFACTOR = 0x30644E72E131A029B85045B68181585E06CEECDA572A2489345F2299C0F9FA8D
#: 2^iterations hashes make a beacon's seed: at least 2^10, says snarkjs, and no more than a verifier waits for.
MIN_ITERATIONS, MAX_ITERATIONS = 10, 26

_CONSTANTS = (0x61707865, 0x3320646E, 0x79622D32, 0x6B206574)
_MASK = (1 << 254) - 1
_WORD = 0xFFFFFFFF
_QUARTERS = (
    (0, 4, 8, 12), (1, 5, 9, 13), (2, 6, 10, 14), (3, 7, 11, 15),
    (0, 5, 10, 15), (1, 6, 11, 12), (2, 7, 8, 13), (3, 4, 9, 14),
)  # fmt: skip


class Drawn:
    """The numbers and points that snarkjs draws from a seed of 32 bytes, in this order."""

    def __init__(self, seed: bytes) -> None:
        if len(seed) != SEED_BYTES:
            raise ProofError(f"a seed has {SEED_BYTES} bytes, not {len(seed)}")
        self._seed = struct.unpack(">8I", seed)
        self._block = 0
        self._words: list[int] = []

    def _word(self) -> int:
        if not self._words:
            start = [*_CONSTANTS, *self._seed, self._block & _WORD, self._block >> 32, 0, 0]
            state = list(start)
            for _ in range(10):
                for a, b, c, d in _QUARTERS:
                    _quarter(state, a, b, c, d)
            self._words = [(x + y) & _WORD for x, y in zip(state, start, strict=True)][::-1]
            self._block += 1
        return self._words.pop()

    def _number(self, modulus: int) -> int:
        while True:
            value = 0
            for at in range(0, 256, 64):
                high = self._word()
                value |= (high << 32 | self._word()) << at
            value &= _MASK
            if value < modulus:
                return value * pow(1 << 256, -1, modulus) % modulus

    def scalar(self) -> int:
        """A number below r."""
        return self._number(R)

    def g1(self) -> Point:
        """A point of G1."""
        while True:
            x, greater = self._number(P), self._word() & 1
            y = _root(x * x * x + 3)
            if y is not None:
                return x, (y if _negative(y) == bool(greater) else P - y)

    def g2(self) -> G2Point:
        """A point of G2's subgroup."""
        while True:
            x0, x1, greater = self._number(P), self._number(P), self._word() & 1
            square = (x0 * x0 - x1 * x1) % P, 2 * x0 * x1 % P
            cube = (square[0] * x0 - square[1] * x1 + TWIST[0]) % P, (square[0] * x1 + square[1] * x0 + TWIST[1]) % P
            found = _root2(*cube)
            if found is None:
                continue
            y0, y1 = found
            if _negative(y1 or y0) != bool(greater):
                y0, y1 = -y0 % P, -y1 % P
            point = fast_pairing.multiple((x0, x1, y0, y1), COFACTOR)
            if point is None:
                raise ProofError("the seed gives the identity")  # nobody finds such a seed
            return point


def _quarter(state: list[int], a: int, b: int, c: int, d: int) -> None:
    for one, other, third, turn in ((a, b, d, 16), (c, d, b, 12), (a, b, d, 8), (c, d, b, 7)):
        state[one] = (state[one] + state[other]) & _WORD
        mixed = state[third] ^ state[one]
        state[third] = (mixed << turn | mixed >> (32 - turn)) & _WORD


def _negative(value: int) -> bool:
    return value > P // 2


def _root(value: int) -> int | None:
    """A square root modulo p (p = 3 mod 4)."""
    root = pow(value, (P + 1) // 4, P)
    return root if root * root % P == value % P else None


def _root2(a: int, b: int) -> tuple[int, int] | None:
    """A square root of a + b i, i^2 = -1, by that of its norm."""
    norm = _root(a * a + b * b)
    if norm is None:
        return None
    if b == 0:
        real = _root(a)
        other = _root(-a)
        return (real, 0) if real is not None else (0, other) if other is not None else None
    half = pow(2, -1, P)
    for sign in (norm, -norm):
        real = _root((a + sign) * half)
        if real:
            return real, b * pow(2 * real, -1, P) % P
    return None


def challenge_point(transcript: bytes) -> G2Point:
    """The point of G2 that a contribution answers for: drawn from the first 32 bytes of its transcript."""
    return Drawn(transcript[:SEED_BYTES]).g2()


def beacon_draw(beacon: bytes, iterations: int) -> tuple[int, Point]:
    """A beacon's delta and its point of G1: what 2^iterations times SHA-256 of the beacon is the seed of.

    Raises:
        ProofError: so many iterations as nobody here waits for, or fewer than snarkjs has.
    """
    if not MIN_ITERATIONS <= iterations <= MAX_ITERATIONS:
        raise ProofError(
            f"a beacon of 2^{iterations} iterations: between 2^{MIN_ITERATIONS} and 2^{MAX_ITERATIONS} are checked here"
        )
    for _ in range(1 << iterations):
        beacon = hashlib.sha256(beacon).digest()
    drawn = Drawn(beacon)
    return drawn.scalar(), drawn.g1()
