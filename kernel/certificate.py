# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase C, the certificate of an estimate: proofs that blocks of records have no other links than the listed.  SPEC C.

A block is a set of at most n records of one tenant.  Hidden are its inner products g_ab (a <= b), committed in
C_G = sum g_ab Y_ab + rho B under the estimate circuit's own key before r_a = H(.., C_G, a) exist.  Proven are

    circuit    unlisted pairs lie below the threshold (of a spanning list: those between components), listed ones reach
               it, norms are those of quantised unit vectors, and s = sum_a r_a^2 g_aa + 2 sum_{a<b} r_a r_b g_ab;
    sigma      P = sum_a r_a C_e,a opens to a vector p with C_s = <p, p> S + rho_s B;
    opening    every C_G lies in the span of {Y_ab, B}: no S, no clear base.

So s = <p, p> as a polynomial of degree 2 in r, whose coefficients g_ab - <e_a, e_b> are fixed before r: one that is not
zero survives with probability 2^-247.  Positions of a block that hold no record have r = 0 and no constraint.

Nothing else leaves the provider: C_G, C_s and the cross terms are blinded perfectly, the rest is zero-knowledge.
Whoever checks learns the links and that no other pair of a block is one; with products in the clear it would learn
every query after as many queries of its own as there are dimensions.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from ragseal.kernel import field
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.encoding import HASH, POINT, Codec, Fixed, Many, Message, Nested
from ragseal.kernel.errors import EstimateError, ProofError
from ragseal.kernel.estimate import Reach, link_threshold
from ragseal.kernel.estimate_class import EstimateClass
from ragseal.kernel.fixedpoint import norm_bounds
from ragseal.kernel.link_list import Listing
from ragseal.kernel.opening import Opening, Relation, batching_challenge, verify_opening
from ragseal.kernel.policy import Policy, rational
from ragseal.kernel.proofs import PROOF_BYTES
from ragseal.kernel.squarednorm import NormStatement, SquaredNorm, verify_squared_norm
from ragseal.kernel.transcript import nonzero_element, tagged_hash

MAX_BLOCKS = 64  #: of one delivery


@dataclass(frozen=True, slots=True)
class BlockProof(Message):
    """One block: C_G, C_s, the sigma proof between C_s and the ledger, and the circuit's proof."""

    TAG: ClassVar[str] = "block-proof"
    CODECS: ClassVar[Sequence[Codec]] = (POINT, POINT, Nested(SquaredNorm), Fixed(PROOF_BYTES))

    c_g: bytes  #: C_G, all inner products of the block
    c_s: bytes  #: C_s, their random combination
    norm: SquaredNorm  #: ties C_s to the ledger, SPEC C.5
    proof: bytes  #: Groth16: A (64 bytes), B (128), C (64)


@dataclass(frozen=True, slots=True)
class BlockBatch(Message):
    """A delivery of blocks of one tenant, with one proof of opening of all their C_G.  SPEC C.6."""

    TAG: ClassVar[str] = "block-batch"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, Many(Nested(BlockProof), MAX_BLOCKS), Nested(Opening))

    links_digest: bytes  #: H("link-list", list), of the signed list that the blocks are about
    blocks: tuple[BlockProof, ...]  #: in the order of the ask
    opening: Opening  #: of all C_G over {Y_ab, B}


@dataclass(frozen=True, slots=True)
class Scope:
    """What the blocks of one tenant have in common."""

    cls: EstimateClass
    key_digest: bytes
    manifest: bytes  #: digest
    links_digest: bytes  #: of the signed list
    tenant: str
    policy: Policy
    reach: Reach  #: of the tenant's records

    @property
    def threshold(self) -> int:
        return link_threshold(rational(self.policy.theta, "theta"))


@dataclass(frozen=True, slots=True)
class Block:
    """A block's statement: which records, their C_e from the ledger, and which of its pairs are listed."""

    ranks: tuple[int, ...]  #: strictly increasing
    c_e: tuple[bytes, ...]  #: of each
    signs: tuple[int, ...]  #: of each pair of positions of the class


def make_block(scope: Scope, ranks: Sequence[int], c_e: Sequence[bytes], listing: Listing) -> Block:
    """``c_e`` and ``listing``: of all the tenant's records.

    Pairs that are not compared or lie inside a component of a spanning list, and positions beyond the block's records,
    are not constrained: sign 0.

    Raises:
        EstimateError: too many records, or not strictly increasing ranks of the tenant.
    """
    if not 1 <= len(ranks) <= scope.cls.n:
        raise EstimateError(f"a block has 1..{scope.cls.n} records, not {len(ranks)}")
    if ranks[0] < 0 or ranks[-1] >= len(c_e) or any(a >= b for a, b in itertools.pairwise(ranks)):
        raise EstimateError("a block's records are ranks of the tenant's records, in strictly increasing order")
    signs = []
    for a, b in scope.cls.order:
        if b >= len(ranks) or not scope.reach.compares(ranks[a], ranks[b]):
            signs.append(0)
        else:
            signs.append(listing.sign(ranks[a], ranks[b]))
    return Block(tuple(ranks), tuple(c_e[i] for i in ranks), tuple(signs))


