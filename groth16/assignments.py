# SPDX-License-Identifier: GPL-3.0-or-later
"""All inputs of a circuit, as its prover puts them in: of an attestation, a block of an estimate, a thinning.

Wire order of an attestation: clear, blinder, scores, hints, what stands behind them, what shards share, then the
private seed limbs and salt.  Of a thinning: clear, blinder, three wires a slot, hints, then the private seed limbs.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from ragseal.backends.mechanism import hidden_wires
from ragseal.backends.poseidon import permute
from ragseal.circuits.circuit import layout_of
from ragseal.kernel import field
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.coin import COINS_PER_ELEMENT, TOP_POSITION, coin_elements, unpack_coins
from ragseal.kernel.estimate_class import RANGE_BITS, EstimateClass, near_unit, quadratic_form, side
from ragseal.kernel.params import COIN_BITS, R
from ragseal.kernel.thinning_class import CLEAR_NAMES as THINNING_CLEAR
from ragseal.kernel.thinning_class import HINT_NAMES, PAIRS, SLOT_NAMES, TOP_CHUNKS, TOPS, ThinningClass


@dataclass(frozen=True, slots=True)
class Assignment:
    """All inputs of an attestation's circuit."""

    clear: tuple[int, ...]  #: with alpha and beta as the last two
    blind: int
    hidden: bytes  #: packed: scores, hints, what stands behind them, what all shards share
    seed: tuple[int, int]
    t_salt: int

    def __repr__(self) -> str:
        return "Assignment(...)"

    def packed(self) -> bytes:
        """Wire order, 32 bytes an input."""
        return field.pack((*self.clear, self.blind)) + self.hidden + field.pack((*self.seed, self.t_salt))

    def named(self, cls: AttestationClass) -> dict[str, Any]:
        """As circom's input file wants it: decimal strings by signal name."""
        layout, values = layout_of(cls), [str(v) for v in field.unpack(self.packed())]
        names = (*layout.names, "s_hi", "s_lo", "t_salt")
        shapes = (*layout.shapes, *[(1,)] * 3)
        out, at = dict[str, Any](), 0
        for name, shape in zip(names, shapes, strict=True):
            part: Any = values[at : at + math.prod(shape)]
            at += len(part)
            if len(shape) == 2:
                part = [part[i : i + shape[1]] for i in range(0, len(part), shape[1])]
            out[name] = part if name in layout.arrays else part[0]
        return out


def assign_attestation(
    cls: AttestationClass,
    clear: tuple[int, ...],
    w: Sequence[int],
    witnesses: Sequence[bytes],
    shared: Sequence[int],
    blind: int,
    secret: tuple[tuple[int, int], int],
) -> Assignment:
    """What a prover of one shard puts in.

    Args:
        clear: with alpha and beta as the last two.
        w: the shard's scores, as C_w has them.
        witnesses: what its commitments open to (:meth:`ragseal.kernel.stated.Stated.bases`).
        shared: what C_v opens to.
        secret: limbs of the seed, and the salt of the record's lists.
    """
    hidden = hidden_wires(cls, w, witnesses, clear[-1]) + field.pack(shared)
    return Assignment(clear, blind, hidden, *secret)


GIVEN = RANGE_BITS - 1  #: bits of a distance that are inputs; the highest is what they leave

Bits = npt.NDArray[np.uint8]  #: (distances, GIVEN)


def low_bits(values: Sequence[int]) -> Bits:
    """The lowest bits of each distance; one that is out of range leaves a highest bit that the circuit refuses."""
    wide = np.array([value & ((1 << RANGE_BITS) - 1) for value in values], dtype=np.int64)
    return ((wide[:, None] >> np.arange(GIVEN)) & 1).astype(np.uint8)


def _pack_bits(bits: Bits) -> bytes:
    out = np.zeros((bits.size, field.FIELD_BYTES), dtype=np.uint8)
    out[:, -1] = bits.reshape(-1)
    return out.tobytes()


@dataclass(frozen=True, slots=True)
class BlockAssignment:
    """All inputs of the estimate's circuit."""

    clear: tuple[int, ...]  #: as :func:`ragseal.kernel.certificate.clear_inputs`, signs as -1, 0, 1
    norms: tuple[int, ...]
    products: tuple[int, ...]
    form: int  #: s
    blind: int
    low: Bits
    high: Bits
    sides: Bits

    def __repr__(self) -> str:
        return "BlockAssignment(...)"

    def packed(self) -> bytes:
        """Wire order, 32 bytes an input."""
        plain = field.pack((*self.clear, self.blind, *self.norms, *self.products, self.form))
        return plain + _pack_bits(self.low) + _pack_bits(self.high) + _pack_bits(self.sides)

    def named(self, cls: EstimateClass) -> dict[str, Any]:
        """As circom's input file wants it: decimal strings by signal name."""
        text = [str(x % R) for x in (*self.clear, self.blind, *self.norms, *self.products, self.form)]
        names = (
            ("threshold", 0), ("normLow", 0), ("normHigh", 0), ("r", cls.n), ("present", cls.n), ("sign", cls.pairs),
            ("blind", 0), ("norm", cls.n), ("product", cls.pairs), ("s", 0),
        )  # fmt: skip
        out: dict[str, Any] = {}
        at = 0
        for name, count in names:
            out[name] = text[at : at + count] if count else text[at]
            at += count or 1
        for name, bits in (("lowBits", self.low), ("highBits", self.high), ("productBits", self.sides)):
            out[name] = [[str(b) for b in row] for row in bits.tolist()]
        return out


