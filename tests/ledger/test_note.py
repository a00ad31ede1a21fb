# SPDX-License-Identifier: GPL-3.0-or-later
"""Signed notes: a published vector, canonical parsing, key rules, hostile bytes."""

from __future__ import annotations

import base64

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from hypothesis import given, settings
from hypothesis import strategies as st

from ragseal.kernel.errors import AuditError, EncodingError, LedgerError
from ragseal.ledger.note import (
    COSIGNATURE,
    MAX_NOTE_BYTES,
    MAX_SIGNATURES,
    MAX_TIME,
    Note,
    NoteSignature,
    NoteSigner,
    NoteVerifier,
    check_name,
    decode_base64,
    decode_decimal,
    key_id,
    line_of,
    verify_note,
)

# The key and note of golang.org/x/mod/sumdb/note's own tests: an independent implementation made this signature.
GO_KEY = "PeterNeumann+c74f20a3+ARpc2QcUPDhMQegwxbzhKqiBfsVkmqq/LDE4izWy10TW"
GO_TEXT = "If you think cryptography is the answer to your problem,\nthen you don't know what your problem is.\n"
GO_LINE = (
    "— PeterNeumann x08go/ZJkuBS9UG/SffcvIAQxVBtiFupLLr8pAcElZInNIuGUgYN1FFYC2pZSNXgKvqfqdngotpRZb6KE6RyyBwJnAM=\n"
)


def signer(number: int, name: str = "log.example/a", algorithm: int = 1) -> NoteSigner:
    return NoteSigner(name, Ed25519PrivateKey.from_private_bytes(bytes([number]) * 32), algorithm)


def test_published_note_verifies_and_comes_back_byte_for_byte() -> None:
    data = (GO_TEXT + "\n" + GO_LINE).encode()
    note, key = Note.parse(data), NoteVerifier.from_vkey(GO_KEY)
    assert (note.text, note.encode(), key.vkey()) == (GO_TEXT, data, GO_KEY)
    assert [found.verifier for found in verify_note(note, [key])] == [key]
    with pytest.raises(LedgerError, match="does not verify"):
        verify_note(Note.parse(data.replace(b"answer", b"Answer")), [key])


def test_sign_then_verify_both_kinds() -> None:
    log, witness = signer(1), signer(2, "witness.example", COSIGNATURE)
    text = "log.example/a\n0\n\nmore\n"
    note = Note(text, (log.sign(text), witness.sign(text, 1_700_000_000)))
    found = verify_note(Note.parse(note.encode()), [log.verifier, witness.verifier])
    assert [item.time for item in found] == [0, 1_700_000_000]
    assert NoteVerifier.from_vkey(witness.verifier.vkey()) == witness.verifier
    assert "PrivateKey" not in repr(log)


def test_unknown_keys_are_ignored_but_a_failing_known_key_rejects() -> None:
    log, other = signer(1), signer(3, "other.example")
    text = "text\n"
    good = log.sign(text)
    stranger = NoteSignature("stranger.example", b"\x00\x01\x02\x03", b"whatever")
    same_name = NoteSignature(log.name, bytes(4), bytes(64))
    verify_note(Note(text, (stranger, same_name, good)), [log.verifier])
    broken = NoteSignature(other.name, other.verifier.key_id, bytes(64))
    verify_note(Note(text, (good, broken)), [log.verifier])
    with pytest.raises(LedgerError, match=r"other\.example does not verify"):
        verify_note(Note(text, (good, broken)), [log.verifier, other.verifier])
    repeated = NoteSignature(log.name, log.verifier.key_id, bytes(64))
    with pytest.raises(LedgerError, match="does not verify"):
        verify_note(Note(text, (good, repeated)), [log.verifier])
    with pytest.raises(LedgerError, match="no signature by a known key"):
        verify_note(Note(text, (stranger,)), [log.verifier])
    with pytest.raises(LedgerError, match="no signature by a known key"):
        verify_note(Note(text, (good,)), [])


