# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A, commitment: column commitments with their proof of opening, registry, manifest.  SPEC A.

Every window commits to every index anew: fresh blinders, fresh salts, a full proof of opening.  What a window needs to
be served and proven is durable before its manifest enters the ledger.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ragseal.backends import group as backend
from ragseal.backends.poseidon import seed_commitment
from ragseal.groth16.keys import KeyView
from ragseal.kernel import commitment, field, signature
from ragseal.kernel.bn254 import Group
from ragseal.kernel.commitment import Account, IndexFile, Manifest, Membership, ScoreBases, SignedManifest
from ragseal.kernel.errors import AttestationError, CommitmentError, EncodingError
from ragseal.kernel.opening import powers
from ragseal.kernel.params import R
from ragseal.kernel.policy import Policy
from ragseal.ledger.merkle import MerkleTree
from ragseal.prover.commitment import index
from ragseal.prover.commitment.index import Matrix, Version
from ragseal.prover.randomness import Draw, packed_scalars
from ragseal.prover.storage.state import State

Progress = Callable[[str], None]


# --- column commitments ----------------------------------------------------------------------------------------------


def commit_columns(group: Group, bases: ScoreBases, matrix: Matrix, blinders: Sequence[int]) -> bytes:
    """C_j = sum_i E[i][j] Y_i + beta_j B for every column, 64 bytes each.

    Raises:
        CommitmentError: matrix, bases and blinders do not fit one another.
        ProofError: a base is malformed.
    """
    rows, columns = matrix.shape
    if rows != bases.capacity or columns != len(blinders):
        raise CommitmentError(f"a matrix of {rows} x {columns} for {bases.capacity} bases and {len(blinders)} blinders")
    if backend.available():
        with backend.native_errors():
            packed = np.ascontiguousarray(matrix).tobytes()
            return bytes(backend.native().commit_columns(bases.y, bases.b, packed, columns, field.pack(blinders)))
    points = bases.y + bases.b
    return b"".join(
        group.msm(points, field.pack([*(int(x) for x in matrix[:, j]), beta])) for j, beta in enumerate(blinders)
    )


def combine_columns(matrix: Matrix, chi: int) -> bytes:
    """a_i = sum_j chi^j E[i][j] mod r for every row, packed."""
    columns = matrix.shape[1]
    if backend.available():
        with backend.native_errors():
            packed = np.ascontiguousarray(matrix).tobytes()
            return bytes(backend.native().matrix_combination(packed, columns, field.to_bytes(chi)))
    weights, rows = powers(chi, columns), matrix.tolist()
    return field.pack(sum(w * x for w, x in zip(weights, row, strict=True) if x) % R for row in rows)


_GENERATORS: dict[int, bytes] = {}


def embedding_generators(group: Group, dimension: int) -> bytes:
    """H_0 .. H_d, computed once: they are the same points whichever group computes them."""
    if dimension not in _GENERATORS:
        _GENERATORS[dimension] = commitment.generators(group, dimension)
    return _GENERATORS[dimension]


def make_version(
    group: Group, key: KeyView, tenant: str, matrix: Matrix, texts: Mapping[int, str], draw: Draw
) -> Version:
    """Commit to a tenant's index with fresh secrets, and check the public file exactly as an auditor does."""
    dimension = matrix.shape[1]
    blinders = field.unpack(packed_scalars(draw, dimension))
    columns = commit_columns(group, key.scores, matrix, blinders)
    chi = commitment.columns_fold(key.digest, columns)
    folded_blinder = sum(w * b for w, b in zip(powers(chi, dimension), blinders, strict=True)) % R
    witness = combine_columns(matrix, chi) + field.to_bytes(folded_blinder)
    nonces = packed_scalars(draw, matrix.shape[0] + 1)
    opening = commitment.prove_columns(group, key.scores, key.digest, columns, witness, nonces)
    public = IndexFile(columns, opening)
    commitment.verify_columns(group, key.scores, key.digest, dimension, public)
    return Version(tenant, matrix, texts, draw(32), tuple(blinders), public)


