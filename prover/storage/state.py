# SPDX-License-Identifier: GPL-3.0-or-later
"""What a provider keeps on disk: one folder, one process, nothing half-written.

``state.db`` (SQLite, WAL, synchronous FULL, mode 0600) holds everything secret: documents, seeds, blinders, per-query
secrets and proofs; answers are made from those and the ledger whenever they are asked for.  ``ledger/`` is the public
log, ``windows/`` holds the committed matrices, ``keys/`` the auditor's proving keys, ``provider.pem`` and ``log.pem``
the signing keys (of the log's there may be more: ``ledger/log_keys.py``).  The folder is locked while a process uses
it: two providers on one state would fork the ledger.
"""

from __future__ import annotations

import json
import os
import shutil
import sqlite3
import threading
import tomllib
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.ledger import log_keys
from ragseal.ledger.log import Log
from ragseal.ledger.log_keys import LOG_KEY_FILE
from ragseal.ledger.note import NoteSigner, check_name
from ragseal.runtime.durable import DirectoryLock, write_durably
from ragseal.runtime.keyfile import load_key, save_key

DATABASE, SETTINGS, KEY_FILE = "state.db", "provider.toml", "provider.pem"
LEDGER = "ledger"
SEALED = "sealed"  #: marks a copy whose secrets are encrypted
COPY = "copy"  #: marks a copy that nobody has shown to be the newest: it enters nothing in its log (SPEC G.6.2)
COPIED_PAGES = 1024  #: of the database, between which others get their turn

SCRUBBED_IN_MEMORY = 1 << 26  #: bytes of a database that is rewritten in memory
SCRUB_ROOM = 2  #: a larger one takes so many times its size of disk meanwhile: once beside it, once in its log

T = TypeVar("T")

