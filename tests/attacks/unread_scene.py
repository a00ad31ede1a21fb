# SPDX-License-Identifier: GPL-3.0-or-later
"""A ledger's server whose answers a test does not read."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import AsyncIterator
from typing import Any

from ragseal.kernel.errors import LedgerError
from ragseal.runtime.health import Health
from ragseal.runtime.limits import Limits
from ragseal.runtime.rpc import answers, bind, call, new_server, open_channel
from ragseal.v1 import ledger_pb2, ledger_pb2_grpc

SERVICE = "/ragseal.v1.LedgerService"
LONG = "é" * 950  # in a status, three bytes for one


class _Ledger(ledger_pb2_grpc.LedgerServiceServicer):
    def __init__(self) -> None:
        self.asked = 0
        self.waited_for, self.go_on = asyncio.Event(), asyncio.Event()

    @answers
    async def GetCheckpoint(self, request: Any, context: Any) -> Any:
        return ledger_pb2.GetCheckpointResponse(checkpoint=b"a note")

    @answers
    async def GetEntries(self, request: Any, context: Any) -> Any:
        return ledger_pb2.GetEntriesResponse(entries=[os.urandom(1 << 18)] * max(1, request.count))

    @answers
    async def GetConsistencyProof(self, request: Any, context: Any) -> Any:
        self.waited_for.set()
        await self.go_on.wait()
        return ledger_pb2.GetConsistencyProofResponse()

    @answers
    async def GetInclusionProof(self, request: Any, context: Any) -> Any:
        self.asked += 1
        raise LedgerError(LONG)


@contextlib.asynccontextmanager
async def _serving(given: Limits) -> AsyncIterator[tuple[int, Any, _Ledger]]:
    """Port, server and servicer."""
    server, ledger, health = new_server(given), _Ledger(), Health("it")
    ledger_pb2_grpc.add_LedgerServiceServicer_to_server(ledger, server)  # type: ignore[no-untyped-call]
    health.mount(server)
    health.say(True)
    port = bind(server, "[::]:0", plain=True)
    await server.start()
    try:
        yield port, server, ledger
    finally:
        await server.stop(0)


async def _answered(port: int, seconds: float) -> None:
    async with open_channel(f"127.0.0.1:{port}") as channel:
        stub = ledger_pb2_grpc.LedgerServiceStub(channel)
        await call(stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest(), "the provider", seconds)
