# SPDX-License-Identifier: GPL-3.0-or-later
"""The native engine of decoys gives what the reference gives, bit for bit."""

from __future__ import annotations

import random

import numpy as np
import pytest

import ragseal_native as native
from ragseal.backends.group import default_group
from ragseal.kernel import field
from ragseal.kernel.decoys.decoys_class import DecoysClass
from ragseal.kernel.decoys.hints import assign, shared_of
from ragseal.kernel.decoys.law import select
from ragseal.kernel.decoys.statement import slot_wires
from ragseal.kernel.decoys.table import DrawTable
from ragseal.kernel.errors import UnprovableError
from ragseal.kernel.params import R
from tests.decoys.drafts import FULL, LO, TINY, WIDE, scores, table_of

pytestmark = pytest.mark.slow

NAMES = ("N", "draws", "room", "c", "chunks", "S")


def engine(cls: DecoysClass, table: DrawTable) -> native.DecoysEngine:
    rows = [row.to_bytes(16, "big") for row in table.rows(cls.draws)]
    return native.DecoysEngine({name: getattr(cls, name) for name in NAMES}, rows)


def packed(y: list[list[int]]) -> bytes:
    return np.array([x for own in y for x in own], dtype="<i8").tobytes()


def wires(cls: DecoysClass, y: list[int], opened: tuple[bytes, bytes, bytes], beta: int) -> tuple[bytes, bytes]:
    return native.decoys_wires((cls.c, cls.chunks), packed([y]), *opened, field.to_bytes(beta))


@pytest.mark.parametrize("cls", [TINY, FULL, WIDE], ids=lambda cls: cls.name)
def test_answers_and_openings_equal_the_reference(cls: DecoysClass) -> None:
    """Lists that are short, exact and longer than K; no draws, many; ties; shards."""
    seen: set[tuple[bool, bool, bool]] = set()
    for number in range(60 if cls is not WIDE else 12):
        rng = random.Random(number)
        y = scores(rng, cls, 1 + number % cls.S, rng.choice((0.0, 0.1, 0.5, 1.0)))
        K, table = (
            rng.choice((1, 3, 6, cls.room)),
            table_of(cls, rng.choice((0, 1 << 14, 2 << 16 if cls is not WIDE else 20 << 16))),
        )
        chosen = select(cls, table, number, y, LO, K)
        shared, made = assign(cls, table, chosen, y, LO, K)
        fast, key = engine(cls, table), number.to_bytes(32, "big")
        found = fast.answer(key, packed(y), LO, K)
        want = [(h * cls.N + one.slot, one.flag) for h, own in enumerate(chosen.returned) for one in own]
        assert list(zip(found["ids"], found["flags"], strict=True)) == want
        assert (found["v"], found["i_star"]) == (shared.threshold, shared.threshold_slot)
        assert (found["short"], found["over"]) == (chosen.short, chosen.over)
        for h, one in enumerate(made):
            opened = fast.assignment(key, packed(y), LO, K, h)
            assert opened == (field.pack(one.members), field.pack(one.behind), field.pack(one.hints), one.count)
            beta, high = rng.randrange(1, R), one.hints[: cls.N * (cls.chunks - 1)]
            x, z = slot_wires(cls, y[h], (one.members, one.behind, high), beta)
            assert wires(cls, y[h], opened[:3], beta) == (field.pack(x), field.pack(z))
        seen.add((chosen.short, chosen.over, bool(chosen.results)))
    assert {(True, False, True), (False, True, False), (False, False, True)} <= seen


