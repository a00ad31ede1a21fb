# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy put back where its provider was, for good or for reading, or refused.  SPEC G.6.2.

A copy goes on only where it is known that nothing newer was signed: by what the lost folder itself remembers, by a
note of a moment in which nothing waited to become public, or by its owner's word.  Else its log would be forked, and
what was answered in the lost part would count for nobody (docs/decisions/0009-restored-copies.md).

What comes from a backup is read as if a stranger had sent it.  It is copied first, into the folder that becomes the
provider's, and everything is looked at there: the medium is not written to and cannot change meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

from ragseal.kernel import signature
from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError
from ragseal.ledger.checkpoint import SignedCheckpoint, open_checkpoint
from ragseal.ledger.log import Log
from ragseal.ledger.note import NoteVerifier
from ragseal.prover.administration import sealed_copy
from ragseal.prover.administration.backup import built, copy_file
from ragseal.prover.committing import Told
from ragseal.prover.provider import refuse_rollback
from ragseal.prover.storage import fsck
from ragseal.prover.storage.admitted import admitted
from ragseal.prover.storage.history import History
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.record_check import RecordCheck
from ragseal.prover.storage.retirement import is_retired
from ragseal.prover.storage.state import COPY, DATABASE, LEDGER, SETTINGS, Settings, State, schema_of_another
from ragseal.runtime.face import when

CHECKPOINT, LEDGER_DATABASE = "checkpoint", "log.sqlite"


@dataclass(frozen=True, slots=True)
class Known:
    """What the operator has to show that a copy is the newest."""

    newest: bytes | None = None  #: the newest note of this log that anybody has, such as an observer's
    remains: Path | None = None  #: what is left of the lost folder, moved away
    nothing_newer: bool = False  #: its owner says that nothing left the provider after this copy was made
    read_only: bool = False  #: it need not be the newest: it will enter nothing in its log


def restore(source: Path, target: Path, known: Known, now: int, keys: Path | None = None) -> Told:
    """Put a copy where its provider was; says what is lost.  Blocks.

    Args:
        now: seconds since 1970.
        keys: the newest keys file, of a copy that is encrypted.

    Raises:
        ConfigurationError: no backup or a damaged one, the target is there, or nobody knows what is newest.
        LedgerError: something newer was signed, or the copy is of another history.
    """
    if (target / SETTINGS).exists():
        raise ConfigurationError(f"{target} holds a provider: move it away first, nothing is replaced here")
    if target.exists() or target.is_symlink():
        raise ConfigurationError(
            f"{target} is there: move it away, nothing is replaced here. If it is what is left of the provider, name "
            "its new place with --remains: it may know what was signed last"
        )
    if known.read_only and known.nothing_newer:
        raise ConfigurationError("--nothing-newer lets a copy go on, --read-only does not: say one of them")
    settings = Settings.load(source / SETTINGS)
    sealed = sealed_copy.is_sealed(source)
    if sealed and keys is None:
        raise ConfigurationError(f"{source} is encrypted: name the newest keys file that `backup` wrote (--keys FILE)")
    if known.remains is not None and (known.remains / COPY).exists():
        raise ConfigurationError(f"{known.remains} is a copy, too: it knows nothing of what was signed after it")
    purged = (0, 0)
    remembered = [] if known.remains is None else _remembered(known.remains)
    with built(target, secret=sealed) as made:
        try:
            _take(source, made)
            _refuse_foreign(made)
            if keys is not None and sealed:
                purged = sealed_copy.unseal(made, sealed_copy.load_keys(keys, settings.origin))
            told = _put_back(made, target, known, remembered, now)
        except (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError) as error:
            raise ConfigurationError(f"{source} is damaged ({type(error).__name__}): take another copy") from None
    if not sealed:
        return told
    windows, documents = purged
    values = {**told.values, "windows_purged": windows, "documents_purged": documents}
    return Told(values, f"{told.text}; {windows} windows and {documents} documents of it have no key any more: purged")


# --- what comes from a backup ----------------------------------------------------------------------------------------


def _take(source: Path, made: Path) -> None:
    """Copy a backup's files.  ConfigurationError: something in it is neither a file nor a folder."""
    for path in sorted(source.iterdir()):
        mode = os.lstat(path).st_mode
        if path.name == "lock":
            continue
        if stat.S_ISDIR(mode):
            (made / path.name).mkdir(mode=0o700)
            _take(path, made / path.name)
        elif stat.S_ISREG(mode):
            copy_file(path, made / path.name)
        elif not stat.S_ISSOCK(mode):
            raise ConfigurationError(f"{path} is a link or a device: no backup holds any, so this one was changed")


