# SPDX-License-Identifier: GPL-3.0-or-later
"""The small HTTP server and its caller: TLS as everywhere, answers that nobody reads, URLs that are none."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from ragseal.kernel.errors import BudgetError, ConfigurationError, LedgerError, TransportError
from ragseal.runtime.http_client import Place, post
from ragseal.runtime.http_server import HttpLimits, HttpServer, Request, Response
from ragseal.runtime.loop_thread import LoopThread
from ragseal.runtime.tls import LOOPBACK_ONLY, ServerTls
from tests.runtime.certificates import Authority

LARGE = 4 << 20  #: more than the system takes of an answer that nobody reads


async def answers(request: Request) -> Response:
    if request.path == "/large":
        return Response(200, bytes(LARGE))
    if request.path == "/busy":
        raise BudgetError("try again")
    if request.path == "/disk":
        raise LedgerError("cannot read /home/log/entries")
    if request.path == "/broken":
        raise RuntimeError("a bug")
    return Response(200, request.method.encode() + b" " + request.body)


@asynccontextmanager
async def serving(tls: ServerTls = LOOPBACK_ONLY, limits: HttpLimits | None = None) -> AsyncIterator[str]:
    server = HttpServer(answers, limits or HttpLimits(body=100))
    address = await server.start("127.0.0.1:0", tls)
    try:
        yield address
    finally:
        await server.stop()


async def asked(url: str, path: str = "/x", body: bytes = b"hello") -> tuple[int, bytes]:
    found = await post(Place.parse(url), path, body, seconds=5, most=LARGE + 4096)
    return found.status, found.body


@pytest.mark.asyncio
async def test_over_tls_with_the_files_of_every_other_edge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    authority = Authority(tmp_path, "ours")
    own = ServerTls(*authority.certificate("server"))
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    async with serving(own) as address:
        assert await asked(f"https://{address}") == (200, b"POST hello")
        assert await asked(f"https://{address}", "/large") == (200, bytes(LARGE))
        with pytest.raises(TransportError):
            await asked(f"http://{address}")
        monkeypatch.setenv("SSL_CERT_FILE", str(Authority(tmp_path, "other").path))
        with pytest.raises(TransportError, match="cannot be reached"):
            await asked(f"https://{address}")
    monkeypatch.setenv("SSL_CERT_FILE", str(authority.path))
    async with serving(ServerTls(*authority.certificate("server"), clients=authority.path)) as address:
        with pytest.raises(TransportError):  # callers need a certificate, and this one has none
            await asked(f"https://{address}")
    with pytest.raises(ConfigurationError, match="takes both"):
        async with serving(ServerTls(certificate=own.certificate)):
            pass


@pytest.mark.asyncio
async def test_errors_are_statuses_and_a_bug_ends_one_connection(caplog: pytest.LogCaptureFixture) -> None:
    async with serving() as address:
        assert await asked(f"http://{address}", "/busy") == (503, b"try again\n")
        status, said = await asked(f"http://{address}", "/disk")  # what names files is not for strangers
        assert (status, b"/home" in said, "/home/log/entries" in caplog.text) == (500, False, True)
        with pytest.raises(TransportError):
            await asked(f"http://{address}", "/broken")
        assert await asked(f"http://{address}/prefix/", "/y") == (200, b"POST hello")


@pytest.mark.asyncio
async def test_answers_that_nobody_reads_have_a_bound_and_an_end() -> None:
    limits = HttpLimits(body=100, unread_of_one=2 * LARGE, send=0.5, slowest=64 << 20)
    async with serving(limits=limits) as address:
        host, _, port = address.rpartition(":")
        deaf = [await asyncio.open_connection(host, int(port), limit=1024) for _ in range(2)]
        for _, writer in deaf:
            writer.write(b"GET /large HTTP/1.1\r\n\r\n")
        await asyncio.sleep(0.2)
        status, said = await asked(f"http://{address}", "/large")
        assert (status, b"wait to be read" in said) == (503, True)
        assert await asked(f"http://{address}") == (200, b"POST hello")  # small ones are not counted
        await asyncio.sleep(1)
        assert await asked(f"http://{address}", "/large") == (200, bytes(LARGE))  # the deaf were let go
        for _, writer in deaf:
            writer.close()


# --- who gets a place ------------------------------------------------------------------------------------------------

ASK = b"GET / HTTP/1.1\r\n\r\n"
FULL = HttpLimits(connections=16, connections_of_one=4)
Connection = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Machines:
    """Machines, by number, with connections that they keep open."""

    def __init__(self, address: str) -> None:
        self._port, self._all = int(address.rpartition(":")[2]), list[Connection]()

    async def connect(self, number: int, data: bytes = b"", tls: ssl.SSLContext | None = None) -> Connection:
        source = (f"127.0.0.{number}", 0)
        found = await asyncio.open_connection("127.0.0.1", self._port, local_addr=source, ssl=tls)
        self._all.append(found)
        found[1].write(data)
        return found

    async def answered(self, number: int, tls: ssl.SSLContext | None = None) -> Connection | None:
        """A connection with one answered request; None if it was closed instead."""
        found = await self.connect(number, ASK, tls)
        try:
            await asyncio.wait_for(found[0].readuntil(b"GET "), 3)
        except (asyncio.IncompleteReadError, ConnectionError):
            return None
        return found

    def leave(self) -> None:
        for _, writer in self._all:
            writer.transport.abort()


@asynccontextmanager
async def visited(limits: HttpLimits, tls: ServerTls = LOOPBACK_ONLY) -> AsyncIterator[Machines]:
    async with serving(tls, limits) as address:
        machines = Machines(address)
        try:
            yield machines
        finally:
            machines.leave()
            await asyncio.sleep(0.01)


async def ended(*held: Connection) -> list[bool]:
    """Which of these the server has closed."""
    await asyncio.sleep(0.1)
    return [reader.at_eof() or reader.exception() is not None for reader, _ in held]


@pytest.mark.asyncio
async def test_few_machines_with_idle_connections_keep_nobody_out() -> None:
    async with visited(FULL) as machines:
        held = [await machines.answered(n) for n in (1, 2, 3, 4) for _ in range(4)]
        open_ones = [one for one in held if one is not None]
        assert len(open_ones) == 16
        assert await machines.answered(1) is None  # it has as many as any other
        first, second = await machines.answered(8), await machines.answered(9)
        assert first is not None
        assert second is not None
        # whoever has most loses what has been idle longest: first the oldest of all, then that of a machine with four
        assert await ended(*open_ones, first, second) == [at in (0, 4) for at in range(18)]
        first[1].write(ASK)
        assert await asyncio.wait_for(first[0].readuntil(b"HTTP/1.1 200"), 3)


@pytest.mark.asyncio
@pytest.mark.parametrize("data", [b"", b"G", b"GET / HTTP/1.1\r\n", b"GET /large HTTP/1.1\r\n\r\n"])
async def test_few_machines_with_endless_requests_keep_nobody_out(data: bytes) -> None:
    async with visited(FULL) as machines:
        for number in (1, 2, 3, 4) * 4:
            await machines.connect(number, data)
        await asyncio.sleep(0.1)
        assert await machines.answered(9) is not None


@pytest.mark.asyncio
async def test_few_machines_without_a_handshake_keep_nobody_out(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")
    limits = HttpLimits(connections=4, connections_of_one=4)
    async with visited(limits, ServerTls(*authority.certificate("server"))) as machines:
        held = [await machines.connect(1) for _ in range(4)]
        await asyncio.sleep(0.1)
        assert await machines.answered(9, ssl.create_default_context(cafile=str(authority.path))) is not None
        assert await ended(*held) == [True, False, False, False]


@pytest.mark.asyncio
async def test_requests_go_on_while_idle_connections_can_end() -> None:
    async with visited(HttpLimits(connections=4, connections_of_one=4)) as machines:
        held = [await machines.connect(1, data) for data in (b"GET", b"", b"GET", b"")]
        await asyncio.sleep(0.1)
        late = [await machines.answered(2), await machines.answered(3)]
        assert None not in late
        assert await ended(*held) == [False, True, False, True]


@pytest.mark.asyncio
async def test_nobody_goes_for_a_machine_that_has_as_many() -> None:
    async with visited(HttpLimits(connections=4, connections_of_one=4)) as machines:
        held = [await machines.connect(number) for number in (1, 1, 2, 2)]
        await asyncio.sleep(0.1)
        assert await machines.answered(1) is None
        assert await ended(*held) == [False] * 4


@pytest.mark.asyncio
async def test_the_only_request_of_a_machine_is_not_ended_for_another() -> None:
    async with visited(HttpLimits(connections=3, connections_of_one=2)) as machines:
        held = [await machines.connect(n, data) for n, data in ((1, b"GET"), (2, b""), (3, b"GET"))]
        await asyncio.sleep(0.1)
        late = await machines.connect(4, b"GET")
        assert await ended(*held, late) == [False, True, False, False]
        assert await machines.answered(5) is None
        assert await ended(*held, late) == [False, True, False, False]


@pytest.mark.asyncio
async def test_idle_connections_go_sooner_where_places_are_short() -> None:
    async with visited(HttpLimits(connections=4, idle_crowded=0.2)) as machines:
        held = [await machines.connect(1) for _ in range(2)]
        await asyncio.sleep(0.4)
        assert await ended(*held) == [False, False]
        more = [await machines.connect(1) for _ in range(2)]
        await asyncio.sleep(0.4)
        assert await ended(*held, *more) == [False, False, True, True]


@pytest.mark.asyncio
async def test_a_taken_port_and_malformed_addresses_are_said() -> None:
    async with serving() as address:
        with pytest.raises(ConfigurationError, match="cannot listen"):
            await HttpServer(answers).start(address)
    for bad in ("", "127.0.0.1", "127.0.0.1:", "127.0.0.1:x", "127.0.0.1:99999", ":80"):
        with pytest.raises(ConfigurationError):
            await HttpServer(answers).start(bad)


@pytest.mark.parametrize(
    "url",
    [
        "", "w.example", "ftp://w.example", "http://", "https:///path", "http://user@w.example", "http://w.example?x",
        "http://w.example/#a", "http://w.example/a b", "http://w.example\r\nHost: x", "http://w.example:99999",
        "http://wé.example", "http://[::1", "http://w.example/" + "x" * 3000,
    ],
)  # fmt: skip
def test_urls_that_are_none(url: str) -> None:
    with pytest.raises(ConfigurationError):
        Place.parse(url)


def test_urls() -> None:
    assert Place.parse("https://w.example/a/b/") == Place(True, "w.example", 443, "/a/b", "w.example")
    assert Place.parse("http://[::1]:81").port == 81


@pytest.mark.asyncio
async def test_a_loop_of_its_own_stops_what_runs_in_it() -> None:
    thread, cancelled = LoopThread("test"), []

    async def forever() -> None:
        try:
            await asyncio.sleep(1000)
        except asyncio.CancelledError:
            cancelled.append(True)
            raise

    async def name() -> int:
        return 7

    assert await thread.run(name()) == 7
    thread.begin(forever())
    await asyncio.sleep(0.1)
    await thread.stop()
    await thread.stop()
    assert cancelled == [True]
