# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy of a provider whose secrets are encrypted, under keys that are kept apart from it.  SPEC G.14.

Every window has a key of its own and so has every document.  They are drawn when a copy first needs them, kept in
state.db, and deleted with what they belong to; the keys file has those that are left.  So a newer keys file makes all
older copies forget what was purged meanwhile, wherever they lie.  A window's coin seed may outlive what else is secret
of it (SPEC A.11.9), so it has a key of its own.

Nothing of it is written plain where the copy is to lie: that may be another machine, and a process may die at any time.
The database is encrypted in the provider's own folder first (:func:`staged`).
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
import sqlite3
from collections.abc import Iterable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.ciphers.aead import AESGCM

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.base.randomness import Draw
from ragseal.prover.commitment.document_rows import resting_name
from ragseal.prover.commitment.room import RESERVE
from ragseal.prover.storage import tombstones
from ragseal.prover.storage.database import DATABASE
from ragseal.prover.storage.state import SEALED, STAGED, State, shred_staged
from ragseal.runtime.durable import write_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.shred import shred

KEY_BYTES, NONCE_BYTES, HASH_BYTES = 32, 12, 32
MAX_KEYS_FILE = 1 << 30

#: What of a window is encrypted, by table.
_WINDOW_COLUMNS = {
    "windows": ("seed", "nonce", "blinding"),
    "versions": ("secret", "blinders"),
    "version_texts": ("document", "text", "metadata", "row"),
    "thinnings": ("hidden", "blinders"),
    "queries": ("secrets",),
    "prepared": ("embedding",),
}
_DOCUMENT_COLUMNS = ("text", "metadata", "row", "content")

#: What tells of documents' ids and places, and the keys of windows, under the key of the signing keys.
_OWN_COLUMNS: dict[str, tuple[str, ...]] = {
    "erasing": ("key",),
    "tenants": ("placement",),
    "coin_placements": ("placement",),
    "enrolment_secrets": ("secret",),
    "window_keys": ("key",),
}

SIGNING = b"s"  #: the name of the key of the signing keys

Keys = dict[bytes, bytes]  #: SIGNING, window_name, coin_name or document_name -> key


def window_name(manifest: bytes) -> bytes:
    return b"w" + manifest


def coin_name(manifest: bytes) -> bytes:
    return b"c" + manifest


def document_name(digest: bytes) -> bytes:
    """``digest``: :func:`tombstones.hash_of` of tenant and id."""
    return b"d" + digest


# --- keys ------------------------------------------------------------------------------------------------------------


def _draw_keys(state: State, draw: Draw) -> tuple[Keys, bytes]:
    """Keys of all that is kept now, drawn where there are none, and the key of documents' hashes.

    Raises:
        ConfigurationError: the disk refuses.
    """
    with state.transaction() as db:
        hashing = tombstones.key_of(db, draw)
        kept = "SELECT manifest FROM windows WHERE manifest NOT IN (SELECT manifest FROM retirements)"
        names = [SIGNING, *(window_name(manifest) for (manifest,) in db.execute(kept).fetchall())]
        seeds = "SELECT manifest FROM windows WHERE coin_seed IS NOT NULL"
        names += [coin_name(manifest) for (manifest,) in db.execute(seeds).fetchall()]
        for tenant, name in db.execute("SELECT tenant, document FROM documents").fetchall():
            names.append(document_name(tombstones.hash_of(hashing, tenant, name)))
        db.executemany("INSERT OR IGNORE INTO copy_keys VALUES (?, ?)", [(name, draw(KEY_BYTES)) for name in names])
        found = {bytes(name): bytes(key) for name, key in db.execute("SELECT name, key FROM copy_keys")}
    return found, hashing


def save_keys(path: Path, origin: str, keys: Keys) -> None:
    """Write the keys file in the place of an older one, which is overwritten once the new one is durable.

    Raises:
        ConfigurationError: the disk refuses.
    """
    older = path.with_name(f"{path.name}.older")
    values = {"origin": origin, "keys": {name.hex(): key.hex() for name, key in sorted(keys.items())}}
    try:
        if path.exists():
            if older.exists() and older.samefile(path):
                older.unlink()  # a second name, by which a crash came before the new file: not to be overwritten
            shred(older)
            _second_name(path, older)
        write_durably(path, json.dumps(values).encode(), mode=0o600)
    except OSError as error:
        if older.exists() and not path.exists():
            os.replace(older, path)
        raise ConfigurationError(f"cannot write the keys file {path}: {why(error, path)}") from None
    shred(older)


