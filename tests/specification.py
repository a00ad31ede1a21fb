# SPDX-License-Identifier: GPL-3.0-or-later
"""The specification as one text: its files in reading order, sources last."""

from __future__ import annotations

from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "spec"
FILES = tuple(FOLDER / f"{name}.md" for name in ("core", "mechanism", "claims", "ledger", "operations", "README"))


@cache
def specification() -> str:
    """All of it."""
    return "\n".join(path.read_text("utf-8") for path in FILES)
