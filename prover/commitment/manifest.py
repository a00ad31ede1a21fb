# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A, commitment: what a window commits to, made and signed.  SPEC A.

Every window commits to every index anew: fresh blinders, fresh salts, a full proof of opening.  What a window needs to
be served and proven is durable before its manifest enters the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from dataclasses import field as field_
from types import MappingProxyType

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.poseidon import seed_commitment
from ragseal.groth16.keys import KeyView
from ragseal.groth16.views import ThinningView
from ragseal.kernel import commitment, field, signature
from ragseal.kernel.beacon import PROVIDER, Seat, beacon_commitment
from ragseal.kernel.bn254 import Group
from ragseal.kernel.coin import coin_commitment
from ragseal.kernel.commitment import CoinCommitment, Manifest, SignedManifest
from ragseal.kernel.errors import CommitmentError, ConfigurationError
from ragseal.kernel.policy import Policy
from ragseal.kernel.signature import SigningKey
from ragseal.kernel.verdict import log_digest
from ragseal.ledger.merkle import MerkleTree
from ragseal.prover.base.randomness import Draw
from ragseal.prover.commitment import index
from ragseal.prover.commitment.columns import ColumnKey, make_version
from ragseal.prover.commitment.enrolling import first_enrolments
from ragseal.prover.commitment.registry import Registration, accounts, window_registry
from ragseal.prover.commitment.slots import Readable
from ragseal.prover.commitment.window_secrets import WindowSecrets
from ragseal.prover.storage.state import State

Progress = Callable[[str], None]
NO_CLAIMS: Mapping[str, str] = MappingProxyType({})  #: every tenant has the policy's


@dataclass(frozen=True, slots=True)
class CarriedCoins:
    """Coins that an earlier window of the coin period threw.  SPEC A.11.9."""

    thrown_by: bytes  #: digest of its manifest
    seed: bytes = field_(repr=False)  #: its coin seed


@dataclass(frozen=True, slots=True)
class WindowTerms:
    """What a window is committed with, besides the documents and the accounts."""

    name: str
    policy: Policy
    embedder: bytes  #: C_emb, digest of the embedder's identity
    auditors: Sequence[Seat]  #: who take part in the beacon as such, and are given registry, links and proofs
    carried: CarriedCoins | None = None  #: the coins of an earlier window, if this one throws none
    claims: Mapping[str, str] = field_(default_factory=dict)  #: of tenants that have a lower one than the policy's


@dataclass(frozen=True)
class CommitmentTools:
    """What a window is committed with at this provider: curve, the newest keys, and randomness."""

    group: Group
    key: KeyView
    thinning: ThinningView | None  #: the key that placed columns are committed under, where the claim has a coin
    draw: Draw


def require_tenants(state: State, known: Sequence[Registration], claims: Collection[str] = ()) -> list[str]:
    """The tenants that a window with these accounts would be of, in order.

    Args:
        claims: tenants that have a claim of their own.

    Raises:
        CommitmentError: no account, or an account's or a claim's tenant that has no documents.
    """
    names = [name for name, count in index.tenants(state) if count]
    if not known:
        raise CommitmentError("no account is registered: add one with `ragseal-provider accounts add`")
    strangers = [one for one in known if one.tenant not in names]
    if strangers:
        raise CommitmentError(
            f"tenant {strangers[0].tenant!r} of account {strangers[0].name!r} has no documents: `ragseal-provider "
            "documents put` adds some"
        )
    unknown = sorted(set(claims) - set(names))
    if unknown:
        raise CommitmentError(
            f"the policy names a claim of tenant {unknown[0]!r}, which has no documents: its tenants are "
            f"{', '.join(sorted(names))}. Correct [tenants] in the "
            "policy, or add documents with `ragseal-provider documents put`"
        )
    return sorted(names)


def prepare_window(
    state: State,
    documents: Readable,
    tools: CommitmentTools,
    terms: WindowTerms,
    progress: Progress = lambda _: None,
) -> WindowSecrets:
    """Commit to every tenant's index and sign the manifest.  Nothing is stored or published yet.

    Args:
        documents: a snapshot that lasts until the window is stored.

    Raises:
        ConfigurationError: the claim has a coin, and there is no such key.
        CommitmentError: no documents, no accounts, or a tenant of an account or of a claim that has no documents.
        PolicyError: a tenant's claim that is none below the policy's.
    """
    policy, group, key, draw = terms.policy, tools.group, tools.key, tools.draw
    known = accounts(state)
    registry, names = window_registry(known, draw), require_tenants(state, known, terms.claims)
    if policy.coined and tools.thinning is None:
        raise ConfigurationError(
            "the policy's claim has a coin, which takes a thinning key: `ragseal-provider fetch-keys`"
        )
    thinning: ColumnKey = key if tools.thinning is None else tools.thinning
    versions = []
    for name in names:
        slots = policy.capacity(key.cls)
        progress(f"committing to the index of tenant {name} ({slots} slots, {policy.dimension} columns)")
        matrix, texts = index.current(documents, name, slots, policy.dimension)
        claim = terms.claims.get(name, policy.claim)
        coined, lower = policy.under(claim).coined, "" if claim == policy.claim else claim
        versions.append(make_version(group, thinning if coined else key, name, matrix, texts, draw, coined, lower))
    seed, nonce = draw(32), draw(32)
    window_key = Ed25519PrivateKey.from_private_bytes(draw(32))
    carried = terms.carried
    coin_seed = None if not policy.coined else draw(32) if carried is None else carried.seed
    manifest = Manifest(
        origin=state.settings.origin,
        log=log_digest(state.log_key.vkey()),
        window=terms.name,
        policy=policy,
        embedder=terms.embedder,
        key_digest=key.digest,
        tenants=tuple(v.committed for v in versions),
        c_seed=seed_commitment(field.limbs(seed)),
        registry_root=MerkleTree(commitment.registry_leaves(registry)).root(),
        accounts=len(registry),
        provider_key=signature.public_bytes(state.key),
        window_key=signature.public_bytes(window_key),
        beacon_commitment=beacon_commitment(PROVIDER, nonce),
        auditors=tuple(terms.auditors),
        coins=() if coin_seed is None else (_coin_commitment(coin_seed, thinning, carried),),
    )
    manifest.validate()
    return WindowSecrets(
        signed=sign_manifest(state.key, manifest),
        key=window_key,
        seed=seed,
        nonce=nonce,
        blinding=draw(32),
        versions={v.tenant: v for v in versions},
        registry={a.pseudonym: a for a in registry},
        enrolments=first_enrolments(manifest, registry, draw),
        coin_seed=coin_seed,
    )


def _coin_commitment(seed: bytes, placed: ColumnKey, carried: CarriedCoins | None) -> CoinCommitment:
    thrown_by = () if carried is None else (carried.thrown_by,)
    return CoinCommitment(coin_commitment(field.limbs(seed)), placed.digest, thrown_by)


def sign_manifest(key: SigningKey, manifest: Manifest) -> SignedManifest:
    return SignedManifest(manifest, signature.sign(key, "manifest", manifest.encode()))
