# SPDX-License-Identifier: GPL-3.0-or-later
"""A window with all that serving and proving it takes, kept and loaded whole."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.poseidon import seed_commitment
from ragseal.kernel import commitment, field, signature
from ragseal.kernel.beacon import PROVIDER, beacon_commitment
from ragseal.kernel.coin import coin_commitment
from ragseal.kernel.commitment import Account, SignedManifest, ThinnedIndex, Thinning
from ragseal.kernel.enrolment import Enrolments
from ragseal.kernel.errors import AttestationError, CommitmentError
from ragseal.ledger.merkle import MerkleTree
from ragseal.prover.commitment import index, slots
from ragseal.prover.commitment.coin_placement import remember_placements
from ragseal.prover.commitment.enrolling import store_enrolments
from ragseal.prover.commitment.index import Thinned, Version
from ragseal.prover.commitment.registry import window_account, window_accounts
from ragseal.prover.commitment.texts import by_slot
from ragseal.prover.storage.retirement import WINDOW_TABLES, is_retired, require_kept
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window_keys import load_window_key, store_window_key


@dataclass(frozen=True, slots=True, weakref_slot=True)
class WindowSecrets:
    """A window with all that serving and proving it takes.  Never printed, never sent."""

    signed: SignedManifest
    key: Ed25519PrivateKey  #: of the window: signs all of it but the manifest, which names it
    seed: bytes  #: 32 bytes; C_seed commits to it
    nonce: bytes  #: the provider's beacon nonce
    blinding: bytes  #: from which the blinders of C_e are derived
    versions: Mapping[str, Version]  #: by tenant
    registry: Mapping[str, Account]  #: by pseudonym
    enrolments: Enrolments | None = None  #: of a window with ticks that is just made; else it stays in the database
    late: Callable[[str], Account] | None = None  #: finds accounts that came after the manifest
    coin_seed: bytes | None = None  #: 32 bytes where the claim has a coin; C_coin commits to it

    @property
    def coin_limbs(self) -> tuple[int, int]:
        """The coin seed as the circuit takes it; CommitmentError if the window has none."""
        if self.coin_seed is None:
            raise CommitmentError(f"window {self.signed.manifest.window!r} has no coin")
        return field.limbs(self.coin_seed)

    @property
    def limbs(self) -> tuple[int, int]:
        """The seed as the circuit takes it."""
        return field.limbs(self.seed)

    def account(self, pseudonym: str) -> Account:
        """A registered account, one that came with an update too; AttestationError for a stranger."""
        found = self.registry.get(pseudonym)
        if found is None and self.late is not None:
            return self.late(pseudonym)
        if found is None:
            raise AttestationError(f"account {pseudonym!r} is not in this window's registry")
        return found

    def __repr__(self) -> str:
        return f"WindowSecrets({self.signed.manifest.window!r})"


def store_window(state: State, prepared: WindowSecrets) -> None:
    """Make a window's secrets durable; must come before its manifest enters the ledger.

    A row of the same name that never reached the ledger (the caller has looked) is replaced.
    """
    digest = prepared.signed.manifest.digest()
    name = prepared.signed.manifest.window
    files = [index.save_version(state, digest, version) for version in prepared.versions.values()]
    with state.transaction() as db:
        for (stale,) in db.execute("SELECT manifest FROM windows WHERE name = ?", (name,)).fetchall():
            for table in WINDOW_TABLES:
                db.execute(f"DELETE FROM {table} WHERE manifest = ?", (stale,))
        db.execute(
            "INSERT INTO windows VALUES (?, ?, ?, ?, ?, ?, ?)",
            (
                digest,
                name,
                prepared.signed.encode(),
                prepared.seed,
                prepared.nonce,
                prepared.blinding,
                prepared.coin_seed,
            ),
        )
        store_window_key(db, digest, prepared.key)
        manifest = prepared.signed.manifest
        remember_placements(db, manifest.coin_period if manifest.coins else digest, prepared.versions)
        for account in prepared.registry.values():
            line = digest, account.pseudonym, account.name, account.encode()
            db.execute("INSERT INTO window_accounts VALUES (?, ?, ?, ?)", line)
        if prepared.enrolments is not None:
            store_enrolments(db, digest, prepared.enrolments)
        for version, file in zip(prepared.versions.values(), files, strict=True):
            insert_version(db, digest, version, file)


def insert_version(db: sqlite3.Connection, manifest: bytes, version: Version, file: str = "") -> None:
    """Write what is kept of a version; ``file`` holds the matrix of one that a manifest names."""
    public = version.public.encode() if version.emptied is None else version.emptied.encode()
    key = manifest, version.number, version.tenant
    values = (*key, version.secret, field.pack(version.blinders), public, file)
    db.execute("INSERT INTO versions VALUES (?, ?, ?, ?, ?, ?, ?)", values)
    contents = by_slot(version.texts, len(version.matrix))
    slots.store(db, manifest, version.tenant, version.number, version.matrix, contents)


def shared_documents(state: State, manifest: bytes) -> list[tuple[str, str, int]]:
    """Pairs of tenants whose indices of a window hold the same texts, and how many.

    The guarantee is about one slot of one tenant's index.  A document that stands in two tenants' indices is bounded in
    each of them apart: accounts of both that compare notes spend twice.
    """
    query = (
        "SELECT a.tenant, b.tenant, COUNT(DISTINCT a.text) FROM version_texts a JOIN version_texts b "
        "ON a.manifest = b.manifest AND a.number = b.number AND a.text = b.text AND a.tenant < b.tenant "
        "WHERE a.manifest = ? AND a.number = 0 "
        "GROUP BY a.tenant, b.tenant ORDER BY a.tenant, b.tenant"
    )
    return [(str(one), str(other), int(count)) for one, other, count in state.rows(query, (manifest,))]


def split_documents(state: State, manifest: bytes, slots: int) -> list[tuple[str, int, int]]:
    """Tenants with documents that ``--chunk`` split into more parts than ``slots``: how many, and the most parts.

    The parts stand in the index as documents of their own, NAME#1, NAME#2 and so on, each under its own coin.
    """
    parts: dict[tuple[str, str], int] = {}
    query = "SELECT tenant, document FROM version_texts WHERE manifest = ? AND number = 0 AND document LIKE '%#%'"
    for tenant, document in state.rows(query, (manifest,)):
        whole, _, number = str(document).rpartition("#")
        if whole and number.isdecimal():
            parts[tenant, whole] = parts.get((tenant, whole), 0) + 1
    found: dict[str, list[int]] = {}
    for (tenant, _), count in parts.items():
        if count > slots:
            found.setdefault(tenant, []).append(count)
    return [(tenant, len(counts), max(counts)) for tenant, counts in sorted(found.items())]


def window_index(state: State, manifest: bytes, tenant: str, number: int = 0) -> bytes:
    """The public file of a version of a tenant's index; CommitmentError if there is none.

    It is a canonical IndexFile, of an update (``number``) of a window with coins an EmptiedFile.
    """
    query = "SELECT public FROM versions WHERE manifest = ? AND number = ? AND tenant = ?"
    found = state.row(query, (manifest, number, tenant))
    if found is None:
        raise CommitmentError(f"no index of tenant {tenant!r} was committed for this window")
    return bytes(found[0])


def store_thinned(state: State, manifest: bytes, tenant: str, thinned: Thinned) -> None:
    """Make a tenant's thinned index durable; must come before the entry that names it.

    That of a run that broke off before its entry is replaced: nobody has seen it.
    """
    hidden = np.packbits(np.asarray(thinned.hidden, dtype=np.bool_)).tobytes()
    line = manifest, tenant, hidden, field.pack(thinned.blinders), thinned.public.encode()
    with state.transaction() as db:
        if is_retired(state, manifest):  # it was passed over while this was made
            raise CommitmentError("the window was retired meanwhile: it never opens, and nothing of it is kept")
        db.execute("INSERT OR REPLACE INTO thinnings VALUES (?, ?, ?, ?, ?)", line)


def thinned_index(state: State, manifest: bytes, tenant: str) -> bytes:
    """The public file of a tenant's thinned index (canonical ThinnedFile); CommitmentError if there is none (yet)."""
    found = state.row("SELECT public FROM thinnings WHERE manifest = ? AND tenant = ?", (manifest, tenant))
    if found is None:
        raise CommitmentError(f"no thinned index of tenant {tenant!r} is there: its coins are drawn with the beacon")
    return bytes(found[0])