# --- registry --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Registration:
    """An account as the provider keeps it between windows; every window gives it a pseudonym of its own."""

    name: str
    tenant: str
    public_key: bytes

    def for_window(self, salt: bytes) -> Account:
        """Its line in one window's registry, with a fresh ``salt`` of 32 bytes."""
        return Account(self.name, self.tenant, self.public_key, salt)


def add_accounts(state: State, new: Iterable[Registration]) -> int:
    """Register accounts for the windows committed from now on, all of them or none; returns how many were new.

    Raises:
        CommitmentError: a name or a key is taken, or malformed.
    """
    by_name = {account.name: account for account in accounts(state)}
    by_key = {account.public_key: account.name for account in by_name.values()}
    fresh = []
    for account in new:
        try:
            account.for_window(bytes(32)).encode()
            Ed25519PublicKey.from_public_bytes(account.public_key)
        except (EncodingError, ValueError) as error:
            raise CommitmentError(f"account {account.name[:80]!r} cannot be registered: {error}") from None
        if by_name.get(account.name) == account:
            continue
        if account.name in by_name:
            raise CommitmentError(
                f"account {account.name!r} is registered with another key or tenant: take a new name, or take the old "
                "one out with `ragseal-provider accounts remove`"
            )
        if account.public_key in by_key:
            raise CommitmentError(f"the key of {account.name!r} belongs to {by_key[account.public_key]!r} already")
        by_name[account.name], by_key[account.public_key] = account, account.name
        fresh.append((account.name, account.tenant, account.public_key))
    with state.transaction() as db:
        db.executemany("INSERT INTO accounts VALUES (?, ?, ?)", fresh)
    return len(fresh)


def remove_account(state: State, name: str) -> None:
    """Take an account out of the windows committed from now on; windows that have it keep it.

    Raises:
        CommitmentError: no such account.
    """
    with state.transaction() as db:
        if db.execute("DELETE FROM accounts WHERE name = ?", (name,)).rowcount == 0:
            raise CommitmentError(f"no account {name[:80]!r} is registered; `accounts list` shows those that are")


def accounts(state: State) -> list[Registration]:
    """The registered accounts, sorted by name."""
    rows = state.rows("SELECT name, tenant, public_key FROM accounts")
    return sorted((Registration(*row) for row in rows), key=lambda a: a.name)


def window_registry(registered: Sequence[Registration], draw: Draw) -> list[Account]:
    """The accounts as one window has them: under fresh pseudonyms, by which they are sorted."""
    return sorted((one.for_window(draw(32)) for one in registered), key=lambda account: account.pseudonym)


# --- manifest --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, weakref_slot=True)
class WindowSecrets:
    """A window with all that serving and proving it takes.  Never printed, never sent."""

    signed: SignedManifest
    seed: bytes  #: 32 bytes; C_seed commits to it
    nonce: bytes  #: the provider's beacon nonce
    blinding: bytes  #: from which the blinders of C_e are derived
    versions: Mapping[str, Version]  #: by tenant
    registry: Mapping[str, Account]  #: by pseudonym

    @property
    def limbs(self) -> tuple[int, int]:
        """The seed as the circuit takes it."""
        return field.limbs(self.seed)

    def account(self, pseudonym: str) -> Account:
        """A registered account; AttestationError for a stranger."""
        found = self.registry.get(pseudonym)
        if found is None:
            raise AttestationError(f"account {pseudonym!r} is not in this window's registry")
        return found

    def __repr__(self) -> str:
        return f"WindowSecrets({self.signed.manifest.window!r})"


