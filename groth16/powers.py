# SPDX-License-Identifier: GPL-3.0-or-later
"""Powers of tau: keys made of them, and keys checked against them, point for point.  SPEC A.9.6.

A key of one party alone cannot be checked in full: its secrets are its maker's.  A key whose first phase is public, a
.ptau file of snarkjs, can: every point follows from the circuit, the file and the key's own delta.
"""

from __future__ import annotations

import hashlib
import os
import stat
import tempfile
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from ragseal.backends.native import native, native_errors
from ragseal.circuits.r1cs import ConstraintSystem
from ragseal.kernel.errors import AuditError, ConfigurationError, ProofError
from ragseal.runtime.edges.filesystem import why

if TYPE_CHECKING:
    from ragseal_native import Powers as Checked


_BLOCK = 1 << 20


class PowersFile:
    """A .ptau file.  What a circuit needs of it is read, and checked, once; a larger circuit reads more.

    The file is opened once, at its first use: what is hashed, checked and made of it is of one file, whatever comes to
    lie under its name meanwhile.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._held: Checked | None = None
        self._descriptor: int | None = None
        self._found: os.stat_result | None = None

    def blake2b(self) -> str:
        """BLAKE2b-512 of the whole file, in hexadecimal, as ceremonies of powers publish it.

        Raises:
            ConfigurationError: it cannot be read.
            ProofError: no regular file.
        """
        descriptor, digest, at = self._opened(), hashlib.blake2b(), 0
        try:
            while block := os.pread(descriptor, _BLOCK, at):
                digest.update(block)
                at += len(block)
        except OSError as error:
            raise ConfigurationError(f"cannot read {self._path}: {why(error, self._path)}") from None
        return digest.hexdigest()

    def _opened(self) -> int:
        if self._descriptor is None:
            try:
                self._descriptor = os.open(self._path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
            except OSError as error:
                raise ConfigurationError(f"cannot read {self._path}: {why(error, self._path)}") from None
            weakref.finalize(self, os.close, self._descriptor)
            self._found = os.fstat(self._descriptor)
            if not stat.S_ISREG(self._found.st_mode):
                raise ProofError(f"{self._path}: not a regular file")
        return self._descriptor

    @contextmanager
    def _errors(self) -> Iterator[None]:
        """Native errors as :func:`native_errors` has them, with the file's own name."""
        try:
            with native_errors():
                yield
        except AuditError as error:
            raise type(error)(str(error).replace(f"/dev/fd/{self._descriptor}:", f"{self._path}:")) from None

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
        with self._errors():
            self._for(circuit, kept).check_key(str(zkey), str(circuit.path), kept)

    def make_key(self, circuit: ConstraintSystem, kept: int, zkey: Path) -> None:
        """Make a key of these powers with a delta of one's own, which is forgotten.

        In CPU seconds on a busy machine: 20 in a domain of 2^14, 60 in 2^16, 140 in 2^17.

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
        with self._errors():
            self._for(circuit, kept).initial_key(str(circuit.path), str(zkey), kept)

    def digest(self, circuit: ConstraintSystem, kept: int) -> bytes:
        """SHA-256 of tau, alpha and beta times the generators: two files with one digest make the same keys.

        Raises:
            as :meth:`check_key`.
        """
        with self._errors():
            return self._for(circuit, kept).digest()

    def _for(self, circuit: ConstraintSystem, kept: int) -> Checked:
        domain = circuit.domain(kept)
        if self._held is None or self._held.domain < domain:
            descriptor = self._opened()
            os.lseek(descriptor, 0, os.SEEK_SET)  # not every system opens /dev/fd anew
            self._held = native.Powers.load(f"/dev/fd/{descriptor}", domain)
            now, then = os.fstat(descriptor), self._found  # a ctime is what nobody sets
            if then is None or (now.st_size, now.st_ctime_ns) != (then.st_size, then.st_ctime_ns):
                self._held = None
                raise ProofError(f"{self._path} is being written: take a copy of your own")
        return self._held
