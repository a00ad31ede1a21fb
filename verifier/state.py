# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor's folder: identity, beacon nonces, remembered checkpoints, and the verifying keys it believes in.

    identity.pem            Ed25519 key that the auditor takes part in beacons with (0600)
    keys.json               configured keys: digest, class, who made them, where they lie, signed by the identity
    keys/                   key folders, as :mod:`ragseal.groth16.keys` writes them
    nonces/<manifest>.json  one beacon nonce a manifest and its time, on disk before its commitment leaves (0600)
    nonces/<manifest>.beacon the one beacon that the nonce was released for, on disk before the nonce leaves (0600)
    samples/<manifest>-<log>.json one nonce a manifest in a log that samples are drawn with, on disk before a proof is
                            asked for (0600)
    links/<manifest>.bin    the first signed list of links of a window, on disk before a block is asked for
    checkpoints/<log>.note  the newest checkpoint seen of a log
    verdicts/<manifest>-<log>.json what was found of a window in a log (:mod:`ragseal.verifier.verdicts`)
    reports/<audit>/        reports of audits that were asked for over the wire, the newest ones

Every file is there completely or not at all.  A nonce is never drawn twice for a manifest and a checkpoint is never
replaced by a smaller one, whatever process is asked.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

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
from ragseal.kernel.certificate import CLASSES, EstimateClass
from ragseal.kernel.errors import AuditError, CommitmentError, ConfigurationError
from ragseal.kernel.params import CircuitClass
from ragseal.kernel.thinning import ThinningClass
from ragseal.ledger.checkpoint import SignedCheckpoint, open_checkpoint
from ragseal.ledger.note import NoteVerifier
from ragseal.runtime.durable import write_durably
from ragseal.runtime.keyfile import load_key as load_identity
from ragseal.runtime.keyfile import save_key as save_identity
from ragseal.verifier.evidence import UNKNOWN, Auditor, ConfiguredKey, Undecided
from ragseal.verifier.files import locked, read_json, write
from ragseal.verifier.key_entries import KEYS_FILE, KeyEntry, read_digest
from ragseal.verifier.steps.log import LogTree
from ragseal.verifier.verdicts import Verdicts

IDENTITY, KEYS, NONCES, CHECKPOINTS = "identity.pem", "keys", "nonces", "checkpoints"
THINNING = "thinning-"  #: how names of the thinning circuit's sizes begin
SAMPLES, LINKS, BEACON = "samples", "links", ".beacon"

C = TypeVar("C")
V = TypeVar("V")
Builds = Mapping[str, tuple[C, bytes]]  #: name -> class of a circuit as it is built here, digest


