# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that cheats in one thing: real circuit, real keys, real Groth16 proofs, a whole window around them.

:class:`AttackWorld` adds to the simulator's world (real log, signatures, beacon, receipts) what that leaves out: class
tiny as compiled, a key made for it, the native prover, and the answer path of SPEC M and B.  A
:class:`Cheat` says what the provider does differently for one query; everything that the cheat does not touch, and
every proof and opening that still can be made for it, is made as well as an attacker could.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from itertools import chain
from typing import Any

import numpy as np
from py_ecc import optimized_bn128 as bn128

from ragseal.backends.poseidon import commit_lists
from ragseal.groth16.assignments import Assignment, assign_attestation
from ragseal.kernel import attestation, commitment, noise_statement, proofs, signature
from ragseal.kernel import field as scalars
from ragseal.kernel.attestation import Record, Request, SignedRequest
from ragseal.kernel.bn254 import POINT_BYTES
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.noise_mechanism import wide_elements
from ragseal.kernel.params import TAG_COARSE, TAG_FINE, P, R
from ragseal.kernel.policy import Policy
from ragseal.kernel.proofs import BatchItem, ProofEntry, Statement
from ragseal.kernel.record_proofs import statements_of
from ragseal.kernel.statement import Returned, seed_commitment
from ragseal.verifier.outcome.outcome import Verdict
from tests import simulator
from tests.attacks.machine import DIMENSION, GROUP, Machine, honest_tenants, machine, policy
from tests.circuits.noise_drafts import NoiseDraft, finish
from tests.simulator.keys import KEYS as KEYS
from tests.simulator.keys import ROOT as ROOT
from tests.simulator.parties import Extra, Tenant


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
    into_c_v: bool = False  #: what :attr:`compensate` says, into C_v instead
    forge: Callable[[NoiseDraft], bool] | None = None  #: edit the hints' draft, whose winners are released
    true_bounds: bool = False  #: C_1 holds the bounds that stood in the draft before it was edited
    h_of: Callable[[NoiseDraft, list[int]], list[int]] = lambda d, h: h  #: edit the finished hints
    h_in_scores: Callable[[list[int]], dict[int, int]] = lambda e: {}  #: what of h is committed in C_w instead of C_h
    chosen: Callable[[AttackWorld, Record, Query], Sequence[int]] | None = None  #: alpha and beta not as hashed
    prover: Callable[[Machine, Assignment], bytes] = Machine.prove
    request: dict[str, Any] = field(default_factory=dict)
    record: dict[str, Any] = field(default_factory=dict)


@dataclass(kw_only=True)
class Query(simulator.Kept):
    """All that the provider knows of one record; ``hidden`` are the hints that C_h commits to."""

    h: bytes  #: the hints that the proof is for
    h_extra: Extra = ()  #: components of C_h outside its span
    v_extra: Extra = ()  #: of C_v
    w: tuple[int, ...]  #: the scores that the proof is for
    proven: Statement  #: what the proof is for
    inside: int  #: the blinder of C_w
    seed: tuple[int, int]  #: of the noise
    statement: Statement  #: as the ledger has it
    cheat: Cheat
    draft: NoiseDraft | None = None
    bounds: tuple[int, ...] = ()  #: what C_1 commits to where it is not what the hints say
    chosen: tuple[int, ...] = ()
    entry: ProofEntry | None = None


