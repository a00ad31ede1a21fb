# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider's gRPC edge: protobuf in, canonical bytes to phases A and B, AuditErrors out as statuses."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass
from typing import Any

from grpc_reflection.v1alpha import reflection

from ragseal.kernel.errors import AttestationError, CommitmentError, ConfigurationError
from ragseal.kernel.inquiry import Ask, BlocksAsk, LinksAsk, ProofsAsk, RegistryAsk
from ragseal.ledger.cosignatures import CosignatureBook
from ragseal.ledger.service import LedgerServicer
from ragseal.prover.commitment.window_secrets import thinned_index, window_index
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.readiness import Readiness
from ragseal.prover.serving.rollover import RollOver, Schedule
from ragseal.prover.serving.serving import ServeOptions, Serving
from ragseal.prover.storage.window import Stage, Window
from ragseal.prover.wire.edges import LedgerEdges, beside_http
from ragseal.prover.wire.operator_service import AdminServer
from ragseal.prover.wire.operator_site import OperatorSite
from ragseal.runtime import health
from ragseal.runtime.certificates import Certificates
from ragseal.runtime.edges.address import Address
from ragseal.runtime.limits import DEFAULT
from ragseal.runtime.rpc import answers, bind, new_server, streams
from ragseal.runtime.stopping import asked_to_stop, on_hangup
from ragseal.runtime.tls import LOOPBACK_ONLY, ServerTls
from ragseal.runtime.tokenbucket import Rate
from ragseal.v1 import ledger_pb2, provider_pb2, provider_pb2_grpc

CHUNK_BYTES = 1 << 20
MAX_PAGE_RECORDS = 1024
WATCH_SECONDS = 1.0
GRACE = 5.0  #: seconds that running calls get when the provider stops
QUERIES = provider_pb2.DESCRIPTOR.services_by_name["ProviderService"].full_name
SERVICES = (
    QUERIES,
    ledger_pb2.DESCRIPTOR.services_by_name["LedgerService"].full_name,
)

_STATES = {
    Stage.COMMITTED: provider_pb2.WINDOW_STATE_COMMITTED,
    Stage.SEALED: provider_pb2.WINDOW_STATE_SEALED,
    Stage.OPEN: provider_pb2.WINDOW_STATE_OPEN,
    Stage.CLOSED: provider_pb2.WINDOW_STATE_CLOSED,
}

Rates = Callable[[], tuple[Rate | None, Rate | None]]  #: of an account and of a machine

log = logging.getLogger("ragseal.provider")


