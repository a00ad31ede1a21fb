# SPDX-License-Identifier: GPL-3.0-or-later
"""What a window's auditors ask for and what only they are given: registry, proofs, links, blocks.  SPEC B.7, C, D.

Every ask is signed by the key of an auditor, which the manifest names or the operator has admitted, and every answer by
the provider: a verdict rests on signed bytes only, so whoever stands between the two can delay an audit and decide
nothing in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragseal.kernel import signature
from ragseal.kernel.encoding import (
    HASH,
    NAME,
    SIGNATURE,
    U32,
    U64,
    Blob,
    Codec,
    Fixed,
    Many,
    Message,
    Text,
    decode_any,
)
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.proofs import MAX_BATCH
from ragseal.kernel.signature import SigningKey
from ragseal.kernel.transcript import tagged_hash

ASK_SECONDS = 600  #: how far an ask's time may lie from the provider's clock
MAX_PAYLOAD = 1 << 28
MAX_RECORDS_A_BLOCK = 4096
MAX_BLOCKS_ASKED = 1024


class _Ask(Message):
    """Common to all asks: which window, when, and a nonce that makes every ask, and so every answer to one, new."""

    __slots__ = ()

    manifest: bytes
    time: int
    nonce: bytes

    def digest(self) -> bytes:
        """What an answer names."""
        return tagged_hash("ask", self.encode())

    def sign(self, key: SigningKey) -> bytes:
        """The auditor's signature."""
        return signature.sign(key, "ask", self.encode())

    def verify(self, auditors: Sequence[bytes], proof: bytes, now: int) -> bytes:
        """The key of the auditor that asks, now: seconds since 1970.  AttestationError: none of these, or long ago."""
        if abs(now - self.time) > ASK_SECONDS:
            raise AttestationError(
                f"the ask's time is {abs(now - self.time)} s away from this provider's clock, at most "
                f"{ASK_SECONDS} s are allowed: set the clocks of auditor and provider"
            )
        return signature.signer(auditors, "ask", self.encode(), proof)


@dataclass(frozen=True, slots=True)
class RegistryAsk(_Ask):
    """An auditor asks for the accounts of a window."""

    TAG: ClassVar[str] = "registry-ask"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, U64, Fixed(16))

    manifest: bytes  #: digest of the window's manifest
    time: int  #: seconds since 1970
    nonce: bytes  #: chosen by the asker; makes every ask a new one


@dataclass(frozen=True, slots=True)
class ProofsAsk(_Ask):
    """An auditor asks for proofs of records."""

    TAG: ClassVar[str] = "proofs-ask"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, U64, Fixed(16), Many(U64, MAX_BATCH))

    manifest: bytes  #: digest of the window's manifest
    time: int  #: seconds since 1970
    nonce: bytes  #: chosen by the asker; makes every ask a new one
    seqs: tuple[int, ...]  #: numbers of records, strictly increasing


@dataclass(frozen=True, slots=True)
class LinksAsk(_Ask):
    """An auditor asks for the one list of links of a closed window."""

    TAG: ClassVar[str] = "links-ask"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, U64, Fixed(16))

    manifest: bytes  #: digest of the window's manifest
    time: int  #: seconds since 1970
    nonce: bytes  #: chosen by the asker; makes every ask a new one


@dataclass(frozen=True, slots=True)
class BlocksAsk(_Ask):
    """An auditor asks for proofs of blocks of one tenant's records."""

    TAG: ClassVar[str] = "blocks-ask"
    CODECS: ClassVar[Sequence[Codec]] = (
        HASH, U64, Fixed(16), HASH, NAME, Many(Many(U32, MAX_RECORDS_A_BLOCK), MAX_BLOCKS_ASKED),
    )  # fmt: skip

    manifest: bytes  #: digest of the window's manifest
    time: int  #: seconds since 1970
    nonce: bytes  #: chosen by the asker; makes every ask a new one
    key_digest: bytes  #: SHA-256 of the estimate's verifying key
    tenant: str  #: whose records
    blocks: tuple[tuple[int, ...], ...]  #: ranks of records among the tenant's, strictly increasing in each


Ask = RegistryAsk | ProofsAsk | LinksAsk | BlocksAsk
ASKS = (RegistryAsk, ProofsAsk, LinksAsk, BlocksAsk)


@dataclass(frozen=True, slots=True)
class Delivery(Message):
    """What the provider gives for an ask, signed: what does not hold in it is the provider's own."""

    TAG: ClassVar[str] = "delivery"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, Blob(MAX_PAYLOAD), SIGNATURE)

    ask: bytes  #: H("ask", ask)
    #: `registry` (of a window with updates `enrolments`), `proof-batch`, `signed-links` or `block-batch`
    payload: bytes
    signature: bytes  #: of the window key, purpose "delivery"

    @staticmethod
    def body(ask: bytes, payload: bytes) -> bytes:
        """What is signed."""
        return tagged_hash("delivery-body", ask, payload)

    @classmethod
    def sign(cls, key: SigningKey, ask: bytes, payload: bytes) -> Delivery:
        """The provider's answer to the ask with digest ``ask``."""
        return cls(ask, payload, signature.sign(key, "delivery", cls.body(ask, payload)))


@dataclass(frozen=True, slots=True)
class Refusal(Message):
    """The provider says, signed, that it will not deliver what it owes: proofs or links of a closed window."""

    TAG: ClassVar[str] = "refusal"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, Text(2000), SIGNATURE)

    ask: bytes  #: H("ask", ask)
    reason: str  #: for a person
    signature: bytes  #: of the window key, purpose "refusal"

    @staticmethod
    def body(ask: bytes, reason: str) -> bytes:
        """What is signed."""
        return tagged_hash("refusal-body", ask, reason.encode())

    @classmethod
    def sign(cls, key: SigningKey, ask: bytes, reason: str) -> Refusal:
        """The provider's refusal of the ask with digest ``ask``."""
        return cls(ask, reason, signature.sign(key, "refusal", cls.body(ask, reason)))


def open_delivery(data: bytes, ask: Ask, window_key: bytes) -> Delivery | Refusal:
    """What came for an ask, if the provider signed it for this very ask; then it is the provider's word.

    Args:
        window_key: that the manifest of the ask's window names for it.

    Raises:
        EncodingError: neither a Delivery nor a Refusal.
        AttestationError: signed by somebody else, or for another ask: nobody's word.
    """
    message = decode_any(data, (Delivery, Refusal))
    assert isinstance(message, Delivery | Refusal)
    if message.ask != ask.digest():
        raise AttestationError("what was delivered answers another ask")
    if isinstance(message, Delivery):
        signature.verify(window_key, "delivery", Delivery.body(message.ask, message.payload), message.signature)
    else:
        signature.verify(window_key, "refusal", Refusal.body(message.ask, message.reason), message.signature)
    return message
