# SPDX-License-Identifier: GPL-3.0-or-later
"""Merkle trees, checkpoints and cosignatures, proof files, and what an auditor draws.  SPEC G.6, C.7, D.1, D.8."""

from __future__ import annotations

from typing import Any

from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import EMPTY_ROOT, MerkleTree, leaf_hash, node_hash
from ragseal.ledger.note import COSIGNATURE, Note, NoteSigner, encode_base64
from ragseal.ledger.receipt import InclusionBundle
from vectors.source.book import Book
from vectors.source.messages import ORIGIN, SIGNER
from vectors.source.values import digest, flipped, signing, stream

ENTRIES = [stream(f"entry {i}", i) for i in range(13)]  #: of 0, 1, ... bytes
TREE = MerkleTree(ENTRIES)
LOG = SIGNER.verifier.vkey()
WITNESSES = [NoteSigner(f"witness-{i}.example", signing(f"witness {i}"), COSIGNATURE) for i in range(2)]
TIME = 1_800_000_000


def add(book: Book) -> None:
    _roots(book)
    _inclusion(book)
    _consistency(book)
    _checkpoints(book)
    _growth(book)
    _files(book)
    _samples(book)


def _roots(book: Book) -> None:
    for size in (0, 1, 2, 3, 5, 8, 13):
        about = f"The root of {size} entries."
        book.valid(f"merkle-roots/{size}", "merkle-root", "G.6", about, entries=ENTRIES[:size])
    a, b, c = (leaf_hash(entry) for entry in ENTRIES[:3])
    for name, about, root in (
        ("last-leaf-twice", "An odd level filled with its last leaf.", node_hash(node_hash(a, b), node_hash(c, c))),
        ("unbalanced-left", "The larger half on the right.", node_hash(a, node_hash(b, c))),
    ):
        book.wrong(f"merkle-roots/{name}", "merkle-root", "G.6", about, {"root": root}, entries=ENTRIES[:3])


def _inclusion(book: Book) -> None:
    for index, size in ((0, 1), (0, 2), (2, 3), (4, 5), (3, 8), (7, 13), (12, 13)):
        given = _included(index, size)
        book.valid(f"inclusion/{index}-of-{size}", "inclusion", "G.6", f"Entry {index} of {size}.", **given)
    base = _included(7, 13)
    path = base["path"]
    for name, text, changes in (
        ("flipped", "does not give the root", {"path": [flipped(path[0], 0), *path[1:]]}),
        ("swapped", "does not give the root", {"path": [path[1], path[0], *path[2:]]}),
        ("a-hash-less", "shorter", {"path": path[:-1]}),
        ("a-hash-more", "longer", {"path": [*path, digest("more")]}),
        ("another-index", "does not give the root", {"index": 6}),
        ("another-size", "shorter", {"size": 17}),  # of 14 it holds: a size is bound by its checkpoint
        ("index-of-the-size", "cannot be in a tree", {"index": 13}),
        ("another-entry", "does not give the root", {"entry": ENTRIES[6]}),
        ("another-root", "does not give the root", {"root": flipped(base["root"], 31)}),
        ("hash-of-31-bytes", "32 bytes", {"path": [path[0][:-1], *path[1:]]}),
        ("size-of-2-63", "[0, 2^63)", {"size": 2**63}),
    ):
        values = {**base, **changes}
        book.refused(f"inclusion/{name}", "inclusion", "G.6", "It does not hold.", "LedgerError", text, **values)
    left, right = (leaf_hash(entry) for entry in ENTRIES[:2])
    posing = {"entry": left + right, "index": 0, "size": 1, "path": [], "root": node_hash(left, right)}
    book.refused(
        "inclusion/node-as-an-entry", "inclusion", "G.6", "A node that poses as an entry.", "LedgerError",
        "does not give the root", **posing,
    )  # fmt: skip


def _included(index: int, size: int) -> dict[str, Any]:
    path = TREE.path(index, size)
    return {"entry": ENTRIES[index], "index": index, "size": size, "path": path, "root": TREE.root(size)}


