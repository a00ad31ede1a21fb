# SPDX-License-Identifier: GPL-3.0-or-later
"""Signed notes (C2SP signed-note v1.0.0) with Ed25519, strictly parsed.

A note is a text that ends in a newline, an empty line and signature lines ``— <name> base64(key id || signature)``.
Keys of type 0x01 sign the text itself; keys of type 0x04 are witnesses, which sign the text under a header with their
time (C2SP tlog-cosignature v1.0.1).  Signatures of unknown keys are ignored, one failing signature of a known key
refuses the whole note.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import ClassVar

from cryptography.exceptions import InvalidSignature
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PublicKey

from ragseal.kernel.errors import EncodingError, LedgerError
from ragseal.kernel.publickey import check_public_key
from ragseal.kernel.signature import SigningKey

ED25519 = 0x01
COSIGNATURE = 0x04

MAX_NOTE_BYTES = 64 * 1024
MAX_SIGNATURES = 128
MAX_LISTED = 8  #: keys that an error names
MAX_TIME = 2**63 - 1

_PREFIX = "\u2014 "


def encode_base64(data: bytes) -> str:
    return base64.b64encode(data).decode("ascii")


def decode_base64(text: str, what: str) -> bytes:
    """Standard base64 in its one canonical form: padded, no blanks, no stray low bits.

    Raises:
        EncodingError: anything else.
    """
    try:
        data = base64.b64decode(text.encode("ascii"), validate=True)
    except (UnicodeEncodeError, binascii.Error):
        raise EncodingError(f"{what}: not base64") from None
    if encode_base64(data) != text:
        raise EncodingError(f"{what}: not the canonical base64")
    return data


def decode_decimal(text: str, what: str) -> int:
    """A decimal below 2^63 without sign, blanks or leading zeroes (it is printed again and compared).

    Raises:
        EncodingError: anything else.
    """
    if not 0 < len(text) <= 19 or not text.isascii() or not text.isdigit() or str(int(text)) != text:
        raise EncodingError(f"{what}: {text[:24]!r} is not a plain decimal number")
    if int(text) > MAX_TIME:
        raise EncodingError(f"{what}: {text} is not below 2^63")
    return int(text)


def check_name(name: str) -> str:
    """Key names are not empty and hold no plus, no space and no control character.

    Raises:
        EncodingError: otherwise.
    """
    bad = any(ch == "+" or ch.isspace() or unicodedata.category(ch) in ("Cc", "Cs", "Zs", "Zl", "Zp") for ch in name)
    if not name or bad or len(name.encode("utf-8")) > 255:
        raise EncodingError(f"key name {name[:40]!r}: 1 to 255 bytes without spaces, plus or control characters")
    return name


def key_id(name: str, algorithm: int, public_key: bytes) -> bytes:
    """First 4 bytes of SHA-256(name || 0x0A || algorithm || public key)."""
    return hashlib.sha256(name.encode("utf-8") + b"\n" + bytes([algorithm]) + public_key).digest()[:4]


@dataclass(frozen=True, slots=True)
class NoteSignature:
    """One signature line: key name, 4-byte key id, and what the key's algorithm makes of it."""

    name: str
    key_id: bytes
    blob: bytes

    def line(self) -> str:
        """The line with its newline."""
        return f"{_PREFIX}{self.name} {encode_base64(self.key_id + self.blob)}\n"

    @classmethod
    def parse(cls, line: str) -> NoteSignature:
        """One line including its newline; EncodingError unless :meth:`line` gives it back."""
        parts = line[:-1].split(" ")
        if not line.endswith("\n") or len(parts) != 3 or f"{parts[0]} " != _PREFIX:
            raise EncodingError("signature line: expected an em dash, a key name and base64")
        data = decode_base64(parts[2], "signature line")
        if len(data) < 5:
            raise EncodingError("signature line: shorter than a key id and a signature")
        return cls(check_name(parts[1]), data[:4], data[4:])


