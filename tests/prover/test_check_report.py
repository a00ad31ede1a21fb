# SPDX-License-Identifier: GPL-3.0-or-later
"""What an examination concludes: what is wrong counts first, and what could not be looked at accuses nobody."""

from __future__ import annotations

import errno
import sqlite3

import pytest

from ragseal.kernel.errors import ConfigurationError, UnavailableError
from ragseal.prover.base.check_report import MAX_FINDINGS, NOT_CHECKED, OK, STATUSES, WRONG, Report, could_not_look


def sqlite_error(code: int) -> sqlite3.Error:
    error = sqlite3.OperationalError("x")
    error.sqlite_errorcode = code
    return error


@pytest.mark.parametrize(
    ("findings", "unchecked", "outcome"), [(0, 0, OK), (1, 0, WRONG), (0, 1, NOT_CHECKED), (1, 1, WRONG)]
)
def test_what_is_wrong_counts_first(findings: int, unchecked: int, outcome: str) -> None:
    report = Report()
    report.count("records", 5)
    report.notes.append("worth knowing")
    for _ in range(findings):
        report.found("a record is lost")
    for _ in range(unchecked):
        report.missed("the ledger")
    assert report.outcome == outcome
    said = report.as_json()
    assert (said["ok"], said["outcome"]) == (outcome == OK, outcome)
    assert (STATUSES[outcome] == 0) == (outcome == OK)


@pytest.mark.parametrize(
    ("error", "away"),
    [
        (OSError(errno.EIO, "x"), True),
        (OSError(errno.EISDIR, "x"), False),
        (OSError("of some library, without a number"), False),
        (sqlite_error(sqlite3.SQLITE_IOERR), True),
        (sqlite_error(sqlite3.SQLITE_IOERR_READ), True),
        (sqlite_error(sqlite3.SQLITE_BUSY_SNAPSHOT), True),
        (sqlite_error(sqlite3.SQLITE_CORRUPT), False),
        (sqlite_error(sqlite3.SQLITE_CORRUPT_INDEX), False),
        (sqlite3.DatabaseError("of a library without codes"), False),
        (MemoryError(), True),
        (UnavailableError("x"), True),
        (ConfigurationError("x"), False),
    ],
    ids=repr,
)
def test_an_error_accuses_only_where_it_speaks_of_what_is_there(error: Exception, away: bool) -> None:
    assert could_not_look(error) == away
    if isinstance(error, ConfigurationError | OSError | sqlite3.Error):
        report = Report()
        with report.guard("the folder"):
            raise error
        assert (len(report.unchecked), len(report.findings)) == ((1, 0) if away else (0, 1))


def test_an_error_that_was_made_of_another_is_as_that_one() -> None:
    for cause, away in ((OSError(errno.EACCES, "x"), True), (FileNotFoundError(errno.ENOENT, "x"), False)):
        made = ConfigurationError("cannot be read")
        made.__cause__ = cause
        assert could_not_look(made) == away


def test_so_many_findings_are_listed_and_the_others_counted() -> None:
    report = Report()
    for number in range(MAX_FINDINGS + 2):
        report.found(f"{number}")
        report.missed(f"{number}")
    assert (len(report.findings), len(report.unchecked)) == (MAX_FINDINGS, MAX_FINDINGS)
    assert report.checked == {"further problems": 2, "further things not checked": 2}
