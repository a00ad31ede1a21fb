# SPDX-License-Identifier: GPL-3.0-or-later
"""Updates of a live index: bytes that are hashed, computed by hand, and what is none."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace

import pytest

from ragseal.kernel import emptied
from ragseal.kernel.commitment import IndexFile
from ragseal.kernel.emptied import EmptiedFile, EmptiedShard, EmptiedStatement, plain_entry, verify_emptied
from ragseal.kernel.errors import CommitmentError
from ragseal.kernel.opening import Opening
from ragseal.kernel.thinning import thinning_class
from ragseal.kernel.versions import IndexUpdate, UpdatedIndex, tick_at
from tests.apart import be, element, h

POINTS = [bytes([n]) * 64 for n in range(1, 5)]
OPENING = Opening((POINTS[0],), (POINTS[1], POINTS[2]), (3, 4))
LINES = tuple(UpdatedIndex(name, b"c" * 32, b"o" * 32, (b"p" * 32,), b"t" * 32) for name in ("north", "south"))
UPDATE = IndexUpdate(b"m" * 32, 7, 1_800_000_060, LINES, b"r" * 32)
STATEMENT = EmptiedStatement(b"t" * 32, b"a" * 32, b"m" * 32, 7, 11, 12, 13, POINTS[0] + POINTS[1])


def test_how_requests_call_a_version() -> None:
    """Window, number and the tenant's line: the same line in another update is another version."""
    assert UPDATE.index_digest("south") == h("updated-index-version", b"m" * 32, be(7, 4), LINES[1].encode())
    named = {UPDATE.index_digest("north"), replace(UPDATE, number=8).index_digest("north")}
    named |= {replace(UPDATE, manifest=b"n" * 32).index_digest("north"), UPDATE.index_digest("south")}
    assert len(named) == 4
    with pytest.raises(CommitmentError, match="no index of tenant 'east'"):
        UPDATE.index_digest("east")


def test_statement_and_link_apart() -> None:
    parts = (b"t" * 32, b"a" * 32, b"m" * 32, be(7, 4), be(11) + be(12) + be(13), POINTS[0] + POINTS[1])
    assert STATEMENT.digest == h("emptied-statement", *parts)
    assert STATEMENT.weights() == [element("emptied-weight", STATEMENT.digest, be(j, 4)) for j in range(2)]
    assert STATEMENT.clear() == [11, 12, 13]
    want = h("emptied-link", STATEMENT.digest, b"W", b"W'", b"proof")
    assert emptied._link_context(STATEMENT, b"W", b"W'", b"proof") == want


def test_what_an_entry_says_of_a_file() -> None:
    shard = EmptiedShard(POINTS[1], POINTS[2], OPENING, b"g" * 256)
    file = EmptiedFile(POINTS[0], OPENING, (shard,))
    line = file.entry("north", b"r" * 32)
    proof = h("emptied-proof", shard.encode())
    assert line == UpdatedIndex(
        "north", h("columns", POINTS[0]), h("columns-opening", OPENING.encode()), (proof,), b"r" * 32
    )
    assert plain_entry(IndexFile(POINTS[0], OPENING), "north", b"r" * 32) == replace(line, proof_digests=())
    for change in ({"before": POINTS[3]}, {"after": POINTS[3]}, {"proof": bytes(256)}):
        other = replace(file, shards=(replace(shard, **change),))  # type: ignore[arg-type]
        assert other.entry("north", b"r" * 32) != line
    for wrong in ({"columns": POINTS[3]}, {"shards": (shard, shard)}):
        assert replace(file, **wrong).entry("north", b"r" * 32) != line  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"number": 0}, "counted from 1"),
        ({"tenants": ()}, "distinct and sorted"),
        ({"tenants": LINES[::-1]}, "distinct and sorted"),
        ({"tenants": (LINES[0], LINES[0])}, "distinct and sorted"),
        ({"tenants": (LINES[0], replace(LINES[1], proof_digests=()))}, "for every tenant or for none"),
    ],
)
def test_updates_that_are_none(changes: dict[str, object], match: str) -> None:
    assert IndexUpdate.decode(UPDATE.encode()) == UPDATE
    with pytest.raises(CommitmentError, match=match):
        IndexUpdate.decode(replace(UPDATE, **changes).encode())  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"hidden": 0}, "a slot is hidden"),
        ({"hidden": 256}, "a slot is hidden"),
        ({"columns": b""}, "malformed"),
        ({"columns": POINTS[0][1:]}, "malformed"),
        ({"columns": bytes(64 * 4097)}, "malformed"),
        ({"number": 0}, "counted from 1"),
    ],
)
def test_statements_that_are_none(changes: dict[str, object], match: str) -> None:
    with pytest.raises(CommitmentError, match=match):
        replace(STATEMENT, **changes)  # type: ignore[arg-type]


def test_ticks_begin_with_the_whole_minute_of_the_opening() -> None:
    assert [tick_at(605, 120, now) for now in (0, 599, 600, 719, 720, 1000)] == [600, 600, 600, 600, 720, 960]


@pytest.mark.parametrize("count", [0, 2])
def test_a_file_speaks_of_every_shard_and_of_no_other(count: int) -> None:
    """Before anything is computed: neither group nor keys are looked at."""
    shard = EmptiedShard(POINTS[1], POINTS[2], OPENING, b"g" * 256)
    with pytest.raises(CommitmentError, match=f"speaks of {count} shards, not 1"):
        verify_emptied(None, [STATEMENT], None, None, EmptiedFile(STATEMENT.columns, OPENING, (shard,) * count))  # type: ignore[arg-type]


def test_a_file_is_of_the_columns_that_the_statements_are_about() -> None:
    """Before anything is computed: no group is there."""
    shard = EmptiedShard(POINTS[1], POINTS[2], OPENING, b"g" * 256)
    key, bases = SimpleNamespace(digest=STATEMENT.thinning_key, cls=thinning_class(4)), SimpleNamespace(capacity=4)
    with pytest.raises(CommitmentError, match="about other columns than the file's"):
        verify_emptied(None, [STATEMENT], key, bases, EmptiedFile(POINTS[1] + POINTS[0], OPENING, (shard,)))  # type: ignore[arg-type]
