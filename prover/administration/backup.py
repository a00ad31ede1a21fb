# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider's folder copied as of one checkpoint, also while it serves; and a copy put back, or refused.  SPEC G.6.2.

The database is read as of one moment, at which every record that the log has signed has its secrets in it.  The log is
written anew from its entries up to that checkpoint, which gives the same signed bytes, so the copy is whole by
construction.  It is built beside its place and takes its name last: there is never half of one.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ragseal.kernel import signature
from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError
from ragseal.ledger.checkpoint import SignedCheckpoint, open_checkpoint
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteVerifier
from ragseal.ledger.signing import line_files
from ragseal.prover.administration import sealed_copy
from ragseal.prover.administration.operations import Progress
from ragseal.prover.committing import Told
from ragseal.prover.provider import refuse_rollback
from ragseal.prover.storage import log_keys
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.retirement import shred
from ragseal.prover.storage.state import DATABASE, KEY_FILE, LEDGER, SETTINGS, Settings, State
from ragseal.runtime.durable import sync_directory
from ragseal.runtime.face import when

_PAGE = 512  #: entries of the log that are copied together
_PIECE = 1 << 20
COSIGNATURES = "cosignatures"


# --- make ------------------------------------------------------------------------------------------------------------


def make(state: State, ledger: Log, folder: Path, progress: Progress, keys: Path | None = None) -> Told:
    """Copy all that a provider keeps into a new folder.  Blocks.

    Args:
        folder: absolute; must not be there yet.
        keys: where the keys go under which the copy's secrets are encrypted; without it they are not.

    Raises:
        ConfigurationError: it is there, lies inside the provider's own, or the disk refuses; nothing is left then.
        LedgerError: the log cannot be read.
    """
    own = state.directory.resolve()
    if own == folder.resolve() or own in folder.resolve().parents:
        raise ConfigurationError(f"{folder} lies inside the provider's own folder: choose another place")
    with _built(folder) as made:
        progress("copying the database", 0, 0)
        size = state.copy_to(made / DATABASE, lambda: ledger.size)
        _not_ahead(made / DATABASE, size, ledger.checkpoint_at(size))
        for name in (SETTINGS, KEY_FILE, *log_keys.names()):
            if (state.directory / name).exists():
                _copy_file(state.directory / name, made / name)
        _copy_matrices(state, made, progress)
        progress("copying the keys", 0, 0)
        _copy_tree(state.keys_directory, made / "keys")
        _copy_log(state, ledger, made / LEDGER, size, progress)
        if keys is not None:
            progress("encrypting", 0, 0)
            drawn, hashing = sealed_copy.draw_keys(state, secrets.token_bytes)
            sealed_copy.seal(made, drawn, hashing, secrets.token_bytes)
            sealed_copy.save_keys(keys, state.settings.origin, drawn)
    values = {"folder": str(folder), "entries": size, "checkpoint": ledger.checkpoint_at(size).decode()}
    if keys is not None:
        return Told(
            {**values, "keys": str(keys)},
            f"{folder} holds this provider as of {size} entries of its log, encrypted under the keys in {keys}: keep "
            "that file elsewhere, as secret as the provider's own folder, and only its newest version, with which all "
            "older copies forget what was purged since. provider.pem and log.pem are in the copy as they are",
        )
    return Told(
        values,
        f"{folder} holds this provider as of {size} entries of its log; whoever reads it can compute the noise: keep "
        "it as secret as the provider's own folder, and delete it once something is erased (--keys encrypts it). Once "
        "the provider has gone on, it cannot be continued from here",
    )


def _copy_matrices(state: State, made: Path, progress: Progress) -> None:
    (made / "windows").mkdir(mode=0o700)
    copy = sqlite3.connect(made / DATABASE)
    try:
        names = [str(name) for (name,) in copy.execute("SELECT matrix FROM versions WHERE matrix <> ''")]
    finally:
        copy.close()
    for number, name in enumerate(names):
        progress("copying matrices", number, len(names))
        _copy_file(state.windows_directory / name, made / "windows" / name)


