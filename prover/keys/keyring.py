# SPDX-License-Identifier: GPL-3.0-or-later
"""The proving keys a provider holds, by digest, and what is checked before one is used.  SPEC A.9."""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Generic, TypeVar, cast

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.circuits.circuit import Shape, circuit_of
from ragseal.circuits.container import check_outline
from ragseal.circuits.independence import check_independent
from ragseal.circuits.r1cs import read_r1cs
from ragseal.groth16.assignments import Assignment, BlockAssignment, ThinningAssignment
from ragseal.groth16.coefficients import check_coefficients
from ragseal.groth16.keys import ZKEY, EstimateView, KeyPaths, KeyView, ThinningView, install_key, read_key
from ragseal.groth16.powers import PowersFile
from ragseal.groth16.provers import AttestationBackend, Backend, BlockBackend, ThinningBackend
from ragseal.groth16.views import View
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError, ProofError, UnavailableError
from ragseal.kernel.estimate_class import EstimateClass
from ragseal.kernel.thinning_class import ThinningClass
from ragseal.prover.keys.sums import keep_sum
from ragseal.prover.keys.trial_proofs import rehearse, rehearse_block, rehearse_thinning
from ragseal.runtime.durable import place_durably
from ragseal.runtime.edges.filesystem import why

DIGEST_DIGITS = 24  #: hexadecimal digits of the digest in a key folder's name

V = TypeVar("V", bound=View)
A = TypeVar("A")


