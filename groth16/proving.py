# SPDX-License-Identifier: GPL-3.0-or-later
"""Proofs of the attestation circuit: all its inputs, and the back end that proves them.

Wire order: clear, scores, hints, blinder, then the private seed limbs and salt.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from ragseal.backends.native import available
from ragseal.groth16.keys import ZKEY, KeyView, load_key
from ragseal.groth16.provers import NativeBackend, SnarkjsBackend
from ragseal.groth16.snarkjs import Snarkjs
from ragseal.kernel import field
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.params import CircuitClass
from ragseal.kernel.statement import CLEAR_NAMES, Layout


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
        return NativeBackend(lambda vk: KeyView(cls, vk), r1cs, key_directory / ZKEY)
    layout = Layout(cls)
    return SnarkjsBackend(
        lambda: load_key(key_directory, cls),
        lambda assignment: assignment.named(layout),
        Snarkjs(wasm, key_directory / ZKEY, node_modules),
    )
