# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider over real gRPC, as others see it."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from click.testing import CliRunner
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
from ragseal.ledger import cosignatures
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.policy import Policy
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.witness import Witness
from ragseal.ledger.witness_http import WITNESS_LIMITS, WitnessSite
from ragseal.prover import __main__ as program
from ragseal.prover.base.check_report import Report
from ragseal.prover.cli import serve_command
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.fsck.files_check import check_files
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.wire import remote, service
from ragseal.prover.wire.service import Listening, Server
from ragseal.runtime.http_server import HttpServer
from ragseal.runtime.rpc import call, open_channel
from ragseal.runtime.statuses import error_of
from ragseal.runtime.tls import BY_DEFAULT, ServerTls
from ragseal.runtime.tokenbucket import Rate
from ragseal.v1 import provider_pb2, provider_pb2_grpc
from tests.simulator.provider import (
    AUDITOR_KEY,
    NOW,
    Asker,
    Clock,
    Participant,
    account_key,
    make_policy,
    new_state,
    open_provider,
    opened,
)

pytestmark = pytest.mark.slow

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


# Whom `ragseal-provider serve` names, and what strangers can then no longer take from them, over real gRPC.


NAMED = NoteSigner("watch.example", account_key("watch"), COSIGNATURE)


def serve_options_of(
    directory: Path, monkeypatch: pytest.MonkeyPatch, *options: str
) -> tuple[ServeOptions | None, str]:
    """What the command hands to the server with these options, and what it says."""
    found: list[ServeOptions] = []
    quoting: list[dict[str, bool]] = []

    async def run(provider: Any, serve_options: ServeOptions, *_: Any) -> None:
        found.append(serve_options)

    monkeypatch.setattr(service, "run", run)
    monkeypatch.setattr(serve_command.assembly, "assemble", lambda *_: SimpleNamespace(embedder=None, keys=None))
    monkeypatch.setattr(serve_command, "named_generator", lambda *_, **more: quoting.append(more))
    monkeypatch.setattr(serve_command.Provider, "write_with", lambda *_: None)
    monkeypatch.setattr(serve_command, "check_start", lambda *_: Report())
    done = CliRunner().invoke(program.main, ["serve", "--state", str(directory), *options])
    assert quoting in ([], [{"alone": None, "quotes": False}]), "a model's server quotes what accounts ask"
    return (found[0] if found else None), done.output


def test_a_hangup_while_the_program_starts_does_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_state(tmp_path / "s").close()
    ended: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: ended.append(number))
    try:
        monkeypatch.setattr(serve_command, "prove_by", lambda *_: os.kill(os.getpid(), signal.SIGHUP))
        serve_options_of(tmp_path / "s", monkeypatch)
        assert ended == []
    finally:
        signal.signal(signal.SIGHUP, before)


