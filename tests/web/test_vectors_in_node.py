# SPDX-License-Identifier: GPL-3.0-or-later
"""The browser's decoders and checks against vectors/, and against the kernel's decoders on bytes that were changed."""

from __future__ import annotations

import json
import random
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.encoding import Message
from tests.decoders.test_two_decoders import KINDS, first
from tests.fuzz.mutation import mutated
from tests.fuzz.samples import sample
from tests.vectors.reading import FOLDER, all_cases
from tests.web.published import NODE

SCRIPT = Path(__file__).with_name("vectors.mjs")
READ = {
    "message", "tagged-hash", "public-key", "seal-key", "log-key", "signature", "points", "verifying-key", "groth16",
    "opening", "index-file", "inclusion", "merkle-root", "checkpoint", "alpha-beta", "proof-file",
}  # fmt: skip
MUTATIONS = 40  #: of each message

pytestmark = [pytest.mark.slow, pytest.mark.skipif(NODE is None, reason="Node.js is not installed")]


def read(folder: Path) -> dict[str, Any]:
    assert NODE is not None
    done = subprocess.run([NODE, str(SCRIPT), str(folder)], capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    found: dict[str, Any] = json.loads(done.stdout)
    return found


def decoded(kind: type[Message], cases: Sequence[bytes]) -> list[dict[str, Any]]:
    """What the browser's decoder says of each, in one run."""
    assert NODE is not None
    lines = "".join(f"{kind.TAG} {data.hex()}\n" for data in cases)
    done = subprocess.run([NODE, str(SCRIPT)], input=lines, capture_output=True, text=True, check=True, timeout=300)
    return [json.loads(line) for line in done.stdout.splitlines()]


def test_the_browsers_checks_agree_with_the_vectors() -> None:
    found = read(FOLDER)
    assert not found["wrong"]
    assert set(found["read"]) == READ
    for operation, counts in found["read"].items():
        own = [case for case in all_cases().values() if case["operation"] == operation]
        assert counts == [sum("expected" in case for case in own), sum("failure" in case for case in own)]


@pytest.mark.parametrize(
    "path", ["inclusion/7-of-13", "checkpoints/cosigned", "openings/one-relation", "groth16/valid"]
)
def test_a_wrong_vector_would_be_noticed(path: str, tmp_path: Path) -> None:
    case = dict(all_cases()[path])
    field = "expected" if case["expected"] else "input"
    where = case[field] = dict(case[field])
    name = next(name for name, value in where.items() if isinstance(value, str) and len(value) > 20)
    where[name] = where[name][:-1] + ("0" if where[name][-1] != "0" else "1")
    (tmp_path / "changed.json").write_text(json.dumps({"cases": [case]}))
    assert [one.split(":")[0] for one in read(tmp_path)["wrong"]] == [path]


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.TAG)
def test_the_generated_decoder_agrees_with_the_kernels(kind: type[Message]) -> None:
    """Of every message that is hashed, signed or sent: the same fields, or both refuse."""
    rng = random.Random(f"browser {kind.TAG}")
    pool = [sample(kind, rng).encode() for _ in range(4)]
    cases = [*pool, *(mutated(rng.choice(pool), rng, rng.choice(pool)) for _ in range(MUTATIONS))]
    ours = [first(kind, data) for data in cases]
    for data, own, theirs in zip(cases, ours, decoded(kind, cases), strict=True):
        where = f"{kind.TAG}: {data[:200].hex()}: {theirs.get('error')}"
        assert (own is None) == ("error" in theirs), where
        assert own == theirs.get("ok"), where
    assert None in ours
