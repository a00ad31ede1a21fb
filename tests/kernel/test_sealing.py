# SPDX-License-Identifier: GPL-3.0-or-later
"""Sealing against RFC 9180's own vector and against a library that shares nothing with it; and keys of small order."""

from __future__ import annotations

import pytest
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite
from hypothesis import example, given, settings
from hypothesis import strategies as st

from ragseal.kernel import sealing
from ragseal.kernel.attestation import Request
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.publickey import FIELD_PRIME
from ragseal.kernel.sealing import OVERHEAD, check_seal_key, derive_private, public_of, seal, unseal

# RFC 9180 appendix A.2.1: DHKEM(X25519, HKDF-SHA256), HKDF-SHA256, ChaCha20Poly1305, base mode
IKM_E = bytes.fromhex("909a9b35d3dc4713a5e72a4da274b55d3d3821a37e5d099e74a647db583a904b")
SK_E = bytes.fromhex("f4ec9b33b792c372c1d2c2063507b684ef925b8c75a42dbcbf57d63ccd381600")
ENC = bytes.fromhex("1afa08d3dec047a643885163f1180476fa7ddb54c6a8029ea33f95796bf2ac4a")
SK_R = bytes.fromhex("8057991eef8f1f1af18f4a9491d16a1ce333f695d4db8e38da75975c4478e0fb")
PK_R = bytes.fromhex("4310ee97d88cc1f088a5576c77ab0cf5c3ac797f3d95139c6c84b5429c59662a")
INFO = bytes.fromhex("4f6465206f6e2061204772656369616e2055726e")
KEY = bytes.fromhex("ad2744de8e17f4ebba575b3f5f5a8fa1f69c2a07f6e7500bc60ca6e3e3ec1c91")
BASE_NONCE = bytes.fromhex("5c4d98150661b848853b547f")

SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)

# u of all points of order 1, 2, 4 and 8 on Curve25519 and its twist, from https://cr.yp.to/ecdh.html#validate, in every
# form that 32 bytes have for them: reduced or not, with the top bit (which RFC 7748 masks) or without.  Of any other
# key, too, only the first of these forms is one.
LOW_U = [
    0, 1, FIELD_PRIME - 1, FIELD_PRIME, FIELD_PRIME + 1,
    325606250916557431795983626356110631294008115727848805560023387167927233504,
    39382357235489614581723060781553021112529911719440698176882885853963445705823,
]  # fmt: skip
LOW_KEYS = [(u | top << 255).to_bytes(32, "little") for u in LOW_U for top in (0, 1)]


def test_rfc_9180_vector() -> None:
    assert derive_private(IKM_E) == SK_E
    assert public_of(SK_E) == ENC
    assert public_of(SK_R) == PK_R
    shared = X25519PrivateKey.from_private_bytes(SK_E).exchange(X25519PublicKey.from_public_bytes(PK_R))
    assert sealing._schedule(shared, ENC, PK_R, INFO) == (KEY, BASE_NONCE)
    sealed = seal(PK_R, IKM_E, INFO, b"Beauty is truth, truth beauty")
    assert sealed[:32] == ENC
    assert unseal(SK_R, INFO, sealed) == b"Beauty is truth, truth beauty"


@settings(max_examples=60)
@given(
    private=st.binary(min_size=32, max_size=32),
    secret=st.binary(min_size=32, max_size=32),
    info=st.binary(max_size=100),
    text=st.one_of(st.binary(max_size=300), st.integers(0, 1 << 18).map(lambda size: b"x" * size)),
)
def test_the_library_opens_what_we_seal_and_we_open_what_it_seals(
    private: bytes, secret: bytes, info: bytes, text: bytes
) -> None:
    sealed, key = seal(public_of(private), secret, info, text), X25519PrivateKey.from_private_bytes(private)
    assert SUITE.decrypt(sealed, key, info) == text
    assert len(sealed) == len(text) + OVERHEAD
    assert seal(public_of(private), secret, info, text) == sealed  # the same request brings the same bytes
    assert unseal(private, info, SUITE.encrypt(text, key.public_key(), info)) == text


