# SPDX-License-Identifier: GPL-3.0-or-later
"""Fail closed with evidence: when a check fails, everything sent and received is saved before the error is raised.

A bundle is a folder ``evidence/<UTC time>-<error>-<random>/`` with one file for every byte string of the exchange, in
order, and ``reason.json``.  The bytes are the canonical messages as they travelled, so anyone who holds the manifest
and the log key can repeat the check.  Bundles hold the query and the returned texts: only their owner may read them.
"""

from __future__ import annotations

import json
import os
import secrets
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import UTC, datetime
from hashlib import sha256
from pathlib import Path

from ragseal.kernel.errors import AuditError, ConfigurationError, TransportError
from ragseal.runtime.durable import sync_directory, write_durably
from ragseal.runtime.edges.filesystem import why


class Evidence:
    """What one exchange has brought so far."""

    def __init__(self, directory: Path, facts: Mapping[str, str], clock: Callable[[], float]) -> None:
        """``directory``: where bundles go; ``facts``: who and what is pinned; ``clock``: seconds since 1970."""
        self._directory = directory
        self._facts = dict(facts)
        self._clock = clock
        self._items: list[tuple[str, bytes]] = []

    def add(self, name: str, data: bytes) -> bytes:
        """Remember bytes under a name such as ``received-answer``; returns them."""
        self._items.append((name, data))
        return data

    @contextmanager
    def on_failure(self) -> Iterator[None]:
        """Run checks; an AuditError saves the bundle and is raised again with the place where it lies.

        Trouble of one's own (ConfigurationError) and of the line (TransportError) is no failed check of a peer.
        """
        try:
            yield
        except (ConfigurationError, TransportError):
            raise
        except AuditError as error:
            name = ""
            try:
                where = self._save(error)
            except OSError as trouble:
                note = f"the evidence could NOT be saved: {why(trouble)}"
            else:
                note, name = f"evidence saved in {where}", where.name
            refused = type(error)(f"{error} ({note})")
            refused.bundle = name
            raise refused from error

    def _save(self, error: AuditError) -> Path:
        now = datetime.fromtimestamp(self._clock(), UTC)
        self._directory.mkdir(mode=0o700, parents=True, exist_ok=True)
        name = f"{now:%Y%m%dT%H%M%SZ}-{type(error).__name__}-{secrets.token_hex(4)}"
        bundle = self._directory / name
        bundle.mkdir(mode=0o700)
        files = []
        for number, (label, data) in enumerate(self._items):
            file = f"{number:02d}-{label}.bin"
            write_durably(bundle / file, data, mode=0o600)
            files.append({"file": file, "sha256": sha256(data).hexdigest(), "bytes": len(data)})
        reason = {
            "error": type(error).__name__,
            "reason": str(error),
            "time": now.isoformat(),
            **self._facts,
            "files": files,
        }
        write_durably(bundle / "reason.json", (json.dumps(reason, indent=2) + "\n").encode(), mode=0o600)
        sync_directory(self._directory)
        return bundle


def bundles(directory: Path) -> list[Path]:
    """The saved bundles, oldest first."""
    if not directory.is_dir():
        return []
    return sorted(Path(entry.path) for entry in os.scandir(directory) if entry.is_dir())
