# SPDX-License-Identifier: GPL-3.0-or-later
"""The proving keys a provider holds, by digest, and what is checked before one is used.  SPEC A.9."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path

from ragseal.groth16.coefficients import check_coefficients
from ragseal.groth16.engine import open_engine
from ragseal.groth16.group import default_group
from ragseal.groth16.keys import KeyPaths, KeyView, install_key, load_key
from ragseal.groth16.proving import Backend
from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.kernel.params import CircuitClass
from ragseal.prover.rehearsal import rehearse

DIGEST_DIGITS = 24  #: hexadecimal digits of the digest in a key folder's name

#: A key folder -> the back end that proves with it.
OpenBackend = Callable[[Path], Backend]
#: The R1CS of the class, compiled if it is not yet.
Circuit = Callable[[], Path]


class KeyRing:
    """Keys of one circuit class in the state folder.  Methods may be called from any thread."""

    def __init__(self, directory: Path, cls: CircuitClass, circuit: Circuit, open_backend: OpenBackend) -> None:
        self._directory = directory
        self._cls = cls
        self._circuit = circuit
        self._open_backend = open_backend
        self._mutex = threading.Lock()
        self._views: dict[bytes, KeyView] = {}
        self._backends: dict[bytes, Backend] = {}

    @property
    def directory(self) -> Path:
        """Where keys lie, and downloads while they come in."""
        return self._directory

    def folder(self, digest: bytes) -> Path:
        return self._directory / f"{self._cls.name}-{digest.hex()[:DIGEST_DIGITS]}"

    def newest(self) -> KeyView:
        """The key that was fetched last.

        Raises:
            ConfigurationError: there is none.
        """
        found = [p for p in self._directory.glob(f"{self._cls.name}-*") if p.is_dir()]
        if not found:
            raise ConfigurationError(
                f"no proving key of class {self._cls.name!r} here: get the auditor's with `ragseal-provider fetch-keys`"
            )
        return load_key(max(found, key=lambda p: p.stat().st_mtime_ns), self._cls)

    def view(self, digest: bytes) -> KeyView:
        """The verifying key with this digest.

        Raises:
            ConfigurationError: this provider does not hold it.
            ProofError: its file holds another key.
        """
        with self._mutex:
            if digest not in self._views:
                self._views[digest] = self._checked(digest, load_key(self._existing(digest), self._cls))
            return self._views[digest]

    def backend(self, digest: bytes) -> Backend:
        """The back end for the key with this digest, loaded at first use.  Raises as :meth:`view`."""
        with self._mutex:
            if digest not in self._backends:
                backend = self._open_backend(self._existing(digest))
                self._views.setdefault(digest, self._checked(digest, backend.key))
                self._backends[digest] = backend
            return self._backends[digest]

    def install(self, zkey: Path, announced: bytes) -> KeyPaths:
        """Take in a downloaded .zkey, which must hold the key that was announced; ``zkey`` is moved or removed.

        Its coefficients must be those of this provider's own circuit, and it proves two made-up statements first.

        Raises:
            ProofError: another key, of another class, malformed, one that breaks a rule of protocol section 3, one for
                another circuit, or one that does not prove what is true.
        """
        incoming = Path(tempfile.mkdtemp(prefix=".incoming-", dir=self._directory))
        try:
            made = install_key(zkey, self._cls, incoming)
            if made.digest != announced:
                raise ProofError(f"the key received is {made.digest.hex()}, announced was {announced.hex()}")
            check_coefficients(made.zkey, self._circuit())
            rehearse(self._open_backend(made.directory), open_engine(self._cls), default_group())
            target = self.folder(made.digest)
            if target.exists():
                shutil.rmtree(target)
            os.rename(made.directory, target)
            return KeyPaths(target, made.digest)
        except OSError as error:
            raise ConfigurationError(f"cannot keep the key in {self._directory}: {error.strerror}") from None
        finally:
            zkey.unlink(missing_ok=True)
            shutil.rmtree(incoming, ignore_errors=True)

    def _existing(self, digest: bytes) -> Path:
        folder = self.folder(digest)
        if not folder.is_dir():
            raise ConfigurationError(
                f"this provider does not hold the key {digest.hex()}: get it again with `ragseal-provider fetch-keys`"
            )
        return folder

    @staticmethod
    def _checked(digest: bytes, view: KeyView) -> KeyView:
        if view.digest != digest:
            raise ProofError(f"the key folder of {digest.hex()} holds another key: fetch it again")
        return view
