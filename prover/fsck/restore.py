# SPDX-License-Identifier: GPL-3.0-or-later
"""A copy put back where its provider was, for good or for reading, or refused.  SPEC G.6.2.

A copy goes on only where it is known that nothing newer was signed: by what the lost folder itself remembers, or by its
owner's word.  Else its log would be forked, and
what was answered in the lost part would count for nobody (docs/decisions/0009-restored-copies.md).

What comes from a backup is read as if a stranger had sent it.  It is copied first, into the folder that becomes the
provider's, and everything is looked at there: the medium is not written to and cannot change meanwhile.
"""

from __future__ import annotations

import os
import sqlite3
import stat
from contextlib import ExitStack, closing
from dataclasses import dataclass
from pathlib import Path

from ragseal.kernel import signature
from ragseal.kernel.errors import AuditError, ConfigurationError, LedgerError, UnavailableError
from ragseal.ledger.checkpoint import Checkpoint, SignedCheckpoint, lacks_line, open_checkpoint
from ragseal.ledger.log import Log
from ragseal.ledger.note import Note
from ragseal.ledger.storage import layout_of_another
from ragseal.prover.administration import remains, sealed_copy
from ragseal.prover.administration.backup import built, copy_file, mark, unmark, withdraw
from ragseal.prover.administration.remains import LEDGER_DATABASE, Remains
from ragseal.prover.base.check_report import Report
from ragseal.prover.fsck import fsck
from ragseal.prover.fsck.record_check import RecordCheck
from ragseal.prover.serving.committing import Told
from ragseal.prover.storage.admitted import admitted
from ragseal.prover.storage.database import DATABASE
from ragseal.prover.storage.history import History
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.retirement import is_retired
from ragseal.prover.storage.rollback import refuse_rollback
from ragseal.prover.storage.schema import schema_of_another
from ragseal.prover.storage.state import COPY, LEDGER, SETTINGS, Settings, State
from ragseal.runtime.edges.databases import why_database
from ragseal.runtime.face import counted, when
from ragseal.runtime.progress import nothing

LEVELS = 8  #: of folders in a backup; one of ours has three


@dataclass(frozen=True, slots=True)
class Known:
    """What the operator has to show that a copy is the newest."""

    newest: bytes | None = None  #: the newest note of this log that anybody has: it can refuse, never let go on
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
    if known.read_only and known.nothing_newer:
        raise ConfigurationError("--nothing-newer lets a copy go on, --read-only does not: say one of them")
    if known.remains is not None and not known.read_only and remains.cut_off(known.remains, target):
        return _ended(target, known, known.remains, now)
    if (target / COPY).exists():
        raise ConfigurationError(
            f"{target} is a copy already, which enters nothing: a restore that was cut off leaves one, too. Move it "
            "away or remove it, and say the same once more; nothing is replaced here"
        )
    if (target / SETTINGS).exists():
        raise ConfigurationError(f"{target} holds a provider: move it away first, nothing is replaced here")
    if target.exists() or target.is_symlink():
        raise ConfigurationError(
            f"{target} is there: move it away, nothing is replaced here. If it is what is left of the provider, name "
            "its new path with --remains: it may know what was signed last"
        )
    settings = Settings.load(source / SETTINGS)
    sealed = sealed_copy.is_sealed(source)
    if sealed and keys is None:
        raise ConfigurationError(f"{source} is encrypted: name the newest keys file that `backup` wrote (--keys FILE)")
    purged, attempt = (0, 0), remains.new_attempt()
    with ExitStack() as held:
        left = None
        if known.remains is not None:
            left = held.enter_context(remains.opened(known.remains, target, known.read_only))
        with built(target, secret=sealed) as made:
            try:
                _take(source, made)
                mark(made, f"{remains.PUT_BACK}{attempt}")  # whatever is missing of the backup, this is a copy
                _refuse_foreign(made)
                if keys is not None and sealed:
                    purged = sealed_copy.unseal(made, sealed_copy.load_keys(keys, settings.origin))
                told = _put_back(made, target, known, left, now)
            except (ValueError, TypeError, KeyError, IndexError, OverflowError, AttributeError) as error:
                raise ConfigurationError(f"{source} is damaged ({type(error).__name__}): take another copy") from None
            for lock in (made / LEDGER / "lock", made / "lock"):
                lock.unlink(missing_ok=True)
        if not known.read_only:
            _let_go_on(target, left, attempt, sealed)
    if not sealed:
        return told
    windows, documents = purged
    values = {**told.values, "windows_purged": windows, "documents_purged": documents}
    return Told(
        values,
        f"{told.text}; purged, since no key is left: {counted(windows, 'window')} and {counted(documents, 'document')}",
    )


