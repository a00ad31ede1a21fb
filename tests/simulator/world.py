# SPDX-License-Identifier: GPL-3.0-or-later
"""An honest provider, auditor and two tenants' accounts in memory, at the level of kernel messages.

Everything is real (log, signatures, columns, openings, beacon, receipts) but the key: :class:`BindingKey` stands
for one and accepts exactly the statements it "proved", as a sound proof system does, so that the checklist can be
attacked without compiling a circuit.  Tests change one thing before or after the log is written.
"""

from __future__ import annotations

import hashlib
import itertools
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Self

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.poseidon import commit_lists
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
from ragseal.kernel.committed import CommittedBases, Use
from ragseal.kernel.emptied import EmptiedFile
from ragseal.kernel.encoding import Message
from ragseal.kernel.opening import Opening, Relation, powers, prove_opening
from ragseal.kernel.params import R
from ragseal.kernel.policy import Policy
from ragseal.kernel.proofs import BatchItem, ProofBatch, ProofEntry, SameEmbeddingOpening, statement_of
from ragseal.kernel.record_proofs import statements_of
from ragseal.kernel.statement import Returned
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

_OPENED: dict[bytes, Opening] = {}  #: openings of this process, by all that they are about


@dataclass(kw_only=True)
class Kept:
    """What the provider keeps of one query."""

    tenant: str
    e: list[int]
    blinder: int
    rho: int
    hidden: Sequence[tuple[bytes, ...]]  #: what the commitments of every shard open to, packed, by use
    shared: tuple[int, ...]  #: what C_v opens to
    rho_hint: int  #: blinder of the first commitment of a record; each other one has the next number
    rho_v: int  #: blinder of C_v
    t_salt: int
    number: int = 0  #: of the update whose version the record names

    def blinders(self, bases: CommittedBases, shard: int) -> tuple[tuple[int, ...], ...]:
        """Of a shard's commitments, by use."""
        numbers = itertools.count(self.rho_hint + bases.count * shard)
        return tuple(tuple(itertools.islice(numbers, len(use.over))) for use in bases.own)


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
        returned, hidden, shared = self.select(wanted, tenant, e)
        salt = rng.randrange(R)
        size = len(columns) // self.shards
        c_y = b"".join(
            attestation.score_commitment(GROUP, columns[size * s : size * (s + 1)], self.key.scores, e, rho + s)
            for s in range(self.shards)
        )
        lists = commit_lists(self.cls, salt, returned, self.shards)
        entry = self.record(signed, c_y, lists, **(record or {}))
        kept = Kept(
            tenant=tenant,
            e=e,
            blinder=blinder,
            rho=rho,
            hidden=hidden,
            shared=shared,
            rho_hint=rho_hint,
            rho_v=rho + 1,
            t_salt=salt,
            number=self.number,
        )
        return self.enter(account, entry, kept, returned)

    def rules_of(self, tenant: str) -> Policy:
        """The policy by which a tenant is answered; a test's provider may take another one."""
        return self.manifest.rules(tenant)

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

    def record(self, signed: SignedRequest, c_y: bytes, t_commits: tuple[int, ...], **changes: Any) -> Record:
        """The next record; ``changes`` override its fields."""
        made = Record(
            manifest=self.digest,
            seq=self.seq,
            signed=signed,
            c_y=c_y,
            t_commits=t_commits,
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
    ) -> tuple[Sequence[Returned], Sequence[tuple[bytes, ...]], tuple[int, ...]]:
        """T, what every shard's commitments open to, and what C_v does; any will do for a key that looks at statements.

        The last slot came by the noise.
        """
        ids = sorted(self.rng.sample(range(self.cls.N * self.shards), self.manifest.policy.ids))
        returned = [Returned(slot, slot != ids[-1]) for slot in ids]
        return returned, [(scalars(self.rng, HINTS),)] * self.shards, (7, ids[0])

    def prove(self, record: Record, kept: Kept, shard: int, clear: list[int], committed: bytes) -> bytes:
        """The proof of one shard's statement.

        Args:
            clear: with alpha and beta as the last two.
            committed: its commitments, and C_v behind them.
        """
        proof: bytes = self.key.prove(clear, self.c_w(record)[64 * shard : 64 * (shard + 1)], committed)
        return proof

    def _answer(self, record: Record, tenant: str, returned: Sequence[Returned], salt: int) -> Answer:
        texts = self.tenants[tenant].texts

        def opened(slot: int) -> TextOpening:
            return TextOpening(slot_text(tenant, slot), bytes(32), tuple(texts.path(slot % (self.cls.N * self.shards))))

        readable = [one.slot for one in returned if one.flag]
        readable = readable[self.rules_of(tenant).withheld_of(len(readable)) :]  # a guard's choice is the provider's
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
        links = tuple(self.link(*version, context, items) for version in sorted({item.version for item in items}))
        entries = tuple(item.entry for item in items)
        return ProofBatch(manifest, entries, links, self.open_committed(context, items))

    def item(self, record: Record) -> BatchItem:
        """A record with its proof; one that ``tamper_entry`` leaves empty is made for what then stands there."""
        kept = self.kept[record.manifest, record.seq]
        c_w = self.c_w(record)
        statement = statement_of(
            self.rules_of(kept.tenant),
            self.cls,
            c_seed=self.manifest.c_seed,
            beacon=self.beacon,
            ctx=record.signed.request.ctx(),
            t_commits=record.t_commits,
        )
        committed, c_v = self.committed(kept), self.c_v(kept)
        entry = self.tamper_entry(ProofEntry(record.seq, record.digest(), committed, bytes(256 * self.shards), c_v))
        if not any(entry.proof):
            made = []
            for shard, stated in enumerate(statements_of(self.cls, statement, self.shards)):
                own = c_w[64 * shard : 64 * (shard + 1)]
                size = len(entry.committed) // self.shards
                added = entry.committed[size * shard : size * (shard + 1)] + entry.c_v
                alpha, beta = proofs.challenges(self.key.digest, record.digest(), stated, own, added)
                made.append(self.prove(record, kept, shard, [*stated, alpha, beta], added))
            entry = replace(entry, proof=b"".join(made))
        return BatchItem(record, record.digest(), kept.tenant, statement, c_w, entry, kept.number)

    def c_w(self, record: Record) -> bytes:
        return proofs.shifted_scores(GROUP, [record.c_y], self.key.sum_y, self.manifest.policy, self.cls)[0]

    def committed(self, kept: Kept) -> bytes:
        """The commitments of every shard's proof."""
        bases: CommittedBases = self.key.committed
        return b"".join(bases.commit(GROUP, own, kept.blinders(bases, shard)) for shard, own in enumerate(kept.hidden))

    def c_v(self, kept: Kept) -> bytes:
        """The commitment to what a record's shards share."""
        made: bytes = self.key.committed.commit_shared(GROUP, kept.shared, kept.rho_v)
        return made

    def open_committed(self, context: bytes, items: Sequence[BatchItem]) -> tuple[Opening, ...]:
        """The openings of what a batch commits to: as good as the witnesses allow."""
        bases: CommittedBases = self.key.committed
        kept = [self.kept[item.record.manifest, item.record.seq] for item in items]
        proven = [(one, shard, one.blinders(bases, shard)) for one in kept for shard in range(self.shards)]
        rows = [
            [one.hidden[shard][k] + field.pack(own[k]) for one, shard, own in proven] for k in range(len(bases.own))
        ]
        rows.append([field.pack([*one.shared, one.rho_v, *self._sums(one)]) for one in kept])
        due = proofs.committed_relations(bases, items)
        return tuple(self.open(use, context, relations, its) for (use, relations), its in zip(due, rows, strict=True))

    def _sums(self, kept: Kept) -> list[int]:
        """Blinders of the sums over shards that the opening of all C_v is about, too."""
        bases: CommittedBases = self.key.committed
        every = [list(itertools.chain.from_iterable(kept.blinders(bases, shard))) for shard in range(len(kept.hidden))]
        return [sum(own[at] for own in every) % R for at in bases.sums]

    def open(self, use: Use, context: bytes, relations: Sequence[Relation], rows: Sequence[bytes]) -> Opening:
        """One opening of a batch, from the witness of every commitment."""
        weights = powers(opening.batching_challenge(use.name, context), len(rows))
        witness = GROUP.combine(rows, weights)
        committed = b"".join(point for relation in relations for point in relation.commitments)
        parts = (use.name.encode(), context, self.key.digest, committed, witness)
        place = hashlib.sha256(b"".join(parts)).digest()
        if place not in _OPENED:  # a third of a second, and most tests audit the same honest window
            nonces = scalars(random.Random(place), use.size)
            _OPENED[place] = prove_opening(GROUP, use.name, context, relations, witness, nonces)
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
