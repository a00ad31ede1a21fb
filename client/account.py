# SPDX-License-Identifier: GPL-3.0-or-later
"""An account's key and its local memory: what it must not lose between two queries.

One folder, mode 0700, for one account::

    account, account.pem        name and Ed25519 key (0600, refused when others may read it)
    log.vkey, provider.pub      pinned on first contact or by hand; another one later is refused
    log.turns, *.turn-proof     turns of the log's key that are known, and what each was believed by
    checkpoint                  the newest verified checkpoint of the log
    windows/<manifest digest>/  manifest, account; pending, refused, settled; 00000001.exchange, 00000001.answer, ...
    evidence/                   bundles of failed checks

A file is there completely or not at all (:mod:`ragseal.runtime.durable`).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client.folder import intact, read, text, write
from ragseal.client.window import WINDOWS, WindowState, windows_of
from ragseal.kernel import signature
from ragseal.kernel.commitment import Account, SignedManifest
from ragseal.kernel.encoding import NAME, Codec, Message
from ragseal.kernel.errors import CommitmentError, ConfigurationError, EncodingError
from ragseal.kernel.signature import SigningKey
from ragseal.ledger.checkpoint import SignedCheckpoint, recall
from ragseal.ledger.named_log import named_log
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.turns import KeptTurns, LogKey
from ragseal.runtime.durable import DirectoryLock, sync_directory
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.keyfile import load_key, save_key

KEY_FILE = "account.pem"
TURNS_FILE = "log.turns"
TURN_PROOF = ".turn-proof"  #: ends the name of a file with a proof of a turn
_NAME_FILE, _LOG_FILE, PROVIDER_FILE, _CHECKPOINT_FILE = "account", "log.vkey", "provider.pub", "checkpoint"


@dataclass(frozen=True, slots=True)
class AccountKey:
    """An account's Ed25519 key.  Its representation shows the public half only."""

    private: SigningKey

    def __repr__(self) -> str:
        return f"AccountKey(public={self.public.hex()})"

    @property
    def public(self) -> bytes:
        """32 bytes."""
        return signature.public_bytes(self.private)

    def sign(self, purpose: str, body: bytes) -> bytes:
        """64-byte signature for one purpose."""
        return signature.sign(self.private, purpose, body)

    @classmethod
    def create(cls, path: Path) -> AccountKey:
        """Make a key from the system's randomness and write it, 0600, in one step.

        Raises:
            ConfigurationError: the file exists (a key is never overwritten) or cannot be written.
        """
        key = Ed25519PrivateKey.generate()
        save_key(path, key)
        return cls(key)

    @classmethod
    def load(cls, path: Path) -> AccountKey:
        """Read a key file.

        Raises:
            ConfigurationError: missing, open to group or others, or no Ed25519 key.
        """
        return cls(load_key(path))


@dataclass(frozen=True, slots=True)
class _Name(Message):
    TAG: ClassVar[str] = "account-name"
    CODECS: ClassVar[Sequence[Codec]] = (NAME,)

    name: str


