# SPDX-License-Identifier: GPL-3.0-or-later
"""SPEC G.1 to G.3 a second time, from their text and none of the package's code: bytes, hashes, challenges, points.

Prover and verifier share the functions that hash and commit, so a part that one of them forgets is forgotten by both,
and everything still agrees.  What tests compare such a function with is computed here: SHA-256 by hashlib, points by
py_ecc, Poseidon with the constants of its paper's generator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import fields
from functools import cache
from typing import Any

from py_ecc import optimized_bn128 as ecc

#: Order of BN254, and of its base field (EIP-196).
ORDER = 21888242871839275222246405745257275088548364400416034343698204186575808495617
PRIME = 21888242871839275222246405745257275088696311157297823662689037894645226208583


def h(tag: str, *parts: bytes) -> bytes:
    """G.2: SHA-256 over the tag behind its length of one byte, and every part behind its length of eight."""
    label = b"ragseal/v1/" + tag.encode()
    data = len(label).to_bytes(1, "big") + label
    for part in parts:
        data += len(part).to_bytes(8, "big") + part
    return hashlib.sha256(data).digest()


def element(tag: str, *parts: bytes) -> int:
    """G.2: the first 31 bytes of a digest."""
    return int(h(tag, *parts).hex()[:62], 16)


def wide(tag: str, *parts: bytes) -> int:
    """A challenge of the whole field: 512 bits of hash, reduced."""
    low = h(tag, b"\x00", *parts)
    return int((h(tag, b"\x01", low) + low).hex(), 16) % ORDER


def be(value: int, width: int = 32) -> bytes:
    """Big-endian bytes; a negative number stands for its residue."""
    return (value % ORDER if width == 32 else value).to_bytes(width, "big")


# --- canonical bytes -------------------------------------------------------------------------------------------------


def canonical(message: Any) -> bytes:
    """G.1: tag, version 1, then every field of the dataclass in its order, each by its codec's name."""
    tag = message.TAG.encode()
    every = list(zip(fields(message), message.CODECS, strict=True))
    first, later = every[: len(every) - message.LATER], every[len(every) - message.LATER :]
    newer = any(getattr(message, field.name) for field, _ in later)
    out = bytes([len(tag)]) + tag + (b"\x00\x02" if newer else b"\x00\x01")
    for field, codec in first + (later if newer else []):
        out += _field(codec, getattr(message, field.name))
    return out


