# SPDX-License-Identifier: GPL-3.0-or-later
"""What the commands of ragseal-observer have in common: options, errors as exit statuses, the observer's own key."""

from __future__ import annotations

import contextlib
import functools
import sys
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import click

from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.ledger.named_log import named_log
from ragseal.ledger.note import COSIGNATURE, NoteSigner, NoteVerifier
from ragseal.ledger.observer import AlarmError, Progress
from ragseal.ledger.remote import RemoteBeacon, RemoteLedger
from ragseal.ledger.witness import Witness
from ragseal.runtime import rpc, texts
from ragseal.runtime.keyfile import load_key
from ragseal.runtime.terminal import client_tls
from ragseal.runtime.tls import ClientTls

ALARM = 3  #: exit status after an alarm; 1: anything else that failed, 2: wrong usage

Command = Callable[..., None]


@dataclass(frozen=True, slots=True)
class Peer:
    """Where the log is, and by what key and certificates it is known."""

    provider: str
    log: NoteVerifier
    tls: ClientTls

    @contextlib.asynccontextmanager
    async def connect(self) -> AsyncIterator[RemoteLedger]:
        async with self.connect_both() as (ledger, _):
            yield ledger

    @contextlib.asynccontextmanager
    async def connect_both(self) -> AsyncIterator[tuple[RemoteLedger, RemoteBeacon]]:
        """Also for a part in the beacon."""
        channel = rpc.dial(self.provider, self.tls)
        try:
            yield RemoteLedger(channel, self.provider), RemoteBeacon(channel, self.provider)
        finally:
            await channel.close()


def plain_errors(command: Command) -> Command:
    """AuditErrors become one line on stderr and an exit status."""

    @functools.wraps(command)
    def wrapped(*args: Any, **kwargs: Any) -> None:
        try:
            command(*args, **kwargs)
        except AlarmError as error:
            click.echo(f"ALARM: {error}", err=True)
            click.echo("Keep the evidence, show it to others, and do not rely on this log.", err=True)
            sys.exit(ALARM)
        except AuditError as error:
            click.echo(f"Error: {error}", err=True)
            sys.exit(1)
        except KeyboardInterrupt:
            click.echo("stopped", err=True)

    return wrapped


def peer_options(command: Command) -> Command:
    """--provider, --log-key and TLS, given to the command as ``peer``."""

    @click.option("--provider", required=True, metavar="HOST:PORT", help="Where the provider serves its ledger.")
    @click.option(
        "--log-key", required=True, metavar="KEY", help="The log's public key, name+id+base64, or a file that holds it."
    )
    @client_tls
    @functools.wraps(command)
    def wrapped(provider: str, log_key: str, tls: ClientTls, **rest: Any) -> None:
        command(peer=Peer(provider, named_log(log_key), tls), **rest)

    return wrapped


state_option = click.option(
    "--state",
    type=click.Path(path_type=Path, file_okay=False),
    default=lambda: Path(click.get_app_dir("ragseal-observer")),
    show_default="the user's configuration folder",
    help="Folder with this observer's key and memory.",
)
interval_option = click.option(
    "--interval",
    type=click.FloatRange(min=1),
    default=60.0,
    show_default=True,
    help="Seconds between looks.",
)
witness_policy_option = click.option(
    "--witness-policy",
    type=click.Path(path_type=Path, exists=True, dir_okay=False),
    metavar="FILE",
    help="Follow only what a quorum of this file's witnesses cosigned (C2SP tlog-policy).",
)
json_option = click.option("--json", "as_json", is_flag=True, help="Print JSON, one object a line.")


def signer_of(state: Path) -> NoteSigner:
    """An observer's name and key, which keygen left in its folder.  Raises ConfigurationError: there are none."""
    if not (state / "name").exists():
        raise ConfigurationError(f"no observer key in {state}: run ragseal-observer keygen first")
    name = texts.read_line(state / "name", f"the observer's name {state / 'name'}")
    return NoteSigner(name, load_key(state / "key.pem"), COSIGNATURE)


@contextlib.contextmanager
def open_witness(state: Path) -> Any:
    """This observer's witness."""
    witness = Witness(state, signer_of(state))
    try:
        yield witness
    finally:
        witness.close()


def progress_lines(verb: str, noun: str) -> Progress:
    """Lines on stderr from the third second on, one every two seconds."""
    last = time.monotonic()

    def tell(done: int, total: int) -> None:
        nonlocal last
        if time.monotonic() - last >= 2:
            last = time.monotonic()
            click.echo(f"  {verb} {done:,} of {total:,} {noun}", err=True)

    return tell


def clock() -> str:
    return f"{datetime.now(UTC):%Y-%m-%d %H:%M:%SZ}"
