# SPDX-License-Identifier: GPL-3.0-or-later
"""How every gRPC edge of ragseal is opened, secured and made to speak in AuditErrors.  Knows no service.

Server:   server = new_server(); port = bind(server, "127.0.0.1:7800"); handlers carry @answers or @streams
Client:   channel = open_channel("127.0.0.1:7800"); calls go through ``await call(stub.Method, request, timeout)``
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import inspect
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Any, TypeVar
from urllib.parse import unquote

import grpc
import grpc.aio

from ragseal.kernel import errors
from ragseal.kernel.errors import (
    AuditError,
    BudgetError,
    ConfigurationError,
    EncodingError,
    LedgerError,
    MismatchError,
    TransportError,
)
from ragseal.ledger.tls import ClientTls, is_loopback

MAX_MESSAGE_BYTES = 64 * 1024 * 1024
MAX_REQUEST_BYTES = 4 * 1024 * 1024  #: that a server takes; an ask for 65,536 proofs has half a MiB
READ_SECONDS = 30.0  #: that a server waits for a call's request
MAX_CALLS, MAX_CALLS_OF_ONE = 2048, 256  #: under way at a server: of everybody, of one machine
DEFAULT_TIMEOUT = 30.0  #: seconds; gRPC itself would wait for ever
MAX_ERROR_BYTES = 2000
ERROR_KEY = "ragseal-error"  #: trailing metadata that names the AuditError

_SIZES = (("grpc.max_receive_message_length", MAX_MESSAGE_BYTES), ("grpc.max_send_message_length", MAX_MESSAGE_BYTES))

# so_reuseport: by default two providers would bind one port in silence, and fork one log
SERVER_OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
)
CHANNEL_OPTIONS: Sequence[tuple[str, int]] = (
    *_SIZES,
    ("grpc.enable_retries", 0),
    ("grpc.max_reconnect_backoff_ms", 2000),  # or who polls a server that is not up yet finds it minutes later
)

_STATUS: dict[type[AuditError], grpc.StatusCode] = {
    errors.EncodingError: grpc.StatusCode.INVALID_ARGUMENT,
    errors.PolicyError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.CommitmentError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.AttestationError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.ProofError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.EstimateError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.LedgerError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.BudgetError: grpc.StatusCode.RESOURCE_EXHAUSTED,
    errors.UnprovableError: grpc.StatusCode.OUT_OF_RANGE,
    errors.ConfigurationError: grpc.StatusCode.FAILED_PRECONDITION,
    errors.TransportError: grpc.StatusCode.UNAVAILABLE,
}
_BY_NAME = {kind.__name__: kind for kind in _STATUS}

T = TypeVar("T")
_log = logging.getLogger("ragseal.rpc")
logging.getLogger("grpc._common").setLevel(logging.CRITICAL)  # unreadable answers are errors of ours, see _read


# --- errors


def status_of(error: AuditError) -> tuple[grpc.StatusCode, str, str]:
    """(status code, text, name of the nearest error class that the wire knows)."""
    for kind in type(error).__mro__:
        if kind in _STATUS:
            return _STATUS[kind], _short(str(error)), kind.__name__
    return grpc.StatusCode.FAILED_PRECONDITION, _short(str(error)), LedgerError.__name__


def _short(text: str) -> str:
    """Text for a status: it travels in a header of 8 KiB, three bytes for one, and may repeat what the caller sent."""
    return text.encode("utf-8", "replace")[:MAX_ERROR_BYTES].decode("utf-8", "ignore")


def error_of(error: grpc.RpcError, peer: str) -> AuditError:
    """The AuditError that a failed call stands for.  The peer's text is cut and cleaned: it may come from an enemy."""
    code, details = grpc.StatusCode.UNKNOWN, ""
    metadata: Iterable[tuple[str, str | bytes]] = ()
    if isinstance(error, grpc.aio.AioRpcError):
        code, details = error.code(), error.details() or ""
        metadata = error.trailing_metadata() or ()
    text = "".join(ch if ch.isprintable() else " " for ch in details)[:1000]
    for key, value in metadata:
        if key == ERROR_KEY and value in _BY_NAME:
            return _BY_NAME[str(value)](f"{peer} answers: {text}")
    if code == grpc.StatusCode.UNAVAILABLE and ("handshake failed" in text or "CERTIFICATE" in text):
        if "issuer certificate" in text or "self signed" in text or "self-signed" in text:
            return MismatchError(
                f"{peer} and this machine do not agree on TLS: its certificate is of no authority trusted here. "
                f"Name the authority with --ca FILE (the certificate itself, if it is self-signed) ({text})"
            )
        return MismatchError(f"{peer} and this machine do not agree on TLS: check authority and certificates ({text})")
    if code == grpc.StatusCode.UNAVAILABLE:
        return TransportError(f"{peer} cannot be reached: is it running, and is this its address? ({text})")
    if code == grpc.StatusCode.DEADLINE_EXCEEDED:
        return TransportError(f"{peer} did not answer in time; it may still have done what was asked: try again")
    if code == grpc.StatusCode.UNIMPLEMENTED:
        return MismatchError(f"{peer} does not offer this call: another program, or another version of ragseal")
    return TransportError(f"{peer} failed with {code.name}: {text}")


