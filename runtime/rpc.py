# SPDX-License-Identifier: GPL-3.0-or-later
"""How every gRPC edge of ragseal is opened, secured and made to speak in AuditErrors.  Knows no service.

Server:   server = new_server(); port = bind(server, "127.0.0.1:7800"); handlers carry @answers or @streams
Client:   channel = open_channel("127.0.0.1:7800"); calls go through ``await call(stub.Method, request, timeout)``
"""

from __future__ import annotations

import asyncio
import functools
import logging
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Sequence
from typing import Any, TypeVar

import grpc
import grpc.aio

from ragseal.kernel.errors import BudgetError, EncodingError, TransportError
from ragseal.runtime.edges import proxy
from ragseal.runtime.edges.address import Address
from ragseal.runtime.edges.listening import cannot_listen, in_the_clear
from ragseal.runtime.gate import Gate
from ragseal.runtime.limits import DEFAULT, Limits, raise_descriptors
from ragseal.runtime.statuses import statuses
from ragseal.runtime.tls import ClientTls
from ragseal.runtime.tokenbucket import Throttle
from ragseal.runtime.unreached import explained, remember

MAX_MESSAGE_BYTES = (64 + 1) << 20  #: an answer of the most openings (2^26), its record, receipt and paths
MAX_REQUEST_BYTES = 1024 * 1024  #: that a server takes; an ask for 65,536 proofs has half of that, and none has more
DEFAULT_TIMEOUT = 30.0  #: seconds; gRPC itself would wait for ever
LEAST_WAIT = 0.05  #: seconds between two calls, whatever a peer says
LEAST_LEFT = 1.0  #: seconds that a call which is made again has at least

_SIZES = (("grpc.max_receive_message_length", MAX_MESSAGE_BYTES), ("grpc.max_send_message_length", MAX_MESSAGE_BYTES))

_PLAIN = ("grpc.compression_enabled_algorithms_bitset", 1)  # a compressed message is refused, not unpacked

# so_reuseport: by default two providers would bind one port in silence, and fork one log
SERVER_OPTIONS: Sequence[tuple[str, int]] = (
    ("grpc.max_receive_message_length", MAX_REQUEST_BYTES),
    ("grpc.max_send_message_length", MAX_MESSAGE_BYTES),
    ("grpc.so_reuseport", 0),
    _PLAIN,
)
CHANNEL_OPTIONS: Sequence[tuple[str, int]] = (
    *_SIZES,
    _PLAIN,
    ("grpc.enable_retries", 0),
    ("grpc.max_reconnect_backoff_ms", 2000),  # or who polls a server that is not up yet finds it minutes later
)

T = TypeVar("T")
logging.getLogger("grpc._common").setLevel(logging.CRITICAL)  # unreadable answers are errors of ours, see _read
# Of a server that was dropped unstopped gRPC logs, while it frees it, a debug record that holds it: whoever keeps that
# record, as a queue of records does, reads freed memory, and the process dies at some later moment.
logging.getLogger("grpc._cython.cygrpc").setLevel(logging.INFO)


# --- handlers and calls


def answers(handler: Callable[[Any, Any, Any], Awaitable[T]]) -> Callable[[Any, Any, Any], Awaitable[T]]:
    """Decorator for unary handlers: AuditErrors become statuses, anything else INTERNAL without a traceback."""

    @functools.wraps(handler)
    async def wrapped(self: Any, request: Any, context: Any) -> T:
        async with statuses(handler.__name__, context):
            return await handler(self, request, context)
        raise AssertionError("abort raises")

    return wrapped


def streams(handler: Callable[[Any, Any, Any], AsyncIterator[T]]) -> Callable[[Any, Any, Any], AsyncIterator[T]]:
    """As :func:`answers`, for handlers that answer with a stream."""

    @functools.wraps(handler)
    async def wrapped(self: Any, request: Any, context: Any) -> AsyncIterator[T]:
        async with statuses(handler.__name__, context):
            async for item in handler(self, request, context):
                yield item

    return wrapped


