# SPDX-License-Identifier: GPL-3.0-or-later
"""The client's links over gRPC.  Calls are asynchronous inside and plain outside: one thread runs their event loop."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from ragseal.client.link import Announced, Stage
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.rpc import call, dial
from ragseal.ledger.tls import ClientTls
from ragseal.v1 import provider_pb2, provider_pb2_grpc

T = TypeVar("T")

_STAGES: dict[int, Stage] = {
    provider_pb2.WINDOW_STATE_OPEN: "open",
    provider_pb2.WINDOW_STATE_CLOSED: "closed",
}


class _Connection:
    """A channel and the thread whose event loop it lives in."""

    def __init__(self, target: str, tls: ClientTls, timeout: float) -> None:
        """Raises ConfigurationError: malformed address, or certificate files that do not do."""
        self.peer, self.timeout = target, timeout
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="ragseal-client", daemon=True)
        self._thread.start()
        try:
            self.channel = self.run(self._open(target, tls))
        except BaseException:
            self._stop()
            raise

    @staticmethod
    async def _open(target: str, tls: ClientTls) -> Any:
        return dial(target, tls)  # belongs to the loop it is made in

    def run(self, action: Coroutine[Any, Any, T]) -> T:
        """Run a coroutine in the loop and wait for it; an interrupted wait cancels the call."""
        future = asyncio.run_coroutine_threadsafe(action, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        if not self._loop.is_closed():
            self.run(self.channel.close())
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class ProviderOverGrpc:
    """:class:`ragseal.client.link.ProviderLink` at ``host:port``."""

    def __init__(self, target: str, tls: ClientTls, timeout: float) -> None:
        """Raises ConfigurationError: see :func:`ragseal.ledger.rpc.dial`."""
        self._connection = _Connection(target, tls, timeout)
        self._stub = provider_pb2_grpc.ProviderServiceStub(self._connection.channel)  # type: ignore[no-untyped-call]

    def _call(self, method: Any, request: Any) -> Any:
        connection = self._connection
        return connection.run(call(method, request, connection.peer, connection.timeout))

    def announced(self) -> Announced:
        answer = self._call(self._stub.GetManifest, provider_pb2.GetManifestRequest())
        accounts = tuple(bytes(line) for line in answer.accounts)
        stage = _STAGES.get(answer.state, "preparing")
        return Announced(bytes(answer.canonical), accounts, int(answer.ledger_index), stage)

    def prepare(self, canonical: bytes, signature: bytes) -> bytes:
        request = provider_pb2.PrepareRequest(canonical=canonical, signature=signature)
        return bytes(self._call(self._stub.Prepare, request).canonical)

    def retrieve(self, canonical: bytes) -> bytes:
        return bytes(self._call(self._stub.Retrieve, provider_pb2.RetrieveRequest(canonical=canonical)).canonical)

    def close(self) -> None:
        self._connection.close()


class LedgerOverGrpc:
    """:class:`ragseal.client.link.LedgerLink` at ``host:port``."""

    def __init__(self, target: str, tls: ClientTls, timeout: float) -> None:
        """Raises ConfigurationError: see :func:`ragseal.ledger.rpc.dial`."""
        self._connection = _Connection(target, tls, timeout)
        self._remote = RemoteLedger(self._connection.channel, target, timeout)

    def checkpoint(self) -> bytes:
        return self._connection.run(self._remote.checkpoint())

    def inclusion(self, index: int, size: int) -> list[bytes]:
        return self._connection.run(self._remote.inclusion(index, size))

    def consistency(self, old: int, new: int) -> list[bytes]:
        return self._connection.run(self._remote.consistency(old, new))

    def close(self) -> None:
        self._connection.close()