def test_a_note_of_another_key_names_both_keys() -> None:
    """Of one name above all: the names alone would be the same twice."""
    log, other = signer(1, "example.org/rag"), signer(2, "example.org/rag")
    wanted, seen = (f"example.org/rag+{one.verifier.key_id.hex()}" for one in (log, other))
    with pytest.raises(LedgerError) as caught:
        verify_note(Note("text\n", (other.sign("text\n"),)), [log.verifier])
    assert f"by a known key ({wanted}); it is signed by {seen}: the name is right, the key another" in str(caught.value)
    named = signer(3, "other.example/log")
    with pytest.raises(LedgerError, match=r"signed by other\.example/log\+[0-9a-f]{8}: is that the log that you mean"):
        verify_note(Note("text\n", (named.sign("text\n"),)), [log.verifier])


def test_a_cosignature_binds_time_and_kind() -> None:
    witness = signer(2, "witness.example", COSIGNATURE)
    line = witness.sign("text\n", 1000)
    later = NoteSignature(line.name, line.key_id, (1001).to_bytes(8, "big") + line.blob[8:])
    with pytest.raises(LedgerError, match="does not verify"):
        witness.verifier.verify("text\n", later)
    # the same key and name as a log key has another id, and its signature is over other bytes
    as_log = NoteVerifier("witness.example", witness.verifier.public_key)
    assert as_log.key_id != witness.verifier.key_id
    with pytest.raises(LedgerError):
        as_log.verify("text\n", NoteSignature(line.name, as_log.key_id, line.blob[8:]))
    for bad in (0, -1, 2**63):
        with pytest.raises(EncodingError):
            witness.sign("text\n", bad)
    huge = NoteSignature(line.name, line.key_id, (2**63).to_bytes(8, "big") + line.blob[8:])
    with pytest.raises(LedgerError, match="below 2"):
        witness.verifier.verify("text\n", huge)


def test_the_latest_time_of_a_cosignature_can_be_signed_and_read() -> None:
    witness = signer(2, "witness.example", COSIGNATURE)
    assert witness.verifier.verify("text\n", witness.sign("text\n", MAX_TIME)) == MAX_TIME


def test_a_line_that_stands_there_twice_counts_once() -> None:
    log = signer(1)
    line = log.sign("text\n")
    assert len(verify_note(Note("text\n", (line, line)), [log.verifier])) == 1


def test_the_line_of_a_key_is_the_first_that_holds() -> None:
    log, other = signer(1), signer(3)
    assert (log.name, log.verifier.key_id) != (other.name, other.verifier.key_id)
    good, foreign = log.sign("text\n"), other.sign("text\n")
    bad = NoteSignature(log.name, log.verifier.key_id, bytes(64))
    assert line_of(Note("text\n", (foreign, bad, good, bad)), log.verifier) == good
    assert line_of(Note("text\n", (foreign, bad)), log.verifier) is None
    assert line_of(Note("text\n", ()), log.verifier) is None


def test_a_key_id_is_written_in_small_letters() -> None:
    name, number, material = signer(1).verifier.vkey().split("+", 2)
    assert number != number.upper()
    with pytest.raises(EncodingError, match="is not this key's"):
        NoteVerifier.from_vkey(f"{name}+{number.upper()}+{material}")


def test_verify_checks_owner_and_length() -> None:
    log, witness = signer(1), signer(2, "witness.example", COSIGNATURE)
    line = log.sign("text\n")
    for bad in (
        NoteSignature("log.example/b", line.key_id, line.blob),
        NoteSignature(line.name, bytes(4), line.blob),
    ):
        with pytest.raises(LedgerError, match="not by"):
            log.verifier.verify("text\n", bad)
    for key, good in ((log, line), (witness, witness.sign("text\n", 1))):
        for blob in (good.blob[:-1], good.blob + b"\x00", b""):
            with pytest.raises(LedgerError, match="wrong length"):
                key.verifier.verify("text\n", NoteSignature(good.name, good.key_id, blob))
    with pytest.raises(EncodingError, match="ends in a newline"):
        log.sign("text")


