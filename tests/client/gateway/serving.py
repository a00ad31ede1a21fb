# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway over a client of the tests' provider: in a thread with a port, or on standard input and output."""

from __future__ import annotations

import asyncio
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ragseal.client import AsyncClient
from ragseal.client.gateway.app import Gateway, make_app
from ragseal.client.gateway.commands import hosts_of
from ragseal.client.gateway.server import make_server
from ragseal.client.gateway.stdio import speak
from ragseal.client.gateway.tools import make_tools, mcp_app
from ragseal.client.receipts import kept
from ragseal.runtime.tls import LOOPBACK_ONLY
from tests.client.conftest import Bench

KEY = "a-key-that-only-the-tests-know"


async def gateway_of(client: Any, folder: Path, timeout: float = 20.0) -> Gateway:
    asks = AsyncClient(client)
    return Gateway(asks, await asks.tenant(), lambda window: kept(folder, window), timeout, folder)


@contextmanager
def served(client: Any, folder: Path) -> Iterator[str]:
    """The URL of a gateway that serves until the block ends."""
    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    ready, server = threading.Event(), []

    async def run() -> None:
        gateway = await gateway_of(client, folder)
        hosts = hosts_of("127.0.0.1", port, ())
        app = make_app(gateway, KEY, hosts, mcp_app(gateway, hosts))
        made = make_server(app, LOOPBACK_ONLY)
        server.append(made)
        ready.set()
        await made.serve(sockets=[listener])

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(20)
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        server[0].should_exit = True
        thread.join(20)
        listener.close()


async def _stdio(folder: Path) -> None:
    bench = Bench(folder)
    try:
        await speak(make_tools(await gateway_of(bench.client(), bench.state)))
    finally:
        bench.close()


if __name__ == "__main__":  # what `ragseal-client mcp` does, over the tests' provider
    asyncio.run(_stdio(Path(sys.argv[1])))


def lie(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """From now on the provider changes the last byte of what it answers."""
    real = bench.provider.retrieve

    def other(*sent: Any) -> Any:
        found = real(*sent)
        return type(found)(found.answer[:-1] + bytes([found.answer[-1] ^ 1]), found.consistency)

    monkeypatch.setattr(bench.provider, "retrieve", other)