def prepare_window(
    state: State,
    group: Group,
    key: KeyView,
    policy: Policy,
    embedder: bytes,
    window: str,
    auditor_key: bytes,
    draw: Draw,
    progress: Progress = lambda _: None,
) -> WindowSecrets:
    """Commit to every tenant's index and sign the manifest.  Nothing is stored or published yet.

    Args:
        embedder: C_emb, digest of the embedder's identity.
        auditor_key: who takes the auditor's part in the beacon, and is given registry, links and proofs.

    Raises:
        CommitmentError: no documents, no accounts, or an account whose tenant has no documents.
    """
    registry = window_registry(accounts(state), draw)
    if not registry:
        raise CommitmentError("no account is registered: add one with `ragseal-provider accounts add`")
    names = [name for name, count in index.tenants(state) if count]
    strangers = [a for a in registry if a.tenant not in names]
    if strangers:
        raise CommitmentError(
            f"tenant {strangers[0].tenant!r} of account {strangers[0].name!r} has no documents: ingest them first"
        )
    versions = []
    for name in sorted(names):
        progress(f"committing to the index of tenant {name} ({key.cls.N} slots, {policy.dimension} columns)")
        matrix, texts = index.current(state, name, key.cls.N, policy.dimension)
        versions.append(make_version(group, key, name, matrix, texts, draw))
    seed, nonce = draw(32), draw(32)
    manifest = Manifest(
        origin=state.settings.origin,
        window=window,
        policy=policy,
        embedder=embedder,
        key_digest=key.digest,
        tenants=tuple(v.committed for v in versions),
        c_seed=seed_commitment(field.limbs(seed)),
        registry_root=MerkleTree(commitment.registry_leaves(registry)).root(),
        accounts=len(registry),
        provider_key=signature.public_bytes(state.key),
        beacon_commitment=commitment.beacon_commitment("provider", nonce),
        auditor_key=auditor_key,
    )
    manifest.validate()
    return WindowSecrets(
        signed=sign_manifest(state.key, manifest),
        seed=seed,
        nonce=nonce,
        blinding=draw(32),
        versions={v.tenant: v for v in versions},
        registry={a.pseudonym: a for a in registry},
    )


def sign_manifest(key: Ed25519PrivateKey, manifest: Manifest) -> SignedManifest:
    return SignedManifest(manifest, signature.sign(key, "manifest", manifest.encode()))


def store_window(state: State, prepared: WindowSecrets) -> None:
    """Make a window's secrets durable; must come before its manifest enters the ledger.

    A row of the same name that never reached the ledger (the caller has looked) is replaced.
    """
    digest = prepared.signed.manifest.digest()
    name = prepared.signed.manifest.window
    files = [index.save_version(state, digest, version) for version in prepared.versions.values()]
    with state.transaction() as db:
        for (stale,) in db.execute("SELECT manifest FROM windows WHERE name = ?", (name,)).fetchall():
            for table in ("windows", "window_accounts", "versions", "version_texts"):
                db.execute(f"DELETE FROM {table} WHERE manifest = ?", (stale,))
        db.execute(
            "INSERT INTO windows VALUES (?, ?, ?, ?, ?, ?)",
            (digest, name, prepared.signed.encode(), prepared.seed, prepared.nonce, prepared.blinding),
        )
        for account in prepared.registry.values():
            line = digest, account.pseudonym, account.name, account.encode()
            db.execute("INSERT INTO window_accounts VALUES (?, ?, ?, ?)", line)
        for version, file in zip(prepared.versions.values(), files, strict=True):
            public = version.public.encode()
            values = (digest, version.tenant, version.secret, field.pack(version.blinders), public, file)
            db.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?)", values)
            texts = [(digest, version.tenant, slot, text) for slot, text in version.texts.items()]
            db.executemany("INSERT INTO version_texts VALUES (?, ?, ?, ?)", texts)


def window_accounts(state: State, manifest: bytes) -> list[Account]:
    """A window's registry, sorted by pseudonym."""
    rows = state.rows("SELECT account FROM window_accounts WHERE manifest = ? ORDER BY pseudonym", (manifest,))
    return [Account.decode(account) for (account,) in rows]


