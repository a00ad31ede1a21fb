# SPDX-License-Identifier: GPL-3.0-or-later
"""Poseidon over BN254's scalar field with circomlib's parameters, widths 2 to 17.

Constants come from the Grain LFSR of the Poseidon paper (appendix F: prime field, x^5, 254 bits, 8 full rounds), the
matrix from its Cauchy construction; tests compare both with circomlib's tables.  This is the readable reference: the
native module computes the same permutation faster.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from ragseal.kernel import field
from ragseal.kernel.errors import EncodingError
from ragseal.kernel.params import R

FULL_ROUNDS = 8
PARTIAL_ROUNDS = (56, 57, 56, 60, 60, 63, 64, 63, 60, 66, 60, 65, 70, 60, 64, 68)  #: for width t = 2, 3, ..., 17


def _grain(width: int, partial: int) -> Iterator[int]:
    """Bits of the self-shrinking Grain LFSR, seeded with the instance's parameters."""
    seed = [0, 1] + [0] * 4
    for value, bits in ((254, 12), (width, 12), (FULL_ROUNDS, 10), (partial, 10)):
        seed += [(value >> (bits - 1 - i)) & 1 for i in range(bits)]
    # The oldest bit is bit 0.  A new bit depends on none of the 17 before it, so that 16 are computed at once.
    state = sum(bit << i for i, bit in enumerate(seed + [1] * 30))

    def step() -> int:
        nonlocal state
        new = (state ^ state >> 13 ^ state >> 23 ^ state >> 38 ^ state >> 51 ^ state >> 62) & 0xFFFF
        state = state >> 16 | new << 64
        return new

    for _ in range(160 // 16):
        step()
    while True:
        new = step()
        for i in range(0, 16, 2):  # of each pair the first bit says whether the second is taken
            if new >> i & 1:
                yield new >> i + 1 & 1


@cache
def constants(width: int) -> tuple[tuple[int, ...], tuple[tuple[int, ...], ...]]:
    """Round constants (width * rounds) and the MDS matrix (width x width) of one width."""
    if not 2 <= width <= 17:
        raise ValueError("Poseidon has widths 2 to 17 here")
    partial = PARTIAL_ROUNDS[width - 2]
    bits = _grain(width, partial)

    def draw() -> int:
        value = 0
        for _ in range(254):
            value = value << 1 | next(bits)
        return value

    rounds: list[int] = []
    while len(rounds) < width * (FULL_ROUNDS + partial):
        value = draw()
        if value < R:
            rounds.append(value)
    # The matrix takes elements mod r without rejection and starts over on a collision (none occurs at these widths).
    while True:
        points = [draw() % R for _ in range(2 * width)]
        if len(set(points)) == 2 * width:
            break
    xs, ys = points[:width], points[width:]
    matrix = tuple(tuple(pow(x + y, R - 2, R) for y in ys) for x in xs)
    return tuple(rounds), matrix


def permute(state: Sequence[int]) -> list[int]:
    """The permutation on ``len(state)`` elements: x -> M * sbox(x + C), the S-box on one element in partial rounds."""
    width = len(state)
    round_constants, matrix = constants(width)
    partial = PARTIAL_ROUNDS[width - 2]
    half = FULL_ROUNDS // 2
    s = [x % R for x in state]
    for number in range(FULL_ROUNDS + partial):
        offset = number * width
        s = [(x + round_constants[offset + i]) % R for i, x in enumerate(s)]
        if number < half or number >= half + partial:
            s = [pow(x, 5, R) for x in s]
        else:
            s[0] = pow(s[0], 5, R)
        s = [sum(a * x for a, x in zip(row, s, strict=True)) % R for row in matrix]
    return s


def poseidon(*inputs: int) -> int:
    """circomlib's ``Poseidon(n)``: element 0 of the permutation of [0, inputs...].

    Raises:
        EncodingError: no input or more than 16, or one with |x| >= r; a negative one stands for r - |x|.
    """
    if not 1 <= len(inputs) <= 16:
        raise EncodingError(f"Poseidon takes 1 to 16 inputs here, not {len(inputs)}")
    return permute([0, *(field.from_bytes(field.to_bytes(x)) for x in inputs)])[0]
