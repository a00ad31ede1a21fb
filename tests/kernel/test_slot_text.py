# SPDX-License-Identifier: GPL-3.0-or-later
"""What a slot's leaf commits to: one encoding a value, and every other string of bytes refused.  SPEC A.4."""

from __future__ import annotations

import struct
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ragseal.kernel.commitment import text_leaf
from ragseal.kernel.encoding import Message, Reader
from ragseal.kernel.errors import AuditError, CommitmentError, EncodingError
from ragseal.kernel.slot_text import (
    MAX_ID,
    MAX_KEY,
    MAX_PAIRS,
    MAX_TEXT_BYTES,
    MAX_VALUE,
    NO_METADATA,
    Characters,
    Metadata,
    MetadataPair,
    MetadataValue,
    Number,
    SlotText,
)
from ragseal.runtime.metadata import committed, mapping_of
from tests import apart

WIDEST = "\U0001f600"  #: four bytes, two UTF-16 units, one character
PAIRS = MetadataPair("n", Number(struct.pack(">d", 16.5))), MetadataPair("s", "v"), MetadataPair("t", True)
FULL = SlotText("d1", "text", Metadata(PAIRS))

characters = st.text(st.characters(exclude_categories=("Cs",)))
values = st.one_of(
    characters.filter(lambda text: len(text) <= MAX_VALUE), st.booleans(), st.integers(-(2**53) + 1, 2**53 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
)  # fmt: skip
mappings = st.dictionaries(
    st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=MAX_KEY), values, max_size=MAX_PAIRS
)


def refused(message: Message, error: type[AuditError], words: str) -> None:
    """By whoever reads its bytes, which are written here by another program."""
    with pytest.raises(error, match=words):
        type(message).decode(apart.canonical(message))


@given(mappings, st.text(st.characters(exclude_categories=("Cs",)), min_size=1, max_size=MAX_ID), characters)
@example({"a": 0.1, "b": -1e308, "c": 5e-324, "d": 2**53 - 1}, "d", "")
def test_what_is_committed_comes_back(mapping: dict[str, Any], name: str, text: str) -> None:
    made = SlotText(name, text, committed(mapping))
    made.check()
    assert made.encode() == apart.canonical(made)
    read = SlotText.decode(made.encode())
    assert read == made
    back = mapping_of(read.metadata)
    assert back == mapping
    assert list(back) == sorted(mapping)
    assert {key: isinstance(value, bool) for key, value in back.items()} == {
        key: isinstance(value, bool) for key, value in mapping.items()
    }


@given(st.binary(min_size=8, max_size=8))
@example(bytes(8))
@example(b"\x7f\xef" + b"\xff" * 6)
@example(b"\x00" * 7 + b"\x01")
def test_every_finite_number_has_one_encoding(bits: bytes) -> None:
    message = Metadata((MetadataPair("n", Number(bits)),))
    (number,) = struct.unpack(">d", bits)
    if number != number or number in (float("inf"), float("-inf")) or bits == b"\x80" + bytes(7):
        refused(message, EncodingError, "a number is finite|zero has no sign")
        with pytest.raises(EncodingError):
            message.encode()
    else:
        back = mapping_of(Metadata.decode(message.encode()))["n"]
        assert back == number
        assert isinstance(back, int) == (number.is_integer() and abs(number) < 2**53)
        assert committed({"n": back}) == message


@pytest.mark.parametrize(
    "bits", ["7ff0000000000000", "fff0000000000000", "7ff8000000000000", "fff8000000000001", "7ff0000000000001"]
)
def test_numbers_that_are_none(bits: str) -> None:
    refused(Metadata((MetadataPair("n", Number(bytes.fromhex(bits))),)), EncodingError, "a number is finite")


def test_zero_has_one_sign_and_comes_back_as_zero() -> None:
    refused(Metadata((MetadataPair("n", Number(b"\x80" + bytes(7))),)), EncodingError, "zero has no sign")
    assert committed({"n": -0.0}) == committed({"n": 0}) == committed({"n": 0.0})
    assert committed({"n": 3.0}) == committed({"n": 3})
    assert committed({"n": True}) != committed({"n": 1})


@pytest.mark.parametrize("value", [2**53, -(2**53), 10**400, float("inf"), float("-inf"), float("nan")])
def test_numbers_that_no_double_holds_are_refused(value: float) -> None:
    with pytest.raises(EncodingError, match=r"metadata 'n': .*(2\^53|finite)"):
        committed({"n": value})


@pytest.mark.parametrize("value", [None, [], {}, b"x", 1j, object()])
def test_other_values_are_refused(value: Any) -> None:
    with pytest.raises(EncodingError, match="metadata 'k': a value is text, a boolean or a number, not"):
        committed({"k": value})
    with pytest.raises(EncodingError, match="text, a boolean or a number"):
        Metadata((MetadataPair("k", value),)).encode()


