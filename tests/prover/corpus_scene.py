# SPDX-License-Identifier: GPL-3.0-or-later
"""Corpora on disk, well formed and not."""

from __future__ import annotations

from pathlib import Path

GOOD = b'{"id": "a", "text": "first"}\n'


def _file(folder: Path, content: bytes, name: str = "corpus.jsonl") -> Path:
    path = folder / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    return path