def _let_go_on(target: Path, left: Remains | None, attempt: str, secret: bool) -> None:
    """The last two steps, in this order: what is left is given up, and the copy in its place is a copy no more.

    Where nobody dies in between, either both are done or nothing is left of the attempt; else :func:`_ended` does the
    second one.
    """
    if left is not None:
        try:
            left.mark(target, attempt)
        except ConfigurationError:
            withdraw(target, secret)
            raise
    unmark(target)


def _ended(target: Path, known: Known, left_in: Path, now: int) -> Told:
    """End a restore that died between its last two steps; all is looked at once more, and nothing is lost by that."""
    with remains.opened(left_in, target, read_only=False) as left:
        told = _put_back(target, target, known, left, now)
        unmark(target)
        return told


# --- what comes from a backup ----------------------------------------------------------------------------------------


def _take(source: Path, made: Path, levels: int = LEVELS) -> None:
    """Copy a backup's files.

    Raises:
        ConfigurationError: something in it is neither a file nor a folder, or lies deeper than anything of a backup.
    """
    if not levels:
        raise ConfigurationError(f"{source} lies deeper than anything in a backup: this one was changed")
    for path in sorted(source.iterdir()):
        mode = os.lstat(path).st_mode
        if path.name == "lock":
            continue
        if stat.S_ISDIR(mode):
            (made / path.name).mkdir(mode=0o700)
            _take(path, made / path.name, levels - 1)
        elif stat.S_ISREG(mode):
            copy_file(path, made / path.name)
        elif not stat.S_ISSOCK(mode):
            raise ConfigurationError(f"{path} is a link or a device: no backup holds any, so this one was changed")


def _refuse_foreign(made: Path) -> None:
    """Refuse databases with triggers, views or tables of their own, and matrices anywhere but in their folder.

    Raises:
        ConfigurationError: there are such.
    """
    path, log = made / DATABASE, made / LEDGER / LEDGER_DATABASE
    if not path.is_file():
        raise ConfigurationError(f"the backup holds no {DATABASE}: take another copy")
    for one in (path, log):
        if _cut(one):
            raise ConfigurationError(f"the backup's {one.name} is cut off: take another copy")
    try:
        with closing(sqlite3.connect(path)) as database:
            database.execute("PRAGMA trusted_schema=OFF")
            if schema_of_another(database):
                raise ConfigurationError(_laid_out(DATABASE))
            names = [name for (name,) in database.execute("SELECT matrix FROM versions WHERE matrix <> ''")]
    except sqlite3.Error as error:
        said = why_database(error, path)
        raise ConfigurationError(f"the backup's {DATABASE} cannot be read: {said}; take another copy") from None
    if log.is_file() and layout_of_another(log):
        raise ConfigurationError(_laid_out(LEDGER_DATABASE))
    there = {one.name for one in (made / "windows").iterdir()} if (made / "windows").is_dir() else set()
    for name in names:
        if name not in there:
            raise ConfigurationError(f"the backup lacks the index matrix {name!r}: take another copy")


