# SPDX-License-Identifier: GPL-3.0-or-later
"""What programs say on stderr: logs that other programs can read, and foreign text as it is."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from ragseal.runtime.terminal import named_bars, stderr_console

LONG = "a message of [bold]square[/bold] brackets that is longer than any terminal " + "and longer " * 20


def test_logs_in_files_are_whole_lines_with_iso_dates() -> None:
    code = (
        "import logging; from ragseal.runtime.terminal import log_to_stderr; log_to_stderr();"
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
    with named_bars() as tell:
        tell("embedding for [red]acme[/red]", 1, 2)
    assert "[red]acme[/red]" in capsys.readouterr().err
