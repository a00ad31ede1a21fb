# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-observer witness``: a public witness for anybody's log."""

from __future__ import annotations

import asyncio
import json
import sys
import time
from pathlib import Path

import click

from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.learning import with_turns
from ragseal.ledger.named_log import named_log
from ragseal.ledger.options import json_option, open_witness, plain_errors, state_option
from ragseal.ledger.witness_http import WITNESS_LIMITS, WitnessSite
from ragseal.runtime.certificates import Certificates, renewing
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.http_server import HttpServer
from ragseal.runtime.settings import Configured, only_checked
from ragseal.runtime.stopping import asked_to_stop, ignore_hangups
from ragseal.runtime.terminal import server_tls
from ragseal.runtime.tls import ServerTls


@click.command(cls=Configured, prefix="RAGSEAL_WITNESS", short_help="Cosign what logs submit")
@plain_errors
@click.option("--listen", default="127.0.0.1:8081", show_default=True, help="host:port; port 0 takes a free one.")
@click.option("--log", "logs", multiple=True, required=True, metavar="VKEY",
              help="Public key of a log to cosign: name+id+base64. Repeat for more.")  # fmt: skip
@click.option("--turns", "turned", multiple=True, type=click.Path(path_type=Path, exists=True, dir_okay=False),
              help="Turns of such a log's key, as `ragseal-observer turns` wrote them. Repeat for more.")  # fmt: skip
@state_option
@server_tls
@json_option
def witness(
    listen: str, logs: tuple[str, ...], turned: tuple[Path, ...], state: Path, own: ServerTls, as_json: bool
) -> None:
    """Cosign what logs submit: a public witness over HTTP (C2SP tlog-witness).

    A log POSTs its checkpoint and the proof that it only grew to /add-checkpoint and gets this observer's cosignature;
    nothing is fetched, and no entry is read. A ragseal log that has turned its key goes on under its first one, with
    --turns: of a given-up key alone nothing is cosigned behind the turn. Where a log signs two histories, the evidence
    is kept in the state folder. `keygen` makes the key. The folder is this program's alone while it runs: `follow`
    takes another one. SIGHUP takes renewed certificate files at once.
    """
    ignore_hangups()
    keys = with_turns([named_log(vkey) for vkey in logs], [_read(path) for path in turned])
    if only_checked(as_json):
        return

    async def run() -> None:
        with open_witness(state) as cosigner:
            site = WitnessSite(cosigner, state, keys, time.time)
            server, certificates = HttpServer(site.handle, WITNESS_LIMITS), Certificates(own)
            certificates.follow(server.use)
            try:
                address = await server.start(listen, own)
                stop = asked_to_stop()
                async with renewing(certificates):
                    vkey = cosigner.verifier.vkey()
                    said = f"listening on {address}\nwitness key {vkey}"
                    click.echo(json.dumps({"listening": address, "vkey": vkey}) if as_json else said)
                    sys.stdout.flush()
                    await stop.wait()
            finally:
                await server.stop()
                site.close()

    asyncio.run(run())


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
