# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs by snarkjs: circom's WebAssembly witness and ``snarkjs groth16 fullprove``.  Slow, independent of native."""

from __future__ import annotations

import json
import shutil
import subprocess
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ragseal.circuits.packages import way_out
from ragseal.kernel.errors import ConfigurationError, ProofError, UnavailableError
from ragseal.runtime.edges.filesystem import why

SECONDS = 3600  #: that one run may take


class Snarkjs:
    """Proves with one circuit and key."""

    def __init__(self, wasm: Path, zkey: Path, node_modules: Path) -> None:
        """Raises UnavailableError: Node.js or snarkjs is not installed."""
        node = shutil.which("node")
        program = node_modules / "snarkjs" / "build" / "cli.cjs"
        if node is None or not program.exists():
            raise UnavailableError(f"Node.js or snarkjs is not installed: {way_out()}")
        self._command = (node, str(program), "groth16", "fullprove")
        self._wasm, self._zkey = wasm, zkey

    def prove(self, inputs: Mapping[str, Any]) -> bytes:
        """A 256-byte proof of named inputs.

        Raises:
            ProofError: they satisfy no witness, or snarkjs does not end in time.
            ConfigurationError: no place for its files.
        """
        try:
            with tempfile.TemporaryDirectory() as folder:  # mode 0700: the inputs are secret
                return self._prove_in(Path(folder), inputs)
        except OSError as error:
            raise ConfigurationError(
                f"snarkjs cannot work in {tempfile.gettempdir()}: {why(error, tempfile.gettempdir())}"
            ) from None

    def _prove_in(self, at: Path, inputs: Mapping[str, Any]) -> bytes:
        (at / "input.json").write_text(json.dumps(inputs))
        files = (at / "input.json", self._wasm, self._zkey, at / "proof.json", at / "public.json")
        try:
            done = subprocess.run(
                [*self._command, *map(str, files)], capture_output=True, text=True, timeout=SECONDS, check=False
            )
        except subprocess.TimeoutExpired:
            raise ProofError(f"snarkjs did not end within {SECONDS} s") from None
        if done.returncode:
            raise ProofError("snarkjs: " + " / ".join((done.stdout + done.stderr).strip().splitlines()[-3:]))
        return proof_bytes(json.loads((at / "proof.json").read_text()))


def proof_bytes(proof: Mapping[str, Any]) -> bytes:
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