@dataclass(frozen=True, slots=True)
class Note:
    """A text (with its final newline) and its signature lines, none of them verified yet."""

    text: str
    signatures: tuple[NoteSignature, ...]

    def encode(self) -> bytes:
        return (self.text + "\n" + "".join(signature.line() for signature in self.signatures)).encode("utf-8")

    @classmethod
    def parse(cls, data: bytes) -> Note:
        """Strict: ``Note.parse(data).encode() == data``.

        Raises:
            EncodingError: not UTF-8, control characters, oversized, no signature, or a malformed line.
        """
        if len(data) > MAX_NOTE_BYTES:
            raise EncodingError(f"note: {len(data)} bytes, at most {MAX_NOTE_BYTES}")
        try:
            whole = data.decode("utf-8")
        except UnicodeDecodeError:
            raise EncodingError("note: not UTF-8") from None
        if any(ch < " " and ch != "\n" for ch in whole):
            raise EncodingError("note: control characters other than newline")
        at = whole.rfind("\n\n")
        text, tail = whole[: at + 1], whole[at + 2 :]
        if at < 0 or not tail.endswith("\n") or not text.strip("\n"):
            raise EncodingError("note: expected a text, an empty line and signature lines")
        lines = tail[:-1].split("\n")
        if len(lines) > MAX_SIGNATURES:
            raise EncodingError(f"note: {len(lines)} signatures, at most {MAX_SIGNATURES}")
        return cls(text, tuple(NoteSignature.parse(line + "\n") for line in lines))

    def with_signatures(self, extra: Iterable[NoteSignature]) -> Note:
        """The same text with more lines; a line that is there already is not repeated."""
        lines = list(self.signatures)
        lines.extend(signature for signature in extra if signature not in lines)
        return Note(self.text, tuple(lines))


@dataclass(frozen=True, slots=True)
class NoteVerifier:
    """A public key under a name: whose signature lines to believe, and how to check them."""

    name: str
    public_key: bytes
    algorithm: int = ED25519

    SIGNATURE_SIZES: ClassVar[dict[int, int]] = {ED25519: 64, COSIGNATURE: 72}

    def __post_init__(self) -> None:
        check_name(self.name)
        if self.algorithm not in self.SIGNATURE_SIZES:
            raise EncodingError(f"key {self.name}: type {self.algorithm:#04x} is neither 0x01 (log) nor 0x04 (witness)")
        try:
            check_public_key(self.public_key)
        except EncodingError as error:
            raise EncodingError(f"key {self.name}: {error}") from None

    @property
    def key_id(self) -> bytes:
        return key_id(self.name, self.algorithm, self.public_key)

    def vkey(self) -> str:
        """The text form ``name+hex(key id)+base64(algorithm || public key)``."""
        return f"{self.name}+{self.key_id.hex()}+{encode_base64(bytes([self.algorithm]) + self.public_key)}"

    @classmethod
    def from_vkey(cls, text: str) -> NoteVerifier:
        """Parse the text form.

        Raises:
            EncodingError: malformed, an unknown key type, or a key id that does not belong to the key.
        """
        name, _, rest = text.partition("+")  # names hold no plus, base64 may
        hexadecimal, _, material = rest.partition("+")
        data = decode_base64(material, "verifier key")
        if not data:
            raise EncodingError("verifier key: expected name+id+base64, as printed by keygen")
        verifier = cls(name, data[1:], data[0])
        if verifier.key_id.hex() != hexadecimal:
            raise EncodingError(f"verifier key {name!r}: id {hexadecimal!r} is not this key's {verifier.key_id.hex()}")
        return verifier

    @property
    def keys(self) -> tuple[NoteVerifier, ...]:
        """Every key of the log; one without turns has this one (:class:`ragseal.ledger.turns.LogKey` has more)."""
        return (self,)

    def at(self, size: int) -> NoteVerifier:
        """The key whose line counts under a checkpoint of ``size`` entries."""
        return self

    def owns(self, signature: NoteSignature) -> bool:
        """Whether a line claims to be by this key."""
        return signature.name == self.name and signature.key_id == self.key_id

    def verify(self, text: str, signature: NoteSignature) -> int:
        """Check one line of this key over ``text``; returns the witness's time (seconds), 0 for type 0x01.

        Raises:
            LedgerError: another key's line, a wrong length, or a signature that does not verify.
        """
        if not self.owns(signature):
            raise LedgerError(f"the signature line is by {signature.name}, not by {self.name}")
        if len(signature.blob) != self.SIGNATURE_SIZES[self.algorithm]:
            raise LedgerError(f"signature of {self.name}: {len(signature.blob)} bytes is the wrong length")
        time = 0
        message, ed25519 = text.encode("utf-8"), signature.blob
        if self.algorithm == COSIGNATURE:
            time, ed25519 = int.from_bytes(signature.blob[:8], "big"), signature.blob[8:]
            if time > MAX_TIME:
                raise LedgerError(f"signature of {self.name}: its time is not below 2^63")
            message = cosigned_message(text, time)
        try:
            Ed25519PublicKey.from_public_bytes(self.public_key).verify(ed25519, message)
        except (InvalidSignature, ValueError):
            raise LedgerError(f"signature of {self.name} does not verify over this text") from None
        return time


