# SPDX-License-Identifier: GPL-3.0-or-later
"""DSSE envelopes: one payload with its type, and Ed25519 signatures over both.  SPEC D.18.

Source: *DSSE: Dead Simple Signing Envelope*, version 1.0.2 (secure-systems-lab/dsse).  What is signed begins with the
text ``DSSEv1 `` and so is none of the 32-byte digests of SPEC G.4, which the same key signs elsewhere.
"""

from __future__ import annotations

import base64
import binascii
import json
from typing import Any

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ragseal.kernel.errors import AttestationError, EncodingError
from ragseal.kernel.publickey import check_public_key
from ragseal.kernel.signature import SigningKey
from ragseal.verifier.signed import json_text

MAX_BYTES = 1 << 24  #: of an envelope
MAX_SIGNATURES = 64


def encoded(kind: str, payload: bytes) -> bytes:
    """What is signed: DSSE's pre-authentication encoding, with lengths in bytes and decimal digits."""
    name = kind.encode()
    return b"DSSEv1 %d %s %d %s" % (len(name), name, len(payload), payload)


def seal(kind: str, payload: bytes, key: SigningKey) -> bytes:
    """One line of JSON, newline included: the payload under this key's signature; keyid is the key in hexadecimal."""
    line = {
        "payload": base64.standard_b64encode(payload).decode(),
        "payloadType": kind,
        "signatures": [
            {
                "keyid": key.public_key().public_bytes_raw().hex(),
                "sig": base64.standard_b64encode(key.sign(encoded(kind, payload))).decode(),
            }
        ],
    }
    return json.dumps(line, sort_keys=True).encode() + b"\n"


def open_sealed(data: bytes, kind: str, public_key: bytes) -> bytes:
    """The payload of an envelope that this key has signed, among others perhaps; key ids decide nothing.

    Args:
        kind: the payload's type that is expected.
        public_key: 32 bytes.

    Raises:
        EncodingError: no envelope, an oversized one, or one of another type.
        AttestationError: none of its signatures is this key's.
    """
    if len(data) > MAX_BYTES:
        raise EncodingError(f"the envelope has more than {MAX_BYTES} bytes")
    try:
        found = json_text.parse(data)
    except EncodingError as error:
        raise EncodingError(f"not a DSSE envelope: {error}") from None
    if not isinstance(found, dict) or not {"payload", "payloadType", "signatures"} <= set(found):
        raise EncodingError("not a DSSE envelope: payload, payloadType and signatures are its members")
    if found["payloadType"] != kind:
        raise EncodingError(f"the envelope's payload is of a different type than {kind}")
    payload = _bytes(found["payload"], "payload")
    given = found["signatures"]
    if not isinstance(given, list) or not 1 <= len(given) <= MAX_SIGNATURES:
        raise EncodingError(f"a DSSE envelope has 1 to {MAX_SIGNATURES} signatures")
    check_public_key(public_key)
    key, signed = Ed25519PublicKey.from_public_bytes(public_key), encoded(kind, payload)
    for one in given:
        if not isinstance(one, dict) or "sig" not in one:
            raise EncodingError("a signature of the envelope has no sig")
        try:
            key.verify(_bytes(one["sig"], "sig"), signed)
        except InvalidSignature:
            continue
        return payload
    raise AttestationError(f"no signature of the envelope is by the key {public_key.hex()}")


def _bytes(text: Any, what: str) -> bytes:
    """Base64, of either alphabet, as DSSE asks readers to take it."""
    if not isinstance(text, str):
        raise EncodingError(f"the envelope's {what} is not text")
    try:
        return base64.b64decode(text.translate(str.maketrans("-_", "+/")), validate=True)
    except (ValueError, binascii.Error):
        raise EncodingError(f"the envelope's {what} is not base64") from None
