# SPDX-License-Identifier: GPL-3.0-or-later
"""What strangers may take of a gateway: the time of a head, answers that they do not read, and connections."""

from __future__ import annotations

import asyncio
import socket
import ssl
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
if find_spec("mcp") is None:  # not loaded here: that takes a second of every worker
    pytest.skip("mcp is not installed", allow_module_level=True)

from starlette.responses import PlainTextResponse

from ragseal.client.gateway import server as serving
from ragseal.client.gateway.server import make_server
from ragseal.runtime.http_server import server_context
from ragseal.runtime.tls import LOOPBACK_ONLY, ServerTls
from tests.runtime.certificates import Authority
from tests.runtime.test_certificates import name_at, put

HOST = "127.0.0.1"
HEAD = f"GET / HTTP/1.1\r\nHost: {HOST}\r\n"


@contextmanager
def listening(
    answer: bytes = b"read", own: ServerTls = LOOPBACK_ONLY, server: list[Any] | None = None
) -> Iterator[Callable[[], socket.socket]]:
    """A server as the gateway's, also put into ``server``, with its loop; gives what connects to it."""
    listener = socket.create_server((HOST, 0))
    server = [] if server is None else server
    ready = threading.Event()

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await PlainTextResponse(answer)(scope, receive, send)

    async def run() -> None:
        made = make_server(app, own)
        made.config.lifespan = "off"
        server.extend((made, asyncio.get_running_loop()))
        ready.set()
        await made.serve(sockets=[listener])

    thread = threading.Thread(target=lambda: asyncio.run(run()), daemon=True)
    thread.start()
    assert ready.wait(20)
    opened: list[socket.socket] = []

    def connect() -> socket.socket:
        made = socket.create_connection(listener.getsockname(), 20)
        opened.append(made)
        return made

    try:
        yield connect
    finally:
        for one in opened:
            one.close()
        server[0].should_exit = True
        thread.join(20)
        listener.close()


def ends(connection: socket.socket, drip: bytes = b"") -> bool:
    """Whether the server ends a connection by itself soon, though bytes go on coming."""
    end = time.monotonic() + 3
    connection.settimeout(0.05)
    while time.monotonic() < end:
        try:
            if drip:
                connection.sendall(drip)
            if not connection.recv(65536):
                return True
        except TimeoutError:
            continue
        except OSError:
            return True
    return False


def request(connection: socket.socket) -> None:
    """One request, and its answer read."""
    connection.sendall(f"{HEAD}\r\n".encode())
    read = b""
    while not read.endswith(b"read"):
        data = connection.recv(65536)
        assert data, "the server ended the connection"
        read += data


@pytest.mark.parametrize(
    ("before", "pause", "begun", "drip"),
    [
        (0, 0, "", ""), (0, 0, HEAD, ""), (0, 0, HEAD, "x"), (0, 0, "", "x"),
        (1, 0, HEAD, ""), (1, 0, HEAD, "x"), (1, 0.3, HEAD, ""),
    ],
)  # fmt: skip
def test_a_head_that_does_not_come_is_not_waited_for(
    monkeypatch: pytest.MonkeyPatch, before: int, pause: float, begun: str, drip: str
) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.2)
    with listening() as connect:
        connection = connect()
        for _ in range(before):
            request(connection)
        time.sleep(pause)
        connection.sendall(begun.encode())
        assert ends(connection, drip.encode())


def test_who_is_quick_keeps_the_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "HEAD_SECONDS", 0.5)
    with listening() as connect:
        connection = connect()
        for _ in range(2):
            request(connection)
            time.sleep(0.6)
        request(connection)


def test_an_answer_that_nobody_reads_is_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(serving, "UNREAD_SECONDS", 0.2)
    with listening(bytes(1 << 26)) as connect:
        connection = connect()
        connection.sendall(f"{HEAD}\r\n".encode())
        read = len(connection.recv(1))  # the answer has begun, however slow the machine is
        time.sleep(1.0)
        with suppress(ConnectionError):
            while data := connection.recv(1 << 20):
                read += len(data)
        assert read < 1 << 26


@pytest.mark.parametrize("limit", ["CONNECTIONS", "CONNECTIONS_OF_ONE"])
def test_there_are_only_so_many_connections(monkeypatch: pytest.MonkeyPatch, limit: str) -> None:
    monkeypatch.setattr(serving, limit, 2)
    if limit == "CONNECTIONS_OF_ONE":
        monkeypatch.setattr(serving, "is_loopback", lambda host: False)
    with listening() as connect:
        first, second = connect(), connect()
        request(first)
        request(second)
        assert ends(connect())
        request(first)
        second.close()
        time.sleep(0.1)
        request(connect())


def test_no_websocket_is_opened() -> None:
    """Whether a library for them is installed or not."""
    assert make_server(PlainTextResponse(b"read"), LOOPBACK_ONLY).config.ws == "none"
    with listening() as connect:
        connection = connect()
        connection.sendall(
            f"{HEAD}Connection: Upgrade\r\nUpgrade: websocket\r\nSec-WebSocket-Version: 13\r\n"
            "Sec-WebSocket-Key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n".encode()
        )
        assert connection.recv(4096).startswith(b"HTTP/1.1 200")


def test_a_renewed_certificate_is_shown_to_new_connections_only(tmp_path: Path, monkeypatch: Any) -> None:
    ours = Authority(tmp_path, "ours")
    files = tmp_path / "tls.pem", tmp_path / "tls.key"
    put(ours.certificate("first"), files)
    own, server = ServerTls(*files), list[Any]()
    context = ssl.create_default_context(cafile=ours.path)

    def renew() -> None:
        fresh = server_context(own)
        asyncio.run_coroutine_threadsafe(server[0].renew(fresh), server[1]).result(20)

    def asked(connection: ssl.SSLSocket) -> bytes:
        connection.sendall(f"{HEAD}\r\n".encode())
        got = b""
        while not got.endswith(b"read"):
            got += connection.recv(4096) or b"\nit was closed: read"
        return got

    with listening(own=own, server=server) as connect, context.wrap_socket(connect(), server_hostname=HOST) as early:
        port = early.getpeername()[1]
        assert name_at(port, "http/1.1") == "first"
        assert asked(early).startswith(b"HTTP/1.1 200")
        waiting = connect()  # with no greeting yet: it was taken before
        put(ours.certificate("second"), files)
        renew()
        assert name_at(port, "http/1.1") == "second"
        assert asked(early).startswith(b"HTTP/1.1 200"), "who was there before stays"
        with context.wrap_socket(waiting, server_hostname=HOST) as late:
            assert asked(late).startswith(b"HTTP/1.1 200")
        put(ours.certificate("third"), files)

        async def full(*_: Any, **__: Any) -> None:
            raise OSError("no descriptor is free")

        with monkeypatch.context() as patch:
            patch.setattr(server[1], "create_server", full)
            renew()
        assert name_at(port, "http/1.1") == "second", "it goes on with what it had"
        renew()
        assert name_at(port, "http/1.1") == "third"
    with pytest.raises(OSError):  # noqa: PT011 - closed
        socket.create_connection((HOST, port), 2)
