# SPDX-License-Identifier: GPL-3.0-or-later
"""vectors/: this implementation gives every output, refuses every failure for the stated reason, and writes them."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from ragseal.kernel import field
from ragseal.kernel import poseidon as reference
from ragseal.kernel.errors import AuditError
from tests.fuzz.samples import message_kinds
from tests.vectors.reading import FOLDER, Json, of, pages
from vectors.source.book import MISMATCH
from vectors.source.operations import OPERATIONS, PRIVATE
from vectors.source.replay import replayed

pytestmark = pytest.mark.slow

WINDOWS = "audit"
SHORT = [path for path, page in pages().items() if page["operation"] not in (WINDOWS, "epsilon")]
ACCOUNTED = of("epsilon", kind="reason")  #: outputs: tests/accounting/test_published_numbers.py


def check(page: Json) -> None:
    """AssertionError unless this implementation says of a vector what it says."""
    compute = OPERATIONS[page["operation"]]
    if "output" in page:
        assert compute(page["input"]) == page["output"]
    elif page["reason"]["error"] == MISMATCH:
        given = compute(page["input"])
        assert page["claimed"]
        assert all(given[name] != value for name, value in page["claimed"].items()), "what is claimed is right"
    else:
        with pytest.raises(AuditError) as refused:
            compute(page["input"])
        assert type(refused.value).__name__ == page["reason"]["error"]
        assert page["reason"]["text"] in str(refused.value)


@pytest.mark.parametrize("path", SHORT)
def test_a_vector(path: str) -> None:
    check(pages()[path])


@pytest.mark.parametrize("path", ACCOUNTED)
def test_what_has_no_epsilon(path: str) -> None:
    check(pages()[path])


@pytest.mark.parametrize("path", of(WINDOWS) + of(WINDOWS, kind="reason"))
def test_a_window(path: str) -> None:
    """The whole checklist on recorded bytes: the verdict's line."""
    page = pages()[path]
    line = replayed(page["input"]).line()
    if "output" in page:
        assert line == page["output"]["line"]
        assert line.startswith("PASS ")
    else:
        assert line.startswith(page["reason"]["error"] + " ")
        assert page["reason"]["text"] in line


@pytest.mark.parametrize("path", of("poseidon-permutation"))
def test_poseidon_without_the_native_module(path: str) -> None:
    page = pages()[path]
    state = reference.permute(field.unpack(bytes.fromhex(page["input"]["state"])))
    assert field.pack(state).hex() == page["output"]["state"]


def test_every_message_has_vectors() -> None:
    """One that is accepted, and the failures that every message has."""
    tags = {kind.TAG for kind in message_kinds()} - PRIVATE
    failures = ("truncated", "one-byte-more", "version-2", "another-tag")
    missing = [f"{tag}/{n}" for tag in tags for n in ("valid", *failures) if f"messages/{tag}/{n}" not in pages()]
    assert not missing, f"add it to vectors/source/messages.py: {missing}"


def test_every_noun_has_a_failure() -> None:
    """Each folder holds something to refuse, and something to accept."""
    nouns = {path.rsplit("/", 1)[0] for path in pages()}
    refusing = {path.rsplit("/", 1)[0] for path, page in pages().items() if "reason" in page}
    giving = {path.rsplit("/", 1)[0] for path, page in pages().items() if "output" in page}
    assert nouns - refusing == {"fold-points"}, "u and points are not on any wire"
    assert nouns == giving


def test_every_operation_is_described_and_used() -> None:
    text = (FOLDER / "README.md").read_text()
    used = {page["operation"] for page in pages().values()}
    assert used == set(OPERATIONS)
    assert not [name for name in used if f"| `{name}` |" not in text]
    assert not [noun for noun in {path.split("/")[0] for path in pages()} if f"`{noun}/`" not in text]


def test_every_page_is_of_one_form() -> None:
    for path, page in pages().items():
        assert {"operation", "clause", "about", "input"} <= page.keys(), path
        assert ("output" in page) != ("reason" in page), path
        assert "reason" not in page or set(page["reason"]) == {"clause", "error", "text"}, path
        assert _exact(page), path


def _exact(value: Any) -> bool:
    """No integer that a reader with floats would round."""
    if isinstance(value, dict):
        return all(map(_exact, value.values()))
    if isinstance(value, list):
        return all(map(_exact, value))
    return not isinstance(value, int) or abs(value) < 2**53


def test_the_generator_writes_what_is_here() -> None:
    """Byte by byte, so a change of any format, hash or rule changes a file in the same commit."""
    command = [sys.executable, str(FOLDER / "generate.py"), "--check"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]


@pytest.mark.parametrize(
    ("path", "change"),
    [
        ("beacon/value", {"output": {"beacon": "1"}}),
        ("beacon/an-owner-less", {"claimed": {"beacon": None}}),
        ("messages/record/valid", {"reason": {"clause": "", "error": "EncodingError", "text": ""}}),
        ("messages/record/truncated", {"reason": {"clause": "", "error": "AttestationError", "text": "truncated"}}),
        ("messages/record/truncated", {"reason": {"clause": "", "error": "EncodingError", "text": "one too many"}}),
    ],
)
def test_a_wrong_vector_is_noticed(path: str, change: Json) -> None:
    page = {**pages()[path], **change}
    if "reason" in change:
        page.pop("output", None)
    if change.get("claimed"):
        page["claimed"] = OPERATIONS[page["operation"]](page["input"])
    with pytest.raises((AssertionError, pytest.fail.Exception)):
        check(page)
