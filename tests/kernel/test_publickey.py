# SPDX-License-Identifier: GPL-3.0-or-later
"""Keys that bind nobody: under an Ed25519 key of small order one signature fits many bodies."""

from __future__ import annotations

import dataclasses
import random

import pytest
from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey

from ragseal.kernel import encoding, signature
from ragseal.kernel.beacon import BeaconCommit, Seat
from ragseal.kernel.commitment import (
    Account,
    Manifest,
)
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AttestationError, AuditError, EncodingError
from ragseal.kernel.publickey import FIELD_PRIME, check_public_key
from ragseal.kernel.transcript import tagged_hash
from ragseal.ledger.note import COSIGNATURE, ED25519, NoteVerifier
from tests.fuzz.samples import message_kinds, sample

D = -121665 * pow(121666, -1, FIELD_PRIME) % FIELD_PRIME
NOT_A_KEY = r"small order|not in canonical form"
IDENTITY = (1).to_bytes(32, "little")


def square_root(n: int) -> int | None:
    """Of n modulo 2^255 - 19 (RFC 8032 section 5.1.3)."""
    root = pow(n, (FIELD_PRIME + 3) // 8, FIELD_PRIME)
    for factor in (1, pow(2, (FIELD_PRIME - 1) // 4, FIELD_PRIME)):
        if (root * factor) ** 2 % FIELD_PRIME == n % FIELD_PRIME:
            return root * factor % FIELD_PRIME
    return None


def small_order_y() -> set[int]:
    """y of all eight points, computed here from the curve's equation -x^2 + y^2 = 1 + d x^2 y^2.

    Orders 1, 2, 4: y = 1, -1, 0.  A point of order 8 doubles to y = 0, so x^2 = -y^2, hence d y^4 + 2 y^2 - 1 = 0.
    """
    found = {0, 1, FIELD_PRIME - 1}
    root = square_root(1 + D)
    assert root is not None
    for numerator in (-1 + root, -1 - root):
        y = square_root(numerator * pow(D, -1, FIELD_PRIME))
        found |= set() if y is None else {y, FIELD_PRIME - y}
    return found


SMALL = [
    (form | sign << 255).to_bytes(32, "little")
    for y in sorted(small_order_y())
    for form in (y, y + FIELD_PRIME)
    for sign in (0, 1)
    if form < 2**255
]


def many_bodies(key: bytes) -> int:
    """For how many of 64 bodies one and the same signature verifies in the library itself."""
    fits = 0
    for number in range(64):
        body = tagged_hash("sign/receipt", b"body %d" % number)
        try:
            Ed25519PublicKey.from_public_bytes(key).verify(IDENTITY + bytes(32), body)
        except InvalidSignature:
            continue
        fits += 1
    return fits


def test_there_are_five_y() -> None:
    assert len(small_order_y()) == 5
    assert len(SMALL) == 2 * 5 + 2 * 2  # y = 0 and y = 1 have a second form below 2^255


@pytest.mark.parametrize("key", SMALL, ids=bytes.hex)
def test_keys_of_small_order_bind_nobody_and_are_refused(key: bytes) -> None:
    with pytest.raises(EncodingError, match=NOT_A_KEY):
        check_public_key(key)
    with pytest.raises(AttestationError, match=r"does not hold: .*(small order|canonical form)"):
        signature.verify(key, "receipt", b"body", IDENTITY + bytes(32))
    for algorithm in (ED25519, COSIGNATURE):
        with pytest.raises(EncodingError, match=NOT_A_KEY):
            NoteVerifier("log.example", key, algorithm)


def test_what_the_library_alone_would_take() -> None:
    """Why this is checked at all: R the neutral point, S = 0, and one signature for two bodies and more."""
    fits = {key: many_bodies(key) for key in SMALL}
    canonical = [key for key in SMALL if int.from_bytes(key, "little") & (2**255 - 1) < FIELD_PRIME]
    assert fits[IDENTITY] == 64
    assert all(fits[key] >= 2 for key in canonical), fits
    honest = signature.public_bytes(Ed25519PrivateKey.from_private_bytes(b"h" * 32))
    assert many_bodies(honest) == 0


def test_the_neighbours_of_small_order_are_taken() -> None:
    for y in small_order_y():
        for near in (y - 2, y + 2):
            if 0 <= near < FIELD_PRIME and near not in small_order_y():
                for sign in (0, 1):  # of x: half of all honest keys have it
                    check_public_key((near | sign << 255).to_bytes(32, "little"))
    for size in (0, 31, 33):
        with pytest.raises(EncodingError, match="32 bytes"):
            check_public_key(b"k" * size)
    with pytest.raises(EncodingError, match="canonical"):
        check_public_key((FIELD_PRIME + 2).to_bytes(32, "little"))


def with_keys() -> list[tuple[type[Message], str]]:
    """Every message of the product that names a public key, found by its codecs."""
    return [
        (kind, field.name)
        for kind in message_kinds()
        for field, codec in zip(dataclasses.fields(kind), kind.CODECS, strict=True)  # type: ignore[arg-type]
        if codec is encoding.PUBLIC_KEY
    ]


def test_the_messages_that_name_keys() -> None:
    named = {
        (Account, "public_key"),
        (Manifest, "provider_key"),
        (Seat, "public_key"),
        (BeaconCommit, "public_key"),
    }
    assert named <= set(with_keys())
    for kind in message_kinds():
        for field, codec in zip(dataclasses.fields(kind), kind.CODECS, strict=True):  # type: ignore[arg-type]
            if field.name.endswith("_key") and field.name != "seal_key":
                assert codec is encoding.PUBLIC_KEY, (kind.TAG, field.name)


@pytest.mark.parametrize(("kind", "field"), with_keys(), ids=lambda value: getattr(value, "TAG", value))
def test_every_message_that_names_a_key_refuses_them(kind: type[Message], field: str) -> None:
    made = sample(kind, random.Random(kind.TAG))
    data, key = made.encode(), getattr(made, field)
    assert data.count(key) == 1
    for small in SMALL:
        with pytest.raises(AuditError, match=NOT_A_KEY):
            kind.decode(data.replace(key, small))
        with pytest.raises(EncodingError, match=NOT_A_KEY):
            dataclasses.replace(made, **{field: small}).encode()  # type: ignore[type-var]


# Signatures: one key, one purpose, one body. SPEC G.4.


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
