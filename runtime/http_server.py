# SPDX-License-Identifier: GPL-3.0-or-later
"""A small HTTP/1.1 server for a handful of short requests, which strangers can neither fill nor hold.

No dependency: what is served is GET and POST of small bodies without forms, cookies or streams, and the library's own
``http.server`` has a thread for each connection and no bound in time.  Everything a stranger sends has a limit in bytes
and in seconds; what is not plain is refused and the connection closed.  SPEC G.7.8.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import re
import socket
import ssl
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus

from ragseal.kernel.errors import AuditError, BudgetError, ConfigurationError
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.listening import in_the_clear, listen
from ragseal.runtime.peers import machine_of
from ragseal.runtime.tls import LOOPBACK_ONLY, ServerTls
from ragseal.runtime.visits import Visit, Visits

TEXT = "text/plain; charset=utf-8"

#: No weight, or one above zero (RFC 9110, 12.4.2).
_WANTED = re.compile(r"(?:q=(?:0\.(?!0*\Z)[0-9]{1,3}|1(?:\.0{0,3})?))?")

_log = logging.getLogger("ragseal.http")


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """What strangers may take of one server."""

    connections: int = 256
    connections_of_one: int = 64  #: of one machine
    head: int = 8 << 10  #: bytes of request line and headers
    body: int = 0  #: bytes
    read: float = 10.0  #: seconds for a head, and as many for a body
    idle: float = 30.0  #: seconds between two requests of a connection
    idle_crowded: float = 5.0  #: the same while more than half of the connections are taken
    requests: int = 1000  #: of one connection, which is then closed
    send: float = 30.0  #: seconds until an answer is taken, and
    slowest: int = 32 << 10  #: one more for so many of its bytes
    unread: int = 128 << 20  #: bytes of answers that wait to be taken, of everybody
    unread_of_one: int = 32 << 20  #: the same of one machine
    small: int = 16 << 10  #: bytes of an answer that is not counted: there are only so many connections for them
    handshake: float = 10.0  #: seconds


DEFAULT_LIMITS = HttpLimits()


@dataclass(frozen=True, slots=True)
class Request:
    """One request; names of headers in lower case."""

    method: str
    path: str  #: as sent, without what follows a question mark
    headers: Mapping[str, str]
    body: bytes = b""

    @property
    def takes_gzip(self) -> bool:
        """Whether the caller says that it can read gzip; with a weight that is none, it gets plain bytes."""
        offered = self.headers.get("accept-encoding", "").lower().split(",")
        named = [part.partition(";") for part in offered]
        return any(name.strip() == "gzip" and _WANTED.fullmatch(rest.strip()) for name, _, rest in named)


@dataclass(frozen=True, slots=True)
class Response:
    """One answer.  Length, date and connection headers are the server's."""

    status: int
    body: bytes = b""
    kind: str = TEXT
    headers: Mapping[str, str] = field(default_factory=dict)


Handler = Callable[[Request], Awaitable[Response]]


class _Refusal(Exception):
    """A request that is not served; the connection ends with the answer."""

    def __init__(self, status: int, text: str) -> None:
        super().__init__(text)
        self.answer = Response(status, f"{text}\n".encode())


