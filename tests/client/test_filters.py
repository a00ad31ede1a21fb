# SPDX-License-Identifier: GPL-3.0-or-later
"""Filters of OpenAI's form over a document's metadata, and what is refused as one."""

from __future__ import annotations

from typing import Any

import pytest

from ragseal.client.filters import MAX_DEPTH, MAX_PARTS, MAX_VALUES, noting, parse_filter
from ragseal.kernel.errors import EncodingError

DOCUMENT = {"source": "notes", "year": 2020, "score": 0.5, "draft": True}


def compared(kind: Any, key: Any, value: Any) -> dict[str, Any]:
    return {"type": kind, "key": key, "value": value}


@pytest.mark.parametrize(
    ("kind", "key", "value", "passes"),
    [
        ("eq", "source", "notes", True), ("eq", "source", "news", False), ("eq", "year", 2020, True),
        ("eq", "year", 2020.0, True), ("eq", "year", "2020", False), ("eq", "draft", True, True),
        ("eq", "draft", 1, False), ("eq", "missing", "x", False), ("ne", "missing", "x", True),
        ("ne", "source", "notes", False), ("gt", "year", 2019, True), ("gt", "year", 2020, False),
        ("gte", "year", 2020, True), ("lt", "score", 1, True), ("lte", "score", 0.49, False),
        ("gt", "source", "news", True), ("gt", "source", 3, False), ("gt", "draft", 0, False),
        ("lt", "missing", 9, False), ("in", "source", ["a", "notes"], True), ("in", "year", [2019], False),
        ("nin", "source", ["notes"], False), ("nin", "missing", ["notes"], True), ("in", "draft", [1], False),
    ],
)  # fmt: skip
def test_comparisons(kind: str, key: str, value: Any, passes: bool) -> None:
    assert parse_filter(compared(kind, key, value))(DOCUMENT) is passes


def test_compounds() -> None:
    old, notes = compared("lt", "year", 2000), compared("eq", "source", "notes")
    assert not parse_filter({"type": "and", "filters": [old, notes]})(DOCUMENT)
    assert parse_filter({"type": "or", "filters": [old, notes]})(DOCUMENT)
    inner = {"type": "and", "filters": [notes, {"type": "or", "filters": [old, notes]}]}
    assert parse_filter(inner)(DOCUMENT)


def nested(depth: int) -> dict[str, Any]:
    one: dict[str, Any] = compared("eq", "source", "notes")
    for _ in range(depth):
        one = {"type": "and", "filters": [one]}
    return one


@pytest.mark.parametrize(
    "given",
    [
        None, [], "eq", {}, {"type": "eq"}, compared("like", "a", "b"), compared("eq", 3, "b"),
        compared(["eq"], "a", 1), compared("in", "a", [1] * (MAX_VALUES + 1)),
        compared("eq", "a", None), compared("eq", "a", {"b": 1}), compared("in", "a", "b"), compared("in", "a", [None]),
        {"type": "and", "filters": []}, {"type": "and", "filters": {}}, {"type": ["and"], "filters": []},
        {**compared("eq", "a", "b"), "more": 1}, {"type": "and", "filters": [nested(0)], "key": "a"},
        nested(MAX_DEPTH + 1), {"type": "or", "filters": [nested(0)] * MAX_PARTS},
    ],
)  # fmt: skip
def test_what_is_no_filter(given: Any) -> None:
    with pytest.raises(EncodingError, match="filters: "):
        parse_filter(given)


def test_the_deepest_and_the_widest() -> None:
    assert parse_filter(nested(MAX_DEPTH))(DOCUMENT)
    assert parse_filter({"type": "or", "filters": [nested(0)] * (MAX_PARTS - 1)})(DOCUMENT)


@pytest.mark.parametrize(
    ("kind", "value", "notes"),
    [
        ("gt", "9", 1), ("eq", "11", 1), ("ne", "11", 1), ("in", ["11", "12"], 1), ("nin", ["11"], 1), ("eq", True, 1),
        ("gt", 9, 0), ("eq", 11.0, 0), ("in", ["11", 12], 0), ("in", [], 0),
    ],
)  # fmt: skip
def test_what_cannot_be_compared_is_counted(kind: str, value: object, notes: int) -> None:
    keep = parse_filter({"type": kind, "key": "price", "value": value})
    with noting() as found:
        for price in (11, 12):
            keep({"price": price})
        keep({})
    assert len(found) == notes
    assert set(found.values()) <= {2}
    assert all(said.startswith("'price' is a number in documents, and the filter compares it with ") for said in found)


def test_outside_of_a_gateway_it_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    assert not parse_filter({"type": "gt", "key": "price", "value": 5})({"price": "11"})
    assert "'price' is text in documents, and the filter compares it with a number" in caplog.text