@pytest.mark.parametrize("shards", [1, 2, 3])
def test_a_query_is_answered_in_one_call(shards: int) -> None:
    """T, its scores and C_y of every shard, of an index's rows: what the parts give one by one."""
    table, rng = table_of(TINY, 2 << 16), np.random.default_rng(shards)
    rows = rng.integers(-9, 10, (shards * TINY.N, 64), dtype=np.int8)
    rows[rng.random(len(rows)) < 0.5] = 1  # of which many have one score
    rows.flags.writeable = False
    matrix = native.ScoreMatrix(rows.view(np.uint8).data, 64)
    group, fast = default_group(), engine(TINY, table)
    points = [group.hash_to_curve(b"columns %d" % h, 65) for h in range(shards)]
    columns = [native.Committer(own[:-64], points[0][-64:]) for own in points]
    for number in range(20):
        e = rng.integers(-9, 10, 64, dtype=np.int8)
        y = rows.astype(int) @ e.astype(int)
        rhos = [field.to_bytes(number + h) for h in range(shards)]
        key, K = field.to_bytes(number), 1 + number % TINY.room
        found = fast.respond(key, matrix, columns, e.tobytes(), LO, K, rhos)
        chosen = select(TINY, table, number, y.reshape(shards, -1).tolist(), LO, K)
        want = [(h * TINY.N + one.slot, one.flag) for h, own in enumerate(chosen.returned) for one in own]
        assert list(zip(found["ids"], found["flags"], strict=True)) == want
        assert found["scores"] == [y[slot] for slot, _ in want]
        assert found["c_y"] == b"".join(c.commit(e.tobytes(), rho) for c, rho in zip(columns, rhos, strict=True))
    with pytest.raises(native.NativeError, match="blinders"):
        fast.respond(key, matrix, columns, e.tobytes(), LO, 3, [*rhos, key])
    other = columns[:-1] if shards == 3 else [*columns, columns[0]]
    with pytest.raises(native.NativeError, match="not those"):
        fast.respond(key, matrix, other, e.tobytes(), LO, 3, [key] * len(other))


def test_the_best_of_many_slots_are_chosen() -> None:
    """More slots than are counted together: ties that end in any block, none, and all of one score."""
    cls = DecoysClass("decoys-many", N=3000, draws=40, room=400, c=8, chunks=2, S=2)
    table = table_of(cls, 3 << 16)
    fast = engine(cls, table)
    for number in range(30):
        rng = np.random.default_rng(number)
        y = rng.integers(0, (2, 20, 30_000)[number % 3], (1 + number % 2, cls.N)).tolist()
        K, lo = (1, 30, 397)[number % 5 % 3], (0, 10, 29_900)[number % 3]
        chosen = select(cls, table, number, y, lo, K)
        found = fast.answer(field.to_bytes(number), packed(y), lo, K)
        want = [(h * cls.N + one.slot, one.flag) for h, own in enumerate(chosen.returned) for one in own]
        assert list(zip(found["ids"], found["flags"], strict=True)) == want
        shared = shared_of(cls, chosen, y, lo)
        assert (found["v"], found["i_star"]) == (shared.threshold, shared.threshold_slot)


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
        ([[0] * 59], LO, 3, "not those"),
        ([[0] * 60] * 4, LO, 3, "1 to 3 shards"),
        ([[0] * 60], -1, 3, "lo is out"),
        ([[0] * 60], LO, 0, "K is 1"),
        ([[0] * 60], LO, TINY.room + 1, "K is 1"),
        ([[1 << 17] * 60], LO, 3, "out of the class"),
        ([[0] * 60], 1 << 31, 3, "lo is out"),
        ([[1 << 31] * 60], LO, 3, "out of range"),
        ([[0] * 61], LO, 3, "not those"),
    ):
        with pytest.raises(native.NativeError, match=why):
            fast.answer(key, packed(y), lo, k)
    with pytest.raises(native.NativeError, match="no shard 1"):
        fast.assignment(key, packed([[0] * 60]), LO, 3, 1)
    opened = fast.assignment(key, packed([[0] * 60]), LO, 3, 0)
    for given_y, members in (([0] * 59, opened[0]), ([0] * 60, opened[0][32:])):
        with pytest.raises(native.NativeError, match="as many slots"):
            wires(TINY, given_y, (members, *opened[1:3]), 1)
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
