# SPDX-License-Identifier: GPL-3.0-or-later
"""The files of an account's folder: whole or absent, 0600, and every trouble with them named with the way out."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.runtime.durable import unchanged, write_durably
from ragseal.runtime.edges.filesystem import why

T = TypeVar("T")


def read(path: Path) -> bytes | None:
    """A file's bytes, None if there is none.  Raises ConfigurationError: unreadable."""
    try:
        return path.read_bytes()
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None


def need(path: Path) -> bytes:
    """A file's bytes.  Raises ConfigurationError: missing or unreadable."""
    data = read(path)
    if data is None:
        raise ConfigurationError(f"{path} is missing: restore the folder from a copy")
    return data


def write(path: Path, data: bytes) -> None:
    """Write or replace a file durably, 0600.  Raises ConfigurationError: the disk refuses; says what is in place."""
    try:
        write_durably(path, data, mode=0o600)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {path}: {why(error, path)}{unchanged(error, '; nothing was changed')}"
        ) from None


def intact(decode: Callable[[], T], what: str) -> T:
    """Decode one of our own files; what does not decode is damage, not a message of a peer."""
    try:
        return decode()
    except ConfigurationError:
        raise
    except AuditError as error:
        raise ConfigurationError(f"{what} is damaged ({error}): restore the folder from a copy") from None


def text(data: bytes) -> str:
    """One line of text; stray bytes become replacement characters, which no name or key holds."""
    return data.decode("utf-8", "replace").strip()