SCHEMA_VERSION = 9
_SCHEMA = """
CREATE TABLE IF NOT EXISTS accounts (
    name TEXT PRIMARY KEY, tenant TEXT NOT NULL, public_key BLOB NOT NULL UNIQUE);
CREATE TABLE IF NOT EXISTS tenants (
    name TEXT PRIMARY KEY, placement BLOB NOT NULL, counter INTEGER NOT NULL, capacity INTEGER NOT NULL,
    block_slots INTEGER NOT NULL, revision INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS documents (
    tenant TEXT NOT NULL, slot INTEGER NOT NULL, document TEXT NOT NULL, text TEXT NOT NULL, metadata BLOB NOT NULL,
    row BLOB NOT NULL, content BLOB NOT NULL, source TEXT NOT NULL, PRIMARY KEY (tenant, slot),
    UNIQUE (tenant, document));
CREATE TABLE IF NOT EXISTS resting (
    tenant TEXT NOT NULL, document BLOB NOT NULL, slot INTEGER NOT NULL, PRIMARY KEY (tenant, document));
CREATE TABLE IF NOT EXISTS coin_placements (
    tenant TEXT NOT NULL, coin_period BLOB NOT NULL, placement BLOB NOT NULL, PRIMARY KEY (tenant, coin_period));
CREATE TABLE IF NOT EXISTS source_marks (
    tenant TEXT NOT NULL, source TEXT NOT NULL, mark TEXT NOT NULL, PRIMARY KEY (tenant, source));
CREATE TABLE IF NOT EXISTS windows (
    manifest BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE, signed BLOB NOT NULL, seed BLOB NOT NULL,
    nonce BLOB NOT NULL, blinding BLOB NOT NULL, coin_seed BLOB);
CREATE TABLE IF NOT EXISTS window_accounts (
    manifest BLOB NOT NULL, pseudonym TEXT NOT NULL, name TEXT NOT NULL, account BLOB NOT NULL,
    PRIMARY KEY (manifest, pseudonym), UNIQUE (manifest, name));
CREATE TABLE IF NOT EXISTS enrolment_secrets (
    manifest BLOB PRIMARY KEY, secret BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS enrolments (
    manifest BLOB NOT NULL, pseudonym TEXT NOT NULL, name TEXT NOT NULL, line BLOB NOT NULL,
    PRIMARY KEY (manifest, pseudonym), UNIQUE (manifest, name));
CREATE TABLE IF NOT EXISTS versions (
    manifest BLOB NOT NULL, number INTEGER NOT NULL, tenant TEXT NOT NULL, secret BLOB NOT NULL, blinders BLOB NOT NULL,
    public BLOB NOT NULL, matrix TEXT NOT NULL, PRIMARY KEY (manifest, number, tenant));
CREATE TABLE IF NOT EXISTS version_texts (
    manifest BLOB NOT NULL, number INTEGER NOT NULL, tenant TEXT NOT NULL, slot INTEGER NOT NULL,
    document TEXT NOT NULL, text TEXT NOT NULL, metadata BLOB NOT NULL,
    PRIMARY KEY (manifest, number, tenant, slot));
CREATE TABLE IF NOT EXISTS thinnings (
    manifest BLOB NOT NULL, tenant TEXT NOT NULL, hidden BLOB NOT NULL, blinders BLOB NOT NULL,
    public BLOB NOT NULL, PRIMARY KEY (manifest, tenant));
CREATE TABLE IF NOT EXISTS queries (
    manifest BLOB NOT NULL, account TEXT NOT NULL, ctr INTEGER NOT NULL, request BLOB NOT NULL, secrets BLOB NOT NULL,
    PRIMARY KEY (manifest, account, ctr, request));
CREATE TABLE IF NOT EXISTS vocabularies (
    root BLOB PRIMARY KEY, words BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS participations (
    manifest BLOB NOT NULL, document BLOB NOT NULL, answers INTEGER NOT NULL, PRIMARY KEY (manifest, document));
CREATE TABLE IF NOT EXISTS prepared (
    prepare BLOB PRIMARY KEY, manifest BLOB NOT NULL, embedding BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS proofs (
    manifest BLOB NOT NULL, seq INTEGER NOT NULL, entry BLOB NOT NULL, PRIMARY KEY (manifest, seq));
CREATE TABLE IF NOT EXISTS estimates (
    manifest BLOB PRIMARY KEY, links BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS auditors (
    key_digest BLOB PRIMARY KEY, public_key BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS admitted_auditors (
    public_key BLOB PRIMARY KEY, name TEXT NOT NULL UNIQUE, since INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS asks (
    digest BLOB PRIMARY KEY, auditor BLOB NOT NULL, time INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS ask_floors (
    auditor BLOB PRIMARY KEY, time INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS stopped_keys (
    key_digest BLOB PRIMARY KEY, reason TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS ledger_mark (
    one INTEGER PRIMARY KEY CHECK (one = 1), size INTEGER NOT NULL, note BLOB NOT NULL);
CREATE TABLE IF NOT EXISTS retirements (
    manifest BLOB PRIMARY KEY, began INTEGER NOT NULL, ended INTEGER);
CREATE TABLE IF NOT EXISTS kept_deliveries (
    manifest BLOB NOT NULL, ask BLOB NOT NULL, payload BLOB NOT NULL, PRIMARY KEY (manifest, ask));
CREATE TABLE IF NOT EXISTS erasures (
    number INTEGER PRIMARY KEY, tenant TEXT NOT NULL, hash BLOB NOT NULL, document TEXT, reason TEXT NOT NULL,
    asked INTEGER NOT NULL, purged INTEGER);
CREATE TABLE IF NOT EXISTS erasure_windows (
    number INTEGER NOT NULL, manifest BLOB NOT NULL, PRIMARY KEY (number, manifest));
CREATE TABLE IF NOT EXISTS erased (
    hash BLOB PRIMARY KEY);
CREATE TABLE IF NOT EXISTS erasing (
    one INTEGER PRIMARY KEY CHECK (one = 1), key BLOB NOT NULL, retain INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS backups (
    folder TEXT NOT NULL, made INTEGER NOT NULL, sealed INTEGER NOT NULL);
CREATE TABLE IF NOT EXISTS copy_keys (
    name BLOB PRIMARY KEY, key BLOB NOT NULL);
CREATE TRIGGER IF NOT EXISTS retired_query BEFORE INSERT ON queries
    WHEN EXISTS (SELECT 1 FROM retirements WHERE manifest = NEW.manifest) BEGIN SELECT RAISE(IGNORE); END;
CREATE TRIGGER IF NOT EXISTS retired_prepare BEFORE INSERT ON prepared
    WHEN EXISTS (SELECT 1 FROM retirements WHERE manifest = NEW.manifest) BEGIN SELECT RAISE(IGNORE); END;
"""


