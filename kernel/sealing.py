# SPDX-License-Identifier: GPL-3.0-or-later
"""Sealing to an X25519 key: HPKE base mode, single shot (RFC 9180), DHKEM(X25519, HKDF-SHA256), HKDF-SHA256,
ChaCha20-Poly1305.

Opening is the library's.  Sealing is written out here for one reason: an answer is a function of ledger and secrets
(SPEC B.4), so the ephemeral key has to follow from a secret instead of fresh randomness, as RFC 9180's own test vectors
derive it (section 7.1.3, DeriveKeyPair).  Nothing else is different, and the library opens what this seals.

Preconditions of :func:`seal`: ``secret`` has 256 bits of entropy for everybody but the sealer, and is used for one
(public key, info, plaintext) only: two texts under one ephemeral key would share a key stream.
"""

from __future__ import annotations

import hashlib
import hmac

from cryptography.exceptions import InvalidTag
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey, X25519PublicKey
from cryptography.hazmat.primitives.ciphers.aead import ChaCha20Poly1305
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from ragseal.kernel.errors import AttestationError
from ragseal.kernel.publickey import FIELD_PRIME

SEAL_KEY_BYTES = 32  #: of a public or private X25519 key
OVERHEAD = 32 + 16  #: the ephemeral public key and the tag

_SUITE = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
_KEM_ID = b"KEM" + (0x0020).to_bytes(2, "big")
_HPKE_ID = b"HPKE" + b"".join(number.to_bytes(2, "big") for number in (0x0020, 0x0001, 0x0003))
_MODE_BASE = b"\x00"
_U8 = (
    0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F,
    0x00B8495F16056286FDB1329CEB8D09DA6AC49FF1FAE35616AEB8413B7C7AEBE0,
)
_SMALL_ORDER_U = frozenset({0, 1, FIELD_PRIME - 1, *_U8})  # Curve25519 and its twist, orders 1, 2, 4 and 8


def _extract(suite: bytes, salt: bytes, label: bytes, ikm: bytes) -> bytes:
    """LabeledExtract (RFC 9180 section 4)."""
    return hmac.digest(salt or bytes(32), b"HPKE-v1" + suite + label + ikm, hashlib.sha256)


def _expand(suite: bytes, prk: bytes, label: bytes, info: bytes, length: int) -> bytes:
    """LabeledExpand (RFC 9180 section 4) for at most 32 bytes, one block of HKDF (RFC 5869)."""
    labeled = length.to_bytes(2, "big") + b"HPKE-v1" + suite + label + info
    return hmac.digest(prk, labeled + b"\x01", hashlib.sha256)[:length]


def derive_private(ikm: bytes) -> bytes:
    """DeriveKeyPair of X25519 (RFC 9180 section 7.1.3): the 32-byte private key."""
    return _expand(_KEM_ID, _extract(_KEM_ID, b"", b"dkp_prk", ikm), b"sk", b"", 32)


def public_of(private: bytes) -> bytes:
    """The public half of a 32-byte private key."""
    return X25519PrivateKey.from_private_bytes(private).public_key().public_bytes_raw()


def check_seal_key(public: bytes) -> None:
    """Refuse a key that is written in a second form, or of small order: everybody would know the shared secret.

    RFC 7748 (section 5) reads two forms and more for one key: it ignores the top bit and reduces the rest.

    Raises:
        AttestationError: such a key, or not 32 bytes.
    """
    u = int.from_bytes(public, "little")
    if len(public) != SEAL_KEY_BYTES or u in _SMALL_ORDER_U:
        raise AttestationError("nothing can be sealed to the request's key: draw a fresh X25519 key")
    if u >= FIELD_PRIME:
        raise AttestationError(
            "the request's key is not in canonical form, its u is not below 2^255 - 19: draw a fresh X25519 key"
        )


def seal(public: bytes, secret: bytes, info: bytes, plaintext: bytes) -> bytes:
    """Ephemeral public key and ciphertext; the same bytes for the same arguments.

    Args:
        public: the receiver's X25519 key.
        secret: from which the ephemeral key is derived; see the module's preconditions.
        info: what both sides agree the text is about.

    Raises:
        AttestationError: a public key that :func:`check_seal_key` refuses.
    """
    check_seal_key(public)
    ephemeral = X25519PrivateKey.from_private_bytes(derive_private(secret))
    sent = ephemeral.public_key().public_bytes_raw()
    shared = ephemeral.exchange(X25519PublicKey.from_public_bytes(public))
    key, nonce = _schedule(shared, sent, public, info)
    return sent + ChaCha20Poly1305(key).encrypt(nonce, plaintext, b"")


def _schedule(shared: bytes, sent: bytes, public: bytes, info: bytes) -> tuple[bytes, bytes]:
    """Key and nonce of the first message from the Diffie-Hellman result (RFC 9180 sections 4.1 and 5.1)."""
    prk = _extract(_KEM_ID, b"", b"eae_prk", shared)
    kem = _expand(_KEM_ID, prk, b"shared_secret", sent + public, 32)
    about = _MODE_BASE + _extract(_HPKE_ID, b"", b"psk_id_hash", b"") + _extract(_HPKE_ID, b"", b"info_hash", info)
    schedule = _extract(_HPKE_ID, kem, b"secret", b"")
    return _expand(_HPKE_ID, schedule, b"key", about, 32), _expand(_HPKE_ID, schedule, b"base_nonce", about, 12)


def unseal(private: bytes, info: bytes, sealed: bytes) -> bytes:
    """What was sealed.

    Raises:
        AttestationError: sealed to another key, about something else, or changed on the way.
    """
    try:
        return _SUITE.decrypt(sealed, X25519PrivateKey.from_private_bytes(private), info)
    except (InvalidTag, ValueError):
        raise AttestationError("the sealed answer does not open with this request's key: it was changed") from None
