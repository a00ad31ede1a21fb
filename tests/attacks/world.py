# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that cheats in one thing: real circuit, real keys, real Groth16 proofs, a whole window around them.

:class:`AttackWorld` adds to the verifier tests' world (real log, signatures, beacon, receipts) what that leaves out:
class tiny as compiled, a key made for it, the native prover, and the answer path of SPEC M and B.  A
:class:`Cheat` says what the provider does differently for one query; everything that the cheat does not touch, and
every proof and opening that still can be made for it, is made as well as an attacker could.
"""

from __future__ import annotations

import hashlib
import json
import random
import shutil
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
from py_ecc import optimized_bn128 as bn128

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import Engine, open_engine
from ragseal.backends.native import native, native_errors
from ragseal.circuits.build import DEFAULT_CACHE, BuiltCircuit, build
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.groth16.assignments import Assignment
from ragseal.groth16.keys import KeyPaths, KeyView, load_key, make_keys
from ragseal.groth16.snarkjs import proof_bytes
from ragseal.kernel import attestation, commitment, mechanism, signature, statement
from ragseal.kernel import field as scalars
from ragseal.kernel import opening as openings
from ragseal.kernel.attestation import (
    NO_RECEIPT,
    BatchItem,
    ProofBatch,
    ProofEntry,
    Record,
    Request,
    SameEmbeddingOpening,
    SignedRequest,
    Statement,
)
from ragseal.kernel.commitment import IndexFile, TenantIndex, text_leaf
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.opening import Opening, powers, prove_opening
from ragseal.kernel.params import CircuitClass, P, R
from ragseal.kernel.policy import Policy
from ragseal.kernel.statement import Returned, places_commitment, seed_commitment
from ragseal.ledger.merkle import MerkleTree
from ragseal.verifier.evidence import Auditor, ConfiguredKey
from ragseal.verifier.verification import Verdict
from tests.circuits.drafts import Draft as Draft
from tests.circuits.drafts import Setting
from tests.verifier import simulator

ROOT = Path(__file__).parents[2]
KEYS = ROOT / "var" / "keys"
DIMENSION = 8
GROUP = default_group()
GENERATORS = commitment.generators(GROUP, DIMENSION)
TENANT_NAMES = ("north", "south")

Extra = tuple[tuple[bytes, int], ...]  #: (base, coefficient) pairs


@dataclass(frozen=True)
class Machine:
    """A compiled class with a key, and what proves under it."""

    cls: CircuitClass
    digest: bytes  #: of the class
    built: BuiltCircuit
    paths: KeyPaths
    key: KeyView
    r1cs: Any
    proving: Any
    engine: Engine

    def base(self, name: str) -> bytes:
        """The IC point of a clear input."""
        return bytes(self.key.vk.ic(1 + statement.CLEAR_NAMES.index(name), 1))

    def witness(self, assignment: Assignment) -> Any:
        """All wires by propagation; nothing is checked."""
        with native_errors():
            return self.r1cs.solve(assignment.packed())

    def violated(self, assignment: Assignment) -> int | None:
        """The first row that the completed witness violates."""
        row = self.r1cs.check(self.witness(assignment))
        return None if row is None else int(row)

    def prove(self, assignment: Assignment) -> bytes:
        """A checked proof.  ProofError if the inputs satisfy no witness."""
        packed = assignment.packed()
        at = self.key.digest, hashlib.sha256(packed).digest()
        if at not in _PROOFS:
            with native_errors():
                _PROOFS[at] = bytes(self.proving.prove(self.r1cs.solve(packed)))
        return _PROOFS[at]

    def prove_unchecked(self, assignment: Assignment, folder: Path) -> bytes:
        """What snarkjs' prover makes of any witness, true or not: it checks neither the rows nor its own proof."""
        wtns, proof, public = folder / "w.wtns", folder / "proof.json", folder / "public.json"
        for old in (wtns, proof, public):
            old.unlink(missing_ok=True)
        self.witness(assignment).to_wtns(str(wtns))
        node = shutil.which("node")
        assert node is not None
        cli = ROOT / "circuits" / "node_modules" / "snarkjs" / "build" / "cli.cjs"
        command = [node, str(cli), "groth16", "prove", str(self.paths.zkey), str(wtns), str(proof), str(public)]
        subprocess.run(command, check=True, capture_output=True, timeout=300)
        return proof_bytes(json.loads(proof.read_text()))


