# SPDX-License-Identifier: GPL-3.0-or-later
"""The cases below vectors/, read as any implementation reads them."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

FOLDER = Path(__file__).parents[2] / "vectors"
Json = dict[str, Any]


@cache
def all_cases() -> dict[str, Json]:
    """Every case by ``noun/name``; one that names a base has an input of its own here."""
    found = {
        case["name"]: case for path in sorted(FOLDER.glob("*.json")) for case in json.loads(path.read_text())["cases"]
    }
    for case in found.values():
        if "base" in case:
            case["input"] = _changed(found[case["base"]]["input"], case["change"])
    return found


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


def of(*operations: str, kind: str = "expected") -> list[str]:
    """Names of the cases of some operations that have an expected output (or a ``claimed`` one, or a ``failure``)."""
    return [path for path, case in all_cases().items() if case["operation"] in operations and kind in case]
