# SPDX-License-Identifier: GPL-3.0-or-later
"""Hidden slots stay empty in every version of a live index: the proof that they are.  docs/proofs/thinning.md.

The coins of a window are thrown before any of its updates, so an update commits to what is in force only: columns in
which hidden slots hold nothing.  Of one tenant and version, E' is that index, and

    C'_j = sum_i E'[i][j] Y_i + beta'_j B       over the attestation key's points; with its proof of opening

is fixed before the challenges r_j.  With w' = E' r, two commitments to the same w' under the thinning key are sent,

    W  = sum_i w'_i Y^t_i + rho B^t,     W' = sum_i w'_i Y'^t_i + rho' B^t,

linked to sum_j r_j C'_j: all three hold the same N entries.  The thinning circuit over W + W' says w' = (1 - h) w' for
the coins h of the committed seed, so h_i w'_i = 0: at a random r, every hidden row of E' is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ragseal.kernel import field
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.commitment import MAX_COLUMNS, IndexFile, ScoreBases, verify_columns
from ragseal.kernel.encoding import POINT, Blob, Codec, Fixed, Many, Message, Nested
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.opening import Opening, Relation, prove_opening, verify_opening
from ragseal.kernel.params import MAX_SHARDS
from ragseal.kernel.policy import MAX_DIMENSION
from ragseal.kernel.proofs import PROOF_BYTES
from ragseal.kernel.thinning import (
    ThinningKey,
    check_keys,
    check_share,
    column_weights,
    combined_columns,
    verify_circuit,
)
from ragseal.kernel.transcript import tagged_hash
from ragseal.kernel.versions import UpdatedIndex


@dataclass(frozen=True, slots=True)
class EmptiedShard(Message):
    """What shows of one shard's columns that its hidden slots are empty."""

    TAG: ClassVar[str] = "emptied-shard"
    CODECS: ClassVar[Sequence[Codec]] = (POINT, POINT, Nested(Opening), Fixed(PROOF_BYTES))

    before: bytes  #: W, the combination of the columns, SPEC A.12.4
    after: bytes  #: W', the same with hidden slots empty
    link: Opening  #: of W and W' to the columns
    proof: bytes  #: Groth16, of the thinning circuit


@dataclass(frozen=True, slots=True)
class EmptiedFile(Message):
    """The public file of an index version of a window with coins."""

    TAG: ClassVar[str] = "emptied-file"
    CODECS: ClassVar[Sequence[Codec]] = (
        Blob(POINT_BYTES * MAX_COLUMNS), Nested(Opening), Many(Nested(EmptiedShard), MAX_SHARDS),
    )  # fmt: skip

    columns: bytes  #: C_0 .. C_(d-1) of every shard, in order, under the attestation key
    opening: Opening  #: of these columns, SPEC A.3
    shards: tuple[EmptiedShard, ...]  #: the proof of each shard, in order

    @property
    def index(self) -> IndexFile:
        """Columns and opening as those of any index version are checked."""
        return IndexFile(self.columns, self.opening)

    def entry(self, tenant: str, text_root: bytes) -> UpdatedIndex:
        """What the ledger says of this file."""
        proof = tagged_hash("emptied-proof", *(one.encode() for one in self.shards))
        return UpdatedIndex(tenant, self.index.columns_digest(), self.index.opening_digest(), (proof,), text_root)


def plain_entry(file: IndexFile, tenant: str, text_root: bytes) -> UpdatedIndex:
    """What the ledger says of an index version of a window without coins."""
    return UpdatedIndex(tenant, file.columns_digest(), file.opening_digest(), (), text_root)