def test_sixteen_signatures_and_more_are_tolerated() -> None:
    log = signer(1)
    strangers = tuple(NoteSignature(f"w{i}.example", bytes([i] * 4), bytes(72)) for i in range(20))
    data = Note("text\n", (*strangers, log.sign("text\n"))).encode()
    assert len(verify_note(Note.parse(data), [log.verifier])) == 1
    too_many = Note("text\n", (log.sign("text\n"),) * (MAX_SIGNATURES + 1))
    with pytest.raises(EncodingError, match="signatures, at most"):
        Note.parse(too_many.encode())


LINE = "— a x08go/ZJkuBS9UG/\n"


@pytest.mark.parametrize(
    "text",
    [
        "",
        "text\n",
        "text\n\n",
        "text\n" + LINE,
        "\n\n" + LINE,
        "text\n\n" + LINE[:-1],
        "text\n\n" + LINE + "\n",
        "text\n\n" + LINE.replace("—", "-"),
        "text\n\n" + LINE.replace("— ", "—"),
        "text\n\n" + LINE.replace(" a ", "  "),
        "text\n\n" + LINE.replace(" a ", " a+b "),
        "text\n\n" + LINE.replace(" a ", " a\u2003b "),
        "text\n\n" + LINE.replace(" a ", " a  "),
        "text\n\n" + LINE.replace("UG/", "UG"),
        "text\n\n" + LINE.replace("UG/", "UG/ "),
        "text\n\n— a x08goz==\n",
        "text\n\n— a x08g\n",
        "te\rxt\n\n" + LINE,
        "te\x00xt\n\n" + LINE,
        "x" * 70_000 + "\n\n" + LINE,
    ],
)
def test_malformed_notes_are_refused(text: str) -> None:
    assert Note.parse(("text\n\n" + LINE).encode()).signatures[0].name == "a"
    with pytest.raises(EncodingError):
        Note.parse(text.encode())


def test_not_utf8_is_refused() -> None:
    with pytest.raises(EncodingError, match="UTF-8"):
        Note.parse(b"text\xff\n\n" + LINE.encode())


@settings(max_examples=300)
@given(
    st.binary(max_size=200) | st.text(max_size=60).map(lambda t: t.encode("utf-8", "ignore") + b"\n\n" + LINE.encode())
)
def test_what_parses_is_canonical(data: bytes) -> None:
    try:
        note = Note.parse(data)
    except AuditError:
        return
    assert note.encode() == data


def test_every_mangled_verifier_key_is_refused() -> None:
    for start in range(len(GO_KEY)):
        for end in range(start + 1, len(GO_KEY) + 1):
            if (start, end) != (0, len(GO_KEY)):
                with pytest.raises(AuditError):
                    NoteVerifier.from_vkey(GO_KEY[start:end])
    for at in range(len(GO_KEY)):
        with pytest.raises(AuditError):
            NoteVerifier.from_vkey(GO_KEY[:at] + chr(ord(GO_KEY[at]) + 1) + GO_KEY[at + 1 :])


def test_other_key_types_and_weak_points_are_refused() -> None:
    public = NoteVerifier.from_vkey(GO_KEY).public_key
    for algorithm, key in ((2, public), (6, public), (1, public + b"\x00"), (1, b"")):
        with pytest.raises(EncodingError):
            NoteVerifier("a", key, algorithm)
    p = 2**255 - 19
    y8 = 0x7A03AC9277FDC74EC6CC392CFA53202A0F67100D760B3CBA4FD84D3D706A17C7
    # on -x^2 + y^2 = 1 + d x^2 y^2 twice a point of order 8 has y = 0: x^2 = -y^2, so 2 y^2 = 1 - d y^4
    d = -121665 * pow(121666, -1, p) % p
    assert (2 * y8**2 - 1 + d * y8**4) % p == 0
    for y in (0, 1, p - 1, y8, p - y8, p, p + 1, 2**255 - 1):
        for sign in (0, 1):
            with pytest.raises(EncodingError, match=r"small order|canonical form"):
                NoteVerifier("a", (y | sign << 255).to_bytes(32, "little"))


