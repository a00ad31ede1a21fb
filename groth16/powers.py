# SPDX-License-Identifier: GPL-3.0-or-later
"""Powers of tau: keys made of them, and keys checked against them, point for point.  SPEC A.9.6.

A key of one party alone cannot be checked in full: its secrets are its maker's.  A key whose first phase is public, a
.ptau file of snarkjs, can: every point follows from the circuit, the file and the key's own delta.
"""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from ragseal.backends.native import native, native_errors
from ragseal.circuits.r1cs import ConstraintSystem

if TYPE_CHECKING:
    from ragseal_native import Powers as Checked


class PowersFile:
    """A .ptau file.  What a circuit needs of it is read, and checked, once; a larger circuit reads more."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: Checked | None = None

    @property
    def path(self) -> Path:
        return self._path

    def check_key(self, zkey: Path, circuit: ConstraintSystem, kept: int) -> None:
        """Every point of a proving key is the one that circuit, powers and the key's delta give.  Seconds.

        Its coefficients are not looked at: :func:`ragseal.groth16.coefficients.check_coefficients`.

        Args:
            kept: public inputs 1..kept have a row of their own (:attr:`ragseal.circuits.circuit.Circuit.kept`).

        Raises:
            ConfigurationError: no native module.
            ProofError: a wrong point, with the section that holds it; another circuit's key or another file's; the
                file is malformed, too small, or does not hold powers of one tau.
        """
        with native_errors():
            self._for(circuit, kept).check_key(str(zkey), str(circuit.path), kept)

    def make_key(self, circuit: ConstraintSystem, kept: int, zkey: Path) -> None:
        """Make a key of these powers with a delta of one's own, which is forgotten.

        In CPU seconds on a busy machine: 20 for class tiny, 60 for small-one, 140 for base-one-50.

        Raises:
            ConfigurationError: no native module.
            ProofError: the file is malformed, too small, not prepared for phase 2, or does not hold powers of one tau.
        """
        with tempfile.TemporaryDirectory(dir=zkey.parent, prefix=".initial-") as folder:
            initial = Path(folder) / "initial.zkey"
            self.initial_key(circuit, kept, initial)
            with native_errors():
                native.contribute(str(initial), str(zkey))
        self.check_key(zkey, circuit, kept)  # as whoever fetches it will

    def initial_key(self, circuit: ConstraintSystem, kept: int, zkey: Path) -> None:
        """Write the key that a second phase begins with.  It proves anything: no part of ragseal loads it.

        Raises:
            as :meth:`make_key`.
        """
        with native_errors():
            self._for(circuit, kept).initial_key(str(circuit.path), str(zkey), kept)

    def digest(self, circuit: ConstraintSystem, kept: int) -> bytes:
        """SHA-256 of tau, alpha and beta times the generators: two files with one digest make the same keys.

        Raises:
            as :meth:`check_key`.
        """
        with native_errors():
            return self._for(circuit, kept).digest()

    def _for(self, circuit: ConstraintSystem, kept: int) -> Checked:
        domain = circuit.domain(kept)
        if self._held is None or self._held.domain < domain:
            self._held = native.Powers.load(str(self._path), domain)
        return self._held