@dataclass(frozen=True, slots=True)
class Settings:
    """What ``init`` fixes for good (provider.toml)."""

    origin: str  #: name of the ledger
    class_name: str  #: circuit class
    embedder: str

    def encode(self) -> bytes:
        lines = [f"{key} = {json.dumps(getattr(self, key))}" for key in ("origin", "class_name", "embedder")]
        return ("# Fixed when the provider was made; a change here breaks every window.\n" + "\n".join(lines)).encode()

    @classmethod
    def load(cls, path: Path) -> Settings:
        """Raises ConfigurationError: missing or damaged file."""
        try:
            values = tomllib.loads(path.read_text("utf-8"))
        except FileNotFoundError:
            raise ConfigurationError(
                f"{path.parent} holds no provider: make one with `ragseal-provider init --state {path.parent}`"
            ) from None
        except (OSError, ValueError, RecursionError) as error:
            raise ConfigurationError(f"cannot read {path}: {error}") from None
        wanted = ("origin", "class_name", "embedder")
        if set(values) != set(wanted) or not all(isinstance(values[k], str) for k in wanted):
            raise ConfigurationError(f"{path} must hold exactly the texts {', '.join(wanted)}")
        return cls(**values)


class State:
    """An opened and locked state folder.  Every method may be called from any thread."""

    def __init__(self, directory: Path) -> None:
        """Open an existing state folder.

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
            self.key: Ed25519PrivateKey = load_key(directory / KEY_FILE)
            self._load_log_keys()
            self._mutex = threading.RLock()  #: of the connection that writes
            self._failure: str | None = None
            self._db = _open_database(directory / DATABASE)
            self._reading = threading.Lock()
            self._reader = _open_reader(directory / DATABASE)
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

    def rotate_log_key(self, ledger: Log, overlap: int) -> None:
        """Turn the opened log to a new key.

        Raises: as :func:`ragseal.ledger.log_keys.rotate`; LedgerError also where this folder is a copy.
        """
        if self.frozen is not None:
            raise LedgerError(self.frozen)
        try:
            log_keys.rotate(self.directory, ledger, overlap)
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

    @contextmanager
    def transaction(self, durable: bool = True) -> Iterator[sqlite3.Connection]:
        """All or nothing, durable when the block ends (without ``durable``: once a later durable one ends).

        Raises:
            ConfigurationError: the disk or the database refuses; nothing of the block may be relied on.  Where nobody
                can tell what is on disk, as after a failed sync, nothing more is taken until a new start has read it.
        """
        with self._mutex:
            if self._failure is not None:
                raise ConfigurationError(self._failure)
            try:
                if not durable:
                    self._db.execute("PRAGMA synchronous=NORMAL")
                self._db.execute("BEGIN IMMEDIATE")
                try:
                    yield self._db
                except BaseException:
                    self._roll_back()  # unless SQLite has done so itself, as on a full disk
                    raise
                self._commit()
            except sqlite3.Error as error:
                self._roll_back()
                raise ConfigurationError(f"the provider's database refuses: {error}; nothing was changed") from None
            finally:
                if not durable:
                    self._db.execute("PRAGMA synchronous=FULL")

    def _commit(self) -> None:
        try:
            self._db.execute("COMMIT")
        except sqlite3.Error as error:
            if getattr(error, "sqlite_errorname", "") in ("SQLITE_FULL", "SQLITE_BUSY"):
                raise  # SQLite has certainly rolled back
            self._roll_back()
            self._failure = (
                f"the provider's database failed while it wrote ({error}): nobody can tell what is on disk. Check the "
                "disk and start the provider again"
            )
            raise ConfigurationError(self._failure) from None

    def _roll_back(self) -> None:
        with suppress(sqlite3.Error):
            if self._db.in_transaction:
                self._db.execute("ROLLBACK")

    def rows(self, query: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """All rows of a read, of what is committed: it does not wait for a transaction that is being written.

        Raises:
            ConfigurationError: damaged database.
        """
        with self._reading:
            try:
                return self._reader.execute(query, tuple(values)).fetchall()
            except sqlite3.Error as error:
                raise ConfigurationError(f"the provider's database cannot be read: {error}") from None

    def row(self, query: str, values: Sequence[Any] = ()) -> tuple[Any, ...] | None:
        """The first row of a read, or None."""
        found = self.rows(query, values)
        return found[0] if found else None

    def copy_to(self, target: Path, moment: Callable[[], T]) -> T:
        """Copy the database as it is at one moment into a new file, while others go on writing.

        Args:
            moment: called in that moment, in which no transaction is under way; its result is returned.

        Raises:
            ConfigurationError: the disk or the database refuses.
        """
        source = _open_reader(self.directory / DATABASE)
        try:
            with self._mutex:
                source.execute("BEGIN")
                source.execute("SELECT 1 FROM ledger_mark").fetchall()  # from here on it reads this moment's content
                found = moment()
            os.close(os.open(target, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
            copy = sqlite3.connect(target)
            try:
                source.backup(copy, pages=COPIED_PAGES, sleep=0.0)
            finally:
                copy.close()
            return found
        except sqlite3.Error as error:
            raise ConfigurationError(f"the provider's database cannot be copied: {error}") from None
        finally:
            source.close()

    def scrub(self) -> bool:
        """Rewrite the database so that neither a page nor the write-ahead log holds what was deleted.

        Returns:
            False: a copy that is being made reads what was there before; to be called again.

        Raises:
            ConfigurationError: the disk or the database refuses.
        """
        with self._mutex:
            try:
                self._vacuum()  # deleting leaves parts of rows in pages that were split or joined
                self._db.execute("PRAGMA busy_timeout=0")
                try:
                    with self._reading:  # a read that is under way would keep the log from being emptied
                        (busy, _, _) = self._db.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
                finally:
                    self._db.execute("PRAGMA busy_timeout=5000")
                return not busy
            except sqlite3.Error as error:
                raise ConfigurationError(f"the provider's database refuses to be rewritten: {error}") from None

    def _vacuum(self) -> None:
        """Rewrite the database: a small one in memory, a larger one by a nameless temporary file in the state folder.

        That file holds what stays, nothing of what was deleted.

        Raises:
            ConfigurationError: the disk has no room for it.
        """
        folder, size = str(self.directory.resolve()), (self.directory / DATABASE).stat().st_size
        if size <= SCRUBBED_IN_MEMORY:
            self._db.execute("VACUUM")
            return
        free = shutil.disk_usage(self.directory).free
        if free < SCRUB_ROOM * size:
            raise ConfigurationError(
                f"the provider's database has {size >> 20} MiB, and to rewrite it takes {SCRUB_ROOM} times that for a "
                f"moment: only {free >> 20} MiB are free. Make room; what is to be purged waits until then"
            )
        quoted = folder.replace("'", "''")
        try:
            self._db.execute(f"PRAGMA temp_store_directory='{quoted}'")
            if self._db.execute("PRAGMA temp_store_directory").fetchall() == [(folder,)]:
                self._db.execute("PRAGMA temp_store=FILE")  # else nobody knows where it would go
            self._db.execute("VACUUM")
        finally:
            self._db.execute("PRAGMA temp_store=MEMORY")
            self._db.execute("PRAGMA temp_store_directory=''")

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
        with self._reading:
            self._reader.close()
        with self._mutex:
            self._db.close()
        self.lock.release()

    def __enter__(self) -> State:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def create(directory: Path, settings: Settings, key: Ed25519PrivateKey, log_key: Ed25519PrivateKey) -> None:
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
        raise ConfigurationError(f"cannot make the state folder {directory}: {error.strerror}") from None
    try:
        for name in ("windows", "keys"):
            (directory / name).mkdir(mode=0o700, exist_ok=True)
        save_key(directory / KEY_FILE, key)
        save_key(directory / LOG_KEY_FILE, log_key)
        Log.create(directory / LEDGER, signer).close()
        _open_database(directory / DATABASE, new=True).close()
        write_durably(directory / SETTINGS, settings.encode() + b"\n", mode=0o600, replace=False)
    except BaseException as error:
        for made in () if was_there else directory.iterdir():  # what is half made is no provider, and in the way
            shutil.rmtree(made) if made.is_dir() else made.unlink()
        if isinstance(error, OSError):
            raise ConfigurationError(f"cannot make the state folder {directory}: {error.strerror}") from None
        raise


def schema_of_another(database: sqlite3.Connection) -> bool:
    """Whether a database has another layout than :func:`create` gives it, triggers and views included."""
    layout = "SELECT type, name, tbl_name, sql FROM sqlite_master ORDER BY type, name"
    with closing(sqlite3.connect(":memory:")) as own:
        own.executescript(_SCHEMA)
        wanted = own.execute(layout).fetchall()
    return database.execute(layout).fetchall() != wanted


def _connect(path: Path) -> sqlite3.Connection:
    """A connection that opens no file later on: strangers' connections may hold every descriptor then."""
    database = sqlite3.connect(path, isolation_level=None, check_same_thread=False)
    database.execute("PRAGMA temp_store=MEMORY")
    return database