def test_key_id_by_hand() -> None:
    public = base64.b64decode(GO_KEY.rsplit("+", 1)[1])[1:]
    assert key_id("PeterNeumann", 1, public).hex() == "c74f20a3"


@pytest.mark.parametrize(
    "text", ["", "01", "+1", "-1", " 1", "1 ", "1_0", "\u0661", "0x1", "1e3", str(2**63), "9" * 30]
)
def test_numbers_have_one_form(text: str) -> None:
    with pytest.raises(EncodingError):
        decode_decimal(text, "number")
    assert [decode_decimal(str(n), "number") for n in (0, 10, 2**63 - 1)] == [0, 10, 2**63 - 1]


@pytest.mark.parametrize("text", ["QQ", "QR==", "QQ==\n", "Q Q==", "QQ==QQ==", "Q-==", "é"])
def test_base64_has_one_form(text: str) -> None:
    with pytest.raises(EncodingError):
        decode_base64(text, "data")


# Notes, names and numbers at the edge of what is taken: refused as an EncodingError, never by another exception.


SHORT_LINE = NoteSignature("a", b"1234", b"5").line()


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


@pytest.mark.parametrize(
    "line",
    [
        SHORT_LINE[:-1],
        SHORT_LINE[:-1] + "X",
        SHORT_LINE[:-1] + " ",
        SHORT_LINE + "\n",
        "",
        "\n",
    ],
)
def test_lines_end_in_their_newline(line: str) -> None:
    with pytest.raises(EncodingError, match="signature line"):
        NoteSignature.parse(line)


def test_shortest_signature() -> None:
    """A key id of four bytes, and at least one byte more."""
    assert NoteSignature.parse(SHORT_LINE) == NoteSignature("a", b"1234", b"5")
    with pytest.raises(EncodingError, match="shorter than a key id"):
        NoteSignature.parse(f"— a {base64.b64encode(b'1234').decode()}\n")


@pytest.mark.parametrize("end", ["X", " ", "="])
def test_a_note_ends_in_a_newline(end: str) -> None:
    """Another last character must not stand for it: one note would then have two encodings."""
    with pytest.raises(EncodingError):
        Note.parse(f"text\n\n{SHORT_LINE[:-1]}{end}".encode())


def test_largest_note() -> None:
    rest = len(f"\n\n{SHORT_LINE}".encode())
    largest = "t" * (MAX_NOTE_BYTES - rest) + f"\n\n{SHORT_LINE}"
    assert Note.parse(largest.encode()).encode() == largest.encode()
    with pytest.raises(EncodingError, match="at most"):
        Note.parse(b"t" + largest.encode())


def test_most_signatures() -> None:
    lines = [NoteSignature(f"k{i}", b"1234", b"5").line() for i in range(MAX_SIGNATURES + 1)]
    assert len(Note.parse(("text\n\n" + "".join(lines[:-1])).encode()).signatures) == MAX_SIGNATURES
    with pytest.raises(EncodingError, match="signatures, at most"):
        Note.parse(("text\n\n" + "".join(lines)).encode())


def test_a_line_is_not_repeated() -> None:
    one, other = NoteSignature.parse(SHORT_LINE), NoteSignature("b", b"1234", b"5")
    assert Note("text\n", (one,)).with_signatures([one, other]) == Note("text\n", (one, other))


def test_keys_have_proper_names() -> None:
    key = Ed25519PrivateKey.from_private_bytes(bytes(32)).public_key().public_bytes_raw()
    for name in ("", "a b", "a\nb"):
        with pytest.raises(EncodingError, match="key name"):
            NoteVerifier(name, key)
