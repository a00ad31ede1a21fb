# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase B, attestation: requests, records, answers and receipts.  SPEC B.1 to B.4.

One request takes two messages.  The provider fixes C_e before it sees the client's signed nonce, so it cannot choose e
knowing the noise; the client signs everything the noise depends on, so the provider cannot choose the noise either.

The signed request stands in the public ledger, so it is no credential: an answer is sealed to a key that the request
names and whose private half the client keeps, and it is fetched with a second signature that no entry holds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from ragseal.kernel import field, signature
from ragseal.kernel.bn254 import Group
from ragseal.kernel.commitment import ScoreBases
from ragseal.kernel.encoding import (
    ELEMENT,
    FLAG,
    HASH,
    NAME,
    POINT,
    SIGNATURE,
    U8,
    U32,
    U64,
    Blob,
    Codec,
    Elements,
    Fixed,
    Many,
    Message,
    Nested,
    Points,
    Text,
)
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.params import MAX_LISTED, MAX_SHARDS
from ragseal.kernel.policy import MAX_DIMENSION, Policy
from ragseal.kernel.sealing import OVERHEAD, SEAL_KEY_BYTES, check_seal_key, seal, unseal
from ragseal.kernel.slot_text import NO_SALT, SlotText, is_keyword
from ragseal.kernel.statement import Returned
from ragseal.kernel.transcript import tagged_element, tagged_hash

COARSE_TIME = 60  #: seconds; record times are multiples of it
MAX_QUERY_BYTES = 1 << 16
MAX_OPENINGS_BYTES = 1 << 26
MAX_ANSWER_BYTES = 1 << 16
NO_RECEIPT = bytes(32)  #: acknowledgement of an account's first request

ON_DEMAND, EAGER = 0, 1  #: proof modes


# --- the request -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Prepare(Message):
    """First message: the query, and the client's own e where it has the embedder (empty otherwise)."""

    TAG: ClassVar[str] = "prepare"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, NAME, Fixed(16), Fixed(32), Text(MAX_QUERY_BYTES), Blob(MAX_DIMENSION))

    manifest: bytes  #: digest of the window's manifest
    account: str  #: its pseudonym in this window
    request_id: bytes  #: chosen by the account; names this query in the request too
    salt: bytes  #: of h_q, uniform
    query: str  #: the question itself
    embedding: bytes  #: int8 entries, or empty

    def query_digest(self) -> bytes:
        """h_q = H(tag, salt, length, q)."""
        return tagged_hash("query", self.salt, self.query.encode("utf-8"))


@dataclass(frozen=True, slots=True)
class Prepared(Message):
    """The provider's answer to Prepare: e, the opening of C_e and the index version."""

    TAG: ClassVar[str] = "prepared"
    CODECS: ClassVar[Sequence[Codec]] = (Fixed(16), Blob(MAX_DIMENSION), POINT, ELEMENT, HASH, U64)

    request_id: bytes  #: the Prepare's
    embedding: bytes  #: e, d int8 entries
    c_e: bytes  #: C_e
    blinder: int  #: r, with which C_e opens to e
    index_digest: bytes  #: of the index version that the answer will be over
    update: int = 0  #: ledger index of the update that the version is of; 0: the manifest names it


@dataclass(frozen=True, slots=True)
class Request(Message):
    """What the account signs.  SPEC B.2."""

    TAG: ClassVar[str] = "request"
    CODECS: ClassVar[Sequence[Codec]] = (
        NAME, NAME, HASH, NAME, U32, Fixed(16), HASH, POINT, HASH, FLAG, Fixed(16), HASH, Fixed(SEAL_KEY_BYTES),
    )  # fmt: skip

    origin: str  #: the ledger's name
    window: str  #: the window's name
    manifest: bytes  #: digest of the window's manifest
    account: str  #: its pseudonym in this window
    ctr: int  #: 1, 2, 3, ... for each account
    request_id: bytes  #: the Prepare's
    query_digest: bytes  #: h_q = H("query", salt, q)
    c_e: bytes  #: C_e, as it was prepared
    index_digest: bytes  #: of the index version: H("index-version", tenant-index), or of an update as SPEC A.12 has it
    checked: bool  #: the opened e equals the client's own, entry by entry
    nonce: bytes  #: uniform; the provider has not seen it when it fixes C_e
    last_receipt: bytes  #: H("receipt", receipt) of the account's last one, zeros for the first
    seal_key: bytes  #: fresh X25519 key to which the answer is sealed; its private half never leaves the client

    def digest(self) -> bytes:
        return tagged_hash("request", self.encode())

    def ctx(self) -> int:
        """31 bytes over exactly the bytes that the client signed; nothing that the provider chooses is in it."""
        return tagged_element("ctx", self.encode())

    def validate(self) -> None:
        check_seal_key(self.seal_key)