@asynccontextmanager
async def _statuses(name: str, context: Any) -> AsyncIterator[None]:
    """What a handler raises becomes the status of its call; the details of what is no AuditError stay in the log."""
    try:
        yield
    except AuditError as error:
        code, text, kind = status_of(error)
        await context.abort(code, text, trailing_metadata=((ERROR_KEY, kind),))
    except Exception as error:
        if isinstance(error, grpc.aio.AbortError):
            raise
        _log.exception("%s failed", name)
        await context.abort(grpc.StatusCode.INTERNAL, "internal error; the operator finds it in the log")


def answers(handler: Callable[[Any, Any, Any], Awaitable[T]]) -> Callable[[Any, Any, Any], Awaitable[T]]:
    """Decorator for unary handlers: AuditErrors become statuses, anything else INTERNAL without a traceback."""

    @functools.wraps(handler)
    async def wrapped(self: Any, request: Any, context: Any) -> T:
        async with _statuses(handler.__name__, context):
            return await handler(self, request, context)
        raise AssertionError("abort raises")

    return wrapped


def streams(handler: Callable[[Any, Any, Any], AsyncIterator[T]]) -> Callable[[Any, Any, Any], AsyncIterator[T]]:
    """As :func:`answers`, for handlers that answer with a stream."""

    @functools.wraps(handler)
    async def wrapped(self: Any, request: Any, context: Any) -> AsyncIterator[T]:
        async with _statuses(handler.__name__, context):
            async for item in handler(self, request, context):
                yield item

    return wrapped


async def call(method: Callable[..., Any], request: Any, peer: str, timeout: float = DEFAULT_TIMEOUT) -> Any:
    """One unary call with a deadline (seconds).

    Raises:
        AuditError: what the peer raised, or TransportError when it gave no answer.
    """
    try:
        answer = await method(request, timeout=timeout)
    except grpc.RpcError as error:
        raise error_of(error, peer) from None
    except (ValueError, TypeError) as error:  # protobuf: a field out of its range
        raise EncodingError(f"request to {peer}: {error}") from None
    return _read(answer, peer)


async def chunks(method: Callable[..., Any], request: Any, peer: str, timeout: float) -> AsyncGenerator[bytes, None]:
    """The ``data`` of every message of a streaming call, with one deadline (seconds) for all of it.

    Raises:
        AuditError: as :func:`call`.
    """
    stream = method(request, timeout=timeout)
    try:
        async for message in stream:
            yield _read(message, peer).data
    except grpc.RpcError as error:
        raise error_of(error, peer) from None
    finally:
        stream.cancel()  # where the caller stops early; nothing otherwise


def _read(answer: Any, peer: str) -> Any:
    """gRPC gives None for bytes that are not the message that the call returns."""
    if answer is None:
        raise TransportError(f"{peer} answers with something that is no answer: is it the program that you mean?")
    return answer


# --- servers and channels


def new_server(maximum_concurrent: int = MAX_CALLS, of_one: int = MAX_CALLS_OF_ONE, read: float = READ_SECONDS) -> Any:
    """A grpc.aio server with the sizes and the binding rule of this project; RESOURCE_EXHAUSTED beyond the maximum.

    Requests that are no protobuf are refused as an EncodingError; gRPC alone would answer UNKNOWN and log a traceback.
    """
    options = list(SERVER_OPTIONS)
    return grpc.aio.server(
        options=options, interceptors=[_Gate(of_one, read)], maximum_concurrent_rpcs=maximum_concurrent
    )


def machine_of(peer: str) -> str:
    """Who calls, for limits: the machine, without its port."""
    peer = unquote(peer)
    return peer.rpartition(":")[0] if peer.startswith(("ipv4:", "ipv6:")) else peer