def _consistency(book: Book) -> None:
    for old, new in ((1, 2), (3, 7), (4, 8), (6, 13), (8, 13), (13, 13)):
        about = f"The first {old} of {new} entries."
        book.valid(f"consistency/{old}-{new}", "consistency", "G.6", about, **_consistent(old, new))
    base = _consistent(6, 13)
    path = base["path"]
    for name, text, changes in (
        ("flipped", "history was rewritten", {"path": [flipped(path[0], 0), *path[1:]]}),
        ("a-hash-less", "too short", {"path": path[:-1]}),
        ("a-hash-more", "too long", {"path": [*path, digest("more")]}),
        ("rewritten", "history was rewritten", {"old_root": TREE.root(5)}),
        ("another-new-root", "root of size 13", {"new_root": TREE.root(12)}),
        ("backwards", "cannot be compared", {"old": 13, "new": 6}),
        ("from-nothing", "cannot be compared", {"old": 0, "old_root": EMPTY_ROOT}),
        ("empty", "too short", {"path": path[:1]}),
    ):
        values = {**base, **changes}
        book.refused(f"consistency/{name}", "consistency", "G.6", "It does not hold.", "LedgerError", text, **values)
    same = _consistent(13, 13)
    for name, text, changes in (
        ("fork", "two different roots", {"old_root": digest("fork")}),
        ("path-between-equals", "empty path", {"path": [digest("more")]}),
    ):
        values = {**same, **changes}
        book.refused(f"consistency/{name}", "consistency", "G.6", "It does not hold.", "LedgerError", text, **values)


def _consistent(old: int, new: int) -> dict[str, Any]:
    return {"old": old, "new": new, "path": TREE.consistency(old, new), "old_root": TREE.root(old),
            "new_root": TREE.root(new)}  # fmt: skip


def note(size: int, root: bytes | None = None, extra: str = "") -> str:
    """A signed note of the log, with an extension line where there is one."""
    text = Checkpoint(ORIGIN, size, root or TREE.root(size)).text() + extra
    return Note(text, (SIGNER.sign(text),)).encode().decode()


def signed_text(text: str) -> str:
    return Note(text, (SIGNER.sign(text),)).encode().decode()


def cosigned(size: int) -> str:
    parsed = Note.parse(note(size).encode())
    lines = [signer.sign(parsed.text, TIME + i) for i, signer in enumerate(WITNESSES)]
    return parsed.with_signatures(lines).encode().decode()


