# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider keeps on disk: one folder, one process, nothing half-written.

``state.db`` (SQLite, WAL, synchronous FULL, mode 0600) holds everything secret: documents, seeds, blinders, per-query
secrets and proofs; answers are made from those and the ledger whenever they are asked for.  ``ledger/`` is the public
log, ``windows/`` holds the matrices that manifests name, ``keys/`` the auditor's proving keys, ``provider.pem`` and
``log.pem`` the signing keys (of the log's there may be more: ``ledger/log_keys.py``).  The folder is locked while a
process uses it: two providers on one state would fork the ledger.
"""

from __future__ import annotations

import json
import os
import shutil
from dataclasses import dataclass, fields
from pathlib import Path

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.kernel.signature import SigningKey
from ragseal.ledger import log_keys
from ragseal.ledger.log import Log
from ragseal.ledger.log_keys import LOG_KEY_FILE
from ragseal.ledger.note import NoteSigner, check_name
from ragseal.prover.storage.database import DATABASE, Database, open_database
from ragseal.runtime import texts
from ragseal.runtime.durable import DirectoryLock, write_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.keyfile import load_key, save_key
from ragseal.runtime.shred import shred
from ragseal.runtime.token_key import TokenKey

SETTINGS, KEY_FILE = "provider.toml", "provider.pem"
NEXT = "provider.toml.next"  #: says that the class or the embedder is being changed
LEDGER = "ledger"
SEALED = "sealed"  #: marks a copy whose secrets are encrypted
STAGED = "state.db.copy"  #: the database of such a copy while it is made; plain before it is encrypted
COPY = "copy"  #: marks a copy that nobody has shown to be the newest: it enters nothing in its log (SPEC G.6.2)


@dataclass(frozen=True, slots=True)
class Settings:
    """What ``init`` fixes, and what only ``change`` changes (provider.toml)."""

    origin: str  #: name of the ledger
    class_name: str  #: circuit class
    embedder: str
    shards: int = 1  #: of the class, that every tenant's index is

    def encode(self) -> bytes:
        lines = [f"{f.name} = {json.dumps(getattr(self, f.name))}" for f in fields(self)]
        return (
            "# Class and embedder: `ragseal-provider change`. A change here breaks every window.\n" + "\n".join(lines)
        ).encode()

    @classmethod
    def load(cls, path: Path) -> Settings:
        """Raises ConfigurationError: missing or damaged file."""
        if not path.exists():
            if (path.parent / KEY_FILE).exists() or (path.parent / DATABASE).exists():
                raise ConfigurationError(
                    f"{path} is missing, beside other files of a provider: restore it from a backup"
                )
            raise ConfigurationError(
                f"{path.parent} holds no provider: make one with `ragseal-provider init --state {path.parent}`"
            )
        values = texts.read_toml(path, str(path))
        kinds = {"origin": str, "class_name": str, "embedder": str, "shards": int}
        if set(values) != set(kinds) or any(type(values[key]) is not kind for key, kind in kinds.items()):
            raise ConfigurationError(
                f"{path} must hold the texts origin, class_name and embedder, and the number shards"
            )
        return cls(**values)


class State(Database):
    """An opened and locked state folder, with its database.  Every method may be called from any thread."""

    def __init__(self, directory: Path, changing: bool = False) -> None:
        """Open an existing state folder.

        Args:
            changing: by who finishes a change of class or embedder that broke off.

        Raises:
            ConfigurationError: no provider there, or its files are damaged or open to others.
            LedgerError: another process uses it.
        """
        self.directory = directory
        self.settings = Settings.load(directory / SETTINGS)
        if (directory / SEALED).exists():
            raise ConfigurationError(
                f"{directory} is a copy whose secrets are encrypted: `ragseal-provider restore --from {directory} "
                "--keys FILE` puts it back"
            )
        self.lock = DirectoryLock(directory, "the provider's state")
        try:
            self.settings = Settings.load(directory / SETTINGS)  # whoever held the lock may have changed them
            if (directory / NEXT).exists() and not changing:
                raise ConfigurationError(
                    f"a change of class or embedder broke off in {directory}: `ragseal-provider change` with its "
                    "options again finishes it"
                )
            shred_staged(directory)
            self.key: SigningKey = load_key(directory / KEY_FILE)
            self._load_log_keys()
            super().__init__(directory / DATABASE)
        except BaseException:
            self.lock.release()
            raise

    def _load_log_keys(self) -> None:
        self.log_signers = log_keys.load_signers(self.directory, self.settings.origin)
        self.log_key = log_keys.log_key(self.directory, self.log_signers[0])

    @property
    def log_signer(self) -> NoteSigner:
        """The key that signs the log now; what names the log is ``log_key``."""
        return self.log_signers[0]

    def open_ledger(self) -> Log:
        """The log, and the files of its keys in agreement with it (SPEC G.6.13).

        Raises:
            LedgerError, ConfigurationError: as :meth:`Log.open` and :func:`ragseal.ledger.log_keys.settle`.
        """
        ledger = Log.open(self.ledger_directory, *self.log_signers, frozen=self.frozen)
        try:
            log_keys.settle(self.directory, ledger)
            self._load_log_keys()
        except BaseException:
            ledger.close()
            raise
        return ledger

    def rotate_log_key(self, ledger: Log, overlap: int, key: Ed25519PrivateKey | TokenKey) -> None:
        """Turn the opened log to this new key.

        Raises: as :func:`ragseal.ledger.log_keys.rotate`; LedgerError also where this folder is a copy.
        """
        if self.frozen is not None:
            raise LedgerError(self.frozen)
        try:
            log_keys.rotate(self.directory, ledger, overlap, key)
        finally:
            self._load_log_keys()

    @property
    def ledger_directory(self) -> Path:
        return self.directory / LEDGER

    @property
    def frozen(self) -> str | None:
        """Why this folder's log takes no entry; None where it does.  That of a copy ends where the copy was made."""
        if not (self.directory / COPY).exists():
            return None
        return (
            f"{self.directory} is a copy: it shows what it has and enters nothing in its log, which may have gone on "
            "elsewhere. `ragseal-provider restore` puts it back once it is known that nothing newer was signed"
        )

    @property
    def windows_directory(self) -> Path:
        return self.directory / "windows"

    @property
    def keys_directory(self) -> Path:
        return self.directory / "keys"

    # --- the newest checkpoint this provider has signed: a ledger restored from a backup does not reach it ---

    def remember_checkpoint(self, size: int, note: bytes) -> None:
        """Keep it beside the secrets, before anybody sees it.  ConfigurationError as :meth:`transaction`.

        A power cut may lose the last ones (every durable transaction takes along what came before it), a crash of
        the process none.
        """
        with self.transaction(durable=False) as db:
            db.execute("INSERT OR REPLACE INTO ledger_mark VALUES (1, ?, ?)", (size, note))

    def checkpoint(self) -> tuple[int, bytes] | None:
        """Size and note of the newest one; None before the first."""
        found = self.row("SELECT size, note FROM ledger_mark")
        return None if found is None else (int(found[0]), bytes(found[1]))

    # --- auditors: whose beacon key came with which proving key ---

    def remember_auditor(self, key_digest: bytes, public_key: bytes) -> None:
        """Keep the beacon key of the auditor that a proving key was fetched from."""
        with self.transaction() as db:
            db.execute("INSERT OR REPLACE INTO auditors VALUES (?, ?)", (key_digest, public_key))

    def auditor_of(self, key_digest: bytes) -> bytes | None:
        """The beacon key that came with a proving key; None for a key that was not fetched from an auditor."""
        found = self.row("SELECT public_key FROM auditors WHERE key_digest = ?", (key_digest,))
        return None if found is None else bytes(found[0])

    def close(self) -> None:
        super().close()
        self.lock.release()

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def shred_staged(directory: Path) -> None:
    """Overwrite what is left of an encrypted copy's database.  ConfigurationError: the disk refuses."""
    for end in ("", "-journal", "-wal", "-shm"):
        shred(directory / (STAGED + end))


def create(
    directory: Path, settings: Settings, key: Ed25519PrivateKey | TokenKey, log_key: Ed25519PrivateKey | TokenKey
) -> None:
    """Make a new state folder (mode 0700) with an empty ledger.

    Raises:
        ConfigurationError: one is there already, or the disk refuses.
    """
    signer = NoteSigner(settings.origin, log_key)
    check_name(settings.origin)
    if (directory / SETTINGS).exists():
        raise ConfigurationError(f"{directory} holds a provider already: choose another folder")
    try:
        was_there = list(directory.iterdir()) if directory.exists() else []
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        os.chmod(directory, 0o700)
    except OSError as error:
        raise ConfigurationError(f"cannot make the state folder {directory}: {why(error, directory)}") from None
    try:
        for name in ("windows", "keys"):
            (directory / name).mkdir(mode=0o700, exist_ok=True)
        save_key(directory / KEY_FILE, key)
        save_key(directory / LOG_KEY_FILE, log_key)
        Log.create(directory / LEDGER, signer).close()
        open_database(directory / DATABASE, new=True).close()
        write_durably(directory / SETTINGS, settings.encode() + b"\n", mode=0o600, replace=False)
    except BaseException as error:
        for made in () if was_there else directory.iterdir():  # what is half made is no provider, and in the way
            shutil.rmtree(made) if made.is_dir() else made.unlink()
        if isinstance(error, OSError):
            raise ConfigurationError(f"cannot make the state folder {directory}: {why(error, directory)}") from None
        raise
