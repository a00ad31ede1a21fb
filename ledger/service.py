# SPDX-License-Identifier: GPL-3.0-or-later
"""gRPC edge of the log: read calls for everyone, and the door for witnesses.  Mounted in the provider's server."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

from ragseal.kernel.errors import LedgerError
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.published import PublicLog
from ragseal.runtime.rpc import answers
from ragseal.v1 import ledger_pb2, ledger_pb2_grpc

MAX_PAGE_ENTRIES = 1024
MAX_PAGE_BYTES = 256 * 1024  #: what a caller that does not read can make this server hold
MAX_PAGE_COSIGNATURES = 1024


class LedgerServicer(ledger_pb2_grpc.LedgerServiceServicer):
    """Serves what is public of one log; every call that touches the disk runs in a thread.

    ``LedgerServicer(log, book).mount(server)``
    """

    def __init__(self, log: PublicLog, book: CosignatureBook, clock: Callable[[], float] = time.time) -> None:
        self._log, self._book, self._clock = log, book, clock

    def mount(self, server: Any) -> None:
        """Add the service to a grpc.aio server."""
        ledger_pb2_grpc.add_LedgerServiceServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    @answers
    async def GetCheckpoint(self, request: ledger_pb2.GetCheckpointRequest, context: Any) -> Any:
        return await asyncio.to_thread(self._checkpoint)

    def _checkpoint(self) -> ledger_pb2.GetCheckpointResponse:
        size, note = self._log.published()
        return ledger_pb2.GetCheckpointResponse(
            checkpoint=self._book.decorate(note, size), cosigned=self._book.latest() or b""
        )

    @answers
    async def GetEntries(self, request: ledger_pb2.GetEntriesRequest, context: Any) -> Any:
        entries = await asyncio.to_thread(self._page, request.start, request.count)
        return ledger_pb2.GetEntriesResponse(entries=entries)

    def _page(self, start: int, count: int) -> list[bytes]:
        size = self._log.size
        if count < 1 or start >= size:
            raise LedgerError(f"entries from {start}: the log has {size}; ask for at least one below that")
        page: list[bytes] = []
        room, end = MAX_PAGE_BYTES, min(start + min(count, MAX_PAGE_ENTRIES), size)
        while start < end:
            # 16 entries at a time: the largest ones fill a page, a page of small ones takes few queries
            for entry in self._log.entries(start, min(16, end - start)):
                room -= len(entry)
                if room < 0 and page:
                    return page
                page.append(entry)
            start += 16
        return page

    @answers
    async def GetInclusionProof(self, request: ledger_pb2.GetInclusionProofRequest, context: Any) -> Any:
        path = await asyncio.to_thread(self._log.inclusion, request.index, request.size)
        return ledger_pb2.GetInclusionProofResponse(path=path)

    @answers
    async def GetConsistencyProof(self, request: ledger_pb2.GetConsistencyProofRequest, context: Any) -> Any:
        path = await asyncio.to_thread(self._log.consistency, request.old_size, request.new_size)
        return ledger_pb2.GetConsistencyProofResponse(path=path)

    @answers
    async def GetRotations(self, request: ledger_pb2.GetRotationsRequest, context: Any) -> Any:
        proofs = await asyncio.to_thread(self._log.turns)
        return ledger_pb2.GetRotationsResponse(proofs=[proof.encode() for proof in proofs])

    @answers
    async def AddCosignature(self, request: ledger_pb2.AddCosignatureRequest, context: Any) -> Any:
        now = int(self._clock())
        await asyncio.to_thread(self._book.add, request.size, request.witness, request.signature, now)
        return ledger_pb2.AddCosignatureResponse()

    @answers
    async def GetCosignatures(self, request: ledger_pb2.GetCosignaturesRequest, context: Any) -> Any:
        items = self._book.page(request.start, min(request.count, MAX_PAGE_COSIGNATURES))
        return ledger_pb2.GetCosignaturesResponse(
            cosignatures=[
                ledger_pb2.Cosignature(size=item.size, witness=item.witness.vkey(), signature=item.signature.line())
                for item in items
            ]
        )
