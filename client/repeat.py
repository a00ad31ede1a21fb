# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m ragseal.client.repeat``: what a probe's account does: look, ask one question often, show what it has."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click

from ragseal.client.client import Client
from ragseal.client.receipts import kept
from ragseal.client.settings import Calls
from ragseal.client.window import windows_of
from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.streams import output_lost
from ragseal.runtime.terminal import CONTEXT, Teaching, client_tls
from ragseal.runtime.tls import ClientTls

STATE = click.option(
    "--state", type=click.Path(path_type=Path, file_okay=False), required=True, help="The account's folder."
)


def _peer(command: Callable[..., None]) -> Callable[..., None]:
    """The provider, and the key of its log."""
    command = click.option("--log-key", metavar="NAME+ID+BASE64")(client_tls(command))
    return click.option("--provider", required=True, metavar="HOST:PORT")(command)


@click.group(cls=Teaching, context_settings=CONTEXT)
def main() -> None:
    """Ask one question many times; each answer costs one of the account's n_max queries."""


@main.command()
@STATE
@_peer
def look(state: Path, provider: str, log_key: str | None, tls: ClientTls) -> None:
    """One line of JSON: the window of now, whose documents the account searches, and how many answers it has."""
    with Client(provider, state, log_key=log_key, embedder=None, calls=Calls(tls)) as client:
        tenant = client.tenant()
    window = windows_of(state)[-1]
    click.echo(json.dumps({"manifest": window.signed.encode().hex(), "tenant": tenant, "answered": window.answered}))


@main.command()
@click.argument("text")
@click.option("--times", type=click.IntRange(min=1), required=True)
@STATE
@_peer
@click.option("--embedder", default="minilm", show_default=True, help='"none": the provider embeds.')
def ask(text: str, times: int, state: Path, provider: str, log_key: str | None, embedder: str, tls: ClientTls) -> None:
    """One line of JSON an answer: the texts that came, with their slots."""
    model = None if embedder == "none" else embedder
    with Client(provider, state, log_key=log_key, embedder=model, calls=Calls(tls)) as client:
        for _ in range(times):
            result = client.ask(text)
            click.echo(json.dumps({"slots": list(result.slots), "texts": list(result.texts)}))
            if output_lost():  # no query is spent for nobody
                break


@main.command()
@STATE
def show(state: Path) -> None:
    """All answers of the account's newest window that has one: a line of JSON for the window, and one for each."""
    windows = [window for window in windows_of(state) if window.answered]
    if not windows:
        raise ConfigurationError(f"the account in {state} has no answers")
    window = windows[-1]
    click.echo(json.dumps({"manifest": window.signed.encode().hex(), "tenant": window.account.tenant}))
    for one in kept(state, window.manifest.window):
        if one.window.digest != window.digest:
            continue
        if one.question is None:
            raise ConfigurationError(
                f"answer {one.ctr} in {state} was fetched by its number, and its question is not kept: probe with an "
                "account of which there is one copy"
            )
        salt = one.window.exchange(one.ctr).prepare.salt
        click.echo(json.dumps({"query": one.question, "salt": salt.hex(), "answer": one.answer.encode().hex()}))


if __name__ == "__main__":
    main()
