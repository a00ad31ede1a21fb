# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-client gateway`` and ``ragseal-client mcp``."""

from __future__ import annotations

import asyncio
import os
import secrets
import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

from ragseal.client.folder import write
from ragseal.client.options import Where, connection
from ragseal.client.receipts import KeptReceipt, kept
from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.certificates import Certificates, renewing
from ragseal.runtime.edges import listening
from ragseal.runtime.edges.address import Address, is_loopback
from ragseal.runtime.keyfile import read_private
from ragseal.runtime.stopping import ignore_hangups
from ragseal.runtime.terminal import server_tls
from ragseal.runtime.texts import line_of
from ragseal.runtime.tls import ServerTls

if TYPE_CHECKING:
    from ragseal.client.gateway.app import Gateway

KEY_FILE = "gateway.key"
KEY_VARIABLE = "RAGSEAL_GATEWAY_KEY"
LEAST_KEY = 20  #: characters
WAY_OUT = "the gateway needs more packages: pip install 'ragseal[gateway]'"


def gateway_key(directory: Path) -> tuple[str, str]:
    """The key that callers show, made at first, and where it stands.

    Raises:
        ConfigurationError: a key that is too short to be secret or open to other users, or a folder that cannot be
            written.
    """
    named = os.environ.get(KEY_VARIABLE)
    path = directory / KEY_FILE
    if named is None and not path.exists():
        write(path, f"{secrets.token_urlsafe(32)}\n".encode())
    where = str(path) if named is None else f"${KEY_VARIABLE}"
    key = line_of(read_private(path) if named is None else named, f"the key in {where}")
    if len(key) < LEAST_KEY or not key.isascii() or not key.isprintable():
        raise ConfigurationError(f"the key in {where} needs at least {LEAST_KEY} printable ASCII characters: remove it")
    return key, where


def _listening(address: str, own: ServerTls) -> Address:
    at = Address.parse(address, listening=True, unix=False)
    own.credentials()  # says what is wrong with the files
    if own.certificate is None and not own.plain and not at.loopback:
        raise ConfigurationError(
            f"will not serve {address} in the clear: queries, answers and the key would be read on the way; give TLS "
            "files, use a loopback address, or say --listen-plain"
        )
    return at


def hosts_of(host: str, port: int, named: Sequence[str]) -> frozenset[str]:
    """Host headers under which a gateway at this address is called."""
    own = [f"[{host}]" if ":" in host else host, *named]
    if is_loopback(host):
        own += ["localhost", "127.0.0.1", "[::1]"]
    return frozenset(name.lower() for one in own for name in (one, f"{one}:{port}"))


@asynccontextmanager
async def _gateway(where: Where) -> AsyncIterator[Gateway]:
    try:
        from ragseal.client.gateway.app import Gateway
    except ImportError as error:
        raise ConfigurationError(f"{WAY_OUT} ({error})") from None
    from ragseal.client.asynchronous import AsyncClient
    from ragseal.client.retries import Retries

    def receipts(window: str | None) -> list[KeptReceipt]:
        return kept(where.directory, window)

    client = await asyncio.to_thread(where.client)
    async with AsyncClient(client, Retries()) as asks:
        yield Gateway(asks, await asks.tenant(), receipts, 2 * where.timeout, where.directory)


@click.command(short_help="Serve programs that speak HTTP")
@click.option("--listen", default="127.0.0.1:7805", show_default=True, metavar="HOST:PORT")
@click.option("--host", "hosts", multiple=True, metavar="NAME", help="A further name that this gateway is called by.")
@server_tls
@connection
def gateway(listen: str, hosts: tuple[str, ...], own: ServerTls, as_json: bool, where: Where) -> None:
    """Serve checked retrieval to programs on this machine: OpenAI's vector stores, a plain form, and MCP.

    \b
      POST /v1/vector_stores/TENANT/search    as OpenAI's clients call it (base_url=http://127.0.0.1:7805/v1)
      POST /v1/search                         {"query": "...", "max_num_results": 10}
      GET  /v1/receipts/SEQ?window=W          the signed receipt of an answer
      /mcp                                    the tool `search`, over streamable HTTP

    Callers show the key that is made in the account's folder (gateway.key), as a bearer token.
    Each query costs one of the account's; filters and thresholds choose among what came back.
    SIGHUP takes renewed certificate files at once.
    """
    ignore_hangups()
    at = _listening(listen, own)
    key, kept_in = gateway_key(where.directory)
    asyncio.run(_serve(at, key, kept_in, hosts, own, where, as_json))


async def _serve(
    address: Address,
    key: str,
    kept_in: str,
    hosts: tuple[str, ...],
    own: ServerTls,
    where: Where,
    as_json: bool,
) -> None:
    async with _gateway(where) as serves:
        try:
            from ragseal.client.gateway.app import make_app
            from ragseal.client.gateway.server import make_server
            from ragseal.client.gateway.tools import mcp_app
        except ImportError as error:
            raise ConfigurationError(f"{WAY_OUT} ({error})") from None
        with listening.listen(address) as listener:
            at = listener.getsockname()[1]
            scheme = "http" if own.certificate is None else "https"
            url = f"{scheme}://{address.at(at)}"
            if as_json:
                from ragseal.runtime.terminal import tell_result

                tell_result(True, {"url": url, "tenant": serves.tenant, "key": kept_in}, "")
            else:
                click.echo(f"{url} searches {serves.tenant}; callers show the key in {kept_in}; Ctrl-C ends it")
            allowed = hosts_of(address.host, at, hosts)
            app = make_app(serves, key, allowed, mcp_app(serves, allowed))
            server, certificates, renewals = make_server(app, own), Certificates(own), set[asyncio.Task[None]]()

            def renew(context: ssl.SSLContext) -> None:
                renewals.add(task := asyncio.create_task(server.renew(context)))
                task.add_done_callback(renewals.discard)

            certificates.follow(renew)
            async with renewing(certificates):
                await server.serve(sockets=[listener])


@click.command(short_help="Serve agents that speak MCP")
@connection
def mcp(as_json: bool, where: Where) -> None:
    """Speak the Model Context Protocol on standard input and output: how agents' hosts start a tool."""

    async def run() -> None:
        async with _gateway(where) as serves:
            try:
                from ragseal.client.gateway.stdio import speak
                from ragseal.client.gateway.tools import make_tools
            except ImportError as error:
                raise ConfigurationError(f"{WAY_OUT} ({error})") from None
            await speak(make_tools(serves))

    asyncio.run(run())
