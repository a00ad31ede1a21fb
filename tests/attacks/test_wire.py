# SPDX-License-Identifier: GPL-3.0-or-later
"""Truncated, oversized, random and foreign bytes on every RPC, in both directions.

The RPCs are read from the compiled descriptors: a new one is attacked without anybody adding it here.  A server must
answer, or refuse with an AuditError's status; a caller must end in an AuditError, in FAIL, or untouched.
"""

from __future__ import annotations

import asyncio
import logging
import random
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import grpc.aio
import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from google.protobuf import message_factory

from ragseal.circuits.circuit import class_digest
from ragseal.kernel import signature
from ragseal.kernel.errors import AuditError
from ragseal.kernel.inquiry import Delivery, ProofsAsk, open_delivery
from ragseal.kernel.proofs import ProofBatch
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.observer import Observer
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.witness import Witness
from ragseal.prover.keys.keyring import KeyRing, attestation_keys
from ragseal.prover.wire import remote as provider_remote
from ragseal.runtime.rpc import MAX_MESSAGE_BYTES, open_channel
from ragseal.runtime.statuses import ERROR_KEY
from ragseal.runtime.tls import BY_DEFAULT
from ragseal.verifier.evidence.remote import RemoteEvidence
from ragseal.verifier.folder.key_entries import KeyEntry
from ragseal.verifier.folder.state import State
from ragseal.verifier.service.service import VerifierServicer
from tests.attacks.machine import machine
from tests.attacks.proxy import Method, Proxy, methods
from tests.classes import TINY
from tests.simulator import World, key_of
from tests.simulator import provider as scene
from tests.simulator.live import Live, live
from tests.verifier.wire import provider as simulated
from tests.verifier.wire import served

pytestmark = pytest.mark.slow

METHODS = methods()
REQUESTS = 40  #: of each method


@pytest.fixture(scope="module")
def auditor(tmp_path_factory: pytest.TempPathFactory) -> State:
    """An auditor that holds class TINY's real key."""
    tools = machine()
    state = State.create(tmp_path_factory.mktemp("auditor") / "v", Ed25519PrivateKey.generate())
    digest = class_digest(tools.cls).hex()
    state.add_key(KeyEntry(tools.key.digest.hex(), TINY.name, digest, "auditor", str(tools.paths.directory.resolve())))
    return state


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    with live(tmp_path_factory.mktemp("live")) as made:
        yield made


@pytest.fixture(scope="module")
def servers(running: Live, auditor: State) -> Iterator[dict[str, str]]:
    """Where each service is served."""

    def mount(server: Any) -> Any:
        VerifierServicer(auditor, {}).mount(server)
        return []

    with served(mount) as verifier:
        yield {
            "ragseal.v1.ProviderService": running.address,
            "ragseal.v1.LedgerService": running.address,
            "ragseal.v1.VerifierService": verifier,
        }


# --- requests to servers ---------------------------------------------------------------------------------------------


def _real(running: Live) -> dict[str, Any]:
    """Values that mean something, by the name of the field."""
    asker = scene.Asker("alice", running.server.serving)
    prepare = asker.message("topic 3")
    canonical = prepare.encode()
    return {
        "manifest": running.window.digest,
        "window": "w1",
        "tenant": "acme",
        "canonical": canonical,
        "signature": signature.sign(asker.key, "prepare", canonical),
        "key_digest": machine().key.digest,
        "start": 0,
        "count": 3,
        "index": 1,
        "size": 4,
        "old_size": 2,
        "new_size": 4,
        "seqs": [0],
        "witness": running.log_key,
        "provider": running.address,
        "audit_id": "0" * 32,
    }


def _value(field: Any, rng: random.Random, real: dict[str, Any]) -> Any:
    """Something for one field of a request, valid for its wire type."""
    known = real.get(field.name)
    if known is not None and isinstance(known, bytes) == (field.type == field.TYPE_BYTES) and rng.random() < 0.4:
        return known
    if field.is_repeated if hasattr(field, "is_repeated") else field.label == field.LABEL_REPEATED:
        return [_scalar(field, rng) for _ in range(rng.choice([0, 1, 2, 50]))]
    return _scalar(field, rng)


def _scalar(field: Any, rng: random.Random) -> Any:
    if field.message_type is not None:
        made = message_factory.GetMessageClass(field.message_type)()
        return _filled(made, rng, {})
    if field.type == field.TYPE_BYTES:
        return rng.choice([b"", bytes(32), rng.randbytes(32), rng.randbytes(rng.randrange(300)), b"\xff" * 70_000])
    if field.type == field.TYPE_STRING:
        return rng.choice(["", "w1", "../../etc/passwd", "\u0000\u202e", "x" * 70_000, "%s{0}'\";--", "\ud7ff"])
    if field.type == field.TYPE_BOOL:
        return rng.random() < 0.5
    bits = 64 if field.type in (field.TYPE_UINT64, field.TYPE_INT64) else 31
    return rng.choice([0, 1, 2, 1 << 20, (1 << bits) - 1, (1 << (bits - 1)) - 1])