async def patiently(make: Callable[[float], Awaitable[T]], timeout: float) -> T:
    """A call that is made again where the peer refuses it for now and says when to come again; all within ``timeout``.

    Args:
        make: the call, given the seconds that are left.

    Raises:
        AuditError: as the call; a refusal whose wait is longer than what is left is the last one.
    """
    loop = asyncio.get_running_loop()
    end = loop.time() + timeout
    while True:
        try:
            return await make(end - loop.time())
        except BudgetError as error:
            if error.retry_after_ms is None:
                raise
            wait = error.retry_after_ms / 1000
            if loop.time() + wait + LEAST_LEFT > end:
                raise
        await asyncio.sleep(max(wait, LEAST_WAIT))


async def call(method: Callable[..., Any], request: Any, peer: str, timeout: float = DEFAULT_TIMEOUT) -> Any:
    """One unary call with a deadline (seconds).

    Raises:
        AuditError: what the peer raised, or TransportError when it gave no answer.
    """
    try:
        answer = await method(request, timeout=timeout)
    except grpc.RpcError as error:
        raise await explained(error, peer) from None
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
        raise await explained(error, peer) from None
    finally:
        stream.cancel()  # where the caller stops early; nothing otherwise


def _read(answer: Any, peer: str) -> Any:
    """gRPC gives None for bytes that are not the message that the call returns."""
    if answer is None:
        raise TransportError(
            f"{peer} answers with something other than a reply: does this address lead to the program that you mean?"
        )
    return answer


# --- servers and channels


def new_server(limits: Limits = DEFAULT, peers: Throttle | None = None) -> Any:
    """A grpc.aio server with the sizes, the limits and the binding rule of this project.

    BudgetError beyond its places, which the gate counts: those that gRPC itself refuses may pile up.  Requests that are
    no protobuf are refused as an EncodingError; gRPC alone would answer UNKNOWN and log a traceback.  This program
    may have as many descriptors as the system allows, from now.

    Args:
        peers: how often one machine may call, where that has a bound.
    """
    options = [*SERVER_OPTIONS, *limits.options(raise_descriptors())]
    return grpc.aio.server(options=options, interceptors=[Gate(limits, peers)])


def bind(server: Any, address: str, credentials: grpc.ServerCredentials | None = None, plain: bool = False) -> int:
    """Bind ``host:port`` (port 0: any free one) and give the port; in the clear off loopback only with ``plain``.

    Raises:
        ConfigurationError: it cannot be listened on (says why), is malformed, or is not loopback and has no TLS.
    """
    at = _checked(address, plain or credentials is not None, "serve")
    try:
        if credentials is None:
            port = server.add_insecure_port(at.target)
        else:
            port = server.add_secure_port(at.target, credentials)
    except RuntimeError:
        port = 0
    if not port:
        raise cannot_listen(at, None, tls=credentials is not None)
    return int(port)


def open_channel(target: str, credentials: grpc.ChannelCredentials | None = None, plain: bool = False) -> Any:
    """A channel to ``host:port``; belongs to the running event loop.  In the clear off loopback only with ``plain``.

    To this machine, and in the clear, it takes no proxy of the environment.

    Raises:
        ConfigurationError: malformed, or a plain connection to another machine.
    """
    at = _checked(target, plain or credentials is not None, "connect to")
    options = [*CHANNEL_OPTIONS, *proxy.options(at, credentials is not None)]
    if credentials is None:
        return grpc.aio.insecure_channel(at.target, options=options)
    return grpc.aio.secure_channel(at.target, credentials, options=options)


def dial(target: str, tls: ClientTls) -> Any:
    """A channel to ``host:port``, encrypted unless it stays on this machine or ``tls`` says plain.

    Raises:
        ConfigurationError: malformed address, or certificate files that do not do.
    """
    channel = open_channel(target, tls.credentials(target), tls.plain)
    remember(target, tls)
    return channel


def _checked(address: str, allowed: bool, verb: str) -> Address:
    """An address that may be used as it is said."""
    at = Address.parse(address, listening=verb == "serve")
    if not allowed and not at.loopback:
        raise in_the_clear(at, verb)
    return at
