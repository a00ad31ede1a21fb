# SPDX-License-Identifier: GPL-3.0-or-later
"""vectors/: this implementation gives every output, refuses every failure for the stated reason, and writes them."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from ragseal.kernel import field
from ragseal.kernel import poseidon as reference
from ragseal.kernel.errors import AuditError
from tests.fuzz.samples import message_kinds
from tests.vectors.reading import FOLDER, Json, all_cases, of
from vectors.source.book import FILES, MISMATCH
from vectors.source.operations import OPERATIONS, PRIVATE
from vectors.source.replay import replayed

pytestmark = pytest.mark.slow

WINDOWS = "audit"
FIELDS = ("name", "operation", "clause", "comment", "input")
SHORT = [path for path, case in all_cases().items() if case["operation"] not in (WINDOWS, "epsilon")]
ACCOUNTED = of("epsilon", kind="failure")  #: outputs: tests/accounting/test_published_numbers.py


def check(case: Json) -> None:
    """AssertionError unless this implementation says of a vector what it says."""
    compute = OPERATIONS[case["operation"]]
    if "expected" in case:
        assert compute(case["input"]) == case["expected"]
    elif case["failure"]["error"] == MISMATCH:
        given = compute(case["input"])
        assert case["claimed"]
        assert all(given[name] != value for name, value in case["claimed"].items()), "what is claimed is right"
    else:
        with pytest.raises(AuditError) as refused:
            compute(case["input"])
        assert type(refused.value).__name__ == case["failure"]["error"]
        assert case["failure"]["text"] in str(refused.value)


@pytest.mark.parametrize("path", SHORT)
def test_a_vector(path: str) -> None:
    check(all_cases()[path])


@pytest.mark.parametrize("path", ACCOUNTED)
def test_what_has_no_epsilon(path: str) -> None:
    check(all_cases()[path])


@pytest.mark.parametrize("path", of(WINDOWS) + of(WINDOWS, kind="failure"))
def test_a_window(path: str) -> None:
    """The whole checklist on recorded bytes: the verdict's line."""
    case = all_cases()[path]
    line = replayed(case["input"]).line()
    if "expected" in case:
        assert line == case["expected"]["line"]
        assert line.startswith("PASS ")
    else:
        assert line.startswith(case["failure"]["error"] + " ")
        assert case["failure"]["text"] in line


@pytest.mark.parametrize("path", of("poseidon-permutation"))
def test_poseidon_without_the_native_module(path: str) -> None:
    case = all_cases()[path]
    state = reference.permute(field.unpack(bytes.fromhex(case["input"]["state"])))
    assert field.pack(state).hex() == case["expected"]["state"]


def test_every_message_has_vectors() -> None:
    """One that is accepted, and the failures that every message has."""
    kinds = {kind.TAG: f"version-{3 if kind.LATER else 2}" for kind in message_kinds() if kind.TAG not in PRIVATE}
    failures = ("truncated", "one-byte-more", "another-tag")
    wanted = [f"{tag}/{n}" for tag, version in kinds.items() for n in ("valid", *failures, version)]
    missing = [one for one in wanted if f"messages/{one}" not in all_cases()]
    assert not missing, f"add it to vectors/source/messages.py: {missing}"


def test_every_noun_has_a_failure() -> None:
    """Each noun holds something to refuse, and something to accept."""
    nouns = {path.rsplit("/", 1)[0] for path in all_cases()}
    refusing = {path.rsplit("/", 1)[0] for path, case in all_cases().items() if "failure" in case}
    giving = {path.rsplit("/", 1)[0] for path, case in all_cases().items() if "expected" in case}
    assert nouns - refusing == {"fold-points"}, "u and points are not on any wire"
    assert nouns == giving


def test_every_operation_is_described_and_used() -> None:
    text = (FOLDER / "README.md").read_text()
    used = {case["operation"] for case in all_cases().values()}
    assert used == set(OPERATIONS)
    assert not [name for name in used if f"| `{name}` |" not in text]
    assert not [noun for noun in {path.split("/")[0] for path in all_cases()} if f"`{noun}/`" not in text]


def test_every_file_is_of_one_form() -> None:
    """Its cases have a name each, no two files have cases of one noun, and beside it there is no other JSON."""
    files = sorted(FOLDER.glob("*.json"))
    assert sum(len(json.loads(path.read_text())["cases"]) for path in files) == len(all_cases())
    for path in files:
        text = json.loads(path.read_text())
        assert set(text) == {"cases"}
        assert path.read_text() == json.dumps(text, indent=1) + "\n"
        assert {case["name"].split("/")[0] for case in text["cases"]} == set(FILES[path.stem])
    assert len({noun for nouns in FILES.values() for noun in nouns}) == sum(map(len, FILES.values()))
    assert {path.parent for path in FOLDER.rglob("*.json")} == {FOLDER, FOLDER / "source"}


def test_every_case_is_of_one_form() -> None:
    for path, case in all_cases().items():
        assert set(FIELDS) <= case.keys(), path
        assert case.keys() <= {*FIELDS, "base", "change", "expected", "claimed", "failure"}, path
        assert ("base" in case) == ("change" in case), path
        assert ("expected" in case) != ("failure" in case), path
        assert "failure" not in case or set(case["failure"]) == {"clause", "error", "text"}, path
        assert _exact(case), path


def _exact(value: Any) -> bool:
    """No integer that a reader with floats would round."""
    if isinstance(value, dict):
        return all(map(_exact, value.values()))
    if isinstance(value, list):
        return all(map(_exact, value))
    return not isinstance(value, int) or abs(value) < 2**53


def test_the_generator_writes_what_is_here() -> None:
    """Byte by byte, so a change of any format, hash or rule changes a case in the same commit."""
    command = [sys.executable, str(FOLDER / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("beacon/value", {"expected": {"beacon": "1"}}),
        ("beacon/an-owner-less", {"claimed": {"beacon": None}}),
        ("messages/record/valid", {"failure": {"clause": "", "error": "EncodingError", "text": ""}}),
        ("messages/record/truncated", {"failure": {"clause": "", "error": "AttestationError", "text": "truncated"}}),
        ("messages/record/truncated", {"failure": {"clause": "", "error": "EncodingError", "text": "one too many"}}),
    ],
)
def test_a_wrong_vector_is_noticed(path: str, change: Json) -> None:
    case = {**all_cases()[path], **change}
    if "failure" in change:
        case.pop("expected", None)
    if change.get("claimed"):
        case["claimed"] = OPERATIONS[case["operation"]](case["input"])
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(case)
