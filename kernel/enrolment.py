# SPDX-License-Identifier: GPL-3.0-or-later
"""Who may ask in a window whose indices change on a tick: accounts come and go with its versions.  SPEC A.13.

Every update commits to the accounts that may ask over its versions, by the root of a tree with as many leaves as the
window has places, in use or not, each under a salt of its own that is fresh for every version.  So neither an entry nor
a path in the tree tells whether anybody came or went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragseal.kernel.commitment import MAX_ACCOUNTS, Account, Manifest, registry_leaves
from ragseal.kernel.encoding import HASH, U32, U64, Codec, Many, Message, Nested
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.transcript import tagged_hash

LEAST_PLACES = 64


def places(manifest: Manifest) -> int:
    """The most accounts that a window can ever have: what delta and the accountants count.

    Where versions come on a tick it is a power of two that leaves as many places free as the manifest has accounts.
    """
    if not manifest.policy.version_every:
        return manifest.accounts
    return places_for(manifest.accounts)


def places_for(accounts: int) -> int:
    """Places of a window with ticks whose manifest has so many accounts."""
    return max(LEAST_PLACES, 1 << (2 * accounts - 1).bit_length())


@dataclass(frozen=True, slots=True)
class Enrolment(Message):
    """One account of a window with ticks, and over which versions it may ask."""

    TAG: ClassVar[str] = "enrolment"
    CODECS: ClassVar[Sequence[Codec]] = (Nested(Account), U32, U32, U32)

    account: Account  #: the line
    place: int  #: of its leaf, from 0, SPEC A.13.1
    since: int = 0  #: number of the first version that it may ask over; 0: the manifest has it
    until: int = 0  #: number of the first version that it may not ask over any more; 0: there is none

    def validate(self) -> None:
        if self.until and self.until <= self.since:
            raise CommitmentError("an account leaves a window after it came")

    def in_force(self, number: int) -> bool:
        """Whether it may ask over this version."""
        return self.since <= number and not 0 < self.until <= number


@dataclass(frozen=True, slots=True)
class Enrolments(Message):
    """Every account that a window with ticks has had: for its auditor alone."""

    TAG: ClassVar[str] = "enrolments"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, Many(Nested(Enrolment), MAX_ACCOUNTS))

    secret: bytes  #: from which all salts of the tree follow, SPEC A.13.1
    lines: tuple[Enrolment, ...]  #: by increasing pseudonym

    def registry(self) -> list[Account]:
        """The accounts of the manifest, in its order."""
        return [one.account for one in self.lines if not one.since]


@dataclass(frozen=True, slots=True)
class LateMembership(Message):
    """The line of an account that came after its window was committed, and where an update has it."""

    TAG: ClassVar[str] = "late-membership"
    CODECS: ClassVar[Sequence[Codec]] = (Nested(Account), U32, HASH, Many(HASH, 64), U64)

    account: Account  #: the line
    place: int  #: of its leaf, from 0
    salt: bytes  #: of that leaf in this version
    path: tuple[bytes, ...]  #: RFC 6962 inclusion path in the tree of the update
    update: int  #: ledger index of the update

    def leaf(self) -> bytes:
        """Leaf data."""
        return _leaf(self.salt, self.account)


def leaf_salt(secret: bytes, number: int, place: int) -> bytes:
    """The salt of one place in one version."""
    return tagged_hash("enrolment-salt", secret, number.to_bytes(4, "big"), place.to_bytes(4, "big"))


def _leaf(salt: bytes, account: Account | None) -> bytes:
    present, line = (b"\x00", b"") if account is None else (b"\x01", account.encode())
    return tagged_hash("enrolment", salt, present, line)


def enrolment_leaves(secret: bytes, number: int, lines: Sequence[Enrolment], size: int) -> list[bytes]:
    """Leaf data of the tree that version ``number`` commits to, one a place.

    Args:
        lines: every account that the window has had; those that are not in force have an empty place.
        size: the window's :func:`places`.
    """
    there = {one.place: one.account for one in lines if one.in_force(number)}
    return [_leaf(leaf_salt(secret, number, place), there.get(place)) for place in range(size)]


def check_lines(manifest: Manifest, lines: Sequence[Enrolment], newest: int) -> None:
    """Names, keys, pseudonyms and places of a window are each of one account, whenever that was there.

    An account that could leave and come back, or be there twice, would have its n_max queries twice.

    Args:
        newest: number of the window's newest version.

    Raises:
        CommitmentError: which of it does not hold.
    """
    try:
        registry_leaves([one.account for one in lines])
    except CommitmentError as error:
        raise CommitmentError(f"over all versions of the window, {error}") from None
    if len({one.place for one in lines}) != len(lines) or any(one.place >= places(manifest) for one in lines):
        raise CommitmentError("two accounts of the window have one place, or one has none")
    if any(max(one.since, one.until) > newest for one in lines):
        raise CommitmentError("an account comes or leaves with a version that the window does not have")
    for one in lines:
        manifest.index_of(one.account.tenant)
