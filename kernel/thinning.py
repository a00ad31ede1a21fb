# SPDX-License-Identifier: GPL-3.0-or-later
"""The thinned index: the placed one with every hidden slot empty, and the proof that it is.  docs/proofs/thinning.md.

Of a tenant, E is the placed index, E' the thinned one.  Fixed before the challenges r_j are

    C_j  = sum_i E[i][j] Y^t_i + beta_j B^t     over the thinning key's points, in the manifest before the beacon,
    C'_j = sum_i E'[i][j] Y_i + beta'_j B       over the attestation key's points; what records use,

each with its proof of opening, and the coins h_i by the committed seed and the beacon.  With w = E r and w' = E' r,

    W  = sum_j r_j C_j = sum_i w_i Y^t_i + .. B^t     computed by whoever checks;
    W' = sum_i w'_i Y'^t_i + rho B^t                  sent, and linked: it holds what sum_j r_j C'_j holds;
    circuit   h_i = [coin_i < j] for the coins of the committed seed, and w'_i = (1 - h_i) w_i, with W + W' in vk_x.

So E'_i r = (1 - h_i) E_i r for every slot at a random r, which rows that are fixed before r survive only if they agree.

Nothing else leaves the provider: C, C' and W' are blinded perfectly, the rest is zero-knowledge.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import ClassVar, Protocol

from ragseal.kernel import field
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.coin import COINS_PER_ELEMENT
from ragseal.kernel.commitment import MAX_COLUMNS, IndexFile, ScoreBases, ThinnedIndex, verify_columns
from ragseal.kernel.encoding import POINT, Blob, Codec, Fixed, Many, Message, Nested
from ragseal.kernel.errors import CommitmentError, PolicyError, ProofError
from ragseal.kernel.opening import Opening, Relation, prove_opening, verify_opening
from ragseal.kernel.params import COIN_BITS, MAX_SHARDS
from ragseal.kernel.policy import MAX_DIMENSION
from ragseal.kernel.proofs import PROOF_BYTES
from ragseal.kernel.transcript import nonzero_element, tagged_hash

CLEAR_NAMES = ("c_coin", "context", "eta")  #: the circuit's clear inputs, in order


# --- the circuit's shape ---------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class ThinningClass:
    """One size of circuits/thinning.circom.  Its public inputs, in order: clear, blind, w[N], w'[N]."""

    name: str
    N: int  #: capacity in slots, that of the attestation's class

    def __post_init__(self) -> None:
        if not 1 <= self.N < 1 << 31 or self.name != f"thinning-{self.N}":
            raise PolicyError(f"thinning class {self.name!r}: a class of {self.N} slots is thinning-N, 1 <= N < 2^31")

    @property
    def elements(self) -> int:
        """Field elements of coins."""
        return -(-self.N // COINS_PER_ELEMENT)

    @property
    def clear(self) -> int:
        return len(CLEAR_NAMES)

    @property
    def blind_at(self) -> int:
        """Index of the blinder among the public inputs."""
        return self.clear

    @property
    def placed_at(self) -> int:
        """Index of w_0."""
        return self.blind_at + 1

    @property
    def thinned_at(self) -> int:
        """Index of w'_0."""
        return self.placed_at + self.N

    @property
    def public(self) -> int:
        return self.thinned_at + self.N


def thinning_class(capacity: int) -> ThinningClass:
    """The class that goes with attestation classes of this capacity.  PolicyError: there is none."""
    return ThinningClass(f"thinning-{capacity}", capacity)


# --- messages --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ThinnedShard(Message):
    """What shows of one shard's columns that they are the placed ones with its hidden slots emptied."""

    TAG: ClassVar[str] = "thinned-shard"
    CODECS: ClassVar[Sequence[Codec]] = (POINT, Nested(Opening), Fixed(PROOF_BYTES))

    scores: bytes  #: W', the combination of the thinned columns, SPEC A.11.4
    link: Opening  #: of W' to the columns
    proof: bytes  #: Groth16, of the thinning circuit


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


def check_share(hidden: int) -> None:
    """CommitmentError: by j / 2^COIN_BITS no slot is hidden, or every one is, and the circuit says nothing."""
    if not 1 <= hidden < 1 << COIN_BITS:
        raise CommitmentError(f"a slot is hidden in 1..{(1 << COIN_BITS) - 1} of {1 << COIN_BITS} cases")


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


def verify_circuit(key: ThinningKey, clear: Sequence[int], placed: bytes, thinned: bytes, proof: bytes) -> None:
    """ProofError: the circuit's proof does not hold for W and W'."""
    try:
        key.verify(clear, placed, thinned, proof)
    except ProofError as error:
        raise ProofError(f"the proof that hidden slots are empty does not hold: {error}") from None


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

    def clear(self) -> list[int]:
        """The circuit's clear inputs, in order."""
        return [self.c_coin, self.context, self.hidden]


class ThinningKey(Protocol):
    """What the checks ask of the thinning's verifying key (:class:`ragseal.groth16.views.ThinningView` is one)."""

    @property
    def cls(self) -> ThinningClass: ...

    @property
    def digest(self) -> bytes: ...

    @property
    def scores(self) -> ScoreBases: ...  #: Y^t_i and B^t, on which placed columns and w are committed

    @property
    def thinned(self) -> ScoreBases: ...  #: Y'^t_i and B^t, on which w' is

    def verify(self, clear: Sequence[int], c_placed: bytes, c_thinned: bytes, proof: bytes) -> None: ...


# --- the link --------------------------------------------------------------------------------------------------------


def _link_context(statement: ThinningStatement, scores: bytes, proof: bytes) -> bytes:
    """What c and every u of the link hash: the statement, W' and the circuit's proof."""
    return tagged_hash("thinning-link", statement.digest, scores, proof)


def _link_relations(
    group: Group, statement: ThinningStatement, key: ThinningKey, bases: ScoreBases, scores: bytes
) -> list[Relation]:
    """sum_j r_j C'_j over {Y_i, B} and W' over {Y'^t_i, B^t}: the same N entries, and a blinder each."""
    n = key.cls.N
    combined = combined_columns(group, statement.thinned, statement.weights())
    return [
        Relation(bases.y + bases.b, ((0, n + 1),), (combined,)),
        Relation(key.thinned.y + key.thinned.b, ((0, n), (n + 1, n + 2)), (scores,)),
    ]


def prove_link(
    group: Group,
    statement: ThinningStatement,
    key: ThinningKey,
    bases: ScoreBases,
    scores: bytes,
    proof: bytes,
    witness: bytes,
    nonces: bytes,
) -> Opening:
    """Prove that W' (``scores``) holds what the weighted sum of the thinned columns holds.

    ``bases``: the attestation key's; ``proof``: the circuit's, made before.  ``witness``: N + 2 packed scalars, w'_i,
    sum_j r_j beta'_j and rho; ``nonces`` are as many fresh uniform ones.
    """
    relations = _link_relations(group, statement, key, bases, scores)
    return prove_opening(group, "thinning", _link_context(statement, scores, proof), relations, witness, nonces)


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
    """One shard's link and circuit, without the opening of its columns; ProofError says which does not hold."""
    relations = _link_relations(group, statement, key, bases, shard.scores)
    context = _link_context(statement, shard.scores, shard.proof)
    verify_opening(group, "thinning", context, relations, key.cls.N + 2, shard.link)
    placed = combined_columns(group, statement.placed, statement.weights())
    verify_circuit(key, statement.clear(), placed, shard.scores, shard.proof)
