# SPDX-License-Identifier: GPL-3.0-or-later
"""The iden3 binary container that .zkey and .r1cs files are: magic, version, numbered sections.  Read as hostile."""

from __future__ import annotations

import stat
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError, ProofError
from ragseal.runtime.edges.filesystem import why

MAX_SECTIONS = 64
MAX_FILE = 1 << 36


class Cursor:
    """A bounds-checked reader; ProofError where bytes are missing or left over."""

    def __init__(self, data: memoryview) -> None:
        self._data = data
        self._at = 0

    def take(self, size: int) -> memoryview:
        left = len(self._data) - self._at
        if size > left:
            raise ProofError(f"truncated: {size} bytes expected, {left} left")
        self._at += size
        return self._data[self._at - size : self._at]

    def u32(self) -> int:
        return int.from_bytes(self.take(4), "little")

    def u64(self) -> int:
        return int.from_bytes(self.take(8), "little")

    def end(self) -> None:
        if self._at != len(self._data):
            raise ProofError(f"{len(self._data) - self._at} bytes too many")

    def modulus(self, modulus: int) -> None:
        """A field's size and modulus, as headers have them."""
        if self.u32() != 32:
            raise ProofError("field elements do not have 32 bytes")
        if int.from_bytes(self.take(32), "little") != modulus:
            raise ProofError("the field is not BN254's")


@dataclass(frozen=True)
class Container:
    """A file in memory and its sections by number."""

    sections: dict[int, memoryview]

    def section(self, kind: int) -> memoryview:
        if kind not in self.sections:
            raise ProofError(f"section {kind} is missing")
        return self.sections[kind]

    def array(self, kind: int, count: int, size: int) -> memoryview:
        """A section of exactly ``count`` items of ``size`` bytes."""
        data = self.section(kind)
        if len(data) != count * size:
            raise ProofError(f"section {kind} has {len(data)} bytes, {count} items of {size} are expected")
        return data


def read_container(path: Path, magic: bytes, version: int) -> Container:
    """Read and index a file; its sections must be unique and fill it exactly.

    Raises:
        ConfigurationError: the file cannot be read.
        ProofError: it is not such a file.
    """
    try:
        found = path.stat()
        if not stat.S_ISREG(found.st_mode):
            raise ProofError(f"{path}: not a regular file")
        if found.st_size > MAX_FILE:
            raise ProofError(f"{path}: the file is too large")
        data = memoryview(path.read_bytes())
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
    cursor = Cursor(data)
    if bytes(cursor.take(4)) != magic:
        raise ProofError(f"not a {magic.decode()} file")
    given = cursor.u32()
    if given != version:
        raise ProofError(f"version {given} where {version} is expected")
    count = cursor.u32()
    if count > MAX_SECTIONS:
        raise ProofError(f"{count} sections are too many")
    sections: dict[int, memoryview] = {}
    for _ in range(count):
        kind, size = struct.unpack("<IQ", cursor.take(12))
        body = cursor.take(size)
        if kind in sections:
            raise ProofError(f"section {kind} occurs twice")
        sections[kind] = body
    cursor.end()
    return Container(sections)


def write_container(path: Path, magic: bytes, version: int, sections: Mapping[int, bytes | memoryview]) -> None:
    """Write a file with these sections in this order, beside the old one first.

    Raises:
        ConfigurationError: it cannot be written.
    """
    part = path.with_name(path.name + ".part")
    try:
        with part.open("wb") as out:
            out.write(magic + struct.pack("<II", version, len(sections)))
            for kind, body in sections.items():
                out.write(struct.pack("<IQ", kind, len(body)))
                out.write(body)
        part.replace(path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise ConfigurationError(f"cannot write {path}: {why(error, path)}") from None


def check_outline(path: Path, magic: bytes, version: int) -> None:
    """Magic, version and the lengths of sections, which fill the file exactly; a few bytes of it are read.

    Raises:
        ConfigurationError: the file cannot be read.
        ProofError: it is not such a file, or a part of one.
    """
    try:
        with path.open("rb") as file:
            size = path.stat().st_size
            if file.read(4) != magic or int.from_bytes(file.read(4), "little") != version:
                raise ProofError(f"{path.name} is no {magic.decode()} file of version {version}")
            sections, at = int.from_bytes(file.read(4), "little"), 12
            for _ in range(min(sections, MAX_SECTIONS)):
                file.seek(at + 4)
                at += 12 + int.from_bytes(file.read(8), "little")
                if at > size:
                    break
            if at != size or sections > MAX_SECTIONS:
                raise ProofError(f"{path.name} is cut off or has bytes too many")
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