_PROOFS: dict[tuple[bytes, bytes], bytes] = {}  #: honest records are the same in every world: proven once


def open_machine(cls: CircuitClass, paths: KeyPaths, built: BuiltCircuit) -> Machine:
    """Load what a key folder holds."""
    return Machine(
        cls=cls,
        digest=class_digest(cls),
        built=built,
        paths=paths,
        key=load_key(paths.directory, cls),
        r1cs=native.R1cs.load(str(built.r1cs)),
        proving=native.ProvingKey.load(str(paths.zkey)),
        engine=open_engine(cls),
    )


@cache
def machine(name: str = "tiny", keys: Path = KEYS) -> Machine:
    """Class tiny, compiled and keyed; built once and kept under var/."""
    cls = load_classes()[name]
    built = build(cls, DEFAULT_CACHE)
    return open_machine(cls, make_keys(built.r1cs, cls, class_digest(cls), keys), built)


def packed_random(rng: random.Random, count: int) -> bytes:
    return scalars.pack(rng.randrange(R) for _ in range(count))


@dataclass
class Tenant:
    """One tenant's index: random rows, its columns with their opening, its texts."""

    name: str
    rows: Any  #: N x d int64
    blinders: list[int]
    file: IndexFile
    texts: MerkleTree
    index: TenantIndex


def make_tenant(name: str, extra: Mapping[int, Extra] | None = None, on: Machine | None = None) -> Tenant:
    """``extra``: components outside the span, by column."""
    tools = on or machine()
    key, cls = tools.key, tools.cls
    rng = random.Random(name)
    rows = [[rng.randrange(-60, 61) for _ in range(DIMENSION)] for _ in range(cls.N)]
    blinders = [rng.randrange(1, R) for _ in range(DIMENSION)]
    columns = b""
    for j in range(DIMENSION):
        more = (extra or {}).get(j, ())
        points = key.scores.y + key.scores.b + b"".join(base for base, _ in more)
        columns += GROUP.msm(points, scalars.pack([*(row[j] for row in rows), blinders[j], *(k for _, k in more)]))
    weights = powers(commitment.columns_batching_challenge(key.digest, columns), DIMENSION)
    vectors = [*rows, blinders]
    witness = [sum(c * x for c, x in zip(weights, row, strict=True)) % R for row in vectors]
    opening = commitment.prove_columns(
        GROUP, key.scores, key.digest, columns, scalars.pack(witness), packed_random(rng, cls.N + 1)
    )
    file = IndexFile(columns, opening)
    texts = MerkleTree([text_leaf(bytes(32), i, f"{name} {i}".encode()) for i in range(cls.N)])
    index = TenantIndex(name, DIMENSION, file.columns_digest(), file.opening_digest(), texts.root())
    return Tenant(name, np.array(rows, dtype=np.int64), blinders, file, texts, index)


@cache
def honest_tenants() -> dict[str, Tenant]:
    return {name: make_tenant(name) for name in TENANT_NAMES}


def policy(tools: Machine | None = None, **changes: Any) -> Policy:
    """The verifier tests' policy for the real class."""
    on = tools or machine()
    return simulator.policy(class_digest=on.digest, dimension=DIMENSION, **changes)


