# SPDX-License-Identifier: GPL-3.0-or-later
"""The simulated provider behind real gRPC servers on loopback, each in a thread with an event loop of its own."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from typing import Any

from ragseal.kernel.beacon import (
    BeaconCommit,
    BeaconOpening,
)
from ragseal.kernel.encoding import decode_any
from ragseal.kernel.inquiry import ASKS
from ragseal.runtime.rpc import answers, bind, new_server, streams
from ragseal.v1 import ledger_pb2, ledger_pb2_grpc, provider_pb2, provider_pb2_grpc
from tests.simulator import SimulatedEvidence, World

CHUNK = 1000


class Provider(provider_pb2_grpc.ProviderServiceServicer):
    def __init__(self, world: World) -> None:
        self.world = world
        self.evidence = SimulatedEvidence(world)
        self.trouble: Exception | None = None  #: raised by every unary call
        self.troubles = -1  #: how often; for ever by default
        self.endless = False  #: streams never end

    def _check(self) -> None:
        if self.trouble is not None and self.troubles != 0:
            self.troubles -= 1
            raise self.trouble

    @answers
    async def GetManifest(self, request: provider_pb2.GetManifestRequest, context: Any) -> Any:
        self._check()
        return provider_pb2.GetManifestResponse(canonical=self.evidence.manifest(request.window))

    @answers
    async def CommitBeacon(self, request: provider_pb2.CommitBeaconRequest, context: Any) -> Any:
        self._check()
        self.world.messages.append(BeaconCommit.decode(request.canonical))
        return provider_pb2.CommitBeaconResponse()

    @answers
    async def OpenBeacon(self, request: provider_pb2.OpenBeaconRequest, context: Any) -> Any:
        self._check()
        self.world.messages.append(BeaconOpening.decode(request.canonical))
        return provider_pb2.OpenBeaconResponse()

    async def _send(self, data: bytes) -> AsyncIterator[provider_pb2.Chunk]:
        while True:
            for at in range(0, len(data), CHUNK):
                yield provider_pb2.Chunk(data=data[at : at + CHUNK])
            if not self.endless:
                return

    @streams
    async def GetIndex(self, request: provider_pb2.GetIndexRequest, context: Any) -> AsyncIterator[Any]:
        self._check()
        async for chunk in self._send(self.evidence.index_file(request.manifest, request.tenant)):
            yield chunk

    async def GetRegistry(self, request: provider_pb2.AskRequest, context: Any) -> AsyncIterator[Any]:
        async for chunk in self._deliver(request):
            yield chunk

    async def GetProofs(self, request: provider_pb2.AskRequest, context: Any) -> AsyncIterator[Any]:
        async for chunk in self._deliver(request):
            yield chunk

    async def GetEstimate(self, request: provider_pb2.AskRequest, context: Any) -> AsyncIterator[Any]:
        async for chunk in self._deliver(request):
            yield chunk

    async def GetEstimateProofs(self, request: provider_pb2.AskRequest, context: Any) -> AsyncIterator[Any]:
        async for chunk in self._deliver(request):
            yield chunk

    async def _deliver(self, request: provider_pb2.AskRequest) -> AsyncIterator[Any]:
        ask = decode_any(request.canonical, ASKS)
        assert isinstance(ask, ASKS)
        async for chunk in self._send(self.evidence.deliver(ask, request.signature)):
            yield chunk


class Ledger(ledger_pb2_grpc.LedgerServiceServicer):
    def __init__(self, world: World) -> None:
        self.world = world

    @answers
    async def GetCheckpoint(self, request: ledger_pb2.GetCheckpointRequest, context: Any) -> Any:
        return ledger_pb2.GetCheckpointResponse(checkpoint=self.world.checkpoint())

    @answers
    async def GetEntries(self, request: ledger_pb2.GetEntriesRequest, context: Any) -> Any:
        page = self.world.entries()[request.start : request.start + min(request.count, 5)]
        return ledger_pb2.GetEntriesResponse(entries=page)


@contextmanager
def served(mount: Callable[[Any], Any]) -> Iterator[str]:
    """Serve what ``mount`` adds to a server; gives the address.  ``mount`` runs in the server's event loop."""
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, daemon=True)
    thread.start()

    async def start() -> tuple[Any, str, list[asyncio.Task[Any]]]:
        server = new_server()
        tasks = [asyncio.ensure_future(task) for task in mount(server) or ()]
        port = bind(server, "127.0.0.1:0")
        await server.start()
        return server, f"127.0.0.1:{port}", tasks

    async def stop(server: Any, tasks: list[asyncio.Task[Any]]) -> None:
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await server.stop(0)

    server, address, tasks = asyncio.run_coroutine_threadsafe(start(), loop).result(20)
    try:
        yield address
    finally:
        asyncio.run_coroutine_threadsafe(stop(server, tasks), loop).result(20)
        loop.call_soon_threadsafe(loop.stop)
        thread.join()
        loop.close()


@contextmanager
def provider(world: World) -> Iterator[tuple[str, Provider]]:
    """The world as a provider on the wire."""
    servicer = Provider(world)

    def mount(server: Any) -> None:
        provider_pb2_grpc.add_ProviderServiceServicer_to_server(servicer, server)  # type: ignore[no-untyped-call]
        ledger_pb2_grpc.add_LedgerServiceServicer_to_server(Ledger(world), server)  # type: ignore[no-untyped-call]

    with served(mount) as address:
        yield address, servicer
