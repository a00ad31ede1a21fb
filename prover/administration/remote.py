# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's commands, through the process that serves."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, Self

import grpc

from ragseal.kernel.errors import TransportError
from ragseal.ledger.remote import Connection
from ragseal.prover.administration import place
from ragseal.prover.administration.operations import Progress, lines_of
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.committing import Told
from ragseal.runtime.rpc import call
from ragseal.runtime.statuses import error_of
from ragseal.runtime.tls import ClientTls
from ragseal.v1 import admin_pb2, admin_pb2_grpc

PIECE = 1 << 18  #: bytes of documents in a message
PEER = "the running provider"
SECONDS = 60.0


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

    def ingest(self, tenant: str, documents: Iterable[Document], progress: Progress) -> Told:
        def requests() -> Iterator[Any]:
            yield admin_pb2.IngestRequest(tenant=tenant)
            for piece in _pieces(lines_of(documents)):
                yield admin_pb2.IngestRequest(lines=piece)

        return self._long("Ingest", requests(), progress)

    def commit(
        self,
        policy: bytes,
        window: str,
        agreed: float | None,
        auditor_key: bytes | None,
        progress: Progress,
        new_coins: bool = False,
    ) -> Told:
        request = admin_pb2.CommitWindowRequest(
            policy=policy, window=window, auditor_key=auditor_key or b"", agreed=agreed, new_coins=new_coins
        )
        return self._long("CommitWindow", request, progress)

    def close(self, window: str) -> Told:
        return self._once("EndWindow", admin_pb2.EndWindowRequest(window=window))

    def backup(self, folder: Path, progress: Progress) -> Told:
        return self._long("Backup", admin_pb2.BackupRequest(folder=str(folder)), progress)

    # --- calls ---

    def _once(self, method: str, request: Any) -> Told:
        return _told(self._connection.run(call(getattr(self._stub, method), request, PEER, SECONDS)))

    def _long(self, method: str, request: Any, progress: Progress) -> Told:
        """A call that tells how far it is; it may take hours, and ends when this program does."""
        return self._connection.run(self._followed(getattr(self._stub, method), request, progress))

    @staticmethod
    async def _followed(method: Callable[[Any], Any], request: Any, progress: Progress) -> Told:
        stream = method(request)
        try:
            async for said in stream:
                if said.HasField("result"):
                    return _told(said.result)
                progress(said.doing, said.done, said.total)
        except grpc.RpcError as error:
            raise error_of(error, PEER) from None
        finally:
            stream.cancel()
        raise TransportError(f"{PEER} ended before it was done: look at its log, and try again")


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
