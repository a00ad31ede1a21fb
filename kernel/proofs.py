# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase B, proofs: what a record's proof states, and the batches in which proofs are delivered.  SPEC B.5 to B.8."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragseal.kernel import field
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import POINT_BYTES, Group, split_points
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.encoding import HASH, NAME, U32, U64, Codec, Fixed, Many, Message, Nested, Points
from ragseal.kernel.errors import ProofError
from ragseal.kernel.hint_opening import MAX_COMMITMENTS, HintBases
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.opening import Equations, Opening, Relation, verify_opening
from ragseal.kernel.params import R
from ragseal.kernel.policy import Policy
from ragseal.kernel.transcript import nonzero_element, tagged_hash

MAX_BATCH = 1 << 16
ASKED_TOGETHER = 256  #: records of one ask of an audit: a failure names its batch, and progress shows
PROOF_BYTES = 256


@dataclass(frozen=True, slots=True)
class Statement:
    """The circuit's clear public inputs without the challenges, all known to the verifier from the ledger."""

    c_seed: int
    beacon: int
    ctx: int
    hmax: int
    t_commit: int

    def clear(self) -> list[int]:
        return [self.c_seed, self.beacon, self.ctx, self.hmax, self.t_commit]


@dataclass(frozen=True, slots=True)
class LotteryStatement(Statement):
    """The same under the lottery."""

    prizes: int  #: j, the policy's

    def clear(self) -> list[int]:
        return [self.c_seed, self.beacon, self.ctx, self.hmax, self.t_commit, self.prizes]


def statement_of(policy: Policy, cls: AttestationClass, c_seed: int, beacon: int, ctx: int, t_commit: int) -> Statement:
    """What one record's proof states under a policy.

    Raises:
        PolicyError: the policy does not belong to the class.
    """
    if isinstance(cls, LotteryClass):
        return LotteryStatement(c_seed, beacon, ctx, policy.hmax(cls), t_commit, policy.prizes(cls))
    return Statement(c_seed, beacon, ctx, policy.hmax(cls), t_commit)


@dataclass(frozen=True, slots=True)
class ProofEntry(Message):
    """One record's proof as delivered in a batch."""

    TAG: ClassVar[str] = "proof-entry"
    CODECS: ClassVar[Sequence[Codec]] = (U64, HASH, Points(MAX_COMMITMENTS), Fixed(PROOF_BYTES))

    seq: int
    record_digest: bytes
    c_h: bytes  #: the commitments to its hints: C_h, and of a ranked class C_1 behind it
    proof: bytes


@dataclass(frozen=True, slots=True)
class SameEmbeddingOpening(Message):
    """The opening that ties C_e and C_y of a batch's records over one version of one tenant's index.

    Where the claim is answers it opens their C_y over the score bases instead: which of the two the verifier asks for
    is its policy's matter, never the message's.
    """

    TAG: ClassVar[str] = "link-opening"
    CODECS: ClassVar[Sequence[Codec]] = (NAME, Nested(Opening), U32)

    tenant: str
    opening: Opening
    number: int = 0  #: of the index update that they name; 0: the version of the window


@dataclass(frozen=True, slots=True)
class ProofBatch(Message):
    """Proofs of a set of records with their batched openings: one for the hints, one a tenant and version for links."""

    TAG: ClassVar[str] = "proof-batch"
    CODECS: ClassVar[Sequence[Codec]] = (
        HASH, Many(Nested(ProofEntry), MAX_BATCH), Many(Nested(SameEmbeddingOpening), MAX_BATCH), Nested(Opening),
    )  # fmt: skip

    manifest: bytes
    entries: tuple[ProofEntry, ...]  #: by increasing seq
    links: tuple[SameEmbeddingOpening, ...]  #: by increasing tenant and number
    hints: Opening


def challenges(key_digest: bytes, record_digest: bytes, statement: Statement, c_w: bytes, c_h: bytes) -> list[int]:
    """alpha and beta of one record (SPEC B.5): of all that its proof commits to.

    The record's digest covers the manifest hash.  Raises ProofError if one of them is zero.
    """
    parts = (key_digest, record_digest, field.pack(statement.clear()), c_w, c_h)
    return [nonzero_element("alpha", *parts), nonzero_element("beta", *parts)]