def _refuse_foreign(made: Path) -> None:
    """Refuse a database with triggers, views or tables of its own, and matrices anywhere but in their folder.

    Raises:
        ConfigurationError: there are such.
    """
    path = made / DATABASE
    if not path.is_file():
        raise ConfigurationError(f"the backup holds no {DATABASE}: take another copy")
    for one in (path, made / LEDGER / LEDGER_DATABASE):
        if _cut(one):
            raise ConfigurationError(f"the backup's {one.name} is cut off: take another copy")
    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA trusted_schema=OFF")
            if schema_of_another(database):
                raise ConfigurationError(
                    f"the backup's {DATABASE} is not laid out as this version of ragseal does: restore it with the "
                    "version that made it; if that is this one, the backup was changed"
                )
            names = [name for (name,) in database.execute("SELECT matrix FROM versions WHERE matrix <> ''")]
    except sqlite3.Error as error:
        raise ConfigurationError(f"the backup's {DATABASE} cannot be read ({error}): take another copy") from None
    there = {one.name for one in (made / "windows").iterdir()} if (made / "windows").is_dir() else set()
    for name in names:
        if name not in there:
            raise ConfigurationError(f"the backup lacks the index matrix {name!r}: take another copy")


def _cut(database: Path) -> bool:
    """Whether a database is shorter than its first page says; SQLite would take the end of its last page for zeros."""
    if not database.is_file() or database.with_name(f"{database.name}-wal").exists():
        return False  # what is in the log belongs to it, too
    with open(database, "rb") as file:
        head = file.read(32)
    page = int.from_bytes(head[16:18], "big")
    return database.stat().st_size < (1 << 16 if page == 1 else page) * int.from_bytes(head[28:32], "big")


def _refuse_damaged(state: State, ledger: Log, history: Journal) -> int:
    """Both databases, every entry of the log, every record's secrets.  Returns how many records have no proof.

    Raises:
        ConfigurationError: something is wrong with them.
    """
    report, unproven = fsck.Report(), 0
    fsck.check_database(state, True, report)
    fsck.check_ledger(state, ledger, report, fsck.nothing)
    for window in history.history.windows.values():
        if is_retired(state, window.digest):
            continue
        for problem in RecordCheck(state, history, window).quick(lambda _: None):
            report.found(problem)
        found = state.row("SELECT COUNT(*) FROM proofs WHERE manifest = ?", (window.digest,))
        unproven += len(window.records) - (int(found[0]) if found else 0)
    if report.findings:
        more = len(report.findings) - 1
        also = f" (and {more} more)" if more else ""
        raise ConfigurationError(f"the backup is damaged: {report.findings[0]}{also}; take another copy")
    return max(0, unproven)


# --- what is newest --------------------------------------------------------------------------------------------------


def _put_back(made: Path, target: Path, known: Known, remembered: list[bytes], now: int) -> Told:
    note = made / LEDGER / CHECKPOINT
    before = note.read_bytes() if note.is_file() else b""
    with State(made) as state, state.open_ledger() as ledger:
        verifier = ledger.verifier
        if ledger.checkpoint() != before:  # opening a log signs what a crash left behind its checkpoint
            raise ConfigurationError("the backup's log goes on behind its checkpoint: no copy does, it was changed")
        refuse_rollback(state, ledger)
        journal = Journal(ledger, signature.public_bytes(state.key))
        unproven = _refuse_damaged(state, ledger, journal)
        held = _held(ledger, journal.history)
        own = [_note(one, verifier) for one in remembered]
        shown = [] if known.newest is None else [_note(known.newest, verifier)]
        lost = max([_behind(ledger, one) for one in own + shown], default=0)
        if not known.read_only:
            _refuse_older(lost, held)
            if not known.nothing_newer:
                _refuse_unknown(journal.history, _reach(own, ledger), _reach(shown, ledger), held)
        _forget_asks(state, journal.history, now)
        size = ledger.size
    if not known.read_only:
        (made / COPY).unlink(missing_ok=True)
    (made / LEDGER / "lock").unlink(missing_ok=True)
    (made / "lock").unlink(missing_ok=True)
    values = {"state": str(target), "entries": size, "lost": lost, "unproven": unproven, "read_only": known.read_only}
    text = f"{target} is the provider again: it {held}"
    if known.read_only:
        text = f"{target} can be served for reading, and enters nothing in its log: it {held}"
        text += f"; {lost} later entries were signed and are lost" if lost else ""
    text += f"; {unproven} records have no proof yet, which audits ask for" if unproven else ""
    return Told(values, f"{text}. Accounts, documents, auditors and erasures are those of the moment of the copy")