@dataclass
class Cheat:
    """What the provider does differently for one query; by default nothing."""

    e: list[int] | None = None  #: the client's own e
    blinder: int | None = None  #: r of C_e
    e_after_nonce: Callable[[list[int]], list[int]] | None = None  #: another C_e put under the client's signature
    columns_of: str | None = None  #: C_y over another tenant's columns
    e_of_scores: Callable[[list[int]], list[int]] | None = None  #: C_y of another e than C_e
    y_extra: Extra = ()  #: added to C_y
    proven: Callable[[Statement, list[int]], Statement] = lambda s, e: s  #: clear inputs that the proof is really for
    seed: tuple[int, int] | None = None  #: of the noise
    scores: Callable[[list[int]], list[int]] = lambda w: w  #: the scores that the proof is really for
    released: Callable[[list[Returned]], list[Returned]] = lambda returned: returned  #: T of the record
    compensate: bool = False  #: put what is proven and not stated into C_h
    forge: Callable[[Draft], None] | None = None  #: edit the hints' draft; the winners it names are released
    h_of: Callable[[Draft, list[int]], list[int]] = lambda d, h: h  #: edit the finished hints, alpha and beta known
    h_in_scores: Callable[[list[int]], dict[int, int]] = lambda e: {}  #: what of h is committed in C_w instead of C_h
    chosen: Callable[[AttackWorld, Record, Query], Sequence[int]] | None = None  #: alpha and beta not as hashed
    prover: Callable[[Machine, Assignment], bytes] = Machine.prove
    request: dict[str, Any] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)


@dataclass
class Query:
    """All that the provider knows of one record."""

    tenant: str
    e: list[int]
    blinder: int
    rho: int
    rho_hint: int
    h: bytes  #: the hints that the proof is for
    h_open: bytes  #: the hints that C_h commits to
    h_extra: Extra  #: components of C_h outside its span
    assignment: Assignment  #: with alpha and beta still missing
    statement: Statement  #: as the ledger has it
    cheat: Cheat
    draft: Draft | None = None
    chosen: tuple[int, ...] = ()
    entry: ProofEntry | None = None