class ProviderServicer(provider_pb2_grpc.ProviderServiceServicer):
    """One serving provider on the wire."""

    def __init__(self, serving: Serving) -> None:
        self._serving = serving

    def mount(self, server: Any) -> None:
        """Add the service to a grpc.aio server."""
        provider_pb2_grpc.add_ProviderServiceServicer_to_server(self, server)  # type: ignore[no-untyped-call]

    def _window(self, manifest: bytes) -> Window:
        return self._serving.journal.history.window(manifest)

    # --- phase A ---

    @answers
    async def GetManifest(self, request: provider_pb2.GetManifestRequest, context: Any) -> Any:
        window = self._serving.journal.shown(request.window)
        return provider_pb2.GetManifestResponse(
            canonical=window.signed.encode(),
            state=_STATES[window.stage],
            ledger_index=window.index,
            records=self._serving.journal.published_records(window),
        )

    @streams
    async def GetIndex(self, request: provider_pb2.GetIndexRequest, context: Any) -> AsyncIterator[Any]:
        window = self._window(request.manifest)
        window.manifest.index_of(request.tenant)
        if not self._serving.journal.published_update(window, request.version):
            raise CommitmentError(f"the window has no version {request.version} of its indices, or not yet")
        state = self._serving.provider.state
        file = await asyncio.to_thread(window_index, state, window.digest, request.tenant, request.version)
        for chunk in _chunks(file):
            yield chunk

    @streams
    async def GetThinnedIndex(self, request: provider_pb2.GetIndexRequest, context: Any) -> AsyncIterator[Any]:
        window = self._window(request.manifest)
        window.manifest.index_of(request.tenant)
        if window.thinning is None:  # what the log does not name yet may still be replaced
            raise CommitmentError("the window's indices are not thinned: its beacon is not complete, or it has no coin")
        file = await asyncio.to_thread(thinned_index, self._serving.provider.state, window.digest, request.tenant)
        for chunk in _chunks(file):
            yield chunk

    @answers
    async def CommitBeacon(self, request: provider_pb2.CommitBeaconRequest, context: Any) -> Any:
        await asyncio.shield(self._serving.beacon.commit(request.canonical))
        return provider_pb2.CommitBeaconResponse()

    @answers
    async def OpenBeacon(self, request: provider_pb2.OpenBeaconRequest, context: Any) -> Any:
        window = await asyncio.shield(self._serving.beacon.open(request.canonical))
        return provider_pb2.OpenBeaconResponse(state=_STATES[window.stage])

    @answers
    async def GetRecords(self, request: provider_pb2.GetRecordsRequest, context: Any) -> Any:
        if request.count < 1:
            raise AttestationError("ask for at least one record")
        found = await self._serving.records(request.manifest, request.start, min(request.count, MAX_PAGE_RECORDS))
        return provider_pb2.GetRecordsResponse(
            canonical=[record for _, record in found], ledger_index=[index for index, _ in found]
        )

    # --- accounts ---

    @answers
    async def GetAccount(self, request: provider_pb2.GetAccountRequest, context: Any) -> Any:
        found = await self._serving.own_lines.line(request.canonical, request.signature)
        return provider_pb2.GetAccountResponse(canonical=found)

    @answers
    async def Prepare(self, request: provider_pb2.PrepareRequest, context: Any) -> Any:
        async with self._serving.metrics.prepare():
            reply = await self._serving.attestation.prepare(request.canonical, request.signature)
        return provider_pb2.PrepareResponse(canonical=reply.canonical, answered=reply.answered)

    @answers
    async def Retrieve(self, request: provider_pb2.RetrieveRequest, context: Any) -> Any:
        async with self._serving.metrics.answer(self._serving.metrics.timed(request.canonical)):
            answer = await self._serving.attestation.retrieve(request.canonical, request.signature)
        path = await asyncio.to_thread(self._serving.consistency, request.known_size, answer.size)
        return provider_pb2.RetrieveResponse(canonical=answer.canonical, consistency=path, update=answer.update)

    # --- the window's auditor ---

    @streams
    async def GetRegistry(self, request: provider_pb2.AskRequest, context: Any) -> AsyncIterator[Any]:
        async for chunk in self._delivered(RegistryAsk, request):
            yield chunk

    @streams
    async def GetProofs(self, request: provider_pb2.AskRequest, context: Any) -> AsyncIterator[Any]:
        async for chunk in self._delivered(ProofsAsk, request):
            yield chunk

    @streams
    async def GetEstimate(self, request: provider_pb2.AskRequest, context: Any) -> AsyncIterator[Any]:
        async for chunk in self._delivered(LinksAsk, request):
            yield chunk

    @streams
    async def GetEstimateProofs(self, request: provider_pb2.AskRequest, context: Any) -> AsyncIterator[Any]:
        async for chunk in self._delivered(BlocksAsk, request):
            yield chunk

    async def _delivered(self, kind: type[Ask], request: provider_pb2.AskRequest) -> AsyncIterator[Any]:
        ask = kind.decode(request.canonical)
        for chunk in _chunks(await self._serving.deliveries.answer(ask, request.signature)):
            yield chunk

    @answers
    async def SubmitVerdict(self, request: provider_pb2.SubmitVerdictRequest, context: Any) -> Any:
        await asyncio.shield(self._serving.verdicts.submit(request.canonical))
        return provider_pb2.SubmitVerdictResponse()

    # --- the provider itself ---

    @answers
    async def CloseWindow(self, request: provider_pb2.CloseWindowRequest, context: Any) -> Any:
        index, window = await asyncio.shield(self._serving.close_window(request.manifest, request.signature))
        return provider_pb2.CloseWindowResponse(ledger_index=index, records=len(window.records))


def _chunks(data: bytes) -> Iterator[provider_pb2.Chunk]:
    """One at a time: all of them would be a second copy of the data for as long as its caller takes to read."""
    return (provider_pb2.Chunk(data=data[at : at + CHUNK_BYTES]) for at in range(0, len(data), CHUNK_BYTES))


# --- the server ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Listening:
    """Where and how a provider listens."""

    address: str  #: host:port; port 0 takes a free one
    tls: ServerTls = LOOPBACK_ONLY
    reflection: bool = False
    public: str | None = None  #: host:port of the log's tiles over HTTP, with the same TLS files; None: not served
    metrics: str | None = None  #: host:port of what the operator's machines ask; None: not served
    metrics_tls: ServerTls = LOOPBACK_ONLY


