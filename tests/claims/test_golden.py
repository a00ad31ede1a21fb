# SPDX-License-Identifier: GPL-3.0-or-later
"""Of three claims over a few windows every line, report, page and signed byte is what it was when they were written.

``golden.json.xz`` holds what the code gave on which verdicts were issued first.  A change of it is a change of what is
signed: ``python -m tests.claims.test_golden`` writes it anew, and the commit says what changed and why.
"""

from __future__ import annotations

import json
import lzma
from functools import cache
from pathlib import Path
from typing import Any

import pytest

from tests.cases import first_is_fast
from tests.claims import said, scene

pytestmark = pytest.mark.slow

KEPT = Path(__file__).parent / "golden.json.xz"
PLAN = "a plan"


@cache
def kept() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lzma.decompress(KEPT.read_bytes()))
    return found


def _said(name: str) -> Any:
    """As JSON text has it, so that the order of keys counts, too."""
    made = said.planned() if name == PLAN else said.audited(name) if name in scene.PERIODS else said.refused(name)
    return json.loads(json.dumps(said.masked(made), allow_nan=True))


def _flat(value: Any, path: str = "") -> list[tuple[str, Any]]:
    """(path, value) in order."""
    if isinstance(value, dict):
        return [one for key, inner in value.items() for one in _flat(inner, f"{path}/{key}")] or [(path, {})]
    if isinstance(value, list):
        return [one for at, inner in enumerate(value) for one in _flat(inner, f"{path}/{at}")] or [(path, [])]
    return [(path, repr(value))]


@pytest.mark.parametrize("name", first_is_fast([*scene.PERIODS, *scene.REFUSALS, PLAN]))
def test_every_byte_about_a_period_is_as_it_was(name: str) -> None:
    assert _flat(_said(name)) == _flat(kept()[name])


def test_what_is_kept_is_of_every_claim_and_is_not_empty() -> None:
    lines = [kept()[name]["whole"]["line"] for name in scene.PERIODS]
    for claim in ("every-list", "until-delivered", "answers"):
        assert sum(f" claim={claim} " in line and line.startswith("PASS ") for line in lines) >= 2
    assert sum(kept()[name]["line"].startswith("FAIL ") for name in scene.REFUSALS) >= 12


if __name__ == "__main__":
    made = {name: _said(name) for name in (*scene.PERIODS, *scene.REFUSALS, PLAN)}
    KEPT.write_bytes(lzma.compress(json.dumps(made).encode(), preset=9))
