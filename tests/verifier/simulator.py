# SPDX-License-Identifier: GPL-3.0-or-later
"""An honest provider, auditor and two tenants' accounts in memory, at the level of kernel messages.

Everything is real (log, signatures, columns, openings, beacon, receipts) but the key: :class:`BindingKey` stands
for one and accepts exactly the statements it "proved", as a sound proof system does, so that the checklist can be
attacked without compiling a circuit.  Tests change one thing before or after the log is written.
"""

from __future__ import annotations

import hashlib
import random
import tomllib
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.group import default_group
from ragseal.kernel import attestation, commitment, field, noise, signature
from ragseal.kernel.attestation import (
    NO_RECEIPT,
    Answer,
    BatchItem,
    Openings,
    ProofBatch,
    ProofEntry,
    Receipt,
    ReceiptBody,
    Record,
    Request,
    SameEmbeddingOpening,
    SignedRequest,
    SlotOpening,
    Statement,
    TextOpening,
    sealed_digest,
)
from ragseal.kernel.commitment import (
    Account,
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    IndexFile,
    Manifest,
    Registry,
    ScoreBases,
    SignedManifest,
    TenantIndex,
    WindowClose,
    WindowOpen,
    beacon_commitment,
    beacon_value,
    registry_leaves,
    text_leaf,
)
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import ProofError
from ragseal.kernel.inquiry import Ask, BlocksAsk, Delivery, LinksAsk, ProofsAsk, RegistryAsk
from ragseal.kernel.opening import batching_challenge, powers, prove_opening
from ragseal.kernel.params import CircuitClass, R, class_from_mapping
from ragseal.kernel.policy import EVERY_LIST, Policy
from ragseal.kernel.sealing import public_of
from ragseal.kernel.statement import Returned, places_commitment
from ragseal.kernel.thinning import ThinnedFile
from ragseal.ledger.checkpoint import Checkpoint, SignedCheckpoint, open_checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteSigner
from ragseal.verifier.evidence import Auditor, ConfiguredKey, ReceiptFile
from ragseal.verifier.verification import Environment, Verdict, audit
from tests.verifier.estimates import binding

OPENS, CLOSES = 1_800_000_000, 1_800_003_600
NOW = CLOSES + 600
ORIGIN = "test.example/log"
CLASS_DIGEST = hashlib.sha256(b"class tiny").digest()
DIMENSION = 4
HINTS = 6
SEAL_KEY = public_of(b"s" * 32)
GROUP = default_group()


def tiny() -> CircuitClass:
    path = Path(__file__).parents[2] / "circuits" / "classes.toml"
    values = tomllib.loads(path.read_text())["tiny"]
    return class_from_mapping({"name": "tiny", **values})


CLS = tiny()


def key_of(name: str) -> Ed25519PrivateKey:
    return Ed25519PrivateKey.from_private_bytes(hashlib.sha256(name.encode()).digest())


class BindingKey:
    """Bases as a verifying key has them, and "proofs" that hold for one statement only."""

    def __init__(self, name: str = "key") -> None:
        points = GROUP.hash_to_curve(name.encode(), CLS.N + HINTS + 1)
        self.scores = ScoreBases(points[: 64 * CLS.N], points[-64:])
        self.hints = points[64 * CLS.N : -64]
        self.digest = hashlib.sha256(points).digest()
        self.sum_y = GROUP.msm(self.scores.y, field.pack([1] * CLS.N))
        self.calls = 0

    def prove(self, clear: Sequence[int], c_w: bytes, c_h: bytes) -> bytes:
        return hashlib.shake_256(self.digest + field.pack(clear) + c_w + c_h).digest(256)

    def verify(self, clear: Sequence[int], c_w: bytes, c_h: bytes, proof: bytes) -> None:
        self.calls += 1
        if proof != self.prove(clear, c_w, c_h):
            raise ProofError("the pairing equation does not hold")

    def verify_batch(self, items: Sequence[tuple[Sequence[int], bytes, bytes, bytes]]) -> None:
        for item in items:
            self.verify(*item)