def assign_block(
    cls: EstimateClass, clear: Sequence[int], norms: Sequence[int], products: Sequence[int], blind: int
) -> BlockAssignment:
    """What an honest prover puts in: the quadratic form, and the bits of every distance."""
    threshold, low, high = clear[:3]
    r, present, signs = clear[3 : 3 + cls.n], clear[3 + cls.n : 3 + 2 * cls.n], clear[3 + 2 * cls.n :]
    units = [near_unit(p, low, high, x) for p, x in zip(present, norms, strict=True)]
    return BlockAssignment(
        clear=tuple(clear),
        norms=tuple(norms),
        products=tuple(products),
        form=quadratic_form(r, norms, products) % R,
        blind=blind,
        low=low_bits([a for a, _ in units]),
        high=low_bits([b for _, b in units]),
        sides=low_bits([side(sign, threshold, x) for sign, x in zip(signs, products, strict=True)]),
    )


@dataclass(frozen=True, slots=True)
class CoinWitness:
    """What is committed to before the challenges of a thinning, beside scores and products."""

    hides: tuple[int, ...]  #: h_i
    coins: tuple[int, ...]
    hints: tuple[int, ...]  #: those that have a base, in order

    def __repr__(self) -> str:
        return "CoinWitness(...)"


@dataclass(frozen=True, slots=True)
class ThinningAssignment:
    """All inputs of the thinning's circuit."""

    clear: tuple[int, ...]  #: c_coin, context, alpha, beta
    blind: int
    placed: tuple[int, ...]  #: w in [0, r)
    mixed: tuple[int, ...]  #: w'_i - beta coin_i w_i + beta^2 h_i + beta^3 coin_i
    hints: tuple[int, ...]  #: all of them
    seed: tuple[int, int]

    def __repr__(self) -> str:
        return "ThinningAssignment(...)"

    def packed(self) -> bytes:
        """Wire order, 32 bytes an input."""
        return field.pack((*self.clear, self.blind, *self.placed, *self.mixed, *self.hints, *self.seed))

    def named(self, cls: ThinningClass) -> dict[str, Any]:
        """As circom's input file wants it: decimal strings by signal name."""
        out: dict[str, Any] = dict(zip(THINNING_CLEAR, map(str, self.clear), strict=True))
        for name in SLOT_NAMES:
            out[name] = list(map(str, getattr(self, name)))
        out["blind"], out["s_hi"], out["s_lo"] = map(str, (self.blind, *self.seed))
        at = 0
        for name, count in zip(HINT_NAMES, (cls.elements, cls.bytes, len(TOPS), PAIRS, 2 * PAIRS), strict=True):
            out[name] = list(map(str, self.hints[at : at + count]))
            at += count
        return out


def coin_witness(cls: ThinningClass, seed: tuple[int, int], context: int, hidden: int) -> CoinWitness:
    """What an honest prover commits to; of an element without a canonical form, tops that the circuit refuses."""
    elements = coin_elements(seed, context, cls.N, permute)
    drawn = unpack_coins(elements, COINS_PER_ELEMENT * cls.elements)
    coins, spare = drawn[: cls.N], drawn[cls.N :]
    hides = [int(coin < hidden) for coin in coins]
    masks = [
        sum(h << (COIN_BITS * k) for k, h in enumerate(hides[at : at + COINS_PER_ELEMENT]))
        for at in range(0, cls.N, COINS_PER_ELEMENT)
    ]
    tops = [element >> TOP_POSITION for element in elements]
    starts = [min(bisect_right(TOPS, top), len(TOPS)) - 1 for top in tops]
    above = [top - TOPS[start] for top, start in zip(tops, starts, strict=True)]
    looked = [x >> (COIN_BITS * k) & (PAIRS - 1) for x in above for k in range(TOP_CHUNKS)] + spare
    pairs = np.bincount([coin + PAIRS * h for coin, h in zip(coins, hides, strict=True)], minlength=2 * PAIRS)
    counts = np.bincount(starts, minlength=len(TOPS)), np.bincount(looked, minlength=PAIRS)
    hints = *masks, *looked, *(int(n) for own in counts for n in own), *pairs[hidden : hidden + PAIRS].tolist()
    return CoinWitness(tuple(hides), tuple(coins), hints)


def assign_thinning(
    cls: ThinningClass,
    clear: Sequence[int],
    placed: Sequence[int],
    slots: tuple[Sequence[int], Sequence[int], Sequence[int], Sequence[int]],
    hints: tuple[int, Sequence[int]],
    blind: int,
    seed: tuple[int, int],
) -> ThinningAssignment:
    """What a prover puts in.

    Args:
        clear: with alpha and beta as the last two.
        placed: w.
        slots: w', products of coin and w, h, coins: as commitments have them.
        hints: j, and those that have a base under it.
    """
    beta, (hidden, based) = clear[-1], hints
    square, cube = beta * beta % R, pow(beta, 3, R)
    return ThinningAssignment(
        clear=tuple(clear),
        blind=blind,
        placed=tuple(placed),
        mixed=tuple((w - beta * p + square * h + cube * coin) % R for w, p, h, coin in zip(*slots, strict=True)),
        hints=(*based[: cls.plain_hints], *[0] * hidden, *based[cls.plain_hints :], *[0] * (PAIRS - hidden)),
        seed=seed,
    )
