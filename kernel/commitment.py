# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A, commitment: what the provider fixes before a window opens.  SPEC A.

Ledger entries of this phase, in order: :class:`SignedManifest`, a :class:`BeaconCommit` of every other participant,
the provider's :class:`BeaconSeal`, a :class:`BeaconOpening` each with the auditor's last, a :class:`Thinning` where the
claim has a coin, :class:`WindowOpen`; during phase B, where the policy has ticks, an
:class:`ragseal.kernel.versions.IndexUpdate` each; at its end :class:`WindowClose`.  An auditor's
:class:`ragseal.kernel.verdict.AuditVerdict` may stand anywhere behind the manifest, and belongs to no phase; nor does
:class:`ragseal.kernel.rotation.Rotation`, of the log itself.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragseal.kernel import field, signature
from ragseal.kernel.beacon import BeaconCommit, BeaconOpening, BeaconSeal, Seat
from ragseal.kernel.bn254 import POINT_BYTES, Group
from ragseal.kernel.claims import LADDER, below
from ragseal.kernel.encoding import (
    ELEMENT,
    HASH,
    NAME,
    PUBLIC_KEY,
    SIGNATURE,
    U16,
    U32,
    U64,
    Blob,
    Codec,
    Fixed,
    Many,
    Message,
    Nested,
    Text,
)
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.opening import Opening, Relation, batching_challenge, prove_opening, verify_opening
from ragseal.kernel.params import MAX_SHARDS, MAX_TENANTS
from ragseal.kernel.policy import MAX_DIMENSION, Policy
from ragseal.kernel.rotation import Rotation
from ragseal.kernel.slot_text import SlotText
from ragseal.kernel.transcript import tagged_hash
from ragseal.kernel.verdict import AuditVerdict
from ragseal.kernel.versions import IndexUpdate

MAX_ACCOUNTS = 1 << 20
MAX_AUDITORS = 8
MAX_COLUMNS = MAX_DIMENSION * MAX_SHARDS  #: of a tenant's index

GENERATOR_DOMAIN = b"ragseal/v1/embedding-generators"


# --- messages --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TenantIndex(Message):
    """C_idx of one tenant and index version: points and their proof of opening are an `index-file`.  SPEC A.3."""

    TAG: ClassVar[str] = "tenant-index"
    LATER: ClassVar[int] = 1
    CODECS: ClassVar[Sequence[Codec]] = (NAME, U16, HASH, HASH, HASH, Text(32))

    tenant: str  #: the tenant's name
    dimension: int  #: d, entries of a vector; the policy's
    columns_digest: bytes  #: H("columns", C_0 .. C_(d-1) of every shard)
    opening_digest: bytes  #: digest of their `folded-opening`, SPEC A.3
    text_root: bytes  #: root of the tree of SPEC A.4, one leaf a slot, empty or not
    claim: str = ""  #: what holds of this tenant, if that is less than the policy's claim, SPEC D.24; else empty

    def digest(self) -> bytes:
        """The index-version digest that requests and records name."""
        return tagged_hash("index-version", self.encode())


@dataclass(frozen=True, slots=True)
class Account(Message):
    """One account of a window's registry, the Merkle tree over these by increasing pseudonym.

    Who the account is stands here and nowhere in the ledger: its line is shown to itself and to the window's auditor.
    """

    TAG: ClassVar[str] = "account"
    CODECS: ClassVar[Sequence[Codec]] = (NAME, NAME, PUBLIC_KEY, Fixed(32))

    name: str  #: as the operator registered it
    tenant: str  #: whose index it asks
    public_key: bytes  #: checks its requests
    salt: bytes  #: fresh for every window: hides the name behind the pseudonym

    @property
    def pseudonym(self) -> str:
        """How the ledger calls this account in this window: 32 hexadecimal digits, another in every window."""
        return tagged_hash("pseudonym", self.salt, self.name.encode())[:16].hex()


