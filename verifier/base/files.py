# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of the auditor's folder: read with an error that names them, written completely or not at all."""

from __future__ import annotations

import json
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ragseal.kernel.errors import ConfigurationError
from ragseal.runtime.durable import unchanged, write_durably
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.edges.locks import wait_lock


def read_json(path: Path, default: Any) -> Any:
    """What a JSON file holds, ``default`` if there is none.  Raises ConfigurationError: damaged or unreadable."""
    try:
        return json.loads(path.read_bytes())
    except FileNotFoundError:
        return default
    except OSError as error:
        raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
    except (ValueError, RecursionError):
        raise ConfigurationError(f"{path} is damaged: restore it from a copy") from None


def write(path: Path, data: bytes) -> None:
    """Replace a file that only the auditor may read.

    Raises:
        ConfigurationError: the disk refuses; says what is in place.
    """
    try:
        write_durably(path, data, mode=0o600)
    except OSError as error:
        raise ConfigurationError(
            f"cannot write {path}: {why(error, path)}{unchanged(error, '; the old content stays')}"
        ) from None


@contextmanager
def locked(directory: Path, name: str) -> Iterator[None]:
    """One writer at a time to a file that is read, changed and replaced; `serve` and `audit` share the folder."""
    path = directory / f".{name}.lock"
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise ConfigurationError(f"cannot open {path}: {why(error, path)}") from None
    try:
        wait_lock(descriptor, path)
        yield
    finally:
        os.close(descriptor)