KEY = BindingKey()


def index_file(rows: list[list[int]], blinders: list[int], key: Any, rng: random.Random) -> IndexFile:
    """Commitments to the columns of these rows under a key's points, with their proof of opening."""
    bases = key.scores.y + key.scores.b
    columns = b"".join(GROUP.msm(bases, field.pack([*(row[j] for row in rows), b])) for j, b in enumerate(blinders))
    chi = powers(commitment.columns_batching_challenge(key.digest, columns), len(blinders))
    witness = [sum(c * x for c, x in zip(chi, row, strict=True)) % R for row in [*rows, blinders]]
    nonces = scalars(rng, len(witness))
    opening = commitment.prove_columns(GROUP, key.scores, key.digest, columns, field.pack(witness), nonces)
    return IndexFile(columns, opening)


@dataclass
class Tenant:
    name: str
    rows: list[list[int]]
    blinders: list[int]
    file: IndexFile
    texts: MerkleTree
    index: TenantIndex

    @classmethod
    def make(cls, name: str, rng: random.Random, key: Any) -> Tenant:
        rows = [[rng.randrange(-60, 61) for _ in range(DIMENSION)] for _ in range(CLS.N)]
        blinders = [rng.randrange(1, R) for _ in range(DIMENSION)]
        file = index_file(rows, blinders, key, rng)
        texts = MerkleTree([text_leaf(bytes(32), i, f"{name} {i}".encode()) for i in range(CLS.N)])
        index = TenantIndex(name, DIMENSION, file.columns_digest(), file.opening_digest(), texts.root())
        return cls(name, rows, blinders, file, texts, index)


def scalars(rng: random.Random, count: int) -> bytes:
    return field.pack(rng.randrange(R) for _ in range(count))


@dataclass
class Kept:
    """What the provider keeps of one query."""

    tenant: str
    e: list[int]
    blinder: int
    rho: int
    hints: list[int]
    rho_hint: int
    t_salt: int


TENANTS = {name: Tenant.make(name, random.Random(name), KEY) for name in ("north", "south")}
ACCOUNTS = (("alice", "north"), ("bob", "north"), ("carol", "south"))
GENERATORS = commitment.generators(GROUP, DIMENSION)


def account(name: str, tenant: str, key: Ed25519PrivateKey | None = None) -> Account:
    """An account's line, with a salt that follows from its name."""
    salt = hashlib.sha256(f"salt of {name}".encode()).digest()
    return Account(name, tenant, signature.public_bytes(key or key_of(name)), salt)


def registry(*lines: tuple[str, str]) -> list[Account]:
    """A window's accounts by pseudonym, from (name, tenant) pairs."""
    return sorted((account(name, tenant) for name, tenant in lines), key=lambda one: one.pseudonym)


def pseudonym(name: str) -> str:
    """What the ledger calls the account of this name."""
    return account(name, "any").pseudonym


def policy(**changes: Any) -> Policy:
    base = Policy(
        class_name="tiny",
        class_digest=CLASS_DIGEST,
        table_digest=noise.build_table("gaussian").digest(),
        dimension=DIMENSION,
        claim=EVERY_LIST,
        hidden=0,
        lo=4800,
        hi=5600,
        gain=1,
        n_max=3,
        k_max=2,
        delta="1/1000000",
        epsilon_account="4",
        theta="9/10",
        tau=100,
        gate=True,
        unit="slot",
        chunks_max=1,
        period_start=OPENS - 100_000,
        opens=OPENS,
        closes=CLOSES,
    )
    return replace(base, **changes)