def shifted_scores(
    group: Group, c_y: Sequence[bytes], sum_y: bytes, policy: Policy, cls: AttestationClass
) -> list[bytes]:
    """C_w = factor * C_y + offset * sum_i Y_i of every C_y, the commitment to w that the pairing check adds to vk_x.

    That is gain * (C_y - lo * sum_i Y_i), and of the claim answers 2^c (gain * C_y + sum_i Y_i): the step that gives
    every keyword its flag is the verifier's, so no commitment can leave it out.

    Raises:
        ProofError: a result is the identity.
    """
    shift = group.msm(sum_y, field.pack([policy.offset(cls) % R]))
    c_w = split_points(group.fold(b"".join(c_y) + shift * len(c_y), policy.factor(cls)))
    if not all(map(any, c_w)):
        raise ProofError("C_w is the identity point")
    return c_w


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A record with everything its batch hashes."""

    record: Record
    record_digest: bytes
    tenant: str
    statement: Statement
    c_w: bytes
    entry: ProofEntry
    number: int = 0  #: of the index update that the record names; 0: the version of the window

    @property
    def version(self) -> tuple[str, int]:
        """Which index its scores are of: the tenant, and the update's number."""
        return self.tenant, self.number


def batch_context(key_digest: bytes, manifest_digest: bytes, items: Sequence[BatchItem]) -> bytes:
    """What chi hashes: every statement, commitment and Groth16 proof of the batch, rebuilt from one's own ledger."""
    parts: list[bytes] = [key_digest, manifest_digest]
    for item in items:
        parts += [
            item.record_digest,
            field.pack(item.statement.clear()),
            item.record.signed.request.c_e,
            item.record.c_y,
            item.c_w,
            item.entry.c_h,
            item.entry.proof,
        ]
    return tagged_hash("batch", *parts)


def link_context(context: bytes, tenant: str, index_digest: bytes) -> bytes:
    return tagged_hash("link", context, tenant.encode(), index_digest)


def link_relations(
    generator_bases: bytes, columns: bytes, b: bytes, items: Sequence[BatchItem]
) -> tuple[Relation, Relation]:
    """C_e over {H_0..H_d} and C_y over {C_0..C_(d-1), B} with one e (SPEC B.7).

    The witness is (e_0 .. e_(d-1), r, rho).
    """
    d = len(columns) // POINT_BYTES
    return (
        Relation(generator_bases, ((0, d + 1),), tuple(i.record.signed.request.c_e for i in items)),
        Relation(columns + b, ((0, d), (d + 1, d + 2)), tuple(i.record.c_y for i in items)),
    )


def verify_hints(
    group: Group,
    bases: HintBases,
    context: bytes,
    items: Sequence[BatchItem],
    o: Opening,
    later: Equations | None = None,
) -> None:
    """The hint opening of a batch (SPEC B.7); ProofError if it does not hold.  ``later`` as in verify_opening."""
    relations = bases.relations([item.entry.c_h for item in items])
    verify_opening(group, "hints", context, relations, bases.size, o, later)


def verify_link(
    group: Group,
    generator_bases: bytes,
    columns: bytes,
    b: bytes,
    context: bytes,
    items: Sequence[BatchItem],
    proof: Opening,
    later: Equations | None = None,
) -> None:
    """The link opening of one index version's records in a batch; ProofError if it does not hold.

    Args:
        later: as in :func:`ragseal.kernel.opening.verify_opening`.
    """
    relations = link_relations(generator_bases, columns, b, items)
    verify_opening(group, "link", context, relations, len(columns) // POINT_BYTES + 2, proof, later)


def histogram_context(context: bytes, tenant: str, index_digest: bytes) -> bytes:
    return tagged_hash("histogram", context, tenant.encode(), index_digest)


def histogram_relations(scores: ScoreBases, items: Sequence[BatchItem]) -> tuple[Relation]:
    """C_y over {Y_0..Y_(N-1), B} (SPEC B.7.8).  The witness is (count_0 .. count_(N-1), rho)."""
    whole = ((0, scores.capacity + 1),)
    return (Relation(scores.y + scores.b, whole, tuple(i.record.c_y for i in items)),)


def verify_histograms(
    group: Group,
    scores: ScoreBases,
    context: bytes,
    items: Sequence[BatchItem],
    proof: Opening,
    later: Equations | None = None,
) -> None:
    """The opening of one index version's histograms in a batch; ProofError if it does not hold.

    No column gives a histogram, so nothing else keeps components of C_y out that would change another input.
    """
    relations = histogram_relations(scores, items)
    verify_opening(group, "histogram", context, relations, scores.capacity + 1, proof, later)


def total_blinder(factor: int, e: Sequence[int], column_blinders: Sequence[int], rho: int, rho_hint: int) -> int:
    """The coefficient of B in all that is added to vk_x: factor * (sum_j e_j beta_j + rho) + rho'.

    ``factor``: the policy's, gain where scores come of columns; a histogram has no column and no e.

    ``rho_hint``: rho', what the commitments to hints have of B, that of a ranked class with beta
    (:func:`ragseal.kernel.hint_opening.scaled_blinder`).
    """
    inner = sum(a * b for a, b in zip(e, column_blinders, strict=True)) + rho
    return (factor * inner + rho_hint) % R
