# SPDX-License-Identifier: GPL-3.0-or-later
"""From which second on a window or a clock is told as wrong, and what is said of a window that waits."""

from __future__ import annotations

import errno
import shutil
import sqlite3
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.kernel.errors import ConfigurationError, UnavailableError
from ragseal.prover.base.check_report import MAX_FINDINGS, NOT_CHECKED, OK, STATUSES, WRONG, Report, could_not_look
from ragseal.prover.serving import health
from ragseal.prover.serving.health import CLOCK_SKEW, OPENS_AFTER, RESERVE, WITNESS_SECONDS, Running, crowded
from ragseal.prover.storage.history import History
from ragseal.prover.storage.window import Window
from tests.simulator.provider import Clock, make_policy

AUDITORS = ("auditor",)


class Scene:
    """What of a provider is looked at for its windows: its ledger's history and its clock."""

    def __init__(self) -> None:
        self.history = History("log.example/x", bytes(32), bytes(32))
        self.clock = Clock()
        self.provider: Any = SimpleNamespace(
            journal=SimpleNamespace(history=self.history), environment=SimpleNamespace(clock=self.clock)
        )

    def add(self, name: str, beacon: int | None = None) -> Window:
        """A window of the newest manifest; open where it has a beacon."""
        policy = make_policy(duration=3600)
        signed: Any = SimpleNamespace(
            manifest=SimpleNamespace(
                policy=policy, window=name, auditors=[SimpleNamespace(owner=one) for one in AUDITORS]
            )
        )
        window = Window(signed, name.encode() * 16, 0, beacon=beacon, opened_at=policy.opens)
        self.history.windows[window.digest] = window
        if beacon is not None:
            window.time = policy.opens
            self.history._open = window
        return window

    def at(self, now: float) -> list[tuple[str, str]]:
        self.clock.now = now
        return [(one.what, one.text) for one in health._windows(self.provider)]


def test_an_open_window_is_over_behind_its_last_second() -> None:
    scene = Scene()
    window = scene.add("w1", beacon=1)
    assert scene.at(window.closes) == []
    [(what, text)] = scene.at(window.closes + 1)
    assert what == "window"
    assert "and is not closed" in text


def test_a_window_that_is_not_open_waits_a_while_and_is_then_told_once() -> None:
    scene = Scene()
    window = scene.add("w1")
    since = window.manifest.policy.opens + OPENS_AFTER
    assert since < window.closes
    assert scene.at(since) == []
    for late in (since + 1, window.closes):
        [(what, text)] = scene.at(late)
        assert what == "window"
        assert "w1 is not open yet" in text
    [(_, text)] = scene.at(window.closes + 1)
    assert "before it was open: commit a new one" in text


def test_a_window_that_follows_an_open_one_waits_for_that_one() -> None:
    scene = Scene()
    window, following = scene.add("w1", beacon=1), scene.add("w2")
    assert scene.at(following.manifest.policy.opens + OPENS_AFTER + 1) == []
    late = max(window.closes, following.closes) + 1
    assert ["w1" in text or "w2" in text for _, text in scene.at(late)] == [True, True]
    assert "window w2 was over" in scene.at(late)[1][1]


def test_it_is_said_whom_or_what_a_window_waits_for() -> None:
    scene = Scene()
    window: Any = scene.add("w1")
    late = window.manifest.policy.opens + OPENS_AFTER + 1

    def said() -> str:
        [(_, text)] = scene.at(late)
        return text

    assert "no auditor that its manifest names has committed" in said()
    window.commits["auditor"] = SimpleNamespace()
    assert "the provider has not sealed its beacon" in said()
    window.seal = SimpleNamespace(owners=("provider", "observer-1", "auditor"))
    window.openings["provider"] = bytes(32)
    assert "observer-1, auditor did not open the nonce yet" in said()
    window.openings |= {"observer-1": bytes(32), "auditor": bytes(32)}
    assert "its beacon is complete" in said()


def test_a_clock_may_lie_a_little_behind_the_ledger() -> None:
    """Of any window: that which is newest need not have the newest time."""
    scene = Scene()
    window = scene.add("w1", beacon=1)
    scene.add("w2")
    assert scene.at(window.time - CLOCK_SKEW) == []
    assert [what for what, _ in scene.at(window.time - CLOCK_SKEW - 1)] == ["clock"]
    scene.history._open = None
    assert [what for what, _ in scene.at(window.time - CLOCK_SKEW - 1)] == ["clock"]


def test_an_empty_ledger_has_nothing_wrong() -> None:
    assert Scene().at(0) == []


def test_a_witness_is_away_behind_its_last_second() -> None:
    assert list(health._running(Running(witness_age=WITNESS_SECONDS))) == []
    [away] = health._running(Running(witness_age=WITNESS_SECONDS + 1))
    assert away.what == "witness"


@pytest.mark.parametrize(("free", "told"), [(RESERVE, 0), (RESERVE - 1, 1)])
def test_a_disk_is_crowded_below_its_reserve(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, free: int, told: int
) -> None:
    monkeypatch.setattr(shutil, "disk_usage", lambda _: SimpleNamespace(free=free))
    assert len(list(crowded(tmp_path))) == told


# What an examination concludes: what is wrong counts first, and what could not be looked at accuses nobody.


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
