# SPDX-License-Identifier: GPL-3.0-or-later
"""Notes, names and numbers at the edge of what is taken: refused as an EncodingError, never by another exception."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel.errors import EncodingError
from ragseal.ledger.note import (
    MAX_NOTE_BYTES,
    MAX_SIGNATURES,
    Note,
    NoteSignature,
    NoteVerifier,
    check_name,
    decode_decimal,
)

LINE = NoteSignature("a", b"1234", b"5").line()


@pytest.mark.parametrize("text", ["²", "1²", "٣", "9" * 5000, "0" * 20, "1" * 20])
def test_numbers_that_python_reads_otherwise_or_not_at_all(text: str) -> None:
    """int() raises a ValueError of its own for a superscript, and for more than 4,300 digits."""
    with pytest.raises(EncodingError, match="plain decimal"):
        decode_decimal(text, "number")


@pytest.mark.parametrize(
    "name", ["", "a b", "a+b", "a\tb", "a\x00b", "a\x7f", "a\x9f", "a\u00a0", "a\u2028", "\ud800", "a" * 256, "é" * 128]
)
def test_names_that_are_none(name: str) -> None:
    with pytest.raises(EncodingError, match="key name"):
        check_name(name)


def test_longest_names() -> None:
    assert check_name("a" * 255) == "a" * 255
    assert check_name("é" * 127) == "é" * 127


@pytest.mark.parametrize("line", [LINE[:-1], LINE[:-1] + "X", LINE[:-1] + " ", LINE + "\n", "", "\n"])
def test_lines_end_in_their_newline(line: str) -> None:
    with pytest.raises(EncodingError, match="signature line"):
        NoteSignature.parse(line)


def test_shortest_signature() -> None:
    """A key id of four bytes, and at least one byte more."""
    assert NoteSignature.parse(LINE) == NoteSignature("a", b"1234", b"5")
    with pytest.raises(EncodingError, match="shorter than a key id"):
        NoteSignature.parse(f"— a {base64.b64encode(b'1234').decode()}\n")


@pytest.mark.parametrize("end", ["X", " ", "="])
def test_a_note_ends_in_a_newline(end: str) -> None:
    """Another last character must not stand for it: one note would then have two encodings."""
    with pytest.raises(EncodingError):
        Note.parse(f"text\n\n{LINE[:-1]}{end}".encode())


def test_largest_note() -> None:
    rest = len(f"\n\n{LINE}".encode())
    largest = "t" * (MAX_NOTE_BYTES - rest) + f"\n\n{LINE}"
    assert Note.parse(largest.encode()).encode() == largest.encode()
    with pytest.raises(EncodingError, match="at most"):
        Note.parse(b"t" + largest.encode())


def test_most_signatures() -> None:
    lines = [NoteSignature(f"k{i}", b"1234", b"5").line() for i in range(MAX_SIGNATURES + 1)]
    assert len(Note.parse(("text\n\n" + "".join(lines[:-1])).encode()).signatures) == MAX_SIGNATURES
    with pytest.raises(EncodingError, match="signatures, at most"):
        Note.parse(("text\n\n" + "".join(lines)).encode())


def test_a_line_is_not_repeated() -> None:
    one, other = NoteSignature.parse(LINE), NoteSignature("b", b"1234", b"5")
    assert Note("text\n", (one,)).with_signatures([one, other]) == Note("text\n", (one, other))


def test_keys_have_proper_names() -> None:
    key = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()
    for name in ("", "a b", "a\nb"):
        with pytest.raises(EncodingError, match="key name"):
            NoteVerifier(name, key)