def _filled(request: Any, rng: random.Random, real: dict[str, Any]) -> Any:
    for field in request.DESCRIPTOR.fields:
        value = _value(field, rng, real)
        if isinstance(value, list):
            getattr(request, field.name).extend(value)
        elif field.message_type is not None:
            getattr(request, field.name).CopyFrom(value)
        else:
            setattr(request, field.name, value)
    return request


def _requests(method: Method, real: dict[str, Any]) -> list[bytes]:
    rng = random.Random(method.path)
    kind = message_factory.GetMessageClass(method.request)
    made = [b"", rng.randbytes(40), b"\xff" * 11, b"\x0a\xff\xff\xff\xff\x0f", b"\x0a\x05abc"]
    while len(made) < REQUESTS:
        data = _filled(kind(), rng, real).SerializeToString()
        made.append(data)
        if data and rng.random() < 0.3:
            made.append(data[: rng.randrange(len(data))])
        if data and rng.random() < 0.3:
            at = rng.randrange(len(data))
            made.append(data[:at] + bytes([data[at] ^ 1 << rng.randrange(8)]) + data[at + 1 :])
    return made


async def _outcome(channel: Any, method: Method, data: bytes) -> tuple[str, str, dict[str, Any]]:
    """(status, details, trailing metadata) of one call."""
    try:
        if method.streams:
            async for _ in channel.unary_stream(method.path)(data, timeout=60):
                pass
        else:
            await channel.unary_unary(method.path)(data, timeout=60)
    except grpc.aio.AioRpcError as error:
        return error.code().name, error.details() or "", dict(error.trailing_metadata() or ())
    return "OK", "", {}


