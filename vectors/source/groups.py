# SPDX-License-Identifier: GPL-3.0-or-later
"""Hashes, keys, signatures, points, Poseidon, proofs of opening and of pairings.  SPEC G, A.3, B.7, C.5."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import Any

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import folding, signature
from ragseal.kernel.bn254 import IDENTITY
from ragseal.kernel.commitment import GENERATOR_DOMAIN
from ragseal.kernel.opening import Opening
from ragseal.kernel.params import P, R
from ragseal.kernel.publickey import FIELD_PRIME
from ragseal.kernel.squarednorm import SquaredNorm
from ragseal.kernel.transcript import tagged_hash
from ragseal.ledger.note import COSIGNATURE, NoteVerifier, encode_base64, key_id
from vectors.source import edwards, messages
from vectors.source.book import Book
from vectors.source.trapdoor import GROUP, Trapdoor, g2
from vectors.source.values import digest, flipped, packed, point, points, public, scalar, scalars, signing, stream

_Y8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
_U8 = 0x57119FD0DD4E22D8868E1C58C45C44045BEF839C55B1D0B1248C50A3BC959C5F


def add(book: Book) -> None:
    _hashes(book)
    _keys(book)
    _signatures(book)
    _signed_messages(book)
    _points(book)
    _poseidon(book)
    _openings(book)
    _folding(book)
    _squared_norm(book)
    _groth16(book)


def _hashes(book: Book) -> None:
    for name, tag, parts in (
        ("no-part", "test", []),
        ("three-parts", "test", [b"ab", b"", b"c"]),
        ("long-part", "a longer tag", [stream("long part", 300)]),
    ):
        about = f"H of {len(parts)} parts, as an element of 31 bytes, and as a challenge of the whole field."
        book.valid(f"hashes/{name}", "tagged-hash", "G.2", about, tag=tag, parts=parts)
    label = b"\x0fragseal/v1/test"
    plain = {"digest": hashlib.sha256(label + b"abc").digest()}
    book.wrong(
        "hashes/parts-without-lengths", "tagged-hash", "G.2", "Parts that are joined without their lengths.", plain,
        tag="test", parts=[b"ab", b"", b"c"],
    )  # fmt: skip
    whole = {"element": int.from_bytes(digest("whole"), "big") % R}
    book.wrong(
        "hashes/element-of-32-bytes", "tagged-hash", "G.2", "An element of all 32 bytes, reduced.", whole,
        tag="test", parts=[b"ab"],
    )  # fmt: skip


def _little(value: int) -> bytes:
    return value.to_bytes(32, "little")


def _keys(book: Book) -> None:
    good = public("alice")
    book.valid("keys/ed25519", "public-key", "G.4", "A public key that binds its owner.", key=good)
    for name, text, key in (
        ("ed25519-order-1", "small order", _little(1)),
        ("ed25519-order-2", "small order", _little(FIELD_PRIME - 1)),
        ("ed25519-order-4", "small order", bytes(32)),
        ("ed25519-order-8", "small order", _little(_Y8)),
        ("ed25519-order-8-and-sign", "small order", flipped(_little(FIELD_PRIME - _Y8), -1, 7)),
        ("ed25519-y-not-below-p", "canonical", _little(FIELD_PRIME + 3)),
        ("ed25519-31-bytes", "32 bytes", good[:-1]),
        ("ed25519-33-bytes", "32 bytes", good + b"\0"),
    ):
        book.refused(f"keys/{name}", "public-key", "G.4", "No public key.", "EncodingError", text, key=key)
    book.valid("keys/x25519", "seal-key", "B.2", "A key to seal to.", key=messages.REQUEST.seal_key)
    for name, key in (
        ("x25519-zero", bytes(32)), ("x25519-one", _little(1)), ("x25519-order-8", _little(_U8)),
        ("x25519-31-bytes", bytes(31)),
    ):  # fmt: skip
        about = "A key to which nothing can be sealed."
        book.refused(f"keys/{name}", "seal-key", "B.2", about, "AttestationError", "nothing can be sealed", key=key)
    for name, key in (
        ("x25519-p", _little(FIELD_PRIME)), ("x25519-p-plus-9", _little(FIELD_PRIME + 9)),
        ("x25519-top-bit", flipped(messages.REQUEST.seal_key, -1, 7)),
    ):  # fmt: skip
        about = "A second form of a key: RFC 7748 reads it, and the request's bytes are others."
        book.refused(f"keys/{name}", "seal-key", "G.4", about, "AttestationError", "canonical form", key=key)
    log = NoteVerifier(messages.ORIGIN, public("log"))
    witness = NoteVerifier("witness.example", public("witness"), COSIGNATURE)
    for name, verifier in (("log", log), ("witness", witness)):
        about = f"The text form of the key of a {name}, and its key id."
        book.valid(f"keys/{name}", "log-key", "G.6", about, vkey=verifier.vkey())
    vkey = log.vkey()
    name, identifier, material = vkey.split("+", 2)
    two = bytes([2]) + log.public_key
    one = bytes([1]) + _little(1)
    unknown = f"{name}+{key_id(name, 2, log.public_key).hex()}+{encode_base64(two)}"
    small = f"{name}+{key_id(name, 1, _little(1)).hex()}+{encode_base64(one)}"
    for kind, text, changed in (
        ("another-id", "is not this key's", f"{name}+00000000+{material}"),
        ("unknown-type", "neither 0x01", unknown),
        ("small-order", "small order", small),
        ("truncated", "not base64", vkey[:-1]),
        ("name-with-a-space", "without spaces", vkey.replace("example", "exa mple")),
    ):
        book.refused(f"keys/log-{kind}", "log-key", "G.6", "No log key.", "EncodingError", text, vkey=changed)
    assert identifier == log.key_id.hex()


def _signatures(book: Book) -> None:
    key, body = public("alice"), b"the body"
    made = signature.sign(signing("alice"), "test", body)
    base: dict[str, Any] = {"public_key": key, "purpose": "test", "body": body, "signature": made}
    book.valid("signatures/valid", "signature", "G.4", 'Ed25519 over H("sign/test", body).', **base)
    s = int.from_bytes(made[32:], "little")
    identity = _little(1) + bytes(32)  # R of order 1 and S = 0 verify for every body under a key of order 1
    bare = Ed25519PrivateKey.from_private_bytes(digest("key alice")).sign(body)
    for name, about, changes in (
        ("flipped-r", "One bit of R differs.", {"signature": flipped(made, 0)}),
        ("flipped-s", "One bit of S differs.", {"signature": flipped(made, 40)}),
        (
            "s-not-reduced",
            "S plus the group's order: a second signature.",
            {"signature": made[:32] + _little(s + edwards.ORDER)},
        ),
        ("another-body", "The body has another byte.", {"body": b"the bodY"}),
        ("another-purpose", "A signature of one purpose is none for another.", {"purpose": "tesu"}),
        ("another-key", "Another account's key.", {"public_key": public("bob")}),
        ("without-purpose", "The body itself is signed.", {"signature": bare}),
        ("truncated", "63 bytes.", {"signature": made[:-1]}),
        ("one-byte-more", "65 bytes.", {"signature": made + b"\0"}),
    ):
        values = {**base, **changes}
        book.refused(f"signatures/{name}", "signature", "G.4", about, "AttestationError", "does not hold", **values)
    _small_components(book, base)
    book.refused(
        "signatures/small-order-key", "signature", "G.4", "A key of order 1, under which R = 1, S = 0 fits every body.",
        "AttestationError", "small order", **{**base, "public_key": _little(1), "signature": identity},
    )  # fmt: skip


def _small_components(book: Book, base: dict[str, Any]) -> None:
    """Verifiers that multiply by the cofactor take all of these; others refuse some."""
    message = tagged_hash("sign/test", base["body"])
    for name, about, holds, parts in (
        ("small-order-part-of-r", "R has a part of order 8: multiplied by the cofactor it would hold.", False, (0, 1)),
        ("small-order-part-of-key", "The key has a part of order 8, the challenge is odd.", False, (1, 0, 1)),
        ("small-order-part-vanishes", "The key has a part of order 8, the challenge is its multiple.", True, (1, 0, 0)),
        ("small-order-parts-agree", "Key and R have parts of order 8 that make up for each other.", True, (1, None, 1)),
    ):
        key, made = edwards.signed(message, *parts)
        values = {**base, "public_key": key, "signature": made}
        if holds:
            book.valid(f"signatures/{name}", "signature", "G.4.2", about, **values)
        else:
            book.refused(
                f"signatures/{name}", "signature", "G.4.2", about, "AttestationError", "does not hold", **values
            )


def _signed_messages(book: Book) -> None:
    """What is signed of a message that carries its signature."""
    signers = {
        "signed-manifest": "provider", "signed-request": "alice", "beacon-commit": "auditor",
        "beacon-seal": "window", "receipt": "window", "delivery": "window", "refusal": "window",
        "signed-links": "window",
    }  # fmt: skip
    asked = {"delivery": messages.BY_TAG["registry-ask"], "refusal": messages.BY_TAG["links-ask"]}
    for tag, name in signers.items():
        made: Any = messages.BY_TAG[tag]
        more = {"ask_tag": asked[tag].TAG, "ask": asked[tag].encode()} if tag in asked else {}
        base = {"tag": tag, "public_key": public(name), **more}
        about = f"A {tag}, and the purpose and body of its signature."
        book.valid(f"signed-messages/{tag}", "signed-message", "G.4", about, bytes=made.encode(), **base)
        spoiled = replace(made, signature=flipped(made.signature, 33))
        book.refused(
            f"signed-messages/{tag}-flipped", "signed-message", "G.4", "One bit of its signature differs.",
            "AttestationError", "does not hold", bytes=spoiled.encode(), **base,
        )  # fmt: skip
    other = messages.BY_TAG["links-ask"].encode()
    book.refused(
        "signed-messages/delivery-of-another-ask", "signed-message", "G.8", "A delivery shown for another ask.",
        "AttestationError", "another ask", tag="delivery", public_key=public("window"),
        bytes=messages.BY_TAG["delivery"].encode(), ask_tag="links-ask", ask=other,
    )  # fmt: skip
    for made in messages.asks():
        proof = signature.sign(signing("auditor"), "ask", made.encode())
        base = {"tag": made.TAG, "bytes": made.encode(), "public_key": public("auditor"), "signature": proof}
        now = messages.OPENS + 7200
        book.valid(f"asks/{made.TAG}", "ask", "G.8", "An auditor's ask.", **base, now=now + 600)
        book.refused(
            f"asks/{made.TAG}-old", "ask", "G.8", "It is 601 s old.", "AttestationError", "601 s away", **base,
            now=now + 601,
        )  # fmt: skip
        forged = {**base, "signature": flipped(proof, 5)}
        text = "the ask signature does not hold"
        book.refused(
            f"asks/{made.TAG}-forged", "ask", "G.8", "Its signature has another bit.", "AttestationError", text,
            **forged, now=now,
        )  # fmt: skip
    signed = messages.SIGNED_REQUEST
    proof = signature.sign(signing("alice"), "retrieve", signed.encode())
    base = {"signed_request": signed.encode(), "public_key": public("alice")}
    book.valid("retrieval/valid", "retrieval", "B.4", "The second signature, with which an answer is fetched.",
               **base, signature=proof)  # fmt: skip
    book.refused(
        "retrieval/the-request-again", "retrieval", "B.4", "The signature that stands in the public ledger.",
        "AttestationError", "retrieve signature does not hold", **base, signature=signed.signature,
    )  # fmt: skip


def _points(book: Book) -> None:
    many = points("many", 5)
    book.valid("points/valid", "points", "G.3", "Points on the curve.", points=many)
    x, y = many[:32], many[32:64]
    high = (int.from_bytes(x, "big") + P).to_bytes(32, "big")
    for name, text, changed in (
        ("off-the-curve", "not on the curve", flipped(many, 63)),
        ("x-not-below-p", "not canonical", high + y),
        ("identity", "identity", many[:64] + IDENTITY),
        ("truncated", "truncated", many[:-1]),
    ):
        book.refused(f"points/{name}", "points", "G.3", "No points.", "ProofError", text, points=changed)
    values = packed("factors", 4) + (R - 3).to_bytes(32, "big")
    book.valid("msm/five", "msm", "G.3", "A sum of multiples.", points=many, scalars=values)
    zero = many[:64] * 2
    minus = (R - 1).to_bytes(32, "big")
    book.valid("msm/identity", "msm", "G.3", "P - P: 64 zero bytes.", points=zero, scalars=bytes(31) + b"\1" + minus)
    with_identity = many[:64] + IDENTITY
    book.valid("msm/with-identity", "msm", "G.3", "The identity as a summand.", points=with_identity,
               scalars=packed("two", 2))  # fmt: skip
    book.refused(
        "msm/off-the-curve", "msm", "G.3", "A point that is none.", "ProofError", "not on the curve",
        points=flipped(many, 63), scalars=values,
    )  # fmt: skip
    book.refused(
        "msm/one-scalar-less", "msm", "G.3", "Five points, four scalars.", "ProofError", "points", points=many,
        scalars=values[:-32],
    )  # fmt: skip
    for name, domain, count in (
        ("embedding", GENERATOR_DOMAIN.decode(), 6), ("another-domain", "another domain", 3),
    ):  # fmt: skip
        about = "Try and increment over SHA-512(domain || u32 index || u32 attempt)."
        book.valid(f"generators/{name}", "generators", "B.1", about, domain=domain, count=count)
    book.wrong(
        "generators/other-root", "generators", "B.1", "The other root y of one x.",
        {"points": x + (P - int.from_bytes(y, "big")).to_bytes(32, "big")},
        domain="ragseal vectors many 0", count=1,
    )  # fmt: skip
    for count in (1, 2, 5):
        about = f"u left + right of {count} points, the left half being the longer one."
        book.valid(f"fold-points/{count}", "fold-points", "B.7", about, points=many[: 64 * count], u=scalar("u"))


def _poseidon(book: Book) -> None:
    book.valid("poseidon/circomlib", "poseidon", "Parameters", "circomlib's own vector: Poseidon(1, 2).",
               inputs=(1).to_bytes(32, "big") + (2).to_bytes(32, "big"))  # fmt: skip
    for count in (1, 3, 5, 16):
        about = f"Poseidon of {count} elements."
        book.valid(f"poseidon/{count}-inputs", "poseidon", "Parameters", about, inputs=packed("inputs", count))
    for width in range(2, 18):
        about = f"The permutation of width {width} of 0, 1, 2, ..."
        state = b"".join(i.to_bytes(32, "big") for i in range(width))
        book.valid(f"poseidon/width-{width}", "poseidon-permutation", "Parameters", about, state=state)
    book.refused(
        "poseidon/input-of-r", "poseidon", "G.3", "r itself, which would hash as 0.", "EncodingError", ">= r",
        inputs=R.to_bytes(32, "big"),
    )  # fmt: skip
    book.refused(
        "poseidon/truncated", "poseidon", "G.3", "63 bytes are no elements.", "EncodingError", "truncated",
        inputs=packed("inputs", 2)[:-1],
    )  # fmt: skip


def _relations(count: int) -> tuple[list[dict[str, Any]], bytes, int]:
    """Relations that one witness fits, the witness folded with chi, and its size."""
    size = 20
    slots = [[[0, size]], [[0, 5], [7, size]]][:count]
    vectors = [scalars(f"witness {k}", size) for k in range(2)]
    relations = []
    for k, ranges in enumerate(slots):
        taken = [i for start, stop in ranges for i in range(start, stop)]
        bases = points(f"bases {k}", len(taken))
        made = [GROUP.msm(bases, b"".join(v[i].to_bytes(32, "big") for i in taken)) for v in vectors]
        relations.append({"bases": bases, "slots": ranges, "commitments": made})
    return relations, b"".join(x.to_bytes(32, "big") for v in vectors for x in v), size


def _openings(book: Book) -> None:
    from ragseal.kernel.opening import batching_challenge

    for count, name in ((1, "one-relation"), (2, "two-relations")):
        relations, rows, size = _relations(count)
        context = digest("context")
        chi = batching_challenge("test", context)
        split = [int.from_bytes(rows[at : at + 32], "big") for at in range(0, len(rows), 32)]
        witness = b"".join(
            ((a + chi * b) % R).to_bytes(32, "big") for a, b in zip(split[:size], split[size:], strict=True)
        )
        base: dict[str, Any] = {"use": "test", "context": context, "relations": relations}
        made = book.valid(
            f"openings/{name}-made", "prove-opening", "B.7",
            f"Two commitments of {size} entries a relation, {count} of them; the witness is the sum of both with chi.",
            **base, witness=witness, nonces=packed("nonces", size),
        )  # fmt: skip
        proof = Opening.decode(bytes.fromhex(made["opening"]))
        base["size"] = size
        book.valid(f"openings/{name}", "opening", "B.7", "The same, checked.", **base, opening=proof.encode())
        _spoiled_openings(book, name, base, proof)


def _spoiled_openings(book: Book, name: str, base: dict[str, Any], proof: Opening) -> None:
    announced, folds, responses = proof.announcements, proof.folds, proof.responses
    more, width = (*responses[:-1], (responses[-1] + 1) % R), 2 * len(announced)
    for kind, text, about, changed in (
        ("another-response", "does not hold", "One response is one more.", replace(proof, responses=more)),
        ("one-response-less", "responses expected", "One is missing.", replace(proof, responses=responses[:-1])),
        ("one-response-more", "responses expected", "One too many.", replace(proof, responses=(*responses, 0))),
        ("a-round-less", "rounds of folding", "A round is missing.", replace(proof, folds=folds[:-width])),
        ("points-swapped", "does not hold", "L and R change places.", replace(proof, folds=folds[::-1])),
        ("identity", "identity", "An announcement is the identity.",
         replace(proof, announcements=(IDENTITY, *announced[1:]))),
        ("off-the-curve", "not on the curve", "A point is none.",
         replace(proof, folds=(flipped(folds[0], 63), *folds[1:]))),
        ("no-announcement", "announcements expected", "None.", replace(proof, announcements=())),
    ):  # fmt: skip
        values = {**base, "opening": changed.encode()}
        book.refused(f"openings/{name}-{kind}", "opening", "B.7", about, "ProofError", text, **values)
    relations = base["relations"]
    swapped = [{**one, "commitments": one["commitments"][::-1]} for one in relations]
    alien = [{**one, "bases": point("alien") + one["bases"][64:]} for one in relations]
    for kind, about, changes in (
        ("another-context", "The context has another bit.", {"context": flipped(base["context"], 0)}),
        ("another-use", "Made for another use.", {"use": "tesu"}),
        ("commitments-swapped", "Commitments in another order.", {"relations": swapped}),
        ("other-bases", "Another base.", {"relations": alien}),
    ):
        values = {**base, **changes, "opening": proof.encode()}
        book.refused(f"openings/{name}-{kind}", "opening", "B.7", about, "ProofError", "does not hold", **values)


def _folding(book: Book) -> None:
    for size, relations in ((9, 1), (20, 1), (37, 2)):
        bases = [points(f"folded {k}", size) for k in range(relations)]
        base: dict[str, Any] = {"use": "test", "transcript": digest("transcript")}
        made = book.valid(
            f"folding/{size}-entries-{relations}", "fold", "B.7", "L and R of every round, and what is sent of z.",
            **base, bases=bases, z=packed("z", size),
        )  # fmt: skip
        sent, final = [bytes.fromhex(p) for p in made["points"]], bytes.fromhex(made["final"])
        base |= {"size": size, "relations": relations, "points": sent, "final": final}
        about = "Coefficients of the bases, and weights of Q, L and R."
        book.valid(f"folding/{size}-entries-{relations}-checked", "unfold", "B.7", about, **base)
    for name, text, changes in (
        ("a-point-less", "rounds of folding", {"points": sent[:-1]}),
        ("a-round-more", "rounds of folding", {"points": [*sent, *sent[:4]]}),
        ("a-response-less", "responses expected", {"final": final[:-32]}),
        ("another-size", "rounds of folding", {"size": 16}),
    ):
        about = "Another shape than the size demands."
        book.refused(f"folding/{name}", "unfold", "B.7", about, "ProofError", text, **{**base, **changes})
    assert folding.lengths(37, 2) == [37, 19, 10]


def _squared_norm(book: Book) -> None:
    d = 3
    p, u, w = scalars("p", d), scalar("blinder u"), scalar("blinder w")
    generators, s, b = points("H", d + 1), point("S"), point("B")
    whole = b"".join(x.to_bytes(32, "big") for x in (*p, u))
    square = sum(x * x for x in p) % R
    vector = GROUP.msm(generators, whole)
    base: dict[str, Any] = {
        "context": digest("context"), "generators": generators, "s": s, "b": b, "vector": vector,
        "square": GROUP.msm(s + b, square.to_bytes(32, "big") + w.to_bytes(32, "big")),
    }  # fmt: skip
    about = "C commits to the squared norm of what P commits to."
    made = book.valid(
        "squared-norm/made", "prove-squared-norm", "C.5", about, **base, witness=whole, blinder=w,
        nonces=packed("norm nonces", d + 3),
    )  # fmt: skip
    proof = SquaredNorm.decode(bytes.fromhex(made["proof"]))
    book.valid("squared-norm/valid", "squared-norm", "C.5", "The same, checked.", **base, proof=proof.encode())
    other = GROUP.msm(s + b, ((square + 1) % R).to_bytes(32, "big") + w.to_bytes(32, "big"))
    for name, text, changes in (
        ("another-square", "vector is not what", {"square": other}),
        ("another-vector", "vector is not what", {"vector": point("other vector")}),
        ("another-context", "vector is not what", {"context": digest("other context")}),
        ("vector-at-infinity", "identity", {"vector": IDENTITY}),
    ):
        values = {**base, **changes, "proof": proof.encode()}
        book.refused(f"squared-norm/{name}", "squared-norm", "C.5", "It does not hold.", "ProofError", text, **values)
    for name, text, fields in (
        ("another-closing", "committed scalar", {"closing": (proof.closing + 1) % R}),
        ("a-response-less", "responses expected", {"responses": proof.responses[:-32]}),
        ("linear-off-the-curve", "not on the curve", {"linear": flipped(proof.linear, 63)}),
        ("cross-terms-swapped", "vector is not what", {"linear": proof.constant, "constant": proof.linear}),
    ):
        values = {**base, "proof": replace(proof, **fields).encode()}
        book.refused(f"squared-norm/{name}", "squared-norm", "C.5", "It does not hold.", "ProofError", text, **values)


def _groth16(book: Book) -> None:
    maker = Trapdoor("small key", 4)
    about = "alpha_1, beta_2, gamma_2, delta_2, the number of IC points, IC; its digest is the key's name."
    book.valid("verifying-keys/valid", "verifying-key", "A.9", about, bytes=maker.key)
    key, head = maker.key, 64 + 3 * 128
    off = key[:64] + _off_subgroup() + key[192:]
    same = key[:320] + key[192:320] + key[448:]
    for name, text, changed in (
        ("truncated", "announced", key[:-1]),
        ("one-point-less", "announced", key[:-64]),
        ("one-point-more", "announced", key + maker.ic[:64]),
        ("ic-off-the-curve", "not on the curve", flipped(key, -1)),
        ("ic-identity", "identity", key[:-64] + IDENTITY),
        ("beta-outside-the-subgroup", "subgroup", off),
        ("delta-is-gamma", "gamma equals delta", same),
        ("no-input", "IC points", key[:head] + (1).to_bytes(4, "big") + maker.ic[:64]),
    ):
        book.refused(f"verifying-keys/{name}", "verifying-key", "A.9", "No key.", "ProofError", text, bytes=changed)
    commitment = GROUP.msm(maker.bases(2, 2), packed("hidden", 2))
    clear = scalars("clear", 2)
    values = b"".join(x.to_bytes(32, "big") for x in clear)
    proof = maker.prove(clear, commitment)
    base: dict[str, Any] = {"key": key, "clear": values, "commitments": commitment, "proof": proof}
    book.valid("groth16/valid", "groth16", "B.5", "Two clear inputs, and two that a commitment stands for.", **base)
    for name, text, changes in (
        ("another-input", "does not verify", {"clear": values[32:] + values[:32]}),
        ("another-commitment", "does not verify", {"commitments": maker.ic[:64]}),
        ("commitment-at-infinity", "identity", {"commitments": IDENTITY}),
        ("no-commitment", "no commitment", {"commitments": b""}),
        ("input-of-r", ">= r", {"clear": R.to_bytes(32, "big") + values[32:]}),
        ("truncated", "256 bytes", {"proof": proof[:-1]}),
        ("a-off-the-curve", "proof element A", {"proof": flipped(proof, 63)}),
        ("b-outside-the-subgroup", "proof element B", {"proof": proof[:64] + _off_subgroup() + proof[192:]}),
        ("b-parts-swapped", "proof element B", {"proof": proof[:64] + _swapped(proof[64:192]) + proof[192:]}),
        ("c-identity", "proof element C", {"proof": proof[:192] + IDENTITY}),
        ("another-b", "does not verify", {"proof": proof[:64] + g2(5) + proof[192:]}),
    ):
        book.refused(
            f"groth16/{name}", "groth16", "B.5", "It does not hold.", "ProofError", text, **{**base, **changes}
        )


def _swapped(data: bytes) -> bytes:
    """A G2 point with its real parts first."""
    return b"".join(data[at : at + 32] for at in (32, 0, 96, 64))


def _off_subgroup() -> bytes:
    """A point of the twist outside the prime-order subgroup: the first x = k with a root, for k = 1, 2, ..."""
    from py_ecc import optimized_bn128 as ecc

    for k in range(1, 100):
        x = ecc.FQ2([k, 0])
        root = (x * x * x + ecc.b2) ** ((P * P + 15) // 32)  # a square root up to an eighth root of unity
        for unit in range(16):
            y = root * ecc.FQ2([9, 1]) ** (unit * (P * P - 1) // 16)
            if y * y == x * x * x + ecc.b2:
                made = (x, y, ecc.FQ2.one())
                if not ecc.is_inf(ecc.multiply(made, R)):
                    return b"".join(int(c).to_bytes(32, "big") for c in (*x.coeffs[::-1], *y.coeffs[::-1]))
    raise AssertionError("no such point")
