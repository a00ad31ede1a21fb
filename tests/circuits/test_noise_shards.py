# SPDX-License-Identifier: GPL-3.0-or-later
"""Several shards under one threshold: honest ones satisfy the circuit, a false count of winners, id or noise does not.

As in test_noise_winners: a forged statement is completed as well as it can be, so that one rule stands against it; the
circuit rejects it, and accepts it once the rows of that rule are dropped.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable
from dataclasses import replace

import pytest

from ragseal.groth16.assignments import Assignment
from ragseal.kernel import field
from ragseal.kernel.mechanism import noise_key
from ragseal.kernel.noise_mechanism import NoiseSelection, at_threshold, open_places
from ragseal.kernel.noise_statement import CLEAR_NAMES, THRESHOLD
from ragseal.kernel.params import TAG_PLACES, R
from ragseal.kernel.poseidon import constants, poseidon
from ragseal.kernel.statement import Returned
from tests.circuits.noise_records import STEPS, NoiseRecord, edited, group_of, noise_record
from tests.circuits.r1cs import R1cs
from tests.circuits.rules import assert_only_rule, boolean_row, fractions
from tests.circuits.scene import compiled, noise_tiny

pytestmark = pytest.mark.slow

ALPHA, BETA = 10**40 + 9, 10**41 + 7
SHARDS = 3


class Setting:
    """The compiled circuit."""

    def __init__(self) -> None:
        self.r1cs: R1cs = compiled(noise_tiny())


@pytest.fixture(scope="module")
def tiny() -> Setting:
    return Setting()


@pytest.fixture(scope="module")
def record() -> NoiseRecord:
    """An honest record whose K winners lie in three shards."""
    return noise_record(1, SHARDS)


def inputs(one: Assignment) -> dict[int, int]:
    """Wires of an assignment; wire 0 is the constant."""
    return dict(enumerate(field.unpack(one.packed()), 1))


def forged(record: NoiseRecord, winners: int, returned: Iterable[Returned], shards: int = SHARDS) -> NoiseRecord:
    """The record with the ``winners``-th best slot as its threshold and any T, of an index of so many shards."""
    cls, key = record.cls, noise_key(record.seed, record.beacon, record.ctx)
    opened = [open_places(cls, key, w, STEPS, shard) for shard, w in enumerate(record.w)]
    values = sorted((-p.score, cls.N * s + p.slot) for s, one in enumerate(opened) for p in one.places)
    value, slot = -values[winners - 1][0], values[winners - 1][1]
    own = [at_threshold(cls, one, value, slot - cls.N * s) for s, one in enumerate(opened)]
    assert sum(len(one.returned) for one in own) == winners
    own += own[:1] * (shards - len(own))
    return replace(record, selection=NoiseSelection(tuple(own), value, slot, tuple(returned)))


def next_best(record: NoiseRecord, winners: int) -> int:
    """The id of the slot that comes ``winners``-th."""
    return forged(record, winners, record.selection.returned).selection.threshold_slot


DIGITS: dict[str, Callable[[random.Random, int], int]] = {
    "random": lambda rng, shard: rng.randrange(-900, 300),
    "equal": lambda rng, shard: 7,
    "all in the last shard": lambda rng, shard: 128 if shard == 2 else -1000,
    "at the class's limits": lambda rng, shard: rng.choice((128 - 2047, 2048, 0)),
}


@pytest.mark.parametrize("kind", DIGITS)
def test_honest_shards_are_accepted(tiny: Setting, kind: str) -> None:
    rng = random.Random(kind)
    digits = [[DIGITS[kind](rng, shard) for _ in range(noise_tiny().N)] for shard in range(SHARDS)]
    made = noise_record(7, SHARDS, digits)
    for shard in range(SHARDS):
        assert tiny.r1cs.violations(tiny.r1cs.solve(inputs(made.assignment(shard, ALPHA, BETA)))) == []


@pytest.mark.parametrize("name", [*CLEAR_NAMES[:7], *THRESHOLD])
def test_another_clear_input_or_threshold_is_refused(tiny: Setting, record: NoiseRecord, name: str) -> None:
    given = inputs(record.assignment(1, ALPHA, BETA))
    w = tiny.r1cs.wire_of[name]
    assert tiny.r1cs.violations(tiny.r1cs.solve({**given, w: given[w] + 1}))


def test_an_id_beyond_the_last_shard_stands_for_a_winner(tiny: Setting, record: NoiseRecord) -> None:
    """K - 1 winners in all, and the last id of T lies in no shard: the verifier's number of shards is against it."""
    cls, chosen = record.cls, record.selection
    left = [one for one in chosen.returned if one.slot != chosen.threshold_slot]
    for shard in range(SHARDS):
        made = forged(record, cls.K - 1, [*left, Returned(SHARDS * cls.N + 5, False)], SHARDS + 1)
        one = made.assignment(shard, ALPHA, BETA)
        assert one.clear[6] == SHARDS
        assert_only_rule(tiny, inputs(one), *fractions(tiny.r1cs, rf"increasing\.f\[{cls.K}\]\[\d+\]"))
        claimed = replace(one, clear=(*one.clear[:6], SHARDS + 1, *one.clear[7:]))
        assert not tiny.r1cs.violations(tiny.r1cs.solve(inputs(claimed)))