def _checkpoints(book: Book) -> None:
    keys = [signer.verifier.vkey() for signer in WITNESSES]
    base: dict[str, Any] = {"log_key": LOG, "witnesses": keys}
    book.valid("checkpoints/signed", "checkpoint", "G.6", "Signed by the log alone.", note=note(13), **base)
    book.valid("checkpoints/empty-log", "checkpoint", "G.6", "Of a log without entries.", note=note(0), **base)
    book.valid("checkpoints/cosigned", "checkpoint", "G.6", "Cosigned by two witnesses.", note=cosigned(13), **base)
    about = "Lines of keys that the reader does not know are ignored."
    book.valid(
        "checkpoints/unknown-witnesses", "checkpoint", "G.6", about, note=cosigned(13), log_key=LOG, witnesses=[]
    )
    plain, both = note(13), cosigned(13)
    root = encode_base64(TREE.root(13))
    lines = both.split("\n")
    blob = lines[-2].split(" ")[2]
    spoiled = both.replace(blob, blob[:20] + ("A" if blob[20] != "A" else "B") + blob[21:])
    other = NoteSigner("other.example/log", signing("log"))
    foreign = Checkpoint("other.example/log", 13, TREE.root(13)).text()
    for name, error, text, changed in (
        ("extension-line", "EncodingError", "without extensions", note(13, extra="extension\n")),
        ("leading-zero", "EncodingError", "plain decimal", signed_text(f"{ORIGIN}\n013\n{root}\n")),
        ("plus-sign", "EncodingError", "plain decimal", signed_text(f"{ORIGIN}\n+13\n{root}\n")),
        ("size-of-2-63", "EncodingError", "2^63", signed_text(f"{ORIGIN}\n{2**63}\n{root}\n")),
        ("short-root", "EncodingError", "32 bytes", signed_text(f"{ORIGIN}\n13\n{encode_base64(bytes(31))}\n")),
        ("stray-bits", "EncodingError", "canonical base64", signed_text(f"{ORIGIN}\n13\n{_stray(root)}\n")),
        ("empty-log-with-a-root", "EncodingError", "empty tree", signed_text(f"{ORIGIN}\n0\n{root}\n")),
        ("no-signature", "EncodingError", "signature lines", plain[: plain.index("\n\n") + 1]),
        ("no-last-newline", "EncodingError", "signature lines", plain[:-1]),
        ("hyphen-for-a-dash", "EncodingError", "em dash", plain.replace("—", "-")),
        ("carriage-return", "EncodingError", "control characters", plain.replace("\n13\n", "\r\n13\n")),
        ("another-size", "LedgerError", "does not verify", plain.replace("\n13\n", "\n12\n")),
        ("cosignature-flipped", "LedgerError", "does not verify", spoiled),
        ("another-key", "LedgerError", "no signature by a known key",
         Note(foreign, (other.sign(foreign),)).encode().decode()),
        ("another-log", "LedgerError", "not of", Note(foreign, (SIGNER.sign(foreign),)).encode().decode()),
    ):  # fmt: skip
        path = f"checkpoints/{name}"
        book.refused(path, "checkpoint", "G.6", "No checkpoint of this log.", error, text, note=changed, **base)
    book.refused(
        "checkpoints/witness-with-a-log-key", "checkpoint", "G.6", "A key of type 0x01 named as a witness.",
        "LedgerError", "type 0x04", note=plain, log_key=LOG, witnesses=[LOG],
    )  # fmt: skip


def _stray(text: str) -> str:
    """The same bytes with a low bit set that base64 throws away."""
    alphabet = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
    return text[:-2] + alphabet[alphabet.index(text[-2]) | 1] + "="


def _growth(book: Book) -> None:
    base: dict[str, Any] = {"log_key": LOG, "older": note(6), "newer": note(13), "path": TREE.consistency(6, 13)}
    book.valid("growth/grown", "growth", "D.1", "The newer note continues the older one.", **base)
    book.valid("growth/same", "growth", "D.1", "The same note again.", **{**base, "older": note(13), "path": []})
    forged = note(13, digest("another log"))
    for name, error, text, about, changes in (
        ("fork", "ForkError", "two different logs", "Two roots of one size, both signed: this convicts the log.",
         {"older": note(13), "newer": forged, "path": []}),
        ("rolled-back", "UnprovenError", "rolled back", "An older note: it may have been replayed.",
         {"older": note(13), "newer": note(6), "path": []}),
        ("no-path", "UnprovenError", "does not prove", "No proof: it may have been lost on the way.", {"path": []}),
        ("rewritten", "UnprovenError", "does not prove", "Another history of the same size.",
         {"older": note(6, digest("another log"))}),
        ("path-for-nothing", "UnprovenError", "nothing to prove", "A path between equal sizes.", {"older": note(13)}),
    ):  # fmt: skip
        book.refused(f"growth/{name}", "growth", "D.1", about, error, text, **{**base, **changes})


def _files(book: Book) -> None:
    made = InclusionBundle(7, tuple(TREE.path(7)), note(13).encode())
    text = made.to_text().decode()
    base: dict[str, Any] = {"entry": ENTRIES[7], "log_key": LOG}
    about = "A C2SP tlog-proof, and the canonical bytes of the same."
    book.valid("proof-files/valid", "proof-file", "G.6", about, file=text, **base)
    for name, error, said, changed in (
        ("extra-line", "EncodingError", "index line", text.replace("index 7", "extra AAAA\nindex 7")),
        ("another-version", "EncodingError", "expected", text.replace("@v1", "@v2")),
        ("leading-zero", "EncodingError", "plain decimal", text.replace("index 7", "index 07")),
        ("another-index", "LedgerError", "does not give the root", text.replace("index 7", "index 6")),
        ("no-checkpoint", "EncodingError", "note", text[: text.index("\n\n") + 2]),
    ):
        book.refused(f"proof-files/{name}", "proof-file", "G.6", "No proof.", error, said, file=changed, **base)


