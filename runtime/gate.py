# SPDX-License-Identifier: GPL-3.0-or-later
"""What every call of a server passes, so that no machine takes all of its places or fills its memory."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import logging
import random
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import grpc.aio

from ragseal.kernel.errors import BudgetError, EncodingError
from ragseal.runtime.limits import Limits
from ragseal.runtime.peers import end_connections, machine_of
from ragseal.runtime.statuses import statuses
from ragseal.runtime.tokenbucket import Throttle

_log = logging.getLogger("ragseal.rpc")


class Gate(grpc.aio.ServerInterceptor):  # type: ignore[misc]
    """No machine takes every place of a server, none keeps one without sending or reading, and memory has an end.

    gRPC counts a call from its headers on and waits for the rest for ever: a few hundred calls of one stranger that
    never send a request, or never read the answer, would take every place that there is, the auditor's too.  So every
    call is handled as a stream here, where reading and writing are this program's; on the wire there is no difference.

    A message that is written lies in gRPC's memory until its caller has room for all of it: only then does the write
    end.  Those bytes are counted, and refused beyond a bound.  A write that does not end in time costs its caller the
    connection: an abort or a cancelled handler would leave message and call where they are.  So does a status that
    is not taken in time, of refused calls and unknown ones too.  A machine that has far more calls under way than
    places loses, at once, the connection with the most of them: others may share its address.

    What remains: an answer lies in memory about twice while it is written, and once more while it is made; small ones
    are not counted; a request is read whole before anybody counts it, so that the places of one machine may hold
    256 MiB of requests and all of them 2 GiB; on a Unix socket unread answers keep their
    places and their share of the bound until the caller goes.
    """

    def __init__(self, limits: Limits, peers: Throttle | None = None) -> None:
        """``peers``: how often one machine may call; by default as often as it has places."""
        self._limits, self._peers = limits, peers
        self._calls: dict[str, Counter[str]] = {}  #: under way, refused ones too, by machine and connection
        self._places: Counter[str] = Counter()  #: those that were let in
        self._taken = 0  #: places of everybody
        self._unread: Counter[str] = Counter()  #: bytes that are being written
        self._stuck: set[str] = set()  #: peers whose connection is to end
        self._reaper: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "connections")  # of its own: others' work may take minutes

    async def intercept_service(self, continuation: Any, details: Any) -> Any:
        handler = await continuation(details) or _UNKNOWN

        async def serve(_: Any, context: Any) -> None:
            call = _Call(self, handler, context)
            async with statuses(details.method, call):
                try:
                    await self._serve(handler, call)
                finally:
                    call.ends()

        return grpc.stream_stream_rpc_method_handler(serve)

    async def _serve(self, handler: Any, call: _Call) -> None:
        self._enter(call)
        given = call.requests() if handler.request_streaming else await call.request()
        behave = handler.unary_unary or handler.unary_stream or handler.stream_unary or handler.stream_stream
        answer = behave(given, call)
        if not inspect.isawaitable(answer):
            async with contextlib.aclosing(answer):
                async for item in answer:
                    await call.write(item)
        elif handler.response_streaming:  # it writes by itself, or ends without an answer
            await answer
        else:
            await call.write(await answer)  # without a name, which would hold it until it is read

    def _enter(self, call: _Call) -> None:
        """A call takes a place until it has left the server.  BudgetError: there is none."""
        limits, caller = self._limits, call.caller
        calls = self._calls.setdefault(caller, Counter())
        calls[call.origin] += 1
        call.add_done_callback(lambda _: self._over(caller, call.origin))
        if calls.total() > limits.streams:
            most = max(calls.values())
            self.end(random.choice([origin for origin, number in calls.items() if number == most]))
        if self._peers is not None:
            self._peers.take(caller)
        if self._places[caller] >= limits.calls_of_one:
            raise BudgetError(f"{limits.calls_of_one} calls of this machine are under way: wait for one of them")
        if self._taken >= limits.calls:
            raise BudgetError(f"{limits.calls} calls are under way: try again")
        self._places[caller] += 1
        self._taken += 1
        call.add_done_callback(lambda _: self._left(caller))

    def _over(self, caller: str, origin: str) -> None:
        calls = self._calls[caller]
        _less(calls, origin)
        if not calls:
            del self._calls[caller]

    def _left(self, caller: str) -> None:
        _less(self._places, caller)
        self._taken -= 1

    def supervise(self, call: _Call) -> None:
        """A call has only its status to send: in time, or its connection ends."""
        loop, seconds = asyncio.get_running_loop(), self._limits.send
        late: asyncio.TimerHandle

        def end() -> None:  # again, should the connection not have been found
            nonlocal late
            self.end(call.origin)
            late = loop.call_later(seconds, end)

        late = loop.call_later(seconds, end)
        call.add_done_callback(lambda _: late.cancel())

    async def read(self, context: Any) -> Any:
        """The next message of a call, or grpc.aio.EOF.  EncodingError when none comes in time."""
        try:
            async with asyncio.timeout(self._limits.read):
                return await context.read()
        except TimeoutError:
            raise EncodingError(f"no request came within {self._limits.read:.0f} s") from None

    async def send(self, context: Any, caller: str, data: bytes) -> None:
        """Write a message; ends when the caller has room for all of it.

        Raises:
            BudgetError: too many bytes of answers are not read yet.
            asyncio.CancelledError: the caller has gone, or was made to.
        """
        limits, mine = self._limits, self._unread[caller]
        size = len(data) if len(data) > limits.small else 0
        if size and (self._unread.total() + size > limits.unread or (mine and mine + size > limits.unread_of_one)):
            raise BudgetError("earlier answers wait to be read: read those first, or ask again later")
        self._unread[caller] += size
        # a task of its own: where the handler is cancelled, gRPC holds the message all the same, and it counts
        writing = asyncio.ensure_future(context.write(data))
        writing.add_done_callback(lambda done: self._written(done, caller, size))
        del data
        await asyncio.wait({writing}, timeout=limits.send + size / limits.slowest)
        while not writing.done():  # and again, should the connection not have been found
            self.end(str(context.peer()))
            await asyncio.wait({writing}, timeout=limits.send)
        try:
            writing.result()
        except grpc.aio.InternalError:  # the caller has gone: nothing of this call is anybody's any more
            raise asyncio.CancelledError from None

    def _written(self, writing: asyncio.Future[None], caller: str, size: int) -> None:
        if not writing.cancelled():
            writing.exception()  # it may be that nobody asks any more
        _less(self._unread, caller, size)

    def end(self, peer: str) -> None:
        """End a connection, soon."""
        self._stuck.add(peer)
        if self._reaper is None or self._reaper.done():
            self._reaper = asyncio.ensure_future(self._reap())

    async def _reap(self) -> None:
        while self._stuck:
            peers, self._stuck = self._stuck, set()
            machines = ", ".join(sorted(set(map(machine_of, peers))))
            _log.warning("answers are not read, or calls are far too many: connections of %s end", machines)
            await asyncio.get_running_loop().run_in_executor(self._thread, end_connections, peers)


class _Call:
    """A call's context for its handler, whose reads, writes and end pass the gate."""

    def __init__(self, gate: Gate, handler: Any, context: Any) -> None:
        self._gate, self._handler, self._context = gate, handler, context
        self.origin = str(context.peer())
        self.caller = machine_of(self.origin)
        self._ends = False

    def __getattr__(self, name: str) -> Any:
        return getattr(self._context, name)

    def _parsed(self, data: bytes) -> Any:
        parse: Callable[[bytes], Any] | None = self._handler.request_deserializer
        try:
            return data if parse is None else parse(data)
        except Exception:
            raise EncodingError("the request is not the message that this call takes") from None

    async def request(self) -> Any:
        """The only message of a call.  EncodingError: none, in time, that it takes."""
        return self._parsed(await self._gate.read(self._context))

    async def requests(self) -> AsyncIterator[Any]:
        """All messages of a call, each waited for as long as the only one of another would be."""
        while (data := await self._gate.read(self._context)) is not grpc.aio.EOF:
            yield self._parsed(data)

    def write(self, message: Any) -> Awaitable[None]:
        """As :meth:`Gate.send`; no coroutine, whose frame would hold the message until it is read."""
        make: Callable[[Any], bytes] | None = self._handler.response_serializer
        return self._gate.send(self._context, self.caller, message if make is None else make(message))

    def ends(self) -> None:
        """Nothing more is read or written."""
        if not self._ends:
            self._ends = True
            self._gate.supervise(self)

    async def abort(self, *status: Any, **more: Any) -> None:
        """As gRPC's.  asyncio.CancelledError: the caller has gone, or was made to."""
        self.ends()
        try:
            await self._context.abort(*status, **more)
        except grpc.aio.InternalError:
            raise asyncio.CancelledError from None


async def _unknown(_: Any, call: _Call) -> None:
    await call.abort(grpc.StatusCode.UNIMPLEMENTED, "this server has no such call")


_UNKNOWN = grpc.stream_stream_rpc_method_handler(_unknown)  # gRPC's own would pass no gate


def _less(counter: Counter[str], key: str, by: int = 1) -> None:
    counter[key] -= by
    if not counter[key]:
        del counter[key]
