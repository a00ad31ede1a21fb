# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of a command that serves: which of flag, environment and file counts, and what a file may not say."""

from __future__ import annotations

import importlib
import json
import logging
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner, Result

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime import settings, texts
from ragseal.runtime.sections import REST, Sectioned
from ragseal.runtime.settings import Configured, logs_for_people, only_checked, read_again
from ragseal.runtime.terminal import Teaching

seen: dict[str, Any] = {}


@click.group(cls=Teaching)
def main() -> None:
    """A program."""


@main.command(cls=Configured, prefix="RAGSEAL_X")
@click.option("--listen", default="127.0.0.1:1")
@click.option("--witness", "witnesses", multiple=True)
@click.option("--verdicts/--no-verdicts", default=True)
@click.option("--tick", type=click.FloatRange(0, 60), default=0.1)
@click.option("--places", type=click.IntRange(1, 63), default=1)
@click.option("--tls-cert", type=click.Path(path_type=Path, exists=True))
@click.option("--json", "as_json", is_flag=True)
@click.option("--fails", type=click.Choice(["no", "plainly", "badly"]), default="no")
def serve(**given: Any) -> None:
    """Serve."""
    if only_checked(given["as_json"]):
        return
    seen.update(given, context=click.get_current_context(), people=logs_for_people())
    if given["fails"] == "plainly":
        raise ConfigurationError("the port\nis taken")
    if given["fails"] == "badly":
        raise KeyError("a secret query")


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Runs the command with a file's text, the environment and flags."""
    monkeypatch.setattr(settings, "log_to_stderr", lambda form: None)
    seen.clear()

    def run(text: str, *flags: str, **environment: str) -> Result:
        (tmp_path / "serve.toml").write_text(text)
        words = ["serve", "--config", str(tmp_path / "serve.toml"), *flags]
        return CliRunner().invoke(main, words, env=environment)

    return run


def test_what_is_no_number_is_in_no_range(run: Any) -> None:
    """Answers would leave at multiples of it, which nothing is."""
    for done in (run("tick = nan"), run("", "--tick", "nan"), run("", RAGSEAL_X_TICK="nan")):
        assert done.exit_code == 1
        assert "tick takes a finite number, not nan" in done.output
    assert not seen


def test_what_a_file_may_not_say_is_refused_by_name(run: Any, tmp_path: Path) -> None:
    file = tmp_path / "serve.toml"
    for text, said in (
        ('lisen = "a"', f"{file} sets 'lisen', which is not an option: do you mean listen?"),
        ('tls_cert = "a"', "do you mean tls-cert?"),
        ('witnesses = ["a"]', "do you mean witness?"),  # the option's name, not its parameter's
        ("[serve]\nlisten = 1", "sets 'serve', which is not an option: "),
        ('config = "x"', "sets 'config', which is not an option"),
        ("check-config = true", "sets 'check-config', which is not an option"),
        ("listen = 7800", f"{file}: listen: takes text"),
        ('witness = "a"', "witness: takes a list"),
        ('listen = ["a"]', "listen: takes text"),
        ('tick = "0.1"', "tick: takes a number"),
        ("tick = true", "tick: takes a number"),
        ("tick = 61", "tick: 61.0 is not in the range"),
        ("places = 1.5", "places: takes a whole number"),
        ('verdicts = "no"', "verdicts: takes true or false"),
        ('tls-cert = "none.pem"', f"{tmp_path}/none.pem' does not exist"),
        ('fails = "maybe"', "fails: "),
        ("listen", "is not TOML"),
    ):
        done = run(text)
        assert done.exit_code == 1, (text, done.output)
        assert said in done.output, (text, done.output)
        assert not seen
    file.write_bytes(b"\xff")
    assert "line 1: not UTF-8" in CliRunner().invoke(main, ["serve", "--config", str(file)]).output
    file.write_bytes(b"#" * (texts.MAX_FILE + 1))
    assert "more than 1048576 bytes" in CliRunner().invoke(main, ["serve", "--config", str(file)]).output


def test_a_flag_counts_before_the_environment_and_that_before_the_file(run: Any, tmp_path: Path) -> None:
    (tmp_path / "own.pem").touch()
    text = 'listen = "file:1"\ntick = 2\nplaces = 3\nwitness = ["a b", "c"]\nverdicts = false\ntls-cert = "own.pem"\n'
    done = run(text, "--listen", "flag:1", RAGSEAL_X_LISTEN="environment:1", RAGSEAL_X_TICK="4")
    assert done.exit_code == 0, done.output
    assert (seen["listen"], seen["tick"], seen["places"]) == ("flag:1", 4.0, 3)
    assert (seen["witnesses"], seen["verdicts"]) == (("a b", "c"), False)
    assert seen["tls_cert"] == tmp_path / "own.pem"  # the file's neighbour, wherever the program was started
    assert run(text, RAGSEAL_X_WITNESS="d e", RAGSEAL_X_VERDICTS="true").exit_code == 0
    assert (seen["witnesses"], seen["verdicts"]) == (("d", "e"), True)


