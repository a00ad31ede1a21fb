# SPDX-License-Identifier: GPL-3.0-or-later
"""The bounds of decoys by their definitions, term by term: what makes them fast changes no value."""

from __future__ import annotations

import itertools
import math
import random
import time
from fractions import Fraction

import pytest

from ragseal.kernel.decoys.bounds import (
    FIXED_BITS,
    certified_ratio,
    denominator,
    drawn_law,
    excess,
    return_ratio,
    set_masses,
    size_law,
    smallest_room,
    visible_ratio,
)
from ragseal.kernel.decoys.table import DrawTable, build_table

HIDDEN = 13
UNIT = 1 << FIXED_BITS


def tables(count: int) -> list[tuple[DrawTable, int]]:
    """Tables of all kinds, with gaps and ends of no mass, and a number of slots each."""
    rng, found = random.Random(5), []
    for at in range(count):
        L = rng.randrange(1, 7)
        bits = -(-64 // L) * L
        weights = [rng.choice([0, 0, 1, rng.randrange(1 << 20), rng.randrange(1 << 60)]) for _ in range(2 + at % 12)]
        masses = [(one << bits) // max(1, sum(weights)) for one in weights]
        masses[0] += (1 << bits) - sum(masses)
        own = build_table(L, rng.randrange(1, 5 << 16)) if at % 3 == 0 else DrawTable(L, bits, tuple(masses))
        found.append((own, rng.randrange((1 << L) // 2 + 1, (1 << L) + 1)))
    return found


def plain_ratios(table: DrawTable, N: int, K: int, m: int) -> list[Fraction]:
    most = min(K, N)
    p = set_masses(table, N, most)
    return sorted(
        Fraction(sum(math.comb(s, t) * p[k + t] for t in range(s + 1)), p[k + s])
        for s in range(1, min(m, most) + 1)
        for k in range(most - s + 1)
        if p[k + s]
    )


@pytest.mark.parametrize(("table", "N"), tables(40))
def test_sets_have_the_probability_of_inclusion_and_exclusion(table: DrawTable, N: int) -> None:
    """p_k = sum_i (-1)^(k-i) C(k, i) G(V + i), each G a sum of fractions."""
    void, whole = (1 << table.L) - N, 1 << table.bits

    def within(x: int) -> Fraction:
        return sum(
            (Fraction(mass, whole) * Fraction(x, 1 << table.L) ** j for j, mass in enumerate(table.masses)), Fraction(0)
        )

    most = min(N, table.draws + 2)
    for k, found in enumerate(set_masses(table, N, most)):
        by_force = sum((-1) ** (k - i) * math.comb(k, i) * within(void + i) for i in range(k + 1))
        assert Fraction(found, denominator(table)) == by_force
        assert size_law(table, N, most)[k] == math.comb(N, k) * by_force


@pytest.mark.parametrize(("table", "N"), tables(40))
@pytest.mark.parametrize("budget", [Fraction(0), Fraction(1, 1 << 64), Fraction(1, 1 << 20), Fraction(3, 100)])
def test_the_certified_ratio_is_the_first_whose_excess_fits(table: DrawTable, N: int, budget: Fraction) -> None:
    for K, m in itertools.product((1, 3, N + 1), (1, min(3, N))):
        plain = (one for one in plain_ratios(table, N, K, m) if excess(table, N, K, one, m) <= budget)
        assert certified_ratio(table, N, K, budget, m) == next(plain, None)
    assert certified_ratio(table, N, N, Fraction(0)) == visible_ratio(table, N, N)


@pytest.mark.parametrize(("table", "N"), tables(12))
def test_what_shards_draw_together_is_the_plain_sum(table: DrawTable, N: int) -> None:
    law = size_law(table, N, min(N, table.draws))
    made = [Fraction(1)]
    for shards in (1, 2, 3):
        terms = [Fraction(0)] * (len(made) + len(law) - 1)
        for (i, x), (j, y) in itertools.product(enumerate(made), enumerate(law)):
            terms[i + j] += x * y
        made, found = terms, drawn_law(table, N, shards)
        assert len(found) == len(made)
        assert all(0 <= x - UNIT * y <= 16 * len(made) for x, y in zip(found, made, strict=True))  # of roundings


def test_large_indexes_take_no_time() -> None:
    """A table of a million slots in six shards, its ratio and its room: a second, where it took minutes."""
    N, K, shards = 180_000, 2598, 6
    rate = 40_474_872  # of return 6
    table = build_table(18, rate)
    set_masses.cache_clear()
    began = time.process_time()
    found = certified_ratio(table, N, K, Fraction(1, shards << 64))
    assert time.process_time() - began < 2  # 0.2 s measured
    assert found is not None
    assert math.log(return_ratio(found, HIDDEN)) <= 6
    assert smallest_room(table, N, K, shards) == 892  # docs/proofs/decoys.md


@pytest.mark.parametrize("m", [1, 3])
def test_no_number_of_ids_costs_more_than_the_sizes_that_are_drawn(m: int) -> None:
    """A log may hold any: of 2^32 ids in a shard of 2^24 slots an auditor had the sets of 2^24 sizes to go through."""
    table, N = build_table(24, 3 << 16), 1 << 24
    few, many = table.draws + m, (1 << 32) - 1
    assert visible_ratio(table, N, many, m) is visible_ratio(table, N, few, m) is None
    ratio = certified_ratio(table, N, many, Fraction(1, 1 << 50), m)
    assert ratio is not None
    assert ratio == certified_ratio(table, N, few, Fraction(1, 1 << 50), m)
    assert excess(table, N, many, ratio, m) == excess(table, N, few, ratio, m)
