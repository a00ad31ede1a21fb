# SPDX-License-Identifier: GPL-3.0-or-later
"""The proving keys a provider holds, by digest, and what is checked before one is used.  SPEC A.9."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Generic, TypeVar

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.groth16.coefficients import check_coefficients
from ragseal.groth16.estimate import EstimateBackend
from ragseal.groth16.keys import EstimateView, KeyPaths, KeyView, Shape, install_key, load_key
from ragseal.groth16.proving import Backend
from ragseal.groth16.views import View
from ragseal.kernel.certificate import EstimateClass
from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.kernel.params import CircuitClass
from ragseal.prover.keys.trial_proofs import rehearse, rehearse_block

DIGEST_DIGITS = 24  #: hexadecimal digits of the digest in a key folder's name

V = TypeVar("V", bound=View)
B = TypeVar("B")

#: A key folder -> the back end that proves with it.
OpenBackend = Callable[[Path], Backend]
#: The R1CS of the class, compiled if it is not yet.
Circuit = Callable[[], Path]


@dataclass(frozen=True, slots=True)
class Kind(Generic[V, B]):
    """What differs between the keys of an attestation class and those of an estimate's circuit."""

    cls: Shape
    load: Callable[[Path], V]
    circuit: Circuit
    open_backend: Callable[[Path], B]
    view_of: Callable[[B], V]
    rehearse: Callable[[B], None]


class Ring(Generic[V, B]):
    """Keys of one circuit in the state folder.  Methods may be called from any thread."""

    def __init__(self, directory: Path, kind: Kind[V, B]) -> None:
        self._directory = directory
        self._kind = kind
        self._mutex = threading.Lock()
        self._views: dict[bytes, V] = {}
        self._backends: dict[bytes, B] = {}

    @property
    def cls(self) -> Shape:
        """The circuit's class."""
        return self._kind.cls

    @property
    def directory(self) -> Path:
        """Where keys lie, and downloads while they come in."""
        return self._directory

    def folder(self, digest: bytes) -> Path:
        return self._directory / f"{self.cls.name}-{digest.hex()[:DIGEST_DIGITS]}"

    def newest(self) -> V:
        """The key that was fetched last.

        Raises:
            ConfigurationError: there is none.
        """
        found = [p for p in self._directory.glob(f"{self.cls.name}-*") if p.is_dir()]
        if not found:
            raise ConfigurationError(
                f"no proving key of class {self.cls.name!r} here: get the auditor's with `ragseal-provider fetch-keys`"
            )
        return self._kind.load(max(found, key=lambda p: p.stat().st_mtime_ns))

    def view(self, digest: bytes) -> V:
        """The verifying key with this digest.

        Raises:
            ConfigurationError: this provider does not hold it.
            ProofError: its file holds another key.
        """
        with self._mutex:
            if digest not in self._views:
                self._views[digest] = self._checked(digest, self._kind.load(self._existing(digest)))
            return self._views[digest]

    def backend(self, digest: bytes) -> B:
        """The back end for the key with this digest, loaded at first use.  Raises as :meth:`view`."""
        with self._mutex:
            if digest not in self._backends:
                backend = self._kind.open_backend(self._existing(digest))
                self._views.setdefault(digest, self._checked(digest, self._kind.view_of(backend)))
                self._backends[digest] = backend
            return self._backends[digest]

    def install(self, zkey: Path, announced: bytes) -> KeyPaths:
        """Take in a downloaded .zkey, which must hold the key that was announced; ``zkey`` is moved or removed.

        Its coefficients must be those of this provider's own circuit, and it proves two made-up statements first.

        Raises:
            ProofError: another key, of another class, malformed, one that breaks a rule of SPEC A.9, one for
                another circuit, or one that does not prove what is true.
        """
        incoming = Path(tempfile.mkdtemp(prefix=".incoming-", dir=self._directory))
        try:
            made = install_key(zkey, self.cls, incoming)
            if made.digest != announced:
                raise ProofError(f"the key received is {made.digest.hex()}, announced was {announced.hex()}")
            check_coefficients(made.zkey, self._kind.circuit())
            self._kind.rehearse(self._kind.open_backend(made.directory))
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
    def _checked(digest: bytes, view: V) -> V:
        if view.digest != digest:
            raise ProofError(f"the key folder of {digest.hex()} holds another key: fetch it again")
        return view


class KeyRing(Ring[KeyView, Backend]):
    """Keys of one class of the attestation."""

    def __init__(self, directory: Path, cls: CircuitClass, circuit: Circuit, open_backend: OpenBackend) -> None:
        super().__init__(
            directory,
            Kind(
                cls,
                lambda path: load_key(path, cls),
                circuit,
                open_backend,
                lambda backend: backend.key,
                lambda backend: rehearse(backend, open_engine(cls), default_group()),
            ),
        )


class EstimateRing(Ring[EstimateView, EstimateBackend]):
    """Keys of one size of the estimate's circuit."""

    def __init__(
        self,
        directory: Path,
        cls: EstimateClass,
        circuit: Circuit,
        open_backend: Callable[[Path], EstimateBackend],
    ) -> None:
        super().__init__(
            directory,
            Kind(
                cls,
                lambda path: load_key(path, cls),
                circuit,
                open_backend,
                lambda backend: backend.key,
                lambda backend: rehearse_block(backend, default_group()),
            ),
        )