@pytest.mark.parametrize("path", METHODS)
def test_any_bytes_to_every_rpc(
    path: str, running: Live, servers: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    """Every request is answered or refused by name; nothing is raised inside, and nothing enters the ledger."""
    method, size = METHODS[path], running.provider.ledger.size

    async def run() -> None:
        async with open_channel(servers[method.service]) as channel:
            for data in _requests(method, _real(running)):
                status, details, metadata = await _outcome(channel, method, data)
                what = f"{path} {data[:60].hex()}: {status} {details}"
                assert status == "OK" or ERROR_KEY in metadata, what
                assert "Traceback" not in details, what

    with caplog.at_level(logging.INFO):
        asyncio.run(run())
    assert not [r for r in caplog.records if r.levelno >= logging.ERROR], caplog.text
    assert running.provider.ledger.size == size


@pytest.mark.parametrize("service", sorted({method.service for method in METHODS.values()}))
def test_oversized_requests(service: str, servers: dict[str, str]) -> None:
    """More than a message may hold is refused before it is read."""
    method = next(m for m in METHODS.values() if m.service == service)

    async def run() -> tuple[str, str, dict[str, Any]]:
        options = [("grpc.max_send_message_length", -1)]
        async with grpc.aio.insecure_channel(servers[service], options=options) as channel:
            return await _outcome(channel, method, b"\x0a" + bytes(MAX_MESSAGE_BYTES + 1))

    assert asyncio.run(run())[0] == "RESOURCE_EXHAUSTED"


def test_the_provider_still_answers(running: Live) -> None:
    """After all of that an honest account gets its answer."""
    with running.client(name="bob") as client:
        assert client.ask("report about topic 3").checked


def test_a_raw_error_would_be_noticed(running: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    """A handler that lets a ValueError out is not taken for a refusal."""
    path = "/ragseal.v1.LedgerService/GetInclusionProof"

    def broken(index: int, size: int) -> list[bytes]:
        raise ValueError("oops")

    monkeypatch.setattr(running.provider.ledger, "inclusion", broken)

    async def run() -> tuple[str, str, dict[str, Any]]:
        async with open_channel(running.address) as channel:
            return await _outcome(channel, METHODS[path], b"\x08\x01\x10\x02")

    status, details, metadata = asyncio.run(run())
    assert (status, ERROR_KEY in metadata) == ("INTERNAL", False), details


# --- answers to callers ----------------------------------------------------------------------------------------------

CHANGES: dict[str, Callable[[bytes], bytes]] = {
    "empty": lambda data: b"",
    "truncated": lambda data: data[: len(data) // 2],
    "one_byte_short": lambda data: data[:-1],
    "twice": lambda data: data + data,
    "random": lambda data: random.Random(len(data)).randbytes(200),
    "zeros": lambda data: bytes(len(data)),
    "flipped": lambda data: data[: len(data) // 2] + bytes([~b & 255 for b in data[len(data) // 2 :]]),
    "wrong_type": lambda data: b"\x08\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01" + data,
    "oversized": lambda data: data + b"\x0a\x80\x80\x80\x20" + bytes(1 << 26),
}


def _audit(address: str, folder: Path) -> str:
    """The auditor's side of a simulated window."""
    world = World.honest()
    with RemoteEvidence(address, timeout=20.0) as evidence:
        from ragseal.verifier.audit.findings import Environment
        from ragseal.verifier.audit.verification import audit
        from tests.simulator import GROUP, NOW

        around = Environment(GROUP, NOW, lambda: 0.0, random.Random(7).randbytes)
        return audit(evidence, world.auditor(), around).verdict


def _follow(address: str, folder: Path) -> str:
    """One look of an observer."""
    folder.mkdir(exist_ok=True)
    witness = Witness(folder, NoteSigner("watch.example", key_of("watch"), COSIGNATURE))

    async def look() -> int:
        async with open_channel(address) as channel:
            observer = Observer(RemoteLedger(channel, address, 20.0), World().signer.verifier, folder, witness, _now)
            return (await observer.step()).size

    try:
        return f"followed {asyncio.run(look())}"
    finally:
        witness.close()


def _now() -> float:
    return 1_800_000_000.0


def _attacked(target: str, role: Callable[[str, Path], str], folder: Path) -> None:
    """The role, each of the answers that it gets changed in each way: an AuditError, NO VERDICT, or as if untouched."""
    with Proxy(target) as honest:
        good = role(honest.address, folder / "honest")
        used = sorted({path for path, kind, _ in honest.seen if kind == "answer"})
    assert used, "the role asks for nothing"
    refused = 0
    for path in used:
        for name, change in CHANGES.items():

            def altered(at: str, data: bytes, path: str = path, change: Any = change) -> bytes:
                return change(data) if at == path else data

            with Proxy(target, altered) as proxy:
                try:
                    found = role(proxy.address, folder / f"{path.rpartition('/')[2]}-{name}")
                except AuditError:
                    refused += 1
                    continue
            assert found in (good, "NO VERDICT"), f"{path} {name}: {found}"
            refused += found != good
    assert refused >= 4 * len(used), "hardly anything was noticed"


@pytest.mark.parametrize("role", [_audit, _follow], ids=["auditor", "observer"])
def test_any_bytes_from_a_provider_to(role: Callable[[str, Path], str], tmp_path: Path) -> None:
    with simulated(World.honest()) as (address, _):
        _attacked(address, role, tmp_path)


def test_any_bytes_from_a_provider_to_an_account(running: Live, tmp_path: Path) -> None:
    """The client believes no changed answer, keeps its request, and gets the true answer afterwards."""
    with running.client(name="carol") as client:
        client.ask("globex topic 1")
    with Proxy(running.address) as watched, running.client(watched.address, "carol") as client:
        client.ask("globex topic 2")
        used = sorted({path for path, kind, _ in watched.seen if kind == "answer"})
    assert "/ragseal.v1.ProviderService/Retrieve" in used
    for path in used:
        for name in ("truncated", "random", "flipped", "empty", "oversized"):
            change = CHANGES[name]

            def altered(at: str, data: bytes, path: str = path, change: Any = change) -> bytes:
                return change(data) if at == path else data

            with Proxy(running.address, altered) as proxy:
                try:
                    with running.client(proxy.address, "carol") as client:
                        client.ask("globex topic 3")
                except AuditError:
                    continue
                seen = [at for at, kind, _ in proxy.seen if kind == "answer"]
                assert path not in seen, f"{path} {name} was believed"  # a repeated request needs no Prepare
    with running.client(name="carol") as client:
        assert client.ask("globex topic 3").checked


def test_any_bytes_from_an_auditor_to_a_provider(
    servers: dict[str, str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """fetch-keys: whatever is changed on the way, either the announced key arrives or nothing is kept."""
    tools = machine()

    def fetch(address: str, folder: Path) -> str:
        folder.mkdir(exist_ok=True)
        ring = attestation_keys(folder, tools.cls, None, None)  # type: ignore[arg-type]
        monkeypatch.setattr(KeyRing, "install", lambda self, part, digest, powers: (part.unlink(), digest)[1])
        provider_remote.fetch_key(
            address, BY_DEFAULT, tools.cls, class_digest(tools.cls), None, ring, lambda done, total: None
        )
        assert not list(folder.glob("*.part"))
        return "fetched"

    _attacked(servers["ragseal.v1.VerifierService"], fetch, tmp_path)
    assert not list(tmp_path.rglob("*.part"))


def test_changed_proofs_never_pass(running: Live) -> None:
    """GetProofs through a proxy that flips one bit: nothing that comes is the provider's word."""
    with running.client(name="alice") as client:
        client.ask("report about topic 4")
    manifest, key = running.window.digest, running.window.manifest.window_key

    def delivered(address: str) -> bytes:
        ask = ProofsAsk(manifest, scene.NOW, secrets.token_bytes(16), (0,))
        with RemoteEvidence(address) as evidence:
            found = open_delivery(evidence.deliver(ask, ask.sign(scene.AUDITOR_KEY)), ask, key)
        assert isinstance(found, Delivery)
        return found.payload

    true = delivered(running.address)
    ProofBatch.decode(true)
    rng = random.Random(5)
    for _ in range(6):
        at = rng.randrange(10, len(true))

        def altered(path: str, data: bytes, at: int = at) -> bytes:
            return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :] if path.endswith("GetProofs") else data

        with Proxy(running.address, altered) as proxy, pytest.raises(AuditError):
            delivered(proxy.address)