def test_the_file_itself_may_be_named_by_the_environment(run: Any, tmp_path: Path) -> None:
    run("places = 7")
    done = CliRunner().invoke(main, ["serve"], env={"RAGSEAL_X_CONFIG": str(tmp_path / "serve.toml")})
    assert done.exit_code == 0, done.output
    assert seen["places"] == 7


def test_the_check_says_where_each_option_comes_from_and_no_password(run: Any, tmp_path: Path) -> None:
    text = 'listen = "https://anna:a/hunter1@hunter2@host/v1?key=hunter3"\nplaces = 3\nwitness = ["a\\"b"]\n'
    done = run(text, "--check-config", "--tick", "2", RAGSEAL_X_FAILS="plainly")
    assert done.exit_code == 0, done.output
    assert not seen
    assert "hunter" not in done.output
    lines = done.output.splitlines()
    assert f"places = 3  # file {tmp_path}/serve.toml" in lines
    assert "tick = 2.0  # flag --tick" in lines
    assert 'fails = "plainly"  # environment RAGSEAL_X_FAILS' in lines
    assert "verdicts = true  # default" in lines
    assert "# tls-cert is not set" in lines
    again = tomllib.loads(done.output)  # it is such a file itself
    assert again["witness"] == ['a"b']
    assert run(done.output).exit_code == 1  # fails = "plainly"
    told = json.loads(run(text, "--check-config", "--json").output)
    assert told["places"] == {"value": 3, "source": f"file {tmp_path}/serve.toml"}
    assert "hunter" not in json.dumps(told)


def test_a_running_command_reads_its_file_again(run: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert run("places = 3", "--tick", "2").exit_code == 0
    (tmp_path / "serve.toml").write_text("places = 4\ntick = 9")
    found = read_again(seen["context"], ("places",))
    assert (found["places"], found["tick"]) == (4, 2.0)
    assert not caplog.messages
    read_again(seen["context"])
    assert caplog.messages == ["places has changed in the file: that takes effect at the next start"]
    for bad in ("place = 4", "places = 99"):
        (tmp_path / "serve.toml").write_text(bad)
        with pytest.raises(ConfigurationError):
            read_again(seen["context"])
    (tmp_path / "serve.toml").unlink()
    with pytest.raises(ConfigurationError, match="does not exist"):
        read_again(seen["context"])


def test_what_ends_a_program_stands_in_its_log_as_json(run: Any, caplog: pytest.LogCaptureFixture) -> None:
    done = run("", "--fails", "plainly")
    assert done.output == "Error: the port\nis taken\n"
    assert seen["people"]
    caplog.set_level(logging.INFO)
    done = run("", "--fails", "plainly", "--log-format", "json")
    assert (done.exit_code, done.output) == (1, "")
    assert caplog.messages == ["the port\nis taken"]
    assert not seen["people"]
    done = run("", "--fails", "badly", "--log-format", "json")
    assert (done.exit_code, done.output) == (1, "")
    assert caplog.messages[1:] == ["the program ends"]


# Help of the four programs: a command in one short line, many options under headings.


PROGRAMS = ("prover", "verifier", "ledger", "client")
LONGEST = 45  #: characters of a command's line in a list of commands


def commands(group: click.Command, *path: str) -> Iterator[tuple[str, click.Command]]:
    yield " ".join(path), group
    if isinstance(group, click.Group):
        for name, command in group.commands.items():
            yield from commands(command, *path, name)


EVERY = [
    pytest.param(command, id=name)
    for part in PROGRAMS
    for name, command in commands(importlib.import_module(f"ragseal.{part}.__main__").main, part)
]
SECTIONED = [one for one in EVERY if isinstance(one.values[0], Sectioned) and one.values[0].sections]


@pytest.mark.parametrize("command", [one for one in EVERY if " " in str(one.id)])
def test_a_list_of_commands_shows_each_in_whole_words(command: click.Command) -> None:
    assert command.short_help
    assert len(command.short_help) <= LONGEST
    assert not command.short_help.endswith((".", " "))


@pytest.mark.parametrize("command", SECTIONED)
def test_sections_hold_every_option_once(command: Sectioned) -> None:
    named = [name for names in command.sections.values() for name in names]
    options = {opt.lstrip("-") for param in command.params for opt in param.opts} | {"help"}
    assert len(named) == len(set(named))
    assert set(named) <= options
    shown = CliRunner().invoke(command, ["--help"]).output
    assert f"{REST}:" not in shown
    assert [title for title in command.sections if f"\n{title}:\n" not in shown] == []
    assert [name for name in named if f"--{name}" not in shown] == []


def test_a_command_with_many_options_has_sections() -> None:
    assert {str(one.id) for one in SECTIONED} >= {"prover plan", "prover serve"}