def _second_name(path: Path, older: Path) -> None:
    """A file keeps its name and gets another one; only that one where the file system has no second names (FAT)."""
    try:
        os.link(path, older)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS):
            raise
        os.replace(path, older)


def load_keys(path: Path, origin: str) -> Keys:
    """Raises ConfigurationError: no keys file, or that of another provider."""
    try:
        with open(path, "rb") as file:
            values = json.loads(file.read(MAX_KEYS_FILE))
        if values["origin"] != origin:
            raise ConfigurationError(f"{path} has the keys of {values['origin']!r}, not of {origin!r}")
        return {bytes.fromhex(name): bytes.fromhex(key) for name, key in values["keys"].items()}
    except OSError as error:
        raise ConfigurationError(f"cannot read the keys file {path}: {why(error, path)}") from None
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise ConfigurationError(f"{path} is not a keys file that `backup --keys` wrote") from None


# --- seal ------------------------------------------------------------------------------------------------------------


@contextmanager
def staged(state: State, draw: Draw) -> Iterator[Path]:
    """Where the database is copied to and encrypted, for the block; what a crash leaves there the next start shreds.

    Raises:
        ConfigurationError: the disk refuses, or would be left without room for the log.
    """
    size, free = (state.directory / DATABASE).stat().st_size, shutil.disk_usage(state.directory).free
    if free < RESERVE + 2 * size:
        raise ConfigurationError(
            f"{free >> 20} MiB are free where {state.directory} is, and {(RESERVE + 2 * size) >> 20} MiB have to be to "
            "encrypt a copy of the database there: make room, or copy without --keys"
        )
    with state.transaction() as db:
        tombstones.key_of(db, draw)  # into the copy, too: what is erased in it is known by this key
    try:
        yield state.directory / STAGED
    finally:
        shred_staged(state.directory)