def _laid_out(name: str) -> str:
    return (
        f"the backup's {name} is not laid out as this version of ragseal does: restore it with the version that made "
        "it; if that is this one, the backup was changed"
    )


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
        UnavailableError: something in them could not be looked at.
    """
    report, unproven = Report(), 0
    fsck.check_database(state, True, report)
    fsck.check_ledger(state, ledger, report, nothing)
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
    if report.unchecked:  # what nobody has looked at is not put back
        raise UnavailableError(f"the backup cannot be checked here: {report.unchecked[0]}; nothing was restored")
    return max(0, unproven)


# --- what is newest --------------------------------------------------------------------------------------------------


def _put_back(made: Path, target: Path, known: Known, left: Remains | None, now: int) -> Told:
    with State(made) as state, state.open_ledger() as ledger:
        refuse_rollback(state, ledger)
        journal = Journal(ledger, signature.public_bytes(state.key))
        unproven = _refuse_damaged(state, ledger, journal)
        held, size = _held(ledger, journal.history), ledger.size
        given = [*([] if left is None else left.notes), *([] if known.newest is None else [known.newest])]
        unknown = [one for one in given if known.read_only and _is_of_a_later_key(one, ledger)]
        notes = [_note(one, ledger) for one in given if one not in unknown]
        lost = max([_behind(ledger, one) for one in notes], default=0)
        if not known.read_only:
            _refuse_older(lost, held)
            _refuse_unsigned(left, size, held)
            if not known.nothing_newer:
                _refuse_unknown(notes[: 0 if left is None else len(left.notes)], ledger, held)
        _forget_asks(state, journal.history, now)
    values = {
        "state": str(target),
        "entries": size,
        "lost": None if unknown else lost,
        "unproven": unproven,
        "read_only": known.read_only,
    }
    text = f"{target} is the provider again: it {held}"
    if known.read_only:
        text = f"{target} can be served for reading, and enters nothing in its log: it {held}"
        if unknown:
            text += "; later entries were signed by a key that it does not know, and are lost: nobody knows how many"
        elif lost:
            text += f"; {lost} later entries were signed and are lost"
    text += f"; without a proof yet, which audits ask for: {counted(unproven, 'record')}" if unproven else ""
    return Told(values, f"{text}. Accounts, documents, auditors and erasures are those of the moment of the copy")


def _held(ledger: Log, history: History) -> str:
    """What a backup has, for people."""
    windows = list(history.windows.values())
    said = f"ends with entry {ledger.size}" if ledger.size else "has an empty log"
    if windows:
        last = windows[-1]
        said += (
            f", in window {last.manifest.window} ({last.stage.name.lower()}, {counted(len(last.records), 'record')})"
        )
        if last.time:
            said += f", at {when(last.time)}"
    return said


def _is_of_a_later_key(data: bytes, ledger: Log) -> bool:
    """Whether a note is behind the copy's end, of its log by name, and by a key that it may have turned to since."""
    return lacks_line(data, ledger.verifier) and Checkpoint.parse(Note.parse(data).text).size > ledger.size


def _note(data: bytes, ledger: Log) -> SignedCheckpoint:
    try:
        return open_checkpoint(data, ledger.verifier)
    except AuditError as error:
        if _is_of_a_later_key(data, ledger):
            raise LedgerError(
                "a later checkpoint of the backup's log is signed by a key that the backup does not know: if the log's "
                "key was turned, the backup is older than that. Restore a newer copy, or this one for reading "
                "(--read-only)"
            ) from None
        raise ConfigurationError(f"this is not a checkpoint of the backup's log: {error}") from None


def _behind(ledger: Log, newest: SignedCheckpoint) -> int:
    """How many entries a checkpoint has that the copy lacks.  LedgerError: it is of another one's history."""
    size = newest.checkpoint.size
    if size > ledger.size:
        return size - ledger.size
    if open_checkpoint(ledger.checkpoint_at(size), ledger.verifier).checkpoint != newest.checkpoint:
        raise LedgerError(
            f"the backup's first {size} entries are not those that were signed: it is of a different history"
        )
    return 0


def _refuse_older(lost: int, held: str) -> None:
    if lost:
        raise LedgerError(
            f"the backup {held}; {lost} later entries were signed, and would be lost with their records' secrets. "
            "Anyone who holds them could prove that the log was forked: restore a newer copy, or this one for reading "
            "(--read-only), and begin a new log under a new origin"
        )


def _refuse_unsigned(left: Remains | None, size: int, held: str) -> None:
    """Refuse to go on where the lost log lacks its checkpoint and has more entries: who knows which were signed."""
    if left is not None and left.entries > size:
        raise LedgerError(
            f"the backup {held}; the ledger in {left.folder} has {left.entries} entries and lacks the checkpoint that "
            "says how many of them were signed. Restore a newer copy, or this one for reading (--read-only), and begin "
            "a new log under a new origin"
        )


def _refuse_unknown(own: list[SignedCheckpoint], ledger: Log, held: str) -> None:
    """Refuse to go on where something newer may have been signed than anybody could show.

    What a provider signs is in its own folder at once, so its newest checkpoint tells if it is of the copy's size.
    A public note tells nothing: it may be older than the window that was opened after the copy, and records of an open
    window become public up to a minute after their answers left (SPEC G.6.3).
    """
    if not any(one.checkpoint.size == ledger.size for one in own):
        raise ConfigurationError(
            f"the backup {held}. Whatever was signed after that would be lost, and the log forked; a note that others "
            "have (--checkpoint) can show that something was, never that nothing was. Name what is left of the "
            "provider's own folder (--remains), say --nothing-newer if you know that nothing left the provider after "
            "the copy was made, or restore it for reading (--read-only)"
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
