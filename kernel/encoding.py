# SPDX-License-Identifier: GPL-3.0-or-later
"""Canonical bytes: what is hashed, signed and sent is one and the same string.

A message is a frozen dataclass with a class-level ``TAG`` (ASCII, at most 32 bytes) and fields annotated with the
codecs below.  Its encoding is ``u8 len(TAG) || TAG || u16 version || field || field ...``; integers are fixed-width
big-endian, variable bytes carry a u32 length, lists a u32 count.  There are no optional or unknown fields, so a value
has one encoding and a decoder accepts nothing else: ``decode(b).encode() == b`` or :class:`EncodingError`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, Protocol, Self, TypeVar

from ragseal.kernel.errors import AuditError, EncodingError
from ragseal.kernel.params import PROTOCOL_VERSION, R
from ragseal.kernel.publickey import KEY_BYTES, check_public_key


class Reader:
    """Cursor over bytes that never reads past the end."""

    __slots__ = ("_at", "_data")

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, n: int) -> bytes:
        """The next n bytes; EncodingError when fewer are left."""
        if n < 0 or len(self._data) - self._at < n:
            raise EncodingError(f"truncated: {n} bytes wanted at offset {self._at}, {len(self._data) - self._at} left")
        out = self._data[self._at : self._at + n]
        self._at += n
        return out

    def peek(self) -> int:
        """The next byte, which stays; EncodingError at the end."""
        value = self.take(1)[0]
        self._at -= 1
        return value

    def left(self) -> int:
        return len(self._data) - self._at


class Codec(Protocol):
    """How one field becomes bytes and back."""

    def write(self, value: Any, out: bytearray) -> None: ...

    def read(self, reader: Reader) -> Any: ...


@dataclass(frozen=True, slots=True)
class Int:
    """Fixed-width big-endian integer."""

    width: int
    negative: bool = False

    def write(self, value: Any, out: bytearray) -> None:
        if not isinstance(value, int) or isinstance(value, bool):
            raise EncodingError("expected an integer")
        try:
            out += value.to_bytes(self.width, "big", signed=self.negative)
        except OverflowError:
            raise EncodingError(f"integer does not fit {self.width} bytes") from None

    def read(self, reader: Reader) -> int:
        return int.from_bytes(reader.take(self.width), "big", signed=self.negative)


@dataclass(frozen=True, slots=True)
class Flag:
    """One byte, 0 or 1."""

    def write(self, value: Any, out: bytearray) -> None:
        if not isinstance(value, bool):
            raise EncodingError("expected a boolean")
        out.append(int(value))

    def read(self, reader: Reader) -> bool:
        byte = reader.take(1)[0]
        if byte > 1:
            raise EncodingError("a flag is 0 or 1")
        return bool(byte)


@dataclass(frozen=True, slots=True)
class Fixed:
    """Exactly ``size`` bytes."""

    size: int

    def write(self, value: Any, out: bytearray) -> None:
        if not isinstance(value, bytes) or len(value) != self.size:
            raise EncodingError(f"expected {self.size} bytes")
        out += value

    def read(self, reader: Reader) -> bytes:
        return reader.take(self.size)


@dataclass(frozen=True, slots=True)
class Blob:
    """At most ``limit`` bytes with a u32 length."""

    limit: int

    def write(self, value: Any, out: bytearray) -> None:
        if not isinstance(value, bytes):
            raise EncodingError("expected bytes")
        if len(value) > self.limit:
            raise EncodingError(f"oversized: {len(value)} bytes, at most {self.limit}")
        out += len(value).to_bytes(4, "big")
        out += value

    def read(self, reader: Reader) -> bytes:
        size = int.from_bytes(reader.take(4), "big")
        if size > self.limit:
            raise EncodingError(f"oversized: {size} bytes announced, at most {self.limit}")
        return reader.take(size)


@dataclass(frozen=True, slots=True)
class Text:
    """UTF-8 of at most ``limit`` bytes; ``plain`` restricts it to printable ASCII without spaces (identifiers)."""

    limit: int
    plain: bool = False

    def _check(self, value: str) -> None:
        if self.plain and not (value and value.isascii() and value.isprintable() and " " not in value):
            raise EncodingError(f"identifier {value[:40]!r} must be printable ASCII without spaces, not empty")

    def write(self, value: Any, out: bytearray) -> None:
        if not isinstance(value, str):
            raise EncodingError("expected text")
        self._check(value)
        try:
            data = value.encode("utf-8")
        except UnicodeEncodeError:
            raise EncodingError("text holds a lone surrogate") from None
        Blob(self.limit).write(data, out)

    def read(self, reader: Reader) -> str:
        try:
            value = Blob(self.limit).read(reader).decode("utf-8")
        except UnicodeDecodeError:
            raise EncodingError("text is not UTF-8") from None
        self._check(value)
        return value


@dataclass(frozen=True, slots=True)
class Element:
    """A canonical field element, 32 bytes."""

    def write(self, value: Any, out: bytearray) -> None:
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value < R:
            raise EncodingError("expected a field element in [0, r)")
        out += value.to_bytes(32, "big")

    def read(self, reader: Reader) -> int:
        value = int.from_bytes(reader.take(32), "big")
        if value >= R:
            raise EncodingError("field element is not canonical (>= r)")
        return value


@dataclass(frozen=True, slots=True)
class PublicKey:
    """An Ed25519 public key that binds its owner: 32 bytes, canonical, not of small order."""

    def write(self, value: Any, out: bytearray) -> None:
        if not isinstance(value, bytes):
            raise EncodingError("expected bytes")
        check_public_key(value)
        out += value

    def read(self, reader: Reader) -> bytes:
        value = reader.take(KEY_BYTES)
        check_public_key(value)
        return value


@dataclass(frozen=True, slots=True)
class Many:
    """A u32 count and that many items, as a tuple."""

    item: Codec
    limit: int

    def write(self, value: Any, out: bytearray) -> None:
        if not isinstance(value, tuple):
            raise EncodingError("expected a tuple")
        if len(value) > self.limit:
            raise EncodingError(f"oversized: {len(value)} items, at most {self.limit}")
        out += len(value).to_bytes(4, "big")
        item = self.item
        if type(item) is Fixed and set(map(type, value)) <= {bytes} and set(map(len, value)) <= {item.size}:
            out += b"".join(value)  # Merkle paths, most of an answer: many times as fast as one by one
            return
        for entry in value:
            item.write(entry, out)

    def read(self, reader: Reader) -> tuple[Any, ...]:
        count = int.from_bytes(reader.take(4), "big")
        if count > self.limit or count > reader.left() + 1:
            raise EncodingError(f"oversized: {count} items announced, at most {self.limit}")
        if type(self.item) is Fixed:
            size = self.item.size
            data = reader.take(count * size)
            return tuple([data[at : at + size] for at in range(0, count * size, size)])
        return tuple(self.item.read(reader) for _ in range(count))


@dataclass(frozen=True, slots=True)
class Points:
    """A count from 1 on and that many points of 64 bytes, as one string of bytes."""

    limit: int

    @property
    def width(self) -> int:
        """Bytes of the count: as many as the limit needs."""
        return -(-self.limit.bit_length() // 8)

    def write(self, value: Any, out: bytearray) -> None:
        if not isinstance(value, bytes) or len(value) % POINT.size:
            raise EncodingError("expected points of 64 bytes each")
        count = len(value) // POINT.size
        if not 1 <= count <= self.limit:
            raise EncodingError(f"{count} points, where 1 to {self.limit} can stand")
        out += count.to_bytes(self.width, "big") + value

    def read(self, reader: Reader) -> bytes:
        count = int.from_bytes(reader.take(self.width), "big")
        if not 1 <= count <= self.limit:
            raise EncodingError(f"{count} points announced, where 1 to {self.limit} can stand")
        return reader.take(count * POINT.size)


@dataclass(frozen=True, slots=True)
class Elements:
    """One field element as it stands; of n > 1 a byte 0x80 + n, and n elements, as a tuple.

    An element is below r, so its first byte is below 0x80.
    """

    limit: int  #: 127 at most

    def write(self, value: Any, out: bytearray) -> None:
        if not isinstance(value, tuple) or not 1 <= len(value) <= self.limit:
            raise EncodingError(f"expected a tuple of 1 to {self.limit} elements")
        if len(value) > 1:
            out.append(_SEVERAL + len(value))
        for entry in value:
            ELEMENT.write(entry, out)

    def read(self, reader: Reader) -> tuple[int, ...]:
        count = reader.peek() - _SEVERAL
        if count < 0:
            return (ELEMENT.read(reader),)
        reader.take(1)
        if not 2 <= count <= self.limit:
            raise EncodingError(f"{count} elements announced, where 2 to {self.limit} can stand")
        return tuple(ELEMENT.read(reader) for _ in range(count))


@dataclass(frozen=True, slots=True)
class Nested:
    """Another message, with its own tag."""

    kind: type[Message]

    def write(self, value: Any, out: bytearray) -> None:
        if type(value) is not self.kind:
            raise EncodingError(f"expected a {self.kind.__name__}")
        out += value.encode()

    def read(self, reader: Reader) -> Any:
        return self.kind.read(reader)


LATER_VERSION = 2  #: of messages that have got fields since version 1
_FIRST = PROTOCOL_VERSION.to_bytes(2, "big")
_SEVERAL = 0x80

U8, U16, U32, U64, U128 = Int(1), Int(2), Int(4), Int(8), Int(16)
I32, I64 = Int(4, negative=True), Int(8, negative=True)
HASH, POINT, SIGNATURE = Fixed(32), Fixed(64), Fixed(64)
ELEMENT, FLAG, PUBLIC_KEY = Element(), Flag(), PublicKey()
NAME = Text(128, plain=True)

M = TypeVar("M", bound="Message")


class Message:
    """Base of every canonical message.  Subclasses are frozen dataclasses with ``TAG`` and ``CODECS``, one a field."""

    __slots__ = ()

    TAG: ClassVar[str]
    CODECS: ClassVar[Sequence[Codec]]
    #: So many of the last fields stand in version 2 alone; version 1 is of messages in which all of them are 0.
    LATER: ClassVar[int] = 0

    def version(self) -> int:
        """Of its encoding."""
        _, named = _layout(type(self))  # type: ignore[arg-type]
        later = named[len(named) - self.LATER :]
        return LATER_VERSION if any(getattr(self, name) for name, _ in later) else PROTOCOL_VERSION

    def encode(self) -> bytes:
        """Canonical bytes; EncodingError if a field holds what its codec cannot carry."""
        head, named = _layout(type(self))  # type: ignore[arg-type]
        out, carried = bytearray(head), named
        if self.LATER:
            version = self.version()
            out += version.to_bytes(2, "big")
            carried = named if version == LATER_VERSION else named[: -self.LATER]
        else:
            out += _FIRST
        for name, codec in carried:
            try:
                codec.write(getattr(self, name), out)
            except EncodingError as error:
                raise EncodingError(f"{self.TAG}.{name}: {error}") from None
        return bytes(out)

    def validate(self) -> None:
        """What the field types alone cannot say; called after decoding.  Raises an AuditError."""

    @classmethod
    def read(cls, reader: Reader) -> Self:
        """Decode from a cursor, leaving what follows."""
        head, named = _layout(cls)  # type: ignore[arg-type]
        start = reader.take(1)
        if start[0] != head[0] or reader.take(head[0]) != head[1:]:
            raise EncodingError(f"not a {cls.TAG} message")
        version = reader.take(2)
        known = PROTOCOL_VERSION, *([LATER_VERSION] if cls.LATER else [])
        spoken = int.from_bytes(version, "big")
        if spoken not in known:
            raise EncodingError(f"{cls.TAG}: protocol version {spoken}, this program speaks {known[-1]}")
        values: dict[str, Any] = {}
        for name, codec in named[: -cls.LATER] if cls.LATER and spoken == PROTOCOL_VERSION else named:
            try:
                values[name] = codec.read(reader)
            except EncodingError as error:
                raise EncodingError(f"{cls.TAG}.{name}: {error}") from None
        message = cls(**values)
        message.validate()
        return message

    @classmethod
    def decode(cls, data: bytes) -> Self:
        """Strict decode of exactly ``data``.

        Raises:
            EncodingError: wrong tag or version, truncated, oversized, trailing bytes, or not the canonical form.
        """
        reader = Reader(data)
        message = cls.read(reader)
        if reader.left():
            raise EncodingError(f"{cls.TAG}: {reader.left()} bytes too many")
        if message.encode() != data:
            raise EncodingError(f"{cls.TAG}: not the canonical encoding")
        return message


@cache
def _layout(kind: type[Message]) -> tuple[bytes, tuple[tuple[str, Codec], ...]]:
    """Length and tag as they lead an encoding, before the version, and the fields in order.

    Looking them up for every message costs more than the fields themselves.
    """
    tag = kind.TAG.encode("ascii")
    names = [f.name for f in fields(kind)]  # type: ignore[arg-type]
    return bytes([len(tag)]) + tag, tuple(zip(names, kind.CODECS, strict=True))


def peek_tag(data: bytes) -> str:
    """The tag that an encoded message carries, without decoding the rest.

    Raises:
        EncodingError: not an encoded message.
    """
    reader = Reader(data)
    size = reader.take(1)[0]
    try:
        tag = reader.take(size).decode("ascii")
    except UnicodeDecodeError:
        raise EncodingError("message tag is not ASCII") from None
    if not 1 <= size <= 32 or not all("!" <= ch <= "~" for ch in tag):
        raise EncodingError("message tag is malformed")
    return tag


def decode_any(data: bytes, kinds: Sequence[type[Message]]) -> Message:
    """Decode as whichever of ``kinds`` the tag names.

    Raises:
        EncodingError: the tag names none of them, or the bytes are not canonical.
    """
    tag = peek_tag(data)
    for kind in kinds:
        if tag == kind.TAG:
            return kind.decode(data)
    raise EncodingError(f"unexpected message {tag!r}")


def guarded(action: Callable[[], M], context: str) -> M:
    """Run a decoder and put ``context`` before whatever AuditError it raises."""
    try:
        return action()
    except AuditError as error:
        raise type(error)(f"{context}: {error}") from None
