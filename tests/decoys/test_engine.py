# SPDX-License-Identifier: GPL-3.0-or-later
"""The native engine of decoys gives what the reference gives, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest

import ragseal_native as native
from ragseal.kernel import field
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.decoys.hints import assign
from ragseal.kernel.decoys.law import select
from ragseal.kernel.decoys.table import DrawTable
from ragseal.kernel.errors import UnprovableError
from tests.decoys.drafts import FULL, LO, TINY, WIDE, scores, table_of

NAMES = ("N", "draws", "room", "c", "chunks", "S")


def engine(cls: DecoysClass, table: DrawTable) -> native.DecoysEngine:
    rows = [row.to_bytes(16, "big") for row in table.rows(cls.draws)]
    return native.DecoysEngine({name: getattr(cls, name) for name in NAMES}, rows)


def packed(y: list[list[int]]) -> bytes:
    return np.array([x for own in y for x in own], dtype="<i8").tobytes()


@pytest.mark.parametrize("cls", [TINY, FULL, WIDE], ids=lambda cls: cls.name)
def test_answers_and_hints_equal_the_reference(cls: DecoysClass) -> None:
    """Lists that are short, exact and longer than K; no draws, many; ties; shards."""
    seen: set[tuple[bool, bool, bool]] = set()
    for number in range(60 if cls is not WIDE else 12):
        rng = random.Random(number)
        y = scores(rng, cls, 1 + number % cls.S, rng.choice((0.0, 0.1, 0.5, 1.0)))
        K, table = (
            rng.choice((1, 3, 6, cls.room)),
            table_of(cls, rng.choice((1 << 14, 2 << 16 if cls is not WIDE else 20 << 16))),
        )
        chosen = select(cls, table, number, y, LO, K)
        shared, made = assign(cls, table, chosen, y, LO, K)
        fast, key = engine(cls, table), number.to_bytes(32, "big")
        found = fast.answer(key, packed(y), LO, K)
        want = [(h * cls.N + one.slot, one.flag) for h, own in enumerate(chosen.returned) for one in own]
        assert list(zip(found["ids"], found["flags"], strict=True)) == want
        assert (found["v"], found["i_star"]) == (shared.threshold, shared.threshold_slot)
        assert (found["short"], found["over"]) == (chosen.short, chosen.over)
        assert fast.hints(key, packed(y), LO, K) == [field.pack(one.hints) for one in made]
        seen.add((chosen.short, chosen.over, bool(chosen.results)))
    assert {(True, False, True), (False, True, False), (False, False, True)} <= seen


@pytest.mark.parametrize(("shards", "K"), [(1, 3), (2, 5)])
def test_too_little_room_is_refused_by_both(shards: int, K: int) -> None:
    """Of more draws than room, and of fewer than leave room for all results in one shard."""
    cls, table = DecoysClass("decoys-small", N=60, draws=14, room=3, c=8, chunks=2, S=2), table_of(TINY, 5 << 15)
    y, outcomes = [[LO + 1] * 60] * shards, set()
    for number in range(30):
        try:
            select(cls, table, number, y, LO, K)
            expected = True
        except UnprovableError:
            expected = False
        fast, key = engine(cls, table), number.to_bytes(32, "big")
        if expected:
            fast.answer(key, packed(y), LO, K)
        else:
            with pytest.raises(native.NativeError, match="overflow"):
                fast.answer(key, packed(y), LO, K)
        outcomes.add(expected)
    assert outcomes == {True, False}


def test_what_does_not_fit_is_refused() -> None:
    table, key = table_of(TINY, 1 << 16), bytes(32)
    fast, rows = engine(TINY, table), [row.to_bytes(16, "big") for row in table.rows(TINY.draws)]
    params = {name: getattr(TINY, name) for name in NAMES}
    for y, lo, k, why in (
        ([[0] * 59], LO, 3, "no shards"),
        ([[0] * 60] * 4, LO, 3, "no shards"),
        ([[0] * 60], -1, 3, "lo is out"),
        ([[0] * 60], LO, 0, "K is 1"),
        ([[0] * 60], LO, TINY.room + 1, "K is 1"),
        ([[1 << 17] * 60], LO, 3, "out of the class"),
        ([[1 << 40] * 60], LO, 3, "out of range"),
    ):
        with pytest.raises(native.NativeError, match=why):
            fast.answer(key, packed(y), lo, k)
    for change, given, why in (
        ({"N": 1}, rows, "shape"),
        ({"c": 19}, rows, "widths"),
        ({}, rows[:-1], "a row for each"),
        ({}, [*rows[:-1], bytes(16)], "a row for each"),
        ({}, [b"", *rows[1:]], "16 bytes"),
    ):
        with pytest.raises(native.NativeError, match=why):
            native.DecoysEngine({**params, **change}, given)
    with pytest.raises(native.NativeError, match="missing"):
        native.DecoysEngine({k: v for k, v in params.items() if k != "room"}, rows)
