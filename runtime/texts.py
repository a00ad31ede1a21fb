# SPDX-License-Identifier: GPL-3.0-or-later
"""Text that people write: files, lines of files and single values, as editors, spreadsheets and shells leave them.

A text is UTF-8.  A byte order mark in front of it is removed.  Another encoding, a zero byte and bytes that are not
UTF-8 are refused by line and byte, with the way to convert the file.  Files that only programs write are not read here.
"""

from __future__ import annotations

import codecs
import datetime
import os
import select
import stat
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.runtime.edges.filesystem import why

MAX_FILE = 1 << 20  #: bytes of a file, where its reader has no limit of its own
SILENCE = 10.0  #: seconds for which a pipe may bring nothing
SHOWN = 60  #: characters of a value in an error

SAVE = ": save the file as UTF-8"
MARK = "\ufeff"  #: the byte order mark, which is no part of a text
_MARKS = {b"\xff\xfe\0\0": "UTF-32LE", b"\0\0\xfe\xff": "UTF-32BE", b"\xff\xfe": "UTF-16LE", b"\xfe\xff": "UTF-16BE"}
_HEAD = 1 << 16  #: bytes that tell an encoding without a mark

Wrong = type[AuditError]  #: the error that a reader raises


# --- whole files -----------------------------------------------------------------------------------------------------


def read_bytes(path: Path, what: str, *, most: int = MAX_FILE, error: Wrong = ConfigurationError) -> bytes:
    """The bytes of a file, or of a pipe such as the shell's ``<(...)``, ``most`` of them at most.

    Args:
        what: the file, as errors name it.

    Raises:
        error: it is not there, not readable, a folder or a device, or too large; or a pipe brings nothing.
    """
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError as wrong:
        raise error(f"cannot read {what}: {why(wrong, path)}") from None
    except ValueError:  # a zero byte in the name
        raise error(f"cannot read {what}: no file has such a name") from None
    try:
        mode = os.fstat(descriptor).st_mode
        if not stat.S_ISREG(mode) and not stat.S_ISFIFO(mode):
            raise error(f"{what} is a {'folder' if stat.S_ISDIR(mode) else 'device'}, not a file of text")
        found = bytearray()
        while len(found) <= most:
            if stat.S_ISFIFO(mode):
                _await(descriptor, what, error)
            piece = os.read(descriptor, most + 1 - len(found))
            if not piece:
                return bytes(found)
            found += piece
    except OSError as wrong:
        raise error(f"cannot read {what}: {why(wrong, path)}") from None
    finally:
        os.close(descriptor)
    raise error(f"{what} has more than {most} bytes: is it the right file?")


def read_text(path: Path, what: str, *, most: int = MAX_FILE, error: Wrong = ConfigurationError) -> str:
    """A file's text, its lines ended by newlines.  Raises ``error``: as :func:`text_of`, :func:`read_bytes`."""
    return _plain_breaks(text_of(read_bytes(path, what, most=most, error=error), what, error=error))


def read_line(path: Path, what: str, *, error: Wrong = ConfigurationError) -> str:
    """A key, name or PIN that stands alone in a file.  Raises ``error``: as :func:`line_of` and :func:`read_bytes`."""
    return line_of(read_bytes(path, what, error=error), what, error=error)


def read_toml(
    path: Path, what: str, *, most: int = MAX_FILE, error: Wrong = ConfigurationError, form: str = ""
) -> dict[str, Any]:
    """The table of a TOML file.  Raises ``error``: as :func:`toml_of` and :func:`read_bytes`."""
    return toml_of(read_bytes(path, what, most=most, error=error), what, error=error, form=form)


# --- bytes and values ------------------------------------------------------------------------------------------------


def text_of(data: bytes, what: str, *, error: Wrong = ConfigurationError) -> str:
    """Bytes as text, without a mark in front; line ends stay as they are.

    Raises:
        error: another encoding, bytes that are not UTF-8, or a zero byte; names line and byte, counted from 1.
    """
    check_encoding(data[:_HEAD], what, error)
    text, found = _decoded(data)
    if found is not None:
        wrong, at = found
        number, begins = data.count(b"\n", 0, at) + 1, data.rfind(b"\n", 0, at) + 1
        raise error(f"{what}, line {number}: {wrong} at byte {at - begins + 1}{SAVE}")
    return text.lstrip(MARK)


def octets_of(data: bytes, what: str, *, error: Wrong = ConfigurationError) -> bytes:
    """The octets of a text in which names need not be UTF-8: without a mark, its lines ended by newlines.

    Raises:
        error: UTF-16 or UTF-32, or a zero byte.
    """
    check_encoding(data[:_HEAD], what, error)
    if (at := data.find(b"\0")) >= 0:
        number = data.count(b"\n", 0, at) + 1
        raise error(f"{what}, line {number}: a zero byte, which no text has{SAVE}")
    return data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").replace(b"\r", b"\n")


def line_of(value: bytes | str, what: str, *, error: Wrong = ConfigurationError) -> str:
    """A key, name or PIN without the blanks and line breaks around it.  The error never shows the value.

    Raises:
        error: no text, empty, several lines, or a character that nobody can see.
    """
    text = text_of(value, what, error=error) if isinstance(value, bytes) else value
    line = text.strip(f"{MARK} \t\r\n")
    if not line:
        raise error(f"{what} is empty")
    if (lines := len(_plain_breaks(line).split("\n"))) > 1:
        raise error(f"{what} holds {lines} lines, and one is expected")
    for at, one in enumerate(line, 1):
        if not one.isprintable():
            named = "a byte that is not UTF-8" if "\ud800" <= one <= "\udfff" else f"U+{ord(one):04X}"
            raise error(f"{what}: character {at} is {named}, which cannot be seen: write it again by hand")
    return line


