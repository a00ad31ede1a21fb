# SPDX-License-Identifier: GPL-3.0-or-later
"""The client's links over gRPC, plain calls outside (:class:`ragseal.ledger.remote.Connection`)."""

from __future__ import annotations

from typing import Any

from ragseal.client.link import Announced, PreparedReply, Retrieved, Stage
from ragseal.ledger.remote import Connection, RemoteLedger
from ragseal.runtime.rpc import call
from ragseal.runtime.tls import ClientTls
from ragseal.v1 import provider_pb2, provider_pb2_grpc

_STAGES: dict[int, Stage] = {
    provider_pb2.WINDOW_STATE_OPEN: "open",
    provider_pb2.WINDOW_STATE_CLOSED: "closed",
}


class ProviderOverGrpc:
    """:class:`ragseal.client.link.ProviderLink` at ``host:port``."""

    def __init__(self, target: str, tls: ClientTls, timeout: float) -> None:
        """Raises ConfigurationError: see :func:`ragseal.runtime.rpc.dial`."""
        self._connection = Connection(target, tls, timeout, "ragseal-client")
        self._stub = provider_pb2_grpc.ProviderServiceStub(self._connection.channel)  # type: ignore[no-untyped-call]

    def _call(self, method: Any, request: Any, after: float = 0.0) -> Any:
        connection = self._connection
        return connection.run(call(method, request, connection.peer, connection.timeout + after))

    def announced(self, window: str = "") -> Announced:
        answer = self._call(self._stub.GetManifest, provider_pb2.GetManifestRequest(window=window))
        return Announced(bytes(answer.canonical), int(answer.ledger_index), _STAGES.get(answer.state, "preparing"))

    def account(self, canonical: bytes, signature: bytes) -> bytes:
        request = provider_pb2.GetAccountRequest(canonical=canonical, signature=signature)
        return bytes(self._call(self._stub.GetAccount, request).canonical)

    def prepare(self, canonical: bytes, signature: bytes) -> PreparedReply:
        request = provider_pb2.PrepareRequest(canonical=canonical, signature=signature)
        answer = self._call(self._stub.Prepare, request)
        return PreparedReply(bytes(answer.canonical), answer.answered if answer.HasField("answered") else None)

    def retrieve(self, canonical: bytes, signature: bytes, known_size: int, after: float = 0.0) -> Retrieved:
        request = provider_pb2.RetrieveRequest(canonical=canonical, signature=signature, known_size=known_size)
        answer = self._call(self._stub.Retrieve, request, after)
        path = tuple(bytes(node) for node in answer.consistency)
        return Retrieved(bytes(answer.canonical), path, int(answer.update))

    def close(self) -> None:
        self._connection.close()


class LedgerOverGrpc:
    """:class:`ragseal.client.link.LedgerLink` at ``host:port``."""

    def __init__(self, target: str, tls: ClientTls, timeout: float) -> None:
        """Raises ConfigurationError: see :func:`ragseal.runtime.rpc.dial`."""
        self._connection = Connection(target, tls, timeout, "ragseal-client")
        self._remote = RemoteLedger(self._connection.channel, target, timeout)

    def checkpoint(self) -> bytes:
        return self._connection.run(self._remote.checkpoint())

    def cosigned(self) -> bytes | None:
        return self._connection.run(self._remote.cosigned())

    def entries(self, start: int, count: int) -> list[bytes]:
        return self._connection.run(self._remote.entries(start, count))

    def inclusion(self, index: int, size: int) -> list[bytes]:
        return self._connection.run(self._remote.inclusion(index, size))

    def consistency(self, old: int, new: int) -> list[bytes]:
        return self._connection.run(self._remote.consistency(old, new))

    def rotations(self) -> list[bytes]:
        return self._connection.run(self._remote.rotations())

    def close(self) -> None:
        self._connection.close()
