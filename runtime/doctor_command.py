# SPDX-License-Identifier: GPL-3.0-or-later
"""``doctor``, one command of every program."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from ragseal.kernel.printable import printable
from ragseal.runtime.edges.cause import Finding, State
from ragseal.runtime.edges.doctor import Checkup, examine
from ragseal.runtime.terminal import JSON, client_tls, server_tls, telling
from ragseal.runtime.tls import LOOPBACK_ONLY

WIDTH = len(State.UNCHECKED)


def doctor_command(state: Callable[..., Any], parameter: str, peer: str, serves: bool) -> click.Command:
    """The command of a program.

    Args:
        state: the program's option --state.
        parameter: by which name that option gives the folder.
        peer: the option by which the program names its peers, such as ``--provider``.
        serves: whether the program listens.
    """

    def run(**given: Any) -> None:
        what = Checkup(
            folder=given[parameter],
            listen=given.get("listen", ()),
            own=given.get("own", LOOPBACK_ONLY),
            peers=given["peers"],
            tls=given["tls"],
            peer_option=peer,
            serves=serves,
        )
        with telling("looking at the state folder") as tell:
            found = asyncio.run(examine(what, tell))
        wrong = sum(one.state is State.WRONG for one in found)
        if given["as_json"]:
            click.echo(json.dumps({"wrong": wrong, "findings": [one.values() for one in found]}))
        else:
            click.echo(in_words(found))
        sys.exit(1 if wrong else 0)

    run.__doc__ = """Look at everything between this program and its machine; 1 if something is wrong.

    It tries the state folder with its file system, locks and database, and looks at the disk, the clock, open files,
    proxies of the environment, TLS files, addresses and peers. What is wrong comes with a way out. Nothing is changed:
    files that are made to try are removed again. What no option names is listed as not checked.
    """
    command: Callable[..., None] = JSON(client_tls(run))
    if serves:
        command = server_tls(command)
        command = click.option("--listen", multiple=True, metavar="HOST:PORT",
                               help="An address on which it is to listen; may be repeated.")(command)  # fmt: skip
    command = click.option(peer, "peers", multiple=True, metavar="HOST:PORT", help="A peer; may be repeated.")(command)
    made = click.command("doctor", short_help="Look for what keeps calls from arriving")(state(command))
    for option in made.params:
        if option.name == parameter:  # what is wrong with the folder is found below, and not by the option's type
            option.type, option.metavar = click.Path(path_type=Path), "DIRECTORY"
    return made


def in_words(found: Sequence[Finding]) -> str:
    """The findings for a person, a way out below each that has one."""
    lines = []
    for one in found:
        state = one.state.upper() if one.state is State.WRONG else one.state.value
        lines.append(f"{state:<{WIDTH}}  {printable(one.probe)}: {printable(one.said)}")
        if one.way:
            lines.append(f"{'':<{WIDTH}}    {printable(one.way)}")
    wrong = sum(one.state is State.WRONG for one in found)
    open_ = sum(one.state is State.UNCHECKED for one in found)
    lines.append(f"{wrong} wrong, {open_} not checked, {len(found) - wrong - open_} ok")
    return "\n".join(lines)
