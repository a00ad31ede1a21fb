# SPDX-License-Identifier: GPL-3.0-or-later
"""The auditor's folder: identity, beacon nonces, remembered checkpoints, and the verifying keys it believes in.

    identity.pem            Ed25519 key that the auditor takes part in beacons with (0600)
    keys.json               configured keys: digest, class, who made them, where they lie, signed by the identity
    keys/                   key folders, as :mod:`ragseal.groth16.keys` writes them
    nonces/<manifest>.json  one beacon nonce a manifest and its time, on disk before its commitment leaves (0600)
    nonces/<manifest>.sealed what the nonce was released for, on disk before it leaves (0600)
    samples/<manifest>-<log>.json one nonce a manifest in a log that samples are drawn with, on disk before a proof is
                            asked for (0600)
    links/<manifest>.bin    the first signed list of links of a window, on disk before a block is asked for
    checkpoints/<log>.note  the newest checkpoint seen of a log
    verdicts/<manifest>-<log>.json what was found of a window in a log (:mod:`ragseal.verifier.folder.verdicts`)
    verdict-log/            the log of all verdicts, public, with a key of its own (:mod:`ragseal.verifier.signed.log`)
    reports/<audit>/        reports of audits that were asked for over the wire, the newest ones

Every file is there completely or not at all.  A nonce is never drawn twice for a manifest and a checkpoint is never
replaced by a smaller one, whatever process is asked.
"""

from __future__ import annotations

import hashlib
import json
from contextlib import suppress
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.kernel.estimate_class import EstimateClass
from ragseal.kernel.thinning_class import ThinningClass
from ragseal.ledger.checkpoint import SignedCheckpoint, recall
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.turns import KeptTurns, LogKey, TurnedTwiceError, TurnError, refuse_contradiction
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.keyfile import load_key as load_identity
from ragseal.runtime.keyfile import save_key as save_identity
from ragseal.verifier.base.builds import Builds
from ragseal.verifier.base.files import locked, read_json, write
from ragseal.verifier.evidence.evidence import Auditor, Undecided
from ragseal.verifier.folder.key_entries import read_digest
from ragseal.verifier.folder.key_store import KEYS, KeyStore
from ragseal.verifier.folder.verdicts import Verdicts
from ragseal.verifier.steps.log import LogTree
from ragseal.verifier.steps.turns import TurnedTwice

IDENTITY, NONCES, CHECKPOINTS = "identity.pem", "nonces", "checkpoints"
SAMPLES, LINKS, SEALED = "samples", "links", ".sealed"


