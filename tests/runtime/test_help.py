# SPDX-License-Identifier: GPL-3.0-or-later
"""Help of the four programs: a command in one short line, many options under headings."""

from __future__ import annotations

import importlib
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner

from ragseal.runtime.sections import REST, Sectioned

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
