# SPDX-License-Identifier: GPL-3.0-or-later
"""What the phases compute from messages: beacon, registry, commitments, challenges, seals, receipts, blocks."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from ragseal.kernel import attestation, signature
from ragseal.kernel.bn254 import IDENTITY
from ragseal.kernel.certificate import BlockBatch
from ragseal.kernel.commitment import IndexFile
from ragseal.kernel.link_list import TenantLinks
from ragseal.kernel.params import R
from ragseal.kernel.sealing import public_of
from ragseal.kernel.slot_text import NO_METADATA, Metadata, MetadataPair
from ragseal.ledger.note import NoteSigner
from tests.simulator import CLS, DIMENSION, key_of
from vectors.source import messages
from vectors.source.book import Book
from vectors.source.mechanism import class_of
from vectors.source.messages import BLOCK, POLICY, RECORD, REQUEST, SEAL_PRIVATE, WINDOW_DIGEST
from vectors.source.scene import SIZE, Scene
from vectors.source.values import digest, flipped, point, points, public, scalar, signing, stream

SCENE = cache(Scene)
MORE = Metadata((MetadataPair("source", "elsewhere"),))


def add(book: Book) -> None:
    _beacon(book)
    _registry(book)
    _commitments(book)
    _challenges(book)
    _sealing(book)
    _records(book)
    _receipts(book)
    _blocks(book)


def _beacon(book: Book) -> None:
    owners = ("provider", "observer-1", "auditor")
    nonces = [digest(f"nonce of {owner}") for owner in owners]
    sealed = [
        book.valid(f"beacon/commitment-of-{owner}", "beacon-commitment", "A.8", "What is committed to before a nonce "
                   "is known.", owner=owner, nonce=nonce)
        for owner, nonce in zip(owners, nonces, strict=True)
    ]  # fmt: skip
    book.wrong("beacon/commitment-of-another-owner", "beacon-commitment", "A.8", "A commitment shown as another's.",
               sealed[0], owner="auditor", nonce=nonces[0])  # fmt: skip
    pairs = [[owner, nonce.hex()] for owner, nonce in zip(owners, nonces, strict=True)]
    about = "The manifest's digest, then owner and nonce of each in the seal's order: 31 bytes."
    base: dict[str, Any] = {"manifest": WINDOW_DIGEST, "openings": pairs}
    found = book.valid("beacon/value", "beacon", "A.8", about, **base)
    for name, changes in (
        ("another-order", {"openings": [pairs[1], pairs[0], pairs[2]]}),
        ("an-owner-less", {"openings": pairs[::2]}),
        ("another-manifest", {"manifest": digest("other manifest")}),
        ("another-nonce", {"openings": [*pairs[:2], ["auditor", flipped(nonces[2], 31).hex()]]}),
    ):
        book.wrong(f"beacon/{name}", "beacon", "A.8", "The beacon of other openings.", found, **{**base, **changes})


def _registry(book: Book) -> None:
    accounts = [one.encode() for one in messages.ACCOUNTS]
    book.valid("registry/root", "registry", "A.7", "Merkle root over the lines by pseudonym.", accounts=accounts)
    made = messages.ACCOUNTS[0]
    found = book.valid("registry/pseudonym", "pseudonym", "A.7", "16 bytes of H(salt, name).", account=made.encode())
    other = replace(made, salt=flipped(made.salt, 0))
    book.wrong("registry/pseudonym-of-another-salt", "pseudonym", "A.7", "Another salt.", found, account=other.encode())
    first, second, third = messages.ACCOUNTS
    same_name = sorted((replace(second, name=first.name), first, third), key=lambda one: one.pseudonym)
    same_key = [first, replace(second, public_key=first.public_key), third]
    for name, text, changed in (
        ("unsorted", "sorted by pseudonym", (second, first, third)),
        ("one-line-twice", "distinct", (first, first, third)),
        ("two-of-one-name", "share a name", same_name),
        ("two-of-one-key", "share a public key", same_key),
    ):
        lines = [one.encode() for one in changed]
        about = "No registry."
        book.refused(f"registry/{name}", "registry", "A.7", about, "CommitmentError", text, accounts=lines)
    salt = digest("text salt")
    contents = {
        "text": messages.SLOT_TEXT.encode(),
        "empty-text": replace(messages.SLOT_TEXT, text="", metadata=NO_METADATA).encode(),
        "empty-slot": None,
    }
    leaves = {}
    for name, content in contents.items():
        about = "The leaf of a slot; an empty slot has another than an empty text."
        leaves[name] = book.valid(f"texts/{name}", "text-leaf", "A.4", about, salt=salt, slot=258, content=content)
    for name, about, leaf, content in (
        ("empty-text-for-an-empty-slot", "The leaf of an empty slot.", "empty-slot", contents["empty-text"]),
        ("another-id", "The leaf of another id.", "text", replace(messages.SLOT_TEXT, id="box-13").encode()),
        ("less-metadata", "Without metadata.", "text", replace(messages.SLOT_TEXT, metadata=NO_METADATA).encode()),
    ):
        book.wrong(f"texts/{name}", "text-leaf", "A.4", about, leaves[leaf], salt=salt, slot=258, content=content)
    made_digest = book.valid("query/digest", "query-digest", "B.2", "h_q of salt and query.",
                             prepare=messages.PREPARE.encode())  # fmt: skip
    turned = replace(messages.PREPARE, query=messages.PREPARE.query + " ")
    book.wrong("query/digest-of-another", "query-digest", "B.2", "A blank more.", made_digest, prepare=turned.encode())


def _commitments(book: Book) -> None:
    e, blinder = [3, -127, 0, 127, -1], R - 2
    found = book.valid("commitments/embedding", "embedding-commitment", "B.1", "C_e over H_0 .. H_d.", e=e,
                       blinder=blinder)  # fmt: skip
    book.wrong("commitments/another-embedding", "embedding-commitment", "B.1", "An entry is one more.", found,
               e=[4, *e[1:]], blinder=blinder)  # fmt: skip
    base: dict[str, Any] = {
        "e": e[:3], "rho": scalar("rho"), "columns": points("columns", 3), "y": points("y", 6), "b": point("b"),
        "policy": POLICY.encode(),
    }  # fmt: skip
    about = "C_y over columns and B; C_w = gain (C_y - lo sum_i Y_i)."
    found = book.valid("commitments/scores", "score-commitment", "B.3", about, **base)
    cheap = replace(POLICY, lo=POLICY.lo - 1)
    values = {**base, "policy": cheap.encode()}
    book.wrong(
        "commitments/another-window", "score-commitment", "B.5", "lo is one less.", {"c_w": found["c_w"]}, **values
    )
    zero = replace(POLICY, lo=0)
    cancelled = {**base, "e": [0, 0, 0], "rho": 0, "policy": zero.encode()}
    book.refused("commitments/nothing-committed", "score-commitment", "B.5", "C_w is the identity.", "ProofError",
                 "identity", **cancelled)  # fmt: skip
    columns = points("columns", 3)
    digest_ = book.valid(
        "commitments/columns-digest", "columns-digest", "A.3", "What the manifest names.", columns=columns
    )
    turned = columns[64:128] + columns[:64] + columns[128:]
    book.wrong("commitments/columns-in-another-order", "columns-digest", "A.3", "Columns change places.", digest_,
               columns=turned)  # fmt: skip
    _index(book)


def _index(book: Book) -> None:
    scene = SCENE()
    key, file = scene.key, scene.tenants["north"].file
    base: dict[str, Any] = {"y": key.scores.y, "b": key.scores.b, "key_digest": key.digest, "dimension": DIMENSION,
                            "index_file": file.encode()}  # fmt: skip
    about = "Columns, and the proof that they lie in the span of {Y_i, B}."
    book.valid("index/valid", "index-file", "A.3", about, **base)
    columns = file.columns

    def with_columns(changed: bytes) -> bytes:
        return IndexFile(changed, file.opening).encode()

    for name, error, text, changes in (
        ("another-key", "ProofError", "does not hold", {"key_digest": digest("other key")}),
        ("another-column", "ProofError", "does not hold", {"index_file": with_columns(point("column") + columns[64:])}),
        ("column-at-infinity", "ProofError", "identity", {"index_file": with_columns(IDENTITY + columns[64:])}),
        ("column-off-the-curve", "ProofError", "not on the curve", {"index_file": with_columns(flipped(columns, -1))}),
        ("a-column-less", "CommitmentError", "columns", {"index_file": with_columns(columns[:-64])}),
        ("another-base", "ProofError", "does not hold", {"b": point("other b")}),
    ):
        book.refused(f"index/{name}", "index-file", "A.3", "No index of this key.", error, text, **{**base, **changes})


def _challenges(book: Book) -> None:
    request = REQUEST.encode()
    found = book.valid("challenges/ctx", "ctx", "M.6", "31 bytes over exactly what the client signed.", request=request)
    turned = replace(REQUEST, nonce=flipped(REQUEST.nonce, 0)).encode()
    book.wrong("challenges/ctx-of-another-nonce", "ctx", "M.6", "Another nonce.", found, request=turned)
    key, columns = digest("verifying key"), points("columns", 4)
    found = book.valid("challenges/columns", "columns-chi", "A.3", "chi hashes key digest and all C_j.",
                       key_digest=key, columns=columns)  # fmt: skip
    book.wrong("challenges/columns-without-the-key", "columns-chi", "A.3", "chi of another key.", found,
               key_digest=bytes(32), columns=columns)  # fmt: skip
    clear = [1, 2, 3, 4, R - 5, 0, 1]
    base: dict[str, Any] = {"key_digest": key, "record_digest": RECORD.digest(), "clear": clear,
                            "c_w": point("C_w"), "committed": points("C_h, C_1 and C_v", 3)}  # fmt: skip
    about = "alpha and beta: key digest, record digest, clear inputs, C_w, C_h, C_1, C_v."
    found = book.valid("challenges/alpha-beta", "alpha-beta", "B.5", about, **base)
    for name, changes in (
        ("key_digest", {"key_digest": digest("other key")}), ("record_digest", {"record_digest": digest("other")}),
        ("clear", {"clear": [1, 2, 3, 5, R - 5, 0, 1]}), ("c_w", {"c_w": point("other")}),
        ("c-1", {"committed": base["committed"][:64] + point("other") + base["committed"][128:]}),
    ):  # fmt: skip
        path = f"challenges/alpha-beta-without-{name.replace('_', '-')}"
        book.wrong(
            path, "alpha-beta", "B.5", f"Challenges that do not change with {name}.", found, **{**base, **changes}
        )
    _batch(book, key)
    about = "chi, c, and the transcript that the folding begins with."
    base = {"use": "link", "context": digest("context"), "size": 45, "combined": [point("D0"), point("D1")],
            "announcements": [point("A0"), point("A1")]}  # fmt: skip
    found = book.valid("challenges/opening", "opening-challenges", "B.7", about, **base)
    book.wrong("challenges/opening-of-another-size", "opening-challenges", "B.7", "c forgets the size.",
               {"c": found["c"]}, **{**base, "size": 46})  # fmt: skip
    base = {"use": "link", "transcript": digest("transcript"), "points": [point(n) for n in ("L0", "L1", "R0", "R1")]}
    found = book.valid("challenges/fold", "fold-challenge", "B.7", "u of a round, and the transcript after it.", **base)
    book.wrong("challenges/fold-of-other-points", "fold-challenge", "B.7", "u forgets R.", found,
               **{**base, "points": base["points"][:2]})  # fmt: skip


def _batch(book: Book, key: bytes) -> None:
    second = replace(RECORD, seq=1, c_y=point("C_y of 1"))
    items = [
        {"record": record.encode(), "clear": [1, 2, at, 4], "c_w": point(f"C_w {at}"),
         "committed": points(f"C_h, C_1 {at}", 2), "c_v": point(f"C_v {at}"), "proof": stream(f"proof {at}", 256)}
        for at, record in enumerate((RECORD, second))
    ]  # fmt: skip
    base: dict[str, Any] = {"key_digest": key, "manifest": WINDOW_DIGEST, "items": items, "tenant": "acme",
                            "uses": ["hints", "thresholds"], "index_digest": messages.TENANTS[0].digest()}  # fmt: skip
    about = "chi hashes every statement, commitment and proof of the batch; the link's also tenant and index."
    found = book.valid("challenges/batch", "batch-chi", "B.7", about, **base)
    chi = {"chi": found["chi"], "link_chi": found["link_chi"]}
    for name, changed in (
        ("a-proof", [{**items[0], "proof": flipped(items[0]["proof"], 0)}, items[1]]),  # type: ignore[arg-type]
        ("c-h", [{**items[0], "committed": points("other", 2)}, items[1]]),
        ("a-record", items[:1]),
    ):
        book.wrong(f"challenges/batch-without-{name}", "batch-chi", "B.7", f"chi forgets {name}.", chi,
                   **{**base, "items": changed})  # fmt: skip
    book.wrong("challenges/link-without-the-tenant", "batch-chi", "B.7", "The link's chi forgets the tenant.",
               {"link_chi": found["link_chi"]}, **{**base, "tenant": "zenith"})  # fmt: skip


def _sealing(book: Book) -> None:
    key, info, plain = public_of(SEAL_PRIVATE), digest("info"), b"the sealed text"
    base: dict[str, Any] = {"public_key": key, "secret": digest("ephemeral secret"), "info": info, "plaintext": plain}
    about = "HPKE base mode with an ephemeral key by DeriveKeyPair from the secret."
    sealed = bytes.fromhex(book.valid("sealing/sealed", "seal", "B.4", about, **base)["sealed"])
    book.refused("sealing/to-a-key-of-small-order", "seal", "G.4", "Everybody would know the shared secret.",
                 "AttestationError", "nothing can be sealed", **{**base, "public_key": bytes(32)})  # fmt: skip
    given: dict[str, Any] = {"private_key": SEAL_PRIVATE, "info": info, "sealed": sealed}
    book.valid("sealing/opened", "unseal", "B.4", "The same, opened.", **given)
    for name, changes in (
        ("flipped-ephemeral-key", {"sealed": flipped(sealed, 3)}), ("flipped-text", {"sealed": flipped(sealed, 33)}),
        ("flipped-tag", {"sealed": flipped(sealed, -1)}), ("truncated", {"sealed": sealed[:-1]}),
        ("too-short", {"sealed": sealed[:40]}), ("one-byte-more", {"sealed": sealed + b"\0"}),
        ("about-another-record", {"info": digest("other info")}), ("another-key", {"private_key": digest("other")}),
        ("ephemeral-key-of-small-order", {"sealed": bytes(32) + sealed[32:]}),
    ):  # fmt: skip
        text = "does not open"
        book.refused(f"sealing/{name}", "unseal", "B.4", "It does not open.", "AttestationError", text,
                     **{**given, **changes})  # fmt: skip
    openings = messages.OPENINGS
    sealed = attestation.seal_openings(RECORD, openings, digest("window secret"))
    body = replace(messages.BODY, sealed_digest=attestation.sealed_digest(sealed), openings_digest=openings.digest())
    receipt = replace(
        messages.RECEIPT, body=body, signature=signature.sign(signing("window"), "receipt", body.encode())
    )
    whole = attestation.SealedAnswer(RECORD, sealed, receipt)
    keys = {"private_key": SEAL_PRIVATE}
    about = "What Retrieve brings, and the answer in it."
    book.valid("sealing/answer", "sealed-answer", "B.4", about, sealed_answer=whole.encode(), **keys)
    other = replace(whole, sealed=attestation.seal_openings(RECORD, openings, digest("other secret")))
    book.refused("sealing/answer-of-another-receipt", "sealed-answer", "B.4", "The receipt names other sealed bytes.",
                 "AttestationError", "other sealed openings", sealed_answer=other.encode(), **keys)  # fmt: skip
    moved = replace(whole, record=replace(RECORD, seq=1))
    book.refused("sealing/answer-of-another-record", "sealed-answer", "B.4", "The seal is about another record.",
                 "AttestationError", "does not open", sealed_answer=moved.encode(), **keys)  # fmt: skip


def _records(book: Book) -> None:
    base: dict[str, Any] = {"record": RECORD.encode(), "public_key": public("alice")}
    about = "The account's signature, the points, and what everybody derives from the record."
    found = book.valid("records/valid", "record", "B.3", about, **base)
    request = replace(REQUEST, checked=False)
    changed = replace(RECORD, signed=replace(RECORD.signed, request=request))
    text = "the request signature does not hold"
    for name, error, said, changes in (
        ("request-changed", "AttestationError", text, {"record": changed.encode()}),
        ("another-account", "AttestationError", text, {"public_key": public("bob")}),
        ("c-y-off-the-curve", "ProofError", "not on the curve",
         {"record": replace(RECORD, c_y=flipped(RECORD.c_y, 63)).encode()}),
        ("c-y-at-infinity", "ProofError", "identity", {"record": replace(RECORD, c_y=IDENTITY).encode()}),
        ("truncated", "EncodingError", "truncated", {"record": RECORD.encode()[:-1]}),
    ):  # fmt: skip
        book.refused(f"records/{name}", "record", "B.3", "No record.", error, said, **{**base, **changes})
    later = replace(RECORD, time=RECORD.time + 60)
    book.wrong("records/digest-of-another-time", "record", "B.3", "A digest that forgets the time.",
               {"record_digest": found["record_digest"]}, **{**base, "record": later.encode()})  # fmt: skip


def _receipts(book: Book) -> None:
    world = SCENE().honest
    answer, other = world.answers[3], world.answers[1]
    receipt, body = answer.receipt, answer.receipt.body

    def signed(**changes: Any) -> bytes:
        made = replace(body, **changes)
        proof = signature.sign(world.window_key, "receipt", made.encode())
        return replace(receipt, body=made, signature=proof).encode()

    base: dict[str, Any] = {
        "manifest": world.manifest.encode(), "log_key": world.signer.verifier.vkey(), "record": answer.record.encode(),
        "openings_digest": answer.openings.digest(), "receipt": receipt.encode(),
    }  # fmt: skip
    about = "P's signature, the digests, and the record's path in the log."
    book.valid("receipts/valid", "receipt", "B.4", about, **base)
    foreign = world.checkpoint(NoteSigner(world.manifest.origin, key_of("somebody")))
    path = receipt.path
    for name, error, text, changed in (
        ("flipped-signature", "AttestationError", "not signed by the window key",
         replace(receipt, signature=flipped(receipt.signature, 0)).encode()),
        ("changed-body", "AttestationError", "not signed by the window key",
         replace(receipt, body=replace(body, seq=body.seq + 1)).encode()),
        ("of-another-window", "AttestationError", "another window", signed(manifest=bytes(32))),
        ("by-the-provider-key", "AttestationError", "not signed by the window key",
         replace(receipt, signature=signature.sign(world.provider, "receipt", body.encode())).encode()),
        ("another-request", "AttestationError", "another request", signed(request_digest=bytes(32))),
        ("another-record", "AttestationError", "another record", signed(record_digest=bytes(32))),
        ("another-seq", "AttestationError", "says seq", signed(seq=body.seq + 1)),
        ("other-openings", "AttestationError", "other openings", signed(openings_digest=bytes(32))),
        ("another-index", "LedgerError", "does not hold the record", signed(index=body.index - 1)),
        ("checkpoint-of-another-key", "LedgerError", "checkpoint does not hold", signed(checkpoint=foreign)),
        ("no-checkpoint", "EncodingError", "checkpoint does not hold", signed(checkpoint=b"")),
        ("path-flipped", "LedgerError", "does not give the root",
         replace(receipt, path=(flipped(path[0], 0), *path[1:])).encode()),
        ("path-too-short", "LedgerError", "shorter", replace(receipt, path=path[:-1]).encode()),
        ("truncated", "EncodingError", "truncated", receipt.encode()[:-1]),
        ("of-another-answer", "AttestationError", "another request", other.receipt.encode()),
    ):  # fmt: skip
        values = {**base, "receipt": changed}
        book.refused(f"receipts/{name}", "receipt", "B.4", "It does not hold.", error, text, **values)
    _openings(book)


def _openings(book: Book) -> None:
    world = SCENE().honest
    answer = world.answers[0]
    openings = answer.openings
    tenant = next(one for one in world.manifest.tenants if one.tenant == "north")
    base: dict[str, Any] = {"class": class_of(CLS.name), "tenant_index": tenant.encode(),
                            "record": answer.record.encode(),
                            "policy": world.manifest.policy.encode()}  # fmt: skip
    about = "T and its flags as the record commits to them, flagged texts with salt and path in the manifest's tree."
    book.valid("answers/valid", "openings", "B.4", about, openings=openings.encode(), **base)
    first = openings.slots[0]
    opened = first.texts[0]

    def slots(*changed: Any) -> bytes:
        return replace(openings, slots=changed).encode()

    rest = openings.slots[1:]
    for name, error, text, data in (
        ("a-slot-less", "AttestationError", "returns exactly", slots(*rest)),
        ("another-order", "AttestationError", "strictly increasing", slots(*openings.slots[::-1])),
        ("another-salt", "AttestationError", "record commits to", replace(openings, t_salt=5).encode()),
        ("another-slot", "AttestationError", "record commits to", slots(replace(first, slot=first.slot - 1), *rest)),
        ("beyond-the-index", "AttestationError", "outside the index",
         slots(first, rest[0], replace(rest[1], slot=CLS.N))),
        ("another-text", "LedgerError", "not the one committed",
         slots(replace(first, texts=(replace(opened, content=replace(opened.content, text="other")),)), *rest)),
        ("another-id", "LedgerError", "not the one committed",
         slots(replace(first, texts=(replace(opened, content=replace(opened.content, id="other")),)), *rest)),
        ("more-metadata", "LedgerError", "not the one committed",
         slots(replace(first, texts=(replace(opened, content=replace(opened.content, metadata=MORE)),)), *rest)),
        ("another-flag", "AttestationError", "record commits to", slots(replace(first, flag=False, texts=()), *rest)),
        ("text-withheld", "AttestationError", "withheld", slots(replace(first, texts=()), *rest)),
        ("text-without-its-flag", "AttestationError", "flag is not set",
         slots(first, rest[0], replace(rest[1], texts=(opened,)))),
        ("path-too-short", "LedgerError", "shorter",
         slots(replace(first, texts=(replace(opened, path=opened.path[:-1]),)), *rest)),
    ):  # fmt: skip
        book.refused(f"answers/{name}", "openings", "B.4", "It does not hold.", error, text, openings=data, **base)
    guard = replace(world.manifest.policy, guard="returned", guard_rho="1/20", guard_formula="precise")
    guarded = {**base, "policy": guard.encode()}
    about = "Under a policy with a guard, exactly one flagged slot comes without its text."
    one_less = slots(replace(first, texts=()), *rest)
    book.valid("answers/guarded", "openings", "M.10", about, openings=one_less, **guarded)
    text = "guard of this policy withholds exactly"
    book.refused("answers/guarded-and-nothing-withheld", "openings", "M.10", about, "AttestationError", text,
                 openings=openings.encode(), **guarded)  # fmt: skip


def _blocks(book: Book) -> None:
    scene = SCENE()
    world = scene.honest
    links = world.estimator.signed().body
    north = links.tenants[0]
    records = [one for one, _ in world.estimator.records("north")]
    digests = [one.digest() for one in records]
    found = book.valid("links/records-digest", "records-digest", "C.3", "Of a tenant's records, in ledger order.",
                       records=digests)  # fmt: skip
    book.wrong("links/records-in-another-order", "records-digest", "C.3", "Two change places.", found,
               records=[digests[1], digests[0], *digests[2:]])  # fmt: skip
    wanted = [[0, 1, 2], [0, 2]]
    batch = world.estimator.batch("north", wanted)
    base: dict[str, Any] = {
        "estimate_class": SIZE.name, "key_digest": scene.block_key.digest, "manifest": world.digest,
        "links_digest": links.digest(), "tenant": "north", "policy": world.manifest.policy.encode(),
        "links": north.encode(), "c_e": [one.signed.request.c_e for one in records],
        "times": [one.time for one in records],
    }  # fmt: skip
    statement = {**base, "ranks": wanted[0], "c_g": batch.blocks[0].c_g}
    about = "A block's pairs (1 below the threshold, -1 listed, 0 free), its digest, r_a, and the clear inputs."
    made = book.valid("blocks/statement", "block", "C.4", about, **statement)
    for name, changes in (
        ("c-g", {"c_g": point("other")}), ("the-policy", {"policy": POLICY.encode()}),
        ("the-tenant", {"tenant": "south"}), ("the-list", {"links_digest": digest("other")}),
    ):  # fmt: skip
        book.wrong(f"blocks/challenges-without-{name}", "block", "C.4", f"Challenges that forget {name}.",
                   {"r": made["r"]}, **{**statement, **changes})  # fmt: skip
    for name, text, ranks in (
        ("unsorted", "strictly increasing", [1, 0]), ("one-twice", "strictly increasing", [1, 1]),
        ("beyond-the-records", "strictly increasing", [0, 3]), ("empty", "1..6", []),
        ("too-many", "1..6", [0, 1, 2, 3, 4, 5, 6]),
    ):  # fmt: skip
        book.refused(f"blocks/ranks-{name}", "block", "C.4", "No block.", "EstimateError", text,
                     **{**statement, "ranks": ranks})  # fmt: skip
    two = {"digests": [digest("first"), digest("second")], "blocks": [BLOCK.encode()] * 2}
    chi = book.valid("blocks/chi", "blocks-chi", "C.6", "chi of a delivery.", **two)
    book.wrong("blocks/chi-of-one-block", "blocks-chi", "C.6", "chi forgets a block.", chi,
               **{name: values[:1] for name, values in two.items()})  # fmt: skip
    _block_batches(book, {**base, "key": scene.blocks.key, "blocks": wanted}, batch)


def _block_batches(book: Book, base: dict[str, Any], batch: BlockBatch) -> None:
    about = "Two blocks: sigma proofs, one opening of all C_G, and pairing checks with C_G + C_s added to vk_x."
    book.valid("block-batches/valid", "block-batch", "C.4", about, **base, batch=batch.encode())
    first, second = batch.blocks
    norm = first.norm
    for name, text, changed in (
        ("of-another-list", "another list of links", replace(batch, links_digest=bytes(32))),
        ("a-block-less", "2 blocks were asked for", replace(batch, blocks=(first,))),
        ("blocks-swapped", "block 0", replace(batch, blocks=(second, first))),
        ("closing-changed", "block 0: the squared norm",
         replace(batch, blocks=(replace(first, norm=replace(norm, closing=(norm.closing + 1) % R)), second))),
        ("another-c-s", "block 0: the squared norm", replace(batch, blocks=(replace(first, c_s=second.c_s), second))),
        ("c-g-at-infinity", "identity", replace(batch, blocks=(replace(first, c_g=IDENTITY), second))),
        ("opening-changed", "opening does not hold",
         replace(batch, opening=replace(batch.opening, responses=(5, *batch.opening.responses[1:])))),
    ):  # fmt: skip
        book.refused(f"block-batches/{name}", "block-batch", "C.4", "It does not hold.", "ProofError", text,
                     **base, batch=changed.encode())  # fmt: skip
    unlisted = replace(TenantLinks.decode(base["links"]), packed=b"")
    lied = {**base, "links": unlisted.encode(), "batch": batch.encode()}
    book.refused("block-batches/link-not-listed", "block-batch", "C.4", "Proven with a link listed, checked without.",
                 "ProofError", "does not hold", **lied)  # fmt: skip
    moved = {**base, "c_e": [base["c_e"][1], base["c_e"][0], *base["c_e"][2:]], "batch": batch.encode()}
    book.refused("block-batches/records-swapped", "block-batch", "C.5", "C_e of two records change places.",
                 "ProofError", "block 0: the squared norm", **moved)  # fmt: skip
