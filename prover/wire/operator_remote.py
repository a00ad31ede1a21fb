# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's commands, through the process that serves."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import grpc

from ragseal.kernel.beacon import Seat
from ragseal.kernel.errors import TransportError
from ragseal.kernel.policy import MOST_ANSWERED_BY
from ragseal.ledger.remote import Connection
from ragseal.prover.administration.document_lines import lines_of
from ragseal.prover.administration.documents import Reading
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.serving.committing import Told
from ragseal.prover.storage import place
from ragseal.runtime.progress import Progress
from ragseal.runtime.rpc import call
from ragseal.runtime.statuses import error_of
from ragseal.runtime.tls import ClientTls
from ragseal.v1 import admin_pb2, admin_pb2_grpc

PIECE = 1 << 18  #: bytes of documents in a message
PEER = "the running provider"
SECONDS = 60.0 + MOST_ANSWERED_BY  #: a window closes behind what it admitted
STOP_SECONDS = 0.2  #: between two looks whether to stop


class Remote:
    """A provider that serves, on the socket of its folder.  :meth:`end` the connection."""

    def __init__(self, directory: Path) -> None:
        """Raises ConfigurationError: the folder cannot be opened."""
        self._open = ExitStack()
        address = self._open.enter_context(place.address(directory))
        self._connection = Connection(address, ClientTls(plain=True), SECONDS, "ragseal-provider")
        self._open.callback(self._connection.close)
        self._stub = admin_pb2_grpc.AdminServiceStub(self._connection.channel)  # type: ignore[no-untyped-call]

    def end(self) -> None:
        """Close the connection; again is harmless."""
        self._open.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()

    def status(self) -> Told:
        return self._once("GetStatus", admin_pb2.GetStatusRequest())

    def add_accounts(self, new: Sequence[Registration]) -> Told:
        lines = [admin_pb2.AccountLine(name=one.name, tenant=one.tenant, public_key=one.public_key) for one in new]
        return self._once("AddAccounts", admin_pb2.AddAccountsRequest(accounts=lines))

    def remove_account(self, name: str) -> Told:
        return self._once("RemoveAccount", admin_pb2.RemoveAccountRequest(name=name))

    def list_accounts(self) -> Told:
        return self._once("ListAccounts", admin_pb2.ListAccountsRequest())

    def admit_auditor(self, name: str, public_key: bytes) -> Told:
        return self._once("AdmitAuditor", admin_pb2.AdmitAuditorRequest(name=name, public_key=public_key))

    def remove_auditor(self, name: str) -> Told:
        return self._once("RemoveAuditor", admin_pb2.RemoveAuditorRequest(name=name))

    def list_auditors(self) -> Told:
        return self._once("ListAuditors", admin_pb2.ListAuditorsRequest())

    def put_documents(self, tenant: str, found: Iterable[Document], progress: Progress, strict: bool = False) -> Told:
        def requests() -> Iterator[Any]:
            yield admin_pb2.PutDocumentsRequest(tenant=tenant, strict=strict)
            for piece in _pieces(lines_of(found)):
                yield admin_pb2.PutDocumentsRequest(lines=piece)

        return self._long("PutDocuments", requests(), progress)

    def delete_documents(self, tenant: str, names: Sequence[str]) -> Told:
        return self._once("DeleteDocuments", admin_pb2.DeleteDocumentsRequest(tenant=tenant, ids=names))

    def erase_document(self, tenant: str, name: str, reason: str) -> Told:
        return self._once("EraseDocument", admin_pb2.EraseDocumentRequest(tenant=tenant, id=name, reason=reason))

    def list_erasures(self, tenant: str, name: str) -> Told:
        return self._once("ListErasures", admin_pb2.ListErasuresRequest(tenant=tenant, id=name))

    def list_documents(self, tenant: str) -> Told:
        return self._once("ListDocuments", admin_pb2.ListDocumentsRequest(tenant=tenant))

    def sync_documents(self, reading: Reading, progress: Progress, stop: threading.Event) -> Told:
        request = admin_pb2.SyncDocumentsRequest(
            tenant=reading.tenant,
            source=reading.source,
            vectors=reading.vectors,
            keep_missing=reading.keep_missing,
            chunk=reading.chunk or 0,
            metadata_fields=reading.metadata,
            follow=reading.follow,
            every=reading.every,
            strict=reading.strict,
        )
        return self._long("SyncDocuments", request, progress, stop)

    def commit(
        self,
        policy: bytes,
        window: str,
        agreed: float | None,
        auditors: Sequence[Seat],
        progress: Progress,
        new_coins: bool = False,
    ) -> Told:
        request = admin_pb2.CommitWindowRequest(
            policy=policy,
            window=window,
            auditors=[admin_pb2.AuditorSeat(owner=one.owner, public_key=one.public_key) for one in auditors],
            agreed=agreed,
            new_coins=new_coins,
        )
        return self._long("CommitWindow", request, progress)

    def close(self, window: str) -> Told:
        return self._once("EndWindow", admin_pb2.EndWindowRequest(window=window))

    def retire(self, window: str, agreed: bool, unproven: bool, progress: Progress) -> Told:
        request = admin_pb2.RetireWindowRequest(window=window, agreed=agreed, unproven=unproven)
        return self._long("RetireWindow", request, progress)

    def export_proofs(self, folder: Path, window: str, progress: Progress) -> Told:
        request = admin_pb2.ExportProofsRequest(folder=str(folder), window=window)
        return self._long("ExportProofs", request, progress)

    def backup(self, folder: Path, progress: Progress, keys: Path | None = None) -> Told:
        request = admin_pb2.BackupRequest(folder=str(folder), keys="" if keys is None else str(keys))
        return self._long("Backup", request, progress)

    # --- calls ---

    def _once(self, method: str, request: Any) -> Told:
        return _told(self._connection.run(call(getattr(self._stub, method), request, PEER, SECONDS)))

    def _long(self, method: str, request: Any, progress: Progress, stop: threading.Event | None = None) -> Told:
        """A call that tells how far it is; it may take hours, and ends when this program does, or with ``stop``."""
        return self._connection.run(self._followed(getattr(self._stub, method), request, progress, stop))

    @staticmethod
    async def _followed(
        method: Callable[[Any], Any], request: Any, progress: Progress, stop: threading.Event | None
    ) -> Told:
        stream, newest = method(request), ""
        ender = None if stop is None else asyncio.ensure_future(_cancel(stream, stop))
        try:
            async for said in stream:
                if said.HasField("result"):
                    return _told(said.result)
                newest = said.doing
                progress(said.doing, said.done, said.total)
        except grpc.RpcError as error:
            if stop is not None and stop.is_set():
                return _stopped(newest)
            raise error_of(error, PEER) from None
        except asyncio.CancelledError:
            if stop is None or not stop.is_set():
                raise
            return _stopped(newest)
        finally:
            stream.cancel()
            if ender is not None:
                ender.cancel()
        raise TransportError(f"{PEER} ended before it was done: look at its log, and try again")


def _stopped(newest: str) -> Told:
    """``newest``: what the other process said last; it may have gone on, unheard, since."""
    return Told({"stopped": True}, f"stopped; {newest or '`documents list` shows what there is now'}")


async def _cancel(stream: Any, stop: threading.Event) -> None:
    while not stop.is_set():
        await asyncio.sleep(STOP_SECONDS)
    stream.cancel()


def _told(result: Any) -> Told:
    return Told(json.loads(result.json), result.text)


def _pieces(lines: Iterator[bytes]) -> Iterator[bytes]:
    """Lines joined and cut into messages."""
    held = bytearray()
    for line in lines:
        held += line
        while len(held) >= PIECE:
            yield bytes(held[:PIECE])
            del held[:PIECE]
    yield bytes(held)
