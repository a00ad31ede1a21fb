# SPDX-License-Identifier: GPL-3.0-or-later
"""What is left of a provider's folder that a copy is to replace: what it remembers, and that nothing else uses it.

Two providers with one signing key fork the log.  So the remains are locked while a copy is put back, which fails while
a provider still runs on them, and they are marked as a copy before the copy's own mark goes: they let one copy go on,
once, and enter nothing themselves when somebody moves them back.  A restore that dies between the two marks leaves two
folders that enter nothing, each marked with the name of that attempt, by which the next one ends it.  SPEC G.6.2.
"""

from __future__ import annotations

import re
import secrets
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.storage.database import DATABASE
from ragseal.prover.storage.state import COPY, LEDGER
from ragseal.runtime.durable import DirectoryLock, sync_directory, write_durably
from ragseal.runtime.edges.filesystem import why

CHECKPOINT, LEDGER_DATABASE = "checkpoint", "log.sqlite"
MAX_MARK = 1 << 14  #: bytes of a mark that are read
PUT_BACK, GIVEN_UP = "put back by restore ", "given up for restore "  #: last lines of a copy's mark and of remains'
_ATTEMPT = re.compile("[0-9a-f]{32}")


@dataclass(slots=True)
class Remains:
    """What a lost folder tells of what was signed."""

    folder: Path
    notes: list[bytes]  #: the newest checkpoints that its files remember
    entries: int  #: of a log whose checkpoint is gone: as many may have been signed; 0 where the checkpoint tells
    marked: bool = False  #: by :meth:`mark`

    def mark(self, target: Path, attempt: str) -> None:
        """Let nothing go on from this folder any more, neither itself nor another copy than that of this attempt.

        Raises:
            ConfigurationError: the disk refuses.
        """
        text = f"A copy went on at {target}, by what this folder remembers. This one enters nothing in its log.\n"
        text += f"{GIVEN_UP}{attempt}\n"
        self.marked = True
        try:
            write_durably(self.folder / COPY, text.encode(), mode=0o600)
        except OSError as error:
            raise ConfigurationError(
                f"cannot mark {self.folder}: {why(error, self.folder)}; nothing goes on from it"
            ) from None


@contextmanager
def opened(folder: Path, target: Path, read_only: bool) -> Iterator[Remains]:
    """The remains, for the block that puts a copy at ``target``; locked unless that is for reading only.

    A mark of the block's stays where there is something at ``target`` in the end.

    Raises:
        ConfigurationError: it is marked already, but not by an attempt whose copy lies at ``target`` and has not gone
            on; it tells nothing; or it cannot be locked.
        LedgerError: a provider runs on it.
    """
    locks = [] if read_only else _locked(folder)
    try:
        if not cut_off(folder, target):
            _refuse_marked(folder)
        left = Remains(folder, _notes(folder), _entries(folder))
        if not left.notes and not left.entries:
            raise ConfigurationError(f"nothing in {folder} tells what this provider signed last: leave --remains out")
        try:
            yield left
        except BaseException:
            if left.marked and not target.exists():
                with suppress(OSError):
                    (folder / COPY).unlink(missing_ok=True)
                    sync_directory(folder)
            raise
    finally:
        for lock in locks:
            lock.release()


def cut_off(folder: Path, target: Path) -> bool:
    """Whether a restore of a copy to ``target`` marked these remains and died before it let that copy go on.

    Then both are marked with its name, and neither has entered anything since.
    """
    attempt = _attempt(folder, GIVEN_UP)
    return bool(attempt) and attempt == _attempt(target, PUT_BACK)


def _attempt(folder: Path, kind: str) -> str:
    """Of which restore a folder's mark is; empty where it has none, or one of another kind."""
    try:
        lines = (folder / COPY).read_bytes()[:MAX_MARK].decode(errors="replace").splitlines()
    except OSError:
        return ""
    last = lines[-1] if lines else ""
    name = last.removeprefix(kind)
    return name if last.startswith(kind) and _ATTEMPT.fullmatch(name) else ""


def new_attempt() -> str:
    """The name of a restore, which no other one has."""
    return secrets.token_hex(16)


def _locked(folder: Path) -> list[DirectoryLock]:
    made: list[DirectoryLock] = []
    try:
        for one, what in ((folder, "what is left of the provider"), (folder / LEDGER, "its ledger")):
            if one.is_dir():
                made.append(DirectoryLock(one, what))
    except BaseException as error:
        for lock in made:
            lock.release()
        if isinstance(error, ConfigurationError):
            raise ConfigurationError(
                f"{error}. What is left is locked and marked, so that nothing else goes on from it: make {folder} "
                "writable, or restore for reading (--read-only)"
            ) from None
        raise
    return made


def _refuse_marked(folder: Path) -> None:
    """Refuse remains that know nothing of what came after them.  ConfigurationError: they are marked."""
    if (folder / COPY).exists():
        raise ConfigurationError(
            f"{folder} is a copy, too, or another copy went on by it ({folder / COPY} says which): either way it knows "
            "nothing of what was signed after that. If a restore was cut off, let its copy lie where it was put and "
            "say the same once more; if that copy is lost, leave --remains out and say --nothing-newer"
        )


def _notes(folder: Path) -> list[bytes]:
    """The newest checkpoints that a lost folder remembers: the ledger's, and the one beside the secrets."""
    note = folder / LEDGER / CHECKPOINT
    found = [note.read_bytes()] if note.is_file() else []
    mark = _value(folder / DATABASE, "SELECT note FROM ledger_mark")
    return [*found, mark] if isinstance(mark, bytes) else found


def _entries(folder: Path) -> int:
    """How many entries a ledger has that lost its checkpoint; with it, no answer left for what is behind it."""
    if (folder / LEDGER / CHECKPOINT).is_file():
        return 0
    count = _value(folder / LEDGER / LEDGER_DATABASE, "SELECT MAX(id) FROM leaf")
    return count if isinstance(count, int) else 0


def _value(database: Path, query: str) -> object:
    """The one value of a query; None where there is none, or the database is damaged: then it says nothing."""
    if not database.is_file():
        return None
    try:
        with closing(sqlite3.connect(f"{database.absolute().as_uri()}?mode=ro", uri=True)) as opened:
            row = opened.execute(query).fetchone()
    except sqlite3.Error:
        return None
    return None if row is None else row[0]