class AccountState:
    """An account's folder, opened by one process at a time."""

    def __init__(self, directory: Path) -> None:
        """Open an existing folder.

        Raises:
            ConfigurationError: no account there, damaged files, or a folder that other users may enter.
            LedgerError: another process uses it.
        """
        self.directory = directory
        self.name = read_name(directory)
        _refuse_open_folder(directory)
        self._lock = DirectoryLock(directory, "the account's state")
        try:
            self.key = AccountKey.load(directory / KEY_FILE)
        except BaseException:
            self._lock.release()
            raise

    @staticmethod
    def create(directory: Path, name: str) -> AccountKey:
        """Make a folder (0700) with a new key for account ``name``; returns the key.

        The name is written first and the key last, so that whatever this left unfinished it finishes: a folder without
        a key is no account yet, and a key without a name (as earlier versions could leave one) gets its name.

        Raises:
            LedgerError: another process makes one there.
            ConfigurationError: an account is there already, a name that no registry could hold, or the disk refuses.
        """
        try:
            _Name(name).encode()
        except EncodingError as error:
            raise ConfigurationError(f"account name: {error}") from None
        try:
            directory.mkdir(mode=0o700, parents=True, exist_ok=True)
            _refuse_open_folder(directory)
        except OSError as error:
            raise ConfigurationError(f"cannot make the account folder {directory}: {why(error, directory)}") from None
        lock = DirectoryLock(directory, "the account's state")
        try:
            has_key = (directory / KEY_FILE).exists()
            if has_key and (directory / _NAME_FILE).exists():
                raise ConfigurationError(f"{directory} holds an account already: its key is never overwritten")
            key = AccountKey.load(directory / KEY_FILE) if has_key else None
            write(directory / _NAME_FILE, name.encode() + b"\n")
            return key or AccountKey.create(directory / KEY_FILE)
        finally:
            lock.release()

    @property
    def evidence(self) -> Path:
        return self.directory / "evidence"

    def close(self) -> None:
        self._lock.release()

    def __enter__(self) -> AccountState:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # --- pins ---

    def log_key(self) -> NoteVerifier | None:
        """The pinned log key with the turns that are known; None before first contact.

        Raises:
            ConfigurationError: damaged file.
        """
        data = read(self.directory / _LOG_FILE)
        return (
            None
            if data is None
            else turned(intact(lambda: NoteVerifier.from_vkey(text(data)), _LOG_FILE), self.directory)
        )

    def keep_turns(self, log: LogKey, proofs: Sequence[bytes] = ()) -> None:
        """Keep the turns of the pinned log's key beside it, before anything is believed by them.

        ``proofs``: encoded, kept first, each in a file of its own digest.  They say what this account was shown.
        """
        for proof in proofs:
            write(self.directory / f"{hashlib.sha256(proof).hexdigest()[:32]}{TURN_PROOF}", proof)
        write(self.directory / TURNS_FILE, KeptTurns(log.turns).encode())

    def pin_log(self, vkey: str) -> NoteVerifier:
        """Pin the log key (text form, ``name+id+base64``): for good once anything was checked with it.

        Raises:
            EncodingError: malformed.
            ConfigurationError: another key is pinned.
        """
        verifier = named_log(vkey)
        pinned = self.log_key()
        if pinned is None or (pinned.keys[0] != verifier and self._unproven()):
            write(self.directory / _LOG_FILE, verifier.vkey().encode() + b"\n")
        elif pinned.keys[0] != verifier:
            raise ConfigurationError(
                f"this account has pinned the log key {pinned.vkey()}, not {verifier.vkey()}: "
                "for another log use another folder"
            )
        else:
            return pinned
        return verifier

    def provider_key(self) -> bytes | None:
        """The pinned provider key, 32 bytes; None before first contact.  Raises ConfigurationError: damaged file."""
        data = read(self.directory / PROVIDER_FILE)
        if data is None:
            return None
        try:
            key = bytes.fromhex(text(data))
        except ValueError:
            key = b""
        if len(key) != 32:
            raise ConfigurationError(f"{self.directory / PROVIDER_FILE} is damaged: it holds no 32-byte key in hex")
        return key

    def pin_provider(self, key: bytes) -> None:
        """Pin the provider key, for good as the log key.  Raises CommitmentError when another one is pinned."""
        pinned = self.provider_key()
        if pinned is None or (pinned != key and self._unproven()):
            write(self.directory / PROVIDER_FILE, key.hex().encode() + b"\n")
        elif pinned != key:
            raise CommitmentError(f"this account has pinned the provider key {pinned.hex()}, not {key.hex()}")

    def _unproven(self) -> bool:
        """Whether nothing was ever verified under the pins: a mistyped key may be put right."""
        return read(self.directory / _CHECKPOINT_FILE) is None and not self.windows()

    # --- the log ---

    def checkpoint(self, log: NoteVerifier | None = None) -> SignedCheckpoint | None:
        """The newest checkpoint this account has verified.  Raises ConfigurationError: damaged file or no log key.

        ``log``: the log's key with turns that are not kept yet; by default with those that are.
        """
        data = read(self.directory / _CHECKPOINT_FILE)
        if data is None:
            return None
        log = log or self.log_key()
        if log is None:
            raise ConfigurationError(f"{self.directory} holds a checkpoint but no log key: restore {_LOG_FILE}")
        return intact(lambda: recall(data, log), _CHECKPOINT_FILE)

    def remember_checkpoint(self, note: bytes) -> None:
        """Replace the remembered checkpoint by a larger, verified and consistent one."""
        write(self.directory / _CHECKPOINT_FILE, note)

    # --- windows ---

    def window(self, signed: SignedManifest, account: Account) -> WindowState:
        """The memory of a window, made and pinned on first sight.

        Raises:
            CommitmentError: this account knows another manifest under the same log and window name.
        """
        digest = signed.manifest.digest()
        for known in self.windows():
            other = known.manifest
            if (other.log, other.window) == (signed.manifest.log, signed.manifest.window) and (known.digest != digest):
                raise CommitmentError(
                    f"two manifests for window {other.window!r}: this account has pinned {known.digest.hex()}, the "
                    f"provider now shows {digest.hex()}"
                )
        folder = self.directory / WINDOWS / digest.hex()
        if not (folder / "manifest").exists():
            try:
                folder.mkdir(mode=0o700, parents=True, exist_ok=True)
                sync_directory(folder.parent)
            except OSError as error:
                raise ConfigurationError(f"cannot make {folder}: {why(error, folder)}") from None
            write(folder / "account", account.encode())
            write(folder / "manifest", signed.encode())
        return WindowState(folder)

    def windows(self) -> list[WindowState]:
        """Every window this account has used, by opening time."""
        return windows_of(self.directory)


def turned(log: NoteVerifier, directory: Path) -> NoteVerifier:
    """A log's key with the turns that are kept in an account's folder."""
    data = read(directory / TURNS_FILE)
    return log if data is None else intact(lambda: LogKey.of(log, KeptTurns.decode(data).turns), TURNS_FILE)


def read_name(directory: Path) -> str:
    """The account name of a folder.  Raises ConfigurationError: no account there, or a damaged file."""
    data = read(directory / _NAME_FILE)
    if data is None:
        raise ConfigurationError(
            f"{directory} holds no account: make one with `ragseal-client keygen --state {directory} --account NAME`"
        )
    name = text(data)
    intact(lambda: _Name(name).encode(), _NAME_FILE)
    return name


def _refuse_open_folder(directory: Path) -> None:
    status = os.stat(directory)
    if not stat.S_ISDIR(status.st_mode) or status.st_mode & 0o077:
        raise ConfigurationError(f"{directory} is open to other users: run chmod 700 on it")