def _copy_log(state: State, ledger: Log, target: Path, size: int, progress: Progress) -> None:
    with Log.create(target, ledger.signer) as copy:
        for start in range(0, size, _PAGE):
            progress("copying the log", start, size)
            page = ledger.entries(start, min(_PAGE, size - start))
            for outcome in copy.append_now([lambda _, entry=entry: entry for entry in page]):  # type: ignore[misc]
                if isinstance(outcome, Exception):
                    raise outcome
        if copy.checkpoint() != ledger.checkpoint_at(size):
            raise LedgerError("the copied entries do not give the checkpoint that was signed: run `fsck`")
    if (state.ledger_directory / COSIGNATURES).exists():
        _copy_file(state.ledger_directory / COSIGNATURES, target / COSIGNATURES)
    for name in sorted(line_files()):
        if (state.ledger_directory / name).exists():
            _copy_file(state.ledger_directory / name, target / name)


def _not_ahead(database: Path, size: int, note: bytes) -> None:
    """A checkpoint is remembered just before the log counts it: the copy's log ends with the one before."""
    with sqlite3.connect(database, isolation_level=None) as copy:
        copy.execute("UPDATE ledger_mark SET size = ?, note = ? WHERE size > ?", (size, note, size))
    copy.close()


@contextmanager
def _built(folder: Path) -> Iterator[Path]:
    """A new folder, in its place once the block has ended, and nowhere if it fails."""
    if folder.exists() or folder.is_symlink():
        raise ConfigurationError(f"{folder} is there already: name a folder that is not, so that nothing is replaced")
    made = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    try:
        made.mkdir(mode=0o700)
        yield made
        _sync_all(made)
        os.rename(made, folder)
        sync_directory(folder.parent)
    except (OSError, sqlite3.Error) as error:
        shutil.rmtree(made, ignore_errors=True)
        raise ConfigurationError(f"cannot make {folder}: {error}") from None
    except BaseException:
        shutil.rmtree(made, ignore_errors=True)
        raise


def _copy_file(source: Path, target: Path) -> None:
    with (
        open(source, "rb") as given,
        open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file,
    ):
        shutil.copyfileobj(given, file, _PIECE)


def _copy_tree(source: Path, target: Path) -> None:
    """Folders and files below a folder of the provider's own, private as it is."""
    target.mkdir(mode=0o700)
    for path in sorted(source.iterdir()):
        if path.is_dir():
            _copy_tree(path, target / path.name)
        elif path.is_file():
            _copy_file(path, target / path.name)


def _sync_all(folder: Path) -> None:
    for path in folder.iterdir():
        if path.is_dir():
            _sync_all(path)
        else:
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    sync_directory(folder)


# --- put back --------------------------------------------------------------------------------------------------------


def restore(source: Path, target: Path, newest: bytes | None, nothing_newer: bool, keys: Path | None = None) -> Told:
    """Put a backup where its provider was, unless that would fork the log.  Blocks.

    Args:
        keys: the newest keys file, of a copy that is encrypted.
        newest: the newest note of this log that anybody has, such as an observer's.
        nothing_newer: its owner says that no checkpoint left the provider after this copy was made.

    Raises:
        ConfigurationError: no backup, the target is there, or nobody said what is newest.
        LedgerError: something newer was signed; says what would be lost.
    """
    if sealed_copy.is_sealed(source):
        return _restore_sealed(source, target, newest, nothing_newer, keys)
    with State(source) as state:
        with state.open_ledger() as ledger:
            verifier = ledger.verifier
            refuse_rollback(state, ledger)
            known = [_note(newest, verifier)] if newest is not None else []
            known += _remembered(target, verifier)
            held = _held(state, ledger)
            for one in known:
                _continues(ledger, one, held)
            size = ledger.size
        if (target / SETTINGS).exists():
            raise ConfigurationError(f"{target} holds a provider: move it away first, nothing is replaced here")
        if not known and not nothing_newer:
            raise ConfigurationError(
                f"the backup {held}. Whatever was signed after that would be lost, and the log forked: name the newest "
                "checkpoint that anybody has (--checkpoint FILE; observers and clients keep one), or say "
                "--nothing-newer if the provider signed nothing after the copy was made"
            )
        with _built(target) as made:
            for path in sorted(source.iterdir()):
                if path.is_dir():
                    _copy_tree(path, made / path.name)
                elif path.name != "lock":
                    _copy_file(path, made / path.name)
            (made / LEDGER / "lock").unlink(missing_ok=True)
    return Told({"state": str(target), "entries": size}, f"{target} is the provider again: it {held}")