@settings(max_examples=60)
@given(text=st.binary(max_size=200), at=st.integers(0), bit=st.integers(0, 7), cut=st.integers(1, 300))
@example(text=b"x", at=31, bit=7, cut=1)  # the bit that RFC 7748 ignores: HPKE hashes it
def test_nothing_else_opens(text: bytes, at: int, bit: int, cut: int) -> None:
    sealed = seal(PK_R, IKM_E, INFO, text)
    at %= len(sealed)
    flipped = sealed[:at] + bytes([sealed[at] ^ 1 << bit]) + sealed[at + 1 :]
    for private, info, data in (
        (SK_R, INFO, flipped), (SK_E, INFO, sealed), (SK_R, INFO + b"x", sealed), (SK_R, b"", sealed),
        (SK_R, INFO, sealed[: -min(cut, len(sealed))]), (SK_R, INFO, sealed + b"\x00"), (SK_R, INFO, b""),
    ):  # fmt: skip
        with pytest.raises(AttestationError, match="does not open"):
            unseal(private, info, data)


def test_every_secret_has_an_ephemeral_key_of_its_own() -> None:
    sealed = {seal(PK_R, bytes([i]) * 32, INFO, b"text")[:32] for i in range(50)}
    assert len(sealed) == 50


@pytest.mark.parametrize("key", LOW_KEYS, ids=bytes.hex)
def test_keys_of_small_order_are_refused(key: bytes) -> None:
    """Whoever sealed to one would seal for everybody; held against the library, which refuses the exchange itself."""
    with pytest.raises(ValueError, match="shared key"):
        X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(key))
    with pytest.raises(AttestationError, match="fresh X25519 key"):
        check_seal_key(key)
    refused(key, "fresh X25519 key")


def refused(key: bytes, why: str) -> None:
    for call in (check_seal_key, lambda k: seal(k, IKM_E, INFO, b"text"), lambda k: Request.decode(request(k))):
        with pytest.raises(AttestationError, match=why):
            call(key)


@pytest.mark.parametrize("u", [2, 9, 18])
def test_a_second_form_of_a_key_is_refused(u: int) -> None:
    """The library takes p + u and the top bit for u: one key, whose requests would differ."""
    plain = u.to_bytes(32, "little")
    check_seal_key(plain)
    private = X25519PrivateKey.generate()
    for other in (u | 1 << 255, u + FIELD_PRIME, u + FIELD_PRIME | 1 << 255):
        key = other.to_bytes(32, "little")
        same = [private.exchange(X25519PublicKey.from_public_bytes(form)) for form in (plain, key)]
        assert same[0] == same[1]
        refused(key, "not in canonical form")
    for form in (FIELD_PRIME + 0, 2**256 - 1, 2**255 - 1, 1 << 255 | int.from_bytes(PK_R, "little")):
        refused(form.to_bytes(32, "little"), "not in canonical form")


def request(seal_key: bytes) -> bytes:
    point = (1).to_bytes(32, "big") + (2).to_bytes(32, "big")
    h = bytes(32)
    return Request("o", "w", h, "a", 1, bytes(16), h, point, h, True, bytes(16), h, seal_key).encode()


def test_keys_beside_those_of_small_order_are_taken() -> None:
    """The check refuses no more than the library does: a second reader must draw the line at the same keys."""
    for u in {near + step for near in LOW_U for step in (-2, -1, 1, 2)}:
        if not 0 <= u < FIELD_PRIME:
            continue
        key = u.to_bytes(32, "little")
        try:
            X25519PrivateKey.generate().exchange(X25519PublicKey.from_public_bytes(key))
        except ValueError:
            assert key in LOW_KEYS
            continue
        check_seal_key(key)
        Request.decode(request(key))
        assert len(seal(key, IKM_E, INFO, b"")) == OVERHEAD


@pytest.mark.parametrize("size", [0, 31, 33])
def test_keys_of_another_length_are_refused(size: int) -> None:
    with pytest.raises(AttestationError):
        check_seal_key(b"\x09" * size)
