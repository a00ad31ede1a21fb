# SPDX-License-Identifier: GPL-3.0-or-later
"""What the provider's tests share: a tiny provider with a small real embedder, an honest account, a beacon."""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.circuits.build import DEFAULT_CACHE, build
from ragseal.circuits.circuit import class_digest
from ragseal.embedder import quantise
from ragseal.embedder.interface import QUANTISATION, EmbedderIdentity, Progress, Role, Vectors
from ragseal.groth16.keys import KeyPaths, make_keys
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
from ragseal.kernel.commitment import BeaconCommit, BeaconOpening, beacon_commitment
from ragseal.kernel.errors import AuditError
from ragseal.kernel.inquiry import Ask, BlocksAsk, Delivery, LinksAsk, ProofsAsk, open_delivery
from ragseal.kernel.params import CircuitClass
from ragseal.kernel.policy import Policy
from ragseal.kernel.sealing import public_of
from ragseal.kernel.thinning import thinning_class
from ragseal.prover import assembly
from ragseal.prover.attestation.answering import Answered
from ragseal.prover.attestation.retrieval import encode_embedding
from ragseal.prover.commitment import index, registry
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.provider import Backends, Environment, Provider, ServeOptions, Serving
from ragseal.prover.storage.history import Stage, Window
from ragseal.prover.storage.state import Settings, State, create

NOW = 1_800_000_000
DIMENSION = 24
ORIGIN = "example.org/rag"
SEAL_SECRET = b"s" * 32
KEYS_CACHE = Path("var/keys")


class TrigramEmbedder:
    """A deterministic embedder of hashed character trigrams: nearness of texts is real, no model is needed."""

    dimension = DIMENSION

    def identity(self) -> EmbedderIdentity:
        nothing = hashlib.sha256(b"trigrams").digest()
        return EmbedderIdentity(nothing, nothing, "trigrams", "sum", 1 << 20, "", "", DIMENSION, QUANTISATION)

    def embed(self, texts: Sequence[str], *, role: Role = "document", progress: Progress | None = None) -> Vectors:
        rows = np.zeros((len(texts), DIMENSION), dtype=np.float32)
        for row, text in zip(rows, texts, strict=True):
            padded = f"  {text.lower()}  "
            for at in range(len(padded) - 2):
                digest = hashlib.sha256(padded[at : at + 3].encode()).digest()
                row[digest[0] % DIMENSION] += 1 if digest[1] & 1 else -1
            row[0] += 0.5
        return rows / np.linalg.norm(rows, axis=1, keepdims=True)


@dataclass
class Clock:
    """A clock that tests move."""

    now: float = NOW

    def __call__(self) -> float:
        return self.now


def account_key(name: str) -> Ed25519PrivateKey:
    """The signing key of a test account."""
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(b"account" + name.encode()).digest())


AUDITOR_KEY = Ed25519PrivateKey.from_private_bytes(b"A" * 32)
AUDITOR = signature.public_bytes(AUDITOR_KEY)
TENANTS = {"acme": ["alice", "bob"], "globex": ["carol"]}


def documents(tenant: str, count: int = 40) -> list[Document]:
    return [Document(f"{tenant}-{i}", f"{tenant} report number {i} about topic {i * 7 % 13}") for i in range(count)]


def new_state(directory: Path) -> State:
    """A state folder of class tiny with two tenants and three accounts."""
    create(directory, Settings(ORIGIN, "tiny", "trigrams"), Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate())
    state = State(directory)
    embedder = TrigramEmbedder()
    for tenant, names in TENANTS.items():
        index.ingest(state, tenant, 126, DIMENSION, documents(tenant), embed_with(embedder), Environment().draw)
        new = [registry.Registration(name, tenant, signature.public_bytes(account_key(name))) for name in names]
        registry.add_accounts(state, new)
    return state


def embed_with(embedder: TrigramEmbedder) -> Callable[[Sequence[str]], index.Matrix]:
    return lambda texts: quantise(embedder.embed(texts))


def make_policy(tiny: CircuitClass, **changes: object) -> Policy:
    values = {
        "class": "tiny", "claim": "every-list", "lo": 0.2, "hi": 0.9, "gain": 2, "n_max": 6, "k_max": 2,
        "delta": "1/1000000",
    }  # fmt: skip
    binding = Binding(tiny, class_digest(tiny), DIMENSION, NOW)
    return read_policy({**values, **changes}, binding, assembly.advertised_epsilon)


