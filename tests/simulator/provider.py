# SPDX-License-Identifier: GPL-3.0-or-later
"""The product's provider on a state folder: class TINY under a real key, a small real embedder, accounts, an auditor.

:func:`window_on` brings all of it up; :class:`Asker` is an honest account, :class:`Participant` one of the beacon.
Unlike in :mod:`tests.simulator.world`, nothing here is simulated but the embedder and the clock.
"""

from __future__ import annotations

import asyncio
import hashlib
import secrets
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import Engine, open_engine
from ragseal.circuits.circuit import class_digest
from ragseal.embedder import Embedder, quantise
from ragseal.embedder.interface import QUANTISATION, EmbedderIdentity, Progress, Role, Vectors
from ragseal.groth16.keys import KeyPaths
from ragseal.kernel import signature
from ragseal.kernel.attestation import (
    NO_RECEIPT,
    Answer,
    Prepare,
    Prepared,
    Record,
    Request,
    SealedAnswer,
    SignedRequest,
    open_answer,
)
from ragseal.kernel.beacon import (
    BeaconCommit,
    BeaconOpening,
)
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import AuditError
from ragseal.kernel.inquiry import Ask, BlocksAsk, Delivery, LinksAsk, ProofsAsk, open_delivery
from ragseal.kernel.policy import UNTIL_DELIVERED, Policy
from ragseal.kernel.sealing import public_of
from ragseal.kernel.thinning_class import thinning_class
from ragseal.prover.attestation.answering import Answered
from ragseal.prover.attestation.retrieval import encode_embedding
from ragseal.prover.commitment import index, registry
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Put, apply
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.keys.keyring import KeyRing
from ragseal.prover.provider import assembly
from ragseal.prover.provider.backends import Backends, Environment
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import ServeOptions, Serving
from ragseal.prover.storage.state import Settings, State, create
from ragseal.prover.storage.stopped_keys import stopped
from ragseal.prover.storage.window import Stage, Window
from ragseal.runtime.token_key import TokenKey
from tests.classes import DECOYS, TINY
from tests.simulator.entries import beacon_commit
from tests.simulator.keys import ESTIMATE, keys_of

NOW = 1_800_000_000
UNSEEN, HIDDEN = 1.451, 60  #: of coins: they hide so many of 256 slots, about a quarter
DIMENSION = 24
SHAPE = IndexShape(TINY.N, DIMENSION)
ORIGIN = "example.org/rag"
SEAL_SECRET = b"s" * 32


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


TRIGRAMS = TrigramEmbedder()


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


@dataclass(frozen=True, slots=True)
class Kind:
    """What an index is: so many shards of a class."""

    cls: AttestationClass = TINY
    shards: int = 1


ONE_TINY = Kind()
ONE_DECOYS = Kind(DECOYS)


def kind_of(coins: bool) -> Kind:
    """What a claim's windows are of."""
    return ONE_DECOYS if coins else ONE_TINY


def new_state(
    directory: Path,
    tenants: Mapping[str, Sequence[str]] = TENANTS,
    texts: Callable[[str], list[Document]] | None = None,
    signers: tuple[TokenKey, TokenKey] | None = None,
    kind: Kind = ONE_TINY,
) -> State:
    """A state folder, by default of class TINY with two tenants and three accounts.

    Args:
        tenants: the accounts of each.
        texts: the documents of a tenant.
        signers: the provider's key and the log's; by default in files.
    """
    key, log_key = signers or (Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate())
    create(directory, Settings(ORIGIN, kind.cls.name, "trigrams", kind.shards), key, log_key)
    state = State(directory)
    embedder = TrigramEmbedder()
    for tenant, names in tenants.items():
        own = (texts or documents)(tenant)
        shape = IndexShape(kind.shards * kind.cls.N, DIMENSION)
        apply(state, tenant, map(Put, own), embed_with(embedder), Environment().draw, shape)
        new = [registry.Registration(name, tenant, signature.public_bytes(account_key(name))) for name in names]
        registry.add_accounts(state, new)
    return state


def embed_with(embedder: TrigramEmbedder) -> Callable[[Sequence[str]], index.Matrix]:
    return lambda texts: quantise(embedder.embed(texts))


def coined_policy(kind: Kind = ONE_DECOYS, **changes: object) -> Policy:
    """A policy whose claim has a coin, by default of class DECOYS; keys that only noise has are left out."""
    own = {name: value for name, value in changes.items() if name not in ("hi", "gain")}
    return make_policy(kind, **{"claim": UNTIL_DELIVERED, "unseen": UNSEEN, **own})


def make_policy(kind: Kind = ONE_TINY, **changes: object) -> Policy:
    """A policy, by default for class TINY; ``changes`` as in a policy file."""
    values = {
        "class": kind.cls.name, "claim": "every-list", "lo": 0.2, "n_max": 6, "k_max": 2, "delta": "1/1000000",
        **({"hi": 0.9, "gain": 2} if kind.cls.scaled else {"ids": 5, "return": 4.5}),
    }  # fmt: skip
    binding = Binding(kind.cls, class_digest(kind.cls), DIMENSION, NOW, shards=kind.shards)
    return read_policy({**values, **changes}, binding, assembly.advertised_epsilon)


