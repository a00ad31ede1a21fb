# SPDX-License-Identifier: GPL-3.0-or-later
"""vectors/ by a second implementation, in another language: vectors.mjs gives each output and refuses each failure."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.vectors.reading import FOLDER, all_cases

NODE = shutil.which("node")
SCRIPT = Path(__file__).with_name("vectors.mjs")
#: What needs curve arithmetic, a noise table or the accountants: read by Python and Rust.
ELSEWHERE = {
    "added-up", "points", "msm", "generators", "fold-points", "fold", "unfold", "opening", "prove-opening",
    "squared-norm", "prove-squared-norm", "groth16", "verifying-key", "index-file", "embedding-commitment",
    "score-commitment", "record", "receipt", "openings", "block", "block-batch", "noise-table", "noise-masses",
    "check-noise-table", "row-noise", "slot-noise", "select", "select-noise", "select-decoys", "draw-table",
    "commitments", "epsilon", "audit", "full-blocks", "proof-file", "seal",
}  # fmt: skip

pytestmark = pytest.mark.skipif(NODE is None, reason="Node.js is not installed")


def read(folder: Path) -> dict[str, Any]:
    assert NODE is not None
    command = [NODE, str(SCRIPT), str(folder)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def test_the_second_implementation_agrees() -> None:
    found = read(FOLDER)
    assert not found["wrong"]
    used = {case["operation"] for case in all_cases().values()}
    assert set(found["read"]) == used - ELSEWHERE, "write it down a second time, or say who reads it"
    for operation, counts in found["read"].items():
        own = [case for case in all_cases().values() if case["operation"] == operation]
        assert counts == [sum("expected" in case for case in own), sum("failure" in case for case in own)]


@pytest.mark.parametrize("path", ["inclusion/7-of-13", "beacon/value", "checkpoints/cosigned", "messages/record/valid",
                                  "signatures/valid", "sealing/opened", "noise/key", "samples/blocks"])  # fmt: skip
def test_a_wrong_vector_would_be_noticed(path: str, tmp_path: Path) -> None:
    """An output with another last letter; for what has none, an input."""
    case = dict(all_cases()[path])
    field = "expected" if case["expected"] else "input"
    where = case[field] = dict(case[field])
    name = next(name for name, value in where.items() if isinstance(value, str | list | dict))
    where[name] = _other(where[name])
    (tmp_path / "changed.json").write_text(json.dumps({"noun": "changed", "cases": [case]}))
    assert [one.split(":")[0] for one in read(tmp_path)["wrong"]] == [f"changed/{case['name']}"]


def _other(value: Any) -> Any:
    if isinstance(value, dict):
        name = next(iter(value))
        return {**value, name: _other(value[name])}
    if isinstance(value, list):
        return [*value, value[-1]]
    return value[:-1] + ("0" if value[-1] != "0" else "1")
