# SPDX-License-Identifier: GPL-3.0-or-later
"""Hidden slots stay empty in every version of a live index: the proof that they are.  docs/proofs/thinning.md.

The coins of a window are thrown before any of its updates, so an update commits to what is in force only: columns in
which hidden slots hold nothing.  Of one tenant and version, E' is that index, and

    C'_j = sum_i E'[i][j] Y_i + beta'_j B       over the attestation key's points; with its proof of opening

is fixed before the challenges r_j.  With w' = E' r, two commitments to the same w' under the thinning key are sent,

    W  = sum_i w'_i Y^t_i + rho B^t,     W' = sum_i w'_i Y'^t_i + rho' B^t,

linked to sum_j r_j C'_j: all three hold the same N entries.  The thinning circuit says w' = (1 - h) w' for the coins h
of the committed seed (kernel/coin_proof.py), so h_i w'_i = 0: at a random r, every hidden row of E' is zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar

from ragseal.kernel import field
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.coin_proof import Coined, CoinProof, check_share, verify_coins
from ragseal.kernel.commitment import MAX_COLUMNS, IndexFile, ScoreBases, verify_columns
from ragseal.kernel.encoding import POINT, Blob, Codec, Many, Message, Nested
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.opening import Opening
from ragseal.kernel.params import MAX_SHARDS
from ragseal.kernel.policy import MAX_DIMENSION
from ragseal.kernel.thinning import check_keys, column_weights, combined_columns
from ragseal.kernel.thinning_class import ThinningKey
from ragseal.kernel.transcript import tagged_hash
from ragseal.kernel.versions import UpdatedIndex


@dataclass(frozen=True, slots=True)
class EmptiedShard(Message):
    """What shows of one shard's columns that its hidden slots are empty."""

    TAG: ClassVar[str] = "emptied-shard"
    CODECS: ClassVar[Sequence[Codec]] = (POINT, POINT, Nested(CoinProof))

    before: bytes  #: W, the combination of the columns, SPEC A.12.4
    after: bytes  #: W', the same with hidden slots empty
    shown: CoinProof  #: that both hold what the columns hold, and that it is the same


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


def emptied_coins(
    group: Group, statement: EmptiedStatement, key: ThinningKey, bases: ScoreBases, scores: tuple[bytes, bytes]
) -> Coined:
    """One shard's statement with sum_j r_j C'_j, W and W' (``scores``): w' three times."""
    combined = combined_columns(group, statement.columns, statement.weights())
    before, after = scores
    return Coined("emptied", statement, key, ((bases, combined), (key.scores, before), (key.mixed, after)))


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
    """One shard's openings and circuit, without that of its columns; ProofError says which does not hold."""
    coined = emptied_coins(group, statement, key, bases, (shard.before, shard.after))
    verify_coins(group, coined, shard.before, shard.shown)
