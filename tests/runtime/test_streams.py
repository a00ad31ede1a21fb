# SPDX-License-Identifier: GPL-3.0-or-later
"""Standard streams that fail: one line, a status of its own, and whatever was done before the print stays done."""

from __future__ import annotations

import json
import logging
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from ragseal import __version__
from ragseal.client.account import read_name
from ragseal.runtime import terminal
from ragseal.runtime.logs import DEEPEST, JsonFormatter
from ragseal.runtime.streams import NOT_WRITTEN, Decided, guarded, output_lost
from ragseal.runtime.terminal import named_bars, progress_bars, stderr_console, tell_result, telling

PROGRAMS = {
    "ragseal": "from ragseal.programs import trial as main",
    "ragseal-provider": "from ragseal.programs import provider as main",
    "ragseal-verifier": "from ragseal.programs import verifier as main",
    "ragseal-observer": "from ragseal.programs import observer as main",
    "ragseal-client": "from ragseal.programs import client as main",
    "circuits": "from ragseal.circuits.__main__ import main",
    "repeat": "from ragseal.client.repeat import main",
}
INSTALLED = [name for name in PROGRAMS if name.startswith("ragseal")]
INPUT, OUTPUT, ERROR = 0, 1, 2


class Shell:
    """Runs a program with some of its descriptors closed or full; what it said on the others is kept in files."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def run(
        self, name: str, *arguments: object, shell: str = "", before: str = "", **variables: str
    ) -> tuple[int, str, str]:
        """Exit status, standard output and standard error; ``shell``: redirections that come last."""
        out, err = self._folder / "out", self._folder / "err"
        out.write_bytes(b"")
        err.write_bytes(b"")
        code = f"import sys\n{before}\nsys.argv[0] = {name!r}\n{PROGRAMS[name]}\nsys.exit(main())"
        done = subprocess.run(
            [
                "sh",
                "-c",
                f'"$@" >"$0/out" 2>"$0/err" {shell}',
                self._folder,
                sys.executable,
                "-c",
                code,
                *map(str, arguments),
            ],
            env={**os.environ, **variables},
            timeout=120,
            check=False,
        )
        return done.returncode, out.read_text("latin-1"), err.read_text("latin-1")


@pytest.fixture
def shell(tmp_path: Path) -> Shell:
    folder = tmp_path / "said"
    folder.mkdir()
    return Shell(folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", PROGRAMS)
@pytest.mark.parametrize(("lost", "why"), [(">/dev/full", "No space left on device"), (">&-", "it is closed")])
def test_output_that_cannot_be_written_is_one_line_and_a_status(shell: Shell, name: str, lost: str, why: str) -> None:
    for option in ["--help", "--version"] if name in INSTALLED else ["--help"]:
        status, out, err = shell.run(name, option, shell=lost)
        assert (status, out) == (NOT_WRITTEN, "")
        assert err == f"standard output cannot be written ({why}): the command goes on without it\n"


@pytest.mark.slow
@pytest.mark.parametrize("name", INSTALLED)
def test_a_reader_that_has_gone_is_one_line_and_a_status(name: str) -> None:
    code = f"import sys\n{PROGRAMS[name]}\nsys.argv[0] = {name!r}\nsys.exit(main())"
    read, write = os.pipe()
    os.close(read)
    done = subprocess.run([sys.executable, "-c", code, "--help"], stdout=write, stderr=subprocess.PIPE, timeout=120)
    os.close(write)
    assert done.returncode == NOT_WRITTEN
    assert done.stderr == b"standard output cannot be written (Broken pipe): the command goes on without it\n"


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["2>/dev/full", "2>&-"])
def test_lost_progress_and_lost_errors_change_nothing(shell: Shell, tmp_path: Path, lost: str) -> None:
    assert shell.run("ragseal-client", "--version", shell=lost) == (0, f"ragseal-client {__version__}\n", "")
    nobody = "receipts", "list", "--state", tmp_path / "nobody"
    assert shell.run("ragseal-client", *nobody, shell=lost) == (1, "", "")
    assert shell.run("ragseal-client", *nobody, shell=f">/dev/full {lost}") == (1, "", "")


@pytest.mark.slow
@pytest.mark.parametrize("lost", ["2>/dev/full", "2>&-"])
def test_bars_and_logs_that_cannot_be_shown_change_nothing(shell: Shell, lost: str) -> None:
    before = (
        "import click, logging\nfrom ragseal.client.__main__ import main as group\n"
        "from ragseal.runtime.logs import log_to_stderr\n"
        "from ragseal.runtime.terminal import named_bars, telling\n"
        "def say():\n"
        "    log_to_stderr()\n"
        "    with named_bars() as tell, telling('working') as now:\n"
        "        for done in range(1000):\n"
        "            tell('part of it', done, 1000)\n"
        "            now(f'step {done}')\n"
        "            logging.getLogger('ragseal').warning('x' * 100)\n"
        "    click.echo('done')\n"
        "group.add_command(click.Command('say', callback=say))"
    )
    assert shell.run("ragseal-client", "say", before=before, shell=lost) == (0, "done\n", "")


@pytest.mark.slow
def test_a_key_is_made_whether_or_not_it_can_be_shown(shell: Shell, tmp_path: Path) -> None:
    """And what is asked for next works: nothing is left half-done."""
    made = tmp_path / "alice"
    status, _, err = shell.run("ragseal-client", "keygen", "--state", made, "--account", "alice", shell=">/dev/full")
    assert status == NOT_WRITTEN
    assert err.count("\n") == 1
    assert read_name(made) == "alice"
    status, out, _ = shell.run("ragseal-client", "register-line", "--state", made, "--tenant", "acme")
    assert (status, out[:33]) == (0, "ragseal-provider accounts add ali")


@pytest.mark.slow
@pytest.mark.parametrize("closed", ["<&-", "0>/dev/null"])
def test_input_that_cannot_be_read_is_one_line_and_a_status(shell: Shell, closed: str) -> None:
    status, out, err = shell.run("ragseal-verifier", "show", "-", shell=closed)
    assert (status, out) == (NOT_WRITTEN, "")
    assert err.startswith("Error: cannot read standard input (")
    assert err.count("\n") == 1


@pytest.mark.slow
def test_a_command_that_reads_nothing_needs_no_input(shell: Shell) -> None:
    assert shell.run("ragseal-client", "--version", shell="<&-") == (0, f"ragseal-client {__version__}\n", "")


@pytest.mark.slow
@pytest.mark.parametrize("encoding", ["latin-1", "cp1252", "utf-8"])
def test_a_letter_that_the_encoding_lacks_is_written_as_an_escape(shell: Shell, encoding: str) -> None:
    """In output and errors; half a surrogate pair, which UTF-8 has no bytes for, too."""
    before = (
        "import click\nfrom ragseal.client.__main__ import main as group\n"
        "def say():\n"
        "    click.echo('\\U0001f600 \\udc80')\n"
        "    click.echo('\\U0001f600 \\udc80', err=True)\n"
        "group.add_command(click.Command('say', callback=say))"
    )
    status, out, err = shell.run("ragseal-client", "say", before=before, PYTHONIOENCODING=encoding)
    assert status == 0, err
    smile = "\U0001f600".encode().decode("latin-1") if encoding == "utf-8" else "\\U0001f600"
    assert out == err == f"{smile} \\udc80\n"


@pytest.mark.slow
def test_no_file_gets_the_number_of_a_stream_that_is_closed(shell: Shell, tmp_path: Path) -> None:
    """What libraries print on descriptor 2 would stand in the file that was opened as number 2, such as a log."""
    kept = tmp_path / "kept"
    before = (
        "import click, os\nfrom ragseal.client.__main__ import main as group\n"
        "def say():\n"
        f"    with open({str(kept)!r}, 'wb') as file:\n"
        "        assert file.fileno() > 2\n"
        "        os.write(2, b'a line of gRPC')\n"
        "        os.write(1, b'another')\n"
        "group.add_command(click.Command('say', callback=say))"
    )
    status, _, _ = shell.run("ragseal-client", "say", before=before, shell="<&- >&- 2>&-")
    assert (status, kept.read_bytes()) == (0, b"")


@pytest.mark.slow
def test_a_library_that_closes_a_stream_ends_no_program_in_a_traceback(shell: Shell) -> None:
    """As that of MCP does, which wraps the bytes of standard output in a text stream of its own."""
    before = (
        "import click\nfrom ragseal.client.__main__ import main as group\n"
        "group.add_command(click.Command('say', callback=lambda: sys.stdout.buffer.close()))"
    )
    assert shell.run("ragseal-client", "say", before=before) == (0, "", "")


@pytest.mark.slow
def test_a_pipe_that_does_not_wait_gets_all_of_it(tmp_path: Path) -> None:
    """Whoever made the pipe may have made it non-blocking: it is full after 64 KiB."""
    code = (
        "import click, os, sys\nfrom ragseal.client.__main__ import main\n"
        "os.set_blocking(1, False)\n"
        "main.add_command(click.Command('say', callback=lambda: click.echo('x' * (1 << 20))))\n"
        "sys.argv = ['ragseal-client', 'say']\nmain()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, timeout=120)
    assert (done.returncode, done.stderr, done.stdout) == (0, b"", b"x" * (1 << 20) + b"\n")


@pytest.mark.parametrize(
    ("end", "status"),
    [
        (SystemExit(0), NOT_WRITTEN),
        (SystemExit(), NOT_WRITTEN),
        (SystemExit(3), 3),
        (SystemExit("no"), "no"),
        (Decided(0), 0),
        (Decided(4), 4),
    ],
    ids=str,
)
def test_lost_output_hides_no_failure_and_changes_no_verdict(
    end: SystemExit, status: int | str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def command(said: str) -> None:
        with guarded():
            print(said, end="", flush=True)
            assert output_lost() == bool(said)
            raise end

    with Path("/dev/full").open("w") as full:
        for said in ("x", ""):
            monkeypatch.setattr(sys, "stdout", full)
            with pytest.raises(SystemExit) as ended:
                command(said)
            assert ended.value.code == (status if said else end.code)
            assert sys.stdout is full


# A log for machines: one object a line, whatever was logged, and nothing that an unforeseen error quotes.


def record_of(message: str, *arguments: object, failed: bool = False) -> logging.LogRecord:
    trouble = sys.exc_info() if failed else None
    return logging.LogRecord("ragseal.x", logging.WARNING, __file__, 1, message, arguments, trouble)


def test_a_record_is_one_line_whatever_it_says() -> None:
    line = JsonFormatter().format(record_of("two\nlines \x1b[2J \u202e %s", "é"))
    assert line.isascii()
    assert line.isprintable()
    values = json.loads(line)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\dZ", values.pop("time"))  # seconds: no finer than the plain log
    assert values == {"level": "warning", "logger": "ragseal.x", "message": "two\nlines \x1b[2J \u202e é"}


def test_an_error_is_told_by_type_and_place_never_by_its_words() -> None:
    def deep(left: int) -> None:
        if left:
            return deep(left - 1)
        raise KeyError("a secret query")

    try:
        try:
            deep(50)
        except KeyError as error:
            raise ValueError("alice's key") from error
    except ValueError:
        line = JsonFormatter().format(record_of("a call failed", failed=True))
    assert "secret" not in line
    assert "alice" not in line
    found = json.loads(line)["exception"]
    assert found["type"] == "ValueError"
    assert len(found["at"]) <= DEEPEST
    assert re.fullmatch(r"runtime/test_streams\.py:\d+ test_an_error_is_told_by_type_and_place_never_by_its_words",
                        found["at"][-1])  # fmt: skip


# What programs say on stderr: logs that other programs can read, and foreign text as it is.


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
