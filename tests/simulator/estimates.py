# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider's side of phase C in memory, a second time, in plain integers: links, blocks, sigma proofs, openings.

:class:`BindingBlockKey` stands for the estimate's key as the simulator's stands for the attestation's: it accepts
exactly the statements it "proved".  Tests give another ``prove`` for the real circuit, and change one thing by a
:class:`Lie`.
"""

from __future__ import annotations

import hashlib
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from ragseal.backends.group import default_group
from ragseal.kernel import certificate, commitment, estimate, estimate_class, link_list, signature
from ragseal.kernel import field as scalars
from ragseal.kernel.attestation import Record
from ragseal.kernel.certificate import Block, BlockBatch, BlockProof, Scope
from ragseal.kernel.errors import ProofError
from ragseal.kernel.estimate_class import EstimateClass
from ragseal.kernel.link_list import LinkList, SignedLinks, TenantLinks
from ragseal.kernel.opening import powers, prove_opening
from ragseal.kernel.params import R
from ragseal.kernel.policy import rational
from ragseal.kernel.squarednorm import SquaredNorm, prove_squared_norm

GROUP = default_group()
SIZE = estimate_class.CLASSES["estimate-6"]

Vector = Sequence[int]
Link = tuple[int, int]
Links = list[Link]


class BindingBlockKey:
    """Bases as a key of the estimate's circuit has them, and "proofs" that hold for one statement only."""

    def __init__(self, name: str = "blocks", cls: EstimateClass = SIZE) -> None:
        points = GROUP.hash_to_curve(name.encode(), cls.hidden + 2)
        self.cls = cls
        self.products, self.form, self.blinder = points[:-128], points[-128:-64], points[-64:]
        self.digest = hashlib.sha256(points).digest()

    def prove(self, case: Case) -> bytes:
        return self.proof(case.clear, case.c_g, case.c_s)

    def proof(self, clear: Sequence[int], c_g: bytes, c_s: bytes) -> bytes:
        return hashlib.shake_256(self.digest + scalars.pack(clear) + c_g + c_s).digest(256)

    def verify(self, clear: Sequence[int], c_g: bytes, c_s: bytes, proof: bytes) -> None:
        if proof != self.proof(clear, c_g, c_s):
            raise ProofError("the pairing equation does not hold")

    def verify_batch(self, items: Sequence[tuple[Sequence[int], bytes, bytes, bytes]]) -> None:
        for item in items:
            self.verify(*item)


@dataclass
class Case:
    """One block as its provider sees it."""

    scope: Scope
    block: Block
    vectors: list[Vector]
    clear: list[int]
    norms: list[int]
    products: list[int]
    form: int
    blind: int
    c_g: bytes
    c_s: bytes


@dataclass
class Lie:
    """What the provider does differently; by default nothing."""

    listed: Callable[[str, Links], Links] = lambda tenant, links: links
    spanning: bool = False  #: lists are said to be spanning ones
    body: Callable[[LinkList], LinkList] = lambda body: body
    proven: Callable[[Block], Block] = lambda block: block  #: the statement that is really proven
    vector: Callable[[int, Vector], Vector] = lambda rank, e: e  #: of the products
    products: Callable[[list[int], list[int]], None] = lambda norms, products: None
    g_extra: tuple[tuple[bytes, int], ...] = ()  #: components of C_G outside its span
    form: Callable[[int], int] = lambda s: s
    challenges: Callable[[list[int]], list[int]] = lambda r: r
    case: Callable[[Case], None] = lambda case: None  #: before it is proven
    batch: Callable[[BlockBatch], BlockBatch] = lambda batch: batch


def packed_random(rng: random.Random, count: int) -> bytes:
    return scalars.pack(rng.randrange(R) for _ in range(count))


