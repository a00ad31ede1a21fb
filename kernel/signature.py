# SPDX-License-Identifier: GPL-3.0-or-later
"""Ed25519 over domain-separated digests of canonical messages (RFC 8032, pure Ed25519 on a 32-byte digest)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from ragseal.kernel.errors import AttestationError, EncodingError
from ragseal.kernel.publickey import check_public_key
from ragseal.kernel.transcript import tagged_hash


class SigningKey(Protocol):
    """A private key that signs: in memory (cryptography's Ed25519PrivateKey), or in a token that does it itself."""

    def sign(self, data: bytes, /) -> bytes:
        """The 64-byte Ed25519 signature of ``data``, the same whenever it is asked for (RFC 8032)."""

    def public_key(self) -> Ed25519PublicKey:
        """Its public half."""


def public_bytes(key: SigningKey) -> bytes:
    """The 32-byte public key."""
    return key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)


def sign(key: SigningKey, purpose: str, body: bytes) -> bytes:
    """64-byte signature of ``body`` for one purpose; a signature of one purpose is none for another."""
    return key.sign(tagged_hash(f"sign/{purpose}", body))


def verify(public_key: bytes, purpose: str, body: bytes, signature: bytes) -> None:
    """Raises AttestationError unless ``signature`` is ``public_key``'s over ``body`` for ``purpose``.

    A key of small order is refused whatever the signature: it would verify for other bodies too.
    """
    signer((public_key,), purpose, body, signature)


def signer(public_keys: Sequence[bytes], purpose: str, body: bytes, signature: bytes) -> bytes:
    """Whose signature of ``body`` for ``purpose`` this is, the body hashed once.  AttestationError: none of theirs."""
    digest, why = tagged_hash(f"sign/{purpose}", body), ""
    for key in public_keys:
        try:
            check_public_key(key)
            Ed25519PublicKey.from_public_bytes(key).verify(signature, digest)
            return key
        except EncodingError as error:
            why = f": {error}"
        except (InvalidSignature, ValueError):
            continue
    raise AttestationError(f"the {purpose} signature does not hold{why}")
