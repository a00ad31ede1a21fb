# SPDX-License-Identifier: GPL-3.0-or-later
"""An honest provider, auditor and two tenants' accounts in memory, at the level of kernel messages.

Everything is real (log, signatures, columns, openings, beacon, receipts) but the key: :class:`BindingKey` stands
for one and accepts exactly the statements it "proved", as a sound proof system does, so that the checklist can be
attacked without compiling a circuit.  Tests change one thing before or after the log is written.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import attestation, commitment, field, opening, proofs, signature
from ragseal.kernel.attestation import (
    NO_RECEIPT,
    Answer,
    Openings,
    Receipt,
    ReceiptBody,
    Record,
    Request,
    SignedRequest,
    SlotOpening,
    TextOpening,
    sealed_digest,
)
from ragseal.kernel.beacon import (
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    Seat,
    beacon_commitment,
    beacon_value,
    seal_digest,
)
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import (
    IndexFile,
    Manifest,
    Registry,
    WindowClose,
    WindowOpen,
    registry_leaves,
)
from ragseal.kernel.emptied import EmptiedFile
from ragseal.kernel.encoding import Message
from ragseal.kernel.hint_opening import HintBases
from ragseal.kernel.opening import Opening, powers, prove_opening
from ragseal.kernel.params import R
from ragseal.kernel.policy import Policy
from ragseal.kernel.proofs import BatchItem, ProofBatch, ProofEntry, SameEmbeddingOpening, Statement
from ragseal.kernel.record_proofs import statements_of
from ragseal.kernel.statement import Returned, places_commitment
from ragseal.kernel.thinning import ThinnedFile
from ragseal.kernel.verdict import log_digest
from ragseal.ledger.checkpoint import Checkpoint, SignedCheckpoint, open_checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteSigner
from ragseal.verifier.audit.findings import Environment
from ragseal.verifier.audit.verification import audit
from ragseal.verifier.evidence.evidence import Auditor, ConfiguredKey, ReceiptFile
from ragseal.verifier.outcome.outcome import Verdict
from tests.simulator.entries import beacon_commit, beacon_seal, signed_manifest
from tests.simulator.estimates import binding
from tests.simulator.evidence import SimulatedEvidence
from tests.simulator.parties import (
    ACCOUNTS,
    CLASS_DIGEST,
    CLS,
    GROUP,
    HINTS,
    KEY,
    NOW,
    OPENS,
    ORIGIN,
    SEAL_KEY,
    TENANTS,
    Tenant,
    key_of,
    policy,
    pseudonym,
    registry,
    scalars,
    slot_text,
)

_OPENED: dict[bytes, Opening] = {}  #: hint openings of this process, by all that they are about


@dataclass(kw_only=True)
class Kept:
    """What the provider keeps of one query."""

    tenant: str
    e: list[int]
    blinder: int
    rho: int
    hints: bytes  #: what C_h commits to, packed
    rho_hint: int
    t_salt: int
    rho_bounds: int = 0  #: blinder of C_1, where there is one
    threshold: tuple[int, int] | None = None  #: (v*, i*), where C_v holds it
    rho_v: int = 0  #: blinder of C_v
    number: int = 0  #: of the update whose version the record names

    def hint_blinders(self, bases: HintBases) -> list[int]:
        """rho' of every commitment to hints."""
        return [self.rho_hint, self.rho_bounds][: bases.count]


