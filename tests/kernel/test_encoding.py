# SPDX-License-Identifier: GPL-3.0-or-later
"""Canonical encoding: one value, one string; everything else is an EncodingError.  SPEC G.1."""

from __future__ import annotations

import dataclasses

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given
from hypothesis import strategies as st

from ragseal.kernel import attestation as at
from ragseal.kernel import commitment as cm
from ragseal.kernel import inquiry as iq
from ragseal.kernel import proofs as pr
from ragseal.kernel import signature
from ragseal.kernel.beacon import BeaconCommit, BeaconSeal
from ragseal.kernel.encoding import Message, decode_any, peek_tag
from ragseal.kernel.errors import AuditError, EncodingError
from ragseal.kernel.opening import Opening
from ragseal.kernel.params import R
from ragseal.kernel.sealing import public_of
from ragseal.kernel.slot_text import NO_METADATA, SlotText

KEY = signature.public_bytes(Ed25519PrivateKey.from_private_bytes(b"k" * 32))
SEAL_KEY = public_of(b"x" * 32)
POINT = (1).to_bytes(32, "big") + (2).to_bytes(32, "big")


def request(**changes: object) -> at.Request:
    base = at.Request(
        origin="example.org/log",
        window="w1",
        manifest=b"m" * 32,
        account="alice",
        ctr=1,
        request_id=b"i" * 16,
        query_digest=b"q" * 32,
        c_e=POINT,
        index_digest=b"x" * 32,
        checked=True,
        nonce=b"n" * 16,
        last_receipt=at.NO_RECEIPT,
        seal_key=SEAL_KEY,
    )
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


def record(**changes: object) -> at.Record:
    signed = at.SignedRequest(request(), b"s" * 64)
    base = at.Record(b"m" * 32, 0, signed, POINT, (5,), 120, at.EAGER)
    return dataclasses.replace(base, **changes)  # type: ignore[arg-type]


SAMPLES: list[Message] = [
    request(),
    record(),
    at.Prepare(b"m" * 32, "alice", b"i" * 16, b"s" * 32, "what is été?", b"\x01\xff"),
    at.Prepared(b"i" * 16, b"\x01\xff", POINT, 7, b"x" * 32),
    at.Openings(
        3,
        (
            at.SlotOpening(4, True, (at.TextOpening(SlotText("d1", "text", NO_METADATA), b"s" * 32, (b"h" * 32,)),)),
            at.SlotOpening(9, False, ()),
        ),
    ),
    pr.ProofBatch(
        b"m" * 32,
        (pr.ProofEntry(0, b"r" * 32, POINT, b"p" * 256, POINT),),
        (pr.SameEmbeddingOpening("t", Opening((POINT, POINT), (POINT,) * 4, (7,))),),
        (Opening((POINT,), (), (1, 2)), Opening((POINT,), (), (3,))),
    ),
    at.SealedAnswer(
        record(),
        b"sealed bytes",
        at.Receipt(
            at.ReceiptBody(b"m" * 32, b"q" * 32, b"r" * 32, 0, 9, b"o" * 32, b"e" * 32, b"note"),
            b"s" * 64,
            (b"h" * 32,),
        ),
    ),
    cm.Account("alice", "t", KEY, b"s" * 32),
    cm.Registry((cm.Account("alice", "t", KEY, b"s" * 32),)),
    cm.AccountAsk(b"m" * 32, "alice"),
    at.AnswerAsk(b"m" * 32, "alice", 3, b"\x07" * 31 + b"\x00"),
    cm.Membership(cm.Account("alice", "t", KEY, b"s" * 32), 3, (b"h" * 32,)),
    BeaconCommit(b"m" * 32, "auditor", KEY, b"c" * 32, b"s" * 64),
    iq.RegistryAsk(b"m" * 32, 60, b"n" * 16),
    iq.ProofsAsk(b"m" * 32, 60, b"n" * 16, (1, 2, 9)),
    iq.LinksAsk(b"m" * 32, 60, b"n" * 16),
    iq.BlocksAsk(b"m" * 32, 60, b"n" * 16, b"k" * 32, "t", ((0, 1), (2, 5))),
    iq.Delivery(b"a" * 32, b"payload", b"s" * 64),
    iq.Refusal(b"a" * 32, "why not", b"s" * 64),
    cm.TenantIndex("t", 384, b"a" * 32, b"b" * 32, b"c" * 32),
    BeaconSeal(b"m" * 32, ("provider", "auditor"), b"s" * 64),
    cm.WindowOpen(b"m" * 32, 5, 60),
    cm.WindowClose(b"m" * 32, 5, 60),
]


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: m.TAG)
def test_round_trip_and_every_damage(message: Message) -> None:
    data = message.encode()
    kind = type(message)
    assert kind.decode(data) == message
    assert peek_tag(data) == kind.TAG
    for cut in range(len(data)):
        with pytest.raises(EncodingError):
            kind.decode(data[:cut])
    with pytest.raises(EncodingError, match="too many"):
        kind.decode(data + b"\x00")


