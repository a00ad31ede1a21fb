# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts for benches and crash tests: many in one process, over real gRPC, keeping what was acknowledged.

An asker sends what :class:`ragseal.client.Client` sends and keeps its request until it is answered, but keeps it in
memory and leaves the checks of the answer to whoever runs it: every answer is kept for them.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
import time
from dataclasses import dataclass, field
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.attestation import (
    NO_RECEIPT,
    Answer,
    Prepare,
    Prepared,
    Request,
    SealedAnswer,
    SignedRequest,
    open_answer,
)
from ragseal.kernel.beacon import (
    BeaconCommit,
    BeaconOpening,
    beacon_commitment,
)
from ragseal.kernel.commitment import (
    AccountAsk,
    Membership,
    SignedManifest,
)
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.sealing import SEAL_KEY_BYTES, public_of
from ragseal.runtime.rpc import call
from ragseal.v1 import provider_pb2, provider_pb2_grpc

PEER = "the provider"
AUDITOR_KEY = Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"bench auditor").digest())


@dataclass
class Kept:
    """One answered request: what was sent, what came back, and when."""

    sent: bytes
    received: bytes  #: SealedAnswer
    proof: bytes  #: the signature that fetched it, and fetches it again
    seal_secret: bytes  #: what opens it
    began: float  #: of the Prepare, monotonic seconds
    prepared: float
    ended: float

    def open(self) -> Answer:
        """The answer in clear."""
        return open_answer(SealedAnswer.decode(self.received), self.seal_secret)


@dataclass
class Waiting:
    """A signed request whose answer is still awaited."""

    sent: bytes
    proof: bytes
    seal_secret: bytes
    began: float
    prepared: float


@dataclass
class Asker:
    """One account.  ``kept`` holds its answers in order of ctr; ``signed`` a request whose answer is still awaited."""

    name: str
    key: Ed25519PrivateKey
    signed_manifest: SignedManifest
    timeout: float = 30.0
    kept: list[Kept] = field(default_factory=list)
    pseudonym: str = ""  #: how its window calls it, once it is registered there
    signed: Waiting | None = None
    last_receipt: bytes = NO_RECEIPT
    waiting: tuple[Prepare, bytes, bytes] | None = None  #: the Prepare of ``signed``
    ready: list[tuple[Prepare, bytes, bytes]] = field(default_factory=list)  #: made beforehand

    def prepare_message(self, query: str, embedding: bytes) -> tuple[Prepare, bytes, bytes]:
        """A Prepare, its bytes and their signature: nothing in it depends on an answer, so it may be made early."""
        manifest = self.signed_manifest.manifest.digest()
        message = Prepare(manifest, self.pseudonym, secrets.token_bytes(16), secrets.token_bytes(32), query, embedding)
        body = message.encode()
        return message, body, signature.sign(self.key, "prepare", body)

    async def introduce(self, stub: Any) -> None:
        """Learn the pseudonym under which the window knows this account; AuditError as the provider gives it."""
        body = AccountAsk(self.signed_manifest.manifest.digest(), self.name).encode()
        request = provider_pb2.GetAccountRequest(canonical=body, signature=signature.sign(self.key, "account", body))
        reply = await call(stub.GetAccount, request, PEER, self.timeout)
        self.pseudonym = Membership.decode(reply.canonical).account.pseudonym

    async def ask(self, stub: Any, query: str, embedding: bytes) -> Kept:
        """One question to its end; what was signed before comes first.  AuditError as the provider gives it."""
        if self.signed is None:
            await self._sign(stub, *(self.ready.pop() if self.ready else self.prepare_message(query, embedding)))
        return await self.finish(stub)

    async def _sign(self, stub: Any, message: Prepare, body: bytes, proof: bytes) -> None:
        began = time.monotonic()
        reply = await call(
            stub.Prepare, provider_pb2.PrepareRequest(canonical=body, signature=proof), PEER, self.timeout
        )
        prepared = Prepared.decode(reply.canonical)
        manifest = self.signed_manifest.manifest
        seal_secret = secrets.token_bytes(SEAL_KEY_BYTES)
        request = Request(
            origin=manifest.origin,
            window=manifest.window,
            manifest=message.manifest,
            account=self.pseudonym,
            ctr=len(self.kept) + 1,
            request_id=message.request_id,
            query_digest=message.query_digest(),
            c_e=prepared.c_e,
            index_digest=prepared.index_digest,
            checked=prepared.embedding == message.embedding,
            nonce=secrets.token_bytes(16),
            last_receipt=self.last_receipt,
            seal_key=public_of(seal_secret),
        )
        sent = SignedRequest(request, signature.sign(self.key, "request", request.encode())).encode()
        fetch = signature.sign(self.key, "retrieve", sent)
        self.signed, self.waiting = Waiting(sent, fetch, seal_secret, began, time.monotonic()), (message, body, proof)

    async def finish(self, stub: Any) -> Kept:
        """Send the signed request (again) until its answer is here."""
        assert self.signed is not None
        own = self.signed
        received = await retrieve(stub, own.sent, own.proof, self.timeout)
        done = Kept(
            sent=own.sent,
            received=received,
            proof=own.proof,
            seal_secret=own.seal_secret,
            began=own.began,
            prepared=own.prepared,
            ended=time.monotonic(),
        )
        self.last_receipt = SealedAnswer.decode(received).receipt.digest()
        self.kept.append(done)
        self.signed = None
        return done

    async def prepare_again(self, stub: Any) -> None:
        """The same Prepare again, for a provider that has forgotten it; AuditError as the provider gives it."""
        assert self.waiting is not None
        _, body, proof = self.waiting
        await call(stub.Prepare, provider_pb2.PrepareRequest(canonical=body, signature=proof), PEER, self.timeout)


def provider_stub(channel: Any) -> Any:
    return provider_pb2_grpc.ProviderServiceStub(channel)  # type: ignore[no-untyped-call]


async def retrieve(stub: Any, sent: bytes, proof: bytes, timeout: float = 30.0) -> bytes:
    """The answer to a signed request, undecoded; AuditError as the provider gives it."""
    reply = await call(stub.Retrieve, provider_pb2.RetrieveRequest(canonical=sent, signature=proof), PEER, timeout)
    return bytes(reply.canonical)


async def manifest(stub: Any) -> SignedManifest:
    """The newest window's manifest."""
    found = await call(stub.GetManifest, provider_pb2.GetManifestRequest(), PEER)
    return SignedManifest.decode(found.canonical)


async def open_window(stub: Any) -> SignedManifest:
    """Take the newest window through its beacon, as its auditor and only participant."""
    signed = await manifest(stub)
    digest, key, nonce = signed.manifest.digest(), AUDITOR_KEY, secrets.token_bytes(32)
    public, made = signature.public_bytes(key), beacon_commitment("auditor", nonce)
    body = BeaconCommit(digest, "auditor", public, made, bytes(64)).body()
    committed = BeaconCommit(digest, "auditor", public, made, signature.sign(key, "beacon-commit", body))
    await call(stub.CommitBeacon, provider_pb2.CommitBeaconRequest(canonical=committed.encode()), PEER)
    opening = BeaconOpening(digest, "auditor", nonce).encode()
    while True:
        try:
            answer = await call(stub.OpenBeacon, provider_pb2.OpenBeaconRequest(canonical=opening), PEER)
        except CommitmentError:  # the provider has not sealed, or not opened, yet
            await asyncio.sleep(0.01)
            continue
        if answer.state == provider_pb2.WINDOW_STATE_OPEN:
            return signed