@dataclass(frozen=True, slots=True)
class SignedRequest(Message):
    """The request under its account's signature, as records hold it.  SPEC B.2."""

    TAG: ClassVar[str] = "signed-request"
    CODECS: ClassVar[Sequence[Codec]] = (Nested(Request), SIGNATURE)

    request: Request  #: what is signed
    signature: bytes  #: of the account's key, purpose "request"

    def verify(self, public_key: bytes) -> None:
        """Raises AttestationError unless signed by the account's registered key."""
        signature.verify(public_key, "request", self.request.encode(), self.signature)

    def verify_retrieval(self, public_key: bytes, proof: bytes) -> None:
        """``proof`` shows that the account itself asks for the answer: no ledger entry holds this signature.

        Raises:
            AttestationError: it is not the account's over exactly this signed request.
        """
        signature.verify(public_key, "retrieve", self.encode(), proof)


@dataclass(frozen=True, slots=True)
class AnswerAsk(Message):
    """An account asks for an answer that it paid for and lacks; signed with purpose "retrieve".  SPEC B.4.11."""

    TAG: ClassVar[str] = "answer-ask"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, NAME, U32, Fixed(SEAL_KEY_BYTES))

    manifest: bytes  #: digest of the window's manifest, which names log and window
    account: str  #: its pseudonym in this window
    ctr: int  #: number of the request that was answered
    seal_key: bytes  #: fresh X25519 key to which the answer is sealed for this ask alone

    def verify(self, public_key: bytes, proof: bytes) -> None:
        """Raises AttestationError unless ``proof`` is the account's signature."""
        signature.verify(public_key, "retrieve", self.encode(), proof)

    def about(self, record_digest: bytes) -> bytes:
        """What both sides agree that the sealed text is: the answer of this record, for this ask."""
        return tagged_hash("reseal-info", self.encode(), record_digest)

    def validate(self) -> None:
        check_seal_key(self.seal_key)


@dataclass(frozen=True, slots=True)
class Record(Message):
    """The ledger's entry of one answered query.  SPEC B.3."""

    TAG: ClassVar[str] = "record"
    CODECS: ClassVar[Sequence[Codec]] = (
        HASH, U64, Nested(SignedRequest), Points(MAX_SHARDS), Elements(MAX_SHARDS), U64, U8,
    )  # fmt: skip

    manifest: bytes  #: digest of the window's manifest; equal to the request's
    seq: int  #: 0, 1, 2, ... inside the window
    signed: SignedRequest  #: the account's request
    c_y: bytes  #: C_y of every shard of the index, in order
    t_commits: tuple[int, ...]  #: commitments to T, SPEC B.6.5: of noise one, of decoys one of every shard
    time: int  #: seconds since 1970, a multiple of 60, never below that of a record before
    proof_mode: int  #: 0: proven when an auditor asks; 1: proven at once

    def digest(self) -> bytes:
        return tagged_hash("record", self.encode())

    def validate(self) -> None:
        if self.time % COARSE_TIME:
            raise AttestationError(f"a record's time is a multiple of {COARSE_TIME} s")
        if self.proof_mode not in (ON_DEMAND, EAGER):
            raise AttestationError("unknown proof mode")
        if self.signed.request.manifest != self.manifest:
            raise AttestationError("the record's request belongs to another window")


def score_commitment(group: Group, columns: bytes, bases: ScoreBases, e: Sequence[int], rho: int) -> bytes:
    """C_y = sum_j e_j C_j + rho B."""
    return group.msm(columns + bases.b, field.pack([*e, rho]))


# --- the answer ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class TextOpening(Message):
    """What is committed for one slot: a document's id, text and metadata."""

    TAG: ClassVar[str] = "text-opening"
    CODECS: ClassVar[Sequence[Codec]] = (Nested(SlotText), Fixed(32), Many(HASH, 32))

    content: SlotText  #: id, words and metadata
    salt: bytes  #: of the slot's leaf
    path: tuple[bytes, ...]  #: RFC 6962 inclusion path in the text tree


