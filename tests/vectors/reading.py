# SPDX-License-Identifier: GPL-3.0-or-later
"""The files below vectors/, read as any implementation reads them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "vectors"
Json = dict[str, Any]


@cache
def pages() -> dict[str, Json]:
    """Every vector by its path without the suffix; one that names a base has an input of its own here."""
    found = {path.relative_to(FOLDER).with_suffix("").as_posix(): json.loads(path.read_text()) for path in _paths()}
    for page in found.values():
        if "base" in page:
            page["input"] = _changed(found[page["base"]]["input"], page["change"])
    return found


def _paths() -> list[Path]:
    return sorted(FOLDER.rglob("*.json"))


def _changed(base: Json, change: Json) -> Json:
    """A copy in which what each path (/name/index/...) leads to is replaced."""
    out: Json = json.loads(json.dumps(base))
    for path, value in change.items():
        here: Any = out
        steps = [int(step) if step.isdigit() else step for step in path.strip("/").split("/")]
        for step in steps[:-1]:
            here = here[step]
        here[steps[-1]] = value
    return out


def of(*operations: str, kind: str = "output") -> list[str]:
    """Paths of the vectors of some operations that have an output (or a ``claimed`` one, or a ``reason``)."""
    return [path for path, page in pages().items() if page["operation"] in operations and kind in page]
