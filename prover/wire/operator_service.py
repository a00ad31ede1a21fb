# SPDX-License-Identifier: GPL-3.0-or-later
"""The operator's gRPC edge of a serving provider, on a Unix socket.  Long work stands behind answers."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import AsyncIterator, Awaitable, Callable
from concurrent.futures import Future
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import Any

from ragseal.embedder import Embedder
from ragseal.kernel.beacon import Seat
from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.prover.administration import accounts, auditors, backup, documents, erasures, lasting, status, windows
from ragseal.prover.administration.document_lines import Lines
from ragseal.prover.administration.documents import Reading
from ragseal.prover.administration.watching import Following, Watching
from ragseal.prover.commitment.registry import Registration
from ragseal.prover.serving import publishing
from ragseal.prover.serving.committing import Told, commit_while_serving
from ragseal.prover.serving.serving import Serving
from ragseal.prover.storage import place
from ragseal.prover.storage.window import Window
from ragseal.runtime.progress import Progress
from ragseal.runtime.rpc import answers, bind, new_server, streams
from ragseal.v1 import admin_pb2, admin_pb2_grpc

LEAST_EVERY = 0.5  #: seconds between two looks at a source


class _GoneError(Exception):
    """Nobody waits for the work any more."""


class AdminServicer(admin_pb2_grpc.AdminServiceServicer):
    """One serving provider, for its operator."""

    def __init__(self, serving: Serving, following: Following) -> None:
        """``following``: what there is to say of the windows to come."""
        self._serving, self.watching = serving, Watching(serving, following)
        self._documents = asyncio.Lock()  #: one corpus at a time

    def mount(self, server: Any) -> None:
        """Add the service to a grpc.aio server that strangers do not reach."""
        admin_pb2_grpc.add_AdminServiceServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    @answers
    async def GetStatus(self, request: admin_pb2.GetStatusRequest, context: Any) -> Any:
        return _result(await asyncio.to_thread(status.status, self._serving.provider, self.watching.running()))

    # --- accounts ---

    @answers
    async def AddAccounts(self, request: admin_pb2.AddAccountsRequest, context: Any) -> Any:
        new = [Registration(one.name, one.tenant, bytes(one.public_key)) for one in request.accounts]
        if not new:
            raise EncodingError("name at least one account")
        return _result(await asyncio.to_thread(accounts.add, self._serving.provider.state, new))

    @answers
    async def RemoveAccount(self, request: admin_pb2.RemoveAccountRequest, context: Any) -> Any:
        return _result(await asyncio.to_thread(accounts.remove, self._serving.provider.state, request.name))

    @answers
    async def ListAccounts(self, request: admin_pb2.ListAccountsRequest, context: Any) -> Any:
        return _result(await asyncio.to_thread(accounts.listed, self._serving.provider.state))

    # --- auditors without a seat ---

    @answers
    async def AdmitAuditor(self, request: admin_pb2.AdmitAuditorRequest, context: Any) -> Any:
        state, now = self._serving.provider.state, int(self._serving.provider.environment.clock())
        return _result(await asyncio.to_thread(auditors.admit, state, request.name, bytes(request.public_key), now))

    @answers
    async def RemoveAuditor(self, request: admin_pb2.RemoveAuditorRequest, context: Any) -> Any:
        return _result(await asyncio.to_thread(auditors.remove, self._serving.provider.state, request.name))

    @answers
    async def ListAuditors(self, request: admin_pb2.ListAuditorsRequest, context: Any) -> Any:
        return _result(await asyncio.to_thread(auditors.listed, self._serving.provider.state))

    # --- documents ---

    @streams
    async def PutDocuments(
        self, requests: AsyncIterator[admin_pb2.PutDocumentsRequest], context: Any
    ) -> AsyncIterator[Any]:
        tenant, strict, lines = "", False, Lines()
        async for one in requests:
            if one.tenant and tenant and one.tenant != tenant:
                raise EncodingError("one call brings the documents of one tenant")
            tenant, strict = one.tenant or tenant, one.strict or strict
            lines.add(one.lines)
        if not tenant:
            raise EncodingError("name the tenant whose documents these are")
        provider = self._serving.provider

        def bring(tell: Progress) -> Told:
            told = documents.put(provider.state, self._embedder(), tenant, lines.all(), tell, strict)
            return lasting.with_rest(provider, tenant, told)

        async def work(tell: Progress) -> Told:
            async with self._documents:
                return await self._serving.aside(lambda: bring(tell))

        async for said in _telling(work):
            yield said

    @answers
    async def DeleteDocuments(self, request: admin_pb2.DeleteDocumentsRequest, context: Any) -> Any:
        provider, names = self._serving.provider, list(request.ids)
        if not names:
            raise EncodingError("name at least one document")
        told = await asyncio.to_thread(
            documents.delete, provider.state, provider.backends.embedder, request.tenant, names
        )
        return _result(await asyncio.to_thread(lasting.with_rest, provider, request.tenant, told, names))

    @answers
    async def EraseDocument(self, request: admin_pb2.EraseDocumentRequest, context: Any) -> Any:
        serving = self._serving
        state, now = serving.provider.state, int(serving.provider.environment.clock())
        async with serving.committing, serving.ticks.making:  # or it could get into what nobody waits for
            told = await asyncio.to_thread(erasures.erase, state, request.tenant, request.id, request.reason, now)
            serving.ticks.make_anew()
        serving.look.set()
        return _result(await asyncio.to_thread(lasting.with_rest, serving.provider, request.tenant, told, [request.id]))

    @answers
    async def ListErasures(self, request: admin_pb2.ListErasuresRequest, context: Any) -> Any:
        provider = self._serving.provider
        return _result(await asyncio.to_thread(erasures.listed, provider, request.tenant, request.id))

    @answers
    async def ListDocuments(self, request: admin_pb2.ListDocumentsRequest, context: Any) -> Any:
        provider = self._serving.provider
        told = await asyncio.to_thread(documents.listed, provider.state, request.tenant)
        return _result(await asyncio.to_thread(lasting.with_rest, provider, request.tenant, told))

    @streams
    async def SyncDocuments(self, request: admin_pb2.SyncDocumentsRequest, context: Any) -> AsyncIterator[Any]:
        provider, stop = self._serving.provider, threading.Event()
        reading = Reading(
            tenant=request.tenant,
            source=request.source,
            vectors=request.vectors,
            keep_missing=request.keep_missing,
            chunk=request.chunk or None,
            metadata=tuple(request.metadata_fields),
            follow=request.follow,
            every=max(request.every, LEAST_EVERY),
            strict=request.strict,
        )
        if reading.source.partition(":")[2] == "-":
            raise EncodingError("the serving process has another standard input: use `documents put`, or a file")

        missed = self.watching.source(reading.tenant, reading.source)

        def bring(tell: Progress) -> Callable[[], Told]:
            def told() -> Told:
                done = documents.sync(provider.state, self._embedder(), reading, tell, stop, missed)
                return lasting.with_rest(provider, reading.tenant, done)

            return told

        async def work(tell: Progress) -> Told:
            return await _alone(bring(tell))

        try:
            async for said in _telling(work):
                yield said
        finally:
            stop.set()
            missed("")

    def _embedder(self) -> Embedder:
        """One of the documents' own, let go of afterwards: texts of one embedder queue up."""
        backends = self._serving.provider.backends
        return backends.embedder if backends.documents is None else backends.documents()

    # --- windows ---

    @streams
    async def CommitWindow(self, request: admin_pb2.CommitWindowRequest, context: Any) -> AsyncIterator[Any]:
        agreed = request.agreed if request.HasField("agreed") else None
        seats = [Seat(one.owner, bytes(one.public_key)) for one in request.auditors]

        async def work(tell: Progress) -> Told:
            return await commit_while_serving(
                self._serving,
                request.policy,
                request.window,
                agreed,
                None,
                seats,
                lambda text: tell(text, 0, 0),
                request.new_coins,
            )

        async for said in _telling(work):
            yield said

    @answers
    async def EndWindow(self, request: admin_pb2.EndWindowRequest, context: Any) -> Any:
        provider = self._serving.provider
        name = windows.name_to_close(provider, request.window)
        entry = await asyncio.shield(self._serving.turn(provider.journal.history.named(name)))
        return _result(windows.closed(provider, name, entry.index))

    @streams
    async def RetireWindow(self, request: admin_pb2.RetireWindowRequest, context: Any) -> AsyncIterator[Any]:
        serving = self._serving

        def prove(tell: Progress) -> Window:
            window = serving.retiring.named(request.window, request.agreed)
            windows.prove_for_audits(serving.retiring, window, request.unproven, tell)
            return window

        async def work(tell: Progress) -> Told:
            window = await serving.purging(lambda: prove(tell))
            await serving.purging(lambda: serving.retiring.retire(window))
            return windows.retired(window, await serving.sweep())

        async for said in _telling(work):
            yield said

    @streams
    async def ExportProofs(self, request: admin_pb2.ExportProofsRequest, context: Any) -> AsyncIterator[Any]:
        folder, serving = Path(request.folder), self._serving
        if not folder.is_absolute():
            raise ConfigurationError("name the folder of the proofs by an absolute path")

        async def work(tell: Progress) -> Told:
            write = partial(publishing.export, serving.provider, serving.proofs, folder, request.window, tell)
            return await serving.purging(write)

        async for said in _telling(work):
            yield said

    # --- the whole folder ---

    @streams
    async def Backup(self, request: admin_pb2.BackupRequest, context: Any) -> AsyncIterator[Any]:
        folder, provider = Path(request.folder), self._serving.provider
        keys = Path(request.keys) if request.keys else None
        if not folder.is_absolute() or (keys is not None and not keys.is_absolute()):
            raise ConfigurationError("name the backup's folder by an absolute path, and its keys file, too")

        def copy(tell: Progress) -> Told:
            now = int(provider.environment.clock())
            with erasures.copying(provider.state, folder, now, sealed=keys is not None):
                return backup.make(provider.state, provider.ledger, folder, tell, keys)

        async def work(tell: Progress) -> Told:
            async with self._serving.copying:
                return await self._serving.aside(lambda: copy(tell))

        async for said in _telling(work):
            yield said


