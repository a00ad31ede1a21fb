# SPDX-License-Identifier: GPL-3.0-or-later
"""Pseudonyms, asks, deliveries and seals: what is hashed, computed apart from SPEC G.2."""

from __future__ import annotations

import hashlib
import random
from dataclasses import replace
from types import SimpleNamespace

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.asymmetric.x25519 import X25519PrivateKey
from cryptography.hazmat.primitives.hpke import AEAD, KDF, KEM, Suite

from ragseal.kernel import attestation, proofs
from ragseal.kernel.classes import Asked
from ragseal.kernel.coin_proof import CoinPoints, CoinProof
from ragseal.kernel.commitment import Account, IndexFile
from ragseal.kernel.emptied import EmptiedFile, EmptiedShard, EmptiedStatement, plain_entry, verify_emptied
from ragseal.kernel.enrolment import Enrolment, LateMembership, enrolment_leaves, leaf_salt
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.inquiry import ASKS, BlocksAsk, Delivery, LinksAsk, ProofsAsk, Refusal, RegistryAsk
from ragseal.kernel.opening import Opening
from ragseal.kernel.rotation import Rotation
from ragseal.kernel.sealing import derive_private, public_of
from ragseal.kernel.thinning_class import thinning_class
from ragseal.kernel.versions import IndexUpdate, UpdatedIndex, tick_at
from tests import apart
from tests.apart import be, canonical, element, h
from tests.fuzz.samples import sample
from tests.simulator.parties import account

KEY = Ed25519PrivateKey.from_private_bytes(b"k" * 32)
MANIFEST, NONCE = b"m" * 32, b"n" * 16


def test_a_pseudonym_is_a_salted_digest_of_the_name() -> None:
    account = Account("alice", "acme", KEY.public_key().public_bytes_raw(), b"s" * 32)
    assert account.pseudonym == h("pseudonym", b"s" * 32, b"alice")[:16].hex()


@pytest.mark.parametrize(
    "ask",
    [
        RegistryAsk(MANIFEST, 7, NONCE),
        ProofsAsk(MANIFEST, 7, NONCE, (0, 2)),
        LinksAsk(MANIFEST, 7, NONCE),
        BlocksAsk(MANIFEST, 7, NONCE, b"d" * 32, "acme", ((0, 1), (2, 3))),
    ],
    ids=[kind.TAG for kind in ASKS],
)
def test_an_ask_is_signed_whole_and_its_answers_name_it(ask: RegistryAsk) -> None:
    assert ask.digest() == h("ask", canonical(ask))
    KEY.public_key().verify(ask.sign(KEY), h("sign/ask", canonical(ask)))
    given = Delivery.sign(KEY, ask.digest(), b"payload")
    body = h("delivery-body", ask.digest(), b"payload")
    KEY.public_key().verify(given.signature, h("sign/delivery", body))
    refused = Refusal.sign(KEY, ask.digest(), "no proof")
    KEY.public_key().verify(refused.signature, h("sign/refusal", h("refusal-body", ask.digest(), b"no proof")))


def test_a_seal_is_about_its_record_and_follows_from_secret_record_and_openings() -> None:
    record, openings = sample(attestation.Record, random.Random(1)), sample(attestation.Openings, random.Random(2))
    assert isinstance(record, attestation.Record)
    assert isinstance(openings, attestation.Openings)
    secret = b"p" * 32
    request = replace(record.signed.request, seal_key=public_of(secret))
    mine = replace(record, signed=replace(record.signed, request=request))
    sealed = attestation.seal_openings(mine, openings, b"w" * 32)
    digest = h("record", canonical(mine))
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)

    opened = suite.decrypt(sealed, X25519PrivateKey.from_private_bytes(secret), h("seal-info", digest))
    assert opened == canonical(openings)
    assert attestation.sealed_digest(sealed) == h("sealed-openings", sealed)
    ephemeral = h("seal-ephemeral", b"w" * 32, digest, canonical(openings))
    assert sealed[:32] == public_of(derive_private(ephemeral)), "SPEC B.4: so that a crash changes nothing"
    assert sealed == attestation.seal_openings(mine, openings, b"w" * 32), "the same request gets the same bytes"
    assert sealed[:32] != attestation.seal_openings(mine, openings, b"x" * 32)[:32]
    later = replace(mine, seq=mine.seq + 1)
    assert sealed[:32] != attestation.seal_openings(later, openings, b"w" * 32)[:32], "an ephemeral key for two records"


