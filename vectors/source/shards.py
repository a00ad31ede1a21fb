# SPDX-License-Identifier: GPL-3.0-or-later
"""A record over an index of three shards: messages, its proofs, challenges, thresholds, lists, and sums over shards."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import chain
from typing import Any

from ragseal.kernel import field
from ragseal.kernel.bn254 import IDENTITY
from ragseal.kernel.classes import attestation_class
from ragseal.kernel.opening import Opening, Relation, batching_challenge, powers
from ragseal.kernel.params import R
from ragseal.kernel.proofs import ProofBatch, ProofEntry
from ragseal.kernel.statements import stated_of
from vectors.source.book import Book
from vectors.source.mechanism import class_of
from vectors.source.messages import BY_TAG, OPENING, POLICY, RECORD, TENANTS, WINDOW_DIGEST
from vectors.source.reading import GROUP
from vectors.source.values import digest, flipped, packed, point, points, public, scalar, scalars, stream

S = 3
CLASS, DECOYS = "noise-tiny-two", "decoys-tiny"
OVER = replace(RECORD, c_y=points("C_y of shard", S))
ENTRY = ProofEntry(
    0, OVER.digest(), points("C_h and C_1 of shards", 2 * S), stream("proofs of shards", 256 * S), point("C_v")
)
BATCH = replace(BY_TAG["proof-batch"], entries=(ENTRY,))  # type: ignore[type-var]
#: The same record of decoys: a list a shard, seven commitments each, five openings.
LISTED = replace(OVER, t_commits=tuple(scalar(f"t_commit of shard {shard}") for shard in range(S)))
LISTED_ENTRY = replace(ENTRY, record_digest=LISTED.digest(), committed=points("commitments of shards", 7 * S))
LISTED_BATCH = replace(BATCH, entries=(LISTED_ENTRY,), openings=(OPENING,) * 5)  # type: ignore[type-var]
#: So small that openings of all its commitments fit a file.
TOY = {"name": "toy", "law": "decoys", "N": 4, "draws": 2, "room": 2, "c": 2, "chunks": 2, "S": 2}


def add(book: Book) -> None:
    _messages(book)
    _records(book)
    _commitments(book)
    _equations(book)
    _challenges(book)
    _thresholds(book)
    _lists(book)
    _sums(book)


def _messages(book: Book) -> None:
    for made in (replace(POLICY, class_name=CLASS, shards=S), OVER, ENTRY, BATCH):
        tag = made.TAG
        about = f"A {tag} of an index of {S} shards."
        book.valid(f"messages/{tag}/of-shards", "message", "G.1", about, tag=tag, bytes=made.encode())
    of_decoys = replace(POLICY, class_name=DECOYS, shards=S, ids=40, decoy_rate=3 << 14, hi=POLICY.lo + 1)
    for made in (of_decoys, LISTED, LISTED_ENTRY, LISTED_BATCH):
        tag = made.TAG
        about = f"A {tag} of an index of {S} shards, of decoys."
        book.valid(f"messages/{tag}/of-decoys", "message", "G.1", about, tag=tag, bytes=made.encode())
    wrong: Callable[..., None] = book.refused
    for name, error, text, about, changed in (
        ("no-proof", "ProofError", "256 bytes each", "it has no proof", replace(ENTRY, proof=b"")),
        ("half-a-proof", "ProofError", "256 bytes each", "its last proof is cut", replace(ENTRY, proof=bytes(640))),
    ):
        data = changed.encode()
        wrong(f"messages/proof-entry/{name}", "message", "B.8", f"A proof-entry: {about}.", error, text,
              tag="proof-entry", bytes=data)  # fmt: skip
    assert isinstance(LISTED_BATCH, ProofBatch)
    five, own = LISTED_BATCH.encode(), OPENING.encode()
    six = five[: -5 * len(own) - 4] + b"\0\0\0\6" + 6 * own
    wrong("messages/proof-batch/six-openings", "message", "G.1", "A proof-batch: more openings than any law has.",
          "EncodingError", "oversized", tag="proof-batch", bytes=six)  # fmt: skip


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


def _commitments(book: Book) -> None:
    about = (
        "What each opening of a class's batches is about: which entries of its witness every commitment takes, "
        "blinders behind them; which commitments' sums the last one opens, too; scales of C_w, commitments and C_v."
    )
    for name in (CLASS, DECOYS):
        book.valid(f"shards/commitments-of-{name}", "commitments", "B.5", about, **{"class": class_of(name), "beta": 7})
    one = {**class_of(DECOYS), "chunks": 1, "c": 16}
    book.valid("shards/commitments-of-one-chunk", "commitments", "B.5", "No C_m'', no hi.", **{"class": one, "beta": 7})
    turned = {"scales": [1, 1, 8, 1]}
    book.wrong("shards/commitments-unscaled", "commitments", "B.5", "C_1 counts beta times.", turned,
               **{"class": class_of(CLASS), "beta": 7})  # fmt: skip


def _equations(book: Book) -> None:
    base: dict[str, Any] = {
        "class": class_of(CLASS), "key_digest": digest("verifying key"), "record": OVER.encode(),
        "clear": [1, 2, 3, 4], "table": [], "c_w": points("C_w of shard", S), "entry": ENTRY.encode(),
    }  # fmt: skip
    about = (
        "Each proof with its clear inputs: C_seed, beacon, ctx, H, T's commitment, the shard, how many, alpha, beta."
    )
    book.valid("shards/equations", "proof-equations", "B.5", about, **base)
    single = {**base, "record": RECORD.encode(), "c_w": point("C_w"), "entry": BY_TAG["proof-entry"].encode()}
    book.valid("shards/equations-of-one-shard", "proof-equations", "B.5", "The same of one shard.", **single)
    decoys = {**base, "class": class_of(DECOYS), "record": LISTED.encode(), "clear": [1, 2, 3, 4800, 40],
              "table": [100 + 5 * j for j in range(21)], "entry": LISTED_ENTRY.encode()}  # fmt: skip
    about = "Of decoys: C_seed, beacon, ctx, lo, K, the shard's list, the shard, F(0) .. F(draws), alpha, beta."
    book.valid("shards/equations-of-decoys", "proof-equations", "B.5", about, **decoys)
    for name, about, text, changes in (
        ("a-proof-left-out", "Two proofs for three shards.", "has 2 proofs",
         {"entry": replace(ENTRY, proof=ENTRY.proof[256:]).encode()}),
        ("a-proof-too-many", "Four proofs for three shards.", "has 4 proofs",
         {"entry": replace(ENTRY, proof=ENTRY.proof + ENTRY.proof[:256]).encode()}),
        ("a-shards-hints-left-out", "Commitments of two shards.", "4 commitments",
         {"entry": replace(ENTRY, committed=ENTRY.committed[128:]).encode()}),
        ("more-shards-than-the-class", "The class is for two shards.", "has 1 to 2",
         {"class": {**base["class"], "S": 2}}),
        ("a-list-a-shard", "Noise has one list of all shards.", "commits to 3 lists", {"record": LISTED.encode()}),
    ):  # fmt: skip
        book.refused(f"shards/{name}", "proof-equations", "B.5", about, "ProofError", text, **{**base, **changes})
    for name, about, text, changes in (
        ("one-list-of-decoys", "A list for three shards.", "commits to 1 lists", {"record": OVER.encode()}),
        ("six-commitments-a-shard", "One is left out.", "18 commitments",
         {"entry": replace(LISTED_ENTRY, committed=LISTED_ENTRY.committed[192:]).encode()}),
    ):  # fmt: skip
        book.refused(f"shards/{name}", "proof-equations", "B.5", about, "ProofError", text, **{**decoys, **changes})


def _challenges(book: Book) -> None:
    base: dict[str, Any] = {
        "key_digest": digest("verifying key"), "record_digest": OVER.digest(), "clear": [1, 2, 3, 4, R - 5, 1, S],
        "c_w": points("C_w of shard", S)[64:128], "committed": ENTRY.committed[128:256] + point("C_v"),
    }  # fmt: skip
    found = book.valid("challenges/alpha-beta-of-a-shard", "alpha-beta", "B.5",
                       "Of a shard: its number, how many there are, and C_v behind C_h and C_1.", **base)  # fmt: skip
    for name, changes in (
        ("the-shard", {"clear": [1, 2, 3, 4, R - 5, 2, S]}),
        ("how-many-shards", {"clear": [1, 2, 3, 4, R - 5, 1, S + 1]}),
        ("c-v", {"committed": ENTRY.committed[128:256] + point("other")}),
    ):
        book.wrong(f"challenges/alpha-beta-of-a-shard-without-{name}", "alpha-beta", "B.5",
                   f"Challenges that forget {name}.", found, **{**base, **changes})  # fmt: skip
    _batch(book, "batch-of-shards", OVER, ENTRY, [1, 2, 3, 4], ["hints", "thresholds"])
    uses = ["members", "behind", "hints", "counts", "lists"]
    _batch(book, "batch-of-decoys", LISTED, LISTED_ENTRY, [1, 2, 3, 4800, 40], uses)


def _batch(book: Book, path: str, record: Any, entry: ProofEntry, clear: list[int], uses: list[str]) -> None:
    item = {
        "record": record.encode(), "clear": clear, "c_w": points("C_w of shard", S), "committed": entry.committed,
        "c_v": entry.c_v, "proof": entry.proof,
    }  # fmt: skip
    base: dict[str, Any] = {"key_digest": digest("verifying key"), "manifest": WINDOW_DIGEST, "items": [item],
                            "tenant": "acme", "uses": uses, "index_digest": TENANTS[0].digest()}  # fmt: skip
    about = (
        "Of records over shards: what the policy asks, the lists' commitments, and of each commitment all shards' "
        "behind one another; chi of every opening, in order."
    )
    found = book.valid(f"challenges/{path}", "batch-chi", "B.7", about, **base)
    chi = {"chi": found["chi"], "psi": found["psi"]}
    other = replace(record, c_y=record.c_y[:128] + point("other"))
    for name, changed in (
        ("c-v", {**item, "c_v": point("other")}),
        ("the-last-shards-c-y", {**item, "record": other.encode()}),
        ("the-last-shards-proof", {**item, "proof": flipped(entry.proof, -1)}),
    ):
        book.wrong(f"challenges/{path}-without-{name}", "batch-chi", "B.7", f"chi forgets {name}.", chi,
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


def _lists(book: Book) -> None:
    """The five openings of two records of decoys over two shards, each by one witness."""
    stated, context = stated_of(attestation_class(TOY)), digest("batch of decoys")
    key = points("toy key", stated.layout.public)
    bases = stated.bases(lambda at, count: key[64 * at : 64 * (at + count)], GROUP)
    records, shared, witnesses = list[list[tuple[bytes, ...]]](), list[bytes](), list[list[bytes]]()
    last = list[bytes]()
    for record in range(2):
        own, total, count_blinder = list[tuple[bytes, ...]](), 0, 0
        for shard in range(2):
            name = f"toy {record} {shard}"
            values = [scalars(f"{name} {use.name}", use.entries) for use in bases.own]
            blinders = [scalars(f"{name} blinders of {use.name}", len(use.over)) for use in bases.own]
            total, count_blinder = (total + values[-1][0]) % R, (count_blinder + blinders[-1][0]) % R
            own += bases.split(bases.commit(GROUP, list(map(field.pack, values)), blinders), 1)
            witnesses.append([field.pack([*a, *b]) for a, b in zip(values, blinders, strict=True)])
        said = [*scalars(f"toy {record} list", 4), total]
        rho = scalar(f"toy {record} rho")
        shared.append(bases.commit_shared(GROUP, said, rho))
        last.append(field.pack([*said, rho, count_blinder]))
        records.append(own)
    for at, (use, relations) in enumerate(bases.relations(records, shared)):
        of = [one[at] for one in witnesses] if at < len(bases.own) else last
        both = GROUP.combine(of, powers(batching_challenge(use.name, context), len(of)))
        base: dict[str, Any] = {"use": use.name, "context": context, "relations": list(map(_relation, relations))}
        nonces = packed(f"nonces of {use.name}", use.size)
        path = f"shards/{use.name}-of-decoys"
        made = book.valid(f"{path}-made", "prove-opening", "B.7", f"The opening {use.name} of two records.", **base,
                          witness=both, nonces=nonces)  # fmt: skip
        base = {**base, "size": use.size, "opening": bytes.fromhex(made["opening"])}
        book.valid(path, "opening", "B.7", "The same, checked.", **base)
        first = base["relations"][-1]
        if len(relations) > 1:  # the second commitment of one witness to other entries
            stray = GROUP.msm(first["commitments"][0][:64] + first["bases"][:64], field.pack([1, 1]))
            about = "The last commitment of the first record holds other entries than the others."
        else:
            stray = GROUP.msm(first["commitments"][0] + point("a base of slots"), field.pack([1, 1]))
            about = "A commitment has a component along another base."
        whole = [stray + first["commitments"][0][64:], *first["commitments"][1:]]
        changed = [*base["relations"][:-1], {**first, "commitments": whole}]
        book.refused(f"{path}-of-other-entries", "opening", "B.7", about, "ProofError", "does not hold",
                     **{**base, "relations": changed})  # fmt: skip
    assert list(chain.from_iterable(records))


def _relation(one: Relation) -> dict[str, Any]:
    made = {"bases": one.bases, "slots": [list(part) for part in one.slots], "commitments": list(one.commitments)}
    return {**made, "parts": list(one.parts)} if one.parts != (1,) else made


def _sums(book: Book) -> None:
    base: dict[str, Any] = {"points": points("column of a shard", 2 * S), "shards": S, "psi": scalar("psi")}
    about = "P_s + psi P_(s+1) + psi^2 P_(s+2), point by point: columns and C_y of a link."
    found = book.valid("shards/added-up", "added-up", "B.7", about, **base)
    turned = base["points"][128:] + base["points"][:128]
    book.wrong("shards/added-up-in-another-order", "added-up", "B.7", "Shards change places.", found,
               **{**base, "points": turned})  # fmt: skip
