# SPDX-License-Identifier: GPL-3.0-or-later
"""The log from afar: the read calls of :class:`ragseal.ledger.log.Log` over gRPC, with nothing believed.

What comes back has the right shape (TransportError otherwise); whether it is true is for checkpoint.py and merkle.py.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine, Iterable
from typing import Any, TypeVar

from ragseal.kernel.errors import ConfigurationError, LedgerError, TransportError
from ragseal.kernel.rotation import MAX_TURNS
from ragseal.ledger.merkle import HASH_SIZE, MAX_SIZE
from ragseal.ledger.note import MAX_NOTE_BYTES
from ragseal.ledger.receipt import MAX_PATH
from ragseal.runtime.rpc import DEFAULT_TIMEOUT, call, dial, patiently
from ragseal.runtime.tls import ClientTls
from ragseal.v1 import ledger_pb2, ledger_pb2_grpc, provider_pb2, provider_pb2_grpc

MAX_ENTRY_BYTES = 65_535
MAX_TURN_BYTES = MAX_NOTE_BYTES + 4096  #: of a turn with its path and note

T = TypeVar("T")


class Connection:
    """A channel and the thread whose event loop it lives in: calls are asynchronous inside and plain outside."""

    def __init__(self, target: str, tls: ClientTls, timeout: float, name: str) -> None:
        """Raises ConfigurationError: malformed address, or certificate files that do not do."""
        self.peer, self.timeout = target, timeout
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name=name, daemon=True)
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
        """Run a coroutine in the loop and wait for it; an interrupted wait cancels the call.

        Raises:
            ConfigurationError: the connection was closed.
        """
        if self._loop.is_closed():
            action.close()
            raise ConfigurationError(f"the connection to {self.peer} is closed: open a new one")
        future = asyncio.run_coroutine_threadsafe(action, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def close(self) -> None:
        """Close the channel and end the thread; again is harmless."""
        if not self._loop.is_closed():
            self.run(self.channel.close())
            self._stop()

    def _stop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


class RemoteLedger:
    """Calls on a channel of :func:`ragseal.runtime.rpc.open_channel`; ``peer`` names the other side in errors."""

    def __init__(self, channel: Any, peer: str = "the provider", timeout: float = DEFAULT_TIMEOUT) -> None:
        self._stub = ledger_pb2_grpc.LedgerServiceStub(channel)  # type: ignore[no-untyped-call]
        self._peer, self._timeout = peer, timeout

    async def _call(self, method: Any, request: Any) -> Any:
        return await patiently(lambda left: call(method, request, self._peer, left), self._timeout)

    async def checkpoint(self) -> bytes:
        """The last signed note, unverified."""
        answer = await self._call(self._stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest())
        return bytes(answer.checkpoint)

    async def cosigned(self) -> bytes | None:
        """The note of the largest cosigned size, unverified; None before the first cosignature."""
        answer = await self._call(self._stub.GetCheckpoint, ledger_pb2.GetCheckpointRequest())
        return bytes(answer.cosigned) or None

    async def entries(self, start: int, count: int) -> list[bytes]:
        """Entries [start, start + count), at least one, fewer if they do not fit a page: ask on from there."""
        _check(start, count)
        answer = await self._call(self._stub.GetEntries, ledger_pb2.GetEntriesRequest(start=start, count=count))
        entries = [bytes(entry) for entry in answer.entries]
        if not 1 <= len(entries) <= count or any(len(entry) > MAX_ENTRY_BYTES for entry in entries):
            raise TransportError(f"{self._peer} answers with {len(entries)} entries of {count}, or with oversized ones")
        return entries

    async def entry(self, index: int) -> bytes:
        return (await self.entries(index, 1))[0]

    async def inclusion(self, index: int, size: int) -> list[bytes]:
        """Inclusion path, unverified."""
        _check(index, size)
        request = ledger_pb2.GetInclusionProofRequest(index=index, size=size)
        return self._path((await self._call(self._stub.GetInclusionProof, request)).path)

    async def consistency(self, old: int, new: int) -> list[bytes]:
        """Consistency path, unverified."""
        _check(old, new)
        request = ledger_pb2.GetConsistencyProofRequest(old_size=old, new_size=new)
        return self._path((await self._call(self._stub.GetConsistencyProof, request)).path)

    async def rotations(self) -> list[bytes]:
        """Turns of the log's key in their order, unverified (:func:`ragseal.ledger.turns.follow`)."""
        answer = await self._call(self._stub.GetRotations, ledger_pb2.GetRotationsRequest())
        proofs = [bytes(proof) for proof in answer.proofs]
        if len(proofs) > MAX_TURNS or any(len(proof) > MAX_TURN_BYTES for proof in proofs):
            raise TransportError(f"{self._peer} answers with {len(proofs)} turns, or with oversized ones")
        return proofs

    async def add_cosignature(self, size: int, witness: str, line: str) -> None:
        """Hand in a cosignature: the witness's vkey and its signature line over the checkpoint of ``size``."""
        _check(size)
        request = ledger_pb2.AddCosignatureRequest(size=size, witness=witness, signature=line)
        await self._call(self._stub.AddCosignature, request)

    async def cosignatures(self, start: int, count: int) -> list[tuple[int, str, str]]:
        """(size, vkey, signature line) in order of arrival, unverified; empty at the end."""
        _check(start, count)
        request = ledger_pb2.GetCosignaturesRequest(start=start, count=count)
        answer = await self._call(self._stub.GetCosignatures, request)
        return [(item.size, item.witness, item.signature) for item in answer.cosignatures]

    def _path(self, nodes: Iterable[bytes]) -> list[bytes]:
        path = [bytes(node) for node in nodes]
        if len(path) > 2 * MAX_PATH or any(len(node) != HASH_SIZE for node in path):
            raise TransportError(f"{self._peer} answers with something other than a Merkle path")
        return path


class RemoteBeacon:
    """The two calls by which a participant enters its part of a window's beacon, on the same kind of channel."""

    def __init__(self, channel: Any, peer: str = "the provider", timeout: float = DEFAULT_TIMEOUT) -> None:
        self._stub = provider_pb2_grpc.ProviderServiceStub(channel)  # type: ignore[no-untyped-call]
        self._peer, self._timeout = peer, timeout

    async def commit(self, canonical: bytes) -> None:
        """Enter a beacon-commit.  Raises the provider's refusal."""
        request = provider_pb2.CommitBeaconRequest(canonical=canonical)
        await call(self._stub.CommitBeacon, request, self._peer, self._timeout)

    async def open(self, canonical: bytes) -> None:
        """Enter a beacon-opening.  Raises the provider's refusal."""
        request = provider_pb2.OpenBeaconRequest(canonical=canonical)
        await call(self._stub.OpenBeacon, request, self._peer, self._timeout)


def _check(*numbers: int) -> None:
    if any(not 0 <= number <= MAX_SIZE for number in numbers):
        raise LedgerError("indices, sizes and counts are in [0, 2^63)")