def test_named_observers_reach_the_beacon(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_state(tmp_path / "s").close()
    one, two = "11" * 32, "22" * 32
    serve_options, said = serve_options_of(
        tmp_path / "s", monkeypatch, "--observer", f"a={one}", "--observer", f"b.example={two}"
    )
    assert serve_options is not None, said
    assert serve_options.beacon.observers == {"a": bytes.fromhex(one), "b.example": bytes.fromhex(two)}
    for bad, text in ((["a"], "NAME=KEY"), ([f"={one}"], "NAME=KEY"), (["a=11"], "64 hexadecimal"),
                      ([f"a={one}", f"a={two}"], "twice")):  # fmt: skip
        options = [part for value in bad for part in ("--observer", value)]
        refused, said = serve_options_of(tmp_path / "s", monkeypatch, *options)
        assert refused is None
        assert text in said


def test_named_witnesses_reach_the_book(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_state(tmp_path / "s").close()
    serve_options, said = serve_options_of(tmp_path / "s", monkeypatch, "--witness", NAMED.verifier.vkey())
    assert serve_options is not None, said
    assert list(serve_options.witnesses) == [NAMED.verifier]
    refused, said = serve_options_of(tmp_path / "s", monkeypatch, "--witness", "junk")
    assert refused is None
    assert "verifier key: expected name+id+base64" in said
    monkeypatch.setattr(cosignatures, "MAX_STRANGERS", 1)

    async def scene() -> None:
        provider = open_provider(tmp_path / "p", clock := Clock())
        provider.commit(make_policy(), "w1")
        server = Server(provider, ServeOptions(False, 0.0, witnesses=serve_options.witnesses), Listening("127.0.0.1:0"))
        await server.start()
        try:
            async with open_channel(server.address) as channel:
                remote, log = RemoteLedger(channel), provider.ledger
                text = open_checkpoint(log.checkpoint(), log.verifier).checkpoint.text()
                strangers = [NoteSigner("s", Ed25519PrivateKey.generate(), COSIGNATURE) for _ in range(3)]
                for who in (NAMED, *strangers):
                    line = who.sign(text, int(clock.now) - 10**8)
                    await remote.add_cosignature(1, who.verifier.vkey(), line.line())
                shown = open_checkpoint(await remote.checkpoint(), log.verifier, [NAMED.verifier])
                assert [found.verifier for found in shown.witnesses] == [NAMED.verifier]
                listed = await remote.cosignatures(0, 10)
                assert [key for _, key, _ in listed] == [NAMED.verifier.vkey(), strangers[-1].verifier.vkey()]
        finally:
            await server.stop()
            provider.close()

    asyncio.run(scene())


def test_a_policy_and_a_public_address_reach_the_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    new_state(tmp_path / "s").close()
    path = tmp_path / "policy"
    path.write_text(f"witness w {NAMED.verifier.vkey()}\nquorum w\n")
    options = ["--witness-policy", str(path), "--witness-every", "7"]
    serve_options, said = serve_options_of(tmp_path / "s", monkeypatch, *options)
    assert serve_options is not None, said
    assert serve_options.witness_policy == Policy.load(path)
    assert serve_options.witness_every == 7
    path.write_text("quorum w\n")
    refused, said = serve_options_of(tmp_path / "s", monkeypatch, *options)
    assert refused is None
    assert "line 1: 'w' is not defined above" in said
    refused, said = serve_options_of(tmp_path / "s", monkeypatch, "--witness-every", "1")
    assert refused is None


@pytest.mark.asyncio
async def test_a_provider_gets_its_log_witnessed_and_shows_it(tmp_path: Path) -> None:
    """Provider, witness and reader over real connections: from the submission to a quorum that a reader asks for."""
    provider = open_provider(tmp_path / "p", Clock())
    provider.commit(make_policy(), "w1")
    log = provider.ledger
    witness = Witness(tmp_path / "w", NAMED)
    site = WitnessSite(witness, tmp_path / "w", [log.verifier], time.time)
    cosigner = HttpServer(site.handle, WITNESS_LIMITS)
    url = await cosigner.start("127.0.0.1:0")
    dead = NoteSigner("dead.example", account_key("dead"), COSIGNATURE).verifier.vkey()
    lines = [f"log {log.verifier.vkey()}", f"witness w {NAMED.verifier.vkey()} http://{url}"]
    lines += [f"witness away {dead} http://127.0.0.1:9", "group g any w away", "quorum g"]
    policy = Policy.parse("\n".join(lines).encode())
    options = ServeOptions(False, 0.0, publish=0, witness_policy=policy, witness_every=0.1)
    server = Server(provider, options, Listening("127.0.0.1:0", public="127.0.0.1:0"))
    await server.start()
    try:
        async with open_channel(server.address) as channel:
            remote = RemoteLedger(channel)
            async with asyncio.timeout(20):
                while (note := await remote.cosigned()) is None:
                    await asyncio.sleep(0.05)
            assert policy.open(note, log.verifier).checkpoint.size == 1
            reader, writer = await asyncio.open_connection(*server.public_address.split(":"))
            writer.write(b"GET /checkpoint HTTP/1.1\r\nConnection: close\r\n\r\n")
            head, _, body = (await reader.read()).partition(b"\r\n\r\n")
            writer.close()
            assert head.startswith(b"HTTP/1.1 200 OK")
            assert policy.open(body, log.verifier).checkpoint.size == 1
        assert (provider.state.ledger_directory / "quorum").exists()
        report = Report()
        check_files(provider.state.directory, report)
        assert not [note for note in report.notes if "quorum" in note]  # it is one of a provider's files
    finally:
        await server.stop()
        await cosigner.stop()
        site.close()
        provider.close()
    other = Policy.parse(f"log {NoteSigner('other', account_key('o')).verifier.vkey()}\nquorum none".encode())
    provider = open_provider(tmp_path / "q", Clock())
    provider.commit(make_policy(), "w1")
    refused = Server(provider, ServeOptions(False, witness_policy=other), Listening("127.0.0.1:0"))
    with pytest.raises(ConfigurationError, match="is not for the log"):
        await refused.start()
    with pytest.raises(ConfigurationError, match="in the clear"):
        await Server(provider, ServeOptions(False), Listening("127.0.0.1:0", public="0.0.0.0:0")).start()
    provider.close()


def test_every_option_may_stand_in_a_file_and_a_check_opens_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What `--check-config` prints is a file that says the same; no state folder is needed for it."""
    run = CliRunner().invoke
    done = run(program.main, ["serve", "--state", str(tmp_path / "none"), "--witness", NAMED.verifier.vkey(),
                              "--check-config"])  # fmt: skip
    assert done.exit_code == 0, done.output
    assert not (tmp_path / "none").exists()
    file = tmp_path / "serve.toml"
    file.write_text(done.output)
    again = run(program.main, ["serve", "--config", str(file), "--check-config"])
    assert again.exit_code == 0, again.output
    assert [line.partition("  # ")[0] for line in again.output.splitlines()] == [
        line.partition("  # ")[0] for line in done.output.splitlines()
    ]
    assert f'witness = ["{NAMED.verifier.vkey()}"]  # file {file}' in again.output
    options = {max(one.opts, key=len)[2:] for one in program.main.commands["serve"].params}
    named = {line.removeprefix("# ").split()[0] for line in done.output.splitlines()}
    assert options - named == {"config", "check-config"}
    for bad, said in (('witness = ["junk"]', "verifier key"), ('observer = ["a"]', "NAME=KEY"),
                      ('next = "serve.toml"\nevery = "x"', "30m"), ('tls-cert = "serve.toml"', "both")):  # fmt: skip
        file.write_text(bad)
        done = run(program.main, ["serve", "--config", str(file), "--check-config"])
        assert done.exit_code == 1, (bad, done.output)
        assert said in done.output, (bad, done.output)


def test_a_hangup_is_for_settings_and_only_a_termination_ends(tmp_path: Path) -> None:
    """As the program runs it: SIGHUP has the limits read again, SIGTERM stops."""
    provider = open_provider(tmp_path / "p", Clock())
    seen: list[str] = []

    def rates() -> tuple[Rate | None, Rate | None]:
        seen.append("rates")
        loop.call_later(0.1, os.kill, os.getpid(), signal.SIGTERM)
        return Rate(1, 60.0), None

    def ready(address: str, tiles: str) -> None:
        seen.append(address)
        loop.call_soon(lambda: loop.call_soon(os.kill, os.getpid(), signal.SIGHUP))

    async def scene() -> None:
        nonlocal loop
        loop = asyncio.get_running_loop()
        options = ServeOptions(False, 0.0)
        async with asyncio.timeout(30):
            await service.run(provider, options, Listening("127.0.0.1:0"), ready, None, rates)

    loop: Any = None
    asyncio.run(scene())
    provider.close()
    assert seen[1:] == ["rates"]