class AttackWorld(simulator.World):
    """A window with real proofs; :meth:`ask` takes a cheat."""

    def __init__(self, tools: Machine | None = None, tenants: dict[str, Tenant] | None = None) -> None:
        super().__init__()
        self.tools = tools or machine()
        self.key = self.tools.key
        self.tenants = tenants or honest_tenants()
        self.files = {name: tenant.file for name, tenant in self.tenants.items()}
        self.seed = (3 << 100, 5 << 90)
        self.queries_of: dict[tuple[bytes, int], Query] = {}
        self.tamper_items: Callable[[list[BatchItem]], list[BatchItem]] = lambda items: items

    # --- phase A ---

    def enter_manifest(self, name: str = "w1", *, policy_: Policy | None = None, **changes: Any) -> None:
        fixed = {
            "policy_": policy_ or policy(self.tools),
            "key_digest": self.key.digest,
            "tenants": tuple(self.tenants[t].index for t in sorted(self.tenants)),
            "c_seed": seed_commitment(self.seed),
        }
        super().enter_manifest(name, **{**fixed, **changes})

    # --- phase B ---

    def ask(self, account: str, cheat: Cheat | None = None, **unused: Any) -> Record:
        """One query, recorded and answered; proven when a batch needs it."""
        plan, rng = cheat or Cheat(), self.rng
        cls, policy_, key = self.tools.cls, self.manifest.policy, self.key
        tenant = next(a.tenant for a in self.registry if a.name == account)
        e = [rng.randrange(-64, 65) for _ in range(DIMENSION)]
        blinder, rho, rho_hint, salt = (rng.randrange(1, R) for _ in range(4))
        e = e if plan.e is None else plan.e
        blinder = blinder if plan.blinder is None else plan.blinder
        request = self._request(account, tenant, commitment.embedding_commitment(GROUP, GENERATORS, e, blinder), plan)
        signed = SignedRequest(request, signature.sign(simulator.key_of(account), "request", request.encode()))

        if plan.e_after_nonce is not None:
            e = plan.e_after_nonce(e)
            request = replace(request, c_e=commitment.embedding_commitment(GROUP, GENERATORS, e, blinder))
            signed = replace(signed, request=request)

        used = self.tenants[plan.columns_of or tenant]
        scored = plan.e_of_scores(e) if plan.e_of_scores else e
        c_y = attestation.score_commitment(GROUP, used.file.columns, key.scores, scored, rho)
        if plan.y_extra:
            points = c_y + b"".join(base for base, _ in plan.y_extra)
            c_y = GROUP.msm(points, scalars.pack([1, *(k for _, k in plan.y_extra)]))
        committed = [int(policy_.gain * (y - policy_.lo)) for y in used.rows @ np.array(scored, dtype=np.int64)]
        w = plan.scores(committed)

        stated = Statement(self.manifest.c_seed, self.beacon, request.ctx(), policy_.hmax, 0)
        proven, seed = plan.proven(stated, e), plan.seed or self.seed
        noise_of = noise_key(seed, proven.beacon, proven.ctx)
        blind = attestation.total_blinder(policy_, scored, used.blinders, rho, rho_hint)
        draft: Draft | None = None
        if plan.forge is None:
            scores = np.array(w, dtype=np.int64)
            returned = list(self.tools.engine.answer(noise_of, scores, proven.hmax))
            h = self.tools.engine.hints(noise_of, scores, proven.hmax)
        else:
            draft = Draft(cls, seed, proven.beacon, proven.ctx, proven.hmax, salt, 0, 0, blind, list(w), [])
            draft.elements = mechanism.coarse_elements(cls, draft.key)
            draft.read_coarse()
            setting().choose(draft)
            draft.settle()
            plan.forge(draft)
            returned, w, h = draft.returned(), draft.w, scalars.pack(draft.hints())
        proven = replace(proven, t_commit=places_commitment(cls, salt, returned))
        shown = plan.released(returned)
        entry = Record(
            manifest=self.digest,
            seq=self.seq,
            signed=signed,
            c_y=c_y,
            t_commit=places_commitment(cls, salt, shown),
            time=simulator.OPENS + 120 + 60 * (self.seq // 2),
            proof_mode=attestation.ON_DEMAND,
        )
        entry = replace(entry, **plan.record)
        stated = replace(stated, t_commit=entry.t_commit)
        extra: list[tuple[bytes, int]] = []
        if plan.compensate:
            for name, real, mine in zip(statement.CLEAR_NAMES, stated.clear(), proven.clear(), strict=False):
                if real != mine:
                    extra.append((self.tools.base(name), mine - real))
            for i, (real, mine) in enumerate(zip(committed, w, strict=True)):
                if real != mine:
                    extra.append((key.scores.y[64 * i : 64 * i + 64], mine - real))
        self.queries_of[self.digest, entry.seq] = Query(
            tenant=tenant,
            e=e,
            blinder=blinder,
            rho=rho,
            rho_hint=rho_hint,
            h=h,
            h_open=self._shifted(h, plan.h_in_scores(e)),
            h_extra=tuple(extra),
            assignment=Assignment(tuple(proven.clear()), tuple(w), h, blind, seed, salt),
            statement=stated,
            cheat=plan,
            draft=draft,
        )
        self.kept[self.digest, entry.seq] = simulator.Kept(tenant, e, blinder, rho, [], rho_hint, salt)
        self.seq += 1
        self.messages.append(entry)
        self.answers.append(self._answer(entry, tenant, shown, salt))
        self.last[account] = self.answers[-1].receipt.digest()
        return entry

    def _request(self, account: str, tenant: str, c_e: bytes, plan: Cheat) -> Request:
        self.ctrs[account] = self.ctrs.get(account, 0) + 1
        made = Request(
            origin=simulator.ORIGIN,
            window=self.manifest.window,
            manifest=self.digest,
            account=simulator.pseudonym(account),
            ctr=self.ctrs[account],
            request_id=self.rng.randbytes(16),
            query_digest=self.rng.randbytes(32),
            c_e=c_e,
            index_digest=self.tenants[tenant].index.digest(),
            checked=True,
            nonce=self.rng.randbytes(16),
            last_receipt=self.last.get(account, NO_RECEIPT),
            seal_key=simulator.SEAL_KEY,
        )
        return replace(made, **plan.request)

    # --- proofs ---

    def hint_commitment(self, query: Query) -> bytes:
        """C_h, with whatever the cheat adds."""
        points = self.key.hints + self.key.scores.b + b"".join(base for base, _ in query.h_extra)
        return GROUP.msm(points, query.h_open + scalars.pack([query.rho_hint, *(k % R for _, k in query.h_extra)]))

    def c_w(self, record: Record) -> bytes:
        return attestation.shifted_scores(GROUP, record.c_y, self.key.sum_y, self.manifest.policy)

    def assignment(self, record: Record, query: Query) -> Assignment:
        """All inputs, alpha and beta included."""
        at = query.chosen or self.challenges(record, query)
        return replace(query.assignment, clear=(*query.assignment.clear, *at))

    def challenges(self, record: Record, query: Query) -> tuple[int, ...]:
        """alpha and beta as the verifier derives them."""
        c_h = self.hint_commitment(query)
        return tuple(attestation.challenges(self.key.digest, record.digest(), query.statement, self.c_w(record), c_h))

    def _shifted(self, h: bytes, shifts: dict[int, int]) -> bytes:
        """h without what C_w carries of it."""
        values = list(scalars.unpack(h)) if shifts else []
        for at, shift in shifts.items():
            values[at] = (values[at] - shift) % R
        return scalars.pack(values) if shifts else h

    def _forge(self, record: Record, query: Query, draft: Draft) -> None:
        """Finish a forged draft: alpha and beta are known where the cheat has its own."""
        if query.cheat.chosen is not None:
            query.chosen = tuple(query.cheat.chosen(self, record, query))
            draft.alpha, draft.beta = query.chosen
        query.h = query.h_open = scalars.pack(x % R for x in query.cheat.h_of(draft, draft.hints()))
        query.assignment = replace(query.assignment, h=query.h)

    def entry(self, record: Record) -> ProofEntry:
        """The proof of one record, made once."""
        query = self.queries_of[record.manifest, record.seq]
        if query.entry is None:
            if query.draft is not None:
                self._forge(record, query, query.draft)
            proof = query.cheat.prover(self.tools, self.assignment(record, query))
            query.entry = ProofEntry(record.seq, record.digest(), self.hint_commitment(query), proof)
        return query.entry

    def records(self, manifest: bytes | None = None) -> list[Record]:
        wanted = manifest or self.digest
        return [m for m in self.messages if isinstance(m, Record) and m.manifest == wanted]

    def item(self, record: Record) -> BatchItem:
        query = self.queries_of[record.manifest, record.seq]
        made = self.tamper_entry(self.entry(record))
        return BatchItem(record, record.digest(), query.tenant, query.statement, self.c_w(record), made)

    def batch(self, manifest: bytes, seqs: Sequence[int]) -> ProofBatch:
        """Proofs and openings of these records, in this order."""
        known = {record.seq: record for record in self.records(manifest)}
        items = self.tamper_items([self.item(known[seq]) for seq in seqs])
        context = attestation.batch_context(self.key.digest, manifest, items)
        links = tuple(self.link(t, context, items) for t in sorted({item.tenant for item in items}))
        return ProofBatch(manifest, tuple(item.entry for item in items), links, self.open_hints(context, items))

    def open_hints(self, context: bytes, items: Sequence[BatchItem]) -> Opening:
        """The hint opening of a batch: as good as the witness allows."""
        size = self.key.layout.size + 1
        weights = powers(openings.batching_challenge("hints", context), len(items))
        queries = [self.queries_of[item.record.manifest, item.record.seq] for item in items]
        witness = GROUP.combine([q.h_open + scalars.pack([q.rho_hint]) for q in queries], weights)
        relation = attestation.hint_relation(self.key.hints, self.key.scores.b, items)
        return prove_opening(GROUP, "hints", context, [relation], witness, packed_random(self.rng, size))

    def link(self, tenant: str, context: bytes, items: Sequence[BatchItem]) -> SameEmbeddingOpening:
        """The link opening of one tenant's records: of the e in C_e."""
        own = [item for item in items if item.tenant == tenant]
        here = attestation.link_context(context, tenant, self.tenants[tenant].index.digest())
        queries = [self.queries_of[item.record.manifest, item.record.seq] for item in own]
        weights = powers(openings.batching_challenge("link", here), len(own))
        witness = GROUP.combine([scalars.pack([*q.e, q.blinder, q.rho]) for q in queries], weights)
        relations = attestation.link_relations(GENERATORS, self.tenants[tenant].file.columns, self.key.scores.b, own)
        nonces = packed_random(self.rng, DIMENSION + 2)
        return SameEmbeddingOpening(tenant, prove_opening(GROUP, "link", here, relations, witness, nonces))

    # --- phase D ---

    def auditor(self) -> Auditor:
        cls, digest = self.tools.cls, self.tools.digest
        configured = ConfiguredKey(self.key.digest, cls.name, digest, self.made_by, lambda: self.key)
        own = replace(super().auditor(), classes={cls.name: (cls, digest)})
        return replace(own, keys={self.key.digest: configured})


@cache
def setting() -> Setting:
    """What drafts need of a class to choose its places."""
    none: Any = None
    return Setting(machine().cls, none)


def queried(cheat: Cheat | None = None, account: str = "carol", **world: Any) -> AttackWorld:
    """A closed window: an honest query, the one that is cheated, another honest one."""
    made = AttackWorld(**world)
    made.commit()
    made.ask("alice")
    made.ask(account, cheat)
    made.ask("bob")
    made.close()
    return made


def refused(world: simulator.World, step: int, match: str, **options: Any) -> Verdict:
    """The audit ends in FAIL at this step for this reason."""
    verdict = world.audit(**options)
    assert verdict.verdict == "FAIL", verdict.line()
    assert verdict.failure is not None
    assert verdict.failure.number == step, verdict.line()
    assert match in verdict.failure.message, verdict.line()
    return verdict


def undecided(world: simulator.World, step: int, match: str, **options: Any) -> Verdict:
    """The audit ends without a verdict at this step for this reason: nobody's signature shows who is at fault."""
    verdict = world.audit(**options)
    assert verdict.verdict == "NO VERDICT", verdict.line()
    assert verdict.obstacle is not None
    assert verdict.obstacle.number == step, verdict.line()
    assert match in verdict.obstacle.message, verdict.line()
    return verdict


def accepted(world: simulator.World, **options: Any) -> Verdict:
    """The audit of every record ends in PASS."""
    verdict = world.audit(**options)
    assert verdict.verdict == "PASS", verdict.line()
    return verdict


@cache
def outside_subgroup() -> bytes:
    """A point on the twist that is not in the subgroup of order r, in wire order."""
    rng = random.Random(1)
    one, minus_one, i = bn128.FQ2.one(), bn128.FQ2([P - 1, 0]), bn128.FQ2([0, 1])
    while True:
        x = bn128.FQ2([rng.randrange(P), rng.randrange(P)])
        square = x * x * x + bn128.b2
        # p = 3 mod 4: square roots in Fp2 by Adj and Rodriguez-Henriquez, algorithm 9.
        a1 = square ** ((P - 3) // 4)
        alpha, x0 = a1 * a1 * square, a1 * square
        y = x0 * i if alpha == minus_one else (alpha + one) ** ((P - 1) // 2) * x0
        if y * y == square and not bn128.is_inf(bn128.multiply((x, y, one), R)):
            return b"".join(int(c).to_bytes(32, "big") for c in (x.coeffs[1], x.coeffs[0], y.coeffs[1], y.coeffs[0]))