@dataclass(frozen=True, slots=True)
class Registry(Message):
    """Every account of a window: for its auditor alone."""

    TAG: ClassVar[str] = "registry"
    CODECS: ClassVar[Sequence[Codec]] = (Many(Nested(Account), MAX_ACCOUNTS),)

    accounts: tuple[Account, ...]  #: by increasing pseudonym


@dataclass(frozen=True, slots=True)
class AccountAsk(Message):
    """An account asks for its own line of a window's registry; signed with purpose "account"."""

    TAG: ClassVar[str] = "account-ask"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, NAME)

    manifest: bytes  #: digest of the window's manifest
    name: str  #: the account's own name


@dataclass(frozen=True, slots=True)
class Membership(Message):
    """An account's line of a window's registry, and where it stands in it."""

    TAG: ClassVar[str] = "membership"
    CODECS: ClassVar[Sequence[Codec]] = (Nested(Account), U32, Many(HASH, 64))

    account: Account  #: the line
    index: int  #: of the leaf in the registry's tree, from 0
    path: tuple[bytes, ...]  #: RFC 6962 inclusion path in the registry's tree


@dataclass(frozen=True, slots=True)
class CoinCommitment(Message):
    """C_coin, fixed before the beacon that its coins follow from, and the key that thinning is proven under.  A.11."""

    TAG: ClassVar[str] = "coin-commitment"
    CODECS: ClassVar[Sequence[Codec]] = (ELEMENT, HASH, Many(HASH, 1))

    c_coin: int  #: C_coin, SPEC A.11.1
    key_digest: bytes  #: SHA-256 of the thinning circuit's verifying key; the placed columns lie under its points
    #: digest of the manifest whose beacon threw these coins, SPEC A.11.9; none: this window throws them
    thrown_by: tuple[bytes, ...] = ()