@pytest.mark.parametrize("message", SAMPLES, ids=lambda m: m.TAG)
def test_no_byte_is_ignored(message: Message) -> None:
    """Flipping any bit gives another message or an error, never the same one."""
    data = message.encode()
    for at_byte in range(len(data)):
        damaged = bytearray(data)
        damaged[at_byte] ^= 1
        try:
            other = type(message).decode(bytes(damaged))
        except AuditError:
            continue
        assert other != message


@given(st.binary(max_size=400))
def test_random_bytes_are_an_encoding_error(data: bytes) -> None:
    for kind in (at.Record, at.Answer, pr.ProofBatch, cm.SignedManifest):
        with pytest.raises(EncodingError):
            kind.decode(data)


@pytest.mark.parametrize(
    "path", [(b"h" * 31,), (b"h" * 32, b"h" * 33), (b"h" * 31, b"h" * 33), (bytearray(32),), (32,)]
)
def test_hashes_in_a_list_are_as_strict_as_alone(path: tuple[object, ...]) -> None:
    opening = at.TextOpening(SlotText("d1", "text", NO_METADATA), b"s" * 32, path)  # type: ignore[arg-type]
    with pytest.raises(EncodingError, match=r"text-opening\.path: expected 32 bytes"):
        opening.encode()


def test_field_elements_at_the_modulus() -> None:
    data = cm.WindowOpen(b"m" * 32, 0, 60).encode()
    where = data.index(bytes(32))
    with pytest.raises(EncodingError, match="canonical"):
        cm.WindowOpen.decode(data[:where] + R.to_bytes(32, "big") + data[where + 32 :])


def test_announced_sizes_allocate_nothing() -> None:
    huge = at.Openings(3, ()).encode()[:-4] + b"\xff\xff\xff\xff"
    with pytest.raises(EncodingError, match="oversized"):
        at.Openings.decode(huge)


def test_other_version_and_other_message() -> None:
    data = bytearray(request().encode())
    data[1 + len("request") + 1] ^= 3
    with pytest.raises(EncodingError, match="version"):
        at.Request.decode(bytes(data))
    with pytest.raises(EncodingError, match="not a record"):
        at.Record.decode(request().encode())
    with pytest.raises(EncodingError, match="unexpected"):
        decode_any(request().encode(), [at.Record])


def test_values_that_no_codec_carries() -> None:
    with pytest.raises(EncodingError, match=r"request\.ctr"):
        request(ctr=1 << 32).encode()
    with pytest.raises(EncodingError, match=r"request\.account"):
        request(account="two words").encode()
    with pytest.raises(EncodingError):
        record(t_commits=(R,)).encode()
    with pytest.raises(AuditError, match="multiple"):
        at.Record.decode(record(time=61).encode())
