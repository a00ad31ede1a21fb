# SPDX-License-Identifier: GPL-3.0-or-later
"""What a slot's leaf commits to: the document's id, its text and its metadata.  SPEC A.4.

Numbers are the 64 bits of an IEEE 754 double, as JSON's are everywhere: one number has one encoding (no NaN, no
infinity, no zero below zero), nobody has to print or parse a decimal fraction to the last digit, and the kernel
compares bytes.  :mod:`ragseal.runtime.metadata` turns them into Python's numbers and back.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from ragseal.kernel.encoding import FLAG, Codec, Fixed, Many, Message, Nested, Reader, Text
from ragseal.kernel.errors import CommitmentError, EncodingError

MAX_ID = 512  #: characters
MAX_TEXT_BYTES = 1 << 20
MAX_PAIRS = 16
MAX_KEY = 64  #: characters
MAX_VALUE = 512  #: characters of a value that is text
MAX_KEYWORD = 64  #: characters of a word of a vocabulary
NO_SALT = bytes(32)  #: of a vocabulary's leaves: whoever has the words can compute its root

_TEXT, _BOOLEAN, _NUMBER = 0, 1, 2
_EXPONENT = 0x7FF << 52  #: all ones: NaN or infinite
_NEGATIVE_ZERO = 1 << 63


@dataclass(frozen=True, slots=True)
class Number:
    """A finite IEEE 754 double."""

    bits: bytes  #: 8, sign and exponent first


Value = str | bool | Number


@dataclass(frozen=True, slots=True)
class Characters:
    """UTF-8 of ``least`` to ``most`` characters, which are code points."""

    least: int
    most: int

    def _check(self, value: str) -> None:
        if not self.least <= len(value) <= self.most:
            raise EncodingError(f"{len(value)} characters, where {self.least} to {self.most} can stand")

    def write(self, value: Any, out: bytearray) -> None:
        if isinstance(value, str):
            self._check(value)
        Text(4 * self.most).write(value, out)

    def read(self, reader: Reader) -> str:
        value = Text(4 * self.most).read(reader)
        self._check(value)
        return value


_VALUE_TEXT, _BITS = Characters(0, MAX_VALUE), Fixed(8)


@dataclass(frozen=True, slots=True)
class MetadataValue:
    """One byte that says which: text (0), boolean (1), number (2); then the value."""

    def write(self, value: Any, out: bytearray) -> None:
        match value:
            case str():
                out.append(_TEXT)
                _VALUE_TEXT.write(value, out)
            case bool():
                out.append(_BOOLEAN)
                FLAG.write(value, out)
            case Number(bits):
                out.append(_NUMBER)
                _BITS.write(bits, out)
                _check_number(bits)
            case _:
                raise EncodingError("expected text, a boolean or a number")

    def read(self, reader: Reader) -> Value:
        kind = reader.take(1)[0]
        if kind == _TEXT:
            return _VALUE_TEXT.read(reader)
        if kind == _BOOLEAN:
            return FLAG.read(reader)
        if kind == _NUMBER:
            bits = _BITS.read(reader)
            _check_number(bits)
            return Number(bits)
        raise EncodingError("a value is text, a boolean or a number")


def _check_number(bits: bytes) -> None:
    pattern = int.from_bytes(bits, "big")
    if pattern & _EXPONENT == _EXPONENT:
        raise EncodingError("a number is finite")
    if pattern == _NEGATIVE_ZERO:
        raise EncodingError("zero has no sign")


@dataclass(frozen=True, slots=True)
class MetadataPair(Message):
    """A key of a document's metadata with its value."""

    TAG: ClassVar[str] = "metadata-pair"
    CODECS: ClassVar[Sequence[Codec]] = (Characters(1, MAX_KEY), MetadataValue())

    key: str  #: what the value is
    value: Value  #: text, boolean or number


@dataclass(frozen=True, slots=True)
class Metadata(Message):
    """At most 16 pairs by key, each key once; keys are compared by their code points, as their UTF-8 bytes would be."""

    TAG: ClassVar[str] = "metadata"
    CODECS: ClassVar[Sequence[Codec]] = (Many(Nested(MetadataPair), MAX_PAIRS),)

    pairs: tuple[MetadataPair, ...]  #: strictly increasing by key, compared by code points

    def validate(self) -> None:
        if any(one.key >= other.key for one, other in itertools.pairwise(self.pairs)):
            raise CommitmentError("metadata is sorted by key, and each key stands once")


NO_METADATA = Metadata(())


@dataclass(frozen=True, slots=True)
class SlotText(Message):
    """All that can be read of one document; as secret as its text in every part."""

    TAG: ClassVar[str] = "slot-text"
    CODECS: ClassVar[Sequence[Codec]] = (Characters(1, MAX_ID), Text(MAX_TEXT_BYTES), Nested(Metadata))

    id: str  #: the document's name in its index
    text: str  #: the words that are retrieved
    metadata: Metadata  #: the document's

    def check(self) -> None:
        """What a decoder would refuse.  Raises EncodingError or CommitmentError."""
        self.encode()
        self.metadata.validate()


def keyword(slot: int, word: str) -> SlotText:
    """What a vocabulary has in a slot; ``word`` is empty behind its last one.  SPEC A.14.1."""
    return SlotText(word or f"unused {slot}", word, NO_METADATA)


def is_keyword(slot: int, content: SlotText) -> bool:
    """Whether a text is one that a vocabulary may have in this slot, and no document's."""
    word = content.text
    readable = not any(ch < " " or "\x7f" <= ch <= "\x9f" for ch in word)  # in every version of Unicode
    return content == keyword(slot, word) and len(word) <= MAX_KEYWORD and readable