def test_a_negative_id_stands_for_a_winner(tiny: Setting, record: NoiseRecord) -> None:
    """It is before every shard, as one beyond the last is behind every one."""
    cls, chosen = record.cls, record.selection
    left = [one for one in chosen.returned if one.slot != chosen.threshold_slot]
    made = forged(record, cls.K - 1, [Returned(0, False), *left])
    one = made.assignment(1, ALPHA, BETA)
    packed, low = group_of(one, "returned"), group_of(one, "insideLow")
    packed[0] = -4 % R
    distance = -1 - (-4 - 2 * cls.N)
    low[0], gaps = distance % (1 << cls.c), group_of(one, "returnedGap")
    gaps[1] = (packed[1] + 3) % (1 << cls.c)
    high = group_of(one, "insideHigh")
    high[0] = (2 * cls.N - 1 + 4 + 2 * cls.N) % (1 << cls.c)
    forgery = edited(one, returned=packed, insideLow=low, returnedGap=gaps, insideHigh=high)
    wires = inputs(forgery)
    wires[tiny.r1cs.wire_of["t_commit"]] = commitment_to(cls.L, record.salt, packed)
    assert_only_rule(tiny, wires, *fractions(tiny.r1cs, r"increasing\.f\[0\]\[\d+\]"))


def commitment_to(L: int, salt: int, packed: list[int]) -> int:
    """A record's commitment to T, of whatever T has."""
    assert len(packed) * (L + 1) <= 248
    total = sum(x << ((L + 1) * j) for j, x in enumerate(packed)) % R
    return poseidon(TAG_PLACES, salt, total)


def test_one_winner_more_than_t_has(tiny: Setting, record: NoiseRecord) -> None:
    cls = record.cls
    extra = next_best(record, cls.K + 1)
    made = forged(record, cls.K + 1, record.selection.returned)
    for shard in range(SHARDS):
        given = inputs(made.assignment(shard, ALPHA, BETA))
        if shard != extra // cls.N:
            assert not tiny.r1cs.violations(tiny.r1cs.solve(given))
            continue
        rank = [p.slot for p in made.selection.shards[shard].places].index(extra % cls.N)
        assert_only_rule(tiny, given, *fractions(tiny.r1cs, rf"place\[{rank}\]\.fWin"))


def lost(record: NoiseRecord) -> tuple[NoiseRecord, int, int]:
    """K - 1 winners and the honest T; the shard of the last winner, and its place in T."""
    chosen = record.selection
    made = forged(record, record.cls.K - 1, chosen.returned)
    return made, chosen.threshold_slot // record.cls.N, chosen.ids.index(chosen.threshold_slot)


def test_one_winner_less_than_t_has(tiny: Setting, record: NoiseRecord) -> None:
    made, shard, k = lost(record)
    given = inputs(made.assignment(shard, ALPHA, BETA))
    assert_only_rule(tiny, given, *fractions(tiny.r1cs, rf"inside\[{k}\]\.fInside"))


@pytest.mark.parametrize(("bit", "end"), [("insideBelow", 0), ("insideBeyond", 1)])
def test_an_id_of_this_shard_is_said_to_lie_elsewhere(tiny: Setting, record: NoiseRecord, bit: str, end: int) -> None:
    """Then its shard needs no winner for it, and no other shard does."""
    made, shard, k = lost(record)
    one = made.assignment(shard, ALPHA, BETA)
    bits = group_of(one, bit)
    assert bits[k] == 0
    bits[k] = 1
    n = record.cls.returned_chunks
    rule = "|".join(rf"inside\[{k}\]\.f\[{end * n + j}\]" for j in range(n))
    assert_only_rule(tiny, inputs(edited(one, **{bit: bits})), *fractions(tiny.r1cs, rule))


@pytest.mark.parametrize("group", ["insideBelow", "insideBeyond"])
def test_bits_are_bits(tiny: Setting, group: str) -> None:
    for k in range(noise_tiny().K):
        boolean_row(tiny.r1cs, f"{group}[{k}]")


def test_the_noise_of_another_shard(tiny: Setting, record: NoiseRecord) -> None:
    """Everything of shard 0 but the lane of its noise: two shards with one noise would show differences of scores."""
    cls, key = record.cls, noise_key(record.seed, record.beacon, record.ctx)
    opened = open_places(cls, key, record.w[0], STEPS, 1)
    best = sorted((-p.score, p.slot) for p in opened.places)[cls.K - 1]
    chosen = at_threshold(cls, opened, -best[0], best[1])
    made = replace(record, w=record.w[:1], selection=NoiseSelection((chosen,), -best[0], best[1], chosen.returned))
    given = inputs(made.assignment(0, ALPHA, BETA))
    r1cs = tiny.r1cs
    assert r1cs.violations(r1cs.solve(given))
    first = r1cs.wire_of["shardFirst"]
    rows = {i for i in r1cs.rows_of[first] if {w for w, _ in r1cs.rows[i][2]} == {first}}
    assert len(rows) == 1
    lane = {first: pow(1 + constants(17)[0][3], 5, R)}
    assert not r1cs.violations(r1cs.solve({**given, **lane}, rows), rows)
