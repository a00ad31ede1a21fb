# SPDX-License-Identifier: GPL-3.0-or-later
"""Canonical encoding: one value, one string; everything else is an EncodingError.  SPEC G.1."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

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
from ragseal.kernel.encoding import (
    ELEMENT,
    FLAG,
    I32,
    NAME,
    U8,
    U16,
    Blob,
    Codec,
    Fixed,
    Many,
    Message,
    Nested,
    Points,
    Reader,
    Text,
    decode_any,
    guarded,
    peek_tag,
)
from ragseal.kernel.errors import AuditError, EncodingError, LedgerError
from ragseal.kernel.opening import Opening
from ragseal.kernel.params import R
from ragseal.kernel.sealing import public_of
from ragseal.kernel.slot_text import NO_METADATA, SlotText
from tests.apart import ORDER

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


# Every codec at its edges, on messages of this test's own: what is written, read and refused. SPEC G.1.


@dataclass(frozen=True)
class Inner(Message):
    TAG: ClassVar[str] = "inner"
    CODECS: ClassVar[Sequence[Codec]] = (U8,)

    number: Any

    def validate(self) -> None:
        if self.number == 13:
            raise LedgerError("thirteen")


@dataclass(frozen=True)
class Other(Message):
    TAG: ClassVar[str] = "other"
    CODECS: ClassVar[Sequence[Codec]] = (U8,)

    number: Any


def one(codec: Codec) -> type[Message]:
    """A message of one field."""

    @dataclass(frozen=True)
    class Single(Message):
        TAG: ClassVar[str] = "single"
        CODECS: ClassVar[Sequence[Codec]] = (codec,)

        value: Any

    return Single


HEAD = b"\x06single\x00\x01"
Case = tuple[Codec, Any, bytes]

GOOD: list[Case] = [
    (U8, 0, b"\x00"),
    (U8, 255, b"\xff"),
    (U16, 258, b"\x01\x02"),
    (I32, -2, b"\xff\xff\xff\xfe"),
    (I32, -(2**31), b"\x80\x00\x00\x00"),
    (FLAG, True, b"\x01"),
    (FLAG, False, b"\x00"),
    (Fixed(3), b"abc", b"abc"),
    (Blob(3), b"abc", b"\x00\x00\x00\x03abc"),
    (Blob(3), b"", b"\x00\x00\x00\x00"),
    (Text(4), "éa b"[:3], b"\x00\x00\x00\x04\xc3\xa9a "),
    (Text(3), "", b"\x00\x00\x00\x00"),
    (NAME, "!~", b"\x00\x00\x00\x02!~"),
    (NAME, "a" * 128, b"\x00\x00\x00\x80" + b"a" * 128),
    (ELEMENT, 0, bytes(32)),
    (ELEMENT, ORDER - 1, (ORDER - 1).to_bytes(32, "big")),
    (Points(255), bytes(64), b"\x01" + bytes(64)),
    (Points(255), bytes(64 * 255), b"\xff" + bytes(64 * 255)),
    (Points(256), bytes(64), b"\x00\x01" + bytes(64)),
    (Points(448), bytes(64 * 448), b"\x01\xc0" + bytes(64 * 448)),  # of decoys over 64 shards
    (Many(U8, 2), (), b"\x00\x00\x00\x00"),
    (Many(U8, 2), (7, 8), b"\x00\x00\x00\x02\x07\x08"),
    (Many(Fixed(2), 2), (b"ab", b"cd"), b"\x00\x00\x00\x02abcd"),
    (Many(Fixed(2), 2), (), b"\x00\x00\x00\x00"),
    (Nested(Inner), Inner(5), b"\x05inner\x00\x01\x05"),
    (Many(Nested(Inner), 2), (Inner(5),), b"\x00\x00\x00\x01\x05inner\x00\x01\x05"),
]


@pytest.mark.parametrize(("codec", "value", "data"), GOOD)
def test_written_and_read(codec: Codec, value: Any, data: bytes) -> None:
    kind = one(codec)
    assert kind(value).encode() == HEAD + data  # type: ignore[call-arg]
    assert kind.decode(HEAD + data) == kind(value)  # type: ignore[call-arg]


UNWRITTEN: list[tuple[Codec, Any, str]] = [
    (U8, 256, "does not fit 1 bytes"),
    (U8, -1, "does not fit"),
    (U8, True, "expected an integer"),
    (U8, 1.0, "expected an integer"),
    (U8, "1", "expected an integer"),
    (I32, 2**31, "does not fit"),
    (FLAG, 1, "expected a boolean"),
    (FLAG, None, "expected a boolean"),
    (Fixed(3), b"ab", "expected 3 bytes"),
    (Fixed(3), b"abcd", "expected 3 bytes"),
    (Fixed(3), bytearray(3), "expected 3 bytes"),
    (Fixed(3), "abc", "expected 3 bytes"),
    (Blob(3), b"abcd", "oversized: 4 bytes, at most 3"),
    (Blob(3), "abc", "expected bytes"),
    (Blob(3), bytearray(3), "expected bytes"),
    (Text(3), "éab", "oversized"),
    (Text(3), b"ab", "expected text"),
    (Text(9), "\ud800", "lone surrogate"),
    (NAME, "", "identifier"),
    (NAME, "a b", "identifier"),
    (NAME, "é", "identifier"),
    (NAME, "a\n", "identifier"),
    (NAME, "a\x7f", "identifier"),
    (NAME, "a" * 129, "oversized"),
    (ELEMENT, ORDER, "field element"),
    (ELEMENT, -1, "field element"),
    (ELEMENT, True, "field element"),
    (ELEMENT, 1.0, "field element"),
    (Points(2), bytes(192), "3 points, where 1 to 2 can stand"),
    (Points(256), bytes(64 * 257), "257 points, where 1 to 256 can stand"),
    (Points(2), bytes(63), "points of 64 bytes"),
    (Many(U8, 2), (1, 2, 3), "oversized: 3 items, at most 2"),
    (Many(U8, 2), [1, 2], "expected a tuple"),
    (Many(Fixed(2), 2), (b"ab", b"c"), "expected 2 bytes"),
    (Many(Fixed(2), 2), (b"ab", bytearray(2)), "expected 2 bytes"),
    (Many(Fixed(2), 2), (b"ab",) * 3, "oversized"),
    (Nested(Inner), Other(5), "expected a Inner"),
    (Nested(Inner), b"inner", "expected a Inner"),
]


@pytest.mark.parametrize(("codec", "value", "why"), UNWRITTEN)
def test_never_written(codec: Codec, value: Any, why: str) -> None:
    """The refusal names message and field, and nothing else escapes."""
    with pytest.raises(EncodingError, match=rf"single\.value: .*{why}"):
        one(codec)(value).encode()  # type: ignore[call-arg]


UNREAD: list[tuple[Codec, bytes, str]] = [
    (U8, b"", "truncated: 1 bytes wanted at offset 9, 0 left"),
    (FLAG, b"\x02", "a flag is 0 or 1"),
    (Fixed(3), b"ab", "truncated"),
    (Blob(3), b"\x00\x00\x00\x04abcd", "oversized: 4 bytes announced, at most 3"),
    (Blob(3), b"\x00\x00\x00\x03ab", "truncated"),
    (Text(3), b"\x00\x00\x00\x01\xff", "not UTF-8"),
    (Text(3), b"\x00\x00\x00\x03\xed\xa0\x80", "not UTF-8"),
    (NAME, b"\x00\x00\x00\x00", "identifier"),
    (NAME, b"\x00\x00\x00\x03a b", "identifier"),
    (ELEMENT, ORDER.to_bytes(32, "big"), "not canonical"),
    (ELEMENT, b"\xff" * 32, "not canonical"),
    (Many(U8, 2), b"\x00\x00\x00\x03\x01\x02\x03", "oversized: 3 items announced, at most 2"),
    (Points(2), b"\x03" + bytes(192), "3 points announced"),
    (Points(256), b"\x01\x01" + bytes(64 * 257), "257 points announced"),
    (Points(256), b"\x00\x02" + bytes(64), "truncated"),
    (Many(U8, 9), b"\x00\x00\x00\x05\x01", "oversized: 5 items"),
    (Many(U8, 9), b"\x00\x00\x00\x02\x01", "truncated"),
    (Many(Fixed(2), 9), b"\x00\x00\x00\x02abc", "truncated"),
    (Nested(Inner), b"\x05other\x00\x01\x05", "not a inner message"),
    (Nested(Inner), b"\x04inne\x00\x01\x05", "not a inner message"),
    (Nested(Inner), b"\x05inner\x00\x02\x05", "protocol version 2, this program speaks 1"),
]


@pytest.mark.parametrize(("codec", "data", "why"), UNREAD)
def test_never_read(codec: Codec, data: bytes, why: str) -> None:
    with pytest.raises(EncodingError, match=rf"single\.value: .*{why}"):
        one(codec).decode(HEAD + data)


@pytest.mark.parametrize(("codec", "value", "data"), GOOD)
def test_nothing_may_follow(codec: Codec, value: Any, data: bytes) -> None:
    with pytest.raises(EncodingError, match="single: 1 bytes too many"):
        one(codec).decode(HEAD + data + b"\x00")


def test_a_second_form_of_one_value() -> None:
    """Were a codec to read two strings as one value, decode() refuses the one that it does not write."""

    @dataclass(frozen=True)
    class Lax:
        def write(self, value: Any, out: bytearray) -> None:
            out.append(value)

        def read(self, reader: Reader) -> int:
            return reader.take(1)[0] & 1

    assert one(Lax()).decode(HEAD + b"\x01").encode() == HEAD + b"\x01"
    with pytest.raises(EncodingError, match="not the canonical encoding"):
        one(Lax()).decode(HEAD + b"\x03")


def test_what_is_read_is_validated() -> None:
    """Inside another message too, and with the error's own type."""
    assert one(Nested(Inner)).decode(HEAD + b"\x05inner\x00\x01\x0c")
    for kind, head in ((Inner, b""), (one(Nested(Inner)), HEAD)):
        with pytest.raises(LedgerError, match="thirteen"):
            kind.decode(head + b"\x05inner\x00\x01\x0d")