def install(ring: KeyRing[Any, Any], keys: KeyPaths) -> bool:
    """Put a made key into a ring, once; whether it was missing."""
    folder = ring.folder(keys.digest)
    if folder.exists():
        return False
    folder.symlink_to(keys.directory.resolve())
    return True


def open_provider(
    directory: Path,
    clock: Clock | None = None,
    *,
    coins: bool = False,
    estimate: bool = False,
    state: State | None = None,
    engine: Callable[[Engine], Engine] = lambda real: real,
    embedder: Embedder = TRIGRAMS,
    kind: Kind | None = None,
) -> Provider:
    """A provider on a state folder that is made where it is missing, as after a restart where it is not.

    Args:
        coins: with a key for windows with a coin.
        estimate: with a key of the smallest circuit of the coalition estimate.
        state: the folder's state, opened or made already.
        engine: what selects, from the real one.
        embedder: of queries.
        kind: of the folder, in which it is not looked up; by default of class DECOYS with coins, else of TINY.
    """
    kind = kind or kind_of(coins)
    keys = keys_of(kind.cls)
    if state is None:
        state = State(directory) if (directory / "provider.toml").exists() else new_state(directory, kind=kind)
    ring = assembly.open_keys(state, kind.cls, lambda _: None)
    if install(ring, keys):
        state.remember_auditor(keys.digest, AUDITOR)
    thinning = assembly.open_thinning_keys(state, kind.cls, lambda _: None) if coins else None
    if thinning is not None:
        install(thinning, keys_of(thinning_class(kind.cls.N)))
    tools = Backends(default_group(), engine(open_engine(kind.cls)), ring, embedder, thinning_keys=thinning)
    if estimate:
        rings = assembly.open_estimate_keys(state, lambda _: None)
        install(next(one for one in rings if one.cls == ESTIMATE), keys_of(ESTIMATE))
        tools = replace(tools, estimate_keys=rings)
    return Provider(state, tools, Environment(clock=clock or Clock()))


# --- a window in operation -------------------------------------------------------------------------------------------


@dataclass
class Participant:
    """An honest beacon participant."""

    owner: str
    manifest: bytes
    key: Ed25519PrivateKey
    nonce: bytes = b"n" * 32

    def commit(self) -> BeaconCommit:
        return beacon_commit(self.manifest, self.owner, self.nonce, self.key)

    def open(self) -> BeaconOpening:
        return BeaconOpening(self.manifest, self.owner, self.nonce)


def pseudonym_of(state: State, manifest: bytes, name: str) -> str:
    """What a window calls an account; a stranger goes by its name."""
    found = registry.named_account(state, manifest, name)
    return name if found is None else found.pseudonym


def answered(serving: Serving, window: Window, seq: int) -> SealedAnswer:
    """The answer of a record, from what its provider stores; of a window without updates."""
    entry = serving.journal.entry(window.records[seq])
    secrets = serving.provider.window_secrets(window.digest)
    tenant = secrets.account(Record.decode(entry.data).signed.request.account).tenant
    return serving.attestation._answers.again(secrets, secrets.versions[tenant], entry)


async def open_window(serving: Serving, auditor_key: Ed25519PrivateKey = AUDITOR_KEY) -> Window:
    """Take an auditor and an observer through the beacon."""
    window = newest(serving)
    auditor = Participant("auditor", window.digest, auditor_key, b"a" * 32)
    observer = Participant("observer-x", window.digest, Ed25519PrivateKey.generate(), b"o" * 32)
    for participant in (observer, auditor):
        await serving.beacon.commit(participant.commit().encode())
    while "provider" not in window.openings:
        await asyncio.sleep(0.01)
    await serving.beacon.open(observer.open().encode())
    await serving.beacon.open(auditor.open().encode())
    async with asyncio.timeout(60):  # the call itself waits for a shorter time, in which a busy machine thins nothing
        while window.stage is not Stage.OPEN:
            for coin in window.manifest.coins:
                assert stopped(serving.provider.state, coin.key_digest) is None, "its thinning failed"
            await asyncio.sleep(0.01)
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
        window = newest(self.serving)
        return pseudonym_of(self.serving.provider.state, window.digest, self.name)

    def message(self, query: str, embedding: bytes | None = None, request_id: bytes | None = None) -> Prepare:
        window = newest(self.serving)
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
        reply = await self.serving.attestation.prepare(canonical, signature.sign(self.key, "prepare", canonical))
        return Prepared.decode(reply.canonical)

    def request(self, message: Prepare, prepared: Prepared, **changes: object) -> SignedRequest:
        window = newest(self.serving)
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


@asynccontextmanager
async def window_on(
    directory: Path,
    clock: Clock | None = None,
    *,
    name: str = "w1",
    coins: bool = False,
    estimate: bool = False,
    eager: bool = False,
    publish: float = 0.0,
    **policy: object,
) -> AsyncIterator[Serving]:
    """A provider that has just opened a window and serves it; ``policy`` as in a policy file."""
    provider = open_provider(directory, clock, coins=coins, estimate=estimate)
    provider.commit((coined_policy if coins else make_policy)(**policy), name)
    async with serving_on(provider, eager, publish) as serving:
        await open_window(serving)
        yield serving


def newest(serving: Serving) -> Window:
    """The newest window."""
    window = serving.journal.history.newest
    assert window is not None
    return window


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
    found = open_delivery(data, ask, serving.journal.history.window(ask.manifest).manifest.window_key)
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