class Sealer:
    """Encrypts what a copy holds of documents, queries and seeds.

    What has no key (it was purged while the copy was made) is encrypted under one that nobody keeps.
    """

    def __init__(self, state: State, draw: Draw) -> None:
        """Draws the keys that are not there yet; to be called once the database is copied.

        Raises:
            ConfigurationError: the disk refuses.
        """
        self.drawn, self._hashing = _draw_keys(state, draw)
        self._draw = draw
        self._keys = dict(self.drawn)

    def raw(self, name: bytes) -> bytes:
        return self._keys.setdefault(name, self._draw(KEY_BYTES))

    def sealed(self, name: bytes, what: str, value: str | bytes | None) -> bytes | None:
        """A text or bytes, under the key of that name; which of the two it was is in the first byte."""
        if value is None:
            return None
        plain = b"t" + value.encode() if isinstance(value, str) else b"b" + value
        nonce = self._draw(NONCE_BYTES)
        return nonce + AESGCM(self.raw(name)).encrypt(nonce, plain, what.encode())

    def matrix(self, manifest: bytes, source: Path, target: Path) -> None:
        """Raises OSError."""
        self._file(window_name(manifest), "matrix", source, target)

    def signing_key(self, source: Path, target: Path) -> None:
        """Raises OSError."""
        self._file(SIGNING, target.name, source, target)

    def _file(self, name: bytes, what: str, source: Path, target: Path) -> None:
        write_durably(target, self.sealed(name, what, source.read_bytes()) or b"", mode=0o600, replace=False)

    def database(self, path: Path, target: Path) -> None:
        """Encrypt a plain copy of the database where it lies, and write a new one that holds nothing else.

        Raises:
            OSError, sqlite3.Error: the disk refuses.
        """
        os.close(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
        with closing(_open(path)) as db:
            db.execute("BEGIN")
            db.execute("DELETE FROM copy_keys")
            retired = {manifest for (manifest,) in db.execute("SELECT manifest FROM retirements")}
            for table, columns in _WINDOW_COLUMNS.items():
                for rowid, manifest, *values in _rows(db, table, ("manifest", *columns)):
                    if manifest in retired and not any(values):
                        continue  # it is purged; where it is being purged, not all of it may be gone yet
                    name = window_name(manifest)
                    _update(db, table, rowid, columns, [self.sealed(name, table, value) for value in values])
            query = "SELECT rowid, manifest, coin_seed FROM windows WHERE coin_seed IS NOT NULL"
            for rowid, manifest, seed in db.execute(query).fetchall():
                _update(db, "windows", rowid, ("coin_seed",), [self.sealed(coin_name(manifest), "coins", seed)])
            self._documents(db)
            for table, rowid, columns, values in _own_rows(db):
                _update(db, table, rowid, columns, [self.sealed(SIGNING, table, value) for value in values])
            db.execute("COMMIT")
            db.execute("VACUUM INTO ?", (str(target),))  # pages that were split may hold parts of what was there

    def _documents(self, db: sqlite3.Connection) -> None:
        placements = dict(db.execute("SELECT name, placement FROM tenants").fetchall())
        for rowid, tenant, name, *values in _rows(db, "documents", ("tenant", "document", *_DOCUMENT_COLUMNS)):
            digest = tombstones.hash_of(self._hashing, tenant, name)
            key = document_name(digest)
            first = digest + _key_check(self.raw(key)) + resting_name(placements[tenant], name)
            first += self.sealed(key, "documents", name) or b""
            sealed = [first, *(self.sealed(key, "documents", value) for value in values)]
            _update(db, "documents", rowid, ("document", *_DOCUMENT_COLUMNS), sealed)
        db.execute("UPDATE erasures SET document = NULL")


def _rows(db: sqlite3.Connection, table: str, columns: tuple[str, ...]) -> Iterator[tuple[Any, ...]]:
    """Rowid and columns of each row, one in memory at a time, while rows are changed."""
    query = f"SELECT rowid, {', '.join(columns)} FROM {table} WHERE rowid = ?"
    for one in db.execute(f"SELECT rowid FROM {table} ORDER BY rowid").fetchall():
        yield db.execute(query, one).fetchone()


def _own_rows(db: sqlite3.Connection) -> list[tuple[str, int, tuple[str, ...], list[bytes]]]:
    """Table, row, columns and values of what is under the key of the signing keys."""
    found: list[tuple[str, int, tuple[str, ...], list[bytes]]] = []
    for table, columns in _OWN_COLUMNS.items():
        for rowid, *values in db.execute(f"SELECT rowid, {', '.join(columns)} FROM {table}").fetchall():
            found.append((table, int(rowid), columns, values))
    return found


def mark_sealed(folder: Path) -> None:
    """Raises OSError."""
    (folder / SEALED).write_text("Restore this copy with `ragseal-provider restore --keys FILE`.\n", "ascii")


# --- unseal ----------------------------------------------------------------------------------------------------------


def is_sealed(folder: Path) -> bool:
    return (folder / SEALED).exists()


def unseal(folder: Path, keys: Keys) -> tuple[int, int]:
    """Decrypt a sealed copy where it lies.  What has no key any more was purged: it is retired, or erased, here too.

    Returns:
        How many windows and how many documents have no key.

    Raises:
        ConfigurationError: a key is another copy's, or the copy was changed.
        OSError, sqlite3.Error: the disk refuses.
    """
    with closing(_open(folder / DATABASE)) as db:
        db.execute("BEGIN")
        try:
            _unseal_signing_keys(folder, keys)
            for table, rowid, columns, values in _own_rows(db):
                opened = [_opened(AESGCM(keys[SIGNING]), table, value) for value in values]
                _update(db, table, rowid, columns, opened)
            lost = _unseal_windows(db, folder, keys), _unseal_documents(db, keys)
        except InvalidTag:
            raise ConfigurationError(
                "a key of the keys file does not fit this copy, or the copy was changed: name the keys file of this "
                "provider"
            ) from None
        db.execute("COMMIT")
    (folder / SEALED).unlink()
    return lost


def _unseal_signing_keys(folder: Path, keys: Keys) -> None:
    if SIGNING not in keys:
        raise ConfigurationError("the keys file lacks the key of the signing keys: name one that `backup` wrote")
    for path in sorted(folder.glob("*.pem")):
        path.write_bytes(bytes(_opened(AESGCM(keys[SIGNING]), path.name, path.read_bytes()) or b""))  # type: ignore[arg-type]


def _unseal_windows(db: sqlite3.Connection, folder: Path, keys: Keys) -> int:
    gone = {manifest for (manifest,) in db.execute("SELECT manifest FROM retirements")}
    known = {manifest for (manifest,) in db.execute("SELECT manifest FROM windows")} - gone
    lost = {manifest for manifest in known if window_name(manifest) not in keys}
    for manifest in lost:
        db.execute("INSERT INTO retirements VALUES (?, 0, NULL)", (manifest,))  # the next start purges the rest
    for table, columns in _WINDOW_COLUMNS.items():
        for rowid, manifest, *values in _rows(db, table, ("manifest", *columns)):
            if manifest in known - lost:
                own = AESGCM(keys[window_name(manifest)])
                _update(db, table, rowid, columns, [_opened(own, table, value) for value in values])
    query = "SELECT rowid, manifest, coin_seed FROM windows WHERE coin_seed IS NOT NULL"
    for rowid, manifest, seed in db.execute(query).fetchall():
        key = keys.get(coin_name(manifest))
        if key is None and manifest in known - lost:
            raise InvalidTag
        _update(db, "windows", rowid, ("coin_seed",), [None if key is None else _opened(AESGCM(key), "coins", seed)])
    for manifest, name in db.execute("SELECT manifest, matrix FROM versions WHERE matrix <> ''").fetchall():
        if manifest in known - lost:
            path, own = folder / "windows" / name, AESGCM(keys[window_name(manifest)])
            path.write_bytes(bytes(_opened(own, "matrix", path.read_bytes()) or b""))  # type: ignore[arg-type]
    return len(lost)


def _unseal_documents(db: sqlite3.Connection, keys: Keys) -> int:
    lost = 0
    columns = ("tenant", "slot", "document", *_DOCUMENT_COLUMNS)
    for rowid, tenant, slot, first, *values in _rows(db, "documents", columns):
        digest, which, rest = (first[at : at + HASH_BYTES] for at in (0, HASH_BYTES, 2 * HASH_BYTES))
        name, found = first[3 * HASH_BYTES :], keys.get(document_name(digest))
        if found is None or _key_check(found) != which:  # another one's that was put after it was erased
            lost += 1
            db.execute("DELETE FROM documents WHERE rowid = ?", (rowid,))
            if slot >= 0:
                db.execute("INSERT OR REPLACE INTO resting VALUES (?, ?, ?)", (tenant, rest, slot))
            db.execute("INSERT OR IGNORE INTO erased VALUES (?)", (digest,))
            continue
        opened = [_opened(AESGCM(found), "documents", value) for value in (name, *values)]
        _update(db, "documents", rowid, ("document", *_DOCUMENT_COLUMNS), opened)
    return lost


def _key_check(key: bytes) -> bytes:
    return hashlib.sha256(b"copy-key" + key).digest()


def _opened(key: AESGCM, what: str, value: bytes | None) -> str | bytes | None:
    if value is None:
        return None
    plain = key.decrypt(value[:NONCE_BYTES], value[NONCE_BYTES:], what.encode())
    return plain[1:].decode() if plain[:1] == b"t" else plain[1:]


def _open(path: Path) -> sqlite3.Connection:
    """A database that is thrown away where something fails: it keeps nothing to go back to."""
    db = sqlite3.connect(path, isolation_level=None)
    for pragma in ("temp_store=MEMORY", "secure_delete=ON", "journal_mode=OFF"):
        db.execute(f"PRAGMA {pragma}")
    return db


def _update(db: sqlite3.Connection, table: str, rowid: int, columns: Iterable[str], values: Iterable[object]) -> None:
    changed = ", ".join(f"{column} = ?" for column in columns)
    db.execute(f"UPDATE {table} SET {changed} WHERE rowid = ?", (*values, rowid))
