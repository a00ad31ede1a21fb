# SPDX-License-Identifier: GPL-3.0-or-later
"""Two back ends that make the same proof from the same key and witness: native, and snarkjs as the slow path.

Both take the circuit's inputs in wire order: clear, scores, hints, blinder, then the private seed limbs and salt.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, Protocol

from ragseal.groth16.group import available, native, native_errors
from ragseal.groth16.keys import ZKEY, KeyView, load_key
from ragseal.kernel import field
from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.kernel.hints import CLEAR_NAMES, Layout
from ragseal.kernel.params import CircuitClass

SNARKJS_SECONDS = 3600


@dataclass(frozen=True, slots=True)
class Assignment:
    """All inputs of the attestation circuit."""

    clear: tuple[int, ...]  #: seven, with alpha and beta
    w: tuple[int, ...]  #: signed
    h: bytes  #: packed hints
    blind: int
    seed: tuple[int, int]
    t_salt: int

    def packed(self) -> bytes:
        """Wire order, 32 bytes an input."""
        return b"".join(
            (
                field.pack(self.clear),
                field.pack(self.w),
                self.h,
                field.pack((self.blind, *self.seed, self.t_salt)),
            )
        )

    def named(self, layout: Layout) -> dict[str, Any]:
        """As circom's input file wants it: decimal strings by signal name."""
        values = [str(v) for v in field.unpack(self.h)]
        out: dict[str, Any] = dict(zip(CLEAR_NAMES, map(str, self.clear), strict=True))
        out["w"] = [str(int.from_bytes(field.to_bytes(x), "big")) for x in self.w]
        for group in layout.groups:
            part: Any = values[group.offset : group.offset + group.count]
            if len(group.shape) == 2:
                part = [part[i : i + group.shape[1]] for i in range(0, len(part), group.shape[1])]
            elif group.shape == (1,):
                part = part[0]
            out[group.name] = part
        out["blind"], out["t_salt"] = str(self.blind), str(self.t_salt)
        out["s_hi"], out["s_lo"] = map(str, self.seed)
        return out


class Backend(Protocol):
    """Makes proofs for one class and key."""

    @property
    def key(self) -> KeyView:
        """The verifying key its proofs hold under."""

    def prove(self, assignment: Assignment) -> bytes:
        """A 256-byte proof, which its user verifies as an auditor does; ProofError if the inputs satisfy no witness."""


class NativeBackend:
    """Witness by propagation through the R1CS and Groth16 in the native module; checks every proof it returns."""

    def __init__(self, cls: CircuitClass, r1cs: Path, zkey: Path) -> None:
        with native_errors():
            self._r1cs = native().R1cs.load(str(r1cs))
            self._key = native().ProvingKey.load(str(zkey))
        self._view = KeyView(cls, self._key.verifying_key())

    @property
    def key(self) -> KeyView:
        return self._view

    def prove(self, assignment: Assignment) -> bytes:
        with native_errors():
            return bytes(self._key.prove(self._r1cs.solve(assignment.packed())))


class SnarkjsBackend:
    """circom's WebAssembly witness and ``snarkjs groth16 prove``: slow, and independent of the native module."""

    def __init__(self, cls: CircuitClass, wasm: Path, key_directory: Path, node_modules: Path) -> None:
        node = shutil.which("node")
        self._snarkjs = node_modules / "snarkjs" / "build" / "cli.cjs"
        if node is None or not self._snarkjs.exists():
            raise ConfigurationError("snarkjs is not installed: run `make setup` (npm ci in circuits/)")
        self._node, self._wasm, self._zkey = node, wasm, key_directory / ZKEY
        self._layout = Layout(cls)
        self._cls, self._directory = cls, key_directory

    @cached_property
    def key(self) -> KeyView:
        return load_key(self._directory, self._cls)

    def _run(self, *arguments: str) -> None:
        try:
            done = subprocess.run(
                [self._node, str(self._snarkjs), *arguments],
                capture_output=True,
                text=True,
                timeout=SNARKJS_SECONDS,
                check=False,
            )
        except subprocess.TimeoutExpired:
            raise ProofError(f"snarkjs {arguments[0]} {arguments[1]} took longer than {SNARKJS_SECONDS} s") from None
        if done.returncode:
            tail = (done.stdout + done.stderr).strip().splitlines()[-3:]
            raise ProofError(f"snarkjs {arguments[0]} {arguments[1]} failed: " + " / ".join(tail))

    def prove(self, assignment: Assignment) -> bytes:
        try:
            with tempfile.TemporaryDirectory() as folder:  # mode 0700: the inputs hold the seed
                at = Path(folder)
                (at / "input.json").write_text(json.dumps(assignment.named(self._layout)))
                files = (at / "input.json", self._wasm, self._zkey, at / "proof.json", at / "public.json")
                self._run("groth16", "fullprove", *map(str, files))
                return proof_bytes(json.loads((at / "proof.json").read_text()))
        except OSError as error:
            raise ConfigurationError(f"snarkjs cannot work in {tempfile.gettempdir()}: {error.strerror}") from None


def proof_bytes(proof: dict[str, Any]) -> bytes:
    """snarkjs' proof.json as 256 bytes A || B || C, G2 coordinates with the imaginary part first (EIP-197).

    Raises:
        ProofError: not such a JSON object.
    """
    try:
        a, b, c = proof["pi_a"], proof["pi_b"], proof["pi_c"]
        numbers = [a[0], a[1], b[0][1], b[0][0], b[1][1], b[1][0], c[0], c[1]]
        return b"".join(int(n).to_bytes(32, "big") for n in numbers)
    except (KeyError, IndexError, TypeError, ValueError, OverflowError):
        raise ProofError("not a snarkjs Groth16 proof") from None


def open_backend(
    cls: CircuitClass, r1cs: Path, wasm: Path, key_directory: Path, node_modules: Path, kind: str = "auto"
) -> Backend:
    """The chosen back end: "native", "snarkjs", or "auto" for native where it is installed.

    Raises:
        ConfigurationError: unknown kind, or what it needs is missing.
    """
    if kind not in ("auto", "native", "snarkjs"):
        raise ConfigurationError(f"unknown proving back end {kind!r}: use auto, native or snarkjs")
    if kind == "native" or (kind == "auto" and available()):
        return NativeBackend(cls, r1cs, key_directory / ZKEY)
    return SnarkjsBackend(cls, wasm, key_directory, node_modules)