@dataclass(frozen=True, slots=True)
class Manifest(Message):
    """What a window is bound to before it opens.  SPEC A.1."""

    TAG: ClassVar[str] = "manifest"

    origin: str  #: the ledger's name
    log: bytes  #: SHA-256 of the text form of the log's first key: what is said of a window is of one log
    window: str  #: name of the window, unique in its log
    policy: Policy  #: C_policy, SPEC A.6
    embedder: bytes  #: C_emb, SPEC A.2
    key_digest: bytes  #: SHA-256 of the verifying key of this window's proofs
    tenants: tuple[TenantIndex, ...]  #: C_idx of every tenant, strictly increasing by name, at least one
    c_seed: int  #: C_seed, SPEC A.5
    registry_root: bytes  #: Merkle root over the accounts, SPEC A.7
    accounts: int  #: number of accounts in the registry
    provider_key: bytes  #: long-term key: signs manifests
    window_key: bytes  #: this window's key: signs its seals, receipts, deliveries and links, and nothing else
    beacon_commitment: bytes  #: H("beacon-nonce", "provider", nonce)
    auditors: tuple[Seat, ...]  #: who open last in the beacon, in this order, and are given proofs
    coins: tuple[CoinCommitment, ...] = ()  #: one where the claim is until-delivered or unseen, else none

    CODECS: ClassVar[Sequence[Codec]] = (
        NAME, HASH, NAME, Nested(Policy), HASH, HASH, Many(Nested(TenantIndex), MAX_TENANTS), ELEMENT, HASH, U32,
        PUBLIC_KEY, PUBLIC_KEY, HASH, Many(Nested(Seat), MAX_AUDITORS), Many(Nested(CoinCommitment), 1),
    )  # fmt: skip

    @property
    def coin(self) -> CoinCommitment:
        """C_coin of a window whose claim has one; CommitmentError if it has none."""
        if not self.coins:
            raise CommitmentError(f"window {self.window!r} has no coin: its claim is {self.policy.claim}")
        return self.coins[0]

    @property
    def coin_period(self) -> bytes:
        """What names the coin period: the digest of the manifest whose beacon threw this window's coins.

        Raises:
            CommitmentError: the claim has no coin.
        """
        return self.coin.thrown_by[0] if self.coin.thrown_by else self.digest()

    @property
    def claims(self) -> dict[str, tuple[str, ...]]:
        """The tenants by the claim that holds of them, the weakest claim first."""
        ladder = (*below(self.policy.claim), self.policy.claim)
        every: dict[str, tuple[str, ...]] = dict.fromkeys(ladder, ())
        for one in self.tenants:
            every[one.claim or self.policy.claim] += (one.tenant,)
        return {claim: tenants for claim, tenants in every.items() if tenants}

    @property
    def coined(self) -> tuple[str, ...]:
        """The tenants whose slots coins hide, in order."""
        return tuple(one.tenant for one in self.tenants if self.rules(one.tenant).coined)

    def charged(self, claim: str, tenants: Collection[str]) -> Policy:
        """The policy by which this window counts in a budget period of tenants that have a claim.  SPEC D.24.4.

        Where one of them has another claim here it is of that, the weakest of several, and no number follows: a window
        without a coin, or without decoys, bounds nothing for a later one, whatever that is called.  A window that has
        none of them counts by its coins alone.
        """
        others = {one.claim or self.policy.claim for one in self.tenants if one.tenant in tenants} - {claim}
        found = min(others, key=lambda name: (*LADDER, name).index(name)) if others else claim
        return self.policy.under(found) if found in below(self.policy.claim) else self.policy

    def rules(self, tenant: str) -> Policy:
        """The policy that holds for a tenant: the window's, or what it comes to under the tenant's lower claim.

        Raises:
            CommitmentError: no such tenant.
        """
        return self.policy.under(self.index_of(tenant).claim or self.policy.claim)

    def digest(self) -> bytes:
        return tagged_hash("manifest", self.encode())

    def auditor(self, owner: str) -> Seat | None:
        """The seat of that name."""
        return next((one for one in self.auditors if one.owner == owner), None)

    def auditor_of(self, public_key: bytes) -> Seat | None:
        """The seat that this key has."""
        return next((one for one in self.auditors if one.public_key == public_key), None)

    def index_of(self, tenant: str) -> TenantIndex:
        """The index of a tenant; CommitmentError if the manifest has none."""
        for index in self.tenants:
            if index.tenant == tenant:
                return index
        raise CommitmentError(f"the manifest holds no index of tenant {tenant!r}")

    def validate(self) -> None:
        self.policy.validate()
        names = [t.tenant for t in self.tenants]
        if not names or names != sorted(set(names)):
            raise CommitmentError("a manifest's tenants must be distinct and sorted, at least one")
        if any(t.dimension != self.policy.dimension for t in self.tenants):
            raise CommitmentError("an index has another dimension than the policy")
        lower = below(self.policy.claim)
        for one in self.tenants:
            if one.claim and one.claim not in lower:
                raise CommitmentError(
                    f"tenant {one.tenant!r} is committed to under the claim {one.claim!r}, which is none below the "
                    f"policy's, {self.policy.claim}"
                )
        if all(one.claim for one in self.tenants):
            raise CommitmentError(f"no tenant has the policy's claim, {self.policy.claim}: it is the highest of them")
        if bool(self.coins) != self.policy.coined:
            raise CommitmentError(
                f"the claim {self.policy.claim} {'needs a' if self.policy.coined else 'has no'} commitment to coins"
            )
        owners, keys = {one.owner for one in self.auditors}, {one.public_key for one in self.auditors}
        if not self.auditors or not len(owners) == len(keys) == len(self.auditors):
            raise CommitmentError("a manifest names one auditor at least, each by a name and a key of its own")
        if self.provider_key in keys or self.window_key in keys:
            raise CommitmentError("the provider is not its own auditor: the manifest names one key for both")
        if self.window_key == self.provider_key:
            raise CommitmentError("a window has a key of its own: the manifest names the provider's for both")


