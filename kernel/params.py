# SPDX-License-Identifier: GPL-3.0-or-later
"""Constants of the protocol and the shape of a circuit class.  SPEC G.11.

A *class* is what one circuit, one proving key and one noise table belong to: capacity, open places, widths of the
decompositions and the noise law.  Everything a policy may choose freely (score window, gain, budgets) is not in it.
"""

from __future__ import annotations

from dataclasses import fields
from fractions import Fraction
from typing import Any

from ragseal.kernel.errors import PolicyError

PROTOCOL_VERSION = 1

#: Order of BN254's scalar field, and of G1 and G2.
R = 21888242871839275222246405745257275088548364400416034343698204186575808495617
#: Order of BN254's base field.
P = 21888242871839275222246405745257275088696311157297823662689037894645226208583

MODULUS_BITS = 254
COIN_BITS = 8  #: bits of the coin that decides whether a slot is hidden
SCORE_UNIT = 127  #: quantisation: |e| is about 127, cosine 1 is 127^2

# Poseidon domain tags (first input, or added at 2^32 to a counter).
TAG_SEED, TAG_KEY, TAG_COARSE, TAG_FINE, TAG_PLACES = 1, 2, 3, 4, 5
TAG_COIN_SEED, TAG_COIN_KEY, TAG_COINS = 6, 7, 8
TAG_DRAWS, TAG_LIST = 9, 10

#: Completeness and privacy margins of SPEC M.7 and M.8.
COARSE_CANONICAL_BITS = 44
OVERFLOW_EXPONENT = 64
GRID_EXPONENT = 80

MAX_TENANTS = 256  #: of a window
MAX_SHARDS = 64  #: of one index, whatever its class
MAX_LISTED = 1 << 17  #: ids of one list, of all shards together
PACKED_BITS = 248  #: of ids with their flags in one field element of the commitment to T
ELEMENTS_PER_BLOCK = 16  #: outputs of one width-17 permutation that are used

# Laws of noise: the number is their scale in steps.
GEOMETRIC = "geometric-16"
GAUSSIAN = "gaussian-512"  #: the paper's
NOISE_LAWS = (GEOMETRIC, GAUSSIAN)
UNIFORM_BITS = 112  #: bits of the uniform that one noise value is drawn from


class ClassSizes:
    """What follows alike from the parameters of every kind of class."""

    __slots__ = ()

    N: int
    K: int
    m: int
    q: int
    c: int
    a: Fraction
    b: Fraction

    @property
    def L(self) -> int:
        """Bits of a slot id: the smallest L with 2^L >= N."""
        return (self.N - 1).bit_length()

    @property
    def elements(self) -> int:
        """Coarse elements: N / q."""
        return self.N // self.q

    @property
    def blocks(self) -> int:
        """Width-17 permutations a query for coarse bits."""
        return -(-self.elements // ELEMENTS_PER_BLOCK)

    def filler(self, used: int) -> int:
        """Chunks between an element's used bits and its canonical top."""
        return max(0, (MODULUS_BITS - used - COARSE_CANONICAL_BITS) // self.c)

    def top_chunks(self, position: int) -> int:
        """Chunks of an element's canonical top from a position on."""
        return -(-(MODULUS_BITS - position) // self.c)

    @property
    def coarse_filler(self) -> int:
        """Chunks between the slots' bits and the canonical top of a coarse element."""
        return self.filler(self.q * self.m)

    @property
    def coarse_top_position(self) -> int:
        return self.q * self.m + self.coarse_filler * self.c

    @property
    def coarse_top(self) -> int:
        """Chunks of the canonical top of a coarse element."""
        return self.top_chunks(self.coarse_top_position)

    @property
    def id_chunks(self) -> int:
        """Chunks of the last winner's slot id."""
        return -(-self.L // self.c)

    @property
    def returned_chunks(self) -> int:
        """Chunks of a returned slot's id with its flag below it, L + 1 bits."""
        return -(-(self.L + 1) // self.c)

    @property
    def ids_per_element(self) -> int:
        """Slot ids, each with its flag, packed into one field element of the commitment to T."""
        return PACKED_BITS // (self.L + 1)

    @property
    def packed_elements(self) -> int:
        return -(-self.K // self.ids_per_element)

    def to_mapping(self) -> dict[str, Any]:
        """The class as plain values; rationals as "p/q".  Inverse of :func:`class_values`."""
        own: Any = self
        out: dict[str, Any] = {f.name: getattr(self, f.name) for f in fields(own)}
        out["a"], out["b"] = str(self.a), str(self.b)
        return out


def class_values(kind: type, values: dict[str, Any], noun: str) -> dict[str, Any]:
    """What a kind of class is made of, out of a parameter file's table.

    Raises:
        PolicyError: an unknown or missing key, or a value of the wrong kind.
    """
    types = {f.name: f.type for f in fields(kind)}
    if set(values) != set(types):
        odd = sorted(set(values) ^ set(types))
        raise PolicyError(f"{noun}: these keys are unknown or missing: {', '.join(odd)}")
    checked: dict[str, Any] = {}
    for key, value in values.items():
        if types[key] == "Fraction":
            try:
                checked[key] = Fraction(str(value))
            except (ValueError, ZeroDivisionError):
                raise PolicyError(f"{noun}: {key} must be a rational such as 3/2") from None
        elif type(value).__name__ != types[key]:
            raise PolicyError(f"{noun}: {key} must be {'text' if types[key] == 'str' else 'an integer'}")
        else:
            checked[key] = value
    return checked
