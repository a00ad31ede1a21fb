# SPDX-License-Identifier: GPL-3.0-or-later
"""A document whose text, id and row are found wherever a file holds them, and the search for them."""

from __future__ import annotations

from pathlib import Path

from ragseal.prover.commitment.corpora import Document
from tests.simulator import provider as scene

MARK = "marker-9f2c the will of Aunt Augusta"


def texts(tenant: str) -> list[Document]:
    """One document that nothing else is like, and others."""
    return [*scene.documents(tenant, 30), Document(f"{tenant}-marked-id-77", f"{tenant} {MARK}")]


def row_of(tenant: str) -> bytes:
    """The marked document's quantised row."""
    return scene.embed_with(scene.TRIGRAMS)([f"{tenant} {MARK}"])[0].tobytes()


def found_in(folder: Path, *needles: bytes) -> list[tuple[str, bytes]]:
    """Every file of a folder that holds one of these bytes, as (name, bytes); proving keys are not read."""
    files = [path for path in sorted(folder.rglob("*")) if path.is_file() and not path.is_symlink()]
    return [(path.name, one) for path in files if "keys" not in path.parts for one in needles
            if one in path.read_bytes()]  # fmt: skip


def marks(tenant: str = "acme") -> tuple[bytes, ...]:
    return f"{tenant} {MARK}".encode(), f"{tenant}-marked-id-77".encode(), row_of(tenant)