def _field(codec: Any, value: Any) -> bytes:
    kind = type(codec).__name__
    if kind == "Int":
        return int(value).to_bytes(codec.width, "big", signed=value < 0)
    if kind == "Flag":
        return b"\x01" if value else b"\x00"
    if kind == "PublicKey":
        assert len(value) == 32
        return bytes(value)
    if kind == "Fixed":
        assert len(value) == codec.size
        return bytes(value)
    if kind == "Blob":
        return len(value).to_bytes(4, "big") + value
    if kind == "MetadataValue":
        return _metadata_value(value)
    if kind in ("Text", "Characters"):
        return _field_of_text(value)
    if kind == "Element":
        return be(value)
    if kind == "Points":
        assert len(value) % 64 == 0
        return (len(value) // 64).to_bytes(1 if codec.limit < 256 else 2, "big") + value
    if kind == "Elements":
        return (bytes([0x80 + len(value)]) if len(value) > 1 else b"") + b"".join(map(be, value))
    if kind == "Many":
        return len(value).to_bytes(4, "big") + b"".join(_field(codec.item, one) for one in value)
    assert kind == "Nested", f"a codec that this test does not know: {kind}"
    return canonical(value)


def _metadata_value(value: Any) -> bytes:
    """A byte for what it is: text, boolean, number."""
    if isinstance(value, str):
        return b"\x00" + _field_of_text(value)
    return (b"\x01\x01" if value else b"\x01\x00") if isinstance(value, bool) else b"\x02" + bytes(value.bits)


def _field_of_text(value: str) -> bytes:
    data = value.encode("utf-8")
    return len(data).to_bytes(4, "big") + data


# --- points ----------------------------------------------------------------------------------------------------------

Point = Any  #: projective, as py_ecc has them


def point(data: bytes) -> Point:
    """64 bytes x || y."""
    x, y = int.from_bytes(data[:32], "big"), int.from_bytes(data[32:], "big")
    found = (ecc.FQ(x), ecc.FQ(y), ecc.FQ.one()) if x or y else ecc.Z1
    assert ecc.is_on_curve(found, ecc.b)
    return found


def points(data: bytes) -> list[Point]:
    return [point(data[at : at + 64]) for at in range(0, len(data), 64)]


def packed(value: Point) -> bytes:
    if ecc.is_inf(value):
        return bytes(64)
    x, y = ecc.normalize(value)
    return int(x).to_bytes(32, "big") + int(y).to_bytes(32, "big")


def total(bases: bytes, scalars: Sequence[int]) -> bytes:
    """sum_i scalars[i] bases[i]."""
    out = ecc.Z1
    for base, scalar in zip(points(bases), scalars, strict=True):
        out = ecc.add(out, ecc.multiply(base, scalar % ORDER))
    return packed(out)


def generator(domain: bytes, index: int) -> bytes:
    """Try and increment over SHA-512: x is the digest, y the root whose last bit is the digest's first."""
    for attempt in range(256):
        digest = hashlib.sha512(domain + index.to_bytes(4, "big") + attempt.to_bytes(4, "big")).digest()
        x = int(digest.hex(), 16) % PRIME
        y = pow(x**3 + 3, (PRIME + 1) // 4, PRIME)  # p = 3 mod 4
        if y and (y * y - x**3 - 3) % PRIME == 0:
            return be_coordinate(x) + be_coordinate(y if y % 2 == digest[0] >> 7 else PRIME - y)
    raise AssertionError("no generator in 256 attempts")


def be_coordinate(value: int) -> bytes:
    return value.to_bytes(32, "big")


# --- sums of squares -------------------------------------------------------------------------------------------------


def two_squares(total: int, hint: int) -> tuple[int, int]:
    """a and b with a^2 + b^2 = total in the field: (a + ib)(a - ib) = total with i^2 = -1, a + ib = ``hint``."""
    i = pow(5, (ORDER - 1) // 4, ORDER)
    assert i * i % ORDER == ORDER - 1
    other = total * pow(hint, -1, ORDER)
    half = pow(2, -1, ORDER)
    return (hint + other) * half % ORDER, (hint - other) * half * pow(i, -1, ORDER) % ORDER


# --- trees -----------------------------------------------------------------------------------------------------------


def root(leaves: Sequence[bytes]) -> bytes:
    """RFC 6962, section 2.1, by its recursion."""
    if not leaves:
        return hashlib.sha256(b"").digest()
    if len(leaves) == 1:
        return hashlib.sha256(b"\x00" + leaves[0]).digest()
    k = 1
    while 2 * k < len(leaves):
        k *= 2
    return hashlib.sha256(b"\x01" + root(leaves[:k]) + root(leaves[k:])).digest()


# --- Poseidon --------------------------------------------------------------------------------------------------------

#: Partial rounds of circomlib's poseidon.circom, by number of inputs (N_ROUNDS_P).
PARTIAL = [56, 57, 56, 60, 60, 63, 64, 63, 60, 66, 60, 65, 70, 60, 64, 68]


class Grain:
    """The LFSR of the Poseidon paper's reference script, a list of 80 bits that is shifted."""

    def __init__(self, width: int, partial: int) -> None:
        self.bits = [int(c) for c in f"{1:02b}{0:04b}{254:012b}{width:012b}{8:010b}{partial:010b}{'1' * 30}"]
        for _ in range(160):
            self._step()

    def _step(self) -> int:
        b = self.bits
        new = b[62] ^ b[51] ^ b[38] ^ b[23] ^ b[13] ^ b[0]
        b.pop(0)
        b.append(new)
        return new

    def number(self) -> int:
        """254 bits; of each pair the second counts where the first is 1."""
        out = 0
        for _ in range(254):
            while not self._step():
                self._step()
            out = 2 * out + self._step()
        return out


@cache
def parameters(width: int) -> tuple[list[int], list[list[int]]]:
    """Round constants, in order, and the matrix."""
    grain = Grain(width, PARTIAL[width - 2])
    constants: list[int] = []
    while len(constants) < width * (8 + PARTIAL[width - 2]):
        if (number := grain.number()) < ORDER:
            constants.append(number)
    draws = [grain.number() % ORDER for _ in range(2 * width)]
    assert len(set(draws)) == 2 * width
    return constants, [[pow(x + y, -1, ORDER) for y in draws[width:]] for x in draws[:width]]


def permuted(state: Sequence[int]) -> list[int]:
    """Poseidon's permutation."""
    width, s = len(state), list(state)
    constants, matrix = parameters(width)
    rounds = 8 + PARTIAL[width - 2]
    for number in range(rounds):
        s = [x + c for x, c in zip(s, constants[number * width :], strict=False)]
        full = number < 4 or number >= rounds - 4
        s = [x**5 % ORDER if full or not i else x for i, x in enumerate(s)]
        s = [sum(m * x for m, x in zip(row, s, strict=True)) % ORDER for row in matrix]
    return s


def poseidon(*inputs: int) -> int:
    """As circomlib's template: a zero before the inputs, the first element after."""
    return permuted([0, *inputs])[0]