def test_a_second_seal_is_about_its_ask_too_and_shares_no_key_with_the_first() -> None:
    """SPEC B.4.11."""
    private = b"\x07" * 32
    record, openings = sample(attestation.Record, random.Random(1)), sample(attestation.Openings, random.Random(2))
    assert isinstance(record, attestation.Record)
    assert isinstance(openings, attestation.Openings)
    ask = attestation.AnswerAsk(b"m" * 32, "p", 3, public_of(private))
    about = h("reseal-info", canonical(ask), h("record", canonical(record)))
    sealed = attestation.reseal_openings(ask, record, openings, b"w" * 32)
    suite = Suite(KEM.X25519, KDF.HKDF_SHA256, AEAD.CHACHA20_POLY1305)
    assert suite.decrypt(sealed, X25519PrivateKey.from_private_bytes(private), about) == canonical(openings)
    ephemeral = h("reseal-ephemeral", b"w" * 32, about, canonical(openings))
    assert sealed[:32] == public_of(derive_private(ephemeral))
    assert sealed == attestation.reseal_openings(ask, record, openings, b"w" * 32)
    request = replace(record.signed.request, seal_key=ask.seal_key)
    first = replace(record, signed=replace(record.signed, request=request))
    others = [
        attestation.seal_openings(first, openings, b"w" * 32),
        attestation.reseal_openings(replace(ask, seal_key=public_of(b"\x08" * 32)), record, openings, b"w" * 32),
        attestation.reseal_openings(replace(ask, ctr=4), record, openings, b"w" * 32),
        attestation.reseal_openings(ask, replace(record, seq=record.seq + 1), openings, b"w" * 32),
        attestation.reseal_openings(ask, record, replace(openings, t_salt=openings.t_salt ^ 1), b"w" * 32),
        attestation.reseal_openings(ask, record, openings, b"x" * 32),
    ]
    assert len({one[:32] for one in [sealed, *others]}) == 7, "an ephemeral key for two texts or keys"


# Shared hashes of accounts that come and go, turns of the log's key, histograms and shards, computed apart. As in
# test_hashed.py: what the specification lists, against what prover and verifier call alike.


def digest(label: str) -> bytes:
    return hashlib.sha256(label.encode()).digest()


def test_leaves_of_who_may_ask() -> None:
    """A.13: salt of every place and version; 1 and the line where an account may ask, 0 and nothing elsewhere."""
    there, gone, early = (
        Enrolment(account(name, "north"), place, since, until)
        for name, place, since, until in (("alice", 2, 0, 0), ("bob", 5, 0, 3), ("carol", 6, 4, 0))
    )
    secret, version = digest("secret of the window"), 3
    expected = []
    for place in range(8):
        salt = h("enrolment-salt", secret, be(version, 4), be(place, 4))
        assert leaf_salt(secret, version, place) == salt
        held = place == there.place
        expected.append(h("enrolment", salt, bytes([held]), canonical(there.account) if held else b""))
    assert enrolment_leaves(secret, version, [there, gone, early], 8) == expected
    late = LateMembership(there.account, 2, leaf_salt(secret, version, 2), (), 17)
    assert late.leaf() == expected[2]


def test_what_both_keys_sign_of_a_turn() -> None:
    """G.6.13: the log, number, index and last size in 8 bytes each, both keys, the root."""
    turn = Rotation(
        digest("log"), 2, digest("old key"), digest("new key"), 300, digest("root"), 301 + 70, bytes(64), bytes(64)
    )
    numbers = [be(number, 8) for number in (2, 300, 371)]
    assert turn.body() == h(
        "log-rotation-body", digest("log"), *numbers, digest("old key"), digest("new key"), digest("root")
    )


def test_context_of_histograms() -> None:
    """B.7.8: the batch's context, the tenant and its index version, under a tag that is not the link's."""
    context, index = digest("context"), digest("index version")
    assert proofs.histogram_context(context, "north", index) == h("histogram", context, b"north", index)


def test_alpha_and_beta_of_a_shard() -> None:
    """Key digest, record digest, the clear inputs with shard and number of shards, C_w, and C_h with C_v behind it."""
    stated = proofs.Statement(1, 2, 3, Asked((4,)), (apart.ORDER - 5,)).clear(apart.ORDER - 5, (6, 7))
    clear = b"".join(map(be, (1, 2, 3, 4, apart.ORDER - 5, 6, 7)))
    parts = (digest("key"), digest("record"), clear, b"w" * 64, b"h" * 128 + b"v" * 64)
    assert proofs.challenges(*parts[:2], stated, *parts[3:]) == [element("alpha", *parts), element("beta", *parts)]


# Updates of a live index: bytes that are hashed, computed by hand, and what is none.


POINTS = [bytes([n]) * 64 for n in range(1, 5)]
OPENING = Opening((POINTS[0],), (POINTS[1], POINTS[2]), (3, 4))
POINTS_OF_COINS = CoinPoints((POINTS[1],) * 3, (POINTS[2],) * 3, (POINTS[3],) * 3, POINTS[0])
SHOWN = CoinProof(POINTS_OF_COINS, b"g" * 256, OPENING, OPENING)
LINES = tuple(UpdatedIndex(name, b"c" * 32, b"o" * 32, (b"p" * 32,), b"t" * 32) for name in ("north", "south"))
UPDATE = IndexUpdate(b"m" * 32, 7, 1_800_000_060, LINES, b"r" * 32)
STATEMENT = EmptiedStatement(b"t" * 32, b"a" * 32, b"m" * 32, 7, 11, 12, 13, POINTS[0] + POINTS[1])


