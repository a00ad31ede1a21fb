# SPDX-License-Identifier: GPL-3.0-or-later
"""Every canonical message: one that is accepted, and what is wrong with the bytes of those that are not.  SPEC G.1."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import fields, replace
from typing import Any

from ragseal.embedder.interface import QUANTISATION, UNIT, DeclaredIdentity, EmbedderIdentity
from ragseal.kernel import commitment as phase_a
from ragseal.kernel import encoding, inquiry, signature
from ragseal.kernel.attestation import (
    NO_RECEIPT,
    Answer,
    AnswerAsk,
    Openings,
    Prepare,
    Prepared,
    Receipt,
    ReceiptBody,
    Record,
    Request,
    SealedAnswer,
    SignedRequest,
    SlotOpening,
    TextOpening,
)  # fmt: skip
from ragseal.kernel.beacon import (
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    Seat,
    beacon_commitment,
)
from ragseal.kernel.certificate import BlockBatch, BlockProof
from ragseal.kernel.coin_proof import CoinPoints, CoinProof
from ragseal.kernel.commitment import (
    Account,
    AccountAsk,
    CoinCommitment,
    IndexFile,
    Manifest,
    Membership,
    Registry,
    SignedManifest,
    TenantIndex,
    Thinning,
    WindowClose,
    WindowOpen,
)
from ragseal.kernel.emptied import EmptiedFile, EmptiedShard
from ragseal.kernel.encoding import Message
from ragseal.kernel.enrolment import Enrolment, Enrolments, LateMembership, enrolment_leaves, leaf_salt
from ragseal.kernel.inquiry import BlocksAsk, Delivery, LinksAsk, ProofsAsk, Refusal, RegistryAsk
from ragseal.kernel.link_list import LinkList, SignedLinks, TenantLinks, pack_links
from ragseal.kernel.opening import Opening
from ragseal.kernel.params import R
from ragseal.kernel.policy import ANSWERS, EXACT, RATIONAL, UNSEEN, UNTIL_DELIVERED, Policy
from ragseal.kernel.proofs import ProofBatch, ProofEntry, SameEmbeddingOpening
from ragseal.kernel.publickey import FIELD_PRIME
from ragseal.kernel.sealing import public_of
from ragseal.kernel.slot_text import Characters, Metadata, MetadataPair, MetadataValue, Number, SlotText
from ragseal.kernel.squarednorm import SquaredNorm
from ragseal.kernel.thinning import ThinnedFile, ThinnedShard
from ragseal.kernel.verdict import ANY, NONE, AuditVerdict, Claimed, VerdictEntry, log_digest
from ragseal.kernel.versions import IndexUpdate
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteSigner
from ragseal.ledger.probe.statement import Planted, ProbeAnswer, ProbeStatement
from ragseal.ledger.receipt import InclusionBundle
from ragseal.ledger.signing import LogSigner
from ragseal.ledger.turns import LogKey, TurnProof
from vectors.source.book import Book
from vectors.source.operations import DIGESTS
from vectors.source.values import digest, packed, point, points, public, scalar, signing, stream

ORIGIN, WINDOW = "example.org/rag", "w1"
OPENS = 1_800_000_000
D = 4  #: entries of an embedding

SIGNER = NoteSigner(ORIGIN, signing("log"))
LOG_KEY = SIGNER.verifier.vkey()

POLICY = Policy(
    class_name="noise-tiny-two", class_digest=digest("class"), table_digest=digest("table"), dimension=D,
    claim="every-list", hidden=0, lo=4800, hi=5600,
    gain=1, n_max=3, k_max=2, delta="1/1000000", epsilon_account="4", theta="9/10", tau=100, gate=True,
    unit="slot", chunks_max=1, period_start=OPENS - 86_400, opens=OPENS, closes=OPENS + 3600, version_every=900, ids=3,
    tau_time=3600,
)  # fmt: skip


ANSWERS_POLICY = replace(
    POLICY, claim=ANSWERS, lo=0, hi=40, vocabulary=digest("vocabulary"), words_max=6, participations=3, similarity=5645,
    answered_by=300,
)  # fmt: skip


UNSEEN_POLICY = replace(
    POLICY, class_name="decoys-tiny", claim=UNSEEN, hidden=13, hi=4801, gate=False, delta="0", ids=8
)
EXACT_POLICY = replace(
    UNSEEN_POLICY, claim=EXACT, hidden=0, k_max=1, delta="none", epsilon_account="none", period_start=OPENS
)  # fmt: skip


def account(name: str, tenant: str = "acme") -> Account:
    return Account(name, tenant, public(name), digest(f"salt of {name}"))


ACCOUNTS = tuple(sorted((account("alice"), account("bob"), account("carol", "zenith")), key=lambda a: a.pseudonym))
REGISTRY = Registry(ACCOUNTS)
ENROLMENTS = Enrolments(
    digest("salts of enrolments"), tuple(Enrolment(one, 3 * at, at, 2 * at) for at, one in enumerate(ACCOUNTS[:2]))
)
ENROLLED = MerkleTree(enrolment_leaves(ENROLMENTS.secret, 1, ENROLMENTS.lines, 64))
LATE = LateMembership(ENROLMENTS.lines[1].account, 3, leaf_salt(ENROLMENTS.secret, 1, 3), tuple(ENROLLED.path(3)), 11)
TREE = MerkleTree(phase_a.registry_leaves(ACCOUNTS))
TENANTS = tuple(
    TenantIndex(name, D, digest(f"columns of {name}"), digest(f"opening of {name}"), digest(f"texts of {name}"))
    for name in ("acme", "zenith")
)
MANIFEST = Manifest(
    origin=ORIGIN, log=log_digest(LOG_KEY), window=WINDOW, policy=POLICY, embedder=digest("embedder"),
    key_digest=digest("verifying key"),
    tenants=TENANTS, c_seed=scalar("c_seed"), registry_root=TREE.root(), accounts=3, provider_key=public("provider"),
    window_key=public("window"),
    beacon_commitment=beacon_commitment("provider", digest("nonce of provider")),
    auditors=(Seat("auditor", public("auditor")),),
)  # fmt: skip
WINDOW_DIGEST = MANIFEST.digest()
SEAL_PRIVATE = digest("private seal key")


def signed_by(name: str, purpose: str, body: bytes) -> bytes:
    return signature.sign(signing(name), purpose, body)


def beacon_commit(owner: str) -> BeaconCommit:
    sealed = beacon_commitment(owner, digest(f"nonce of {owner}"))
    made = BeaconCommit(WINDOW_DIGEST, owner, public(owner), sealed, bytes(64))
    return replace(made, signature=signed_by(owner, "beacon-commit", made.body()))


def beacon_seal(*owners: str) -> BeaconSeal:
    made = BeaconSeal(WINDOW_DIGEST, owners, bytes(64))
    return replace(made, signature=signed_by("window", "beacon-seal", made.body()))


PREPARE = Prepare(
    WINDOW_DIGEST, account("alice").pseudonym, stream("request id", 16), digest("query salt"), "Wie groß ist ein Maß?",
    bytes([3, 129, 0, 127]),
)  # fmt: skip
REQUEST = Request(
    origin=ORIGIN, window=WINDOW, manifest=WINDOW_DIGEST, account=account("alice").pseudonym, ctr=1,
    request_id=PREPARE.request_id, query_digest=PREPARE.query_digest(), c_e=point("C_e"),
    index_digest=TENANTS[0].digest(), checked=True, nonce=stream("nonce", 16), last_receipt=NO_RECEIPT,
    seal_key=public_of(SEAL_PRIVATE),
)  # fmt: skip
SIGNED_REQUEST = SignedRequest(REQUEST, signed_by("alice", "request", REQUEST.encode()))
RECORD = Record(WINDOW_DIGEST, 0, SIGNED_REQUEST, point("C_y"), (scalar("t_commit"),), OPENS + 120, 0)
SLOT_TEXT = SlotText(
    "box-12", "Zwölf Boxkämpfer\n",
    Metadata((
        MetadataPair("length", Number(bytes.fromhex("4030800000000000"))),  # 16.5
        MetadataPair("pangram", False), MetadataPair("sprache", "Deutsch"),
    )),
)  # fmt: skip
OPENINGS = Openings(
    scalar("t salt"),
    (
        SlotOpening(2, True, (TextOpening(SLOT_TEXT, digest("salt of 2"), (digest("left"), digest("right"))),)),
        SlotOpening(5, False, ()),
    ),
)
ENTRIES = [b"one", b"two", RECORD.encode()]
LOG = MerkleTree(ENTRIES)
NOTE = Checkpoint(ORIGIN, 3, LOG.root()).sign(SIGNER)
BODY = ReceiptBody(WINDOW_DIGEST, REQUEST.digest(), RECORD.digest(), 0, 2, OPENINGS.digest(), digest("sealed"), NOTE)
RECEIPT = Receipt(BODY, signed_by("window", "receipt", BODY.encode()), tuple(LOG.path(2)))
OPENING = Opening((point("A"),), (point("L"), point("R")), (scalar("z 0"), R - 1))
PROOF_ENTRY = ProofEntry(0, RECORD.digest(), points("C_h and C_1", 2), stream("proof", 256), point("C_v"))
LINKS = TenantLinks("acme", 4, digest("records"), True, pack_links([(0, 2), (1, 3)]))
LINK_LIST = LinkList(WINDOW_DIGEST, (LINKS, TenantLinks("zenith", 0, digest("none"), False, b"")))
NORM = SquaredNorm(point("X"), point("T1"), point("T0"), packed("answers", D + 1), scalar("closing"))
BLOCK = BlockProof(point("C_G"), point("C_s"), NORM, stream("block proof", 256))
COIN_POINTS = CoinPoints(
    (point("C_p"), point("C_p'")), (point("C_h"), point("C_h'")), (point("C_c"), point("C_c'")), point("C_x")
)  # fmt: skip
COIN_PROOF = CoinProof(COIN_POINTS, stream("thinning proof", 256), OPENING, OPENING)
THINNED_SHARD = ThinnedShard(point("W'"), COIN_PROOF)
THINNED = ThinnedFile(points("thinned columns", D), OPENING, (THINNED_SHARD,))
EMPTIED_SHARD = EmptiedShard(point("W"), point("W'"), COIN_PROOF)
EMPTIED = EmptiedFile(points("version", D), OPENING, (EMPTIED_SHARD,))
UPDATED = tuple(EMPTIED.entry(name, digest(f"texts of {name}")) for name in ("acme", "zenith"))
OF_UNSEEN = Claimed(UNSEEN, "2.98023", "inf", "0", ANY, ANY, OPENS - OPENS % 60, 0, "", ())
OF_EXACT = Claimed(EXACT, NONE, "", NONE, NONE, NONE, 0, 0, "", ())
CLAIMED = Claimed(UNTIL_DELIVERED, "2.98023", "5.96317", "1e-06", ANY, ANY, OPENS - OPENS % 60, 3, "8.94069", ("late",))
OF_ACME, OF_ZENITH = replace(OF_EXACT, tenants=("acme",)), replace(CLAIMED, tenants=("zenith",))
VERDICT = AuditVerdict(
    WINDOW_DIGEST, log_digest(LOG_KEY), public("auditor"), digest("envelope"), "PASS", (CLAIMED,), bytes(64)
).signed(signing("auditor"))
VERDICT_ENTRY = VerdictEntry(
    public("auditor"), digest("envelope"), log_digest(LOG_KEY), ORIGIN, WINDOW, (WINDOW_DIGEST,), "PASS", (CLAIMED,),
    OPENS + 9000,
)  # fmt: skip
#: The log of LOG turns its key behind its last entry; both keys sign the note of the size with the turn in it.
NEXT_SIGNER = NoteSigner(ORIGIN, signing("next log key"))
_TURNING = LogSigner(LogKey.of(SIGNER.verifier), (NEXT_SIGNER, SIGNER))
ROTATION = _TURNING.turn(NEXT_SIGNER, len(LOG), LOG.root(), 3)
_TURNED = MerkleTree([*ENTRIES, ROTATION.encode()])
TURN_PROOF = TurnProof(
    ROTATION, tuple(_TURNED.path(len(LOG))),
    _TURNING.turned(ROTATION).note(Checkpoint(ORIGIN, len(_TURNED), _TURNED.root())),
)  # fmt: skip
ASKED = (WINDOW_DIGEST, OPENS + 7200, stream("ask nonce", 16))

ANSWER = Answer(RECORD, OPENINGS, RECEIPT)
PROBE = ProbeStatement(
    WINDOW_DIGEST, public("observer-1"), (Planted("acme", "a canary"), Planted("zenith", "its replacement")), (1, 0),
    (ProbeAnswer(digest("salt of a probe's question"), "a canary", ANSWER),), bytes(64),
).signed(signing("observer-1"))  # fmt: skip

#: One of each message, in the order of the phases.
SAMPLES: tuple[Message, ...] = (
    POLICY, TENANTS[0], ACCOUNTS[0], REGISTRY, AccountAsk(WINDOW_DIGEST, "alice"),
    Membership(ACCOUNTS[1], 1, tuple(TREE.path(1))), MANIFEST,
    SignedManifest(MANIFEST, signed_by("provider", "manifest", MANIFEST.encode())),
    MANIFEST.auditors[0], beacon_commit("auditor"), BeaconOpening(WINDOW_DIGEST, "auditor", digest("nonce of auditor")),
    beacon_seal("provider", "observer-1", "auditor"), CoinCommitment(scalar("c_coin"), digest("thinning key")),
    COIN_POINTS, COIN_PROOF,
    THINNED.entry("acme"), Thinning(WINDOW_DIGEST, (THINNED.entry("acme"), THINNED.entry("zenith"))), THINNED_SHARD,
    THINNED,
    UPDATED[0], IndexUpdate(WINDOW_DIGEST, 1, OPENS + 60, UPDATED, digest("accounts of version 1")), EMPTIED_SHARD,
    EMPTIED,
    ENROLMENTS.lines[1], ENROLMENTS, LATE,
    WindowOpen(WINDOW_DIGEST, scalar("beacon"), OPENS + 60),
    WindowClose(WINDOW_DIGEST, 1, OPENS + 3000), CLAIMED, VERDICT, VERDICT_ENTRY, ROTATION, TURN_PROOF,
    IndexFile(points("columns", D), OPENING),
    EmbedderIdentity(
        digest("weights"), digest("tokenizer"), '{"kind":"bert"}', "mean", 256, "query: ", "", 384, QUANTISATION
    ),
    DeclaredIdentity("openai", "text-embedding-3-small", 1536, False, UNIT, QUANTISATION),
    PREPARE, REQUEST, SIGNED_REQUEST, AnswerAsk(WINDOW_DIGEST, REQUEST.account, 1, REQUEST.seal_key),
    Prepared(PREPARE.request_id, PREPARE.embedding, REQUEST.c_e, scalar("r"), REQUEST.index_digest),
    RECORD, SLOT_TEXT.metadata.pairs[0], SLOT_TEXT.metadata, SLOT_TEXT,
    OPENINGS.slots[0].texts[0], OPENINGS.slots[0], OPENINGS, BODY, RECEIPT,
    SealedAnswer(RECORD, stream("sealed", 60), RECEIPT),
    ANSWER, RegistryAsk(*ASKED), ProofsAsk(*ASKED, (0, 2, 7)), LinksAsk(*ASKED),
    BlocksAsk(*ASKED, digest("estimate key"), "acme", ((0, 1, 2), (1, 3))),
    Delivery.sign(signing("window"), RegistryAsk(*ASKED).digest(), REGISTRY.encode()),
    Refusal.sign(signing("window"), LinksAsk(*ASKED).digest(), "the window is not closed"),
    OPENING, PROOF_ENTRY, SameEmbeddingOpening("acme", OPENING),
    ProofBatch(
        WINDOW_DIGEST,
        (
            PROOF_ENTRY,
            ProofEntry(1, digest("record 1"), points("C_h and C_1 of 1", 2), stream("proof 1", 256), point("C_v of 1")),
        ),
        (SameEmbeddingOpening("acme", OPENING),), (OPENING, OPENING),
    ),
    NORM, LINKS, LINK_LIST, SignedLinks(LINK_LIST, signed_by("window", "links", LINK_LIST.encode())), BLOCK,
    BlockBatch(LINK_LIST.digest(), (BLOCK,), OPENING),
    InclusionBundle(2, tuple(LOG.path(2)), NOTE),
    PROBE.planted[0], PROBE.answers[0], PROBE,
)  # fmt: skip
BY_TAG = {made.TAG: made for made in SAMPLES}

_Y8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7  #: of two points of order 8


def split(made: Message) -> list[tuple[str, Any, bytes]]:
    """Head and fields of a message: (name, codec, bytes), which joined are its encoding."""
    out: list[tuple[str, Any, bytes]] = []
    size = 3 + len(made.TAG)
    every = list(zip(fields(made), made.CODECS, strict=True))  # type: ignore[arg-type]
    for field, codec in every if made.version() > 1 or not made.LATER else every[: -made.LATER]:
        data = bytearray()
        codec.write(getattr(made, field.name), data)
        out.append((field.name, codec, bytes(data)))
    return [("", None, made.encode()[:size]), *out]


#: Of a field's codec: (what a file is called, bytes in place of the field's, the error's text, about).
_LONG = b"\xff\xff\xff\xff"


def spoiled(codec: Any, data: bytes) -> Iterator[tuple[str, bytes, str, str]]:
    match codec:
        case encoding.Element():
            yield "not-below-r", R.to_bytes(32, "big"), ">= r", "an element that is r itself, a second name of 0"
        case encoding.Flag():
            yield "flag-of-2", b"\x02", "a flag is 0 or 1", "a flag that is neither 0 nor 1"
        case encoding.PublicKey():
            yield "small-order-key", b"\x01" + bytes(31), "small order", "an Ed25519 key of order 1"
            yield "order-8-key", _Y8.to_bytes(32, "little"), "small order", "an Ed25519 key of order 8"
            high = (FIELD_PRIME + 3).to_bytes(32, "little")
            yield "second-name-of-a-key", high, "canonical", "an Ed25519 key whose y is not below 2^255 - 19"
        case encoding.Text(_, True):
            spaced = data[:4] + b" " + data[5:]
            yield "name-with-a-space", spaced, "printable ASCII", "an identifier with a space in it"
            yield "empty-name", bytes(4), "printable ASCII", "an identifier of no characters"
        case encoding.Text():
            yield "not-utf-8", b"\x00\x00\x00\x01\xff", "not UTF-8", "text that is not UTF-8"
            yield "surrogate", b"\x00\x00\x00\x03\xed\xa0\x80", "not UTF-8", "text that holds half a surrogate pair"
        case Characters(least, most):
            yield "not-utf-8", b"\x00\x00\x00\x01\xff", "not UTF-8", "text that is not UTF-8"
            yield "character-too-many", _text("\u20ac" * (most + 1)), "characters, where", "a character too many"
            if least:
                yield "no-character", bytes(4), "0 characters, where", "no character"
        case MetadataValue():
            kinds = "text, a boolean or a number"
            yield "a-fourth-kind", b"\x03" + data[1:], kinds, "a value that is neither text, boolean nor number"
            yield "flag-of-2", b"\x01\x02", "a flag is 0 or 1", "a boolean that is neither 0 nor 1"
            yield "value-too-long", b"\x00" + _text("\u20ac" * 513), "513 characters", "text of 513 characters"
            for name, bits, why in (
                ("not-a-number", "7ff8000000000000", "finite"), ("signalling", "fff0000000000001", "finite"),
                ("infinite", "7ff0000000000000", "finite"), ("below-everything", "fff0000000000000", "finite"),
                ("zero-below-zero", "8000000000000000", "zero has no sign"),
            ):  # fmt: skip
                yield name, b"\x02" + bytes.fromhex(bits), why, f"a number that is {name.replace('-', ' ')}"
        case encoding.Points(limit):
            size = codec.width
            yield "no-points", bytes(size) + data[size:], "0 points announced", "no point"
            yield (
                "points-too-many",
                (limit + 1).to_bytes(size, "big") + data[size:],
                "points announced",
                "a point too many",
            )
        case encoding.Blob():
            yield "oversized", _LONG + data[4:], "oversized", "a length of 2^32 - 1"
        case encoding.Elements(limit):
            yield "not-below-r", R.to_bytes(32, "big"), ">= r", "an element that is r itself, a second name of 0"
            yield "one-announced", b"\x81" + data, "announced", "one element, announced as several are"
            yield "too-many", bytes([0x81 + limit]) + data, "announced", "more elements than can stand"
        case encoding.Many():
            yield "too-many", _LONG + data[4:], "oversized", "a count of 2^32 - 1"


def _text(value: str) -> bytes:
    data = value.encode()
    return len(data).to_bytes(4, "big") + data


#: A window of unseen with one tenant of a lower claim.
MIXED = replace(
    MANIFEST, policy=UNSEEN_POLICY, tenants=(replace(TENANTS[0], claim=EXACT), TENANTS[1]),
    coins=(CoinCommitment(scalar("C_coin"), digest("thinning key")),),
)  # fmt: skip


def add(book: Book) -> None:
    for made in SAMPLES:
        _message(book, made)
    _rules(book)


def _message(book: Book, made: Message) -> None:
    tag, data = made.TAG, made.encode()
    where = f"messages/{tag}"
    book.valid(f"{where}/valid", "message", "G.1", f"A {tag} that is accepted.", tag=tag, bytes=data)
    if tag in DIGESTS:
        book.valid(f"{where}/digest", "message-digest", "G.2", f"What names a {tag}.", tag=tag, bytes=data)

    def refused(name: str, text: str, about: str, changed: bytes) -> None:
        book.refused(
            f"{where}/{name}", "message", "G.1", f"A {tag}: {about}.", "EncodingError", text, tag=tag, bytes=changed
        )

    refused("truncated", "truncated", "its last byte is missing", data[:-1])
    refused("one-byte-more", "bytes too many", "a byte follows it", data + b"\0")
    at = 1 + len(tag)
    newest = 3 if made.LATER else 2  # a version that no program knows
    refused(
        f"version-{newest}",
        f"protocol version {newest}",
        f"of version {newest}",
        data[:at] + newest.to_bytes(2, "big") + data[at + 2 :],
    )
    other = b"X" + data[2:at]
    refused("another-tag", f"not a {tag} message", "another letter in its tag", data[:1] + other + data[at:])
    parts, seen = split(made), set[str]()
    for number, (name, codec, own) in enumerate(parts):
        for kind, wrong, text, about in spoiled(codec, own):
            if kind in seen or (codec is RATIONAL):
                continue
            seen.add(kind)
            changed = b"".join(wrong if k == number else part for k, (_, _, part) in enumerate(parts))
            refused(kind, text, f"in {name} {about}", changed)


def _rules(book: Book) -> None:
    """What the types of fields alone cannot say."""

    def refused(made: Message, name: str, clause: str, error: str, text: str, about: str, **changes: Any) -> None:
        data = changes.pop("data", None) or replace(made, **changes).encode()  # type: ignore[type-var]
        path = f"messages/{made.TAG}/{name}"
        book.refused(path, "message", clause, f"A {made.TAG}: {about}.", error, text, tag=made.TAG, bytes=data)

    policy: Sequence[tuple[str, str, str, dict[str, Any]]] = (
        ("delta-of-1", "delta must lie strictly", "delta is 1", {"delta": "1"}),
        ("not-in-lowest-terms", "lowest terms", "delta is 2/4", {"delta": "2/4"}),
        ("exponent", "no rational number", "delta is 1e-6", {"delta": "1e-6"}),
        ("theta-above-1", "theta must lie", "theta is 3/2", {"theta": "3/2"}),
        ("empty-score-window", "score window", "lo is hi", {"hi": POLICY.lo}),
        ("negative-score", "score window", "lo is negative", {"lo": -1}),
        ("no-gain", "gain", "gain is 0", {"gain": 0}),
        ("no-queries", "n_max", "n_max is 0", {"n_max": 0}),
        ("tau-time-of-seconds", "tau_time must be 0 or a multiple of 60", "tau_time is 90 s", {"tau_time": 90}),
        (
            "tau-time-of-years",
            "tau_time must be 0 or a multiple of 60",
            "tau_time is a minute more than 366 days",
            {"tau_time": 366 * 86_400 + 60},
        ),
        ("other-unit", "privacy unit", "the unit is a document", {"unit": "document"}),
        ("no-shards", "shards must lie", "an index of no shards", {"shards": 0}),
        ("shards-too-many", "shards must lie", "an index of 65 shards", {"shards": 65}),
        ("closes-before-it-opens", "opens < closes", "it closes when it opens", {"closes": POLICY.opens}),
        (
            "open-for-years",
            "366 days",
            "it is open for a second more than 366 days",
            {"closes": POLICY.opens + 366 * 86_400 + 1},
        ),
    )
    for name, text, about, changes in policy:
        refused(POLICY, name, "A.6", "PolicyError", text, about, **changes)
    late = ANSWERS_POLICY.answered_by
    book.valid(
        "messages/policy/of-answers", "message", "A.14.7", f"A policy of answers in words, {late} s after requests.",
        tag=ANSWERS_POLICY.TAG, bytes=replace(ANSWERS_POLICY, version_every=late + 60).encode(),
    )  # fmt: skip
    for name, text, about, changes in (
        ("answers-at-once", "from 1 to 300 s", "answers 0 s after their requests", {"answered_by": 0}),
        ("answers-too-late", "from 1 to 300 s", "answers 301 s after their requests", {"answered_by": 301}),
        ("answers-later-than-versions", "60 s below version_every", "answers as late as the next version of the index",
         {"version_every": late}),
        ("answers-of-no-window", "no request could be answered", "answers later than its window is open",
         {"closes": POLICY.opens + late - 1}),
    ):  # fmt: skip
        refused(ANSWERS_POLICY, name, "A.14.7", "PolicyError", text, about, **changes)
    for name, made, about in (
        ("of-unseen", UNSEEN_POLICY, "A policy with coins and without decoys."),
        ("of-exact", EXACT_POLICY, "A policy of a window in which nothing is private."),
    ):
        book.valid(f"messages/policy/{name}", "message", "D.23", about, tag=made.TAG, bytes=made.encode())
    for name, claimed in (("of-unseen", OF_UNSEEN), ("of-exact", OF_EXACT), ("of-a-tenant", OF_ACME)):
        about = f"What a PASS of the claim {claimed.claim} claims."
        book.valid(f"messages/claimed/{name}", "message", "D.12.5", about, tag=claimed.TAG, bytes=claimed.encode())
    for name, text, about, changes in (
        ("unseen-with-decoys", "decoy_rate must be 0", "lists of unseen with decoys", {"decoy_rate": 1 << 16}),
        ("unseen-with-a-delta", "delta must be 0", "a delta of a claim that takes none", {"delta": "1/1000000"}),
        ("unseen-without-a-coin", "needs a coin", "unseen, and nothing is hidden", {"hidden": 0}),
    ):
        refused(UNSEEN_POLICY, name, "D.23", "PolicyError", text, about, **changes)
    for name, text, about, changes in (
        ("exact-with-decoys", "decoy_rate must be 0", "lists of exact with decoys", {"decoy_rate": 1 << 16}),
        ("exact-with-a-coin", "has no coin", "exact, and slots are hidden", {"hidden": 13}),
        ("exact-with-a-delta", "delta must be none", "a delta of what bounds nothing", {"delta": "1/1000000"}),
        ("exact-with-an-epsilon", "epsilon_account must be none", "an epsilon of what bounds nothing",
         {"epsilon_account": "4"}),
        ("exact-with-a-coalition", "k_max must be 1", "a coalition of what bounds nothing", {"k_max": 2}),
        ("exact-with-a-gate", "gate must be False", "an estimate gates what bounds nothing", {"gate": True}),
        ("exact-of-two-slots", "chunks_max must be 1", "documents of two slots", {"chunks_max": 2}),
        ("exact-of-a-period", "period_start must be", "a budget period of what spends none",
         {"period_start": POLICY.period_start}),
        ("exact-with-a-guard", "guard must be off", "a text is withheld of an exact answer",
         {"guard": "returned", "guard_rho": "1/20", "guard_formula": "precise"}),
    ):  # fmt: skip
        refused(EXACT_POLICY, name, "D.23", "PolicyError", text, about, **changes)
    for name, text, about, changes in (
        ("turn-0", "numbered 1 to 64", "its number is 0", {"number": 0}),
        ("turn-65", "numbered 1 to 64", "its number is 65", {"number": 65}),
        ("same-key", "another one than its old key", "it turns to its old key", {"new_key": ROTATION.old_key}),
        ("no-overlap", "the size behind the turn", "not even its own size has both lines", {"until": ROTATION.index}),
        (
            "endless-overlap",
            "sizes longer",
            "the overlap is a size too long",
            {"until": ROTATION.index + 2 + (1 << 20)},
        ),
    ):
        refused(ROTATION, name, "G.6.13", "EncodingError", text, about, **changes)
    wrong: Callable[..., None] = refused
    wrong(
        MANIFEST, "unsorted-tenants", "A.1", "CommitmentError", "distinct and sorted",
        "its tenants are not sorted", tenants=TENANTS[::-1],
    )  # fmt: skip
    wrong(MANIFEST, "no-tenant", "A.1", "CommitmentError", "at least one", "it has no tenant", tenants=())
    other = replace(TENANTS[1], dimension=D + 1)
    wrong(
        MANIFEST, "another-dimension", "A.1", "CommitmentError", "another dimension",
        "an index has one dimension more than the policy", tenants=(TENANTS[0], other),
    )  # fmt: skip
    book.valid(
        "messages/manifest/of-two-claims", "message", "D.24", "A window of unseen in which nothing of acme is private.",
        tag=MIXED.TAG, bytes=MIXED.encode(),
    )  # fmt: skip
    for name, text, about, claims in (
        ("claim-not-below", "none below the", "a tenant's claim is above the policy's", (UNTIL_DELIVERED, "")),
        ("claim-twice-said", "none below the", "a tenant's claim is written although it is the policy's", (UNSEEN, "")),
        ("unknown-claim", "none below the", "a tenant's claim is none", ("everything", "")),
        ("nobody-has-its-claim", "the highest of them", "no tenant has the policy's claim", (EXACT, EXACT)),
    ):
        tenants = tuple(replace(one, claim=claim) for one, claim in zip(TENANTS, claims, strict=True))
        wrong(MIXED, name, "D.24", "CommitmentError", text, about, tenants=tenants)
    for verdict, clause in ((VERDICT, "D.20"), (VERDICT_ENTRY, "D.19")):
        book.valid(
            f"messages/{verdict.TAG}/of-two-claims", "message", "D.24", "A PASS with a claim for each of two tenants.",
            tag=verdict.TAG, bytes=replace(verdict, claimed=(OF_ACME, OF_ZENITH)).encode(),
        )  # fmt: skip
        for name, why, what, several in (
            ("claims-out-of-order", "the weakest first", "the stronger claim comes first", (OF_ZENITH, OF_ACME)),
            ("a-tenant-twice", "a tenant has one claim", "a tenant has two claims",
             (OF_ACME, replace(OF_ZENITH, tenants=("acme",)))),
            ("a-claim-of-nobody", "names its tenants", "one of two claims names no tenant",
             (OF_ACME, replace(OF_ZENITH, tenants=()))),
            ("one-claim-of-a-tenant", "names none", "the only claim is about one tenant", (OF_ZENITH,)),
        ):  # fmt: skip
            wrong(verdict, name, clause, "EncodingError", why, what, claimed=several)
        wrong(
            verdict, "a-fifth-word", clause, "EncodingError", "a verdict is one of",
            "it ends in none of the four outcomes", outcome="PASSED",
        )  # fmt: skip
        wrong(
            verdict, "a-fail-with-epsilon", clause, "EncodingError", "has no epsilon",
            "a FAIL with an epsilon", outcome="FAIL",
        )  # fmt: skip
        wrong(
            verdict, "a-pass-without-a-claim", clause, "EncodingError", "names its claim",
            "a PASS that does not say what its epsilon is about", claimed=(),
        )  # fmt: skip
        for name, why, what, changed in (
            ("epsilon-of-words", "plain decimal number", "a PASS whose epsilon is no number", {"epsilon": "small"}),
            ("no-return", "plain decimal number", "a PASS of until-delivered without a return", {"returned": ""}),
            ("another-claim", "none of this version", "a PASS of a claim that nobody defined", {"claim": "everything"}),
            ("a-coalition-of-two", "coalition of the claim", "until-delivered for two accounts", {"coalition": "2"}),
            ("half-a-minute", "whole minute", "a period that begins within a minute", {"period_from": 30}),
            ("left-out-in-silence", "named together", "windows left out, without epsilon of the whole log",
             {"epsilon_log": ""}),
            ("word-twice", "named in order", "what rests on the provider's word stands twice",
             {"word": ("late", "late")}),
        ):  # fmt: skip
            wrong(verdict, name, clause, "EncodingError", why, what, claimed=(replace(CLAIMED, **changed),))
        rungs: tuple[tuple[str, Claimed, str, str, dict[str, Any]], ...] = (
            ("unseen-with-a-return", OF_UNSEEN, "bounds no return", "a return without decoys", {"returned": "6"}),
            ("unseen-with-a-delta", OF_UNSEEN, "takes a delta", "a delta that nothing takes", {"delta": "1e-06"}),
            ("exact-with-epsilon-0", OF_EXACT, "says none", "epsilon 0 of what bounds nothing", {"epsilon": "0"}),
            ("exact-with-delta-0", OF_EXACT, "says none", "delta 0 of what bounds nothing", {"delta": "0"}),
            ("exact-for-any", OF_EXACT, "says none", "any coalition, of what bounds nothing", {"coalition": ANY}),
            ("exact-with-a-return", OF_EXACT, "says none", "a return of what bounds nothing", {"returned": "inf"}),
            ("exact-of-a-period", OF_EXACT, "says none", "a period of what bounds nothing", {"period_from": 60}),
            ("exact-on-its-word", OF_EXACT, "says none", "late documents under coins that there are not",
             {"word": ("late",)}),
        )  # fmt: skip
        for name, of, why, what, differs in rungs:
            wrong(verdict, name, clause, "EncodingError", why, what, claimed=(replace(of, **differs),))
    wrong(
        MANIFEST, "its-own-auditor", "A.8", "CommitmentError", "not its own auditor",
        "the provider's key is the auditor's", auditors=(Seat("auditor", MANIFEST.provider_key),),
    )  # fmt: skip
    wrong(MANIFEST, "no-auditor", "A.1", "CommitmentError", "one auditor at least", "it has no auditor", auditors=())
    seat = MANIFEST.auditors[0]
    wrong(
        MANIFEST, "two-seats-of-a-key", "A.8.6", "CommitmentError", "a name and a key of its own",
        "one key has two seats", auditors=(seat, replace(seat, owner="auditor-b")),
    )  # fmt: skip
    wrong(
        seat, "an-observers-name", "A.8.6", "CommitmentError", "an auditor is called", "an observer's name",
        owner="observer-1",
    )  # fmt: skip
    wrong(
        REQUEST, "small-order-seal-key", "G.4", "AttestationError", "nothing can be sealed",
        "a seal key of order 1", seal_key=bytes(32),
    )  # fmt: skip
    first, *others = SLOT_TEXT.metadata.pairs
    for name, about, pairs in (
        ("unsorted", "its keys are not sorted", (*others, first)),
        ("key-twice", "one key stands twice", (first, replace(first, value="other"), *others)),
        ("sorted-by-utf-16", "its keys are sorted by UTF-16, not by code points",
         (replace(first, key="\U0001f600"), replace(first, key="\uff21"))),
    ):  # fmt: skip
        wrong(SLOT_TEXT.metadata, name, "A.4", "CommitmentError", "sorted by key", about, pairs=pairs)
    wrong(RECORD, "uneven-time", "B.3", "AttestationError", "multiple of 60", "its time is no minute", time=OPENS + 1)
    wrong(RECORD, "unknown-mode", "B.3", "AttestationError", "unknown proof mode", "a proof mode of 2", proof_mode=2)
    wrong(
        RECORD, "another-window", "B.3", "AttestationError", "another window",
        "its request is about another window", manifest=digest("other window"),
    )  # fmt: skip
    wrong(LINKS, "links-truncated", "C.3", "EstimateError", "truncated", "half a link at the end", packed=bytes(12))
    for name, about, links in (
        ("link-to-itself", "a record linked to itself", [(1, 1)]),
        ("unsorted-links", "links in decreasing order", [(1, 3), (0, 2)]),
        ("link-twice", "one link twice", [(0, 2), (0, 2)]),
        ("link-to-no-record", "a link to a record that there is not", [(0, 4)]),
    ):
        wrong(LINKS, name, "C.3", "EstimateError", "strictly increasing", about, packed=pack_links(links))
    wrong(
        LINKS, "spanning-with-a-circle", "C.3", "EstimateError", "fewer than records",
        "a spanning list of as many links as records", complete=False,
        packed=pack_links([(0, 1), (0, 2), (0, 3), (1, 2)]),
    )  # fmt: skip
    for name, about, changes in (
        ("other-quantisation", "a quantisation that nobody knows", {"quantisation": "int4"}),
        ("no-dimension", "a dimension of 0", {"dimension": 0}),
    ):
        text = "quantisation" if "quantisation" in changes else "dimension"
        wrong(BY_TAG["embedder"], name, "A.2", "EncodingError", text, about, **changes)
        wrong(BY_TAG["declared-embedder"], name, "A.2", "EncodingError", text, about, **changes)
    wrong(
        BY_TAG["declared-embedder"], "other-normalisation", "A.2", "EncodingError", "normalisation 'unit'",
        "a normalisation that nobody knows", normalisation="none",
    )  # fmt: skip


def asks() -> tuple[Message, ...]:
    return tuple(BY_TAG[kind.TAG] for kind in inquiry.ASKS)