class World:
    """One origin's log and everybody's secrets.  Build windows with :meth:`window`, audit with :meth:`audit`."""

    def __init__(self, key: Any = None, tenants: dict[str, Tenant] | None = None) -> None:
        self.key = key or KEY
        self.tenants = tenants or TENANTS
        self.rng = random.Random(1)
        self.signer = NoteSigner(ORIGIN, key_of("log"))
        self.provider = key_of("provider")
        self.auditor_key = key_of("auditor")
        self.messages: list[Message] = []
        self.raw: dict[int, bytes] = {}  # entries that are not what messages say
        self.kept: dict[tuple[bytes, int], Kept] = {}
        self.answers: list[Answer] = []
        self.registry = registry(*ACCOUNTS)
        self.nonces: dict[bytes, bytes] = {}
        self.beacons: dict[bytes, int] = {}  #: that the auditor released its nonce for
        self.drawn: dict[bytes, int] = {}
        self.made_by = "auditor"
        self.remembered: SignedCheckpoint | None = None
        self.files = {name: tenant.file for name, tenant in self.tenants.items()}
        self.thinned: dict[tuple[bytes, str], ThinnedFile] = {}  #: by manifest and tenant
        self.shown_manifest: bytes | None = None
        self.tamper_batch: Callable[[ProofBatch], ProofBatch] = lambda batch: batch
        self.tamper_entry: Callable[[ProofEntry], ProofEntry] = lambda entry: entry
        self.asked: list[list[int]] = []
        self.estimator = binding(self)
        self.manifest: Manifest
        self.digest: bytes
        self.beacon: int

    # --- phase A ---

    def commit(self, name: str = "w1", *, policy_: Policy | None = None, **changes: Any) -> None:
        """Manifest and beacon; the window is open then."""
        self.enter_manifest(name, policy_=policy_, **changes)
        self.enter_beacon()

    def enter_manifest(self, name: str = "w1", *, policy_: Policy | None = None, **changes: Any) -> None:
        self.provider_nonce = hashlib.sha256(b"nonce" + name.encode()).digest()
        manifest = Manifest(
            origin=ORIGIN,
            window=name,
            policy=policy_ or policy(),
            embedder=bytes(32),
            key_digest=self.key.digest,
            tenants=tuple(self.tenants[t].index for t in sorted(self.tenants)),
            c_seed=int.from_bytes(hashlib.sha256(name.encode()).digest()[:31], "big"),
            registry_root=MerkleTree(registry_leaves(self.registry)).root(),
            accounts=len(self.registry),
            provider_key=signature.public_bytes(self.provider),
            beacon_commitment=beacon_commitment("provider", self.provider_nonce),
            auditor_key=signature.public_bytes(self.auditor_key),
        )
        self.manifest = replace(manifest, **changes)
        self.digest = self.manifest.digest()
        self.messages.append(
            SignedManifest(self.manifest, signature.sign(self.provider, "manifest", self.manifest.encode()))
        )
        self.nonces.setdefault(self.digest, hashlib.sha256(b"auditor" + self.digest).digest())
        self.ctrs: dict[str, int] = {}
        self.last: dict[str, bytes] = {}
        self.seq = 0

    def commit_entry(self, owner: str, nonce: bytes, key: Ed25519PrivateKey) -> BeaconCommit:
        body = BeaconCommit(self.digest, owner, signature.public_bytes(key), beacon_commitment(owner, nonce), bytes(64))
        return replace(body, signature=signature.sign(key, "beacon-commit", body.body()))

    def seal_entry(self, *owners: str) -> BeaconSeal:
        body = BeaconSeal(self.digest, owners, bytes(64))
        return replace(body, signature=signature.sign(self.provider, "beacon-seal", body.body()))

    def enter_beacon(self) -> None:
        observer = hashlib.sha256(b"observer").digest()
        mine = self.nonces[self.digest]
        openings = [("provider", self.provider_nonce), ("observer-1", observer), ("auditor", mine)]
        self.beacon = self.beacons[self.digest] = beacon_value(self.digest, openings)
        self.messages += [
            self.commit_entry("observer-1", observer, key_of("observer")),
            self.commit_entry("auditor", mine, self.auditor_key),
            self.seal_entry("provider", "observer-1", "auditor"),
            *(BeaconOpening(self.digest, owner, nonce) for owner, nonce in openings),
            WindowOpen(self.digest, self.beacon, OPENS + 60),
        ]

    # --- phase B ---

    def ask(
        self,
        account: str,
        *,
        checked: bool = True,
        columns_of: str | None = None,
        sign_as: str | None = None,
        e: list[int] | None = None,
        request: dict[str, Any] | None = None,
        record: dict[str, Any] | None = None,
    ) -> Record:
        """One query, recorded and answered; ``request`` and ``record`` override fields before signing."""
        rng = self.rng
        tenant = next((a.tenant for a in self.registry if a.name == account), "north")
        e = e or [rng.randrange(-64, 65) for _ in range(DIMENSION)]
        blinder, rho, rho_hint = (rng.randrange(1, R) for _ in range(3))
        self.ctrs[account] = self.ctrs.get(account, 0) + 1
        wanted = Request(
            origin=ORIGIN,
            window=self.manifest.window,
            manifest=self.digest,
            account=pseudonym(account),
            ctr=self.ctrs[account],
            request_id=rng.randbytes(16),
            query_digest=rng.randbytes(32),
            c_e=commitment.embedding_commitment(GROUP, GENERATORS, e, blinder),
            index_digest=self.tenants[tenant].index.digest(),
            checked=checked,
            nonce=rng.randbytes(16),
            last_receipt=self.last.get(account, NO_RECEIPT),
            seal_key=SEAL_KEY,
        )
        wanted = replace(wanted, **(request or {}))
        signed = SignedRequest(wanted, signature.sign(key_of(sign_as or account), "request", wanted.encode()))
        columns = self.tenants[columns_of or tenant].file.columns
        returned, hints = self.select(wanted, tenant, e)
        salt = rng.randrange(R)
        entry = Record(
            manifest=self.digest,
            seq=self.seq,
            signed=signed,
            c_y=attestation.score_commitment(GROUP, columns, self.key.scores, e, rho),
            t_commit=places_commitment(CLS, salt, returned),
            time=OPENS + 120 + 60 * (self.seq // 2),
            proof_mode=attestation.ON_DEMAND,
        )
        entry = replace(entry, **(record or {}))
        self.kept[self.digest, entry.seq] = Kept(tenant, e, blinder, rho, hints, rho_hint, salt)
        self.seq += 1
        self.messages.append(entry)
        self.answers.append(self._answer(entry, tenant, returned, salt))
        self.last[account] = self.answers[-1].receipt.digest()
        return entry

    def select(self, request: Request, tenant: str, e: list[int]) -> tuple[list[Returned], list[int]]:
        """T and the hints; any will do for a key that looks at statements only.  The last slot came by the noise."""
        ids = sorted(self.rng.sample(range(CLS.N), CLS.K))
        return [Returned(slot, slot != ids[-1]) for slot in ids], [self.rng.randrange(R) for _ in range(HINTS)]

    def prove(self, record: Record, kept: Kept, clear: list[int], c_w: bytes, c_h: bytes) -> bytes:
        """The proof of one statement."""
        proof: bytes = self.key.prove(clear, c_w, c_h)
        return proof

    def _answer(self, record: Record, tenant: str, returned: Sequence[Returned], salt: int) -> Answer:
        texts = self.tenants[tenant].texts

        def opened(slot: int) -> TextOpening:
            return TextOpening(f"{tenant} {slot}", bytes(32), tuple(texts.path(slot % CLS.N)))

        slots = [SlotOpening(one.slot, one.flag, (opened(one.slot),) if one.flag else ()) for one in returned]
        openings = Openings(salt, tuple(slots))
        return Answer(record, openings, self.receipt(record, len(self.messages) - 1, openings.digest()))

    def receipt(self, record: Record, index: int, openings_digest: bytes) -> Receipt:
        tree = MerkleTree(self.entries())
        body = ReceiptBody(
            request_digest=record.signed.request.digest(),
            record_digest=record.digest(),
            seq=record.seq,
            index=index,
            openings_digest=openings_digest,
            sealed_digest=sealed_digest(b"sealed for " + record.digest()),
            checkpoint=self.checkpoint(),
        )
        return Receipt(body, signature.sign(self.provider, "receipt", body.encode()), tuple(tree.path(index)))

    def close(self) -> None:
        self.messages.append(WindowClose(self.digest, self.seq, OPENS + 3000))

    @classmethod
    def honest(cls, **changes: Any) -> World:
        """Seven queries of three accounts in one closed window."""
        world = cls()
        world.commit(**changes)
        world.queries()
        world.close()
        return world

    def queries(self) -> None:
        for account in ("alice", "bob", "carol", "alice", "carol", "alice", "bob"):
            self.ask(account)

    # --- the log ---

    def entries(self) -> list[bytes]:
        return [self.raw.get(i, message.encode()) for i, message in enumerate(self.messages)]

    def checkpoint(self, signer: NoteSigner | None = None) -> bytes:
        entries = self.entries()
        return Checkpoint(ORIGIN, len(entries), MerkleTree(entries).root()).sign(signer or self.signer)

    def remember(self) -> None:
        self.remembered = open_checkpoint(self.checkpoint(), self.signer.verifier)

    def at(self, kind: type[Message], number: int = 0) -> int:
        """Index of the ``number``-th entry of a kind."""
        return [i for i, m in enumerate(self.messages) if isinstance(m, kind)][number]

    # --- proofs ---

    def batch(self, manifest: bytes, seqs: Sequence[int]) -> ProofBatch:
        records = {m.seq: m for m in self.messages if isinstance(m, Record) and m.manifest == manifest}
        items = [self._item(records[seq], self.kept[manifest, seq]) for seq in seqs]
        context = attestation.batch_context(self.key.digest, manifest, items)
        weights = powers(batching_challenge("hints", context), len(items))
        kept = [self.kept[manifest, seq] for seq in seqs]
        hints = [[*k.hints, k.rho_hint] for k in kept]
        size = len(hints[0])
        witness = [sum(w * h[j] for w, h in zip(weights, hints, strict=True)) % R for j in range(size)]
        relation = attestation.hint_relation(self.key.hints, self.key.scores.b, items)
        opening = prove_opening(GROUP, "hints", context, [relation], field.pack(witness), scalars(self.rng, size))
        links = []
        for tenant in sorted({item.tenant for item in items}):
            own = [(i, k) for i, k in zip(items, kept, strict=True) if i.tenant == tenant]
            here = attestation.link_context(context, tenant, self.tenants[tenant].index.digest())
            fold = powers(batching_challenge("link", here), len(own))
            vectors = [[*k.e, k.blinder, k.rho] for _, k in own]
            mixed = [sum(f * v[j] for f, v in zip(fold, vectors, strict=True)) % R for j in range(DIMENSION + 2)]
            relations = attestation.link_relations(
                GENERATORS, self.tenants[tenant].file.columns, self.key.scores.b, [i for i, _ in own]
            )
            links.append(
                SameEmbeddingOpening(
                    tenant,
                    prove_opening(GROUP, "link", here, relations, field.pack(mixed), scalars(self.rng, DIMENSION + 2)),
                )
            )
        return ProofBatch(manifest, tuple(i.entry for i in items), tuple(links), opening)

    def _item(self, record: Record, kept: Kept) -> BatchItem:
        c_h = GROUP.msm(self.key.hints + self.key.scores.b, field.pack([*kept.hints, kept.rho_hint]))
        c_w = attestation.shifted_scores(GROUP, record.c_y, self.key.sum_y, self.manifest.policy)
        statement = Statement(
            self.manifest.c_seed, self.beacon, record.signed.request.ctx(), self.manifest.policy.hmax, record.t_commit
        )
        entry = self.tamper_entry(ProofEntry(record.seq, record.digest(), c_h, bytes(256)))
        if entry.proof == bytes(256):
            alpha, beta = attestation.challenges(self.key.digest, record.digest(), statement, c_w, entry.c_h)
            proof = self.prove(record, kept, [*statement.clear(), alpha, beta], c_w, entry.c_h)
            entry = replace(entry, proof=proof)
        return BatchItem(record, record.digest(), kept.tenant, statement, c_w, entry)

    # --- phase D ---

    def auditor(self) -> Auditor:
        key = ConfiguredKey(self.key.digest, "tiny", CLASS_DIGEST, self.made_by, lambda: self.key)
        return Auditor(
            self.signer.verifier,
            {"tiny": (CLS, CLASS_DIGEST)},
            {self.key.digest: key},
            signature.public_bytes(self.auditor_key),
            self.nonces,
            self.beacons,
            self.drawn,
            self.remembered,
            estimates=(
                ConfiguredKey(
                    self.estimator.key.digest,
                    self.estimator.key.cls.name,
                    CLASS_DIGEST,
                    "auditor",
                    lambda: self.estimator.key,
                ),
            ),
            sign=lambda ask: ask.sign(self.auditor_key),
        )

    def receipts(self) -> list[ReceiptFile]:
        return [ReceiptFile(f"answer-{i}", a.receipt, a) for i, a in enumerate(self.answers)]

    def audit(self, **options: Any) -> Verdict:
        more = {name: options.pop(name) for name in ("log_bytes", "deadline") if name in options}
        clock = options.pop("clock", lambda: 0.0)
        around = Environment(GROUP, options.pop("now", NOW), clock, random.Random(7).randbytes, **more)
        auditor = options.pop("auditor", None) or self.auditor()
        return audit(SimulatedEvidence(self), auditor, around, **options)


def asked(account: str = "alice", **options: Any) -> World:
    """A closed window with two honest queries, this one, and another honest one."""
    world = World()
    world.commit()
    world.ask("alice")
    world.ask("bob")
    world.ask(account, **options)
    world.ask("carol")
    world.close()
    return world


def resign(world: World, receipt: Receipt, body: ReceiptBody) -> Receipt:
    """The provider's receipt with another body."""
    return replace(receipt, body=body, signature=signature.sign(world.provider, "receipt", body.encode()))


@dataclass
class SimulatedEvidence:
    """The provider's side of an audit."""

    world: World

    def checkpoint(self) -> bytes:
        return self.world.checkpoint()

    def entries(self, start: int, stop: int) -> list[bytes]:
        return self.world.entries()[start:stop]

    def manifest(self, window: str) -> bytes:
        if self.world.shown_manifest is not None:
            return self.world.shown_manifest
        found = [m for m in self.world.messages if isinstance(m, SignedManifest) and window in ("", m.manifest.window)]
        return found[-1].encode()

    def deliver(self, ask: Ask, proof: bytes) -> bytes:
        """Whatever the provider has for an ask, signed by it."""
        match ask:
            case RegistryAsk():
                payload = self.registry()
            case ProofsAsk():
                payload = self.proofs(ask.manifest, ask.seqs)
            case LinksAsk():
                payload = self.estimate(ask.manifest)
            case BlocksAsk():
                payload = self.estimate_proofs(ask.manifest, ask.key_digest, ask.tenant, ask.blocks)
        return Delivery.sign(self.world.provider, ask.digest(), payload).encode()

    def patiently(self, once: Callable[[], Any]) -> Any:
        return once()

    def registry(self) -> bytes:
        return Registry(tuple(self.world.registry)).encode()

    def index_file(self, manifest: bytes, tenant: str) -> bytes:
        return self.world.files[tenant].encode()

    def thinned_file(self, manifest: bytes, tenant: str) -> bytes:
        return self.world.thinned[manifest, tenant].encode()

    def proofs(self, manifest: bytes, seqs: Sequence[int]) -> bytes:
        self.world.asked.append(list(seqs))
        return self.world.tamper_batch(self.world.batch(manifest, seqs)).encode()

    def estimate(self, manifest: bytes) -> bytes:
        return self.world.estimator.signed().encode()

    def estimate_proofs(
        self, manifest: bytes, key_digest: bytes, tenant: str, blocks: Sequence[Sequence[int]]
    ) -> bytes:
        return self.world.estimator.batch(tenant, blocks).encode()