def _samples(book: Book) -> None:
    records = [[seq, "north" if seq % 3 else "south"] for seq in range(60)]
    base: dict[str, Any] = {"nonce": digest("nonce"), "root": digest("root"), "manifest": digest("manifest")}
    for size in (1, 12, 60):
        about = f"{size} of 60 records, two tenants in proportion and at least one of each."
        book.valid(f"samples/records-{size}", "sampled-records", "D.8", about, records=records, size=size, **base)
    drawn = book.valid(
        "samples/records-of-another-nonce", "sampled-records", "D.8", "Another nonce.", records=records, size=12,
        **{**base, "nonce": digest("another nonce")},
    )  # fmt: skip
    book.wrong("samples/records-of-a-chosen-nonce", "sampled-records", "D.8", "What another nonce draws.", drawn,
               records=records, size=12, **base)  # fmt: skip
    book.refused(
        "samples/no-record", "sampled-records", "D.8", "A sample of nothing.", "ConfigurationError",
        "at least one record", records=records, size=0, **base,
    )  # fmt: skip
    about = "How many records catch that share at that confidence, and how many bad ones may be left."
    for name, sizes in (("one-tenant", {"a": 1000}), ("three-tenants", {"a": 700, "b": 290, "c": 10})):
        for detect, confidence in (("0.01", "1-2^-20"), ("0.05", "0.99"), ("1e-1", "1-1e-6")):
            book.valid(f"samples/size-{name}-{detect}", "sample-size", "D.8.2", about, sizes=sizes, detect=detect,
                       confidence=confidence)  # fmt: skip
    book.refused(
        "samples/certainty", "sample-size", "D.8.2", "No sample is certain.", "ConfigurationError", "not a confidence",
        sizes={"a": 1000}, detect="0.01", confidence="1",
    )  # fmt: skip
    parts = [digest(name) for name in ("nonce", "root", "manifest", "links")] + [b"north"]
    asked: dict[str, Any] = {"records": 40, "tau": 10, "n": 6, "count": 20, "seed_parts": parts}
    about = "The seed, and uniform sets of n records of stretches that overlap."
    book.valid("samples/blocks", "sampled-blocks", "C.7", about, **asked)
    book.valid("samples/blocks-few-records", "sampled-blocks", "C.7", about, **{**asked, "records": 4, "count": 2})
    other = book.valid("samples/blocks-of-another-tenant", "sampled-blocks", "C.7", about,
                       **{**asked, "seed_parts": [*parts[:-1], b"south"]})  # fmt: skip
    book.wrong("samples/blocks-of-a-chosen-seed", "sampled-blocks", "C.7", "What another seed draws.", other, **asked)
    book.refused(
        "samples/no-block", "sampled-blocks", "C.7", "A sample of no block.", "ConfigurationError",
        "at least one block", **{**asked, "count": 0},
    )  # fmt: skip
    about = "Blocks that hold every pair that is compared."
    apart: dict[str, Any] = {"times": [60 * at for at in range(40)], "tau": 9, "tau_time": 0, "n": 12, "most": 2500}
    book.valid("samples/all-blocks", "full-blocks", "C.7", about, **apart)
    crowded = [0] * 20 + apart["times"][20:]
    book.valid("samples/all-blocks-by-time", "full-blocks", "C.7", about, **{**apart, "times": crowded, "tau_time": 60})
    book.valid("samples/too-many-blocks", "full-blocks", "C.7", "More blocks than asked for.", **{**apart, "most": 3})
