# SPDX-License-Identifier: GPL-3.0-or-later
"""What an examination of a state folder looked at and found, and what it could not look at.

Three outcomes, as of an audit: nothing is wrong; something is wrong; something could not be looked at here, since a
tool, a module, a key, a permission or a lock was missing.  The last accuses nobody and keeps nothing from being served.
"""

from __future__ import annotations

import contextlib
import errno
import sqlite3
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from ragseal.kernel.errors import AuditError, UnavailableError

MAX_FINDINGS = 100  #: that are listed; a lost database has one a record

OK, WRONG, NOT_CHECKED = "ok", "wrong", "not checked"  #: outcomes
STATUSES = {OK: 0, WRONG: 1, NOT_CHECKED: 4}  #: of a process; 4 as of an audit without a verdict

#: Of these a missing or changed file is the cause; of all others something between the file and its reader.
_DAMAGE = {errno.ENOENT, errno.ENOTDIR, errno.EISDIR, errno.ELOOP, errno.ENAMETOOLONG, errno.EEXIST}

#: SQLite's primary result codes that speak of its surroundings, not of what is in the database.
_SURROUNDINGS = {
    sqlite3.SQLITE_PERM, sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_NOMEM, sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_IOERR, sqlite3.SQLITE_FULL, sqlite3.SQLITE_CANTOPEN, sqlite3.SQLITE_INTERRUPT,
}  # fmt: skip


def could_not_look(error: BaseException) -> bool:
    """Whether an error tells that something could not be looked at, and nothing about what is there.

    An AuditError that was made of an OSError or an SQLite error is as that one was.
    """
    cause: BaseException | None = error
    while cause is not None:
        if isinstance(cause, UnavailableError | ImportError | MemoryError):
            return True
        if isinstance(cause, OSError):
            return cause.errno is not None and cause.errno not in _DAMAGE
        if isinstance(cause, sqlite3.Error):
            return getattr(cause, "sqlite_errorcode", 0) & 0xFF in _SURROUNDINGS
        cause = cause.__cause__ or cause.__context__
    return False


@dataclass
class Report:
    """What was looked at, what is wrong, what could not be looked at, and what is merely worth knowing."""

    checked: dict[str, int] = field(default_factory=dict)
    findings: list[str] = field(default_factory=list)
    unchecked: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def outcome(self) -> str:
        """OK, WRONG or NOT_CHECKED; what is wrong counts first."""
        return WRONG if self.findings else NOT_CHECKED if self.unchecked else OK

    def count(self, what: str, number: int = 1) -> None:
        self.checked[what] = self.checked.get(what, 0) + number

    def found(self, problem: str) -> None:
        if len(self.findings) < MAX_FINDINGS:
            self.findings.append(problem)
        else:
            self.count("further problems")

    def missed(self, what: str) -> None:
        """Something could not be looked at."""
        if len(self.unchecked) < MAX_FINDINGS:
            self.unchecked.append(what)
        else:
            self.count("further things not checked")

    def failed(self, where: str, error: AuditError | OSError | sqlite3.Error) -> None:
        """What an error tells of ``where``: that it is wrong, or that it could not be looked at."""
        text = str(error) if isinstance(error, AuditError) else f"cannot be read ({error})"
        (self.missed if could_not_look(error) else self.found)(f"{where}: {text}" if where else text)

    @contextlib.contextmanager
    def guard(self, where: str) -> Iterator[None]:
        """Whatever goes wrong in the block is a finding, or not checked; the examination goes on."""
        try:
            yield
        except (AuditError, OSError, sqlite3.Error) as error:
            self.failed(where, error)

    def as_json(self) -> dict[str, Any]:
        return {
            "ok": self.outcome == OK,
            "outcome": self.outcome,
            "findings": self.findings,
            "unchecked": self.unchecked,
            "notes": self.notes,
            "checked": self.checked,
            "seconds": round(self.seconds, 2),
        }
