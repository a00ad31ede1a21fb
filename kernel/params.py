# SPDX-License-Identifier: GPL-3.0-or-later
"""Constants of the protocol and the shape of a circuit class.  SPEC G.11.

A *class* is what one circuit, one proving key and one noise table belong to: capacity, open places, widths of the
decompositions and the noise law.  Everything a policy may choose freely (score window, gain, budgets) is not in it.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from fractions import Fraction
from typing import Any

from ragseal.kernel.errors import PolicyError

PROTOCOL_VERSION = 1

#: Order of BN254's scalar field, and of G1 and G2.
R = 21888242871839275222246405745257275088548364400416034343698204186575808495617
#: Order of BN254's base field.
P = 21888242871839275222246405745257275088696311157297823662689037894645226208583

MODULUS_BITS = 254
UNIFORM_BITS = 128  #: bits of the uniform that one noise value is drawn from
COIN_BITS = 8  #: bits of the coin that decides whether a slot is hidden
SCORE_UNIT = 127  #: quantisation: |e| is about 127, cosine 1 is 127^2

# Poseidon domain tags (first input, or added at 2^32 to a counter).
TAG_SEED, TAG_KEY, TAG_COARSE, TAG_FINE, TAG_PLACES = 1, 2, 3, 4, 5
TAG_COIN_SEED, TAG_COIN_KEY, TAG_COINS = 6, 7, 8

#: Completeness and privacy margins of SPEC M.7 and M.8.
COARSE_CANONICAL_BITS = 44
PLACE_CANONICAL_BITS = 72
OVERFLOW_EXPONENT = 64
GRID_EXPONENT = 80

MAX_SHARDS = 64  #: of one index, whatever its class
PACKED_BITS = 248  #: of ids with their flags in one field element of the commitment to T
ELEMENTS_PER_BLOCK = 16  #: outputs of one width-17 permutation that are used

ONE_SIDED = "one-sided"  #: the law without negative values
SYMMETRIC_LAWS = ("gaussian", "geometric")
LAWS = (*SYMMETRIC_LAWS, ONE_SIDED)

# Laws of the classes that give fine bits by rank: coarser steps and fewer bits, since neither needs more there.
RANKED_GEOMETRIC = "geometric-16"
RANKED_ONE_SIDED = "one-sided-16"
RANKED_GAUSSIAN = "gaussian-128"
RANKED_LAWS = (RANKED_GEOMETRIC, RANKED_ONE_SIDED, RANKED_GAUSSIAN)
RANKED_UNIFORM_BITS = 112  #: bits of the uniform that one of their noise values is drawn from


class ClassSizes:
    """What follows alike from the parameters of either kind of class."""

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


@dataclass(frozen=True, slots=True)
class CircuitClass(ClassSizes):
    """One circuit class (SPEC M.9).  ``a`` and ``b`` are the free rationals of the overflow bound."""

    name: str
    law: str  #: one of LAWS
    N: int  #: capacity in slots, a multiple of q
    K: int  #: slots returned
    R: int  #: open places
    m: int  #: coarse bits a slot
    q: int  #: slots a coarse element
    c: int  #: bits of a range-checked chunk
    s: int  #: dither bits
    a: Fraction
    b: Fraction

    def __post_init__(self) -> None:
        def need(ok: bool, why: str) -> None:
            if not ok:
                raise PolicyError(f"circuit class {self.name!r}: {why}")

        need(self.law in LAWS, f"law must be one of {LAWS}, not {self.law!r}")
        need(1 <= self.K < self.R <= self.N, "needs 1 <= K < R <= N")
        need(self.N < 1 << 31, "capacity must be below 2^31 slots")
        need(self.q >= 1 and self.q * self.m <= 208, "q * m must not exceed 208 bits of a field element")
        need(self.N % self.q == 0, f"capacity {self.N} must be a multiple of q = {self.q}")
        need(2 <= self.m <= 20 and 4 <= self.c <= 18 and 1 <= self.s <= self.c, "needs 2<=m<=20, 4<=c<=18, 1<=s<=c")
        need(self.a > 1 and 0 < self.b < 1, "overflow bound needs a > 1 and 0 < b < 1")
        need(self.L + self.m + 2 * self.c < 200, "look-up keys would not fit a field element")

    @property
    def step_bits(self) -> int:
        """A step of the noise table is 2^step_bits units of a score."""
        return self.s

    def window_of(self, width: int) -> int:
        """H as a statement has it, for a score window of ``width`` units: the same."""
        return width

    def shift_of(self, width: int) -> int:
        """Delta_b: the worst shift of one query in table steps, rounded up for the dither."""
        return -(-width >> self.s)

    def widest(self, shift: int) -> int:
        """The largest width whose shift is at most ``shift`` table steps."""
        return shift << self.s

    @property
    def fine_bits(self) -> int:
        return UNIFORM_BITS - self.m

    @property
    def fine_chunks(self) -> int:
        return -(-self.fine_bits // self.c)

    @property
    def fine_last_bits(self) -> int:
        """Width of the highest fine chunk."""
        return self.fine_bits - self.c * (self.fine_chunks - 1)

    @property
    def place_filler(self) -> int:
        return max(0, (MODULUS_BITS - self.fine_bits - self.s - PLACE_CANONICAL_BITS) // self.c)

    @property
    def place_top_position(self) -> int:
        return self.fine_bits + self.s + self.place_filler * self.c

    @property
    def place_top(self) -> int:
        return -(-(MODULUS_BITS - self.place_top_position) // self.c)

    @property
    def uniform_chunks(self) -> int:
        return -(-UNIFORM_BITS // self.c)

    @property
    def compare_chunks(self) -> int:
        """Chunks of the comparison v 2^L - i against v* 2^L - i*."""
        return -(-(2 * self.c + 1 + self.L) // self.c)

    @property
    def count_chunks(self) -> int:
        return -(-self.m // self.c)


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


def class_from_mapping(values: dict[str, Any]) -> CircuitClass:
    """Build a class with a dither.  PolicyError as :func:`class_values`, or contradictory parameters."""
    return CircuitClass(**class_values(CircuitClass, values, "circuit class"))