@lru_cache(maxsize=1)
def coin_keys(capacity: int) -> KeyPaths:
    """A key of the thinning's circuit, made once."""
    size = thinning_class(capacity)
    return make_keys(build(size, DEFAULT_CACHE).r1cs, size, class_digest(size), KEYS_CACHE)


def open_provider(directory: Path, tiny: CircuitClass, keys: KeyPaths, clock: Clock, coins: bool = False) -> Provider:
    """A provider on a state folder, with the session's key in its ring; ``coins``: and one for windows with a coin."""
    state = State(directory) if (directory / "provider.toml").exists() else new_state(directory)
    ring = assembly.open_keys(state, tiny, lambda _: None)
    folder = ring.folder(keys.digest)
    if not folder.exists():
        folder.symlink_to(keys.directory.resolve())
        state.remember_auditor(keys.digest, AUDITOR)
    thinning = assembly.open_thinning_keys(state, tiny, lambda _: None) if coins else None
    if thinning is not None:
        made = coin_keys(tiny.N)
        if not thinning.folder(made.digest).exists():
            thinning.folder(made.digest).symlink_to(made.directory.resolve())
    tools = Backends(default_group(), open_engine(tiny), ring, TrigramEmbedder(), thinning_keys=thinning)
    return Provider(state, tools, Environment(clock=clock))


# --- a window in operation -------------------------------------------------------------------------------------------


@dataclass
class Participant:
    """An honest beacon participant."""

    owner: str
    manifest: bytes
    key: Ed25519PrivateKey
    nonce: bytes = b"n" * 32

    def commit(self) -> BeaconCommit:
        made = beacon_commitment(self.owner, self.nonce)
        unsigned = BeaconCommit(self.manifest, self.owner, signature.public_bytes(self.key), made, bytes(64))
        signed = signature.sign(self.key, "beacon-commit", unsigned.body())
        return BeaconCommit(self.manifest, self.owner, unsigned.public_key, made, signed)

    def open(self) -> BeaconOpening:
        return BeaconOpening(self.manifest, self.owner, self.nonce)


def pseudonym_of(state: State, manifest: bytes, name: str) -> str:
    """What a window calls an account; a stranger goes by its name."""
    found = registry.named_account(state, manifest, name)
    return name if found is None else found.pseudonym


async def open_window(serving: Serving, auditor_key: Ed25519PrivateKey = AUDITOR_KEY) -> Window:
    """Take an auditor and an observer through the beacon."""
    window = serving.journal.history.newest
    assert window is not None
    auditor = Participant("auditor", window.digest, auditor_key, b"a" * 32)
    observer = Participant("observer-x", window.digest, Ed25519PrivateKey.generate(), b"o" * 32)
    for participant in (observer, auditor):
        await serving.beacon.commit(participant.commit().encode())
    while "provider" not in window.openings:
        await asyncio.sleep(0.01)
    await serving.beacon.open(observer.open().encode())
    await serving.beacon.open(auditor.open().encode())
    assert window.stage is Stage.OPEN
    return window


