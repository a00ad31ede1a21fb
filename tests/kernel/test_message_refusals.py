# SPDX-License-Identifier: GPL-3.0-or-later
"""What the messages of phases A to C refuse by themselves, each rule alone: every other rule holds in each case.

A refusal names what is wrong.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.backends.group import default_group
from ragseal.kernel import attestation, commitment, inquiry, proofs, signature
from ragseal.kernel.attestation import EAGER, ON_DEMAND, Openings, Receipt, ReceiptBody, Record, SealedAnswer
from ragseal.kernel.beacon import BeaconCommit, Seat
from ragseal.kernel.commitment import Account, IndexFile, Manifest, ScoreBases
from ragseal.kernel.encoding import Message
from ragseal.kernel.errors import AttestationError, AuditError, CommitmentError, EncodingError, PolicyError, ProofError
from ragseal.kernel.inquiry import ASK_SECONDS, Delivery, LinksAsk, Refusal, RegistryAsk, open_delivery
from ragseal.kernel.policy import ANSWERS, EXACT, UNSEEN, UNTIL_DELIVERED
from ragseal.kernel.sealing import public_of
from ragseal.kernel.verdict import ANY, LAST_MINUTE, NONE, NOT_KNOWN, AuditVerdict, Claimed, VerdictEntry, found
from tests import apart
from tests.fuzz.samples import sample
from tests.kernel.test_encoding import SAMPLES, SEAL_KEY, record, request
from tests.simulator import CLS, World
from tests.simulator.claims import claimed

KEY, OTHER = (Ed25519PrivateKey.from_private_bytes(letter * 32) for letter in (b"k", b"o"))
PUBLIC = signature.public_bytes(KEY)
GROUP = default_group()


def refused(message: Message, error: type[AuditError], words: str) -> None:
    """By whoever reads its bytes."""
    with pytest.raises(error, match=words):
        type(message).decode(apart.canonical(message))


# --- the manifest ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def manifest() -> Manifest:
    """Of an honest window of two tenants."""
    made = World.honest().manifest
    assert [index.tenant for index in made.tenants] == ["north", "south"]
    assert Manifest.decode(made.encode()) == made
    return made


@pytest.mark.parametrize(
    "tenants",
    [lambda t: (), lambda t: t[::-1], lambda t: (t[0], *t), lambda t: (*t, t[1])],
    ids=["none", "turned", "first twice", "last twice"],
)
def test_tenants_are_distinct_sorted_and_at_least_one(manifest: Manifest, tenants: Callable[..., tuple]) -> None:  # type: ignore[type-arg]
    refused(replace(manifest, tenants=tenants(manifest.tenants)), CommitmentError, "distinct and sorted, at least one")


@pytest.mark.parametrize("position", [0, 1])
def test_every_index_has_the_policy_s_dimension(manifest: Manifest, position: int) -> None:
    tenants = list(manifest.tenants)
    tenants[position] = replace(tenants[position], dimension=tenants[position].dimension + 1)
    refused(replace(manifest, tenants=tuple(tenants)), CommitmentError, "another dimension than the policy")


def test_the_policy_of_a_manifest_is_checked_with_it(manifest: Manifest) -> None:
    refused(replace(manifest, policy=replace(manifest.policy, k_max=0)), PolicyError, "k_max")


def test_nobody_audits_itself(manifest: Manifest) -> None:
    for key in (manifest.provider_key, manifest.window_key):
        refused(replace(manifest, auditors=(Seat("auditor", key),)), CommitmentError, "not its own auditor")
    refused(replace(manifest, auditors=()), CommitmentError, "one auditor at least")
    seat = manifest.auditors[0]
    for other in (replace(seat, owner="auditor-b"), replace(seat, public_key=signature.public_bytes(OTHER))):
        refused(replace(manifest, auditors=(seat, other)), CommitmentError, "a name and a key of its own")
    for owner in ("auditor-", "observer-a", "auditors", "provider"):
        refused(replace(seat, owner=owner), CommitmentError, "an auditor is called")


def test_a_window_has_a_key_of_its_own(manifest: Manifest) -> None:
    refused(replace(manifest, window_key=manifest.provider_key), CommitmentError, "a key of its own")
    refused(replace(manifest, window_key=bytes(32)), EncodingError, "small order")


def test_a_tenant_that_the_manifest_does_not_hold(manifest: Manifest) -> None:
    assert manifest.index_of("south") is manifest.tenants[1]
    with pytest.raises(CommitmentError, match="no index of tenant 'east'"):
        manifest.index_of("east")


def accounts(*named: tuple[str, int]) -> list[Account]:
    made = [
        Account(name, "t", signature.public_bytes(Ed25519PrivateKey.from_private_bytes(bytes([key]) * 32)), b"s" * 32)
        for name, key in named
    ]
    return sorted(made, key=lambda account: account.pseudonym)


def test_a_registry_is_sorted_and_shares_neither_name_nor_key() -> None:
    good = accounts(("a", 1), ("b", 2), ("c", 3))
    assert commitment.registry_leaves(good) == [apart.canonical(account) for account in good]
    for bad, words in (
        (good[::-1], "sorted by pseudonym"),
        ([good[0], *good], "distinct and sorted by pseudonym"),
        (accounts(("a", 1), ("b", 2), ("c", 2)), "share a public key"),
    ):
        with pytest.raises(CommitmentError, match=words):
            commitment.registry_leaves(bad)
    twice = sorted([good[0], replace(good[0], salt=b"t" * 32, public_key=PUBLIC)], key=lambda one: one.pseudonym)
    with pytest.raises(CommitmentError, match="share a name"):
        commitment.registry_leaves(twice)


# --- signatures over messages ----------------------------------------------------------------------------------------


def test_who_signs_manifest_and_participation(manifest: Manifest) -> None:
    world = World.honest()
    signed = next(message for message in world.messages if isinstance(message, commitment.SignedManifest))
    signed.verify()
    with pytest.raises(AttestationError):
        replace(signed, manifest=replace(signed.manifest, window="w9")).verify()
    with pytest.raises(AttestationError):
        replace(signed, manifest=replace(signed.manifest, provider_key=PUBLIC)).verify()
    commit = next(message for message in world.messages if isinstance(message, BeaconCommit))
    commit.verify()
    for changes in ({"manifest": bytes(32)}, {"owner": "x"}, {"public_key": PUBLIC}, {"commitment": bytes(32)}):
        with pytest.raises(AttestationError):
            replace(commit, **changes).verify()  # type: ignore[arg-type]


def test_a_request_and_its_retrieval_are_signed_apart() -> None:
    asked = request()
    signed = attestation.SignedRequest(asked, signature.sign(KEY, "request", asked.encode()))
    signed.verify(PUBLIC)
    proof = signature.sign(KEY, "retrieve", signed.encode())
    signed.verify_retrieval(PUBLIC, proof)
    with pytest.raises(AttestationError):
        signed.verify(signature.public_bytes(OTHER))
    with pytest.raises(AttestationError):
        replace(signed, request=replace(asked, ctr=2)).verify(PUBLIC)
    for wrong in (signed.signature, signature.sign(OTHER, "retrieve", signed.encode()), bytes(64)):
        with pytest.raises(AttestationError):
            signed.verify_retrieval(PUBLIC, wrong)
    with pytest.raises(AttestationError):
        replace(signed, signature=bytes(64)).verify_retrieval(PUBLIC, proof)


# --- requests and records --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [bytes(32), (1).to_bytes(32, "little")], ids=["zero", "one"])
def test_an_answer_is_sealed_to_nobody_with_a_key_of_small_order(key: bytes) -> None:
    refused(request(seal_key=key), AttestationError, "nothing can be sealed")
    refused(attestation.AnswerAsk(b"m" * 32, "p", 1, key), AttestationError, "nothing can be sealed")


@pytest.mark.parametrize("time", [1, 59, 61, 119])
def test_a_record_s_time_is_coarse(time: int) -> None:
    refused(record(time=time), AttestationError, "multiple of 60 s")


def test_a_record_s_proof_mode_and_window() -> None:
    for mode in (ON_DEMAND, EAGER):
        assert Record.decode(record(proof_mode=mode).encode()).proof_mode == mode
    refused(record(proof_mode=2), AttestationError, "unknown proof mode")
    refused(record(manifest=b"o" * 32), AttestationError, "another window")


def answer(openings: Openings, secret: bytes = b"w" * 32) -> SealedAnswer:
    entry = record()
    sealed = attestation.seal_openings(entry, openings, secret)
    body = ReceiptBody(
        entry.manifest,
        bytes(32),
        entry.digest(),
        0,
        9,
        openings.digest(),
        attestation.sealed_digest(sealed),
        b"checkpoint",
    )
    return SealedAnswer(entry, sealed, Receipt(body, bytes(64), ()))


def test_an_answer_opens_for_its_key_and_its_receipt() -> None:
    openings = sample(Openings, random.Random(4))
    assert isinstance(openings, Openings)
    given = answer(openings)
    assert public_of(b"x" * 32) == SEAL_KEY
    opened = attestation.open_answer(given, b"x" * 32)
    assert (opened.record, opened.openings, opened.receipt) == (given.record, openings, given.receipt)
    with pytest.raises(AttestationError, match="does not open"):
        attestation.open_answer(given, b"y" * 32)
    body = replace(given.receipt.body, sealed_digest=bytes(32))
    with pytest.raises(AttestationError, match="other sealed openings"):
        attestation.open_answer(replace(given, receipt=replace(given.receipt, body=body)), b"x" * 32)
    other = replace(given.record, seq=given.record.seq + 1)
    with pytest.raises(AttestationError, match="does not open"):
        attestation.open_answer(replace(given, record=other), b"x" * 32)


def test_an_answer_that_no_message_carries_is_not_sealed(monkeypatch: pytest.MonkeyPatch) -> None:
    openings = sample(Openings, random.Random(4))
    assert isinstance(openings, Openings)
    size = len(openings.encode())
    monkeypatch.setattr(attestation, "MAX_OPENINGS_BYTES", size)
    answer(openings)
    monkeypatch.setattr(attestation, "MAX_OPENINGS_BYTES", size - 1)
    with pytest.raises(AttestationError, match=f"an answer of {size} bytes cannot be sent"):
        answer(openings)


def test_scores_that_cancel_out_commit_to_nothing() -> None:
    """gain (C_y - lo sum_y) is the identity where every score is lo and no blinder was drawn."""
    policy = World.honest().manifest.policy
    assert policy.lo, "a lower end of 0 would make C_y itself the identity"
    sum_y = apart.generator(b"refusals", 0)
    c_y = apart.total(sum_y, [policy.lo])
    with pytest.raises(ProofError, match="identity"):
        proofs.shifted_scores(GROUP, [sum_y, c_y], sum_y, policy, CLS)
    proofs.shifted_scores(GROUP, [apart.total(sum_y, [policy.lo + 1])], sum_y, policy, CLS)


# --- columns ---------------------------------------------------------------------------------------------------------


def test_the_shape_of_bases_and_columns() -> None:
    point = apart.generator(b"refusals", 1)
    assert ScoreBases(3 * point, point).capacity == 3
    for y, b in ((point[:-1], point), (point + b"\x00", point), (point, point[:-1]), (point, 2 * point), (point, b"")):
        with pytest.raises(CommitmentError, match="malformed"):
            ScoreBases(y, b)
    world = World.honest()
    file = world.files["north"]
    dimension = world.manifest.policy.dimension
    for columns, count in ((file.columns[:-64], dimension - 1), (file.columns + file.columns[:64], dimension + 1)):
        with pytest.raises(CommitmentError, match=f"{64 * count} bytes of columns, not 64 for each of {dimension}"):
            commitment.verify_columns(
                GROUP, ScoreBases(point, point), b"k" * 32, dimension, IndexFile(columns, file.opening)
            )


# --- asks and what is delivered for them -----------------------------------------------------------------------------


def test_an_ask_is_the_auditor_s_and_fresh() -> None:
    ask = RegistryAsk(b"m" * 32, 10_000, b"n" * 16)
    proof = ask.sign(KEY)
    for now in (10_000, 10_000 - ASK_SECONDS, 10_000 + ASK_SECONDS):
        assert ask.verify([signature.public_bytes(OTHER), PUBLIC], proof, now) == PUBLIC
    for now in (9_999 - ASK_SECONDS, 10_001 + ASK_SECONDS):
        with pytest.raises(AttestationError, match="601 s away"):
            ask.verify([PUBLIC], proof, now)
    with pytest.raises(AttestationError, match="does not hold"):
        ask.verify([signature.public_bytes(OTHER)], proof, 10_000)
    with pytest.raises(AttestationError, match="does not hold"):
        replace(ask, time=10_001).verify([PUBLIC], proof, 10_000)
    with pytest.raises(AttestationError, match="does not hold"):
        LinksAsk(ask.manifest, ask.time, ask.nonce).verify([PUBLIC], proof, 10_000)


@pytest.mark.parametrize("kind", ["delivery", "refusal"])
def test_what_is_delivered_is_the_provider_s_word_for_this_ask_alone(kind: str) -> None:
    ask, other = (LinksAsk(b"m" * 32, 60, letter * 16) for letter in (b"n", b"o"))

    def made(key: Ed25519PrivateKey, about: inquiry.Ask) -> Delivery | Refusal:
        if kind == "delivery":
            return Delivery.sign(key, about.digest(), b"payload")
        return Refusal.sign(key, about.digest(), "why")

    good = made(KEY, ask)
    assert open_delivery(good.encode(), ask, PUBLIC) == good
    with pytest.raises(AttestationError, match="another ask"):
        open_delivery(made(KEY, other).encode(), ask, PUBLIC)
    with pytest.raises(AttestationError, match="does not hold"):
        open_delivery(replace(made(KEY, other), ask=ask.digest()).encode(), ask, PUBLIC)
    with pytest.raises(AttestationError, match="does not hold"):
        open_delivery(made(OTHER, ask).encode(), ask, PUBLIC)
    changed = replace(good, **({"payload": b"other"} if kind == "delivery" else {"reason": "other"}))  # type: ignore[arg-type]
    with pytest.raises(AttestationError, match="does not hold"):
        open_delivery(changed.encode(), ask, PUBLIC)
    with pytest.raises(EncodingError):
        open_delivery(SAMPLES[0].encode(), ask, PUBLIC)


# What the claim of a verdict refuses by itself, each rule alone: every other rule holds in each case. SPEC D.12.5.


LIST = claimed()
DELIVERED = claimed(claim=UNTIL_DELIVERED, returned="6", coalition=ANY, queries=ANY)
ANSWERED = claimed(claim=ANSWERS, coalition=ANY, queries=ANY)
OUTSIDE = claimed(left_out=1, epsilon_log="99.5")
ONLY_UNSEEN = claimed(claim=UNSEEN, returned="inf", delta="0", coalition=ANY, queries=ANY)
NUMBERS = {"epsilon": NONE, "delta": NONE, "coalition": NONE, "queries": NONE}
NOTHING = claimed(claim=EXACT, period_from=0, **NUMBERS)
CLAIMS = {"list": LIST, "delivered": DELIVERED, "answers": ANSWERED, "outside": OUTSIDE}
OF_RUNGS = {"unseen": ONLY_UNSEEN, "exact": NOTHING}


@pytest.mark.parametrize("name", CLAIMS)
@pytest.mark.parametrize(
    "changes",
    [
        {"epsilon": "inf"},
        {"delta": "1.5e-07"},
        {"period_from": 0},
        {"period_from": LAST_MINUTE},
        {"left_out": 2, "epsilon_log": "inf"},
        {"left_out": 2, "epsilon_log": NOT_KNOWN},
        {"word": ("late", "filter", "histograms", "texts", "vocabulary", "embeddings", "neighbours")},
    ],
)
def test_every_claim_has_its_numbers(name: str, changes: dict[str, Any]) -> None:
    made = claimed(**{slot: getattr(CLAIMS[name], slot) for slot in Claimed.__slots__} | changes)
    assert Claimed.decode(apart.canonical(made)) == made


@pytest.mark.parametrize(
    ("good", "changes", "words"),
    [
        ("list", {"claim": "every"}, "none of this version"),
        ("list", {"epsilon": "-1"}, "epsilon of a verdict"),
        ("list", {"epsilon": NOT_KNOWN}, "epsilon of a verdict"),
        ("list", {"epsilon": ""}, "epsilon of a verdict"),
        ("list", {"epsilon": "1\n"}, "epsilon of a verdict"),
        ("list", {"delta": "1e6"}, "delta of a verdict"),
        ("list", {"delta": ""}, "delta of a verdict"),
        ("delivered", {"returned": ""}, "return of a verdict"),
        ("list", {"returned": "6"}, "has no return"),
        ("answers", {"returned": "6"}, "has no return"),
        ("list", {"coalition": ANY}, "coalition of the claim every-list is a count"),
        ("list", {"coalition": "0"}, "coalition of the claim every-list is a count"),
        ("list", {"queries": ANY}, "queries of the claim every-list is a count"),
        ("list", {"queries": "02"}, "queries of the claim every-list is a count"),
        ("list", {"queries": "1" * 21}, "queries of the claim every-list is a count"),
        ("delivered", {"coalition": "2"}, "coalition of the claim until-delivered is any"),
        ("delivered", {"queries": "2"}, "queries of the claim until-delivered is any"),
        ("answers", {"coalition": "2"}, "coalition of the claim answers is any"),
        ("answers", {"queries": "2"}, "queries of the claim answers is any"),
        ("unseen", {"returned": "6"}, "bounds no return"),
        ("unseen", {"returned": ""}, "bounds no return"),
        ("unseen", {"delta": "1e-06"}, "nothing of it takes a delta"),
        ("unseen", {"epsilon": NONE}, "epsilon of a verdict"),
        ("exact", {"epsilon": "0"}, "it has no number, and says none"),
        ("exact", {"epsilon": "inf"}, "it has no number, and says none"),
        ("exact", {"delta": "0"}, "it has no number, and says none"),
        ("exact", {"coalition": ANY}, "it has no number, and says none"),
        ("exact", {"queries": ANY}, "it has no number, and says none"),
        ("exact", {"returned": "inf"}, "it has no number, and says none"),
        ("exact", {"period_from": 60}, "it has no number, and says none"),
        ("exact", {"left_out": 1, "epsilon_log": "inf"}, "it has no number, and says none"),
        ("exact", {"word": ("late",)}, "it has no number, and says none"),
        ("exact", {"word": ("embeddings", "embeddings")}, "in order"),
        ("list", {"period_from": 61}, "whole minute"),
        ("list", {"period_from": LAST_MINUTE + 60}, "before the year 10000"),
        ("list", {"left_out": 1}, "named together"),
        ("list", {"epsilon_log": "99.5"}, "named together"),
        ("outside", {"epsilon_log": "much"}, "epsilon of the whole log"),
        ("list", {"word": ("weather",)}, "in order"),
        ("list", {"word": ("filter", "late")}, "in order"),
        ("list", {"word": ("late", "late")}, "in order"),
    ],
)
def test_a_claim_that_is_none(good: str, changes: dict[str, Any], words: str) -> None:
    made = claimed(**{slot: getattr((CLAIMS | OF_RUNGS)[good], slot) for slot in Claimed.__slots__} | changes)
    with pytest.raises(EncodingError, match=words):
        Claimed.decode(apart.canonical(made))


@pytest.mark.parametrize(
    ("outcome", "claims", "words"),
    [
        ("FINE", (), "a verdict is one of"),
        ("PASS", (), "a PASS names its claim"),
        ("SAMPLED-PASS", (), "a SAMPLED-PASS names its claim"),
        ("FAIL", (LIST,), "FAIL has no epsilon"),
        ("NO-VERDICT", (LIST,), "NO-VERDICT has no epsilon"),
        ("PASS", (claimed(coalition="0"),), "is a count"),
    ],
)
def test_a_claim_and_its_outcome_go_together(outcome: str, claims: tuple[Claimed, ...], words: str) -> None:
    """In the log that was audited and in the auditor's own."""
    key = signature.public_bytes(Ed25519PrivateKey.from_private_bytes(b"k" * 32))
    entry = VerdictEntry(key, b"d" * 32, b"l" * 32, "log", "w1", (b"m" * 32,), outcome, claims, 1)
    for made in (entry, AuditVerdict(b"m" * 32, b"l" * 32, key, b"d" * 32, outcome, claims, bytes(64))):
        with pytest.raises(EncodingError, match=words):
            type(made).decode(apart.canonical(made))


def test_a_line_says_each_number_once() -> None:
    made = claimed(left_out=3, epsilon_log="99.5", word=("late", "neighbours"))
    assert found("PASS", (made,)) == (
        "PASS epsilon_audit=85.8 claim=every-list coalition=2 queries=20 delta=1e-06 period_from=2027-01-15T08:00Z "
        "left_out=3 epsilon_log=99.5 late=unproven neighbours=provider"
    )
    assert found("SAMPLED-PASS", (DELIVERED,)) == (
        "SAMPLED-PASS epsilon_audit=85.8 claim=until-delivered coalition=any queries=any unseen=85.8 return=6 "
        "delta=1e-06 period_from=2027-01-15T08:00Z left_out=0"
    )
    assert found("PASS", (replace(ONLY_UNSEEN, left_out=3, epsilon_log="99.5"),)) == (
        "PASS claim=unseen coalition=any queries=any unseen=85.8 return=inf delta=0 period_from=2027-01-15T08:00Z "
        "left_out=3 unseen_log=99.5"
    )
    assert found("PASS", (replace(NOTHING, word=("embeddings",)),)) == (
        "PASS claim=exact epsilon=none private=nothing embeddings=provider"
    )
    assert found("FAIL", ()) == "FAIL"