def load_window(state: State, manifest: bytes, thinning: Thinning | None = None) -> WindowSecrets:
    """What :func:`store_window` and :func:`store_thinned` kept.

    Args:
        thinning: the log's entry, if it holds one: answers from other columns would convict this provider.

    Raises:
        CommitmentError: this state holds no such window, or not what its manifest or its thinning commits to.
        AttestationError: the window is retired.
    """
    require_kept(state, manifest)
    found = state.row("SELECT signed, seed, nonce, blinding, coin_seed FROM windows WHERE manifest = ?", (manifest,))
    if found is None:
        raise CommitmentError("this provider's state holds no secrets of that window: restore state.db from a backup")
    signed, seed, nonce, blinding, coin_seed = found
    said = SignedManifest.decode(signed)
    claims = {one.tenant: (one.tenant in said.manifest.coined, one.claim) for one in said.manifest.tenants}
    loaded = WindowSecrets(
        signed=said,
        key=load_window_key(state, manifest),
        seed=seed,
        nonce=nonce,
        blinding=blinding,
        versions={
            tenant: index.load_version(state, manifest, tenant, coined, claim=claim)
            for (tenant,) in state.rows("SELECT tenant FROM versions WHERE manifest = ? AND number = 0", (manifest,))
            for coined, claim in (claims.get(tenant, (False, "")),)
        },
        registry={a.pseudonym: a for a in window_accounts(state, manifest)},
        late=partial(window_account, state, manifest),
        coin_seed=coin_seed,
    )
    made = loaded.signed.manifest
    if (
        made.digest() != manifest
        or made.window_key != signature.public_bytes(loaded.key)
        or made.c_seed != seed_commitment(loaded.limbs)
        or [coin.c_coin for coin in made.coins] != ([] if coin_seed is None else [coin_commitment(loaded.coin_limbs)])
        or made.beacon_commitment != beacon_commitment(PROVIDER, nonce)
        or made.tenants != tuple(v.committed for _, v in sorted(loaded.versions.items()))
        or made.registry_root != MerkleTree(commitment.registry_leaves(list(loaded.registry.values()))).root()
    ):
        raise CommitmentError(f"the stored secrets of window {made.window!r} are not those its manifest commits to")
    for one in () if thinning is None else thinning.tenants:
        if not _holds(loaded.versions[one.tenant], one):
            raise CommitmentError(
                f"this provider's state does not hold the thinned index of tenant {one.tenant!r} that the ledger "
                "names: restore the newest state.db"
            )
    return loaded


def _holds(version: Version, named: ThinnedIndex) -> bool:
    """Whether a version's thinned columns are those that the log names."""
    return version.thinned is not None and version.thinned.public.entry(named.tenant) == named