@dataclass
class Estimator:
    """Answers GetEstimate and GetEstimateProofs for a simulated world."""

    world: Any
    key: Any
    prove: Callable[[Case], bytes]
    lie: Lie = field(default_factory=Lie)
    asked: list[tuple[str, list[list[int]]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(5)

    # --- what the provider knows ---

    def records(self, tenant: str) -> list[tuple[Record, Any]]:
        """Records of the newest window, with what is kept of them."""
        world = self.world
        all_ = [m for m in world.messages if isinstance(m, Record) and m.manifest == world.digest]
        kept = [(one, world.kept[world.digest, one.seq]) for one in all_ if (world.digest, one.seq) in world.kept]
        return [(one, k) for one, k in kept if k.tenant == tenant]

    def reach(self, tenant: str) -> estimate.Reach:
        policy = self.world.manifest.policy
        return estimate.reach_of([one.time for one, _ in self.records(tenant)], policy.tau, policy.tau_time)

    def links_of(self, tenant: str) -> Links:
        policy, rows = self.world.manifest.policy, [k.e for _, k in self.records(tenant)]
        reach = self.reach(tenant)
        threshold = estimate.link_threshold(rational(policy.theta, "theta"))
        found = [
            (a, b)
            for a in range(len(rows))
            for b in range(a + 1, len(rows))
            if reach.compares(a, b) and sum(x * y for x, y in zip(rows[a], rows[b], strict=True)) >= threshold
        ]
        return self.lie.listed(tenant, found)

    def signed(self) -> SignedLinks:
        world = self.world
        tenants = []
        for tenant in world.manifest.tenants:
            digests = [one.digest() for one, _ in self.records(tenant.tenant)]
            packed = link_list.pack_links(self.links_of(tenant.tenant))
            own = link_list.records_digest(digests)
            tenants.append(TenantLinks(tenant.tenant, len(digests), own, not self.lie.spanning, packed))
        body = self.lie.body(LinkList(world.digest, tuple(tenants)))
        return SignedLinks(body, signature.sign(world.window_key, "links", body.encode()))

    # --- blocks ---

    def batch(self, tenant: str, wanted: Sequence[Sequence[int]]) -> BlockBatch:
        self.asked.append((tenant, [list(ranks) for ranks in wanted]))
        world, key, records = self.world, self.key, self.records(tenant)
        links = self.signed().body
        listing = next(one for one in links.tenants if one.tenant == tenant).listing()
        scope = Scope(
            key.cls, key.digest, world.digest, links.digest(), tenant, world.manifest.policy, self.reach(tenant)
        )
        c_e = [one.signed.request.c_e for one, _ in records]
        digests, proofs, witnesses = [], [], []
        for ranks in wanted:
            block = self.lie.proven(certificate.make_block(scope, ranks, c_e, listing))
            digest, proof, witness = self._block(scope, block, [records[rank][1] for rank in block.ranks])
            digests.append(digest)
            proofs.append(proof)
            witnesses.append(witness)
        context = certificate.batch_context(digests, proofs)
        weights = powers(certificate.batch_fold(context), len(proofs))
        mixed = [sum(w * v[i] for w, v in zip(weights, witnesses, strict=True)) % R for i in range(key.cls.hidden + 1)]
        relation = certificate.batch_relation(key.products, key.blinder, [proof.c_g for proof in proofs])
        nonces = packed_random(self.rng, len(mixed))
        opening = prove_opening(GROUP, "estimate", context, [relation], scalars.pack(mixed), nonces)
        return self.lie.batch(BlockBatch(scope.links_digest, tuple(proofs), opening))

    def _block(self, scope: Scope, block: Block, kept: Sequence[Any]) -> tuple[bytes, BlockProof, list[int]]:
        rng, key, cls = self.rng, self.key, scope.cls
        real = [list(k.e) for k in kept]
        vectors = [list(self.lie.vector(rank, e)) for rank, e in zip(block.ranks, real, strict=True)]
        padded = vectors + [[0] * scope.policy.dimension] * (cls.n - len(vectors))
        dot = [[sum(x * y for x, y in zip(a, b, strict=True)) for b in padded] for a in padded]
        norms, products = [dot[a][a] for a in range(cls.n)], [dot[a][b] for a, b in cls.order]
        self.lie.products(norms, products)
        rho, rho_form = rng.randrange(1, R), rng.randrange(1, R)
        witness = [*norms, *products, rho]
        points = key.products + key.blinder + b"".join(base for base, _ in self.lie.g_extra)
        c_g = GROUP.msm(points, scalars.pack([*witness, *(k for _, k in self.lie.g_extra)]))
        digest = certificate.block_digest(scope, block, c_g)
        r = self.lie.challenges(certificate.block_challenges(scope, block, digest))
        held = r[: len(real)]
        vector = [sum(x * e[j] for x, e in zip(held, real, strict=True)) % R for j in range(scope.policy.dimension)]
        form = self.lie.form(sum(x * x for x in vector) % R)
        c_s = GROUP.msm(key.form + key.blinder, scalars.pack([form, rho_form]))
        blinder = sum(x * k.blinder for x, k in zip(held, kept, strict=True)) % R
        case = Case(
            scope=scope,
            block=block,
            vectors=vectors,
            clear=certificate.clear_inputs(scope, block, r),
            norms=norms,
            products=products,
            form=form,
            blind=(rho + rho_form) % R,
            c_g=c_g,
            c_s=c_s,
        )
        self.lie.case(case)
        statement = certificate.norm_statement(
            GROUP,
            commitment.generators(GROUP, scope.policy.dimension),
            key.form,
            key.blinder,
            block,
            r,
            case.c_s,
        )
        norm: SquaredNorm = prove_squared_norm(
            GROUP,
            certificate.norm_context(digest),
            statement,
            scalars.pack([*vector, blinder]),
            rho_form,
            packed_random(rng, scope.policy.dimension + 3),
        )
        return digest, BlockProof(c_g, case.c_s, norm, self.prove(case)), witness


BLOCK_KEY = BindingBlockKey()


def binding(world: Any) -> Estimator:
    """The estimator of a simulated world under :class:`BindingBlockKey`."""
    return Estimator(world, BLOCK_KEY, BLOCK_KEY.prove)
