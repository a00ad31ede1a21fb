# SPDX-License-Identifier: GPL-3.0-or-later
"""A small provider in this process: real kernel functions, a real ledger on disk, an index of a dozen texts.

It stands apart from :mod:`tests.simulator` because it is the other side of two interfaces, the client's links, each of
whose answers a test may change on its way; it needs no circuit, and makes no proofs, since no account sees any.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.group import default_group
from ragseal.client.link import Announced, PreparedReply, Retrieved
from ragseal.embedder import EmbedderIdentity, Vectors, quantise
from ragseal.kernel import signature
from ragseal.kernel.attestation import (
    ON_DEMAND,
    Answer,
    AnswerAsk,
    Openings,
    Prepare,
    Prepared,
    Receipt,
    ReceiptBody,
    Record,
    SealedAnswer,
    SignedRequest,
    SlotOpening,
    TextOpening,
    reseal_openings,
    score_commitment,
    sealed_digest,
)
from ragseal.kernel.beacon import (
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    Seat,
    beacon_commitment,
    beacon_value,
)
from ragseal.kernel.commitment import (
    Account,
    AccountAsk,
    Manifest,
    Membership,
    ScoreBases,
    TenantIndex,
    WindowOpen,
    embedding_commitment,
    generators,
    registry_leaves,
    text_leaf,
)
from ragseal.kernel.encoding import Message, peek_tag
from ragseal.kernel.errors import AttestationError, AuditError
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.noise import build_table
from ragseal.kernel.noise_mechanism import select_noise
from ragseal.kernel.policy import Policy
from ragseal.kernel.sealing import seal
from ragseal.kernel.slot_text import SlotText
from ragseal.kernel.statements import stated_of
from ragseal.kernel.transcript import tagged_hash
from ragseal.kernel.verdict import log_digest
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.log import Appended, Log
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import NoteSigner
from ragseal.runtime.metadata import committed
from tests.classes import TINY
from tests.simulator.entries import beacon_commit, beacon_seal, signed_manifest

DIMENSION = 16
ORIGIN = "test.example/log"
CLASS = replace(TINY, name="toy", N=120, q=20, R=30)
NOW = 1_000_000
TEXTS = [f"entry {i}: {topic}" for i, topic in enumerate(("json", "csv", "xml", "toml", "ini", "yaml") * 3)]


def slot_text(slot: int) -> SlotText:
    """What a slot holds; of an empty one what a liar might say."""
    text = TEXTS[slot] if slot < len(TEXTS) else ""
    return SlotText(f"d{slot}", text, committed({"line": slot, "draft": slot % 2 == 0, "source": f"notes-{slot % 3}"}))


SALT_OF = [bytes([i]) * 32 for i in range(CLASS.N)]
OTHERS = {"bob": "other", "carol": "acme"}  #: accounts beside alice, with their tenants
NONCE_OF = {"provider": b"n" * 32, "observer-x": b"o" * 32, "auditor": b"u" * 32, "auditor-x": b"z" * 32}


def key_of(name: str) -> Ed25519PrivateKey:
    """The signing key of whoever is called ``name`` here."""
    return Ed25519PrivateKey.from_private_bytes(tagged_hash("key-of-a-test", name.encode()))


@dataclass(frozen=True)
class Person:
    """An account as the provider knows it between windows."""

    name: str
    tenant: str
    public_key: bytes

    def line(self, window: str) -> Account:
        """Its line of a window's registry; the salt is a function of the names, so that one noise means one T."""
        return Account(self.name, self.tenant, self.public_key, tagged_hash("salt-of-a-test", window.encode()))


class LetterEmbedder:
    """A deterministic embedder of letter counts; small, but it ranks."""

    dimension = DIMENSION

    def identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(
            bytes(32), bytes(32), "letters", "sum", 64, "", "", DIMENSION, "int8/127/half-even"
        )  # fmt: skip

    def embed(self, texts: Sequence[str], *, role: str = "document", progress: object = None) -> Vectors:
        out = np.full((len(texts), DIMENSION), 0.1, dtype=np.float32)
        for row, text in zip(out, texts, strict=True):
            for ch in text:
                row[ord(ch) % DIMENSION] += 1
        return out / np.linalg.norm(out, axis=1, keepdims=True)