class Server:
    """A provider's running gRPC server: provider and ledger services, health, reflection where asked for."""

    def __init__(
        self,
        provider: Provider,
        serve_options: ServeOptions,
        listening: Listening,
        schedule: Schedule | None = None,
    ) -> None:
        """``schedule``: of windows that follow each other by themselves; without one the operator commits each."""
        self.serving = Serving(provider, serve_options)
        self.rollover = None if schedule is None else RollOver(self.serving, schedule)
        self._admin = AdminServer(self.serving, lambda: None if self.rollover is None else self.rollover.status())
        self.serving.metrics.health = self._admin.watching.health
        self._rolling: asyncio.Task[None] | None = None
        self._provider = provider
        self._listening = listening
        self._health = health.Health(*SERVICES)
        self.address = ""
        self.public_address = self.metrics_address = ""
        self._readiness = Readiness(provider.journal, provider.environment.clock)
        self._site: OperatorSite | None = None
        self._edges: LedgerEdges | None = None

    async def start(self) -> None:
        """Bind, then serve.

        Raises:
            ConfigurationError: the port is taken, a plain address beyond loopback, or certificate files that do not do.
            AuditError: the newest window cannot be served.
        """
        listening = self._listening
        self._certificates = Certificates(listening.tls)
        self._server = new_server(beside_http() if listening.public is not None else DEFAULT, self.serving.peers)
        ProviderServicer(self.serving).mount(self._server)
        public, options = self._provider.journal.public, self.serving.serve_options
        book = CosignatureBook(
            self._provider.state.ledger_directory, public, options.witnesses, policy=options.witness_policy
        )
        self.serving.book = book
        LedgerServicer(public, book).mount(self._server)
        edges = LedgerEdges(public, book, options.witness_policy, options.witness_every)
        self._health.mount(self._server)
        if listening.reflection:
            names = (*SERVICES, health.SERVICE, reflection.SERVICE_NAME)
            reflection.enable_server_reflection(names, self._server)
        port = bind(self._server, listening.address, self._certificates.credentials(), listening.tls.plain)
        if listening.metrics is not None:
            self._site = OperatorSite(self.serving.metrics, self._readiness, book)
        self._edges = edges
        self.public_address = await edges.start(listening.public, listening.tls)
        if listening.public is not None:
            self._certificates.follow(edges.use)
        try:
            if self._site is not None and listening.metrics is not None:
                self.metrics_address = await self._site.start(listening.metrics, listening.metrics_tls)
                if listening.metrics_tls == listening.tls:
                    self._certificates.follow(self._site.use)
            await self.serving.start()
            await self._admin.start()
            await self._server.start()
        except BaseException:
            await edges.stop()
            await self._stop_site()
            raise
        if self.rollover is not None:
            self._rolling = asyncio.create_task(self.rollover.run())
        self._readiness.serves(True)
        self._say_health()
        self._watching = asyncio.create_task(self._watch())
        self._renewing = asyncio.create_task(self._certificates.watch())
        self.address = str(Address.parse(listening.address, listening=True).at(port))

    async def _watch(self) -> None:
        """Health says NOT_SERVING from the moment the ledger takes nothing more, of queries while no window is open."""
        while self.serving.journal.failure is None:
            self._say_health()
            await asyncio.sleep(WATCH_SECONDS)
        log.error("%s", self.serving.journal.failure)
        self._say_health()

    def _say_health(self) -> None:
        takes = not self._readiness.trouble()
        self._health.say(takes)
        self._health.say(takes and not self._readiness.no_answers(), QUERIES)

    def reload(self, rates: Rates | None = None) -> None:
        """Take new certificate files and limits; what does not do is said and changes nothing.

        Args:
            rates: gives the limits as the operator wants them now.  Raises ConfigurationError: nobody can tell.
        """
        self._certificates.look(at_once=True)
        if rates is None:
            return
        try:
            account, peer = rates()
        except ConfigurationError as error:
            log.error("THE LIMITS STAY AS THEY ARE: %s", error)
            return
        self.serving.limit(account, peer)
        log.info("limits: %s of an account, %s of a machine", account or "none", peer or "none")

    async def _stop_site(self) -> None:
        if self._site is not None:
            await self._site.stop()

    async def stop(self) -> None:
        """Take nothing new, finish what runs, then stop the workers."""
        self._watching.cancel()
        self._renewing.cancel()
        self._readiness.serves(False)
        self._say_health()
        if self._rolling is not None:
            self._rolling.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await self._rolling
        if self._edges is not None:
            await self._edges.stop()
        await asyncio.gather(self._server.stop(GRACE), self._admin.stop(GRACE))
        await self.serving.stop()
        await self._stop_site()  # last: whoever asks is told that it is stopping


async def run(
    provider: Provider,
    serve_options: ServeOptions,
    listening: Listening,
    ready: Callable[[str, str], None],
    schedule: Schedule | None = None,
    rates: Rates | None = None,
) -> None:
    """Serve until SIGINT or SIGTERM; ``ready`` is told the address, and that of the tiles, once calls are taken.

    SIGHUP takes new certificate files, and limits as ``rates`` gives them.
    """
    server = Server(provider, serve_options, listening, schedule)
    await server.start()
    stopping = asked_to_stop()
    on_hangup(lambda: server.reload(rates))
    try:
        ready(server.address, server.public_address)
        if server.metrics_address:
            log.info("metrics and readiness on %s", server.metrics_address)
        if provider.journal.history.newest is None and schedule is None:
            log.warning("no window is committed yet, so nobody gets answers: run `ragseal-provider commit`")
        await stopping.wait()
        log.info("stopping")
    finally:
        await server.stop()
