# SPDX-License-Identifier: GPL-3.0-or-later
"""Signatures: one key, one purpose, one body.  SPEC G.4."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.errors import AttestationError

KEY, OTHER = (Ed25519PrivateKey.from_private_bytes(bytes([n]) * 32) for n in (1, 2))
PUBLIC = signature.public_bytes(KEY)
SIGNED = signature.sign(KEY, "request", b"body")


def test_the_signature_of_one_purpose_and_body() -> None:
    signature.verify(PUBLIC, "request", b"body", SIGNED)
    assert len(SIGNED) == 64
    assert len(PUBLIC) == 32


@pytest.mark.parametrize(
    ("key", "purpose", "body", "signed"),
    [
        (signature.public_bytes(OTHER), "request", b"body", SIGNED),
        (PUBLIC, "receipt", b"body", SIGNED),
        (PUBLIC, "request", b"bodx", SIGNED),
        (PUBLIC, "request", b"", SIGNED),
        (PUBLIC, "request", b"body", bytes([SIGNED[0] ^ 1]) + SIGNED[1:]),
        (PUBLIC, "request", b"body", SIGNED[:63] + bytes([SIGNED[63] ^ 1])),
        (PUBLIC, "request", b"body", signature.sign(OTHER, "request", b"body")),
        (PUBLIC, "request", b"body", KEY.sign(b"body")),  # over the body, not over its digest
        (PUBLIC, "request", b"body", SIGNED[:-1]),
        (PUBLIC, "request", b"body", b""),
        (PUBLIC[:-1], "request", b"body", SIGNED),  # no key at all
        (b"", "request", b"body", SIGNED),
    ],
)
def test_any_other_is_refused(key: bytes, purpose: str, body: bytes, signed: bytes) -> None:
    with pytest.raises(AttestationError, match=f"the {purpose} signature does not hold"):
        signature.verify(key, purpose, body, signed)