def test_readers_never_go_back() -> None:
    reader = Reader(b"abc")
    assert reader.take(0) == b""
    assert (reader.take(2), reader.left()) == (b"ab", 1)
    for n in (-1, 2):
        with pytest.raises(EncodingError, match="truncated"):
            reader.take(n)
    assert reader.take(1) == b"c"


@pytest.mark.parametrize(
    ("data", "why"),
    [
        (b"", "truncated"),
        (b"\x00", "malformed"),
        (b"\x21" + b"a" * 33, "malformed"),
        (b"\x03a b", "malformed"),
        (b"\x03a\x7fb", "malformed"),
        (b"\x03a\xffb", "not ASCII"),
        (b"\x05inne", "truncated"),
    ],
)
def test_tags_that_are_none(data: bytes, why: str) -> None:
    with pytest.raises(EncodingError, match=why):
        peek_tag(data)
    with pytest.raises(EncodingError, match=why):
        decode_any(data, [Inner])


def test_tags() -> None:
    assert peek_tag(b"\x20" + b"a" * 32) == "a" * 32
    assert peek_tag(b"\x02!~rest") == "!~"
    assert decode_any(Other(3).encode(), [Inner, Other]) == Other(3)
    with pytest.raises(EncodingError, match="unexpected message 'other'"):
        decode_any(Other(3).encode(), [Inner])


def test_guarded_names_the_context_and_keeps_the_type() -> None:
    assert guarded(lambda: Inner.decode(Inner(1).encode()), "file") == Inner(1)
    with pytest.raises(LedgerError, match=r"^file: thirteen"):
        guarded(lambda: Inner.decode(b"\x05inner\x00\x01\x0d"), "file")
    with pytest.raises(AuditError, match=r"^file: "):
        guarded(lambda: Inner.decode(b""), "file")