def _held(ledger: Log, history: History) -> str:
    """What a backup has, for people."""
    windows = list(history.windows.values())
    said = f"ends with entry {ledger.size}" if ledger.size else "has an empty log"
    if windows:
        last = windows[-1]
        said += f", in window {last.manifest.window} ({last.stage.name.lower()}, {len(last.records)} records)"
        if last.time:
            said += f", at {when(last.time)}"
    return said


def _remembered(folder: Path) -> list[bytes]:
    """The newest checkpoints of the folder that is lost.  ConfigurationError: too little is left of it to tell."""
    found: list[bytes] = []
    note, database = folder / LEDGER / CHECKPOINT, folder / DATABASE
    if note.is_file():
        found.append(note.read_bytes())
    if database.is_file():
        try:
            with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as opened:
                row = opened.execute("SELECT note FROM ledger_mark").fetchone()
        except sqlite3.Error:  # what is damaged says nothing
            row = None
        if row is not None:
            found.append(bytes(row[0]))
    if not found:
        raise ConfigurationError(f"nothing in {folder} tells what this provider signed last: leave --remains out")
    return found


def _note(data: bytes, verifier: NoteVerifier) -> SignedCheckpoint:
    try:
        return open_checkpoint(data, verifier)
    except AuditError as error:
        raise ConfigurationError(f"this is no checkpoint of the backup's log: {error}") from None


def _reach(notes: list[SignedCheckpoint], ledger: Log) -> bool:
    """Whether one of them is of the copy's own size: an older one does not know what came after it."""
    return any(one.checkpoint.size == ledger.size for one in notes)


def _behind(ledger: Log, newest: SignedCheckpoint) -> int:
    """How many entries a checkpoint has that the copy lacks.  LedgerError: it is of another one's history."""
    size = newest.checkpoint.size
    if size > ledger.size:
        return size - ledger.size
    if open_checkpoint(ledger.checkpoint_at(size), ledger.verifier).checkpoint != newest.checkpoint:
        raise LedgerError(f"the backup's first {size} entries are not those that were signed: it is of another history")
    return 0


def _refuse_older(lost: int, held: str) -> None:
    if lost:
        raise LedgerError(
            f"the backup {held}; {lost} later entries were signed, and would be lost with their records' secrets. "
            "Whoever holds them could prove that the log was forked: restore a newer copy, or this one for reading "
            "(--read-only), and begin a new log under a new origin"
        )


def _refuse_unknown(history: History, own: bool, shown: bool, held: str) -> None:
    """Refuse to go on where something newer may have been signed than anybody could show.

    What a provider signs is in its own folder at once.  The public sees the records of an open window up to a minute
    later (SPEC G.6.3), and everything else at once while none is open.
    """
    if own or (shown and history.open is None):
        return
    if shown:
        raise ConfigurationError(
            f"the backup {held}. While a window is open, records leave up to a minute before the log shows them, so no "
            "public note tells that nothing newer was signed: name what is left of the provider's own folder "
            "(--remains), restore for reading (--read-only), or say --nothing-newer if you know that no answer left "
            "after the copy was made"
        )
    raise ConfigurationError(
        f"the backup {held}. Whatever was signed after that would be lost, and the log forked: name what is left of "
        "the provider's own folder (--remains), or the newest checkpoint that anybody has (--checkpoint FILE; "
        "observers and clients keep one), say --nothing-newer if nothing left the provider after the copy was made, "
        "or restore it for reading (--read-only)"
    )


def _forget_asks(state: State, history: History, now: int) -> None:
    """Take no ask that may have been answered after the copy was made: it is answered once (SPEC G.8.2)."""
    keys = {one.public_key for window in history.windows.values() for one in window.manifest.auditors}
    keys |= {one.public_key for one in admitted(state)}
    with state.transaction() as db:
        db.executemany(
            "INSERT INTO ask_floors VALUES (?, ?) ON CONFLICT DO UPDATE SET time = MAX(time, excluded.time)",
            [(key, now) for key in sorted(keys)],
        )
