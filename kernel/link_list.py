# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase C, the signed list of links: which records of a tenant are linked, all pairs or a spanning list.  SPEC C."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragseal.kernel import signature
from ragseal.kernel.encoding import FLAG, HASH, NAME, SIGNATURE, U32, Blob, Codec, Many, Message, Nested
from ragseal.kernel.errors import EstimateError
from ragseal.kernel.estimate import MAX_LINKS, Link, labels_of
from ragseal.kernel.params import MAX_TENANTS
from ragseal.kernel.transcript import tagged_hash


def pack_links(links: Sequence[Link]) -> bytes:
    """Two u32 a link."""
    return b"".join(a.to_bytes(4, "big") + b.to_bytes(4, "big") for a, b in links)


@dataclass(frozen=True, slots=True)
class Listing:
    """Which pairs are links, and which need not be listed."""

    links: frozenset[Link] = frozenset()
    component: tuple[int, ...] | None = None  #: of each record, if the list is a spanning one

    def sign(self, a: int, b: int) -> int:
        """Of ranks a < b that are compared: -1 listed, 1 below the threshold, 0 neither."""
        if (a, b) in self.links:
            return -1
        return 0 if self.component is not None and self.component[a] == self.component[b] else 1


@dataclass(frozen=True, slots=True)
class TenantLinks(Message):
    """Links among a tenant's records; a record's number is its rank in the ledger among the tenant's.

    A complete list has them all: any other pair that is compared lies below the threshold.  A spanning list has as many
    as join the same records: pairs of two components lie below the threshold, pairs inside one may do as they like.
    """

    TAG: ClassVar[str] = "tenant-links"
    CODECS: ClassVar[Sequence[Codec]] = (NAME, U32, HASH, FLAG, Blob(8 * MAX_LINKS))

    tenant: str  #: the tenant's name
    records: int  #: how many the tenant has in the window
    records_digest: bytes  #: H("estimate-records", record, record, ...), in the order of the ledger
    complete: bool  #: 1: every link is listed; 0: a spanning list, SPEC C.3
    packed: bytes  #: links (a, b), a < b < records, two u32 each, strictly increasing

    def links(self) -> list[Link]:
        """Links (a, b), a < b."""
        data = self.packed
        ends = [int.from_bytes(data[i : i + 4], "big") for i in range(0, len(data), 4)]
        return list(zip(ends[::2], ends[1::2], strict=True))

    def listing(self) -> Listing:
        """What blocks are made against."""
        links = self.links()
        return Listing(frozenset(links), None if self.complete else tuple(labels_of(self.records, links)))

    def validate(self) -> None:
        if len(self.packed) % 8:
            raise EstimateError("the links of a tenant are truncated")
        links = self.links()
        if any(not a < b < self.records for a, b in links) or any(x >= y for x, y in itertools.pairwise(links)):
            raise EstimateError("links join two different records of the tenant, in strictly increasing order")
        if not self.complete and len(links) >= max(1, self.records):
            raise EstimateError("spanning links are fewer than records: a list of more is complete, or closes circles")


@dataclass(frozen=True, slots=True)
class LinkList(Message):
    """A window's estimate as its provider states it; theta and tau are those of the manifest's policy."""

    TAG: ClassVar[str] = "link-list"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, Many(Nested(TenantLinks), MAX_TENANTS))

    manifest: bytes  #: digest of the window's manifest
    tenants: tuple[TenantLinks, ...]  #: every tenant of the manifest, in its order

    def digest(self) -> bytes:
        return tagged_hash("link-list", self.encode())


@dataclass(frozen=True, slots=True)
class SignedLinks(Message):
    """A provider signs one list of links a window, after the window is closed."""

    TAG: ClassVar[str] = "signed-links"
    CODECS: ClassVar[Sequence[Codec]] = (Nested(LinkList), SIGNATURE)

    body: LinkList  #: what is signed
    signature: bytes  #: of the window key, purpose "links"

    def verify(self, window_key: bytes) -> None:
        """Raises AttestationError unless signed by the key that the window's manifest names for it."""
        signature.verify(window_key, "links", self.body.encode(), self.signature)


def records_digest(records: Sequence[bytes]) -> bytes:
    """Of a tenant's record digests, in ledger order."""
    return tagged_hash("estimate-records", *records)
