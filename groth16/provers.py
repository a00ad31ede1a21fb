# SPDX-License-Identifier: GPL-3.0-or-later
"""Two back ends that make the same proof from the same key and inputs: native, and snarkjs as the slow path.

One pair serves every circuit: what differs is how its verifying key is read and how its inputs are named.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar

from ragseal.backends.native import native, native_errors
from ragseal.groth16.snarkjs import Snarkjs
from ragseal.groth16.views import VerifyingKeyData


class Packed(Protocol):
    """All inputs of a circuit."""

    def packed(self) -> bytes:
        """Wire order, 32 bytes an input."""


V = TypeVar("V")
A = TypeVar("A", bound=Packed)


class NativeBackend(Generic[V, A]):
    """Witness by propagation through the R1CS and Groth16 in the native module; checks every proof it returns."""

    def __init__(self, view: Callable[[VerifyingKeyData], V], r1cs: Path, zkey: Path) -> None:
        with native_errors():
            self._r1cs = native.R1cs.load(str(r1cs))
            self._key = native.ProvingKey.load(str(zkey))
        self._view = view(self._key.verifying_key())

    @property
    def key(self) -> V:
        return self._view

    def prove(self, assignment: A) -> bytes:
        with native_errors():
            return self._key.prove(self._r1cs.solve(assignment.packed()))


class SnarkjsBackend(Generic[V, A]):
    """snarkjs with circom's WebAssembly witness: slow, and independent of the native module."""

    def __init__(self, load: Callable[[], V], named: Callable[[A], dict[str, Any]], snarkjs: Snarkjs) -> None:
        """``named``: inputs as circom's input file wants them."""
        self._load = load
        self._named = named
        self._snarkjs = snarkjs

    @cached_property
    def key(self) -> V:
        return self._load()

    def prove(self, assignment: A) -> bytes:
        return self._snarkjs.prove(self._named(assignment))