class Provider:
    """Implements the client's two links, with a real beacon in its log.

    ``tamper`` sees every message before it leaves (and may re-sign): an answer first as its parts (Answer), which are
    then sealed to the account's key, and then as it leaves (SealedAnswer).  ``shape`` sees the entries that open a
    window, in order, before they are appended.
    """

    def __init__(self, ledger: Path, people: Sequence[Person], window: str = "w1", n_max: int = 4) -> None:
        self.group = default_group()
        self.key = Ed25519PrivateKey.from_private_bytes(b"p" * 32)
        self.window_key = Ed25519PrivateKey.from_private_bytes(b"w" * 32)
        self.log_signer = NoteSigner(ORIGIN, Ed25519PrivateKey.from_private_bytes(b"l" * 32))
        self.log = Log.create(ledger, self.log_signer)
        self.embedder = LetterEmbedder()
        self.generators = generators(self.group, DIMENSION)
        self.bases = ScoreBases(self.group.hash_to_curve(b"test/scores", 4), self.group.hash_to_curve(b"test/blind", 1))
        self.columns = self.group.hash_to_curve(b"test/columns", DIMENSION)
        self.people = list(people)
        self.rows = [[int(x) for x in row] for row in quantise(self.embedder.embed(TEXTS))]
        self.rows += [[0] * DIMENSION] * (CLASS.N - len(TEXTS))
        self.tree = MerkleTree(self.leaves())
        self.tamper: Callable[[Any], Any] = lambda message: message
        self.shape: Callable[[list[Message]], list[Message]] = lambda entries: entries
        self.on_call: Callable[[str], None] = lambda call: None
        self.calls: list[str] = []
        self.sent: list[bytes] = []  #: everything that came from the client
        self.record_time = NOW // 60 * 60
        self.forget = False  #: lose Prepares, as a restart does
        self.witnessed: bytes | None = None  #: the note that is served as witnessed
        self.gives_paths = True  #: consistency paths come with answers; else the ledger is asked for them
        self.open(window, n_max)

    def open(self, window: str, n_max: int = 4, **changes: Any) -> None:
        """Commit to a window and take it through its beacon."""
        self.n_max, self.window, self.stage = n_max, window, "open"
        self.accounts = sorted((one.line(window) for one in self.people), key=lambda account: account.pseudonym)
        self.registry = MerkleTree(registry_leaves(self.accounts))
        values = {
            "origin": ORIGIN, "log": log_digest(self.log_signer.verifier.vkey()), "window": window,
            "policy": policy(n_max), "embedder": self.embedder.identity().digest(),
            "key_digest": b"k" * 32, "tenants": (self.index("acme"), self.index("other")), "c_seed": 7,
            "registry_root": self.registry.root(), "accounts": len(self.accounts),
            "provider_key": signature.public_bytes(self.key), "window_key": signature.public_bytes(self.window_key),
            "beacon_commitment": beacon_commitment("provider", NONCE_OF["provider"]),
            "auditors": (Seat("auditor", signature.public_bytes(key_of("auditor"))),),
        }  # fmt: skip
        self.manifest = Manifest(**(values | changes))  # type: ignore[arg-type]
        self.seal()
        self.index_in_log = self.append(self.signed).index
        for entry in self.shape(self.beacon()):
            self.append(entry)
        self.prepared: dict[bytes, tuple[Prepare, Prepared]] = {}
        self.answers: dict[bytes, bytes] = {}
        self.records = 0

    def beacon(self, owners: Sequence[str] = ("provider", "observer-x", "auditor")) -> list[Message]:
        """The entries that open the window, in the order that SPEC A.8 wants."""
        opened = [self.opening(owner) for owner in owners]
        value = beacon_value(self.manifest.digest(), [(one.owner, one.nonce) for one in opened])
        commits = [self.commit(owner) for owner in owners if owner != "provider"]
        return [*commits, self.sealed(owners), *opened, WindowOpen(self.manifest.digest(), value, NOW // 60 * 60)]

    @property
    def closes(self) -> int:
        """When the newest window is over."""
        return self.manifest.policy.ends(NOW // 60 * 60)

    def commit(self, owner: str, key: Ed25519PrivateKey | None = None) -> BeaconCommit:
        """A participant's commitment, signed by its key or by another."""
        return beacon_commit(self.manifest.digest(), owner, NONCE_OF[owner], key or key_of(owner))

    def sealed(self, owners: Sequence[str], key: Ed25519PrivateKey | None = None) -> BeaconSeal:
        """The provider's seal, or somebody else's."""
        return beacon_seal(self.manifest.digest(), owners, key or self.window_key)

    def opening(self, owner: str) -> BeaconOpening:
        return BeaconOpening(self.manifest.digest(), owner, NONCE_OF[owner])

    def seal(self) -> None:
        self.signed = signed_manifest(self.manifest, self.key)

    def leaves(self) -> list[bytes]:
        texts = [slot_text(i) if i < len(TEXTS) else None for i in range(CLASS.N)]
        return [text_leaf(SALT_OF[i], i, text) for i, text in enumerate(texts)]

    def index(self, tenant: str) -> TenantIndex:
        return TenantIndex(tenant, DIMENSION, b"c" * 32, b"o" * 32, self.tree.root())

    def append(self, message: Message) -> Appended:
        (done,) = self.log.append_now([lambda index: message.encode()])
        assert isinstance(done, Appended)
        return done

    # --- what the client calls ---

    def _call(self, name: str, *sent: bytes) -> None:
        self.calls.append(name)
        self.sent += sent
        self.on_call(name)

    def announced(self, window: str = "") -> Announced:
        self._call("announced")
        return Announced(self.tamper(self.signed).encode(), self.index_in_log, self.stage)

    def account(self, canonical: bytes, signed: bytes) -> bytes:
        self._call("account", canonical, signed)
        ask = AccountAsk.decode(canonical)
        mine = next((a for a in self.accounts if a.name == ask.name), None)
        if mine is None:
            raise AttestationError("no account of this name and key")
        signature.verify(mine.public_key, "account", canonical, signed)
        at = self.accounts.index(mine)
        out: bytes = self.tamper(Membership(mine, at, tuple(self.registry.path(at)))).encode()
        return out

    def prepare(self, canonical: bytes, signed: bytes) -> PreparedReply:
        self._call("prepare", canonical, signed)
        message = Prepare.decode(canonical)
        if message.manifest != self.manifest.digest():
            raise AttestationError("this window is over: ask for the newest manifest")
        account = self.called(message.account)
        signature.verify(account.public_key, "prepare", canonical, signed)
        embedding = message.embedding
        if not embedding:
            embedding = quantise(self.embedder.embed([message.query], role="query"))[0].tobytes()
        e = [x - 256 if x > 127 else x for x in embedding]
        blinder = int.from_bytes(canonical[-31:], "big")
        c_e = embedding_commitment(self.group, self.generators, e, blinder)
        reply = Prepared(message.request_id, embedding, c_e, blinder, self.index(account.tenant).digest())
        self.prepared[message.request_id] = (message, reply)
        return PreparedReply(self.tamper(reply).encode(), len(self.given(message.account)))

    def given(self, pseudonym: str) -> list[Answer]:
        """Its answers of an account, in their order."""
        found = [Answer.decode(one) for one in self.answers.values()]
        return [one for one in found if one.record.signed.request.account == pseudonym]

    def again(self, canonical: bytes, signed: bytes, known_size: int) -> Retrieved:
        """An answer by its number."""
        ask = AnswerAsk.decode(canonical)
        if ask.manifest != self.manifest.digest():
            return Retrieved(b"", ())  # as if nobody had asked in the windows before
        ask.verify(self.called(ask.account).public_key, signed)
        found = [one for one in self.given(ask.account) if one.record.signed.request.ctr == ask.ctr]
        if not found:
            return Retrieved(b"", ())
        answer: Answer = self.tamper(found[0])
        sealed = reseal_openings(ask, answer.record, answer.openings, b"b" * 32)
        made = self.tamper(SealedAnswer(answer.record, sealed, answer.receipt)).encode()
        return Retrieved(made, self.path(known_size, self.size_of(answer)))

    def retrieve(self, canonical: bytes, signed: bytes, known_size: int, after: float = 0.0) -> Retrieved:
        if peek_tag(canonical) == AnswerAsk.TAG:
            self._call("fetch", canonical, signed)
            return self.again(canonical, signed, known_size)
        self._call("retrieve", canonical, signed)
        request = SignedRequest.decode(canonical)
        account = self.called(request.request.account)
        request.verify(account.public_key)
        request.verify_retrieval(account.public_key, signed)
        self.seal_key = request.request.seal_key
        if canonical not in self.answers:
            self.answers[canonical] = self.answer(request).encode()
        answer: Answer = self.tamper(Answer.decode(self.answers[canonical]))
        sealed: bytes = self.tamper(self.delivered(answer)).encode()
        return Retrieved(sealed, self.path(known_size, self.size_of(answer)))

    def called(self, pseudonym: str) -> Account:
        for account in self.accounts:
            if account.pseudonym == pseudonym:
                return account
        raise AttestationError("no such account in this window")

    def size_of(self, answer: Answer) -> int:
        """Of the log that an answer's checkpoint covers; 0 where it covers nothing that is ours."""
        try:
            return open_checkpoint(answer.receipt.body.checkpoint, self.log_signer.verifier).checkpoint.size
        except AuditError:
            return 0

    def path(self, known: int, size: int) -> tuple[bytes, ...]:
        old, new = sorted((known, size))
        if not self.gives_paths or not 0 < old < new <= self.log.size:
            return ()
        return tuple(self.log.consistency(old, new))

    def delivered(self, answer: Answer) -> SealedAnswer:
        """An answer as it leaves, sealed to the key of the request that was sent."""
        return SealedAnswer(answer.record, self.sealed_openings(answer.record, answer.openings), answer.receipt)

    def sealed_openings(self, record: Record, openings: Openings) -> bytes:
        """As :func:`seal_openings`, but to the account's key whatever the record says: a lie must reach its check."""
        plain, about = openings.encode(), tagged_hash("seal-info", record.digest())
        return seal(self.seal_key, tagged_hash("ephemeral-of-a-test", record.digest(), plain), about, plain)

    def answer(self, signed: SignedRequest) -> Answer:
        request = signed.request
        if self.forget:
            self.forget = False
            self.prepared.clear()
        if request.request_id not in self.prepared:
            raise AttestationError("no Prepare waits under this request id")
        _, prepared = self.prepared[request.request_id]
        e = [x - 256 if x > 127 else x for x in prepared.embedding]
        w = [self.manifest.policy.gain * (sum(a * b for a, b in zip(row, e, strict=True)) - 4800) for row in self.rows]
        chosen = select_noise(CLASS, noise_key((1, 2), 3, request.ctx()), [w], self.manifest.policy.hmax(CLASS))
        record = Record(
            manifest=self.manifest.digest(),
            seq=self.records,
            signed=signed,
            c_y=score_commitment(self.group, self.columns, self.bases, e, 5),
            t_commits=stated_of(CLASS).lists(99, chosen.returned, 1),
            time=self.record_time,
            proof_mode=ON_DEMAND,
        )
        self.records += 1
        openings = Openings(99, tuple(self.slot(one.slot, one.flag) for one in chosen.returned))
        return self.receipt(record, openings, self.append(record))

    def slot(self, slot: int, flag: bool | None = None) -> SlotOpening:
        """A returned slot; by default a filled one has its flag."""
        flag = slot < len(TEXTS) if flag is None else flag
        return SlotOpening(slot, flag, (self.text(slot),) if flag else ())

    def text(self, slot: int, **other: Any) -> TextOpening:
        """What is committed for a slot, with another id, text or metadata if so wished."""
        content = replace(slot_text(slot), **other)
        return TextOpening(content, SALT_OF[slot], tuple(self.tree.path(slot)))

    def receipt(self, record: Record, openings: Openings, done: Appended) -> Answer:
        body = ReceiptBody(
            record.manifest,
            record.signed.request.digest(),
            record.digest(),
            record.seq,
            done.index,
            openings.digest(),
            sealed_digest(self.sealed_openings(record, openings)),
            done.bundle.checkpoint,
        )
        return Answer(record, openings, Receipt(body, self.sign_receipt(body), done.bundle.path))

    def sign_receipt(self, body: ReceiptBody) -> bytes:
        return signature.sign(self.window_key, "receipt", body.encode())

    def checkpoint(self) -> bytes:
        self._call("checkpoint")
        return self.log.checkpoint()

    def cosigned(self) -> bytes | None:
        self._call("cosigned")
        return self.witnessed

    def entries(self, start: int, count: int) -> list[bytes]:
        self._call("entries")
        return self.log.entries(start, count)

    def inclusion(self, index: int, size: int) -> list[bytes]:
        self._call("inclusion")
        return self.log.inclusion(index, size)

    def rotations(self) -> list[bytes]:
        self._call("rotations")
        return [proof.encode() for proof in self.log.turns()]

    def consistency(self, old: int, new: int) -> list[bytes]:
        self._call("consistency")
        return self.log.consistency(old, new)

    def close(self) -> None:
        pass


def policy(n_max: int) -> Policy:
    return Policy(
        class_name=CLASS.name, class_digest=b"d" * 32, table_digest=build_table(CLASS.law).digest(),
        dimension=DIMENSION, claim="every-list", hidden=0,
        lo=4800, hi=11300, gain=40, n_max=n_max, k_max=2, delta="1/1000000",
        epsilon_account="300", theta="9/10", tau=1000, gate=True, unit="slot", chunks_max=1, period_start=0, opens=70,
        closes=NOW + 10_000, ids=CLASS.K,
    )  # fmt: skip
