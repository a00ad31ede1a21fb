# SPDX-License-Identifier: GPL-3.0-or-later
"""Two back ends that make the same proof from the same key and inputs: native, and snarkjs as the slow path.

One pair serves every circuit: a class says how its verifying key is cut, an assignment how its inputs are named.
"""

from __future__ import annotations

from functools import cached_property
from pathlib import Path
from typing import Any, Protocol, TypeVar, overload

from ragseal.backends.native import available, native, native_errors
from ragseal.circuits.build import BuiltCircuit
from ragseal.circuits.circuit import Shape
from ragseal.groth16.assignments import Assignment, BlockAssignment, ThinningAssignment
from ragseal.groth16.keys import ZKEY, read_key, view_of
from ragseal.groth16.snarkjs import Snarkjs
from ragseal.groth16.views import EstimateView, KeyView, ThinningView
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.estimate_class import EstimateClass
from ragseal.kernel.thinning_class import ThinningClass


class Inputs(Protocol):
    """All inputs of a circuit."""

    def packed(self) -> bytes:
        """Wire order, 32 bytes per input."""

    def named(self, cls: Any, /) -> dict[str, Any]:
        """As circom's input file wants them: decimal strings by signal name."""


V_co = TypeVar("V_co", covariant=True)
A_contra = TypeVar("A_contra", contravariant=True)


class Backend(Protocol[V_co, A_contra]):
    """Makes proofs for one class and key."""

    @property
    def key(self) -> V_co:
        """The verifying key that its proofs hold under."""

    def prove(self, assignment: A_contra) -> bytes:
        """A 256-byte proof, which its user verifies as an auditor does; ProofError if the inputs satisfy no witness."""


AttestationBackend = Backend[KeyView, Assignment]
BlockBackend = Backend[EstimateView, BlockAssignment]
ThinningBackend = Backend[ThinningView, ThinningAssignment]


class NativeBackend:
    """Witness by propagation through the R1CS and Groth16 in the native module; checks every proof it returns."""

    def __init__(self, cls: Shape, r1cs: Path, zkey: Path) -> None:
        with native_errors():
            self._r1cs = native.R1cs.load(str(r1cs))
            self._key = native.ProvingKey.load(str(zkey))
        self.key: Any = view_of(cls, self._key.verifying_key())

    def prove(self, assignment: Inputs) -> bytes:
        with native_errors():
            return self._key.prove(self._r1cs.solve(assignment.packed()))


class SnarkjsBackend:
    """snarkjs with circom's WebAssembly witness: slow, and independent of the native module."""

    def __init__(self, cls: Shape, key_directory: Path, snarkjs: Snarkjs) -> None:
        self._cls = cls
        self._directory = key_directory
        self._snarkjs = snarkjs

    @cached_property
    def key(self) -> Any:
        return read_key(self._directory, self._cls)

    def prove(self, assignment: Inputs) -> bytes:
        return self._snarkjs.prove(assignment.named(self._cls))


@overload
def open_backend(
    built: BuiltCircuit[AttestationClass], key_directory: Path, node_modules: Path | None = None, kind: str = "auto"
) -> AttestationBackend: ...
@overload
def open_backend(
    built: BuiltCircuit[EstimateClass], key_directory: Path, node_modules: Path | None = None, kind: str = "auto"
) -> BlockBackend: ...
@overload
def open_backend(
    built: BuiltCircuit[ThinningClass], key_directory: Path, node_modules: Path | None = None, kind: str = "auto"
) -> ThinningBackend: ...
def open_backend(
    built: BuiltCircuit[Any], key_directory: Path, node_modules: Path | None = None, kind: str = "auto"
) -> Any:
    """The chosen back end of a key folder: "native", "snarkjs", or "auto" for native where it is installed.

    Args:
        node_modules: where snarkjs is installed; None where only the native one will do.

    Raises:
        ConfigurationError: unknown kind, or what it needs is missing.
    """
    if kind not in ("auto", "native", "snarkjs"):
        raise ConfigurationError(f"unknown proving back end {kind!r}: use auto, native or snarkjs")
    if kind == "native" or node_modules is None or (kind == "auto" and available()):
        return NativeBackend(built.cls, built.r1cs, key_directory / ZKEY)
    return SnarkjsBackend(built.cls, key_directory, Snarkjs(built.wasm, key_directory / ZKEY, node_modules))