class State(KeyStore):
    """An auditor's folder that exists: its keys, and everything that it must never forget.

    Raises:
        ConfigurationError: no such folder, or a damaged file in it.
    """

    def __init__(self, directory: Path) -> None:
        if not (directory / IDENTITY).is_file():
            raise ConfigurationError(f"{directory} is not an auditor's folder: make one with `ragseal-verifier init`")
        super().__init__(directory, load_identity(directory / IDENTITY))

    @classmethod
    def create(cls, directory: Path, identity: Ed25519PrivateKey) -> State:
        """A new folder with this identity; an existing one is left alone.

        Raises:
            ConfigurationError: there is an identity already, or the disk refuses.
        """
        if (directory / IDENTITY).exists():
            key = signature.public_bytes(load_identity(directory / IDENTITY)).hex()  # shown once, and perhaps not seen
            raise ConfigurationError(
                f"{directory} is an auditor's folder already, of auditor key {key}: choose another one with --state"
            )
        try:
            for folder in (directory, directory / KEYS, directory / NONCES, directory / CHECKPOINTS):
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        except OSError as error:
            raise ConfigurationError(f"cannot make {directory}: {why(error, directory)}") from None
        save_identity(directory / IDENTITY, identity)
        return cls(directory)

    # --- links ---

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
            raise ConfigurationError(f"cannot keep {path}: {why(error, path)}; no block is asked for") from None

    # --- beacon nonces ---

    def nonce(self, manifest: bytes) -> bytes | None:
        """The nonce drawn for a manifest, None if none was.  Raises ConfigurationError: its file is damaged."""
        return _read_nonce(self._nonce_path(manifest), manifest)

    def draw_nonce(self, manifest: bytes, fresh: bytes, window: str, now: int) -> bytes:
        """The nonce of a manifest: the one on disk if there is one, else ``fresh``, durable before this returns.

        ``now``, seconds since 1970, is kept beside it: what follows the nonce in the log is no older.
        """
        return self._keep_nonce(self._nonce_path(manifest), manifest, fresh, window=window, drawn_at=now)

    def release(self, manifest: bytes, sealed: bytes) -> bytes:
        """The only seal that a manifest's nonce is released for: the one on disk, else this one, durable before.

        Args:
            sealed: its owners with their commitments (:func:`ragseal.kernel.beacon.seal_digest`), which is all that
                the beacon follows from.

        Raises:
            ConfigurationError: the disk refuses, or the file is damaged; the nonce is not released then.
        """
        path = self._nonce_path(manifest).with_suffix(SEALED)
        try:
            with suppress(FileExistsError):
                write_durably(path, b"%s\n" % sealed.hex().encode(), mode=0o600, replace=False)
        except OSError as error:
            raise ConfigurationError(f"cannot write {path}: {why(error, path)}; the nonce is not released") from None
        return _read_sealed(path)

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
            raise ConfigurationError(f"cannot make {folder}: {why(error, folder)}; no sample is drawn") from None
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
            raise ConfigurationError(f"cannot write {path}: {why(error, path)}; the nonce is not used") from None
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
                raise ConfigurationError(f"{path} is damaged: drawn_at is not a time")
            out[read_digest(path.stem)] = at
        return out

    def released(self) -> dict[bytes, bytes]:
        """By manifest digest, what its nonce was released for."""
        return {read_digest(p.stem): _read_sealed(p) for p in sorted((self.directory / NONCES).glob(f"*{SEALED}"))}

    def _nonce_path(self, manifest: bytes) -> Path:
        return self.directory / NONCES / f"{manifest.hex()}.json"

    # --- checkpoints ---

    def remembered(self, log: NoteVerifier) -> SignedCheckpoint | None:
        """The newest checkpoint seen of a log, of whose turns ``log`` may have more than are kept.

        Raises:
            ConfigurationError: its file is damaged.
        """
        path = self._checkpoint_path(log)
        try:
            return recall(path.read_bytes(), max(log, self.log_key(log), key=lambda one: len(one.keys)))
        except FileNotFoundError:
            return None
        except OSError as error:
            raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
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
                if known.checkpoint.size > seen.size and not known.void:  # a thief's note can be of any size
                    return known
                if known.checkpoint.size <= seen.size:
                    seen.extends(known, "the checkpoint that this auditor remembers")
            if known is None or known.void or known.checkpoint.size < seen.size:
                write(path, seen.signed.note.encode())
        return seen.signed

    def log_key(self, log: NoteVerifier) -> NoteVerifier:
        """A log's key with the turns that this auditor has seen.  Raises ConfigurationError: their file is damaged."""
        path = self._turns_path(log)
        try:
            return LogKey.of(log.keys[0], KeptTurns.decode(path.read_bytes()).turns)
        except FileNotFoundError:
            return log.keys[0]
        except OSError as error:
            raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
        except AuditError as error:
            raise ConfigurationError(f"{path} is damaged ({error}): restore it from a copy, or remove it") from None

    def keep_turns(self, log: LogKey) -> None:
        """Keep a log's turns beside what is remembered of it, unless another process has kept more.

        Raises:
            Refused: another process was shown another turn of one key.
            ConfigurationError: the disk refuses.
        """
        path = self._turns_path(log)
        with locked(self.directory, path.name):
            known = LogKey.of(self.log_key(log))
            for turn in log.turns:
                try:
                    refuse_contradiction(known, turn)
                except TurnedTwiceError as error:
                    raise TurnedTwice(error) from None
                except TurnError as error:
                    raise Undecided(str(error), "compare with other auditors, and audit again") from None
            if len(log.turns) > len(known.turns):
                write(path, KeptTurns(log.turns).encode())

    def _turns_path(self, log: NoteVerifier) -> Path:
        return self.directory / CHECKPOINTS / f"{_short(log)}.turns"

    def _checkpoint_path(self, log: NoteVerifier) -> Path:
        return self.directory / CHECKPOINTS / f"{_short(log)}.note"

    # --- all together ---

    def auditor(
        self,
        log: NoteVerifier,
        classes: Builds[AttestationClass],
        sizes: Builds[EstimateClass] | None = None,
        thinnings: Builds[ThinningClass] | None = None,
    ) -> Auditor:
        """What an audit of a log believes."""
        log = self.log_key(log)

        def sample_nonce(seen: LogTree, manifest: bytes, fresh: bytes) -> bytes:
            return self.sample_nonce(log, seen, manifest, fresh)

        return Auditor(
            log_key=log,
            classes=classes,
            keys=self.configured(classes),
            identity=self.public_key,
            nonces=self.nonces(),
            released=self.released(),
            drawn=self.drawn(),
            remembered=self.remembered(log),
            sample_nonce=sample_nonce,
            remember=lambda seen: self.remember(log, seen),
            keep_turns=self.keep_turns,
            estimates=self.estimates(sizes or {}),
            thinnings=self.thinnings(thinnings or {}),
            first_links=self.first_links,
            sign=lambda ask: ask.sign(self.identity),
            neighbours=Verdicts(self.directory, log).neighbours,
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
        raise ConfigurationError(f"{path} holds the nonce of a different window: restore the right file")
    return read_digest(values["nonce"])


def _read_sealed(path: Path) -> bytes:
    try:
        return read_digest(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
    except (ConfigurationError, UnicodeDecodeError):
        raise ConfigurationError(f"{path} is damaged: the window cannot be audited without it") from None