def test_keys_are_text() -> None:
    keys: Any = {1: "x"}
    with pytest.raises(EncodingError, match="a key of metadata is text, not int"):
        committed(keys)
    with pytest.raises(EncodingError, match="surrogate"):
        committed({"\ud800": "x"})
    with pytest.raises(EncodingError, match="surrogate"):
        committed({"k": "\ud800"})


@pytest.mark.parametrize(
    ("field", "least", "most"),
    [("id", 1, 512), ("key", 1, 64), ("value", 0, 512)],
)
def test_lengths_are_counted_in_characters(field: str, least: int, most: int) -> None:
    def of(text: str) -> SlotText:
        key, value = (text if field == which else "k" for which in ("key", "value"))
        name = text if field == "id" else "d"
        return SlotText(name, "", Metadata((MetadataPair(key, value),)))

    for size in (least, most):
        made = of(WIDEST * size)
        assert SlotText.decode(made.encode()) == made
    for size in {least - 1, most + 1} - {-1}:
        refused(of("x" * size), EncodingError, f"{size} characters, where {least} to {most} can stand")
        with pytest.raises(EncodingError, match=f"{size} characters"):
            of("x" * size).check()
    refused(of(WIDEST * (most + 1)), EncodingError, "oversized")


def test_a_text_is_as_long_as_it_was_and_no_longer() -> None:
    assert MAX_TEXT_BYTES == 1 << 20
    longest = replace(FULL, text="x" * MAX_TEXT_BYTES)
    assert SlotText.decode(longest.encode()) == longest
    refused(replace(FULL, text="x" * (MAX_TEXT_BYTES + 1)), EncodingError, "oversized")


def test_sixteen_pairs_and_no_more() -> None:
    pairs = tuple(MetadataPair(f"{i:02}", i % 2 == 0) for i in range(MAX_PAIRS + 1))
    assert Metadata.decode(Metadata(pairs[:-1]).encode()).pairs == pairs[:-1]
    refused(Metadata(pairs), EncodingError, "oversized: 17 items")
    with pytest.raises(EncodingError, match="17 items"):
        committed({pair.key: "" for pair in pairs})


@pytest.mark.parametrize("keys", ["ba", "aa", "aba", "abb"])
def test_keys_are_sorted_and_stand_once(keys: str) -> None:
    made = Metadata(tuple(MetadataPair(key, "") for key in keys))
    refused(made, CommitmentError, "sorted by key, and each key stands once")
    refused(replace(FULL, metadata=made), CommitmentError, "sorted by key")
    with pytest.raises(CommitmentError, match="sorted by key"):
        replace(FULL, metadata=made).check()


def test_keys_are_sorted_by_code_points_not_by_utf_16() -> None:
    made = committed({WIDEST: "", "\uff21": ""})
    assert [pair.key for pair in made.pairs] == ["\uff21", WIDEST]
    refused(Metadata(made.pairs[::-1]), CommitmentError, "sorted by key")


def test_a_value_of_a_fourth_kind_is_refused() -> None:
    data = MetadataPair("k", True).encode()
    assert data[-2:] == b"\x01\x01"
    for tail, why in (
        (b"\x03\x01", "text, a boolean or a number"),
        (b"\x01\x02", "a flag is 0 or 1"),
        (b"\x02\x01", "truncated"),
    ):
        with pytest.raises(EncodingError, match=why):
            MetadataPair.decode(data[:-2] + tail)


def test_a_reader_refuses_before_anything_is_written_again() -> None:
    """Decoding ends in encoding, which refuses too; a reader alone does so already."""
    for codec, data, why in (
        (Characters(1, 2), b"\x00\x00\x00\x03abc", "3 characters, where 1 to 2"),
        (Characters(1, 2), bytes(4), "0 characters, where 1 to 2"),
        (MetadataValue(), b"\x02\x7f\xf0" + bytes(6), "a number is finite"),
        (MetadataValue(), b"\x02\x80" + bytes(7), "zero has no sign"),
    ):
        with pytest.raises(EncodingError, match=why):
            codec.read(Reader(data))


def test_the_leaf_binds_id_text_and_metadata() -> None:
    salt = b"s" * 32
    one, other = (MetadataPair(key, "v") for key in "ab")
    contents = [
        None,
        SlotText("d", "", NO_METADATA),
        FULL,
        replace(FULL, id="d2"),
        replace(FULL, text="texts"),
        replace(FULL, id="d1t", text="ext"),
        replace(FULL, metadata=NO_METADATA),
        replace(FULL, metadata=Metadata((one,))),
        replace(FULL, metadata=Metadata((other,))),
        replace(FULL, metadata=Metadata((one, other))),
        replace(FULL, metadata=committed({"n": "16.5", "s": "v", "t": True})),
        replace(FULL, metadata=committed({"n": 16.5, "s": "v", "t": 1})),
    ]
    leaves = {text_leaf(salt, 3, content) for content in contents}
    assert len(leaves) == len(contents)
    assert text_leaf(salt, 4, FULL) not in leaves
    assert text_leaf(b"t" * 32, 3, FULL) not in leaves