class KeyRing(Generic[V, A]):
    """Keys of one circuit in the state folder.  Methods may be called from any thread."""

    def __init__(
        self,
        directory: Path,
        cls: Shape,
        circuit: Callable[[], Path],
        open_backend: Callable[[Path], Backend[V, A]],
        rehearse: Callable[[Backend[V, A]], None],
    ) -> None:
        """
        Args:
            circuit: the R1CS of the class, compiled if it is not yet.
            open_backend: a key folder -> what proves with it.
            rehearse: proves made-up statements with a key that somebody else made; raises ProofError.
        """
        self._directory = directory
        self._cls = cls
        self._circuit = circuit
        self._open_backend = open_backend
        self._rehearse = rehearse
        self._mutex = threading.Lock()
        self._loading: dict[bytes, threading.Lock] = {}  #: one for each key
        self._views: dict[bytes, V] = {}
        self._backends: dict[bytes, Backend[V, A]] = {}

    @property
    def cls(self) -> Shape:
        """The circuit's class."""
        return self._cls

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
            raise UnavailableError(
                f"no proving key of class {self.cls.name!r} here: get the auditor's with `ragseal-provider fetch-keys`"
            )
        return self._load(max(found, key=lambda p: p.stat().st_mtime_ns))

    def view(self, digest: bytes) -> V:
        """The verifying key with this digest.

        Raises:
            ConfigurationError: this provider does not hold it.
            ProofError: its file holds another key.
        """
        with self._mutex:
            if digest not in self._views:
                self._views[digest] = self._checked(digest, self._load(self._existing(digest)))
            return self._views[digest]

    def backend(self, digest: bytes) -> Backend[V, A]:
        """The back end for the key with this digest, loaded at first use.

        The first use takes as long as the circuit takes to compile.  Meanwhile :meth:`view`, which answers need, waits
        for nothing.

        Raises:
            ConfigurationError: this provider does not hold it, or its files cannot be loaded.  That is never a
                ProofError: one stops the key for good, and a file that is away says nothing of the key (SPEC A.9.5).
        """
        with self._mutex:
            known, loading = self._backends.get(digest), self._loading.setdefault(digest, threading.Lock())
        if known is not None:
            return known
        with loading:
            with self._mutex:
                if digest in self._backends:
                    return self._backends[digest]
            try:
                backend = self._open_backend(self._existing(digest))
                view = self._checked(digest, backend.key)
            except ProofError as error:
                raise self._unloadable(digest, error) from None
            with self._mutex:
                self._views.setdefault(digest, view)
                return self._backends.setdefault(digest, backend)

    def check_held(self, digest: bytes) -> None:
        """That the verifying key with this digest is here, and beside it a proving key that can be opened.

        What proves loads it later, and in another process; this reads a few bytes of it.

        Raises:
            ConfigurationError: one of them is not.
            ProofError: the verifying key's file holds another key.
        """
        self.view(digest)
        try:
            check_outline(self.folder(digest) / ZKEY, b"zkey", 1)
        except ProofError as error:
            raise self._unloadable(digest, error) from None

    @staticmethod
    def _unloadable(digest: bytes, error: ProofError) -> ConfigurationError:
        return ConfigurationError(
            f"the proving key {digest.hex()} cannot be loaded ({error}): see to the disk, or get the key again with "
            "`ragseal-provider fetch-keys`"
        )

    def install(self, zkey: Path, announced: bytes, powers: PowersFile | None = None) -> KeyPaths:
        """Take in a downloaded .zkey, which must hold the key that was announced; ``zkey`` is moved or removed.

        Its coefficients must be those of this provider's own circuit, whose commitments must have one opening each, and
        it proves two made-up statements first.

        Args:
            powers: what the key must be made of, point for point.  Without them its points stay unchecked (SPEC A.9.6).

        Raises:
            ProofError: another key, of another class, malformed, one that breaks a rule of SPEC A.9, one for
                another circuit or of other powers, or one that does not prove what is true.
            ConfigurationError: no place for it, or powers without the native module.
        """
        incoming = Path(tempfile.mkdtemp(prefix=".incoming-", dir=self._directory))
        try:
            made = install_key(zkey, self.cls, incoming)
            keep_sum(made.directory)
            if made.digest != announced:
                raise ProofError(f"the key received is {made.digest.hex()}, announced was {announced.hex()}")
            self._check(made.zkey, powers)
            self._rehearse(self._open_backend(made.directory))
            target, former = self.folder(made.digest), incoming / "former"
            if target.exists():
                os.rename(target, former)
            try:
                place_durably(made.directory, target)
            except OSError:
                if former.exists() and not target.exists():
                    os.rename(former, target)  # windows are proven under it
                raise
            return KeyPaths(target, made.digest)
        except OSError as error:
            raise ConfigurationError(
                f"cannot keep the key in {self._directory}: {why(error, self._directory)}"
            ) from None
        finally:
            zkey.unlink(missing_ok=True)
            shutil.rmtree(incoming, ignore_errors=True)

    def _check(self, zkey: Path, powers: PowersFile | None) -> None:
        """Hold a downloaded key against this provider's own circuit, which memory is free of before it proves."""
        circuit, own = circuit_of(self.cls), read_r1cs(self._circuit())
        check_coefficients(zkey, own, circuit.kept)
        check_independent(own, circuit.kept, circuit.relations)
        if powers is not None:
            powers.check_key(zkey, own, circuit.kept)

    def _load(self, path: Path) -> V:
        return cast(V, read_key(path, self._cls))

    def _existing(self, digest: bytes) -> Path:
        folder = self.folder(digest)
        if not folder.is_dir():
            raise UnavailableError(
                f"this provider does not hold the key {digest.hex()}: get it again with `ragseal-provider fetch-keys`"
            )
        return folder

    @staticmethod
    def _checked(digest: bytes, view: V) -> V:
        if view.digest != digest:
            raise ProofError(f"the key folder of {digest.hex()} holds another key: fetch it again")
        return view


AttestationKeys = KeyRing[KeyView, Assignment]
BlockKeys = KeyRing[EstimateView, BlockAssignment]
ThinningKeys = KeyRing[ThinningView, ThinningAssignment]


def attestation_keys(
    directory: Path,
    cls: AttestationClass,
    circuit: Callable[[], Path],
    open_backend: Callable[[Path], AttestationBackend],
) -> AttestationKeys:
    """Keys of one class of the attestation."""
    return KeyRing(
        directory, cls, circuit, open_backend, lambda backend: rehearse(backend, open_engine(cls), default_group())
    )


def block_keys(
    directory: Path, cls: EstimateClass, circuit: Callable[[], Path], open_backend: Callable[[Path], BlockBackend]
) -> BlockKeys:
    """Keys of one size of the estimate's circuit."""
    return KeyRing(directory, cls, circuit, open_backend, lambda backend: rehearse_block(backend, default_group()))


def thinning_keys(
    directory: Path, cls: ThinningClass, circuit: Callable[[], Path], open_backend: Callable[[Path], ThinningBackend]
) -> ThinningKeys:
    """Keys of one size of the thinning's circuit."""
    return KeyRing(directory, cls, circuit, open_backend, lambda backend: rehearse_thinning(backend, default_group()))