class State:
    """An auditor's folder that exists.

    Raises:
        ConfigurationError: no such folder, or a damaged file in it.
    """

    def __init__(self, directory: Path) -> None:
        if not (directory / IDENTITY).is_file():
            raise ConfigurationError(f"{directory} is no auditor's folder: make one with `ragseal-verifier init`")
        self.directory = directory
        self.identity: Ed25519PrivateKey = load_identity(directory / IDENTITY)

    @classmethod
    def create(cls, directory: Path, identity: Ed25519PrivateKey) -> State:
        """A new folder with this identity; an existing one is left alone.

        Raises:
            ConfigurationError: there is an identity already, or the disk refuses.
        """
        if (directory / IDENTITY).exists():
            raise ConfigurationError(f"{directory} is an auditor's folder already: choose another one with --state")
        try:
            for folder in (directory, directory / KEYS, directory / NONCES, directory / CHECKPOINTS):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"cannot make {directory}: {error.strerror}") from None
        save_identity(directory / IDENTITY, identity)
        return cls(directory)

    @property
    def public_key(self) -> bytes:
        return signature.public_bytes(self.identity)

    # --- keys ---

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
            for other in lines:
                maker = other.maker(self.public_key)
                if other.key_digest == line.key_digest and maker not in (UNKNOWN, line.made_by):
                    raise ConfigurationError(
                        f"key {line.key_digest[:16]} is configured as made by {other.made_by!r}; keys do not change "
                        f"hands: remove its entry from {self.directory / KEYS_FILE} first if that was wrong"
                    )
            kept = [other for other in lines if other.key_digest != line.key_digest]
            kept.append(line.signed(self.identity))
            data = json.dumps([asdict(entry) for entry in kept], indent=1).encode() + b"\n"
            write(self.directory / KEYS_FILE, data)

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

    def import_key(self, source: Path, cls: Shape, class_digest: bytes, expected: bytes, made_by: str) -> KeyEntry:
        """Copy a key of somebody else (.zkey, key folder or verifying_key.bin) here and configure it.

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
                raise ConfigurationError(f"cannot copy {file}: {error.strerror}") from None
            finally:
                part.unlink(missing_ok=True)
        else:
            paths = self._import_verifying(file, cls)
        if paths.digest != expected:
            raise ConfigurationError(
                f"{file} holds the key {paths.digest.hex()}, not the one that you named: it was not trusted"
            )
        line = self.line_of(paths, cls, class_digest, made_by)
        self.add_key(line)
        return line

    def _import_verifying(self, file: Path, cls: Shape) -> KeyPaths:
        view = read_key(file, cls)
        folder = self.directory / KEYS / f"{cls.name}-{view.digest.hex()[:24]}"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            write_durably(folder / VKEY, file.read_bytes())
        except OSError as error:
            raise ConfigurationError(f"cannot copy {file}: {error.strerror}") from None
        return KeyPaths(folder, view.digest)

    def line_of(self, paths: KeyPaths, cls: Shape, class_digest: bytes, made_by: str) -> KeyEntry:
        """The keys.json entry of a key folder, by a relative path where it lies inside this folder."""
        inside = paths.directory.resolve().is_relative_to(self.directory.resolve())
        path = paths.directory.resolve().relative_to(self.directory.resolve()) if inside else paths.directory.resolve()
        return KeyEntry(paths.digest.hex(), cls.name, class_digest.hex(), made_by, str(path))

    def configured(self, classes: Builds[CircuitClass]) -> dict[bytes, ConfiguredKey[KeyView]]:
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
        return ConfiguredKey(line.digest, line.class_name, digest, line.maker(self.public_key), load)

    def _entries_of(self, sizes: Builds[Any]) -> list[KeyEntry]:
        """Keys of these sizes of a circuit, as they are built here."""
        return [
            line
            for line in self.key_entries()
            if line.class_name in sizes and sizes[line.class_name][1].hex() == line.class_digest
        ]

    def first_links(self, manifest: bytes, signed: bytes) -> bytes:
        """The list of links that was seen first for a window: the one on disk, else this one, durable when known.

        Raises:
            ConfigurationError: the disk refuses; no block is asked for then.
        """
        path = self.directory / LINKS / f"{manifest.hex()}.bin"
        try:
            path.parent.mkdir(mode=0o700, exist_ok=True)
            with suppress(FileExistsError):
                write_durably(path, signed, mode=0o600, replace=False)
            return path.read_bytes()
        except OSError as error:
            raise ConfigurationError(f"cannot keep {path}: {error.strerror}; no block is asked for") from None

    # --- beacon nonces ---

    def nonce(self, manifest: bytes) -> bytes | None:
        """The nonce drawn for a manifest, None if none was.  Raises ConfigurationError: its file is damaged."""
        return _read_nonce(self._nonce_path(manifest), manifest)

    def draw_nonce(self, manifest: bytes, fresh: bytes, window: str, now: int) -> bytes:
        """The nonce of a manifest: the one on disk if there is one, else ``fresh``, durable before this returns.

        ``now``, seconds since 1970, is kept beside it: what follows the nonce in the log is no older.
        """
        return self._keep_nonce(self._nonce_path(manifest), manifest, fresh, window=window, drawn_at=now)

    def release(self, manifest: bytes, beacon: int) -> int:
        """The only beacon that a manifest's nonce is released for: the one on disk, else this one, durable before.

        Raises:
            ConfigurationError: the disk refuses, or the file is damaged; the nonce is not released then.
        """
        path = self._nonce_path(manifest).with_suffix(BEACON)
        try:
            with suppress(FileExistsError):
                write_durably(path, b"%064x\n" % beacon, mode=0o600, replace=False)
        except OSError as error:
            raise ConfigurationError(f"cannot write {path}: {error.strerror}; the nonce is not released") from None
        return _read_beacon(path)

    def sample_nonce(self, log: NoteVerifier, seen: LogTree, manifest: bytes, fresh: bytes) -> bytes:
        """The nonce of every sample of a window: the one on disk, else ``fresh``; the log as seen is remembered first.

        Both are durable before this returns, so a provider that breaks off an audit gains neither another sample nor
        another log.  One nonce for each key of a log: a report tells the nonce, and the provider could replay the
        window in a log of another key, of which the sample would be known beforehand.

        Raises:
            Forked: the log forks from what is remembered.
            Undecided: another process has just seen a longer one, which nobody has held this log against.
        """
        if self.remember(log, seen).checkpoint.size > seen.size:
            raise Undecided("the log grew while the sample was drawn", "audit again")
        folder = self.directory / SAMPLES
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"cannot make {folder}: {error.strerror}; no sample is drawn") from None
        path = folder / f"{manifest.hex()}-{_short(log)}.json"
        if not path.exists():
            fresh = self._earlier_sample(log, manifest) or fresh
        return self._keep_nonce(path, manifest, fresh, log=log.vkey())

    def _earlier_sample(self, log: NoteVerifier, manifest: bytes) -> bytes | None:
        """The nonce of an earlier version, whose file did not name the log; only where it can be of no other log.

        Before it drew one that version remembered the log's checkpoint too.
        """
        if [one.name for one in (self.directory / CHECKPOINTS).glob("*.note")] != [self._checkpoint_path(log).name]:
            return None
        return _read_nonce(self.directory / SAMPLES / f"{manifest.hex()}.json", manifest)

    def _keep_nonce(self, path: Path, manifest: bytes, fresh: bytes, **beside: str | int) -> bytes:
        data = json.dumps({**beside, "manifest": manifest.hex(), "nonce": fresh.hex()}, indent=1).encode()
        try:
            write_durably(path, data, mode=0o600, replace=False)
        except FileExistsError:
            pass
        except OSError as error:
            raise ConfigurationError(f"cannot write {path}: {error.strerror}; the nonce is not used") from None
        stored = _read_nonce(path, manifest, beside.get("log"))
        if stored is None:
            raise ConfigurationError(f"{path} vanished while it was written")
        return stored

    def nonces(self) -> dict[bytes, bytes]:
        """Every nonce by manifest digest."""
        out: dict[bytes, bytes] = {}
        for path in sorted((self.directory / NONCES).glob("*.json")):
            manifest = read_digest(path.stem)
            nonce = self.nonce(manifest)
            if nonce is not None:
                out[manifest] = nonce
        return out

    def drawn(self) -> dict[bytes, int]:
        """By manifest digest, when its nonce was drawn, in seconds since 1970."""
        out: dict[bytes, int] = {}
        for path in sorted((self.directory / NONCES).glob("*.json")):
            at = read_json(path, {}).get("drawn_at", 0)
            if not isinstance(at, int):
                raise ConfigurationError(f"{path} is damaged: drawn_at is no time")
            out[read_digest(path.stem)] = at
        return out

    def beacons(self) -> dict[bytes, int]:
        """By manifest digest, the beacon that its nonce was released for."""
        return {read_digest(p.stem): _read_beacon(p) for p in sorted((self.directory / NONCES).glob(f"*{BEACON}"))}

    def _nonce_path(self, manifest: bytes) -> Path:
        return self.directory / NONCES / f"{manifest.hex()}.json"

    # --- checkpoints ---

    def remembered(self, log: NoteVerifier) -> SignedCheckpoint | None:
        """The newest checkpoint seen of a log.  Raises ConfigurationError: its file is damaged."""
        path = self._checkpoint_path(log)
        try:
            return open_checkpoint(path.read_bytes(), log)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None
        except AuditError as error:
            raise ConfigurationError(f"{path} is damaged ({error}): restore it from a copy") from None

    def remember(self, log: NoteVerifier, seen: LogTree) -> SignedCheckpoint:
        """Remember a log's checkpoint once it is found to continue the remembered one, whoever remembered that.

        Returns:
            What is remembered now.  If that is larger than the log that was seen, another process has seen more, and
            nothing says yet that both are one log: :func:`ragseal.verifier.steps.log.catch_up`.

        Raises:
            Forked: the log does not continue what is remembered.
        """
        path = self._checkpoint_path(log)
        with locked(self.directory, path.name):
            known = self.remembered(log)
            if known is not None:
                if known.checkpoint.size > seen.size:
                    return known
                seen.extends(known, "the checkpoint that this auditor remembers")
            if known is None or known.checkpoint.size < seen.size:
                write(path, seen.signed.note.encode())
        return seen.signed

    def _checkpoint_path(self, log: NoteVerifier) -> Path:
        return self.directory / CHECKPOINTS / f"{_short(log)}.note"

    # --- all together ---

    def auditor(
        self,
        log: NoteVerifier,
        classes: Builds[CircuitClass],
        sizes: Builds[EstimateClass] | None = None,
        thinnings: Builds[ThinningClass] | None = None,
    ) -> Auditor:
        """What an audit of a log believes."""

        def sample_nonce(seen: LogTree, manifest: bytes, fresh: bytes) -> bytes:
            return self.sample_nonce(log, seen, manifest, fresh)

        return Auditor(
            log,
            classes,
            self.configured(classes),
            self.public_key,
            self.nonces(),
            self.beacons(),
            self.drawn(),
            self.remembered(log),
            sample_nonce,
            lambda seen: self.remember(log, seen),
            self.estimates(sizes or {}),
            self.thinnings(thinnings or {}),
            self.first_links,
            lambda ask: ask.sign(self.identity),
            Verdicts(self.directory, log).neighbours,
        )


def _short(log: NoteVerifier) -> str:
    """A log's key in the name of a file."""
    return hashlib.sha256(log.vkey().encode()).hexdigest()[:32]


def _read_nonce(path: Path, manifest: bytes, log: str | int | None = None) -> bytes | None:
    values = read_json(path, None)
    if values is None:
        return None
    if not isinstance(values, dict) or not isinstance(values.get("nonce"), str):
        raise ConfigurationError(f"{path} is damaged: the window cannot be audited without it")
    # After a restore under a wrong name it is another window's or log's, and may be known already.
    if (values.get("manifest"), values.get("log")) != (manifest.hex(), log):
        raise ConfigurationError(f"{path} holds the nonce of another window: restore the right file")
    return read_digest(values["nonce"])


def _read_beacon(path: Path) -> int:
    try:
        return int.from_bytes(read_digest(path.read_text(encoding="ascii").strip()))
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {error.strerror}") from None
    except (ConfigurationError, UnicodeDecodeError):
        raise ConfigurationError(f"{path} is damaged: the window cannot be audited without it") from None


def find_class(classes: Builds[CircuitClass], name: str) -> tuple[CircuitClass, bytes]:
    """A class of this build.  Raises CommitmentError: names the ones that there are."""
    if name not in classes:
        raise CommitmentError(f"no circuit class {name!r}: this build has {', '.join(sorted(classes))}")
    return classes[name]