@dataclass(frozen=True, slots=True)
class SlotOpening(Message):
    """One returned slot: its flag, and the text where the flag is set."""

    TAG: ClassVar[str] = "slot-opening"
    CODECS: ClassVar[Sequence[Codec]] = (U32, FLAG, Many(Nested(TextOpening), 1))

    slot: int  #: its id: its number in the index, from 0
    flag: bool  #: whether the clipped score is above 0, SPEC M.5
    texts: tuple[TextOpening, ...]  #: one where the flag is set and no guard withholds it, else none

    @property
    def content(self) -> SlotText | None:
        """What there is to read; None where nothing is opened."""
        return self.texts[0].content if self.texts else None


@dataclass(frozen=True, slots=True)
class Openings(Message):
    """What the account learns: T in increasing slot order with its flags, its commitment's salt, and the texts."""

    TAG: ClassVar[str] = "openings"
    CODECS: ClassVar[Sequence[Codec]] = (ELEMENT, Many(Nested(SlotOpening), MAX_LISTED), Text(MAX_ANSWER_BYTES))

    t_salt: int  #: salt of T's commitment
    slots: tuple[SlotOpening, ...]  #: K of them, in increasing order of slots
    answer: str = ""  #: of the claim answers written from the question and the keywords of T; else empty

    def digest(self) -> bytes:
        return tagged_hash("openings", self.encode())

    def returned(self) -> list[Returned]:
        """T, in the order of ``slots``."""
        return [Returned(slot.slot, slot.flag) for slot in self.slots]

    def check_claim(self, policy: Policy) -> None:
        """What the window's claim lets an answer hold (SPEC B.4.7).

        Raises:
            AttestationError: a written answer where documents are returned; of answers a keyword without its flag,
                which only its count could have taken from it, or a text that is no keyword.
        """
        if not policy.answers and self.answer:
            raise AttestationError(f"a written answer came in a window of the claim {policy.claim}")
        if policy.answers and not all(slot.flag for slot in self.slots):
            raise AttestationError("a keyword came without its flag: whether it does must not depend on its count")
        if policy.answers:
            check_keywords(self)


def check_keywords(openings: Openings) -> None:
    """What is opened of an answer in words is of a vocabulary's form, SPEC A.14.1: the root alone does not say so.

    Raises:
        AttestationError: a salt, metadata, or a text longer than a word: a tree of documents has such leaves.
    """
    for slot in openings.slots:
        for opened in slot.texts:
            if opened.salt != NO_SALT or not is_keyword(slot.slot, opened.content):
                raise AttestationError(
                    f"what is opened of slot {slot.slot} is no keyword, but may be a document's text"
                )


def check_withheld(policy: Policy, openings: Openings) -> None:
    """Of the flagged slots exactly as many come without a text as the policy's guard withholds, SPEC M.10.

    Raises:
        AttestationError: fewer, or more: a guard that withheld a text now and then would tell when it did.
    """
    flagged = [slot for slot in openings.slots if slot.flag]
    missing = [slot.slot for slot in flagged if not slot.texts]
    due = policy.withheld_of(len(flagged))
    if len(missing) == due:
        return
    named = ", ".join(map(str, missing)) or "none"
    if not policy.guarded:
        raise AttestationError(f"flags are set of slots whose texts are withheld: {named}; the policy has no guard")
    raise AttestationError(
        f"the guard of this policy withholds exactly {due} of {len(flagged)} texts, the answer those of slots: {named}"
    )


@dataclass(frozen=True, slots=True)
class ReceiptBody(Message):
    """What the provider signs about an answer.  SPEC B.4."""

    TAG: ClassVar[str] = "receipt-body"
    CODECS: ClassVar[Sequence[Codec]] = (HASH, HASH, HASH, U64, U64, HASH, HASH, Blob(1 << 16))

    manifest: bytes  #: digest of the manifest of the window whose key signs
    request_digest: bytes  #: H("request", request)
    record_digest: bytes  #: H("record", record)
    seq: int  #: the record's number in the window
    index: int  #: of the record's entry in the log, from 0
    openings_digest: bytes  #: H("openings", openings)
    sealed_digest: bytes  #: H("sealed-openings", sealed): who cannot open them can show what was sent
    checkpoint: bytes  #: signed note of which the record is the last entry