@dataclass(frozen=True, slots=True)
class SignedManifest(Message):
    """The manifest under the provider's signature: the window's first entry in the log."""

    TAG: ClassVar[str] = "signed-manifest"
    CODECS: ClassVar[Sequence[Codec]] = (Nested(Manifest), SIGNATURE)

    manifest: Manifest  #: the content
    signature: bytes  #: of its provider_key, purpose "manifest"

    def verify(self) -> None:
        """The manifest is signed by the provider key it names, else AttestationError."""
        signature.verify(self.manifest.provider_key, "manifest", self.manifest.encode(), self.signature)


@dataclass(frozen=True, slots=True)
class ThinnedIndex(Message):
    """One tenant's index without the slots that its coins hide; points and proofs are a file beside the ledger."""

    TAG: ClassVar[str] = "thinned-index"
    CODECS: ClassVar[Sequence[Codec]] = (NAME, HASH, HASH, HASH)

    tenant: str  #: the tenant's name
    columns_digest: bytes  #: H("columns", thinned columns of every shard): what C_y of records are made of
    opening_digest: bytes  #: digest of their `folded-opening`
    proof_digest: bytes  #: H("thinning-proof", thinned-shard, thinned-shard, ...)


@dataclass(frozen=True, slots=True)
class Thinning(Message):
    """The indices that a window with coins answers from, once its beacon has decided which slots are hidden.  A.11."""

    TAG: ClassVar[str] = "thinning"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, Many(Nested(ThinnedIndex), MAX_TENANTS))

    manifest: bytes  #: digest of the window's manifest
    tenants: tuple[ThinnedIndex, ...]  #: every tenant of the manifest whose claim has a coin, in its order

    def validate(self) -> None:
        names = [t.tenant for t in self.tenants]
        if not names or names != sorted(set(names)):
            raise CommitmentError("a thinning's tenants must be distinct and sorted, at least one")


@dataclass(frozen=True, slots=True)
class WindowOpen(Message):
    """The window takes queries from here on."""

    TAG: ClassVar[str] = "window-open"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, ELEMENT, U64)

    manifest: bytes  #: digest of the window's manifest
    beacon: int  #: the value of SPEC A.8
    time: int  #: seconds since 1970


@dataclass(frozen=True, slots=True)
class WindowClose(Message):
    """No record of the window follows; states how many there are."""

    TAG: ClassVar[str] = "window-close"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, U64, U64)

    manifest: bytes  #: digest of the window's manifest
    records: int  #: how many the window has
    time: int  #: seconds since 1970


@dataclass(frozen=True, slots=True)
class IndexFile(Message):
    """The public file of an index version: column commitments and their proof of opening."""

    TAG: ClassVar[str] = "index-file"
    CODECS: ClassVar[Sequence[Codec]] = (Blob(MAX_COLUMNS * POINT_BYTES), Nested(Opening))

    columns: bytes  #: C_0 .. C_(d-1) of every shard, in order
    opening: Opening  #: of all of them

    def columns_digest(self) -> bytes:
        return tagged_hash("columns", self.columns)

    def opening_digest(self) -> bytes:
        return tagged_hash("columns-opening", self.opening.encode())


# --- index columns (SPEC A.3) ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ScoreBases:
    """Points of a verifying key that scores live on: Y_0..Y_(N-1) and B."""

    y: bytes
    b: bytes

    def __post_init__(self) -> None:
        if len(self.y) % POINT_BYTES or len(self.b) != POINT_BYTES:
            raise CommitmentError("score bases are malformed")

    @property
    def capacity(self) -> int:
        return len(self.y) // POINT_BYTES


def columns_context(key_digest: bytes, columns: bytes) -> bytes:
    """What chi hashes for the columns' opening: the key digest and all C_j."""
    return tagged_hash("columns-context", key_digest, columns)


def _columns_relation(bases: ScoreBases, columns: bytes) -> Relation:
    count = len(columns) // POINT_BYTES
    points = tuple(columns[POINT_BYTES * j : POINT_BYTES * (j + 1)] for j in range(count))
    return Relation(bases.y + bases.b, ((0, bases.capacity + 1),), points)