def test_how_requests_call_a_version() -> None:
    """Window, number and the tenant's line: the same line in another update is another version."""
    assert UPDATE.index_digest("south") == h("updated-index-version", b"m" * 32, be(7, 4), LINES[1].encode())
    named = {UPDATE.index_digest("north"), replace(UPDATE, number=8).index_digest("north")}
    named |= {replace(UPDATE, manifest=b"n" * 32).index_digest("north"), UPDATE.index_digest("south")}
    assert len(named) == 4
    with pytest.raises(CommitmentError, match="no index of tenant 'east'"):
        UPDATE.index_digest("east")


def test_statement_apart() -> None:
    parts = (b"t" * 32, b"a" * 32, b"m" * 32, be(7, 4), be(11) + be(12) + be(13), POINTS[0] + POINTS[1])
    assert STATEMENT.digest == h("emptied-statement", *parts)
    assert STATEMENT.weights() == [element("emptied-weight", STATEMENT.digest, be(j, 4)) for j in range(2)]


def test_what_an_entry_says_of_a_file() -> None:
    shard = EmptiedShard(POINTS[1], POINTS[2], SHOWN)
    file = EmptiedFile(POINTS[0], OPENING, (shard,))
    line = file.entry("north", b"r" * 32)
    proof = h("emptied-proof", shard.encode())
    assert line == UpdatedIndex(
        "north", h("columns", POINTS[0]), h("columns-opening", OPENING.encode()), (proof,), b"r" * 32
    )
    assert plain_entry(IndexFile(POINTS[0], OPENING), "north", b"r" * 32) == replace(line, proof_digests=())
    for change in ({"before": POINTS[3]}, {"after": POINTS[3]}, {"shown": replace(SHOWN, proof=bytes(256))}):
        other = replace(file, shards=(replace(shard, **change),))  # type: ignore[arg-type]
        assert other.entry("north", b"r" * 32) != line
    for wrong in ({"columns": POINTS[3]}, {"shards": (shard, shard)}):
        assert replace(file, **wrong).entry("north", b"r" * 32) != line  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"number": 0}, "counted from 1"),
        ({"tenants": ()}, "distinct and sorted"),
        ({"tenants": LINES[::-1]}, "distinct and sorted"),
        ({"tenants": (LINES[0], LINES[0])}, "distinct and sorted"),
    ],
)
def test_updates_that_are_none(changes: dict[str, object], match: str) -> None:
    assert IndexUpdate.decode(UPDATE.encode()) == UPDATE
    with pytest.raises(CommitmentError, match=match):
        IndexUpdate.decode(replace(UPDATE, **changes).encode())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"hidden": 0}, "a slot is hidden"),
        ({"hidden": 256}, "a slot is hidden"),
        ({"columns": b""}, "malformed"),
        ({"columns": POINTS[0][1:]}, "malformed"),
        ({"columns": bytes(64 * 4097)}, "malformed"),
        ({"number": 0}, "counted from 1"),
    ],
)
def test_statements_that_are_none(changes: dict[str, object], match: str) -> None:
    with pytest.raises(CommitmentError, match=match):
        replace(STATEMENT, **changes)  # type: ignore[arg-type]


def test_ticks_begin_with_the_whole_minute_of_the_opening() -> None:
    assert [tick_at(605, 120, now) for now in (0, 599, 600, 719, 720, 1000)] == [600, 600, 600, 600, 720, 960]


@pytest.mark.parametrize("count", [0, 2])
def test_a_file_speaks_of_every_shard_and_of_no_other(count: int) -> None:
    """Before anything is computed: neither group nor keys are looked at."""
    shard = EmptiedShard(POINTS[1], POINTS[2], SHOWN)
    with pytest.raises(CommitmentError, match=f"speaks of {count} shards, not 1"):
        verify_emptied(None, [STATEMENT], None, None, EmptiedFile(STATEMENT.columns, OPENING, (shard,) * count))  # type: ignore[arg-type]


def test_a_file_is_of_the_columns_that_the_statements_are_about() -> None:
    """Before anything is computed: no group is there."""
    shard = EmptiedShard(POINTS[1], POINTS[2], SHOWN)
    key, bases = SimpleNamespace(digest=STATEMENT.thinning_key, cls=thinning_class(4)), SimpleNamespace(capacity=4)
    with pytest.raises(CommitmentError, match="about other columns than the file's"):
        verify_emptied(None, [STATEMENT], key, bases, EmptiedFile(POINTS[1] + POINTS[0], OPENING, (shard,)))  # type: ignore[arg-type]