@dataclass(frozen=True, slots=True)
class Receipt(Message):
    """Signed after the record is durable and its checkpoint signed: no promise stage."""

    TAG: ClassVar[str] = "receipt"
    CODECS: ClassVar[Sequence[Codec]] = (Nested(ReceiptBody), SIGNATURE, Many(HASH, 64))

    body: ReceiptBody  #: what is signed
    signature: bytes  #: of the window key, purpose "receipt"
    path: tuple[bytes, ...]  #: RFC 6962 inclusion path of the record in the checkpoint's tree

    def digest(self) -> bytes:
        return tagged_hash("receipt", self.encode())

    def verify(self, window_key: bytes) -> None:
        """Raises AttestationError unless signed by the key that the window's manifest names for it."""
        signature.verify(window_key, "receipt", self.body.encode(), self.signature)


@dataclass(frozen=True, slots=True)
class SealedAnswer(Message):
    """What the provider sends for a signed request or an answer-ask; the same bytes whenever that comes again."""

    TAG: ClassVar[str] = "sealed-answer"
    CODECS: ClassVar[Sequence[Codec]] = (Nested(Record), Blob(MAX_OPENINGS_BYTES + OVERHEAD), Nested(Receipt))

    record: Record  #: the ledger's entry
    sealed: bytes  #: the openings under HPKE, SPEC B.4.1: encapsulated key, then ciphertext with its tag
    receipt: Receipt  #: signed over the record, the openings, and their first sealing: that to the request's key


@dataclass(frozen=True, slots=True)
class Answer(Message):
    """An answer that its account has opened: what it keeps, and may show to an auditor."""

    TAG: ClassVar[str] = "answer"
    CODECS: ClassVar[Sequence[Codec]] = (Nested(Record), Nested(Openings), Nested(Receipt))

    record: Record  #: the ledger's entry
    openings: Openings  #: what was sealed
    receipt: Receipt  #: signed over the record, the openings, and their first sealing


def sealed_digest(sealed: bytes) -> bytes:
    """What a receipt signs of the sealed openings."""
    return tagged_hash("sealed-openings", sealed)


def seal_openings(record: Record, openings: Openings, secret: bytes) -> bytes:
    """The openings for nobody but the request's author.

    The ephemeral key follows from a secret of the window, the record and the openings themselves, so that it never
    serves two texts and the same request always brings the same bytes.

    Args:
        secret: 32 bytes, the window's alone.

    Raises:
        AttestationError: the request names a key of small order, or openings that no answer carries.
    """
    plain = openings.encode()
    if len(plain) > MAX_OPENINGS_BYTES:
        raise AttestationError(f"an answer of {len(plain)} bytes cannot be sent: commit shorter texts")
    digest = record.digest()
    ephemeral = tagged_hash("seal-ephemeral", secret, digest, plain)
    return seal(record.signed.request.seal_key, ephemeral, _about(digest), plain)


def reseal_openings(ask: AnswerAsk, record: Record, openings: Openings, secret: bytes) -> bytes:
    """The openings once more, for an account that has lost the private half of its request's key.

    The ephemeral key follows from the ask with its key, too: it never serves two keys or two texts.

    Args:
        secret: as of :func:`seal_openings`.
    """
    about, plain = ask.about(record.digest()), openings.encode()
    return seal(ask.seal_key, tagged_hash("reseal-ephemeral", secret, about, plain), about, plain)


def open_answer(sealed: SealedAnswer, private: bytes) -> Answer:
    """The answer as its account keeps it.

    Args:
        private: the private half of the request's ``seal_key``, 32 bytes.

    Raises:
        AttestationError: the sealed openings do not open, or are not those that the receipt names.
        EncodingError: what was sealed are no openings.
    """
    if sealed.receipt.body.sealed_digest != sealed_digest(sealed.sealed):
        raise AttestationError("the receipt is for other sealed openings than the ones delivered with it")
    openings = Openings.decode(unseal(private, _about(sealed.record.digest()), sealed.sealed))
    return Answer(sealed.record, openings, sealed.receipt)


def open_resealed(ask: AnswerAsk, sealed: SealedAnswer, private: bytes) -> Answer:
    """The answer to an ask as its account keeps it; the receipt's digest of the openings is still to be compared.

    Args:
        private: the private half of the ask's ``seal_key``, 32 bytes.

    Raises:
        AttestationError: the sealed openings do not open.
        EncodingError: what was sealed are no openings.
    """
    openings = Openings.decode(unseal(private, ask.about(sealed.record.digest()), sealed.sealed))
    return Answer(sealed.record, openings, sealed.receipt)


def _about(record_digest: bytes) -> bytes:
    return tagged_hash("seal-info", record_digest)
