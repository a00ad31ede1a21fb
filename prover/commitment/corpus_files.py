# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of a corpus: looked up without leaving their folder, opened, and read within limits.

Errors name the file, and the line where there is one.
"""

from __future__ import annotations

import contextlib
import os
import stat
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO

from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.runtime import texts
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.json_text import parse_object

SUFFIXES = (".txt", ".md")  #: files that a text folder is made of
STDIN = Path("-")  #: standard input, as a file of a corpus


@dataclass(frozen=True, slots=True)
class Limits:
    """What a source may not exceed; larger is refused, never cut."""

    line_bytes: int = 8 << 20
    file_bytes: int = 16 << 30
    chunked_bytes: int = 256 << 20  #: of a text file that is split into chunks, which memory holds as a whole
    text_characters: int = 1 << 20
    id_characters: int = 512
    documents: int = 1 << 24


def require_folder(folder: Path) -> Path:
    try:
        root = folder.resolve(strict=True)
    except FileNotFoundError:
        raise ConfigurationError(f"{folder} does not exist") from None
    except OSError as error:
        raise ConfigurationError(f"cannot open {folder}: {why(error, folder)}") from None
    except RuntimeError:
        raise ConfigurationError(f"{folder} is a link that leads to itself") from None
    if not root.is_dir():
        raise ConfigurationError(f"{folder} is not a folder")
    return root


def inside(folder: Path, name: str) -> Path:
    """A file of ``folder``; a link out of it is refused, as a folder from elsewhere could point at any file here."""
    root = require_folder(folder)
    try:
        found = (root / name).resolve(strict=True)
    except FileNotFoundError:
        raise ConfigurationError(f"{folder} holds no {name}; is it a BEIR folder?") from None
    except OSError as error:
        raise ConfigurationError(f"cannot open {folder / name}: {why(error, folder / name)}") from None
    except RuntimeError:
        raise ConfigurationError(f"{folder / name} is a link that leads to itself") from None
    if not found.is_relative_to(root):
        raise ConfigurationError(f"{folder / name} is a link out of its folder; copy the file, or name it itself")
    return root / name


def require_file(path: Path, limits: Limits) -> None:
    if path == STDIN:
        return
    try:
        status = path.stat()
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
    if not stat.S_ISREG(status.st_mode):
        raise ConfigurationError(f"{path} is not a regular file")
    if status.st_size > limits.file_bytes:
        raise EncodingError(f"{path} has {status.st_size} bytes, at most {limits.file_bytes}; split it into tenants")


def text_files(root: Path, notes: Notes) -> Iterator[Path]:
    def refuse(error: OSError) -> None:
        raise ConfigurationError(f"cannot read {error.filename}: {why(error, error.filename)}") from None

    found: list[Path] = []
    for current, folders, names in os.walk(root, onerror=refuse):
        for name in folders:  # os.walk follows none of them
            if (Path(current) / name).is_symlink():
                notes.skipped((Path(current) / name).relative_to(root).as_posix() + "/")
        for name in names:
            path = Path(current) / name
            if path.suffix.lower() not in SUFFIXES:
                notes.passed_over(path.relative_to(root).as_posix())
                continue
            if path.is_symlink():
                notes.skipped(path.relative_to(root).as_posix())
            else:
                found.append(path)
    yield from sorted(found, key=lambda path: path.relative_to(root).parts)


def open_file(path: Path) -> contextlib.AbstractContextManager[BinaryIO]:
    if path == STDIN:
        return contextlib.nullcontext(sys.stdin.buffer)
    try:
        return path.open("rb")
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None


def lines_of(path: Path, limits: Limits) -> Iterator[tuple[int, str]]:
    """Numbered lines without their line break, as :func:`ragseal.runtime.texts.lines_of` reads them."""
    with open_file(path) as file:
        try:
            yield from texts.lines_of(
                file, shown(path), most_line=limits.line_bytes, most=limits.file_bytes, error=EncodingError
            )
        except OSError as error:
            raise ConfigurationError(f"cannot read {shown(path)}: {why(error, path)}") from None


def objects_of(path: Path, limits: Limits) -> Iterator[tuple[str, dict[str, Any]]]:
    """The objects of a JSONL file, one a line, each with its file and line.  EncodingError: what is none."""
    for number, line in lines_of(path, limits):
        where = f"{shown(path)}, line {number}"
        if not line.strip():
            raise EncodingError(f"{where}: empty line; every line is a document")
        if texts.old_breaks(line):
            raise EncodingError(f"{where}: {texts.OLD_BREAKS}")
        yield where, parse_object(line, where)


def shown(path: Path) -> str:
    return "standard input" if path == STDIN else str(path)
