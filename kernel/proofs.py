# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase B, proofs: what a record's proof states, and the batches in which proofs are delivered.  SPEC B.5 to B.8."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragseal.kernel import field
from ragseal.kernel.attestation import Record
from ragseal.kernel.bn254 import POINT_BYTES, Group, split_points
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.committed import MAX_POINTS, MAX_USES, CommittedBases, Use
from ragseal.kernel.encoding import HASH, NAME, POINT, U32, U64, Blob, Codec, Many, Message, Nested, Points
from ragseal.kernel.errors import ProofError
from ragseal.kernel.law import Asked
from ragseal.kernel.opening import Equations, Opening, Relation, powers, verify_opening
from ragseal.kernel.params import MAX_SHARDS, R
from ragseal.kernel.policy import Policy
from ragseal.kernel.transcript import challenge, nonzero_element, tagged_hash

MAX_BATCH = 1 << 16
ASKED_TOGETHER = 256  #: records of one ask of an audit: a failure names its batch, and progress shows
PROOF_BYTES = 256


@dataclass(frozen=True, slots=True)
class Statement:
    """What the proofs of a record state, all known to the verifier from the ledger."""

    c_seed: int
    beacon: int
    ctx: int
    asked: Asked  #: by the policy
    t_commits: tuple[int, ...]  #: of the record

    def common(self) -> list[int]:
        """Numbers that a batch hashes of it: those of every shard's proof that the policy alone does not give."""
        return [self.c_seed, self.beacon, self.ctx, *self.asked.inputs, *self.t_commits]

    def clear(self, t_commit: int, own: Sequence[int]) -> list[int]:
        """The circuit's clear public inputs without the challenges, of one shard.

        Args:
            own: what the class has of the shard's number.
        """
        return [self.c_seed, self.beacon, self.ctx, *self.asked.inputs, t_commit, *own, *self.asked.table]


def statement_of(
    policy: Policy, cls: AttestationClass, c_seed: int, beacon: int, ctx: int, t_commits: tuple[int, ...]
) -> Statement:
    """What one record's proofs state under a policy.

    Raises:
        PolicyError: the policy does not belong to the class.
    """
    return Statement(c_seed, beacon, ctx, policy.asked(cls), t_commits)


@dataclass(frozen=True, slots=True)
class ProofEntry(Message):
    """One record's proofs as delivered in a batch: one of every shard of its index."""

    TAG: ClassVar[str] = "proof-entry"
    CODECS: ClassVar[Sequence[Codec]] = (
        U64, HASH, Points(MAX_POINTS * MAX_SHARDS), Blob(PROOF_BYTES * MAX_SHARDS), POINT,
    )  # fmt: skip

    seq: int  #: the record's number in the window
    record_digest: bytes  #: H("record", record)
    committed: bytes  #: commitments of every shard's proof, in the order of SPEC B.5
    proof: bytes  #: Groth16 of every shard, 256 bytes each: A (64), B (128), C (64)
    c_v: bytes  #: C_v, of what all shards share

    def validate(self) -> None:
        if not self.proof or len(self.proof) % PROOF_BYTES:
            raise ProofError(f"proofs of {PROOF_BYTES} bytes each are expected")


@dataclass(frozen=True, slots=True)
class SameEmbeddingOpening(Message):
    """The opening that ties C_e and C_y of a batch's records over one version of one tenant's index.

    Where the claim is answers it opens their C_y over the score bases instead: which of the two the verifier asks for
    is its policy's matter, never the message's.
    """

    TAG: ClassVar[str] = "link-opening"
    CODECS: ClassVar[Sequence[Codec]] = (NAME, Nested(Opening), U32)

    tenant: str  #: the tenant's name
    opening: Opening  #: of C_e and C_y (of the claim answers of C_y alone), SPEC B.7
    number: int = 0  #: of the update whose version these records name; 0: the manifest's


@dataclass(frozen=True, slots=True)
class ProofBatch(Message):
    """Proofs of a set of records with their batched openings: the law's, and one a tenant and version for links."""

    TAG: ClassVar[str] = "proof-batch"
    CODECS: ClassVar[Sequence[Codec]] = (
        HASH, Many(Nested(ProofEntry), MAX_BATCH), Many(Nested(SameEmbeddingOpening), MAX_BATCH),
        Many(Nested(Opening), MAX_USES),
    )  # fmt: skip

    manifest: bytes  #: digest of the window's manifest
    entries: tuple[ProofEntry, ...]  #: by increasing seq
    links: tuple[SameEmbeddingOpening, ...]  #: by increasing tenant and number
    openings: tuple[Opening, ...]  #: of the commitments of all proofs, then of all C_v, in the order of SPEC B.7


def challenges(
    key_digest: bytes, record_digest: bytes, clear: Sequence[int], c_w: bytes, committed: bytes
) -> list[int]:
    """alpha and beta of one proof (SPEC B.5): of all that it commits to.

    ``committed``: its commitments, and C_v behind them.  The record's digest covers the manifest hash.

    Raises:
        ProofError: one of them is zero.
    """
    parts = (key_digest, record_digest, field.pack(clear), c_w, committed)
    return [nonzero_element("alpha", *parts), nonzero_element("beta", *parts)]


