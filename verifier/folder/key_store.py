# SPDX-License-Identifier: GPL-3.0-or-later
"""The keys that an auditor believes in: keys.json, signed by its identity, and the folders of keys beside it."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeVar

from ragseal.circuits.circuit import Shape
from ragseal.groth16.keys import (
    VKEY,
    ZKEY,
    EstimateView,
    KeyPaths,
    KeyView,
    ThinningView,
    install_key,
    load_key,
    read_key,
)
from ragseal.kernel import signature
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.kernel.estimate_class import CLASSES, EstimateClass
from ragseal.kernel.signature import SigningKey
from ragseal.kernel.thinning_class import ThinningClass
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.verifier.base.builds import Builds
from ragseal.verifier.base.files import locked, read_json, write
from ragseal.verifier.evidence.evidence import CEREMONY, UNKNOWN, ConfiguredKey
from ragseal.verifier.folder.key_entries import KEYS_FILE, KeyEntry

KEYS = "keys"  #: folder of key folders
THINNING = "thinning-"  #: how names of the thinning circuit's sizes begin

C = TypeVar("C")
V = TypeVar("V")


class KeyStore:
    """The configured keys of an auditor's folder."""

    def __init__(self, directory: Path, identity: SigningKey) -> None:
        self.directory, self.identity = directory, identity

    @property
    def public_key(self) -> bytes:
        return signature.public_bytes(self.identity)

    def key_entries(self) -> list[KeyEntry]:
        """Every configured key.  Raises ConfigurationError: keys.json is damaged."""
        values = read_json(self.directory / KEYS_FILE, [])
        if not isinstance(values, list):
            raise ConfigurationError(f"{KEYS_FILE} is damaged: a list is expected")
        return [KeyEntry.read(value) for value in values]

    def add_key(self, line: KeyEntry) -> None:
        """Configure a key under this folder's signature; the same digest again replaces its entry.

        Raises:
            ConfigurationError: the key is configured with another origin (to change who made a key, remove its entry).
        """
        with locked(self.directory, KEYS_FILE):
            lines = self.key_entries()
            self.check_origin(line.key_digest, line.made_by, lines)
            kept = [other for other in lines if other.key_digest != line.key_digest]
            kept.append(line.signed(self.identity))
            data = json.dumps([asdict(entry) for entry in kept], indent=1).encode() + b"\n"
            write(self.directory / KEYS_FILE, data)

    def check_origin(self, key_digest: str, made_by: str, lines: Sequence[KeyEntry] | None = None) -> None:
        """A key may be configured as made by this party.  Raises ConfigurationError: it is another's already."""
        for other in self.key_entries() if lines is None else lines:
            maker = other.maker(self.public_key)
            if other.key_digest == key_digest and maker not in (UNKNOWN, made_by):
                raise ConfigurationError(
                    f"key {key_digest[:16]} is configured as made by {other.made_by!r}; keys do not change "
                    f"hands: remove its entry from {self.directory / KEYS_FILE} first if that was wrong"
                )

    def key_path(self, line: KeyEntry) -> Path:
        """The key's folder, or its verifying_key.bin."""
        return self.directory / line.path

    def proving_key(self, digest: bytes) -> Path:
        """The .zkey of a configured key.  Raises ConfigurationError: not configured, or only its verifying half is."""
        for line in self.key_entries():
            path = self.key_path(line) / ZKEY
            if line.digest == digest and path.is_file():
                return path
        raise ConfigurationError(f"this auditor holds no proving key {digest.hex()[:16]}: ListKeys says which it does")

    def import_key(
        self, source: Path, cls: Shape, class_digest: bytes, expected: bytes, made_by: str, ceremony: str = ""
    ) -> KeyEntry:
        """Copy a key of somebody else (.zkey, key folder or verifying_key.bin) here and configure it.

        Args:
            ceremony: of a ceremony's key, what it is taken for (:attr:`KeyEntry.ceremony`).

        Raises:
            ConfigurationError: the file's key has another digest than ``expected``, or cannot be read.
            ProofError: the key is malformed or of another class.
        """
        file = source if source.is_file() else source / (ZKEY if (source / ZKEY).is_file() else VKEY)
        if file.suffix == ".zkey":
            part = self.directory / KEYS / f"import-{expected.hex()[:16]}-{os.getpid()}.zkey.part"
            try:
                shutil.copyfile(file, part)
                paths = install_key(part, cls, self.directory / KEYS)
            except OSError as error:
                raise ConfigurationError(f"cannot copy {file}: {why(error, file)}") from None
            finally:
                part.unlink(missing_ok=True)
        else:
            paths = self._import_verifying(file, cls)
        if paths.digest != expected:
            raise ConfigurationError(
                f"{file} holds the key {paths.digest.hex()}, not the one that you named: it was not trusted"
            )
        line = replace(self.line_of(paths, cls, class_digest, made_by), ceremony=ceremony)
        self.add_key(line)
        return line

    def _import_verifying(self, file: Path, cls: Shape) -> KeyPaths:
        view = read_key(file, cls)
        folder = self.directory / KEYS / f"{cls.name}-{view.digest.hex()[:24]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_durably(folder / VKEY, file.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"cannot copy {file}: {why(error, file)}") from None
        return KeyPaths(folder, view.digest)

    def line_of(self, paths: KeyPaths, cls: Shape, class_digest: bytes, made_by: str) -> KeyEntry:
        """The keys.json entry of a key folder, by a relative path where it lies inside this folder."""
        inside = paths.directory.resolve().is_relative_to(self.directory.resolve())
        path = paths.directory.resolve().relative_to(self.directory.resolve()) if inside else paths.directory.resolve()
        return KeyEntry(paths.digest.hex(), cls.name, class_digest.hex(), made_by, str(path))

    def configured(self, classes: Builds[AttestationClass]) -> dict[bytes, ConfiguredKey[KeyView]]:
        """Configured keys as an audit takes them; a key is loaded when it is asked for."""

        def loader(line: KeyEntry) -> Callable[[], KeyView]:
            def load() -> KeyView:
                own = classes.get(line.class_name)
                if own is None:
                    raise ConfigurationError(
                        f"key {line.key_digest[:16]} is of class {line.class_name!r}, unknown here"
                    )
                return load_key(self.key_path(line), own[0])

            return load

        return {
            line.digest: self._configured(line, loader(line))
            for line in self.key_entries()
            if line.class_name not in CLASSES and not line.class_name.startswith(THINNING)
        }

    def thinnings(self, sizes: Builds[ThinningClass]) -> dict[bytes, ConfiguredKey[ThinningView]]:
        """Configured keys of the thinning's circuit as it is built here, by digest."""

        def loader(line: KeyEntry) -> Callable[[], ThinningView]:
            return lambda: load_key(self.key_path(line), sizes[line.class_name][0])

        return {line.digest: self._configured(line, loader(line)) for line in self._entries_of(sizes)}

    def estimates(self, sizes: Builds[EstimateClass]) -> tuple[ConfiguredKey[EstimateView], ...]:
        """Configured keys of the estimate's circuit as it is built here, the one added last first."""

        def loader(line: KeyEntry) -> Callable[[], EstimateView]:
            return lambda: load_key(self.key_path(line), sizes[line.class_name][0])

        return tuple(self._configured(line, loader(line)) for line in reversed(self._entries_of(sizes)))

    def _configured(self, line: KeyEntry, load: Callable[[], V]) -> ConfiguredKey[V]:
        """A line of keys.json as an audit takes it."""
        digest = bytes.fromhex(line.class_digest)
        maker = line.maker(self.public_key)
        known = line.participants if maker == CEREMONY else ()

        def intact() -> V:
            try:
                return load()
            except ProofError as error:  # this auditor's own file: no provider can mend it
                raise ConfigurationError(
                    f"the key file in {self.key_path(line)} is damaged ({error}): restore it from a backup, or trust "
                    "the key again"
                ) from None

        return ConfiguredKey(line.digest, line.class_name, digest, maker, intact, known)

    def _entries_of(self, sizes: Builds[Any]) -> list[KeyEntry]:
        """Keys of these sizes of a circuit, as they are built here."""
        return [
            line
            for line in self.key_entries()
            if line.class_name in sizes and sizes[line.class_name][1].hex() == line.class_digest
        ]