@dataclass(frozen=True, slots=True)
class NoteSigner:
    """A private key under a name.  Its representation shows the name only."""

    name: str
    private_key: SigningKey
    algorithm: int = ED25519

    def __repr__(self) -> str:
        return f"NoteSigner({self.name!r})"

    @property
    def verifier(self) -> NoteVerifier:
        return NoteVerifier(self.name, self.private_key.public_key().public_bytes_raw(), self.algorithm)

    def sign(self, text: str, time: int = 0) -> NoteSignature:
        """A signature line over ``text``; ``time`` (seconds since 1970) enters the line of a witness key only.

        Raises:
            EncodingError: a text without its newline, or a time out of range.
        """
        if not text.endswith("\n"):
            raise EncodingError("a note's text ends in a newline")
        if self.algorithm == ED25519:
            return NoteSignature(self.name, self.verifier.key_id, self.private_key.sign(text.encode("utf-8")))
        if not 0 < time <= MAX_TIME:
            raise EncodingError("a cosignature carries a time in seconds, positive and below 2^63")
        blob = time.to_bytes(8, "big") + self.private_key.sign(cosigned_message(text, time))
        return NoteSignature(self.name, self.verifier.key_id, blob)


@dataclass(frozen=True, slots=True)
class Verified:
    """A signature line that verified: by which key, and a witness's time in seconds (0 for type 0x01)."""

    verifier: NoteVerifier
    signature: NoteSignature
    time: int


def verify_note(note: Note, known: Iterable[NoteVerifier]) -> list[Verified]:
    """Every signature of a known key, verified; lines of unknown keys are ignored.

    A line that is there several times counts, and costs, once: whoever hands a note on can repeat what stands in it.

    Raises:
        LedgerError: a line of a known key fails, or no known key signed at all.
    """
    keys = list(known)
    verified = [
        Verified(key, signature, key.verify(note.text, signature))
        for signature in dict.fromkeys(note.signatures)
        for key in keys
        if key.owns(signature)
    ]
    if not verified:
        wanted = [(key.name, key.key_id) for key in keys]
        seen = list(dict.fromkeys((signature.name, signature.key_id) for signature in note.signatures))
        same = {name for name, _ in wanted} & {name for name, _ in seen}
        way = "the name is right, the key another: compare both keys" if same else "is that the log that you mean?"
        raise LedgerError(
            f"the note carries no signature by a known key ({_listed(wanted)}); it is signed by {_listed(seen)}: {way}"
        )
    return verified


def _listed(keys: list[tuple[str, bytes]]) -> str:
    """Names with the ids of their keys, as a verifier key's text form begins."""
    return ", ".join(f"{name}+{number.hex()}" for name, number in keys[:MAX_LISTED]) or "nobody"


def line_of(note: Note, key: NoteVerifier) -> NoteSignature | None:
    """The first line of a note that is by this key; None where there is none, or only such as claim to be."""
    for line in dict.fromkeys(note.signatures):
        if key.owns(line):
            try:
                key.verify(note.text, line)
            except LedgerError:
                continue
            return line
    return None


def cosigned_message(text: str, time: int) -> bytes:
    """What a key of type 0x04 signs (tlog-cosignature): header, time line, whole text of the checkpoint."""
    return f"cosignature/v1\ntime {time}\n{text}".encode()
