# SPDX-License-Identifier: GPL-3.0-or-later
"""The thinned index: the placed one with every hidden slot empty, and the proof that it is.  docs/proofs/thinning.md.

Of a tenant, E is the placed index, E' the thinned one.  Fixed before the challenges r_j are

    C_j  = sum_i E[i][j] Y^t_i + beta_j B^t     over the thinning key's points, in the manifest before the beacon,
    C'_j = sum_i E'[i][j] Y_i + beta'_j B       over the attestation key's points; what records use,

each with its proof of opening, and the coins h_i by the committed seed and the beacon.  With w = E r and w' = E' r,

    W  = sum_j r_j C_j = sum_i w_i Y^t_i + .. B^t     computed by whoever checks;
    W' = sum_i w'_i Y'^t_i + rho B^t                  sent, and linked: it holds what sum_j r_j C'_j holds;
    circuit   h_i = [coin_i < j] for the coins of the committed seed, and w'_i = (1 - h_i) w_i (kernel/coin_proof.py).

So E'_i r = (1 - h_i) E_i r for every slot at a random r, which rows that are fixed before r survive only if they agree.

Nothing else leaves the provider: all commitments are blinded perfectly, the rest is zero-knowledge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ragseal.kernel import field
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.coin_proof import Coined, CoinProof, check_share, verify_coins
from ragseal.kernel.commitment import MAX_COLUMNS, IndexFile, ScoreBases, ThinnedIndex, verify_columns
from ragseal.kernel.encoding import POINT, Blob, Codec, Many, Message, Nested
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.opening import Opening
from ragseal.kernel.params import MAX_SHARDS
from ragseal.kernel.policy import MAX_DIMENSION
from ragseal.kernel.thinning_class import ThinningKey
from ragseal.kernel.transcript import nonzero_element, tagged_hash

# --- messages --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ThinnedShard(Message):
    """What shows of one shard's columns that they are the placed ones with its hidden slots emptied."""

    TAG: ClassVar[str] = "thinned-shard"
    CODECS: ClassVar[Sequence[Codec]] = (POINT, Nested(CoinProof))

    scores: bytes  #: W', the combination of the thinned columns, SPEC A.11.4
    shown: CoinProof  #: that it holds what they hold, and that this is w where no coin hides it


@dataclass(frozen=True, slots=True)
class ThinnedFile(Message):
    """The public file of a thinned index: columns C' with their proof of opening, and of every shard its proof."""

    TAG: ClassVar[str] = "thinned-file"
    CODECS: ClassVar[Sequence[Codec]] = (
        Blob(POINT_BYTES * MAX_COLUMNS), Nested(Opening), Many(Nested(ThinnedShard), MAX_SHARDS),
    )  # fmt: skip

    columns: bytes  #: C'_0 .. C'_(d-1) of every shard, in order, under the attestation key
    opening: Opening  #: of these columns, SPEC A.3
    shards: tuple[ThinnedShard, ...]  #: the proof of each shard, in order

    @property
    def index(self) -> IndexFile:
        """Columns and opening as those of any index version are checked."""
        return IndexFile(self.columns, self.opening)

    def columns_digest(self) -> bytes:
        return self.index.columns_digest()

    def opening_digest(self) -> bytes:
        return self.index.opening_digest()

    def proof_digest(self) -> bytes:
        return tagged_hash("thinning-proof", *(one.encode() for one in self.shards))

    def entry(self, tenant: str) -> ThinnedIndex:
        """What the ledger says of this file."""
        return ThinnedIndex(tenant, self.columns_digest(), self.opening_digest(), self.proof_digest())


# --- what statements about hidden slots share ------------------------------------------------------------------------


def column_weights(tag: str, statement: bytes, dimension: int) -> list[int]:
    """r_j of every column, 31 bytes each, hashed from the statement's digest.

    Raises:
        ProofError: one of them is zero by chance (2^-248).
    """
    return [nonzero_element(tag, statement, j.to_bytes(4, "big")) for j in range(dimension)]


def combined_columns(group: Group, columns: bytes, weights: Sequence[int]) -> bytes:
    """sum_j r_j C_j."""
    return group.msm(columns, field.pack(weights))


