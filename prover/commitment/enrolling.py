# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts come and go with the versions of an open window's indices, as a provider keeps them.  SPEC A.13."""

from __future__ import annotations

import sqlite3
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from ragseal.kernel.commitment import Account, Manifest
from ragseal.kernel.enrolment import Enrolment, Enrolments, LateMembership, enrolment_leaves, leaf_salt, places
from ragseal.kernel.errors import AttestationError, CommitmentError
from ragseal.ledger.merkle import MerkleTree
from ragseal.prover.base.randomness import Draw
from ragseal.prover.commitment.registry import Registration, accounts
from ragseal.prover.storage.state import State


def first_enrolments(manifest: Manifest, registry: Sequence[Account], draw: Draw) -> Enrolments | None:
    """The manifest's accounts, each at a random place; None of a window that has one version of its indices."""
    if not manifest.policy.version_every:
        return None
    free, lines = list(range(places(manifest))), []
    for account in sorted(registry, key=lambda one: one.pseudonym):
        lines.append(Enrolment(account, _take(free, draw)))
    return Enrolments(draw(32), tuple(lines))


def _take(free: list[int], draw: Draw) -> int:
    """One of the free places, uniform but for 2^-100: a place says nothing of the order in which accounts came."""
    return free.pop(int.from_bytes(draw(16), "big") % len(free))


def store_enrolments(db: sqlite3.Connection, manifest: bytes, made: Enrolments) -> None:
    """Write all accounts that a window has had, in place of what is there."""
    db.execute("INSERT OR REPLACE INTO enrolment_secrets VALUES (?, ?)", (manifest, made.secret))
    db.execute("DELETE FROM enrolments WHERE manifest = ?", (manifest,))
    lines = [(manifest, one.account.pseudonym, one.account.name, one.encode()) for one in made.lines]
    db.executemany("INSERT INTO enrolments VALUES (?, ?, ?, ?)", lines)


def enrolments(state: State, manifest: bytes, number: int) -> Enrolments:
    """Every account that a window has had up to version ``number``; what was kept for later ones is left out.

    Raises:
        CommitmentError: this state holds none of that window.
    """
    found = state.row("SELECT secret FROM enrolment_secrets WHERE manifest = ?", (manifest,))
    if found is None:
        raise CommitmentError("this provider's state holds no accounts of that window: restore state.db from a backup")
    lines = []
    for (data,) in state.rows("SELECT line FROM enrolments WHERE manifest = ? ORDER BY pseudonym", (manifest,)):
        line = Enrolment.decode(data)
        if line.since <= number:
            lines.append(replace(line, until=0) if line.until > number else line)
    return Enrolments(bytes(found[0]), tuple(lines))


def next_enrolments(state: State, manifest: Manifest, digest: bytes, number: int, draw: Draw) -> Enrolments:
    """Who may ask over version ``number``: accounts that are registered now, as far as the window can take them.

    An account waits for the next window if no place is free, if its tenant has no index here, or if its name or key was
    in this window before under another line or until it was removed: its queries would be counted from 1 again.
    """
    kept = enrolments(state, digest, number - 1)
    registered = {one.name: one for one in accounts(state)}
    lines = [_left(one, registered, number) for one in kept.lines]
    taken = {one.place for one in lines}
    free = [place for place in range(places(manifest)) if place not in taken]
    for new in _coming(lines, registered, {one.tenant for one in manifest.tenants}):
        if not free:
            break
        lines.append(Enrolment(new.for_window(draw(32)), _take(free, draw), since=number))
    return Enrolments(kept.secret, tuple(sorted(lines, key=lambda one: one.account.pseudonym)))


def _same(line: Enrolment, registered: Registration | None) -> bool:
    mine = line.account
    return registered is not None and (mine.tenant, mine.public_key) == (registered.tenant, registered.public_key)


def _left(line: Enrolment, registered: Mapping[str, Registration], number: int) -> Enrolment:
    gone = not line.until and not _same(line, registered.get(line.account.name))
    return replace(line, until=number) if gone else line


def _coming(
    lines: Sequence[Enrolment], registered: Mapping[str, Registration], tenants: set[str]
) -> list[Registration]:
    names, keys = {one.account.name for one in lines}, {one.account.public_key for one in lines}
    return [
        one
        for one in registered.values()
        if one.tenant in tenants and one.name not in names and one.public_key not in keys
    ]


def waiting(state: State, manifest: Manifest, digest: bytes, number: int) -> tuple[int, int]:
    """How many registered accounts come with the next version, and how many only with the next window."""
    lines = enrolments(state, digest, number).lines
    registered = {one.name: one for one in accounts(state)}
    coming = len(_coming(lines, registered, {one.tenant for one in manifest.tenants}))
    there = {one.account.name for one in lines if not one.until and _same(one, registered.get(one.account.name))}
    room = min(coming, places(manifest) - len(lines))
    return room, len(registered) - len(there) - room


def registry_root(made: Enrolments, manifest: Manifest, number: int) -> bytes:
    """What the update of this version commits to."""
    return MerkleTree(enrolment_leaves(made.secret, number, made.lines, places(manifest))).root()


def enrolled(state: State, manifest: bytes, pseudonym: str) -> Enrolment | None:
    """One account's line of a window with ticks; None for a stranger."""
    found = state.row("SELECT line FROM enrolments WHERE manifest = ? AND pseudonym = ?", (manifest, pseudonym))
    return None if found is None else Enrolment.decode(found[0])


def enrolled_by_name(state: State, manifest: bytes, name: str) -> Enrolment | None:
    """The same by the account's name."""
    found = state.row("SELECT line FROM enrolments WHERE manifest = ? AND name = ?", (manifest, name))
    return None if found is None else Enrolment.decode(found[0])


def check_enrolled(state: State, manifest: bytes, pseudonym: str, number: int) -> None:
    """Raises AttestationError: the account may not ask over this version of a window with ticks."""
    line = enrolled(state, manifest, pseudonym)
    if line is None or line.since > number:
        raise AttestationError("this account comes with the next version of the index: ask again after the next tick")
    if not line.in_force(number):
        raise AttestationError(
            f"this account was removed and gets no answers since version {line.until} of the index; what it was "
            "answered before stays valid"
        )


@dataclass(frozen=True)
class OpenEnrolments:
    """Who may ask over one version, with the tree that its update commits to."""

    secret: bytes
    number: int
    tree: MerkleTree

    def membership(self, line: Enrolment, update: int) -> LateMembership:
        """An account's line with the path from its leaf; ``update``: where the ledger has the update."""
        salt = leaf_salt(self.secret, self.number, line.place)
        return LateMembership(line.account, line.place, salt, tuple(self.tree.path(line.place)), update)


def open_enrolments(state: State, manifest: Manifest, digest: bytes, number: int) -> OpenEnrolments:
    """The tree of one version, hashed once: a line of it is cheap then."""
    made = enrolments(state, digest, number)
    leaves = enrolment_leaves(made.secret, number, made.lines, places(manifest))
    return OpenEnrolments(made.secret, number, MerkleTree(leaves))
