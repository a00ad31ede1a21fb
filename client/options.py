# SPDX-License-Identifier: GPL-3.0-or-later
"""Options of commands that talk to a provider, and the client that they name."""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from pathlib import Path
from threading import Event, Thread
from typing import TYPE_CHECKING, Any

import click

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.terminal import JSON, client_tls, state_folder
from ragseal.runtime.tls import ClientTls

if TYPE_CHECKING:
    from ragseal.client.client import Client

PATIENCE = 2.0  #: seconds of silence before progress is shown

STATE = state_folder("RAGSEAL_CLIENT_STATE", "account", "This account's folder: key, pins, receipts, evidence")
LOG_KEY = click.option(
    "--log-key",
    metavar="NAME+ID+BASE64|FILE",
    help="The log's verifier key as the provider publishes it, or a file that holds it; pinned once.",
)


@dataclass(frozen=True, slots=True)
class Where:
    """What the options of :func:`connection` name."""

    directory: Path  #: the account's
    provider: str
    ledger: str | None
    log_key: str | None
    provider_key: str | None
    auditor_key: str | None
    witness_policy: Path | None
    embedder: str
    tls: ClientTls
    timeout: float

    def client(self) -> Client:
        """One that asks there.  Raises as Client."""
        from ragseal.client.client import Client  # loads numpy and gRPC: only where they are needed
        from ragseal.client.settings import Calls, Trust

        return Client(
            self.provider,
            self.directory,
            self.log_key,
            None if self.embedder == "none" else self.embedder,
            ledger=self.ledger,
            trust=Trust(
                provider_key=None if self.provider_key is None else key_of(self.provider_key),
                auditor_key=None if self.auditor_key is None else key_of(self.auditor_key),
                witness_policy=self.witness_policy,
            ),
            calls=Calls(self.tls, self.timeout),
        )


def connection(command: Callable[..., None]) -> Callable[..., None]:
    """The options of commands that talk to a provider, given to the command as ``where``."""
    names = [field.name for field in fields(Where)]

    @functools.wraps(command)
    def wrapped(**given: Any) -> None:
        where = Where(**{name: given.pop(name) for name in names})
        command(where=where, **given)

    options: list[Callable[..., Any]] = [
        STATE,
        click.option("--provider", required=True, metavar="HOST:PORT", help="Where the provider serves."),
        click.option("--ledger", metavar="HOST:PORT", help="Where the ledger is read; by default at the provider."),
        LOG_KEY,
        click.option("--provider-key", metavar="HEX", help="The provider's public key; else the first seen is pinned."),
        click.option("--auditor-key", metavar="HEX", help="Ask only in windows that name this auditor; else in any."),
        click.option(
            "--witness-policy",
            type=click.Path(path_type=Path, exists=True, dir_okay=False),
            metavar="FILE",
            help="Ask only in windows whose opening a quorum of this file's witnesses cosigned (C2SP tlog-policy).",
        ),
        click.option(
            "--embedder",
            default="minilm",
            show_default=True,
            help='"minilm", "sentence-transformers:NAME", "declared:PROVIDER/MODEL@DIMENSION", or "none": the provider '
            "embeds, and records say unchecked.",
        ),
        client_tls,
        click.option("--timeout", default=60.0, show_default=True, help="Seconds for one call."),
        JSON,
    ]
    made: Callable[..., None] = wrapped
    for option in reversed(options):
        made = option(made)
    return made


@contextmanager
def connected(where: Where) -> Iterator[Client]:
    """The client, while progress is shown of whatever it is asked."""
    with _progress(f"asking {where.provider}"), where.client() as client:
        yield client


def key_of(text: str) -> bytes:
    try:
        key = bytes.fromhex(text)
    except ValueError:
        key = b""
    if len(key) != 32:
        raise ConfigurationError("--provider-key: expected 64 hexadecimal digits")
    return key


@contextmanager
def _progress(what: str) -> Iterator[None]:
    """After two seconds of silence say on stderr that work goes on, and for how long."""
    done, began = Event(), time.monotonic()

    def watch() -> None:
        if done.wait(PATIENCE):
            return
        from rich.console import Console

        console = Console(stderr=True)
        with console.status(what) as status:
            while not done.wait(1.0):
                status.update(f"{what}: {time.monotonic() - began:.0f} s")

    watcher = Thread(target=watch, daemon=True)
    watcher.start()
    try:
        yield
    finally:
        done.set()
        watcher.join()