def window_account(state: State, manifest: bytes, pseudonym: str) -> Account:
    """One account of a window's registry, cheaply: nothing else is loaded before its signature is checked.

    Raises:
        AttestationError: a stranger.
    """
    where = "manifest = ? AND pseudonym = ?"
    found = state.row(f"SELECT account FROM window_accounts WHERE {where}", (manifest, pseudonym))
    if found is None:
        raise AttestationError(f"account {pseudonym!r} is not in this window's registry: ask the provider to add it")
    return Account.decode(found[0])


def named_account(state: State, manifest: bytes, name: str) -> Account | None:
    """One account of a window's registry by its name; None for a stranger."""
    found = state.row("SELECT account FROM window_accounts WHERE manifest = ? AND name = ?", (manifest, name))
    return None if found is None else Account.decode(found[0])


@dataclass(frozen=True)
class OpenRegistry:
    """A window's registry with its tree, from which accounts get their own lines."""

    index: Mapping[str, int]  #: by pseudonym
    tree: MerkleTree

    def membership(self, account: Account) -> Membership:
        """An account's line with the path from its leaf to the root that the manifest commits to."""
        at = self.index[account.pseudonym]
        return Membership(account, at, tuple(self.tree.path(at)))


def open_registry(state: State, manifest: bytes) -> OpenRegistry:
    """A window's registry, loaded and hashed once: a line of it is cheap then, whoever asks how often."""
    registry = window_accounts(state, manifest)
    return OpenRegistry(
        {account.pseudonym: at for at, account in enumerate(registry)},
        MerkleTree(commitment.registry_leaves(registry)),
    )


def shared_documents(state: State, manifest: bytes) -> list[tuple[str, str, int]]:
    """Pairs of tenants whose indices of a window hold the same texts, and how many.

    The guarantee is about one slot of one tenant's index.  A document that stands in two tenants' indices is bounded in
    each of them apart: accounts of both that compare notes spend twice.
    """
    query = (
        "SELECT a.tenant, b.tenant, COUNT(DISTINCT a.text) FROM version_texts a JOIN version_texts b "
        "ON a.manifest = b.manifest AND a.text = b.text AND a.tenant < b.tenant WHERE a.manifest = ? "
        "GROUP BY a.tenant, b.tenant ORDER BY a.tenant, b.tenant"
    )
    return [(str(one), str(other), int(count)) for one, other, count in state.rows(query, (manifest,))]


def window_index(state: State, manifest: bytes, tenant: str) -> bytes:
    """The public file of a tenant's index (canonical IndexFile); CommitmentError if there is none."""
    found = state.row("SELECT public FROM versions WHERE manifest = ? AND tenant = ?", (manifest, tenant))
    if found is None:
        raise CommitmentError(f"no index of tenant {tenant!r} was committed for this window")
    return bytes(found[0])


def load_window(state: State, manifest: bytes) -> WindowSecrets:
    """What :func:`store_window` kept.

    Raises:
        CommitmentError: this state holds no such window, or not what its manifest commits to.
    """
    found = state.row("SELECT signed, seed, nonce, blinding FROM windows WHERE manifest = ?", (manifest,))
    if found is None:
        raise CommitmentError("this provider's state holds no secrets of that window: restore state.db from a backup")
    signed, seed, nonce, blinding = found
    loaded = WindowSecrets(
        signed=SignedManifest.decode(signed),
        seed=seed,
        nonce=nonce,
        blinding=blinding,
        versions={
            tenant: index.load_version(state, manifest, tenant)
            for (tenant,) in state.rows("SELECT tenant FROM versions WHERE manifest = ?", (manifest,))
        },
        registry={a.pseudonym: a for a in window_accounts(state, manifest)},
    )
    made = loaded.signed.manifest
    if (
        made.digest() != manifest
        or made.c_seed != seed_commitment(loaded.limbs)
        or made.beacon_commitment != commitment.beacon_commitment("provider", nonce)
        or made.tenants != tuple(v.committed for _, v in sorted(loaded.versions.items()))
        or made.registry_root != MerkleTree(commitment.registry_leaves(list(loaded.registry.values()))).root()
    ):
        raise CommitmentError(f"the stored secrets of window {made.window!r} are not those its manifest commits to")
    return loaded