def shifted_scores(
    group: Group, c_y: Sequence[bytes], sum_y: bytes, policy: Policy, cls: AttestationClass
) -> list[bytes]:
    """C_w = factor * C_y + offset * sum_i Y_i of every C_y, the commitment to w that the pairing check adds to vk_x.

    ``c_y``: of records, the points of all shards of each; so is what it returns.

    That is gain * (C_y - lo * sum_i Y_i), and of the claim answers 2^c (gain * C_y + sum_i Y_i): the step that gives
    every keyword its flag is the verifier's, so no commitment can leave it out.

    Raises:
        ProofError: a result is the identity.
    """
    points = b"".join(c_y)
    shift = group.msm(sum_y, field.pack([policy.offset(cls) % R]))
    made = group.fold(points + shift * (len(points) // POINT_BYTES), policy.factor(cls))
    if not all(map(any, split_points(made))):
        raise ProofError("C_w is the identity point")
    ends = list(itertools.accumulate(map(len, c_y)))
    return [made[end - len(one) : end] for one, end in zip(c_y, ends, strict=True)]


@dataclass(frozen=True, slots=True)
class BatchItem:
    """A record with everything its batch hashes."""

    record: Record
    record_digest: bytes
    tenant: str
    statement: Statement
    c_w: bytes  #: of every shard
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
            field.pack(item.statement.common()),
            item.record.signed.request.c_e,
            item.record.c_y,
            item.c_w,
            item.entry.committed,
            item.entry.c_v,
            item.entry.proof,
        ]
    return tagged_hash("batch", *parts)


def link_context(context: bytes, tenant: str, index_digest: bytes) -> bytes:
    return tagged_hash("link", context, tenant.encode(), index_digest)


def shard_weight(here: bytes) -> int:
    """psi: hashes what a link's chi does, so all C_y of the batch, and the columns' digest.

    By its powers the shards' C_y and columns are added up.
    """
    return challenge("opening/link/shards", here)


def link_relations(
    generator_bases: bytes, columns: bytes, b: bytes, here: bytes, items: Sequence[BatchItem]
) -> tuple[Relation, Relation]:
    """C_e over {H_0..H_d} and C_y over {C_0..C_(d-1), B} with one e (SPEC B.7).

    The witness is (e_0 .. e_(d-1), r, rho).  Of several shards C_y, columns and rho are those of all shards, added
    up by powers of :func:`shard_weight`: docs/proofs/noise.md, section 9.

    Raises:
        ProofError: columns of another number of shards than records have C_y.
    """
    d = len(generator_bases) // POINT_BYTES - 1
    shards = len(columns) // (POINT_BYTES * d)
    if len(columns) != POINT_BYTES * d * shards or any(len(i.record.c_y) != POINT_BYTES * shards for i in items):
        raise ProofError("a record has another number of C_y than its index has shards")
    weights = tuple(powers(shard_weight(here), shards)) if shards > 1 else (1,)
    return (
        Relation(generator_bases, ((0, d + 1),), tuple(i.record.signed.request.c_e for i in items)),
        Relation(
            columns + b,
            (*((0, d) for _ in weights), (d + 1, d + 2)),
            tuple(i.record.c_y for i in items),
            (*weights, 1) if shards > 1 else (),
            weights,
        ),
    )


def committed_relations(bases: CommittedBases, items: Sequence[BatchItem]) -> list[tuple[Use, list[Relation]]]:
    """What the openings of a batch are about, in order.

    Raises:
        ProofError: another number of commitments than the class has.
    """
    shards = [bases.split(item.entry.committed, len(item.c_w) // POINT_BYTES) for item in items]
    return bases.relations(shards, [item.entry.c_v for item in items])


def verify_committed(
    group: Group,
    bases: CommittedBases,
    context: bytes,
    items: Sequence[BatchItem],
    openings: Sequence[Opening],
    later: Equations | None = None,
) -> None:
    """Every commitment of a batch opens over its own bases and nothing else (SPEC B.7); ProofError if one does not.

    Without it a commitment could have components along other inputs.  ``later`` as in verify_opening.
    """
    if len(openings) != len(bases.names):
        raise ProofError(f"the batch has {len(openings)} openings, where {', '.join(bases.names)} are due")
    for (use, relations), one in zip(committed_relations(bases, items), openings, strict=True):
        verify_opening(group, use.name, context, relations, use.size, one, later)


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
    relations = link_relations(generator_bases, columns, b, context, items)
    verify_opening(group, "link", context, relations, len(generator_bases) // POINT_BYTES + 1, proof, later)


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


def total_blinder(factor: int, e: Sequence[int], column_blinders: Sequence[int], rho: int) -> int:
    """The coefficient of B in C_w: factor * (sum_j e_j beta_j + rho).

    ``factor``: the policy's, gain where scores come of columns; a histogram has no column and no e.
    """
    inner = sum(a * b for a, b in zip(e, column_blinders, strict=True)) + rho
    return factor * inner % R