def toml_of(data: bytes, what: str, *, error: Wrong = ConfigurationError, form: str = "") -> dict[str, Any]:
    """The table of TOML bytes.

    Args:
        form: what such a file looks like; stands behind the error.

    Raises:
        error: no text (:func:`text_of`), or not TOML.
    """
    try:
        return tomllib.loads(_plain_breaks(text_of(data, what, error=error)))
    except (ValueError, RecursionError) as wrong:
        said = "nested too deep" if isinstance(wrong, RecursionError) else str(wrong)
        if said.startswith("Exceeds the limit"):  # Python's own, with advice for programmers
            said = "a whole number of more than 4300 digits"
        raise error(f"{what} is not TOML: {said[:200]}{f'. {form}' if form else ''}") from None


def shown(value: object) -> str:
    """A value of a TOML file as an error shows it: as the file has it, and cut where it is long."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, datetime.date | datetime.time):  # a datetime is a date, too
        return value.isoformat()
    if isinstance(value, dict):
        return "a table"
    if isinstance(value, list):
        return f"a list of {len(value)}"
    if isinstance(value, int) and value.bit_length() > 256:
        return f"a whole number of {value.bit_length()} bits"
    text = repr(value)
    return text if len(text) <= SHOWN else f"{text[: SHOWN - 3]}... ({len(text)} characters)"


# --- lines of large files --------------------------------------------------------------------------------------------


def lines_of(
    file: BinaryIO, what: str, *, most_line: int, most: int, error: Wrong = ConfigurationError
) -> Iterator[tuple[int, str]]:
    """Numbered lines of a file that is read as they are asked for, from 1, without their newline.

    A last newline ends the file, it starts no line.  A carriage return before the newline stays: of some formats it is
    content.

    Args:
        most_line, most: bytes of a line and of the file.

    Raises:
        error: as :func:`text_of`; a line or file over its limit; a mark in front of a later line.
        OSError: of the file.
    """
    number, total = 0, 0
    while raw := file.readline(most_line + 1):
        number += 1
        total += len(raw)
        where = f"{what}, line {number}"
        if number == 1:
            check_encoding(raw[:_HEAD], what, error)
        if len(raw) > most_line:
            raise error(f"{where}: longer than {most_line} bytes")
        if total > most:  # it grew while it was read, or is no plain file
            raise error(f"{where}: the file exceeds {most} bytes")
        line, found = _decoded(raw)
        if found is not None:
            raise error(f"{where}: {found[0]} at byte {found[1] + 1}{SAVE}")
        if number == 1:
            line = line.lstrip(MARK)
        elif line.startswith(MARK):
            raise error(f"{where}: begins with a byte order mark, as where files were joined: remove it")
        line = line.removesuffix("\n")
        if number > 1 or line or raw.endswith(b"\n"):  # a mark alone is an empty file
            yield number, line


def old_breaks(line: str) -> bool:
    """Whether what came as one line are several that end in carriage returns alone."""
    return "\r" in line.rstrip("\r")


OLD_BREAKS = "its lines end in carriage returns alone: convert it, `tr '\\r' '\\n' < FILE > NEW`"


# --- helpers ---------------------------------------------------------------------------------------------------------


def check_encoding(head: bytes, what: str, error: Wrong = ConfigurationError) -> None:
    """Raises ``error``: bytes that begin as UTF-16 or UTF-32 do, with a mark or without; names it and what converts."""
    marked = next((name for mark, name in _MARKS.items() if head.startswith(mark)), None)
    found = marked or (_unmarked(head) if b"\0" in head else None)
    if found is not None:
        named = found[:6] if marked else found  # with a mark, iconv sees the order of bytes, and takes the mark away
        raise error(f"{what} is {found}, not UTF-8: save it as UTF-8, or `iconv -f {named} -t UTF-8 FILE > NEW`")


def _unmarked(head: bytes) -> str | None:
    """The encoding in which bytes with zeros among them are text, the one with the most ASCII where several are.

    A few zeros in what is UTF-8 but for them are mistakes in it.
    """
    if 4 * head.count(b"\0") < len(head) and _legible(head.replace(b"\0", b""), "UTF-8") is not None:
        return None
    texts = {name: text for name in _MARKS.values() if (text := _legible(head, name))}
    ascii_of = {name: sum(one.isascii() for one in text) for name, text in texts.items()}
    return max(ascii_of, key=lambda name: ascii_of[name]) if any(ascii_of.values()) else None


def _legible(head: bytes, encoding: str) -> str | None:
    """What bytes are in an encoding, of which the last character may be cut; None: nothing that anybody reads."""
    try:
        text = codecs.getincrementaldecoder(encoding)().decode(head)
    except UnicodeDecodeError:
        return None
    return text if all(one.isprintable() or one in "\t\r\n" for one in text) else None


def _decoded(data: bytes) -> tuple[str, tuple[str, int] | None]:
    """The text, or what is wrong and with which byte, from 0."""
    try:
        text = data.decode("utf-8")
    except UnicodeDecodeError as refused:
        at = refused.start
        if data[at] == 0xED and b"\xa0" <= data[at + 1 : at + 2] <= b"\xbf":
            return "", ("half of a surrogate pair, which is no character,", at)
        return "", (f"not UTF-8 (0x{data[at]:02x})", at)
    at = data.find(b"\0")
    return (text, None) if at < 0 else ("", ("a zero byte, which no text has,", at))


def _plain_breaks(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")


def _await(descriptor: int, what: str, error: Wrong) -> None:
    """Until a pipe has something, or its end."""
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    if not waiting.poll(1000 * SILENCE):
        raise error(f"{what} is a pipe, and nothing came through it for {SILENCE:.0f} s")