@dataclass
class Asker:
    """An honest account: prepares, signs, and remembers its last receipt."""

    name: str
    serving: Serving
    ctr: int = 0
    last_receipt: bytes = NO_RECEIPT

    @property
    def key(self) -> Ed25519PrivateKey:
        return account_key(self.name)

    @property
    def pseudonym(self) -> str:
        """What the newest window calls this account; a stranger goes by its name."""
        window = self.serving.journal.history.newest
        assert window is not None
        return pseudonym_of(self.serving.provider.state, window.digest, self.name)

    def message(self, query: str, embedding: bytes | None = None, request_id: bytes | None = None) -> Prepare:
        window = self.serving.journal.history.newest
        assert window is not None
        own = encode_embedding(embed_with(TrigramEmbedder())([query])[0])
        return Prepare(
            manifest=window.digest,
            account=self.pseudonym,
            request_id=request_id or hashlib.sha256(f"{self.name}{self.ctr}{query}".encode()).digest()[:16],
            salt=hashlib.sha256(query.encode()).digest(),
            query=query,
            embedding=own if embedding is None else embedding,
        )

    async def prepare(self, message: Prepare) -> Prepared:
        canonical = message.encode()
        return Prepared.decode(
            await self.serving.attestation.prepare(canonical, signature.sign(self.key, "prepare", canonical))
        )

    def request(self, message: Prepare, prepared: Prepared, **changes: object) -> SignedRequest:
        window = self.serving.journal.history.newest
        assert window is not None
        fields: dict[str, object] = {
            "origin": window.manifest.origin,
            "window": window.manifest.window,
            "manifest": window.digest,
            "account": self.pseudonym,
            "ctr": self.ctr + 1,
            "request_id": message.request_id,
            "query_digest": message.query_digest(),
            "c_e": prepared.c_e,
            "index_digest": prepared.index_digest,
            "checked": True,
            "nonce": hashlib.sha256(message.request_id).digest()[:16],
            "last_receipt": self.last_receipt,
            "seal_key": public_of(SEAL_SECRET),
        }
        request = Request(**{**fields, **changes})  # type: ignore[arg-type]
        return SignedRequest(request, signature.sign(self.key, "request", request.encode()))

    async def retrieve(self, signed: SignedRequest) -> Answered:
        """Fetch an answer with this account's second signature."""
        canonical = signed.encode()
        return await self.serving.attestation.retrieve(canonical, signature.sign(self.key, "retrieve", canonical))

    async def ask(self, query: str) -> Answer:
        message = self.message(query)
        signed = self.request(message, await self.prepare(message))
        answer = open_answer(SealedAnswer.decode((await self.retrieve(signed)).canonical), SEAL_SECRET)
        self.ctr, self.last_receipt = self.ctr + 1, answer.receipt.digest()
        return answer


@asynccontextmanager
async def serving_on(provider: Provider, eager: bool = False, publish: float = 0.0) -> AsyncIterator[Serving]:
    """A provider that serves without gRPC, stopped and closed at the end; its log is public every ``publish`` s."""
    serving = Serving(provider, ServeOptions(eager, 0.0, BeaconRules(participants=2, wait=5.0), publish))
    try:
        await serving.start()
        yield serving
    finally:
        await serving.stop()
        provider.close()


# --- what an account and the auditor get -----------------------------------------------------------------------------


async def retrieved(serving: Serving, signed: bytes, as_account: str | None = None) -> bytes:
    """The sealed answer to a signed request, fetched by the account that it names (or by ``as_account``)."""
    name = as_account or "alice"
    with suppress(AuditError):
        if as_account is None:
            request = SignedRequest.decode(signed).request
            name = registry.window_account(serving.provider.state, request.manifest, request.account).name
    return (await serving.attestation.retrieve(signed, signature.sign(account_key(name), "retrieve", signed))).canonical


def opened(sealed: bytes) -> Answer:
    """An answer to one of these accounts, opened."""
    return open_answer(SealedAnswer.decode(sealed), SEAL_SECRET)


async def delivered(serving: Serving, ask: Ask, key: Ed25519PrivateKey = AUDITOR_KEY) -> bytes:
    """What the auditor gets for an ask, its provider's signature checked."""
    data = await serving.deliveries.answer(ask, ask.sign(key))
    found = open_delivery(data, ask, serving.provider.public_key)
    assert isinstance(found, Delivery), found
    return found.payload


async def batch(serving: Serving, manifest: bytes, seqs: Sequence[int]) -> bytes:
    """A ProofBatch."""
    return await delivered(
        serving, ProofsAsk(manifest, int(serving.provider.environment.clock()), secrets.token_bytes(16), tuple(seqs))
    )


async def links(serving: Serving, manifest: bytes) -> bytes:
    """SignedLinks."""
    return await delivered(
        serving, LinksAsk(manifest, int(serving.provider.environment.clock()), secrets.token_bytes(16))
    )


async def blocks(
    serving: Serving, manifest: bytes, key_digest: bytes, tenant: str, wanted: Sequence[Sequence[int]]
) -> bytes:
    """A BlockBatch."""
    now = int(serving.provider.environment.clock())
    chosen = tuple(tuple(ranks) for ranks in wanted)
    return await delivered(serving, BlocksAsk(manifest, now, secrets.token_bytes(16), key_digest, tenant, chosen))
