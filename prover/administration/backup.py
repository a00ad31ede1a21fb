# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider's folder copied as of one checkpoint, also while it serves.  SPEC G.6.2.

The database is read as of one moment, at which every record that the log has signed has its secrets in it.  The log is
written anew from its entries up to that checkpoint, which gives the same signed bytes, so the copy is whole by
construction.  It is built beside its place and takes its name last: there is never half of one.  And it is marked as a
copy, which enters nothing in its log: whoever serves it where it lies, or moves it back by hand, forks nothing.
"""

from __future__ import annotations

import os
import secrets
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, nullcontext
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError, LedgerError
from ragseal.ledger import log_keys
from ragseal.ledger.log import Log
from ragseal.ledger.signing import line_files
from ragseal.prover.administration.sealed_copy import Sealer, mark_sealed, save_keys, staged
from ragseal.prover.serving.committing import Told
from ragseal.prover.storage.database import DATABASE
from ragseal.prover.storage.state import COPY, KEY_FILE, LEDGER, SETTINGS, State
from ragseal.runtime.durable import place_durably, sync_directory, write_durably
from ragseal.runtime.edges.databases import why_database
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.progress import Progress
from ragseal.runtime.shred import shred

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
    draw = secrets.token_bytes
    with built(folder) as made, nullcontext(made / DATABASE) if keys is None else staged(state, draw) as database:
        progress("copying the database", 0, 0)
        size = state.copy_to(database, lambda: ledger.size)
        _not_ahead(database, size, ledger.checkpoint_at(size))
        sealer = None if keys is None else Sealer(state, draw)
        for name in (SETTINGS, KEY_FILE, *log_keys.names()):
            if (state.directory / name).exists():
                put = copy_file if sealer is None or not name.endswith(".pem") else sealer.signing_key
                put(state.directory / name, made / name)
        _copy_matrices(state, database, made, sealer, progress)
        progress("copying the keys", 0, 0)
        copy_tree(state.keys_directory, made / "keys")
        _copy_log(state, ledger, made / LEDGER, size, progress)
        mark(made)
        if keys is not None and sealer is not None:
            progress("encrypting", 0, 0)
            sealer.database(database, made / DATABASE)
            mark_sealed(made)
            save_keys(keys, state.settings.origin, sealer.drawn)
    values = {"folder": str(folder), "entries": size, "checkpoint": ledger.checkpoint_at(size).decode()}
    if keys is not None:
        return Told(
            {**values, "keys": str(keys)},
            f"{folder} holds this provider as of {size} entries of its log, encrypted under the keys in {keys}: keep "
            "that file elsewhere, as secret as the provider's own folder, and only its newest version, with which all "
            "older copies forget what was purged since. It opens THE SIGNING KEYS, too, which are in the copy",
        )
    return Told(
        values,
        f"{folder} holds this provider as of {size} entries of its log, WITH ITS SIGNING KEYS: anyone who reads "
        "it can sign in its name and compute the noise. Keep it as secret as the provider's own folder, and delete "
        "it once something is erased (--keys encrypts it). Once the provider has gone on, no copy goes on in its place",
    )


def _copy_matrices(state: State, database: Path, made: Path, sealer: Sealer | None, progress: Progress) -> None:
    (made / "windows").mkdir(mode=0o700)
    with closing(sqlite3.connect(database)) as copy:
        named = copy.execute("SELECT manifest, matrix FROM versions WHERE matrix <> ''").fetchall()
    for number, (manifest, name) in enumerate(named):
        progress("copying matrices", number, len(named))
        source, target = state.windows_directory / name, made / "windows" / name
        if sealer is None:
            copy_file(source, target)
        else:
            sealer.matrix(manifest, source, target)


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
        copy_file(state.ledger_directory / COSIGNATURES, target / COSIGNATURES)
    for name in sorted(line_files()):
        if (state.ledger_directory / name).exists():
            copy_file(state.ledger_directory / name, target / name)


def _not_ahead(database: Path, size: int, note: bytes) -> None:
    """A checkpoint is remembered just before the log counts it: the copy's log ends with the one before."""
    with sqlite3.connect(database, isolation_level=None) as copy:
        copy.execute("UPDATE ledger_mark SET size = ?, note = ? WHERE size > ?", (size, note, size))
    copy.close()


def mark(made: Path, last: str = "") -> None:
    """A copy signs nothing, wherever it is moved, until `restore` has seen that nothing newer was signed.

    Args:
        last: line of the mark, by which `restore` knows an attempt of its own.
    """
    text = "Put this copy back with `ragseal-provider restore`; where it lies it can be served for reading.\n"
    write_durably(made / COPY, f"{text}{last}\n".encode(), mode=0o600)


def unmark(folder: Path) -> None:
    """Let a copy go on.  ConfigurationError: the disk refuses; it is a copy still."""
    try:
        (folder / COPY).unlink(missing_ok=True)
        sync_directory(folder)
    except OSError as error:
        raise ConfigurationError(
            f"cannot remove {folder / COPY}: {why(error, folder / COPY)}; restore it once more"
        ) from None


@contextmanager
def built(folder: Path, secret: bool = False) -> Iterator[Path]:
    """A new folder, in its place once the block has ended, and nowhere if it fails.

    Args:
        secret: what was decrypted is in it: its files are overwritten if it fails.
    """
    if folder.exists() or folder.is_symlink():
        raise ConfigurationError(f"{folder} is there already: name a folder that is not, so that nothing is replaced")
    made = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    try:
        made.mkdir(mode=0o700)
        yield made
        _sync_all(made)
        place_durably(made, folder)
    except (OSError, sqlite3.Error) as error:
        said = why(error, made) if isinstance(error, OSError) else why_database(error, made / DATABASE)
        _forget(made, secret)
        raise ConfigurationError(f"cannot make {folder}: {said}") from None
    except BaseException:
        _forget(made, secret)
        raise


def withdraw(folder: Path, secret: bool = False) -> None:
    """Take away again what :func:`built` has put in its place, its name first: there is never half of one."""
    made = folder.with_name(f".{folder.name}.{secrets.token_hex(8)}")
    os.rename(folder, made)
    _forget(made, secret)


def _forget(made: Path, secret: bool) -> None:
    for path in sorted(made.rglob("*")) if secret else []:
        if path.is_file():
            shred(path)
    shutil.rmtree(made, ignore_errors=True)


def copy_file(source: Path, target: Path) -> None:
    with (
        open(source, "rb") as given,
        open(os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600), "wb") as file,
    ):
        shutil.copyfileobj(given, file, _PIECE)


def copy_tree(source: Path, target: Path) -> None:
    """Folders and files below a folder of the provider's own, private as it is."""
    target.mkdir(mode=0o700)
    for path in sorted(source.iterdir()):
        if path.is_dir():
            copy_tree(path, target / path.name)
        elif path.is_file():
            copy_file(path, target / path.name)


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
