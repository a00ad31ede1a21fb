# SPDX-License-Identifier: GPL-3.0-or-later
"""A record over an index of three shards: messages, its proofs, challenges, thresholds, and sums over shards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ragseal.kernel.bn254 import IDENTITY
from ragseal.kernel.opening import Opening, batching_challenge
from ragseal.kernel.params import R
from ragseal.kernel.proofs import ProofEntry
from vectors.source.book import Book
from vectors.source.mechanism import class_of
from vectors.source.messages import BY_TAG, OPENING, POLICY, RECORD, TENANTS, WINDOW_DIGEST
from vectors.source.reading import GROUP
from vectors.source.values import digest, flipped, packed, point, points, public, scalar, scalars, stream

S = 3
CLASS, LOTTERY = "noise-tiny-two", "lottery-tiny"
OVER = replace(RECORD, c_y=points("C_y of shard", S))
ENTRY = ProofEntry(
    0, OVER.digest(), points("C_h and C_1 of shards", 2 * S), stream("proofs of shards", 256 * S), (point("C_v"),)
)
BATCH = replace(BY_TAG["proof-batch"], entries=(ENTRY,), thresholds=(OPENING,))  # type: ignore[type-var]


def add(book: Book) -> None:
    _messages(book)
    _records(book)
    _equations(book)
    _challenges(book)
    _thresholds(book)
    _sums(book)


def _messages(book: Book) -> None:
    for made in (replace(POLICY, class_name=CLASS, shards=S), OVER, ENTRY, BATCH):
        tag = made.TAG
        about = f"A {tag} of an index of {S} shards."
        book.valid(f"messages/{tag}/of-shards", "message", "G.1", about, tag=tag, bytes=made.encode())
    wrong: Callable[..., None] = book.refused
    for name, error, text, about, changed in (
        ("no-proof", "ProofError", "256 bytes each", "it has no proof", replace(ENTRY, proof=b"")),
        ("half-a-proof", "ProofError", "256 bytes each", "its last proof is cut", replace(ENTRY, proof=bytes(640))),
    ):
        data = changed.encode()
        wrong(f"messages/proof-entry/{name}", "message", "B.8", f"A proof-entry: {about}.", error, text,
              tag="proof-entry", bytes=data)  # fmt: skip
    two = ENTRY.encode()[:-68] + b"\0\0\0\2" + 2 * point("C_v")
    wrong("messages/proof-entry/two-thresholds", "message", "G.1", "A proof-entry: two commitments to a threshold.",
          "EncodingError", "oversized", tag="proof-entry", bytes=two)  # fmt: skip
    own = OPENING.encode()
    two = BATCH.encode()[: -len(own) - 4] + b"\0\0\0\2" + 2 * own
    wrong("messages/proof-batch/two-openings-of-thresholds", "message", "G.1", "A proof-batch: two openings of "
          "thresholds.", "EncodingError", "oversized", tag="proof-batch", bytes=two)  # fmt: skip


def _records(book: Book) -> None:
    base: dict[str, Any] = {"record": OVER.encode(), "public_key": public("alice")}
    found = book.valid("records/of-shards", "record", "B.3", f"C_y of each of {S} shards.", **base)
    for name, text, c_y in (
        ("a-shards-c-y-off-the-curve", "not on the curve", flipped(OVER.c_y, -1)),
        ("a-shards-c-y-at-infinity", "identity", OVER.c_y[:128] + IDENTITY),
    ):
        changed = {**base, "record": replace(OVER, c_y=c_y).encode()}
        book.refused(f"records/{name}", "record", "B.3", "No record.", "ProofError", text, **changed)
    turned = replace(OVER, c_y=OVER.c_y[64:128] + OVER.c_y[:64] + OVER.c_y[128:]).encode()
    book.wrong("records/digest-of-shards-in-another-order", "record", "B.3", "A digest that forgets the shards' order.",
               {"record_digest": found["record_digest"]}, **{**base, "record": turned})  # fmt: skip


def _equations(book: Book) -> None:
    base: dict[str, Any] = {
        "class": class_of(CLASS), "key_digest": digest("verifying key"), "record": OVER.encode(),
        "clear": [1, 2, 3, 4, R - 5], "c_w": points("C_w of shard", S), "entry": ENTRY.encode(),
    }  # fmt: skip
    about = "Each proof with its clear inputs: the common five, the shard, how many there are, alpha, beta."
    book.valid("shards/equations", "proof-equations", "B.5", about, **base)
    one = ProofEntry(0, RECORD.digest(), point("C_h") + point("C_1"), stream("proof", 256))
    with_threshold = replace(one, c_v=(point("C_v"),)).encode()
    single = {**base, "record": RECORD.encode(), "c_w": point("C_w"), "entry": with_threshold}
    book.valid("shards/equations-of-one-shard", "proof-equations", "B.5", "One shard has a C_v as well.", **single)
    book.refused("shards/no-threshold-of-one-shard", "proof-equations", "B.5", "No C_v.", "ProofError",
                 "2 and 0 commitments", **{**single, "entry": one.encode()})  # fmt: skip
    prized = {**single, "class": class_of(LOTTERY), "entry": one.encode()}
    book.valid("shards/equations-of-the-lottery", "proof-equations", "B.5", "A class without C_v.", **prized)
    for name, about, text, changes in (
        ("a-proof-left-out", "Two proofs for three shards.", "has 2 proofs",
         {"entry": replace(ENTRY, proof=ENTRY.proof[256:]).encode()}),
        ("a-proof-too-many", "Four proofs for three shards.", "has 4 proofs",
         {"entry": replace(ENTRY, proof=ENTRY.proof + ENTRY.proof[:256]).encode()}),
        ("a-shards-hints-left-out", "Commitments to the hints of two shards.", "4 and 1 commitments",
         {"entry": replace(ENTRY, c_h=ENTRY.c_h[128:]).encode()}),
        ("no-threshold", "No C_v.", "6 and 0 commitments", {"entry": replace(ENTRY, c_v=()).encode()}),
        ("more-shards-than-the-class", "The class is for two shards.", "has 1 to 2",
         {"class": {**base["class"], "S": 2}}),
    ):  # fmt: skip
        book.refused(f"shards/{name}", "proof-equations", "B.5", about, "ProofError", text, **{**base, **changes})
    book.refused("shards/threshold-of-the-lottery", "proof-equations", "B.5", "C_v of a class that has none.",
                 "ProofError", "2 and 1 commitments", **{**prized, "entry": with_threshold})  # fmt: skip


def _challenges(book: Book) -> None:
    base: dict[str, Any] = {
        "key_digest": digest("verifying key"), "record_digest": OVER.digest(), "clear": [1, 2, 3, 4, R - 5, 1, S],
        "c_w": points("C_w of shard", S)[64:128], "c_h": ENTRY.c_h[128:256] + point("C_v"),
    }  # fmt: skip
    found = book.valid("challenges/alpha-beta-of-a-shard", "alpha-beta", "B.5",
                       "Of a shard: its number, how many there are, and C_v behind C_h and C_1.", **base)  # fmt: skip
    for name, changes in (
        ("the-shard", {"clear": [1, 2, 3, 4, R - 5, 2, S]}),
        ("how-many-shards", {"clear": [1, 2, 3, 4, R - 5, 1, S + 1]}),
        ("c-v", {"c_h": ENTRY.c_h[128:256] + point("other")}),
    ):
        book.wrong(f"challenges/alpha-beta-of-a-shard-without-{name}", "alpha-beta", "B.5",
                   f"Challenges that forget {name}.", found, **{**base, **changes})  # fmt: skip
    item = {
        "record": OVER.encode(), "clear": [1, 2, 3, 4, R - 5], "c_w": points("C_w of shard", S), "c_h": ENTRY.c_h,
        "c_v": [point("C_v")], "proof": ENTRY.proof,
    }  # fmt: skip
    base = {"key_digest": digest("verifying key"), "manifest": WINDOW_DIGEST, "items": [item], "tenant": "acme",
            "index_digest": TENANTS[0].digest()}  # fmt: skip
    about = "Of records over shards: the common clear inputs, and of each commitment all shards' behind one another."
    found = book.valid("challenges/batch-of-shards", "batch-chi", "B.7", about, **base)
    chi = {"chi": found["chi"], "thresholds_chi": found["thresholds_chi"], "psi": found["psi"]}
    other = replace(OVER, c_y=OVER.c_y[:128] + point("other"))
    for name, changed in (
        ("c-v", {**item, "c_v": [point("other")]}),
        ("the-last-shards-c-y", {**item, "record": other.encode()}),
        ("the-last-shards-proof", {**item, "proof": flipped(ENTRY.proof, -1)}),
    ):
        book.wrong(f"challenges/batch-of-shards-without-{name}", "batch-chi", "B.7", f"chi forgets {name}.", chi,
                   **{**base, "items": [changed]})  # fmt: skip


def _thresholds(book: Book) -> None:
    """C_v of two records over V*, I* and B."""
    bases, context = points("V*, I* and B", 3), digest("batch of shards")
    witnesses = [packed(f"threshold {at}", 3) for at in range(2)]
    committed = [GROUP.msm(bases, one) for one in witnesses]
    chi = batching_challenge("thresholds", context)
    rows = [scalars(f"threshold {at}", 3) for at in range(2)]
    both = b"".join(((a + chi * b) % R).to_bytes(32, "big") for a, b in zip(*rows, strict=True))
    relations = [{"bases": bases, "slots": [[0, 3]], "commitments": committed}]
    base: dict[str, Any] = {"use": "thresholds", "context": context, "relations": relations}
    made = book.valid("shards/thresholds-made", "prove-opening", "B.7", "C_v of two records, opened together.", **base,
                      witness=both, nonces=packed("nonces", 3))  # fmt: skip
    base = {**base, "size": 3, "opening": bytes.fromhex(made["opening"])}
    book.valid("shards/thresholds", "opening", "B.7", "The same, checked.", **base)
    hint = GROUP.msm(committed[1] + point("a base of hints"), (1).to_bytes(32, "big") * 2)
    proof = Opening.decode(base["opening"])
    other = replace(proof, responses=((proof.responses[0] + 1) % R, *proof.responses[1:]))
    for name, about, changes in (
        ("hint-in-a-threshold", "One C_v has a component along another base.",
         {"relations": [{**relations[0], "commitments": [committed[0], hint]}]}),
        ("another-threshold", "v* of one record is one more.", {"opening": other.encode()}),
        ("thresholds-of-another-batch", "Made for another batch.", {"context": flipped(context, 0)}),
    ):  # fmt: skip
        book.refused(f"shards/{name}", "opening", "B.7", about, "ProofError", "does not hold", **{**base, **changes})


def _sums(book: Book) -> None:
    base: dict[str, Any] = {"points": points("column of a shard", 2 * S), "shards": S, "psi": scalar("psi")}
    about = "P_s + psi P_(s+1) + psi^2 P_(s+2), point by point: columns and C_y of a link."
    found = book.valid("shards/added-up", "added-up", "B.7", about, **base)
    turned = base["points"][128:] + base["points"][:128]
    book.wrong("shards/added-up-in-another-order", "added-up", "B.7", "Shards change places.", found,
               **{**base, "points": turned})  # fmt: skip
