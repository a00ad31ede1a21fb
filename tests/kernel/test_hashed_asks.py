# SPDX-License-Identifier: GPL-3.0-or-later
"""Pseudonyms, asks, deliveries and seals: what is hashed, computed apart from SPEC G.2."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from ragseal.kernel import attestation
from ragseal.kernel.commitment import Account
from ragseal.kernel.inquiry import ASKS, BlocksAsk, Delivery, LinksAsk, ProofsAsk, Refusal, RegistryAsk
from ragseal.kernel.sealing import derive_private, public_of
from tests.apart import canonical, h
from tests.fuzz.samples import sample

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
MANIFEST, NONCE = b"m" * 32, b"n" * 16


def test_a_pseudonym_is_a_salted_digest_of_the_name() -> None:
    account = Account("alice", "acme", KEY.public_key().public_bytes_raw(), b"s" * 32)
    assert account.pseudonym == h("pseudonym", b"s" * 32, b"alice")[:16].hex()


@pytest.mark.parametrize(
    "ask",
    [
        RegistryAsk(MANIFEST, 7, NONCE),
        ProofsAsk(MANIFEST, 7, NONCE, (0, 2)),
        LinksAsk(MANIFEST, 7, NONCE),
        BlocksAsk(MANIFEST, 7, NONCE, b"d" * 32, "acme", ((0, 1), (2, 3))),
    ],
    ids=[kind.TAG for kind in ASKS],
)
def test_an_ask_is_signed_whole_and_its_answers_name_it(ask: RegistryAsk) -> None:
    assert ask.digest() == h("ask", canonical(ask))
    KEY.public_key().verify(ask.sign(KEY), h("sign/ask", canonical(ask)))
    given = Delivery.sign(KEY, ask.digest(), b"payload")
    body = h("delivery-body", ask.digest(), b"payload")
    KEY.public_key().verify(given.signature, h("sign/delivery", body))
    refused = Refusal.sign(KEY, ask.digest(), "no proof")
    KEY.public_key().verify(refused.signature, h("sign/refusal", h("refusal-body", ask.digest(), b"no proof")))


def test_a_seal_is_about_its_record_and_follows_from_secret_record_and_openings() -> None:
    record, openings = sample(attestation.Record, random.Random(1)), sample(attestation.Openings, random.Random(2))
    assert isinstance(record, attestation.Record)
    assert isinstance(openings, attestation.Openings)
    secret = b"p" * 32
    request = replace(record.signed.request, seal_key=public_of(secret))
    mine = replace(record, signed=replace(record.signed, request=request))
    sealed = attestation.seal_openings(mine, openings, b"w" * 32)
    digest = h("record", canonical(mine))
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)

    opened = suite.decrypt(sealed, X25519PrivateKey.from_private_bytes(secret), h("seal-info", digest))
    assert opened == canonical(openings)
    assert attestation.sealed_digest(sealed) == h("sealed-openings", sealed)
    ephemeral = h("seal-ephemeral", b"w" * 32, digest, canonical(openings))
    assert sealed[:32] == public_of(derive_private(ephemeral)), "SPEC B.4: so that a crash changes nothing"
    assert sealed == attestation.seal_openings(mine, openings, b"w" * 32), "the same request gets the same bytes"
    assert sealed[:32] != attestation.seal_openings(mine, openings, b"x" * 32)[:32]
    later = replace(mine, seq=mine.seq + 1)
    assert sealed[:32] != attestation.seal_openings(later, openings, b"w" * 32)[:32], "an ephemeral key for two records"


def test_a_second_seal_is_about_its_ask_too_and_shares_no_key_with_the_first() -> None:
    """SPEC B.4.11."""
    private = b"\x07" * 32
    record, openings = sample(attestation.Record, random.Random(1)), sample(attestation.Openings, random.Random(2))
    assert isinstance(record, attestation.Record)
    assert isinstance(openings, attestation.Openings)
    ask = attestation.AnswerAsk(b"m" * 32, "p", 3, public_of(private))
    about = h("reseal-info", canonical(ask), h("record", canonical(record)))
    sealed = attestation.reseal_openings(ask, record, openings, b"w" * 32)
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
    assert suite.decrypt(sealed, X25519PrivateKey.from_private_bytes(private), about) == canonical(openings)
    ephemeral = h("reseal-ephemeral", b"w" * 32, about, canonical(openings))
    assert sealed[:32] == public_of(derive_private(ephemeral))
    assert sealed == attestation.reseal_openings(ask, record, openings, b"w" * 32)
    request = replace(record.signed.request, seal_key=ask.seal_key)
    first = replace(record, signed=replace(record.signed, request=request))
    others = [
        attestation.seal_openings(first, openings, b"w" * 32),
        attestation.reseal_openings(replace(ask, seal_key=public_of(b"\x08" * 32)), record, openings, b"w" * 32),
        attestation.reseal_openings(replace(ask, ctr=4), record, openings, b"w" * 32),
        attestation.reseal_openings(ask, replace(record, seq=record.seq + 1), openings, b"w" * 32),
        attestation.reseal_openings(ask, record, replace(openings, t_salt=openings.t_salt ^ 1), b"w" * 32),
        attestation.reseal_openings(ask, record, openings, b"x" * 32),
    ]
    assert len({one[:32] for one in [sealed, *others]}) == 7, "an ephemeral key for two texts or keys"