async def _alone(work: Callable[[], Told]) -> Told:
    """Work that reads a source, which may follow for days, or not answer at all.

    It has a thread of its own and keeps no other work waiting, nor the program when that ends.  What it breaks off then
    is not stored: documents are written in one transaction.
    """
    outcome: Future[Told] = Future()

    def run() -> None:
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    outcome.set_running_or_notify_cancel()
    threading.Thread(target=run, name="sync", daemon=True).start()
    return await asyncio.wrap_future(outcome)


async def _telling(work: Callable[[Progress], Awaitable[Told]]) -> AsyncIterator[Any]:
    """What work tells while it runs, the newest only, and its result.  Work whose caller has gone stops."""
    loop, news, gone = asyncio.get_running_loop(), asyncio.Event(), False
    newest = ("", 0, 0)

    def note(doing: str, done: int, total: int) -> None:
        nonlocal newest
        newest = doing, done, total
        news.set()

    def tell(doing: str, done: int, total: int) -> None:
        if gone:
            raise _GoneError
        loop.call_soon_threadsafe(note, doing, done, total)

    task = asyncio.ensure_future(work(tell))
    try:
        while not task.done():
            waiting = asyncio.ensure_future(news.wait())
            await asyncio.wait({task, waiting}, return_when=asyncio.FIRST_COMPLETED)
            waiting.cancel()
            if news.is_set():
                news.clear()
                doing, done, total = newest
                yield admin_pb2.AdminProgress(doing=doing, done=done, total=total)
        yield admin_pb2.AdminProgress(result=_result(task.result()))
    finally:
        gone = True
        task.add_done_callback(lambda done: done.cancelled() or done.exception())


def _result(told: Told) -> Any:
    return admin_pb2.AdminResult(json=json.dumps(told.values), text=told.text)


class AdminServer:
    """The server on the socket of a provider's folder."""

    def __init__(self, serving: Serving, following: Following) -> None:
        self._serving, self._directory = serving, serving.provider.state.directory
        self._servicer = AdminServicer(serving, following)
        self.watching = self._servicer.watching
        self._open = ExitStack()

    async def start(self) -> None:
        """Take the socket's place, then serve.

        Raises:
            ConfigurationError: something that is not this provider's has that place, or the folder is open to others.
        """
        place.clear(self._directory)
        self._server = new_server()
        self._servicer.mount(self._server)
        try:
            bind(self._server, self._open.enter_context(place.address(self._directory)))
            place.close_to_others(self._directory)
            await self._server.start()
        except BaseException:
            self._open.close()
            raise

    async def stop(self, grace: float) -> None:
        """Take nothing new, let running calls end, and give the place back."""
        await self._server.stop(grace)
        self._open.close()
        place.remove(self._directory)