def check_keys(thinning_key: bytes, key: ThinningKey, bases: ScoreBases) -> None:
    """CommitmentError: the key is not the one that a statement names, or of another capacity than the bases."""
    if key.digest != thinning_key:
        raise CommitmentError("the statement names another thinning key")
    if bases.capacity != key.cls.N:
        raise CommitmentError(f"a thinning key of {key.cls.N} slots for an attestation key of {bases.capacity}")


# --- the statement ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ThinningStatement:
    """Everything about one shard that is fixed before the challenges.

    Whoever checks takes all of it from its own keys, the ledger and the manifest; ``placed`` are columns that the
    manifest names and whose opening over the *thinning* key's {Y^t_i, B^t} was checked
    (:func:`ragseal.kernel.commitment.verify_columns`).  :func:`verify_thinning` proves nothing about columns of
    another kind.
    """

    thinning_key: bytes  #: digest
    attestation_key: bytes  #: digest
    manifest: bytes  #: digest
    c_coin: int  #: the manifest's
    context: int  #: :func:`ragseal.kernel.coin.coin_context` of manifest, beacon, tenant and shard
    hidden: int  #: j of eta = j / 2^COIN_BITS, the policy's
    placed: bytes  #: C_j
    thinned: bytes  #: C'_j

    def __post_init__(self) -> None:
        check_share(self.hidden)
        if not self.placed or len(self.placed) % POINT_BYTES or len(self.placed) > POINT_BYTES * MAX_DIMENSION:
            raise CommitmentError("the placed columns are malformed")
        if len(self.thinned) != len(self.placed):
            raise CommitmentError(
                f"there are {len(self.thinned)} bytes of thinned columns for {len(self.placed)} of placed ones"
            )

    @property
    def dimension(self) -> int:
        return len(self.placed) // POINT_BYTES

    @cached_property
    def digest(self) -> bytes:
        """Of all of it."""
        numbers = field.pack((self.c_coin, self.context, self.hidden))
        parts = (self.thinning_key, self.attestation_key, self.manifest, numbers, self.placed, self.thinned)
        return tagged_hash("thinning-statement", *parts)

    def weights(self) -> list[int]:
        """r_j of every column, 31 bytes each.

        Raises:
            ProofError: one of them is zero by chance (2^-248).
        """
        return column_weights("thinning-weight", self.digest, self.dimension)


def thinned_coins(
    group: Group, statement: ThinningStatement, key: ThinningKey, bases: ScoreBases, scores: bytes
) -> Coined:
    """One shard's statement with sum_j r_j C'_j over {Y_i, B} and W' (``scores``) over {Y'^t_i, B^t}."""
    combined = combined_columns(group, statement.thinned, statement.weights())
    return Coined("thinning", statement, key, ((bases, combined), (key.mixed, scores)))


# --- checks ----------------------------------------------------------------------------------------------------------


def verify_thinning(
    group: Group, statements: Sequence[ThinningStatement], key: ThinningKey, bases: ScoreBases, file: ThinnedFile
) -> None:
    """Everything about a thinned index: its columns, that they are the placed ones without the hidden slots.

    The caller owes the opening of the placed columns, and that all of the statements is its own (their docstring).

    Args:
        statements: of every shard of the index, in order, under the same keys.
        bases: Y_i and B of the attestation key that the statements name.

    Raises:
        CommitmentError: file, keys and statements do not belong together, or columns of the wrong number.
        ProofError: a malformed point or scalar, or a proof that does not hold; says which.
    """
    if len(file.shards) != len(statements):
        raise CommitmentError(f"the file thins {len(file.shards)} shards, not {len(statements)}")
    for statement in statements:
        check_keys(statement.thinning_key, key, bases)
    if file.columns != b"".join(one.thinned for one in statements):
        raise CommitmentError("the statement is about other thinned columns than the file's")
    count = sum(one.dimension for one in statements)
    verify_columns(group, bases, statements[0].attestation_key, count, file.index)
    for statement, shard in zip(statements, file.shards, strict=True):
        verify_thinned_shard(group, statement, key, bases, shard)


def verify_thinned_shard(
    group: Group, statement: ThinningStatement, key: ThinningKey, bases: ScoreBases, shard: ThinnedShard
) -> None:
    """One shard's openings and circuit, without that of its columns; ProofError says which does not hold."""
    coined = thinned_coins(group, statement, key, bases, shard.scores)
    verify_coins(group, coined, combined_columns(group, statement.placed, statement.weights()), shard.shown)