class World:
    """One origin's log and everybody's secrets.  Build windows with :meth:`window`, audit with :meth:`audit`."""

    def __init__(
        self,
        key: Any = None,
        tenants: dict[str, Tenant] | None = None,
        *,
        cls: AttestationClass = CLS,
        class_digest: bytes = CLASS_DIGEST,
    ) -> None:
        self.key, self.cls, self.class_digest = key or KEY, cls, class_digest
        self.tenants = tenants or TENANTS
        self.dimension = next(iter(self.tenants.values())).index.dimension
        self.generators = commitment.generators(GROUP, self.dimension)
        self.rng = random.Random(1)
        self.signer = NoteSigner(ORIGIN, key_of("log"))
        self.provider = key_of("provider")
        self.window_key = key_of("window")  #: that the next manifest names; who wants windows apart changes it
        self.auditor_key = key_of("auditor")
        self.messages: list[Message] = []
        self.raw: dict[int, bytes] = {}  # entries that are not what messages say
        self.kept: dict[tuple[bytes, int], Kept] = {}
        self.answers: list[Answer] = []
        self.registry = registry(*ACCOUNTS)
        self.nonces: dict[bytes, bytes] = {}
        self.released: dict[bytes, bytes] = {}  #: what the auditor released its nonce for
        self.drawn: dict[bytes, int] = {}
        self.made_by = "auditor"
        self.participants: tuple[str, ...] = ()  #: of a ceremony
        self.remembered: SignedCheckpoint | None = None
        self.cosigned: bytes | None = None  #: the note that is served as witnessed
        self.files = {name: tenant.file for name, tenant in self.tenants.items()}
        self.thinned: dict[tuple[bytes, str], ThinnedFile] = {}  #: by manifest and tenant
        self.version_files: dict[tuple[bytes, int, str], IndexFile | EmptiedFile] = {}  #: by manifest, update, tenant
        self.shown_manifest: bytes | None = None
        self.tamper_batch: Callable[[ProofBatch], ProofBatch] = lambda batch: batch
        self.tamper_items: Callable[[list[BatchItem]], list[BatchItem]] = lambda items: items
        self.tamper_entry: Callable[[ProofEntry], ProofEntry] = lambda entry: entry
        self.asked: list[list[int]] = []
        self.estimator = binding(self)
        self.number = 0  #: of the update whose version the next record names
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
            log=log_digest(self.signer.verifier.vkey()),
            window=name,
            policy=policy_ or policy(),
            embedder=bytes(32),
            key_digest=self.key.digest,
            tenants=tuple(self.tenants[t].index for t in sorted(self.tenants)),
            c_seed=int.from_bytes(hashlib.sha256(name.encode()).digest()[:31], "big"),
            registry_root=MerkleTree(registry_leaves(self.registry)).root(),
            accounts=len(self.registry),
            provider_key=signature.public_bytes(self.provider),
            window_key=signature.public_bytes(self.window_key),
            beacon_commitment=beacon_commitment("provider", self.provider_nonce),
            auditors=(Seat("auditor", signature.public_bytes(self.auditor_key)),),
        )
        self.manifest = replace(manifest, **changes)
        self.digest = self.manifest.digest()
        self.messages.append(signed_manifest(self.manifest, self.provider))
        self.nonces.setdefault(self.digest, hashlib.sha256(b"auditor" + self.digest).digest())
        self.ctrs: dict[str, int] = {}
        self.last: dict[str, bytes] = {}
        self.seq = 0

    def commit_entry(self, owner: str, nonce: bytes, key: Ed25519PrivateKey) -> BeaconCommit:
        return beacon_commit(self.digest, owner, nonce, key)

    def seal_entry(self, *owners: str) -> BeaconSeal:
        return beacon_seal(self.digest, owners, self.window_key)

    def enter_beacon(self) -> None:
        observer = hashlib.sha256(b"observer").digest()
        mine = self.nonces[self.digest]
        openings = [("provider", self.provider_nonce), ("observer-1", observer), ("auditor", mine)]
        self.beacon = beacon_value(self.digest, openings)
        self.release(*openings)
        self.messages += [
            self.commit_entry("observer-1", observer, key_of("observer")),
            self.commit_entry("auditor", mine, self.auditor_key),
            self.seal_entry("provider", "observer-1", "auditor"),
            *(BeaconOpening(self.digest, owner, nonce) for owner, nonce in openings),
            WindowOpen(self.digest, self.beacon, OPENS + 60),
        ]

    def release(self, *openings: tuple[str, bytes]) -> None:
        """The auditor's folder says that its nonce was released for a beacon of these, in this order."""
        commitments = [(owner, beacon_commitment(owner, nonce)) for owner, nonce in openings]
        self.released[self.digest] = seal_digest(self.digest, commitments)

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
        tenant = self.tenant_of(account)
        e = e or [rng.randrange(-64, 65) for _ in range(self.dimension)]
        blinder, rho, rho_hint = (rng.randrange(1, R) for _ in range(3))
        c_e = commitment.embedding_commitment(GROUP, self.generators, e, blinder)
        wanted = self.request(account, c_e, checked=checked, **(request or {}))
        signed = SignedRequest(wanted, signature.sign(key_of(sign_as or account), "request", wanted.encode()))
        columns = self.tenants[columns_of or tenant].file.columns
        returned, hints, threshold = self.select(wanted, tenant, e)
        salt = rng.randrange(R)
        size = len(columns) // self.shards
        c_y = b"".join(
            attestation.score_commitment(GROUP, columns[size * s : size * (s + 1)], self.key.scores, e, rho + s)
            for s in range(self.shards)
        )
        entry = self.record(signed, c_y, places_commitment(self.cls, salt, returned), **(record or {}))
        kept = Kept(tenant=tenant, e=e, blinder=blinder, rho=rho, hints=hints, rho_hint=rho_hint, t_salt=salt)
        kept.threshold, kept.rho_v = threshold, rho + 1
        kept.number = self.number
        return self.enter(account, entry, kept, returned)

    @property
    def shards(self) -> int:
        """Of every tenant's index; that of shard s has the blinder rho + s."""
        return self.manifest.policy.shards

    def registry_payload(self) -> Message:
        """What its auditor is delivered as a window's registry."""
        return Registry(tuple(self.registry))

    def tenant_of(self, account: str) -> str:
        return next((a.tenant for a in self.registry if a.name == account), "north")

    def request(self, account: str, c_e: bytes, **changes: Any) -> Request:
        """The next request of an account; ``changes`` override its fields."""
        self.ctrs[account] = self.ctrs.get(account, 0) + 1
        made = Request(
            origin=ORIGIN,
            window=self.manifest.window,
            manifest=self.digest,
            account=pseudonym(account),
            ctr=self.ctrs[account],
            request_id=self.rng.randbytes(16),
            query_digest=self.rng.randbytes(32),
            c_e=c_e,
            index_digest=self.tenants[self.tenant_of(account)].index.digest(),
            checked=True,
            nonce=self.rng.randbytes(16),
            last_receipt=self.last.get(account, NO_RECEIPT),
            seal_key=SEAL_KEY,
        )
        return replace(made, **changes)

    def record(self, signed: SignedRequest, c_y: bytes, t_commit: int, **changes: Any) -> Record:
        """The next record; ``changes`` override its fields."""
        made = Record(
            manifest=self.digest,
            seq=self.seq,
            signed=signed,
            c_y=c_y,
            t_commit=t_commit,
            time=OPENS + 120 + 60 * (self.seq // 2),
            proof_mode=attestation.ON_DEMAND,
        )
        return replace(made, **changes)

    def enter(self, account: str, entry: Record, kept: Kept, returned: Sequence[Returned]) -> Record:
        """Log a record, keep what belongs to it, and answer."""
        self.kept[self.digest, entry.seq] = kept
        self.seq += 1
        self.messages.append(entry)
        self.answers.append(self._answer(entry, kept.tenant, returned, kept.t_salt))
        self.last[account] = self.answers[-1].receipt.digest()
        return entry

    def select(
        self, request: Request, tenant: str, e: list[int]
    ) -> tuple[list[Returned], bytes, tuple[int, int] | None]:
        """T, hints and threshold; any will do for a key that looks at statements only.

        The last slot came by the noise.
        """
        ids = sorted(self.rng.sample(range(self.cls.N * self.shards), self.cls.K))
        return [Returned(slot, slot != ids[-1]) for slot in ids], scalars(self.rng, HINTS), (7, ids[0])

    def prove(self, record: Record, kept: Kept, clear: list[int], c_w: bytes, c_h: bytes) -> bytes:
        """The proof of one statement."""
        proof: bytes = self.key.prove(clear, c_w, c_h)
        return proof

    def _answer(self, record: Record, tenant: str, returned: Sequence[Returned], salt: int) -> Answer:
        texts = self.tenants[tenant].texts

        def opened(slot: int) -> TextOpening:
            return TextOpening(slot_text(tenant, slot), bytes(32), tuple(texts.path(slot % (self.cls.N * self.shards))))

        readable = [one.slot for one in returned if one.flag]
        readable = readable[self.manifest.policy.withheld_of(len(readable)) :]  # a guard's choice is the provider's
        slots = [
            SlotOpening(one.slot, one.flag, (opened(one.slot),) if one.slot in readable else ()) for one in returned
        ]
        openings = Openings(salt, tuple(slots))
        return Answer(record, openings, self.receipt(record, len(self.messages) - 1, openings.digest()))

    def receipt(self, record: Record, index: int, openings_digest: bytes) -> Receipt:
        tree = MerkleTree(self.entries())
        body = ReceiptBody(
            manifest=record.manifest,
            request_digest=record.signed.request.digest(),
            record_digest=record.digest(),
            seq=record.seq,
            index=index,
            openings_digest=openings_digest,
            sealed_digest=sealed_digest(b"sealed for " + record.digest()),
            checkpoint=self.checkpoint(),
        )
        return Receipt(body, signature.sign(self.window_key, "receipt", body.encode()), tuple(tree.path(index)))

    def close(self, time: int = OPENS + 3000) -> None:
        self.messages.append(WindowClose(self.digest, self.seq, time))

    @classmethod
    def honest(cls, **changes: Any) -> Self:
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

    # --- proofs ---  (challenges by their module's name: tests of a predictable one replace it there)

    def records(self, manifest: bytes | None = None) -> list[Record]:
        """Of a window, by default of the newest."""
        wanted = manifest or self.digest
        return [m for m in self.messages if isinstance(m, Record) and m.manifest == wanted]

    def batch(self, manifest: bytes, seqs: Sequence[int]) -> ProofBatch:
        """Proofs and openings of these records, in this order."""
        known = {record.seq: record for record in self.records(manifest)}
        items = self.tamper_items([self.item(known[seq]) for seq in seqs])
        context = proofs.batch_context(self.key.digest, manifest, items)
        hints = self.open_hints(context, items)
        links = tuple(self.link(*version, context, items) for version in sorted({item.version for item in items}))
        entries = tuple(item.entry for item in items)
        return ProofBatch(manifest, entries, links, hints, self.open_thresholds(context, items))

    def item(self, record: Record) -> BatchItem:
        """A record with its proof; one that ``tamper_entry`` leaves empty is made for what then stands there."""
        kept = self.kept[record.manifest, record.seq]
        c_w = self.c_w(record)
        statement = Statement(
            self.manifest.c_seed,
            self.beacon,
            record.signed.request.ctx(),
            self.manifest.policy.hmax(self.cls),
            record.t_commit,
        )
        c_h, c_v = self.hint_commitment(kept) * self.shards, self.threshold_commitments(kept)
        entry = self.tamper_entry(ProofEntry(record.seq, record.digest(), c_h, bytes(256 * self.shards), c_v))
        if not any(entry.proof):
            made = []
            for shard, stated in enumerate(statements_of(self.cls, statement, self.shards)):
                own = c_w[64 * shard : 64 * (shard + 1)]
                size = len(entry.c_h) // self.shards
                added = entry.c_h[size * shard : size * (shard + 1)] + b"".join(entry.c_v)
                alpha, beta = proofs.challenges(self.key.digest, record.digest(), stated, own, added)
                made.append(self.prove(record, kept, [*stated.clear(), alpha, beta], own, added))
            entry = replace(entry, proof=b"".join(made))
        return BatchItem(record, record.digest(), kept.tenant, statement, c_w, entry, kept.number)

    def c_w(self, record: Record) -> bytes:
        return proofs.shifted_scores(GROUP, [record.c_y], self.key.sum_y, self.manifest.policy, self.cls)[0]

    def of_shard(self, common: Statement) -> Statement:
        """What the proof of the one shard states."""
        return statements_of(self.cls, common, 1)[0]

    def threshold_commitments(self, kept: Kept) -> tuple[bytes, ...]:
        """C_v, of a class that has it."""
        bases = self.key.thresholds
        if bases is None or kept.threshold is None:
            return ()
        return (bases.commit(GROUP, *kept.threshold, kept.rho_v),)

    def open_thresholds(self, context: bytes, items: Sequence[BatchItem]) -> tuple[Opening, ...]:
        """The opening of all C_v of a batch: as good as the witness allows."""
        bases = self.key.thresholds
        if bases is None:
            return ()
        kept = [self.kept[item.record.manifest, item.record.seq] for item in items]
        weights = powers(opening.batching_challenge("thresholds", context), len(items))
        witness = GROUP.combine([bases.witness(*(k.threshold or (0, 0)), k.rho_v) for k in kept], weights)
        relation = bases.relation([c_v for item in items for c_v in item.entry.c_v])
        place = hashlib.sha256(b"".join((context, self.key.digest, *relation.commitments, witness))).digest()
        if place not in _OPENED:
            nonces = scalars(random.Random(place), bases.size)
            _OPENED[place] = prove_opening(GROUP, "thresholds", context, [relation], witness, nonces)
        return (_OPENED[place],)

    def hint_commitment(self, kept: Kept) -> bytes:
        """C_h, the same in every shard: these keys look at statements only."""
        return bytes(self.key.hint_bases.commit(GROUP, kept.hints, kept.hint_blinders(self.key.hint_bases)))

    def open_hints(self, context: bytes, items: Sequence[BatchItem]) -> Opening:
        """The hint opening of a batch: as good as the witness allows."""
        bases = self.key.hint_bases
        commitments = proofs.hint_commitments(bases, items)
        weights = powers(opening.batching_challenge("hints", context), len(items) * self.shards)
        kept = [self.kept[item.record.manifest, item.record.seq] for item in items for _ in range(self.shards)]
        witness = GROUP.combine([bases.witness(k.hints, k.hint_blinders(bases)) for k in kept], weights)
        place = hashlib.sha256(b"".join((context, self.key.digest, *commitments, witness))).digest()
        if place not in _OPENED:  # a third of a second, and most tests audit the same honest window
            nonces = scalars(self.rng, len(witness) // 32)
            _OPENED[place] = prove_opening(GROUP, "hints", context, bases.relations(commitments), witness, nonces)
        return _OPENED[place]

    def indexed(self, tenant: str, number: int) -> Tenant:
        """A tenant's index in the version of an update, 0: the window's."""
        return self.tenants[tenant]

    def link(self, tenant: str, number: int, context: bytes, items: Sequence[BatchItem]) -> SameEmbeddingOpening:
        """The link opening of the records of one version of a tenant's index: of the e in C_e."""
        own = [item for item in items if item.version == (tenant, number)]
        of = self.indexed(tenant, number)
        here = proofs.link_context(context, tenant, of.index.digest())
        kept = [self.kept[item.record.manifest, item.record.seq] for item in own]
        weights = powers(opening.batching_challenge("link", here), len(own))
        psi = powers(proofs.shard_weight(here), self.shards)
        rhos = [sum(weight * (k.rho + s) for s, weight in enumerate(psi)) % R for k in kept]
        rows = [field.pack([*k.e, k.blinder, rho]) for k, rho in zip(kept, rhos, strict=True)]
        witness = GROUP.combine(rows, weights)
        columns = of.file.columns
        relations = proofs.link_relations(self.generators, columns, self.key.scores.b, here, own)
        nonces = scalars(self.rng, self.dimension + 2)
        return SameEmbeddingOpening(tenant, prove_opening(GROUP, "link", here, relations, witness, nonces), number)

    # --- phase D ---

    def auditor(self) -> Auditor:
        key = ConfiguredKey(
            self.key.digest, self.cls.name, self.class_digest, self.made_by, lambda: self.key, self.participants
        )
        return Auditor(
            self.signer.verifier,
            {self.cls.name: (self.cls, self.class_digest)},
            {self.key.digest: key},
            signature.public_bytes(self.auditor_key),
            self.nonces,
            self.released,
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
    return replace(receipt, body=body, signature=signature.sign(world.window_key, "receipt", body.encode()))
