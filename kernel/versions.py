# SPDX-License-Identifier: GPL-3.0-or-later
"""The log's entry of a live index: which versions of every tenant's index a window answers from.  SPEC A.12.

On a fixed tick one entry names a new version of every index of the window, changed or not, each with fresh blinders and
fresh salts, and the accounts that may ask over them, under fresh salts too.  An entry's size depends on the window
alone, so it says nothing of what was put, edited or deleted, or of who came or went.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragseal.kernel.encoding import HASH, NAME, U32, U64, Codec, Many, Message, Nested
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.params import MAX_TENANTS
from ragseal.kernel.policy import Policy
from ragseal.kernel.transcript import tagged_hash

ANSWERING = 2  #: of the newest versions: what was prepared over the one before the newest is finished over it


def nameable(policy: Policy) -> int:
    """How many of the newest versions a record may name at its place in the log.

    A request over one of the ANSWERING newest is admitted.  Where the claim is answers its record follows so many
    seconds later as the policy says, and one version may have come meanwhile.
    """
    return ANSWERING + 1 if policy.answers else ANSWERING


@dataclass(frozen=True, slots=True)
class UpdatedIndex(Message):
    """One tenant's index in an update.  Points, proof of opening and, with coins, the proof of A.12.4 are a file."""

    TAG: ClassVar[str] = "updated-index"
    CODECS: ClassVar[Sequence[Codec]] = (NAME, HASH, HASH, Many(HASH, 1), HASH)

    tenant: str  #: the tenant's name
    columns_digest: bytes  #: H("columns", C_0 .. C_(d-1) of every shard)
    opening_digest: bytes  #: digest of their `folded-opening`
    #: of until-delivered and unseen one, H("emptied-proof", emptied-shard, emptied-shard, ...); else none
    proof_digests: tuple[bytes, ...]
    text_root: bytes  #: root of the tree of SPEC A.4, one leaf a slot, empty or not


@dataclass(frozen=True, slots=True)
class IndexUpdate(Message):
    """From here on a window answers from these versions."""

    TAG: ClassVar[str] = "index-update"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, U32, U64, Many(Nested(UpdatedIndex), MAX_TENANTS), HASH)

    manifest: bytes  #: digest of the window's manifest
    number: int  #: 1, 2, 3, ... within the window
    time: int  #: the tick in seconds since 1970: what was put or deleted before it is in these versions
    tenants: tuple[UpdatedIndex, ...]  #: every tenant of the manifest, in its order
    registry_root: bytes  #: of the tree of accounts that may ask over these versions, SPEC A.13.1

    def validate(self) -> None:
        names = [one.tenant for one in self.tenants]
        if not names or names != sorted(set(names)):
            raise CommitmentError("an update's tenants must be distinct and sorted, at least one")
        if self.number < 1:
            raise CommitmentError("updates of a window's indices are counted from 1")

    def index_of(self, tenant: str) -> UpdatedIndex:
        """A tenant's line; CommitmentError if there is none."""
        for one in self.tenants:
            if one.tenant == tenant:
                return one
        raise CommitmentError(f"the update holds no index of tenant {tenant!r}")

    def index_digest(self, tenant: str) -> bytes:
        """The index-version digest that requests and records name: of the window, the version and the tenant's line.

        Raises:
            CommitmentError: no such tenant.
        """
        line = self.index_of(tenant).encode()
        return tagged_hash("updated-index-version", self.manifest, self.number.to_bytes(4, "big"), line)


def tick_at(opened: int, every: int, now: int) -> int:
    """The newest tick at or before ``now``: the opening's whole minute and multiples of ``every`` after it, in seconds.

    Before the opening it is that of the opening.
    """
    first = opened - opened % 60
    return first + max(0, now - first) // every * every
