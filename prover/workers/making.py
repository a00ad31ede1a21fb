# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker's side: keys by digest from its own disk, loaded once a process, and proofs of assignments."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragseal.circuits.build import build, default_cache
from ragseal.circuits.circuit import Shape, load_classes
from ragseal.groth16.provers import open_backend
from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.kernel.estimate_class import CLASSES
from ragseal.kernel.thinning_class import thinning_class
from ragseal.prover.keys.keyring import KeyRing
from ragseal.prover.workers.interface import MAX_FAILURE, Work, WorkResult
from ragseal.runtime.edges.filesystem import why

NICEST = 19  #: the lowest priority: whatever else runs on the machine comes first
_THINNING = "thinning-"


@dataclass(frozen=True, slots=True)
class PackedInputs:
    """The inputs of an assignment, for the native back end."""

    data: bytes

    def packed(self) -> bytes:
        return self.data

    def named(self, _: Any, /) -> dict[str, Any]:
        raise ConfigurationError("workers prove with the native module only: install it, or serve with --prove here")

    def __repr__(self) -> str:
        return "PackedInputs(...)"


def shape_named(name: str) -> Shape:
    """The class of a circuit by its name.  AuditError: there is none."""
    found: Shape | None = load_classes().get(name) or CLASSES.get(name)
    if found is None and name.startswith(_THINNING) and name[len(_THINNING) :].isascii():
        capacity = name[len(_THINNING) :]
        found = thinning_class(int(capacity)) if capacity.isdigit() and len(capacity) < 10 else None
    if found is None or found.name != name:
        raise ConfigurationError(f"this worker knows no circuit {name!r}: run the provider's release of ragseal")
    return found


class ProvingKeys:
    """The proving keys in a folder.  One thread at a time: a proof takes every core that the process has."""

    def __init__(self, directory: Path, progress: Callable[[str], None] = lambda _: None) -> None:
        """``directory``: as ``keys`` in a provider's state folder."""
        self._directory, self._progress = directory, progress
        self._rings: dict[str, KeyRing[Any, Any]] = {}

    def held(self) -> list[str]:
        """The folders of keys, which assignments name.

        Raises:
            ConfigurationError: the folder cannot be read.
        """
        try:
            return sorted(entry.name for entry in os.scandir(self._directory) if entry.is_dir())
        except OSError as error:
            raise ConfigurationError(
                f"cannot read the folder of keys {self._directory}: {why(error, self._directory)}"
            ) from None

    def prove(self, work: Work, worker: str) -> WorkResult:
        """A proof, or why this process cannot make it; never raises an AuditError."""
        try:
            name = work.circuit
            ring = self._rings.get(name) or ring_of(self._directory, shape_named(name), self._progress)
            backend = ring.backend(work.key)
            self._rings[name] = ring  # only now: who has the workers' key may name what is not here
            return WorkResult(worker, backend.prove(PackedInputs(work.inputs)), "")
        except AuditError as error:
            said = str(error).encode()[:MAX_FAILURE].decode(errors="ignore")
            return WorkResult(worker, b"", said or type(error).__name__)


def ring_of(directory: Path, cls: Any, progress: Callable[[str], None]) -> KeyRing[Any, Any]:
    """Keys of a class as a worker has them: it takes none in."""

    def circuit() -> Any:
        return build(cls, default_cache(), progress)

    return KeyRing(
        directory,
        cls,
        lambda: Path(circuit().r1cs),
        lambda folder: open_backend(circuit(), folder, None, "native"),
        lambda _: None,
    )