def columns_batching_challenge(key_digest: bytes, columns: bytes) -> int:
    """chi of the columns' opening, by whose powers the prover combines rows and blinders."""
    return batching_challenge("columns", columns_context(key_digest, columns))


def prove_columns(
    group: Group, bases: ScoreBases, key_digest: bytes, columns: bytes, witness: bytes, nonces: bytes
) -> Opening:
    """Prove that every C_j lies in the span of {Y_i, B}.

    ``witness``: N + 1 packed scalars, a_i = sum_j chi^j E[i][j] and sum_j chi^j beta_j with chi that of
    :func:`columns_batching_challenge`; j counts through the columns of all shards, and i the slots of one.
    """
    context = columns_context(key_digest, columns)
    return prove_opening(group, "columns", context, [_columns_relation(bases, columns)], witness, nonces)


def verify_columns(group: Group, bases: ScoreBases, key_digest: bytes, count: int, file: IndexFile) -> None:
    """Check an index version's columns and their proof of opening.

    Args:
        count: of columns: one for each dimension and shard.

    Raises:
        CommitmentError: wrong number of columns.
        ProofError: a column outside the span, or a malformed point.
    """
    if len(file.columns) != POINT_BYTES * count:
        raise CommitmentError(
            f"the index file holds {len(file.columns)} bytes of columns, not {POINT_BYTES} for each of {count}"
        )
    context = columns_context(key_digest, file.columns)
    relation = _columns_relation(bases, file.columns)
    verify_opening(group, "columns", context, [relation], bases.capacity + 1, file.opening)


def shard_columns(columns: bytes, dimension: int, shards: int) -> list[bytes]:
    """The column commitments of every shard of an index, in order.

    Raises:
        CommitmentError: another number of columns.
    """
    size = POINT_BYTES * dimension
    if len(columns) != size * shards:
        raise CommitmentError("it has another number of columns than the policy has dimensions and shards")
    return [columns[at : at + size] for at in range(0, len(columns), size)]


# --- texts and registry ----------------------------------------------------------------------------------------------


def text_leaf(salt: bytes, slot: int, content: SlotText | None) -> bytes:
    """Leaf data of a slot: salted, so that it is no membership oracle; an empty slot has a leaf too."""
    present, encoded = (b"\x00", b"") if content is None else (b"\x01", content.encode())
    return tagged_hash("slot-text", salt, slot.to_bytes(4, "big"), present, encoded)


def registry_leaves(accounts: Sequence[Account]) -> list[bytes]:
    """Leaf data of the registry tree.

    Raises:
        CommitmentError: pseudonyms not distinct and sorted, or one name or key used by two accounts.
    """
    pseudonyms = [a.pseudonym for a in accounts]
    if pseudonyms != sorted(set(pseudonyms)):
        raise CommitmentError("the registry's accounts must be distinct and sorted by pseudonym")
    if len({a.name for a in accounts}) != len(accounts):
        raise CommitmentError("two accounts of the registry share a name")
    if len({a.public_key for a in accounts}) != len(accounts):
        raise CommitmentError("two accounts of the registry share a public key")
    return [a.encode() for a in accounts]


def generators(group: Group, dimension: int) -> bytes:
    """H_0 .. H_d: hash-to-curve generators of C_e = sum_j e_j H_j + r H_d (SPEC G.9)."""
    return group.hash_to_curve(GENERATOR_DOMAIN, dimension + 1)


def embedding_commitment(group: Group, bases: bytes, e: Sequence[int], blinder: int) -> bytes:
    """C_e over :func:`generators`."""
    return group.msm(bases, field.pack([*e, blinder]))


MESSAGES: tuple[type[Message], ...] = (
    SignedManifest, BeaconCommit, BeaconSeal, BeaconOpening, Thinning, WindowOpen, IndexUpdate, WindowClose,
    AuditVerdict, Rotation,
)  # fmt: skip
