# SPDX-License-Identifier: GPL-3.0-or-later
"""A gRPC proxy between real processes that keeps every byte that passes, and may change what the server answers.

It knows nothing of the messages: methods and whether they stream come from the compiled descriptors of ragseal.v1, so a
new RPC passes through it, is recorded and is attacked without a line here.
"""

from __future__ import annotations

import asyncio
import importlib
import pkgutil
import threading
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any

import grpc
import grpc.aio

import ragseal.v1
from ragseal.runtime.rpc import bind, new_server, open_channel

Change = Callable[[str, bytes], bytes]


@dataclass(frozen=True)
class Method:
    """One RPC of the product."""

    path: str  #: /ragseal.v1.Service/Name
    service: str
    request: Any  #: descriptor of its request message
    streams: bool


def methods() -> dict[str, Method]:
    """Every RPC of every service that is on a network, by path; the operator's is on a socket of its own user's."""
    found: dict[str, Method] = {}
    for module in pkgutil.iter_modules(ragseal.v1.__path__):
        if not module.name.endswith("_pb2") or module.name == "admin_pb2":
            continue
        descriptor = importlib.import_module(f"ragseal.v1.{module.name}").DESCRIPTOR
        for service in descriptor.services_by_name.values():
            for one in service.methods:
                assert not one.client_streaming, "the proxy and the attacks know no client streams yet"
                path = f"/{service.full_name}/{one.name}"
                found[path] = Method(path, service.full_name, one.input_type, one.server_streaming)
    return found


class Proxy:
    """Forwards to ``target``; use as a context manager, ``address`` is where it listens."""

    def __init__(self, target: str, change: Change | None = None) -> None:
        self.target, self.change = target, change
        self.seen: list[tuple[str, str, bytes]] = []  #: (path, "request" or "answer" or "error", bytes)
        self._methods = methods()

    def __enter__(self) -> Proxy:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.address = self._call(self._start())
        return self

    def __exit__(self, *_: object) -> None:
        self._call(self._stop())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    def _call(self, action: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(action, self._loop).result(60)

    async def _start(self) -> str:
        self._server = new_server()
        self._server.add_generic_rpc_handlers((_Everything(self),))
        port = bind(self._server, "127.0.0.1:0")
        await self._server.start()
        self._channel = open_channel(self.target)
        return f"127.0.0.1:{port}"

    async def _stop(self) -> None:
        await self._server.stop(0)
        await self._channel.close()

    def handler(self, path: str) -> Any:
        method = self._methods.get(path)
        if method is None:
            return None

        async def unary(request: bytes, context: Any) -> bytes:
            return await self._unary(path, request, context)

        async def stream(request: bytes, context: Any) -> AsyncIterator[bytes]:
            async for chunk in self._stream(path, request, context):
                yield chunk

        if method.streams:
            return grpc.unary_stream_rpc_method_handler(stream)
        return grpc.unary_unary_rpc_method_handler(unary)

    def _answer(self, path: str, data: bytes) -> bytes:
        self.seen.append((path, "answer", data))
        return data if self.change is None else self.change(path, data)

    async def _unary(self, path: str, request: bytes, context: Any) -> bytes:
        self.seen.append((path, "request", request))
        try:
            return self._answer(path, await self._channel.unary_unary(path)(request, timeout=60))
        except grpc.aio.AioRpcError as error:
            await self._fail(path, error, context)
            raise AssertionError("abort raises") from None

    async def _stream(self, path: str, request: bytes, context: Any) -> AsyncIterator[bytes]:
        self.seen.append((path, "request", request))
        try:
            async for chunk in self._channel.unary_stream(path)(request, timeout=60):
                yield self._answer(path, chunk)
        except grpc.aio.AioRpcError as error:
            await self._fail(path, error, context)

    async def _fail(self, path: str, error: grpc.aio.AioRpcError, context: Any) -> None:
        self.seen.append((path, "error", (error.details() or "").encode()))
        metadata = tuple((key, value) for key, value in error.trailing_metadata() or ())
        await context.abort(error.code(), error.details() or "", trailing_metadata=metadata)


class _Everything(grpc.GenericRpcHandler):  # type: ignore[misc]
    def __init__(self, proxy: Proxy) -> None:
        self._proxy = proxy

    def service(self, details: Any) -> Any:
        return self._proxy.handler(details.method)