def _open_reader(path: Path) -> sqlite3.Connection:
    """A second connection, which cannot write.  Raises ConfigurationError: it cannot be had."""
    try:
        database = _connect(path)
        database.execute("PRAGMA query_only=ON")
        database.execute("SELECT 1 FROM sqlite_master").fetchall()  # opens its files now, not at the first question
        return database
    except sqlite3.Error as error:
        raise ConfigurationError(f"cannot open {path}: {error}") from None


def _open_database(path: Path, new: bool = False) -> sqlite3.Connection:
    """Raises ConfigurationError: not a database of ours, or not there: an empty one would hide that all is lost."""
    try:
        os.close(
            os.open(path, os.O_RDWR | (os.O_CREAT if new else 0) | os.O_CLOEXEC, 0o600)
        )  # SQLite gives its WAL the same mode
        database = _connect(path)
        for pragma in ("journal_mode=WAL", "synchronous=FULL", "secure_delete=ON", "foreign_keys=ON"):
            database.execute(f"PRAGMA {pragma}")
        version = database.execute("PRAGMA user_version").fetchone()[0]
        empty = not database.execute("SELECT 1 FROM sqlite_master LIMIT 1").fetchall()
        if version != SCHEMA_VERSION and not (empty and version == 0):
            database.close()
            raise ConfigurationError(f"{path} was made by another version of ragseal (format {version})")
        database.executescript(_SCHEMA)
        database.execute(f"PRAGMA user_version={SCHEMA_VERSION}")
        return database
    except FileNotFoundError:
        raise ConfigurationError(
            f"{path} is missing, and with it documents, accounts and the secrets of every window: restore it from a "
            "backup"
        ) from None
    except (OSError, sqlite3.Error) as error:
        raise ConfigurationError(f"cannot open {path}: {error}") from None
