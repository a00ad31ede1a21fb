# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider over real gRPC, as others see it."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from grpc_health.v1 import health_pb2, health_pb2_grpc

from ragseal.backends.group import default_group
from ragseal.groth16.keys import KeyPaths, load_key
from ragseal.kernel import signature
from ragseal.kernel.attestation import Answer, Prepared, Record
from ragseal.kernel.commitment import IndexFile, Registry, SignedManifest, registry_leaves, verify_columns
from ragseal.kernel.errors import AttestationError, AuditError, CommitmentError, ConfigurationError, EncodingError
from ragseal.kernel.inquiry import Delivery, LinksAsk, ProofsAsk, RegistryAsk, open_delivery
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.proofs import ProofBatch
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.remote import RemoteLedger
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.wire import remote
from ragseal.prover.wire.service import Listening, Server
from ragseal.runtime.rpc import call, open_channel
from ragseal.runtime.statuses import error_of
from ragseal.runtime.tls import BY_DEFAULT, ServerTls
from ragseal.v1 import provider_pb2, provider_pb2_grpc
from tests.simulator.provider import AUDITOR_KEY, NOW, Asker, Participant, make_policy, open_provider, opened

Scene = Callable[[Server, Any, Any], Awaitable[None]]


@asynccontextmanager
async def running(provider: Provider, listening: Listening | None = None) -> AsyncIterator[Server]:
    server = Server(
        provider, ServeOptions(False, 0.0, BeaconRules(1, 5.0), publish=0), listening or Listening("127.0.0.1:0")
    )
    await server.start()
    try:
        yield server
    finally:
        await server.stop()
        provider.close()


def play(scene: Scene, tmp_path: Path) -> None:
    async def run() -> None:
        provider = open_provider(tmp_path / "p")
        provider.commit(make_policy(), "w1")
        async with running(provider) as server, open_channel(server.address) as channel:
            stub = provider_pb2_grpc.ProviderServiceStub(channel)
            await scene(server, channel, stub)

    asyncio.run(run())


async def collect(stream: Any) -> bytes:
    try:
        return b"".join([chunk.data async for chunk in stream])
    except grpc.RpcError as error:
        raise error_of(error, "provider") from None


async def ask_all(stub: Any, asker: Asker, queries: list[str]) -> list[Answer]:
    answers = []
    for query in queries:
        message = asker.message(query)
        canonical = message.encode()
        request = provider_pb2.PrepareRequest(
            canonical=canonical, signature=signature.sign(asker.key, "prepare", canonical)
        )
        prepared = Prepared.decode((await call(stub.Prepare, request, "p")).canonical)
        signed = asker.request(message, prepared).encode()
        proof = signature.sign(asker.key, "retrieve", signed)
        reply = await call(stub.Retrieve, provider_pb2.RetrieveRequest(canonical=signed, signature=proof), "p")
        answers.append(opened(reply.canonical))
        asker.ctr, asker.last_receipt = asker.ctr + 1, answers[-1].receipt.digest()
    return answers


@pytest.mark.slow
def test_a_window_from_manifest_to_proofs(tmp_path: Path, tiny: NoiseClass, keys: KeyPaths) -> None:
    async def scene(server: Server, channel: Any, stub: Any) -> None:
        shown = await call(stub.GetManifest, provider_pb2.GetManifestRequest(), "p")
        signed = SignedManifest.decode(shown.canonical)
        signed.verify()
        manifest, digest = signed.manifest, signed.manifest.digest()
        assert shown.state == provider_pb2.WINDOW_STATE_COMMITTED
        ask = RegistryAsk(digest, NOW, bytes(16))
        request = provider_pb2.AskRequest(canonical=ask.encode(), signature=ask.sign(AUDITOR_KEY))
        delivery = open_delivery(await collect(stub.GetRegistry(request)), ask, manifest.window_key)
        assert isinstance(delivery, Delivery)
        accounts = Registry.decode(delivery.payload).accounts
        assert MerkleTree(registry_leaves(accounts)).root() == manifest.registry_root
        key = load_key(keys.directory, tiny)
        for index in manifest.tenants:
            request = provider_pb2.GetIndexRequest(manifest=digest, tenant=index.tenant)
            file = IndexFile.decode(await collect(stub.GetIndex(request)))
            assert file.columns_digest() == index.columns_digest
            verify_columns(default_group(), key.scores, key.digest, index.dimension, file)
        auditor = Participant("auditor", digest, AUDITOR_KEY)
        request = provider_pb2.CommitBeaconRequest(canonical=auditor.commit().encode())
        await call(stub.CommitBeacon, request, "p")
        while True:
            shown = await call(stub.GetManifest, provider_pb2.GetManifestRequest(window="w1"), "p")
            begun = len(await RemoteLedger(channel).entries(0, 10)) >= 4
            if shown.state == provider_pb2.WINDOW_STATE_SEALED and begun:
                break
            await asyncio.sleep(0.02)
        opening = provider_pb2.OpenBeaconRequest(canonical=auditor.open().encode())
        assert (await call(stub.OpenBeacon, opening, "p")).state == provider_pb2.WINDOW_STATE_OPEN
        answers = await ask_all(stub, Asker("alice", server.serving), ["one", "two", "three"])
        page = await call(stub.GetRecords, provider_pb2.GetRecordsRequest(manifest=digest, start=1, count=9), "p")
        assert [Record.decode(r) for r in page.canonical] == [a.record for a in answers[1:]]
        entry = await RemoteLedger(channel).entry(page.ledger_index[0])
        assert entry == answers[1].record.encode()
        wanted = ProofsAsk(digest, NOW, bytes(16), (0, 2))
        request = provider_pb2.AskRequest(canonical=wanted.encode(), signature=wanted.sign(AUDITOR_KEY))
        delivery = open_delivery(await collect(stub.GetProofs(request)), wanted, manifest.window_key)
        assert isinstance(delivery, Delivery)
        assert [e.seq for e in ProofBatch.decode(delivery.payload).entries] == [0, 2]
        closed = await asyncio.to_thread(
            remote.close_window, server.address, BY_DEFAULT, server.serving.provider.state.key, ""
        )
        assert (closed.window, closed.records) == ("w1", 3)
        health = health_pb2_grpc.HealthStub(channel)
        answer = await health.Check(health_pb2.HealthCheckRequest(service="ragseal.v1.LedgerService"))
        assert answer.status == health_pb2.HealthCheckResponse.SERVING

    play(scene, tmp_path)