class _Gate(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """No machine takes every place of a server, and none keeps one without sending a request.

    gRPC counts a call from its headers on and waits for the rest for ever: a few hundred calls of one stranger that
    never send a request, or never read the answer, would take every place that there is, the auditor's too.  So every
    call is handled as a stream here, where reading is this program's; on the wire there is no difference.  gRPC lets
    nobody end a call whose answer is not read, so such a call counts for its machine until its connection ends.
    """

    def __init__(self, of_one: int, read: float) -> None:
        self._of_one, self._read_seconds = of_one, read
        self._calls: Counter[str] = Counter()

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details)
        if handler is None or handler.request_streaming or handler.request_deserializer is None:
            return handler

        async def serve(_: Any, context: Any) -> None:
            caller = machine_of(str(context.peer()))
            self._calls[caller] += 1
            context.add_done_callback(lambda _: self._over(caller))
            request = await self._request(handler.request_deserializer, caller, details.method, context)
            if not handler.response_streaming:
                await self._send(context, await handler.unary_unary(request, context))
                return
            answer = handler.unary_stream(request, context)
            if inspect.isawaitable(answer):  # a handler that writes by itself, as the health service's
                await answer
                return
            async with contextlib.aclosing(answer):
                async for item in answer:
                    await self._send(context, item)

        return grpc.stream_stream_rpc_method_handler(serve, None, handler.response_serializer)

    @staticmethod
    async def _send(context: Any, message: Any) -> None:
        try:
            await context.write(message)
        except grpc.aio.InternalError:  # the caller has gone: nothing of this call is anybody's any more
            raise asyncio.CancelledError from None

    def _over(self, caller: str) -> None:
        """A call has left the server."""
        self._calls[caller] -= 1
        if not self._calls[caller]:
            del self._calls[caller]

    async def _request(self, parse: Callable[[bytes], Any], caller: str, method: str, context: Any) -> Any:
        async with _statuses(method, context):
            if self._calls[caller] > self._of_one:
                raise BudgetError(f"{self._of_one} calls of this machine are under way: wait for one of them")
            try:
                async with asyncio.timeout(self._read_seconds):
                    data = await context.read()
                return parse(data)
            except TimeoutError:
                raise EncodingError(f"no request came within {self._read_seconds:.0f} s") from None
            except Exception:
                raise EncodingError("the request is not the message that this call takes") from None
        raise AssertionError("abort raises")


def bind(server: Any, address: str, credentials: grpc.ServerCredentials | None = None, plain: bool = False) -> int:
    """Bind ``host:port`` (port 0: any free one) and give the port; in the clear off loopback only with ``plain``.

    Raises:
        ConfigurationError: the port is taken, the address is malformed, or it is not loopback and has no TLS.
    """
    _check_address(address, plain or credentials is not None, "serve")
    try:
        if credentials is None:
            port = server.add_insecure_port(address)
        else:
            port = server.add_secure_port(address, credentials)
    except RuntimeError:
        port = 0
    if not port:
        raise ConfigurationError(f"cannot listen on {address}: the port is taken, or the address is not this machine's")
    return int(port)


def open_channel(target: str, credentials: grpc.ChannelCredentials | None = None, plain: bool = False) -> Any:
    """A channel to ``host:port``; belongs to the running event loop.  In the clear off loopback only with ``plain``.

    Raises:
        ConfigurationError: malformed, or a plain connection to another machine.
    """
    _check_address(target, plain or credentials is not None, "connect to")
    if credentials is None:
        return grpc.aio.insecure_channel(target, options=list(CHANNEL_OPTIONS))
    return grpc.aio.secure_channel(target, credentials, options=list(CHANNEL_OPTIONS))


def dial(target: str, tls: ClientTls) -> Any:
    """A channel to ``host:port``, encrypted unless it stays on this machine or ``tls`` says plain.

    Raises:
        ConfigurationError: malformed address, or certificate files that do not do.
    """
    return open_channel(target, tls.credentials(target), tls.plain)


def _check_address(address: str, allowed: bool, verb: str) -> None:
    if address.startswith("unix:"):
        return
    host, colon, port = address.rpartition(":")
    if not colon or not host or not port.isascii() or not port.isdigit() or int(port) > 65535:
        raise ConfigurationError(f"{address!r} is no address: expected host:port, such as 127.0.0.1:7800")
    if not allowed and not is_loopback(host):
        raise ConfigurationError(
            f"will not {verb} {address} in the clear: give TLS files, use a loopback address, or say "
            + ("--listen-plain" if verb == "serve" else "--plain")
        )