@dataclass(frozen=True)
class EmptiedStatement:
    """Everything about one shard that is fixed before the challenges.

    Whoever checks takes it from its own keys, ledger and manifest.
    """

    thinning_key: bytes  #: digest
    attestation_key: bytes  #: digest
    manifest: bytes  #: digest
    number: int  #: of the update
    c_coin: int  #: the manifest's
    context: int  #: :func:`ragseal.kernel.coin.coin_context` of the throw, the tenant and the shard
    hidden: int  #: j of eta = j / 2^COIN_BITS, the policy's
    columns: bytes  #: C'_j

    def __post_init__(self) -> None:
        check_share(self.hidden)
        if not self.columns or len(self.columns) % POINT_BYTES or len(self.columns) > POINT_BYTES * MAX_DIMENSION:
            raise CommitmentError("the columns of the index version are malformed")
        if self.number < 1:
            raise CommitmentError("updates of a window's indices are counted from 1")

    @property
    def dimension(self) -> int:
        return len(self.columns) // POINT_BYTES

    @cached_property
    def digest(self) -> bytes:
        """Of all of it: a proof about one version is none about another."""
        numbers = field.pack((self.c_coin, self.context, self.hidden))
        whose = self.manifest, self.number.to_bytes(4, "big")
        return tagged_hash("emptied-statement", self.thinning_key, self.attestation_key, *whose, numbers, self.columns)

    def weights(self) -> list[int]:
        """r_j of every column, 31 bytes each.

        Raises:
            ProofError: one of them is zero by chance (2^-248).
        """
        return column_weights("emptied-weight", self.digest, self.dimension)

    def clear(self) -> list[int]:
        """The circuit's clear inputs, in order."""
        return [self.c_coin, self.context, self.hidden]


# --- the link --------------------------------------------------------------------------------------------------------


def _link_context(statement: EmptiedStatement, before: bytes, after: bytes, proof: bytes) -> bytes:
    """What c and every u of the link hash: the statement, W, W' and the circuit's proof."""
    return tagged_hash("emptied-link", statement.digest, before, after, proof)


def _link_relations(
    group: Group, statement: EmptiedStatement, key: ThinningKey, bases: ScoreBases, before: bytes, after: bytes
) -> list[Relation]:
    """sum_j r_j C'_j, W and W': the same N entries, and a blinder each."""
    n = key.cls.N
    combined = combined_columns(group, statement.columns, statement.weights())
    return [
        Relation(bases.y + bases.b, ((0, n + 1),), (combined,)),
        Relation(key.scores.y + key.scores.b, ((0, n), (n + 1, n + 2)), (before,)),
        Relation(key.thinned.y + key.thinned.b, ((0, n), (n + 2, n + 3)), (after,)),
    ]


def prove_emptied_link(
    group: Group,
    statement: EmptiedStatement,
    key: ThinningKey,
    bases: ScoreBases,
    scores: tuple[bytes, bytes],
    proof: bytes,
    witness: bytes,
    nonces: bytes,
) -> Opening:
    """Prove that W and W' (``scores``) hold what the weighted sum of the columns holds.

    ``bases``: the attestation key's; ``proof``: the circuit's, made before.  ``witness``: N + 3 packed scalars, w'_i,
    sum_j r_j beta'_j, rho and rho'; ``nonces`` are as many fresh uniform ones.
    """
    relations = _link_relations(group, statement, key, bases, *scores)
    return prove_opening(group, "emptied", _link_context(statement, *scores, proof), relations, witness, nonces)


# --- checks ----------------------------------------------------------------------------------------------------------


def verify_emptied(
    group: Group, statements: Sequence[EmptiedStatement], key: ThinningKey, bases: ScoreBases, file: EmptiedFile
) -> None:
    """Everything about an index version of a window with coins: its columns, and that hidden slots are empty in them.

    The caller owes that all of the statements is its own.

    Args:
        statements: of every shard of the index, in order, under the same keys.
        bases: Y_i and B of the attestation key that they name.

    Raises:
        CommitmentError: file, keys and statements do not belong together, or columns of the wrong number.
        ProofError: a malformed point or scalar, or a proof that does not hold; says which.
    """
    if len(file.shards) != len(statements):
        raise CommitmentError(f"the file speaks of {len(file.shards)} shards, not {len(statements)}")
    for statement in statements:
        check_keys(statement.thinning_key, key, bases)
    if file.columns != b"".join(one.columns for one in statements):
        raise CommitmentError("the statement is about other columns than the file's")
    count = sum(one.dimension for one in statements)
    verify_columns(group, bases, statements[0].attestation_key, count, file.index)
    for statement, shard in zip(statements, file.shards, strict=True):
        verify_emptied_shard(group, statement, key, bases, shard)


def verify_emptied_shard(
    group: Group, statement: EmptiedStatement, key: ThinningKey, bases: ScoreBases, shard: EmptiedShard
) -> None:
    """One shard's link and circuit, without the opening of its columns; ProofError says which does not hold."""
    relations = _link_relations(group, statement, key, bases, shard.before, shard.after)
    context = _link_context(statement, shard.before, shard.after, shard.proof)
    verify_opening(group, "emptied", context, relations, key.cls.N + 3, shard.link)
    verify_circuit(key, statement.clear(), shard.before, shard.after, shard.proof)