def test_refusals_keep_their_kind_on_the_wire(tmp_path: Path) -> None:
    async def scene(server: Server, channel: Any, stub: Any) -> None:
        p = provider_pb2
        window = server.serving.journal.history.newest
        assert window is not None
        unary: list[tuple[type[AuditError], Any, Any]] = [
            (CommitmentError, stub.GetManifest, p.GetManifestRequest(window="nowhere")),
            (EncodingError, stub.Prepare, p.PrepareRequest(canonical=b"junk")),
            (EncodingError, stub.Retrieve, p.RetrieveRequest(canonical=b"")),
            (EncodingError, stub.CommitBeacon, p.CommitBeaconRequest(canonical=b"\x00" * 100)),
            (EncodingError, stub.OpenBeacon, p.OpenBeaconRequest(canonical=b"\xff" * 100)),
            (CommitmentError, stub.GetRecords, p.GetRecordsRequest(manifest=b"x", start=0, count=1)),
            (AttestationError, stub.GetRecords, p.GetRecordsRequest(manifest=window.digest, start=0, count=0)),
            (AttestationError, stub.CloseWindow, p.CloseWindowRequest(manifest=window.digest, signature=b"s" * 64)),
            (CommitmentError, stub.CloseWindow, p.CloseWindowRequest(manifest=b"m" * 32, signature=b"s" * 64)),
        ]
        for kind, method, request in unary:
            with pytest.raises(kind):
                await call(method, request, "p")
        streams: list[tuple[type[AuditError], Any]] = [
            (CommitmentError, stub.GetIndex(p.GetIndexRequest(manifest=window.digest, tenant="nobody"))),
            (CommitmentError, stub.GetIndex(p.GetIndexRequest(manifest=b"m" * 32, tenant="acme"))),
            (EncodingError, stub.GetProofs(p.AskRequest(canonical=LinksAsk(window.digest, NOW, bytes(16)).encode()))),
            (
                CommitmentError,
                stub.GetProofs(p.AskRequest(canonical=ProofsAsk(b"m" * 32, NOW, bytes(16), ()).encode())),
            ),
        ]
        for kind, stream in streams:
            with pytest.raises(kind):
                await collect(stream)
        past = p.GetRecordsRequest(manifest=window.digest, start=(1 << 64) - 1, count=(1 << 32) - 1)
        assert list((await call(stub.GetRecords, past, "p")).canonical) == []

    play(scene, tmp_path)


def test_a_taken_port_and_plain_foreign_addresses_are_refused(tmp_path: Path) -> None:
    async def run() -> None:
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            for address in (f"127.0.0.1:{port}", "0.0.0.0:0", "nonsense"):
                provider = open_provider(tmp_path / "p")
                server = Server(provider, ServeOptions(False), Listening(address))
                with pytest.raises(ConfigurationError):
                    await server.start()
                provider.close()
        provider = open_provider(tmp_path / "p")
        server = Server(provider, ServeOptions(False), Listening("127.0.0.1:0", ServerTls(certificate=tmp_path)))
        with pytest.raises(ConfigurationError, match="both"):
            await server.start()
        provider.close()

    asyncio.run(run())


def test_another_providers_key_cannot_close(tmp_path: Path) -> None:
    async def scene(server: Server, channel: Any, stub: Any) -> None:
        stranger = Ed25519PrivateKey.generate()
        with pytest.raises(CommitmentError, match="a key different"):
            await asyncio.to_thread(remote.close_window, server.address, BY_DEFAULT, stranger, "")

    play(scene, tmp_path)