def _restore_sealed(source: Path, target: Path, newest: bytes | None, nothing_newer: bool, keys: Path | None) -> Told:
    """Decrypt beside the target, and go on with that."""
    if keys is None:
        raise ConfigurationError(f"{source} is encrypted: name the newest keys file that `backup` wrote (--keys FILE)")
    found = sealed_copy.load_keys(keys, Settings.load(source / SETTINGS).origin)
    opened = target.with_name(f".{target.name}.{secrets.token_hex(8)}")
    try:
        _copy_tree(source, opened)
        windows, documents = sealed_copy.unseal(opened, found)
        told = restore(opened, target, newest, nothing_newer)
    except (OSError, sqlite3.Error) as error:
        raise ConfigurationError(f"cannot decrypt {source}: {error}") from None
    finally:
        for path in sorted(opened.rglob("*")) if opened.exists() else []:
            if path.is_file():
                shred(path)
        shutil.rmtree(opened, ignore_errors=True)
    values = {**told.values, "windows_purged": windows, "documents_purged": documents}
    return Told(values, f"{told.text}; {windows} windows and {documents} documents of it have no key any more: purged")


def _held(state: State, ledger: Log) -> str:
    """What a backup has, for people."""
    windows = list(Journal(ledger, signature.public_bytes(state.key)).history.windows.values())
    said = f"ends with entry {ledger.size}" if ledger.size else "has an empty log"
    if windows:
        last = windows[-1]
        said += f", in window {last.manifest.window} ({last.stage.name.lower()}, {len(last.records)} records)"
        if last.time:
            said += f", at {when(last.time)}"
    return said


def _remembered(target: Path, verifier: NoteVerifier) -> list[SignedCheckpoint]:
    """The newest checkpoint of the folder that is to be restored, as far as anything of it is left."""
    found: list[SignedCheckpoint] = []
    note = target / LEDGER / "checkpoint"
    if note.is_file():
        found.append(_note(note.read_bytes(), verifier))
    if (target / DATABASE).is_file():
        database = sqlite3.connect(f"file:{target / DATABASE}?mode=ro", uri=True)
        try:
            row = database.execute("SELECT note FROM ledger_mark").fetchone()
        except sqlite3.Error:  # what is damaged says nothing
            row = None
        finally:
            database.close()
        if row is not None:
            found.append(_note(bytes(row[0]), verifier))
    return found


def _note(data: bytes, verifier: NoteVerifier) -> SignedCheckpoint:
    try:
        return open_checkpoint(data, verifier)
    except AuditError as error:
        raise ConfigurationError(f"this is no checkpoint of the backup's log: {error}") from None


def _continues(ledger: Log, newest: SignedCheckpoint, held: str) -> None:
    size = newest.checkpoint.size
    if size > ledger.size:
        raise LedgerError(
            f"the backup {held}; {size - ledger.size} later entries were signed, and would be lost with the secrets of "
            "their records. Whoever holds them could prove that the log was forked: restore a newer copy, or begin a "
            "new log under a new origin"
        )
    if open_checkpoint(ledger.checkpoint_at(size), ledger.verifier).checkpoint != newest.checkpoint:
        raise LedgerError(f"the backup's first {size} entries are not those that were signed: it is of another history")
