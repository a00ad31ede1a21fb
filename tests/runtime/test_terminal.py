# SPDX-License-Identifier: GPL-3.0-or-later
"""What programs say on stderr: logs that other programs can read, and foreign text as it is."""

from __future__ import annotations

import json
import re
import subprocess
import sys

import pytest

from ragseal.runtime import terminal
from ragseal.runtime.terminal import named_bars, progress_bars, stderr_console, tell_result, telling

LONG = "a message of [bold]square[/bold] brackets that is longer than any terminal " + "and longer " * 20


def test_logs_in_files_are_whole_lines_with_iso_dates() -> None:
    code = (
        "import logging; from ragseal.runtime.logs import log_to_stderr; log_to_stderr();"
        f"logging.getLogger('ragseal.x').warning('%s', {LONG!r}); logging.getLogger('ragseal.x').info('second')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    first, second = done.stderr.splitlines()
    found = re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ (\w+) (.*)", first)
    assert found is not None, first
    assert found.groups() == ("WARNING", LONG)
    assert second.endswith("Z INFO second")


def test_other_lines_are_not_wrapped_off_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    stderr_console().print(LONG, markup=False)
    assert capsys.readouterr().err == LONG + "\n"


def test_names_of_tasks_are_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    """A tenant's name is whatever an operator typed."""
    with progress_bars() as bars:
        bars.add_task("embedding for [red]acme[/red]", completed=1, total=2)
    assert "[red]acme[/red]" in capsys.readouterr().err


def test_long_work_says_a_line_now_and_then_where_there_is_no_terminal(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """2,000 documents were put in 27 minutes without a word; what is done at once says nothing."""
    now = 100.0
    monkeypatch.setattr(terminal.time, "monotonic", lambda: now)
    with named_bars() as tell:
        for step in range(1, 62):
            tell("embedding for acme", step, 2000)
            now += 1
        tell("entering the manifest", 0, 0)
    assert capsys.readouterr().err.splitlines() == [
        "embedding for acme: 3 of 2000", "embedding for acme: 33 of 2000", "entering the manifest",
    ]  # fmt: skip
    with named_bars() as tell:
        tell("embedding for acme", 1, 2)
    assert capsys.readouterr().err == ""


def test_what_takes_long_is_told_where_there_is_no_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    """A log or a pipe gets a line for every step, once; keygen said nothing there for a minute."""
    with telling("compiling") as tell:
        for step in ("compiling", "keys [1/2]", "keys [1/2]", "checking"):
            tell(step)
    assert capsys.readouterr().err.splitlines() == ["compiling", "keys [1/2]", "checking"]


def test_results_are_for_people_or_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    """As JSON, text of others is ASCII: nothing in it steers a terminal, whatever encoding that has."""
    values = {"text": "\u00e9\u202e\x1b[2J"}
    tell_result(False, values, "a line")
    tell_result(True, values, "a line")
    line, told = capsys.readouterr().out.splitlines()
    assert (line, json.loads(told)) == ("a line", values)
    assert told.isascii()
    assert told.isprintable()
