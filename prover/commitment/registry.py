# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts as a provider registers them, and as each window has them: under fresh pseudonyms.  SPEC A.7."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ragseal.kernel import commitment
from ragseal.kernel.commitment import Account, Membership
from ragseal.kernel.enrolment import Enrolment
from ragseal.kernel.errors import AttestationError, CommitmentError, EncodingError
from ragseal.ledger.merkle import MerkleTree
from ragseal.prover.base.randomness import Draw
from ragseal.prover.storage.state import State


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
    """Register accounts, all of them or none; returns how many were new.

    They may ask in the windows committed from now on, and where the open one has ticks from its next version on.

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
    """Take an account out of the windows committed from now on, and of one with ticks with its next version.

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
    if found is None:  # it may have come with a later version of the window's indices
        late = state.row(f"SELECT line FROM enrolments WHERE {where}", (manifest, pseudonym))
        if late is not None:
            return Enrolment.decode(late[0]).account
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