def block_digest(scope: Scope, block: Block, c_g: bytes) -> bytes:
    """Everything that is fixed before the challenges: key, window, signed links, records, their C_e, and C_G."""
    parts = (scope.key_digest, scope.manifest, scope.links_digest, scope.tenant.encode(), scope.policy.encode())
    ranks = b"".join(rank.to_bytes(4, "big") for rank in block.ranks)
    return tagged_hash("estimate-block", *parts, ranks, b"".join(block.c_e), c_g)


def block_challenges(scope: Scope, block: Block, digest: bytes) -> list[int]:
    """r_a, 31 bytes each, of every position; 0 where there is no record.

    Raises:
        ProofError: one of them is zero by chance (2^-248).
    """
    held = len(block.ranks)
    drawn = [nonzero_element("estimate-challenge", digest, a.to_bytes(4, "big")) for a in range(held)]
    return drawn + [0] * (scope.cls.n - held)


def clear_inputs(scope: Scope, block: Block, r: Sequence[int]) -> list[int]:
    """The circuit's clear public inputs, in order; signs as -1, 0, 1."""
    held, n = len(block.ranks), scope.cls.n
    present = [1] * held + [0] * (n - held)
    return [scope.threshold, *norm_bounds(scope.policy.dimension), *r, *present, *block.signs]


def norm_statement(
    group: Group, generators: bytes, scalar_base: bytes, blinder_base: bytes, block: Block, r: Sequence[int], c_s: bytes
) -> NormStatement:
    """The sigma proof's statement: P = sum_a r_a C_e,a and C_s."""
    vector = group.msm(b"".join(block.c_e), field.pack(r[: len(block.ranks)]))
    return NormStatement(generators, scalar_base, blinder_base, vector, c_s)


def norm_context(digest: bytes) -> bytes:
    """What the sigma proof's challenge hashes besides its points."""
    return tagged_hash("estimate-norm", digest)


def batch_context(digests: Sequence[bytes], blocks: Sequence[BlockProof]) -> bytes:
    """What chi of the opening hashes: every statement, commitment and proof of a delivery."""
    return tagged_hash("estimate-batch", *(p for d, b in zip(digests, blocks, strict=True) for p in (d, b.encode())))


def batch_fold(context: bytes) -> int:
    """chi, by whose powers the prover combines its products and blinders."""
    return batching_challenge("estimate", context)


def batch_relation(bases: bytes, b: bytes, commitments: Sequence[bytes]) -> Relation:
    """Every C_G in the span of {Y_ab, B}; ``bases``: the Y_ab."""
    size = len(bases) // POINT_BYTES
    return Relation(bases + b, ((0, size + 1),), tuple(commitments))


def verify_products(
    group: Group, bases: bytes, b: bytes, context: bytes, blocks: Sequence[BlockProof], opening: Opening
) -> None:
    """The opening of a delivery; ProofError if it does not hold."""
    relation = batch_relation(bases, b, [block.c_g for block in blocks])
    verify_opening(group, "estimate", context, [relation], len(bases) // POINT_BYTES + 1, opening)


class BlockKey(Protocol):
    """What the checks ask of the estimate's verifying key (:class:`ragseal.groth16.views.EstimateView` is one)."""

    @property
    def cls(self) -> EstimateClass: ...

    @property
    def digest(self) -> bytes: ...

    @property
    def products(self) -> bytes: ...  #: Y_ab

    @property
    def form(self) -> bytes: ...  #: S

    @property
    def blinder(self) -> bytes: ...  #: B

    def verify(self, clear: Sequence[int], c_g: bytes, c_s: bytes, proof: bytes) -> None: ...

    def verify_batch(self, items: Sequence[tuple[Sequence[int], bytes, bytes, bytes]]) -> None: ...


def verify_blocks(
    group: Group, key: BlockKey, generators: bytes, scope: Scope, blocks: Sequence[Block], batch: BlockBatch
) -> None:
    """A delivery against the blocks it was asked for; ``generators`` are H_0 .. H_d.

    Raises:
        ProofError: says which block does not hold where one does not.
    """
    if batch.links_digest != scope.links_digest:
        raise ProofError("the blocks belong to another list of links")
    if len(batch.blocks) != len(blocks):
        raise ProofError(f"{len(blocks)} blocks were asked for, {len(batch.blocks)} delivered")
    digests, equations = [], []
    for number, (block, given) in enumerate(zip(blocks, batch.blocks, strict=True)):
        group.check(given.c_g)
        digest = block_digest(scope, block, given.c_g)
        r = block_challenges(scope, block, digest)
        statement = norm_statement(group, generators, key.form, key.blinder, block, r, given.c_s)
        try:
            verify_squared_norm(group, norm_context(digest), statement, given.norm)
        except ProofError as error:
            raise ProofError(f"block {number}: {error}") from None
        digests.append(digest)
        equations.append((clear_inputs(scope, block, r), given.c_g, given.c_s, given.proof))
    verify_products(group, key.products, key.blinder, batch_context(digests, batch.blocks), batch.blocks, batch.opening)
    try:
        key.verify_batch(equations)
    except ProofError as error:
        for number, equation in enumerate(equations):
            try:
                key.verify(*equation)
            except ProofError as single:
                raise ProofError(f"block {number}: its proof does not hold: {single}") from None
        raise error