class HttpServer:
    """Serves ``handler`` on one address; :meth:`start` and :meth:`stop` belong to one event loop."""

    def __init__(self, handler: Handler, limits: HttpLimits = DEFAULT_LIMITS) -> None:
        self._handler, self._limits = handler, limits
        self._visits = Visits(limits.connections, limits.connections_of_one)
        self._unread: Counter[str] = Counter()  #: bytes of answers that are not taken yet, by machine
        self._accepting: asyncio.Task[None] | None = None
        self._context: ssl.SSLContext | None = None
        self._listener: socket.socket | None = None

    async def start(self, address: str, tls: ServerTls = LOOPBACK_ONLY) -> str:
        """Listen on ``host:port`` (port 0: any free one); gives the address that was taken.

        Raises:
            ConfigurationError: malformed, it cannot be listened on (says why), beyond loopback without TLS, or files
                of certificates that do not do.
        """
        at = Address.parse(address, listening=True, unix=False)
        context = self._context = server_context(tls)
        if context is None and not tls.plain and not at.loopback:
            raise in_the_clear(at)
        self._listener = listen(at)
        self._listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept(self._listener))
        return str(at.at(self._listener.getsockname()[1]))

    def use(self, context: ssl.SSLContext) -> None:
        """Another certificate from now on, for a server that was started with one; from any thread."""
        self._context = context

    async def stop(self) -> None:
        """Close the listener and every connection."""
        if self._accepting is not None:  # first, so that no connection comes after the others were ended
            self._accepting.cancel()
            await asyncio.gather(self._accepting, return_exceptions=True)
        tasks = self._visits.tasks()
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._listener is not None:
            self._listener.close()

    async def _accept(self, listener: socket.socket) -> None:
        loop, trouble = asyncio.get_running_loop(), ""
        while True:
            try:
                connection, peer = await loop.sock_accept(listener)
            except OSError as error:  # no descriptor is free: somebody has to let go of one
                if trouble != str(error):
                    trouble = str(error)
                    _log.warning("no connection can be taken: %s", trouble)
                await asyncio.sleep(0.2)
                continue
            trouble = ""
            kind, host = ("ipv6", f"[{peer[0]}]") if listener.family == socket.AF_INET6 else ("ipv4", peer[0])
            machine = machine_of(f"{kind}:{host}:{peer[1]}")
            try:
                visit = await self._visits.begin(machine)
            except asyncio.CancelledError:  # the server stops
                connection.close()
                raise
            if visit is None:
                connection.close()
                continue
            visit.task = loop.create_task(self._connection(connection, visit, self._context))
            visit.task.add_done_callback(partial(self._gone, visit, connection))

    def _gone(self, visit: Visit, connection: socket.socket, _: asyncio.Task[None]) -> None:
        self._visits.gone(visit)
        if visit.transport is None:  # it was ended before its first step
            connection.close()

    async def _connection(self, connection: socket.socket, visit: Visit, context: ssl.SSLContext | None) -> None:
        """All requests of one connection; whatever goes wrong ends it and nothing else."""
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader(self._limits.head, loop)
        protocol = asyncio.StreamReaderProtocol(reader, loop=loop)
        try:
            seconds = None if context is None else self._limits.handshake
            transport, _ = await loop.connect_accepted_socket(
                lambda: protocol, connection, ssl=context, ssl_handshake_timeout=seconds
            )
        except (OSError, TimeoutError):
            connection.close()
            return
        visit.transport = transport
        writer = asyncio.StreamWriter(transport, protocol, reader, loop)
        transport.set_write_buffer_limits(0)  # a write ends when the system has all of it
        try:
            for left in reversed(range(self._limits.requests)):
                if not await self._turn(reader, writer, visit, last=not left):
                    break
            writer.close()  # what TLS still holds of the last answer goes out first
            await asyncio.wait_for(writer.wait_closed(), self._limits.send)
        except (OSError, TimeoutError, asyncio.IncompleteReadError):
            pass  # a visitor that went away, or was too slow
        except Exception:
            _log.exception("a request was not answered")
        finally:
            transport.abort()

    async def _turn(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, visit: Visit, last: bool) -> bool:
        """One request and its answer; whether another may follow."""
        limits = self._limits
        try:
            request, last_said = await self._read(reader, writer, visit)
        except _Refusal as refusal:
            await self._write(writer, visit.machine, refusal.answer, "GET", last=True)
            # what was sent beyond a limit is not read: a close would reset the connection before the answer is taken
            with contextlib.suppress(TimeoutError):
                writer.write_eof() if writer.can_write_eof() else None
                await asyncio.wait_for(_drain(reader, limits.body + limits.head), 2.0)
            return False
        try:
            answer = await self._handler(request)
        except BudgetError as error:
            answer = Response(HTTPStatus.SERVICE_UNAVAILABLE, f"{error}\n".encode())
        except AuditError as error:  # it may name files of this machine: it is for the operator alone
            _log.error("a request was not answered: %s", error)
            text = b"this cannot be answered now; the operator finds the reason in the server's log\n"
            answer = Response(HTTPStatus.INTERNAL_SERVER_ERROR, text)
        last = last or last_said
        await self._write(writer, visit.machine, answer, request.method, last)
        return not last

    async def _read(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, visit: Visit
    ) -> tuple[Request, bool]:
        """A request, and whether its caller says that it is the last one.

        Raises:
            _Refusal: no plain request, or beyond a limit.
            OSError, TimeoutError, IncompleteReadError: the caller is gone or too slow.
        """
        limits = self._limits
        visit.turn(idle=True)
        idle = min(limits.idle, limits.idle_crowded) if self._visits.crowded else limits.idle
        first = await asyncio.wait_for(reader.readexactly(1), idle)
        visit.turn(idle=False)
        if first.isspace():
            raise _Refusal(400, "expected METHOD /PATH HTTP/1.1")
        try:
            head = first + await asyncio.wait_for(reader.readuntil(b"\r\n\r\n"), limits.read)
        except asyncio.LimitOverrunError:
            raise _Refusal(431, f"the request's head has more than {limits.head} bytes") from None
        method, path, headers = _parse(head)
        length = headers.get("content-length", "0")
        if "transfer-encoding" in headers:
            raise _Refusal(411, "send the body with a Content-Length")
        if not length.isascii() or not length.isdigit() or len(length) > 12:
            raise _Refusal(400, "the Content-Length is no number")
        if int(length) > limits.body:
            raise _Refusal(400 if limits.body else 413, f"the body may have {limits.body} bytes")
        if headers.get("expect", "").lower() == "100-continue":
            writer.write(b"HTTP/1.1 100 Continue\r\n\r\n")
        body = await asyncio.wait_for(reader.readexactly(int(length)), limits.read) if int(length) else b""
        closing = "close" in headers.get("connection", "").lower() or head.split(b"\r\n", 1)[0].endswith(b"1.0")
        return Request(method, path, headers, body), closing

    async def _write(
        self, writer: asyncio.StreamWriter, machine: str, answer: Response, method: str, last: bool
    ) -> None:
        """Write an answer in the time that it may take; OSError, TimeoutError otherwise."""
        limits = self._limits
        size = 0 if method == "HEAD" or len(answer.body) <= limits.small else len(answer.body)
        if sum(self._unread.values()) + size > limits.unread or self._unread[machine] + size > limits.unread_of_one:
            text = b"too many answers wait to be read: try again\n"
            answer, size = Response(503, text, headers={"Retry-After": "5"}), 0
        self._unread[machine] += size
        try:
            writer.write(_head(answer, last) + (answer.body if method != "HEAD" else b""))
            await asyncio.wait_for(writer.drain(), limits.send + size / limits.slowest)
        finally:
            self._unread[machine] -= size
            if not self._unread[machine]:
                del self._unread[machine]


