# SPDX-License-Identifier: GPL-3.0-or-later
"""What the command lines of provider, auditor and account have in common.

Rich is imported where it is used: most commands show nothing while they work, and need not wait for it.
"""

from __future__ import annotations

import contextlib
import functools
import json
import resource
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragseal import __version__
from ragseal.kernel.errors import AuditError
from ragseal.runtime.streams import NOT_WRITTEN, InputError, guarded
from ragseal.runtime.tls import ClientTls, ServerTls

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress, TaskID

FIRST_SECONDS = 2.0  #: without a terminal nothing is said of what takes less
LINE_SECONDS = 30.0  #: between two lines on the same thing, where no bar can be shown

CONTEXT: dict[str, Any] = {"help_option_names": ["-h", "--help"], "max_content_width": 100}

JSON = click.option("--json", "as_json", is_flag=True, help="Print the result as one JSON object; progress on stderr.")
PEM = click.Path(path_type=Path, exists=True, dir_okay=False)


def state_folder(variable: str, default: str, what: str) -> Callable[..., Any]:
    """--state, given to the command as ``directory``."""
    return click.option(
        "--state",
        "directory",
        type=click.Path(path_type=Path, file_okay=False),
        envvar=variable,
        default=Path(default),
        show_default=True,
        help=f"{what} (also {variable}).",
    )


def version(program: str) -> Callable[..., Any]:
    """--version of a program."""
    return click.version_option(__version__, prog_name=program, message="%(prog)s %(version)s")


def stderr_console() -> Console:
    """Where programs say what they are doing: lines are wrapped on a terminal, nowhere else."""
    from rich.console import Console

    return Console(stderr=True, highlight=False, soft_wrap=not sys.stderr.isatty())


def progress_bars() -> Progress:
    """Bars on stderr for what takes longer than two seconds."""
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    return Progress(
        SpinnerColumn(),
        TextColumn("{task.description}", markup=False),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        TimeRemainingColumn(),
        console=stderr_console(),
    )


def tell_result(as_json: bool, values: dict[str, Any], text: str) -> None:
    """A command's result: for people, or as one JSON object."""
    click.echo(json.dumps(values) if as_json else text)


@contextlib.contextmanager
def telling(text: str) -> Iterator[Callable[[str], None]]:
    """Shows on stderr what is being done: in place on a terminal, a line each elsewhere."""
    console = stderr_console()
    if console.is_terminal:
        from rich.text import Text

        with console.status(text) as status:
            yield lambda now: status.update(Text(now))  # a name in brackets is no markup
        return
    said = ""

    def say(now: str) -> None:
        nonlocal said
        if now != said:
            console.print(now, markup=False)
        said = now

    say(text)
    yield say


@contextlib.contextmanager
def named_bars() -> Iterator[Callable[[str, int, int], None]]:
    """A function of (what, done, total) that keeps one bar for each thing that is being done.

    Without a terminal it writes a line when something begins, and one every LINE_SECONDS while it goes on.
    """
    if not sys.stderr.isatty():
        yield _lines()
        return
    with progress_bars() as bars:
        tasks: dict[str, TaskID] = {}

        def tell(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        yield tell


def _lines() -> Callable[[str, int, int], None]:
    """As :func:`named_bars` without a terminal.  What takes less than FIRST_SECONDS says nothing."""
    began = time.monotonic()
    said: dict[str, float] = {}

    def tell(what: str, done: int, total: int) -> None:
        now = time.monotonic()
        if now < began + FIRST_SECONDS or now < said.get(what, 0.0) + LINE_SECONDS:
            return
        said[what] = now
        of = f": {done} of {total}" if total else f": {done}" if done else ""
        click.echo(f"{what}{of}", err=True)

    return tell


@contextlib.contextmanager
def nothing_told() -> Iterator[Callable[[str, int, int], None]]:
    """As :func:`named_bars`, for programs whose stderr is read by other programs."""
    yield lambda what, done, total: None


def client_tls(command: Callable[..., Any]) -> Callable[..., Any]:
    """--ca, --cert, --cert-key, --plain, given to the command as ``tls``."""

    @click.option("--ca", type=PEM, help="TLS: the authority to trust (PEM), instead of the system's.")
    @click.option("--cert", type=PEM, help="Mutual TLS: own certificate (PEM).")
    @click.option("--cert-key", type=PEM, help="Mutual TLS: its private key (PEM).")
    @click.option("--plain", is_flag=True, help="No TLS, even beyond loopback.")
    @functools.wraps(command)
    def wrapped(ca: Path | None, cert: Path | None, cert_key: Path | None, plain: bool, **rest: Any) -> Any:
        return command(tls=ClientTls(ca, cert, cert_key, plain), **rest)

    return wrapped


def server_tls(command: Callable[..., Any]) -> Callable[..., Any]:
    """--tls-cert, --tls-key, --tls-clients, --listen-plain, given to the command as ``own``."""

    @click.option("--tls-cert", type=PEM, help="Own certificate with its chain (PEM).")
    @click.option("--tls-key", type=PEM, help="Its private key (PEM).")
    @click.option("--tls-clients", type=PEM, help="Mutual TLS: the authority (PEM) whose certificate callers need.")
    @click.option("--listen-plain", is_flag=True, help="Listen without TLS, even beyond loopback.")
    @functools.wraps(command)
    def wrapped(
        tls_cert: Path | None, tls_key: Path | None, tls_clients: Path | None, listen_plain: bool, **rest: Any
    ) -> Any:
        return command(own=ServerTls(tls_cert, tls_key, tls_clients, listen_plain), **rest)

    return wrapped


def keep_no_core() -> None:
    """No core file of a process that holds keys, seeds or queries, should it crash."""
    _, hard = resource.getrlimit(resource.RLIMIT_CORE)
    resource.setrlimit(resource.RLIMIT_CORE, (0, hard))


class _NoInput(click.ClickException):
    exit_code = NOT_WRITTEN


class Teaching(click.Group):
    """Shows commands in the order in which they are used, and every refusal as one line.

    A program that starts with it has the standard streams of :mod:`ragseal.runtime.streams`.
    """

    def main(self, *args: Any, **kwargs: Any) -> Any:
        with guarded():
            return super().main(*args, **kwargs)

    def invoke(self, ctx: click.Context) -> Any:
        keep_no_core()
        try:
            return super().invoke(ctx)
        except AuditError as error:
            kind = _NoInput if isinstance(error, InputError) else click.ClickException
            raise kind(str(error)) from None

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)
