# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m ragseal.client.repeat``: ask one question many times, every answer checked, as a probe's accounts do."""

from __future__ import annotations

import json
from pathlib import Path

import click

from ragseal.client.client import Client
from ragseal.client.settings import Calls
from ragseal.runtime.streams import output_lost
from ragseal.runtime.terminal import CONTEXT, Teaching, client_tls
from ragseal.runtime.tls import ClientTls


@click.group(cls=Teaching, context_settings=CONTEXT)
def main() -> None:
    """Ask one question many times; each answer costs one of the account's n_max queries."""


@main.command()
@click.argument("text")
@click.option("--times", type=click.IntRange(min=1), required=True)
@click.option("--state", type=click.Path(path_type=Path, file_okay=False), required=True, help="The account's folder.")
@click.option("--provider", required=True, metavar="HOST:PORT")
@click.option("--log-key", metavar="NAME+ID+BASE64")
@click.option("--embedder", default="minilm", show_default=True, help='"none": the provider embeds.')
@client_tls
def ask(text: str, times: int, state: Path, provider: str, log_key: str | None, embedder: str, tls: ClientTls) -> None:
    """One line of JSON an answer: window, returned slots, ids and texts with their slots, and where the record lies."""
    model = None if embedder == "none" else embedder
    with Client(provider, state, log_key=log_key, embedder=model, calls=Calls(tls)) as client:
        for _ in range(times):
            result = client.ask(text)
            request, body = result.record.signed.request, result.receipt.body
            answer = {
                "account": request.account,
                "window": request.window,
                "manifest": request.manifest.hex(),
                "ctr": request.ctr,
                "ledger_index": body.index,
                "record": result.record.digest().hex(),
                "checked": result.checked,
                "returned_slots": list(result.returned),
                "slots": list(result.slots),
                "ids": [one.id for one in result.opened],
                "texts": list(result.texts),
            }
            click.echo(json.dumps(answer))
            if output_lost():  # no query is spent for nobody
                break


if __name__ == "__main__":
    main()
