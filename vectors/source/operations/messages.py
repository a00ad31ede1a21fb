# SPDX-License-Identifier: GPL-3.0-or-later
"""Messages, hashes and signatures.  SPEC G."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ragseal.embedder.interface import DeclaredIdentity, EmbedderIdentity
from ragseal.kernel import (
    attestation,
    sealing,
    signature,
    transcript,
)  # fmt: skip
from ragseal.kernel.attestation import SignedRequest
from ragseal.kernel.beacon import (
    BeaconCommit,
    BeaconSeal,
)
from ragseal.kernel.commitment import (
    IndexFile,
    SignedManifest,
)
from ragseal.kernel.inquiry import ASKS, Delivery, Refusal, open_delivery
from ragseal.kernel.link_list import SignedLinks
from ragseal.kernel.publickey import check_public_key
from ragseal.ledger.note import NoteVerifier
from vectors.source.reading import Json, read, un
from vectors.source.values import number, shown


def message(given: Json) -> Json:
    made = read(given["tag"], given["bytes"])
    assert made.encode() == un(given["bytes"])
    return {"fields": shown(made)}


def tagged_hash(given: Json) -> Json:
    parts = [un(part) for part in given["parts"]]
    return {
        "digest": transcript.tagged_hash(given["tag"], *parts).hex(),
        "element": number(transcript.tagged_element(given["tag"], *parts)),
        "challenge": number(transcript.challenge(given["tag"], *parts)),
    }


#: label of the hash that identifies a message of this tag, and how the product computes it
DIGESTS: dict[str, tuple[str, Callable[[Any], bytes]]] = {
    "manifest": ("manifest", lambda m: m.digest()),
    "tenant-index": ("index-version", lambda m: m.digest()),
    "folded-opening": ("columns-opening", lambda m: IndexFile(b"", m).opening_digest()),
    "embedder": ("embedder", EmbedderIdentity.digest),
    "declared-embedder": ("declared-embedder", DeclaredIdentity.digest),
    "request": ("request", lambda m: m.digest()),
    "record": ("record", lambda m: m.digest()),
    "openings": ("openings", lambda m: m.digest()),
    "receipt": ("receipt", lambda m: m.digest()),
    "link-list": ("link-list", lambda m: m.digest()),
    **{kind.TAG: ("ask", lambda m: m.digest()) for kind in ASKS},
}


def message_digest(given: Json) -> Json:
    label, compute = DIGESTS[given["tag"]]
    return {"label": label, "digest": compute(read(given["tag"], given["bytes"])).hex()}


def public_key(given: Json) -> Json:
    check_public_key(un(given["key"]))
    return {}


def seal_key(given: Json) -> Json:
    sealing.check_seal_key(un(given["key"]))
    return {}


def log_key(given: Json) -> Json:
    key = NoteVerifier.from_vkey(given["vkey"])
    found = {"name": key.name, "key_id": key.key_id, "algorithm": key.algorithm, "public_key": key.public_key}
    return {name: shown(value) for name, value in found.items()}


def signed(given: Json) -> Json:
    signature.verify(un(given["public_key"]), given["purpose"], un(given["body"]), un(given["signature"]))
    return {}


def signed_message(given: Json) -> Json:
    """A message that carries its signature; what exactly is signed, and for which purpose."""
    made, key = read(given["tag"], given["bytes"]), un(given["public_key"])
    match made:
        case SignedManifest():
            made.verify()
            purpose, body = "manifest", made.manifest.encode()
        case SignedRequest():
            made.verify(key)
            purpose, body = "request", made.request.encode()
        case BeaconCommit():
            made.verify()
            purpose, body = "beacon-commit", made.body()
        case BeaconSeal():
            purpose, body = "beacon-seal", made.body()
            signature.verify(key, purpose, body, made.signature)
        case attestation.Receipt():
            made.verify(key)
            purpose, body = "receipt", made.body.encode()
        case SignedLinks():
            made.verify(key)
            purpose, body = "links", made.body.encode()
        case Delivery():
            open_delivery(un(given["bytes"]), read(given["ask_tag"], given["ask"]), key)
            purpose, body = "delivery", made.body(made.ask, made.payload)
        case Refusal():
            open_delivery(un(given["bytes"]), read(given["ask_tag"], given["ask"]), key)
            purpose, body = "refusal", made.body(made.ask, made.reason)
        case _:
            raise AssertionError(f"{made.TAG} carries no signature")
    return {"purpose": purpose, "body": body.hex()}


def ask(given: Json) -> Json:
    made = read(given["tag"], given["bytes"])
    made.verify([un(given["public_key"])], un(given["signature"]), given["now"])
    return {"digest": made.digest().hex()}


def retrieval(given: Json) -> Json:
    made = SignedRequest.decode(un(given["signed_request"]))
    made.verify_retrieval(un(given["public_key"]), un(given["signature"]))
    return {}


OPERATIONS: dict[str, Callable[[Json], Json]] = {
    "message": message,
    "tagged-hash": tagged_hash,
    "message-digest": message_digest,
    "public-key": public_key,
    "seal-key": seal_key,
    "log-key": log_key,
    "signature": signed,
    "signed-message": signed_message,
    "ask": ask,
    "retrieval": retrieval,
}
