# SPDX-License-Identifier: GPL-3.0-or-later
"""The beacon of a window: who draws it, and what it is.  SPEC A.8.

A :class:`BeaconCommit` of every participant but the provider, whose commitment stands in the manifest; the provider's
:class:`BeaconSeal`; a :class:`BeaconOpening` each, the auditors' after all others.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragseal.kernel import signature
from ragseal.kernel.encoding import HASH, NAME, PUBLIC_KEY, SIGNATURE, Codec, Many, Message
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.transcript import tagged_element, tagged_hash

MAX_PARTICIPANTS = 64
PROVIDER, AUDITOR = "provider", "auditor"  #: a window's only auditor, unless the operator names it otherwise
OBSERVER, AUDITOR_NAMED = "observer-", "auditor-"  #: what stands before a name


def is_auditor(owner: str) -> bool:
    """Whether this is how an auditor is called in a beacon."""
    return owner == AUDITOR or (owner.startswith(AUDITOR_NAMED) and owner != AUDITOR_NAMED)


def is_observer(owner: str) -> bool:
    """Whether this is how an observer is called in a beacon."""
    return owner.startswith(OBSERVER) and owner != OBSERVER


@dataclass(frozen=True, slots=True)
class Seat(Message):
    """An auditor's place in a window's beacon: the manifest binds its name to a key."""

    TAG: ClassVar[str] = "auditor-seat"
    CODECS: ClassVar[Sequence[Codec]] = (NAME, PUBLIC_KEY)

    owner: str  #: `auditor`, or `auditor-` and a name
    public_key: bytes  #: checks the auditor's commitment, asks and verdicts

    def validate(self) -> None:
        if not is_auditor(self.owner):
            raise CommitmentError(f'an auditor is called "{AUDITOR}" or "{AUDITOR_NAMED}<name>" in a beacon')


@dataclass(frozen=True, slots=True)
class BeaconCommit(Message):
    """A participant's commitment to a nonce, after the manifest is in the ledger."""

    TAG: ClassVar[str] = "beacon-commit"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, NAME, PUBLIC_KEY, HASH, SIGNATURE)

    manifest: bytes  #: digest of the window's manifest
    owner: str  #: the participant's name in this beacon
    public_key: bytes  #: checks the signature
    commitment: bytes  #: H("beacon-nonce", owner, nonce)
    signature: bytes  #: of that key, purpose "beacon-commit"

    def body(self) -> bytes:
        return tagged_hash("beacon-commit-body", self.manifest, self.owner.encode(), self.public_key, self.commitment)

    def verify(self) -> None:
        signature.verify(self.public_key, "beacon-commit", self.body(), self.signature)


@dataclass(frozen=True, slots=True)
class BeaconOpening(Message):
    """A participant's nonce."""

    TAG: ClassVar[str] = "beacon-opening"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, NAME, HASH)

    manifest: bytes  #: digest of the window's manifest
    owner: str  #: the participant's name in this beacon
    nonce: bytes  #: uniform; what the commitment hides


@dataclass(frozen=True, slots=True)
class BeaconSeal(Message):
    """The provider fixes who counts: itself first, the auditors last."""

    TAG: ClassVar[str] = "beacon-seal"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, Many(NAME, MAX_PARTICIPANTS), SIGNATURE)

    manifest: bytes  #: digest of the window's manifest
    owners: tuple[str, ...]  #: `provider` first, the auditors last in the manifest's order
    signature: bytes  #: of the window key, purpose "beacon-seal"

    def body(self) -> bytes:
        return tagged_hash("beacon-seal-body", self.manifest, *(o.encode() for o in self.owners))


def beacon_commitment(owner: str, nonce: bytes) -> bytes:
    """Hiding commitment to a 32-byte nonce.  It cannot bind the manifest, which carries the provider's own."""
    return tagged_hash("beacon-nonce", owner.encode(), nonce)


def beacon_value(manifest: bytes, openings: Sequence[tuple[str, bytes]]) -> int:
    """The window's beacon: 31 bytes over the manifest and every opened nonce in the seal's order."""
    return tagged_element("beacon", manifest, *(part for owner, nonce in openings for part in (owner.encode(), nonce)))


def seal_digest(manifest: bytes, commitments: Sequence[tuple[str, bytes]]) -> bytes:
    """What fixes a beacon before its nonces are known: the seal's owners in order, each with its commitment."""
    parts = (part for owner, commitment in commitments for part in (owner.encode(), commitment))
    return tagged_hash("beacon-sealed", manifest, *parts)
