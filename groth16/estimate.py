# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs of the estimate's circuit: all inputs of a block in wire order, and the back end that proves them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from ragseal.backends.native import available
from ragseal.groth16.keys import ZKEY, EstimateView, load_key
from ragseal.groth16.provers import NativeBackend, SnarkjsBackend
from ragseal.groth16.snarkjs import Snarkjs
from ragseal.kernel import field
from ragseal.kernel.certificate import RANGE_BITS, EstimateClass, near_unit, quadratic_form, side
from ragseal.kernel.params import R

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
        plain = field.pack((*self.clear, *self.norms, *self.products, self.form, self.blind))
        return plain + _pack_bits(self.low) + _pack_bits(self.high) + _pack_bits(self.sides)

    def named(self, cls: EstimateClass) -> dict[str, Any]:
        """As circom's input file wants it: decimal strings by signal name."""
        text = [str(x % R) for x in (*self.clear, *self.norms, *self.products, self.form, self.blind)]
        names = (
            ("threshold", 0), ("normLow", 0), ("normHigh", 0), ("r", cls.n), ("present", cls.n), ("sign", cls.pairs),
            ("norm", cls.n), ("product", cls.pairs), ("s", 0), ("blind", 0),
        )  # fmt: skip
        out: dict[str, Any] = {}
        at = 0
        for name, count in names:
            out[name] = text[at : at + count] if count else text[at]
            at += count or 1
        for name, bits in (("lowBits", self.low), ("highBits", self.high), ("productBits", self.sides)):
            out[name] = [[str(b) for b in row] for row in bits.tolist()]
        return out


def assign(
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


class EstimateBackend(Protocol):
    """Makes block proofs for one size and key."""

    @property
    def key(self) -> EstimateView:
        """The verifying key its proofs hold under."""

    def prove(self, assignment: BlockAssignment) -> bytes:
        """A 256-byte proof, which its user verifies as an auditor does; ProofError if the inputs satisfy no witness."""


def open_estimate_backend(
    cls: EstimateClass, r1cs: Path, key_directory: Path, node_modules: Path | None = None
) -> EstimateBackend:
    """The back end of a key folder: native, or where that is missing the snarkjs of ``node_modules``.

    Raises:
        ConfigurationError: neither is installed.
    """
    if node_modules is None or available():
        return NativeBackend(lambda vk: EstimateView(cls, vk), r1cs, key_directory / ZKEY)
    return SnarkjsBackend(
        lambda: load_key(key_directory, cls),
        lambda assignment: assignment.named(cls),
        Snarkjs(r1cs.with_suffix(".wasm"), key_directory / ZKEY, node_modules),  # it lies beside the R1CS
    )