class AttackWorld(simulator.World):
    """A window with real proofs; :meth:`ask` takes a cheat."""

    def __init__(self, tools: Machine | None = None, tenants: dict[str, Tenant] | None = None) -> None:
        self.tools = tools or machine()
        super().__init__(
            self.tools.key, tenants or honest_tenants(), cls=self.tools.cls, class_digest=self.tools.digest
        )
        self.kept: dict[tuple[bytes, int], Query]
        self.seed = (3 << 100, 5 << 90)

    # --- phase A ---

    def enter_manifest(self, name: str = "w1", *, policy_: Policy | None = None, **changes: Any) -> None:
        own = {"c_seed": seed_commitment(self.seed), **changes}
        super().enter_manifest(name, policy_=policy_ or policy(self.tools), **own)

    # --- phase B ---

    def ask(self, account: str, cheat: Cheat | None = None, **unused: Any) -> Record:
        """One query, recorded and answered; proven when a batch needs it."""
        plan, rng = cheat or Cheat(), self.rng
        cls, policy_, key = self.tools.cls, self.manifest.policy, self.key
        tenant = self.tenant_of(account)
        e = [rng.randrange(-64, 65) for _ in range(DIMENSION)]
        blinder, rho, rho_hint, salt = (rng.randrange(1, R) for _ in range(4))
        e = e if plan.e is None else plan.e
        blinder = blinder if plan.blinder is None else plan.blinder
        c_e = commitment.embedding_commitment(GROUP, self.generators, e, blinder)
        request = self._fitting_request(account, c_e, e, plan)
        signed = SignedRequest(request, signature.sign(simulator.key_of(account), "request", request.encode()))

        if plan.e_after_nonce is not None:
            e = plan.e_after_nonce(e)
            request = replace(request, c_e=commitment.embedding_commitment(GROUP, self.generators, e, blinder))
            signed = replace(signed, request=request)

        used = self.tenants[plan.columns_of or tenant]
        scored = plan.e_of_scores(e) if plan.e_of_scores else e
        c_y = attestation.score_commitment(GROUP, used.file.columns, key.scores, scored, rho)
        if plan.y_extra:
            points = c_y + b"".join(base for base, _ in plan.y_extra)
            c_y = GROUP.msm(points, scalars.pack([1, *(k for _, k in plan.y_extra)]))
        products = np.array(used.rows, dtype=np.int64) @ np.array(scored, dtype=np.int64)
        committed = [int(policy_.gain * (y - policy_.lo)) for y in products]
        w = plan.scores(committed)

        stated = self.stated(request)
        proven, seed = plan.proven(stated, e), plan.seed or self.seed
        noise_of = noise_key(seed, proven.beacon, proven.ctx)
        draft, bounds = None, ()
        if plan.forge is None:
            scores = np.array(w, dtype=np.int64)
            returned = list(self.tools.engine.answer(noise_of, scores, proven.asked))
            hidden = self.tools.engine.hidden(noise_of, scores, proven.asked)
            (h,), shared = hidden[0], hidden.shared
        else:
            draft = self._draft(proven, w, salt)
            bounds = tuple(draft.b) if plan.true_bounds else ()
            plan.forge(draft)
            returned, h = draft.t(), scalars.pack(x % R for x in draft.hints())
            shared = draft.threshold, draft.base + draft.threshold_slot
        proven = replace(proven, t_commits=commit_lists(cls, salt, returned, 1))
        shown = plan.released(returned)
        entry = self.record(signed, c_y, commit_lists(cls, salt, shown, 1), **plan.record)
        stated = replace(stated, t_commits=entry.t_commits)
        extra: list[tuple[bytes, int]] = []
        if plan.compensate:
            pairs = zip(noise_statement.CLEAR_NAMES, self.of_shard(stated), self.of_shard(proven), strict=False)
            extra += [(self.tools.base(name), mine - real) for name, real, mine in pairs if real != mine]
            for i, (real, mine) in enumerate(zip(committed, w, strict=True)):
                if real != mine:
                    extra.append((key.scores.y[64 * i : 64 * i + 64], mine - real))
        query = Query(
            tenant=tenant,
            e=e,
            blinder=blinder,
            rho=rho,
            hidden=[(self._shifted(h, plan.h_in_scores(e)),)],
            shared=shared,
            rho_hint=rho_hint,
            rho_v=rho + 1,
            t_salt=salt,
            h=h,
            h_extra=() if plan.into_c_v else tuple(extra),
            v_extra=tuple(extra) if plan.into_c_v else (),
            w=tuple(w),
            proven=proven,
            inside=proofs.total_blinder(policy_.gain, scored, used.blinders, rho),
            seed=seed,
            statement=stated,
            cheat=plan,
            draft=draft,
            bounds=bounds,
        )
        return self.enter(account, entry, query, shown)

    def stated(self, request: Request) -> Statement:
        """What is to be proven of a request's record, its lists left out."""
        policy_ = self.manifest.policy
        return proofs.statement_of(policy_, self.cls, self.manifest.c_seed, self.beacon, request.ctx(), ())

    def of_shard(self, common: Statement) -> list[int]:
        """What the proof of the one shard states."""
        return statements_of(self.cls, common, 1)[0]

    def _fitting_request(self, account: str, c_e: bytes, e: list[int], plan: Cheat) -> Request:
        """A request whose honest answer has places with a text and places without, and that a forgery fits.

        The noise hangs on the beacon and so on the key, which is another in every fresh clone.
        """
        policy_, ctr = self.manifest.policy, self.ctrs.get(account, 0)
        products = np.array(self.tenants[self.tenant_of(account)].rows, dtype=np.int64) @ np.array(e, dtype=np.int64)
        w = [int(policy_.gain * (y - policy_.lo)) for y in products]
        for _ in range(100):
            self.ctrs[account] = ctr
            request = self.request(account, c_e, **plan.request)
            stated = self.stated(request)
            key = noise_key(self.seed, stated.beacon, stated.ctx)
            answer = self.tools.engine.answer(key, np.array(w, dtype=np.int64), stated.asked)
            if len({one.flag for one in answer}) == 2 and (plan.forge is None or plan.forge(self._draft(stated, w))):
                break
        return request

    def _draft(self, stated: Statement, w: Sequence[int], salt: int = 0) -> NoiseDraft:
        """An honest one."""
        cls: NoiseClass = self.tools.cls
        low, (hmax,) = (1 << cls.c) - 1, stated.asked.inputs
        draft = NoiseDraft(
            cls, self.seed, stated.beacon, stated.ctx, hmax, salt, 0, 0, 0, list(w), remainder=[x & low for x in w]
        )
        draft.coarse_elements = wide_elements(draft.key, TAG_COARSE, cls.elements, draft.shard)
        draft.fine_elements = wide_elements(draft.key, TAG_FINE, cls.fine_elements, draft.shard)
        draft.read_elements()
        finish(draft)
        return draft

    # --- proofs ---

    def committed(self, kept: simulator.Kept) -> bytes:
        """C_h, with whatever the cheat adds, and C_1."""
        made = super().committed(kept)
        if isinstance(kept, Query) and kept.h_extra:
            made = _with(made[:POINT_BYTES], kept.h_extra) + made[POINT_BYTES:]
        if isinstance(kept, Query) and kept.bounds:
            ((_, rho_bounds),) = kept.blinders(self.key.committed, 0)
            bases = self.key.committed.own[0].over[1].bases
            made = made[:POINT_BYTES] + GROUP.msm(bases, scalars.pack([*kept.bounds, rho_bounds]))
        return made

    def c_v(self, kept: simulator.Kept) -> bytes:
        """With whatever the cheat adds."""
        made = super().c_v(kept)
        return _with(made, kept.v_extra) if isinstance(kept, Query) else made

    def added(self, query: simulator.Kept) -> bytes:
        """All commitments of a proof but C_w."""
        return self.committed(query) + self.c_v(query)

    def assignment(self, record: Record, query: Query) -> Assignment:
        """All inputs, alpha and beta included."""
        at = query.chosen or self.challenges(record, query)
        every = (query.inside, *chain.from_iterable(query.blinders(self.key.committed, 0)), query.rho_v)
        made = assign_attestation(
            self.cls,
            clear=(*self.of_shard(query.proven), *at),
            w=query.w,
            witnesses=(query.h,),
            shared=query.shared,
            blind=sum(scale * rho for scale, rho in zip(self.key.stated.scales(at[1]), every, strict=True)) % R,
            secret=(query.seed, query.t_salt),
        )
        if not query.bounds:
            return made
        scaled, shared = scalars.pack(at[1] * b % R for b in query.bounds), scalars.pack(query.shared)
        return replace(made, hidden=made.hidden[: -len(scaled + shared)] + scaled + shared)

    def challenges(self, record: Record, query: Query) -> tuple[int, ...]:
        """alpha and beta as the verifier derives them."""
        stated, c_w = self.of_shard(query.statement), self.c_w(record)
        return tuple(proofs.challenges(self.key.digest, record.digest(), stated, c_w, self.added(query)))

    def _shifted(self, h: bytes, shifts: dict[int, int]) -> bytes:
        """h without what C_w carries of it."""
        values = list(scalars.unpack(h)) if shifts else []
        for at, shift in shifts.items():
            values[at] = (values[at] - shift) % R
        return scalars.pack(values) if shifts else h

    def _forge(self, record: Record, query: Query, draft: NoiseDraft) -> None:
        """Finish a forged draft: alpha and beta are known where the cheat has its own."""
        if query.cheat.chosen is not None:
            query.chosen = tuple(query.cheat.chosen(self, record, query))
            draft.alpha, draft.beta = query.chosen
        query.h = scalars.pack(x % R for x in query.cheat.h_of(draft, draft.hints()))
        query.hidden = [(query.h,)]

    def entry(self, record: Record) -> ProofEntry:
        """The proof of one record, made once."""
        query = self.kept[record.manifest, record.seq]
        if query.entry is None:
            if query.draft is not None:
                self._forge(record, query, query.draft)
            proof = query.cheat.prover(self.tools, self.assignment(record, query))
            query.entry = ProofEntry(record.seq, record.digest(), self.committed(query), proof, self.c_v(query))
        return query.entry

    def item(self, record: Record) -> BatchItem:
        """A record with its proof, which ``tamper_entry`` changes afterwards."""
        query = self.kept[record.manifest, record.seq]
        made = self.tamper_entry(self.entry(record))
        return BatchItem(record, record.digest(), query.tenant, query.statement, self.c_w(record), made)


def _with(point: bytes, extra: Extra) -> bytes:
    """A commitment with components outside its span."""
    return GROUP.msm(point + b"".join(base for base, _ in extra), scalars.pack([1, *(k % R for _, k in extra)]))


def queried(cheat: Cheat | None = None, account: str = "carol", **world: Any) -> AttackWorld:
    """A closed window: an honest query, the one that is cheated, another honest one."""
    made = AttackWorld(**world)
    made.commit()
    made.ask("alice")
    made.ask(account, cheat)
    made.ask("bob")
    made.close()
    return made


#: Who is told of every refused world as well: world, step, verdict, options of the audit.
READERS: list[Callable[[simulator.World, int, Verdict, dict[str, Any]], None]] = []


def refused(world: simulator.World, step: int, match: str, **options: Any) -> Verdict:
    """The audit ends in FAIL at this step for this reason."""
    verdict = world.audit(**options)
    assert verdict.verdict == "FAIL", verdict.line()
    assert verdict.failure is not None
    assert verdict.failure.number == step, verdict.line()
    assert match in verdict.failure.message, verdict.line()
    for read in READERS:
        read(world, step, verdict, options)
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