async def _drain(reader: asyncio.StreamReader, most: int) -> None:
    while most > 0:
        data = await reader.read(4096)
        if not data:
            return
        most -= len(data)


def _parse(head: bytes) -> tuple[str, str, dict[str, str]]:
    """Method, path and headers of a request's head; _Refusal where it is not plain."""
    try:
        first, *lines = head[:-4].decode("ascii").split("\r\n")
    except UnicodeDecodeError:
        raise _Refusal(400, "the request's head is not ASCII") from None
    words = first.split(" ")
    if len(words) != 3 or words[2] not in ("HTTP/1.1", "HTTP/1.0") or not words[1].startswith("/"):
        raise _Refusal(400, "expected METHOD /PATH HTTP/1.1")
    headers: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        name = name.lower()
        if not colon or not name or name != name.strip() or any(ch < " " and ch != "\t" for ch in value):
            raise _Refusal(400, "a header line is malformed")
        if name in headers and name in ("content-length", "transfer-encoding"):
            raise _Refusal(400, f"{name} is said twice")
        headers[name] = value.strip()
    return words[0], words[1].partition("?")[0], headers


def _head(answer: Response, last: bool) -> bytes:
    headers = {
        "Content-Type": answer.kind,
        "Content-Length": str(len(answer.body)),
        "X-Content-Type-Options": "nosniff",
        **answer.headers,
        "Connection": "close" if last else "keep-alive",
    }
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
    return f"HTTP/1.1 {answer.status} {HTTPStatus(answer.status).phrase}\r\n{lines}\r\n".encode("ascii")


def server_context(tls: ServerTls) -> ssl.SSLContext | None:
    """The same certificate files as gRPC's; None for a server in the clear.

    Raises:
        ConfigurationError: as :meth:`ServerTls.credentials`.
    """
    if tls.credentials() is None or tls.certificate is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    try:
        context.load_cert_chain(tls.certificate, tls.key)
        if tls.clients is not None:
            context.load_verify_locations(tls.clients)
            context.verify_mode = ssl.CERT_REQUIRED
    except (OSError, ssl.SSLError) as error:
        raise ConfigurationError(f"the TLS files cannot be used: {error}") from None
    return context
