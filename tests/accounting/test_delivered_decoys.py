# SPDX-License-Identifier: GPL-3.0-or-later
"""Unseen, return and delta with decoys by a second route, over windows and periods; what comes by chance; the curve."""

from __future__ import annotations

import math
import random
import time
from fractions import Fraction

import pytest

from ragseal.accounting.decoys_curve import drawn_for, ids_needed, least_by_chance, most_drawn, return_of_ids
from ragseal.accounting.delivered import CoinThrows
from ragseal.accounting.delivered_decoys import (
    EXACT_SLOTS,
    LAW_EXPONENT,
    Asked,
    Lists,
    by_chance,
    certified_return,
    decoys_delivered,
    ideal_drawn,
    ideal_return,
    listed_by_chance,
    rate_of_return,
    refused,
    visible,
    without_a_return,
)
from ragseal.accounting.rounding import least_float
from ragseal.kernel.decoys.bounds import FIXED_BITS, drawn_law, set_masses, size_law, visible_ratio
from ragseal.kernel.decoys.table import build_table, smallest_draws
from ragseal.kernel.errors import PolicyError

HIDDEN, ETA = 13, Fraction(13, 256)
ONE = CoinThrows(HIDDEN, 1)
DELTA = Fraction(1, 10**6)
SMALL = Lists(5184, 42, rate_of_return(5184, 42, 1, HIDDEN, 6.0))
SHARDS = Lists(60, 12, 3 << 16, 3)
ALL = [
    SMALL,
    SHARDS,
    Lists(60, 20, 4 << 16),
    Lists(4096, 64, 10 << 16),
    Lists(5184, 21, 170_986),
    Lists(16384, 256, 105 << 16),
    Lists(90_000, 295, rate_of_return(90_000, 295, 1, HIDDEN, 6.0)),
]


def name(one: Lists) -> str:
    return f"{one.shards}x{one.N}-{one.K}"


def sizes(lists: Lists) -> list[float]:
    """P(one shard draws k slots) by adding one draw after another, in floats: no difference, all terms positive."""
    table, whole = lists.table, 1 << lists.L
    law, found = [1.0], [0.0] * (min(lists.N, table.draws) + 1)
    for mass in table.masses:
        for k, p in enumerate(law):
            found[k] += mass / (1 << table.bits) * p
        stay = [p * (whole - lists.N + k) / whole for k, p in enumerate(law)]
        grow = [p * (lists.N - k) / whole for k, p in enumerate(law)]
        law = [a + b for a, b in zip([*stay, 0.0], [0.0, *grow], strict=True)][: len(found)]
    return found


@pytest.mark.parametrize("lists", ALL, ids=name)
def test_the_return_is_that_of_the_sizes_of_sets_by_a_second_route(lists: Lists) -> None:
    """For one slot A is the largest 1 + p_k / p_(k+1), of the sizes that come in more than 2^-60 of all queries."""
    law = sizes(lists)
    alone = [p * (lists.N - k) / (k + 1) / law[k + 1] for k, p in enumerate(law[: lists.K]) if p > 1e-15]
    second = math.log((1 - float(ETA)) * (1 + max(alone)) + float(ETA))
    first = certified_return(lists, HIDDEN, 1)
    assert first == pytest.approx(second, abs=1e-4)  # sizes of less than 1e-15 are left out here
    assert first == pytest.approx(ideal_return(lists, HIDDEN, 1), abs=1e-6)


@pytest.mark.parametrize("lists", ALL, ids=name)
@pytest.mark.parametrize("chunks", [1, 2, 3])
def test_certified_and_ideal_return_agree_for_documents_of_several_slots(lists: Lists, chunks: int) -> None:
    found = decoys_delivered([Asked(lists, 1000, 25)], coins=ONE, chunks=chunks, delta=DELTA)
    assert found.routes.agree
    assert found.returned == max(found.routes.returned)
    assert found.delta < 1000 * 2.0 ** (4 * chunks - 64)
    assert found.routes.returned[0] == pytest.approx(found.routes.returned[1], rel=1e-5)
    assert found.epsilon == found.unseen == pytest.approx(chunks * math.log(256 / 13))


@pytest.mark.parametrize(
    ("N", "K", "rate", "shards", "chunks"),
    [(4096, 167, 1722961, 4, 3), (4096, 164, 4712364, 1, 4), (16384, 132, 2529680, 2, 8), (4096, 65, 296032, 1, 2)],
)
def test_ids_beyond_what_is_ever_drawn_are_no_disagreement(N: int, K: int, rate: int, shards: int, chunks: int) -> None:
    """Sets near the table's cut have ratios of the cut, which made the certified return larger than the ideal one."""
    found = decoys_delivered([Asked(Lists(N, K, rate, shards), 10**6, 25)], coins=ONE, chunks=chunks, delta=DELTA)
    assert found.routes.agree
    assert found.routes.returned[0] == pytest.approx(found.routes.returned[1], rel=1e-4)
    assert found.delta < 10**6 * 2.0**-48


def test_the_certified_return_is_the_exact_ratio_from_above() -> None:
    for lists in ALL:
        ratio = visible(lists, 1).ratio
        assert ratio is not None
        exact = (1 - ETA) * ratio + ETA
        first = certified_return(lists, HIDDEN, 1)
        assert Fraction(math.exp(first)) * (1 + Fraction(1, 10**14)) >= exact
        assert Fraction(math.exp(first)) <= exact * (1 + Fraction(1, 10**14))


def test_a_document_that_lies_in_several_shards_costs_their_product() -> None:
    """Its slots may all lie in one, or apart: the worst of all ways."""
    one = visible(Lists(SHARDS.N, SHARDS.K, SHARDS.rate), 1).ratio
    three, apart = visible(SHARDS, 3), visible(SHARDS, 1).ratio
    assert one is not None
    assert apart is not None
    assert three.ratio is not None
    assert three.ratio >= apart**3 * (1 - Fraction(1, 10**9))
    assert three.ratio >= (visible(Lists(SHARDS.N, SHARDS.K, SHARDS.rate), 3).ratio or 0)
    assert three.excess <= Fraction(1, 1 << LAW_EXPONENT - 8)


def test_long_documents_have_a_bound_in_no_time() -> None:
    """A of one slot to their number, which is no less than A of so many."""
    lists = Lists(60, 10, 12 << 16)
    exact = visible_ratio(lists.table, 60, 10)
    assert exact is not None
    many = visible(lists, EXACT_SLOTS + 1)
    assert many.ratio == exact ** (EXACT_SLOTS + 1)
    assert many.excess == 0
    for m in range(1, 9):
        of_m = visible_ratio(lists.table, 60, 10, m)
        assert of_m is not None
        assert of_m <= exact**m
    alone = visible_ratio(SMALL.table, SMALL.N, SMALL.K)
    assert alone is not None
    assert visible(SMALL, 100).ratio == alone**100
    assert visible(SMALL, 5184).ratio is None  # e^31,000 is no bound
    assert visible(SMALL, 10**9) == visible(SMALL, 5184)  # no more slots than there are


@pytest.mark.parametrize(("mean", "chunks"), [(72, 9), (72, 16), (300, 12), (300, 24)])
def test_long_documents_have_a_return_where_sets_of_k_slots_are_never_drawn(mean: int, chunks: int) -> None:
    """Without a delta they have none; with one it is next to what slots that are drawn on their own have."""
    lists = Lists(4096, 1000, mean << 16, 2)
    assert visible_ratio(lists.table, lists.N, lists.K) is None
    found = decoys_delivered([Asked(lists, 25_000, 25)], coins=ONE, chunks=chunks, delta=DELTA)
    assert found.routes.agree
    assert found.routes.returned[0] == pytest.approx(found.routes.returned[1], rel=1e-3)
    left = visible(lists, chunks).excess
    assert 0 < left <= Fraction(1, 1 << 40)
    assert Fraction(found.delta) >= 25_000 * (1 - ETA) * left
    # and by the law of sizes: it is that of more slots than all but the rarest draws have
    law = size_law(lists.table, lists.N, lists.table.draws)
    assert any(left == 2 * (1 - sum(law[: size + 1])) for size in range(len(law)))


@pytest.mark.parametrize("chunks", [1 << 20, 1 << 31])
def test_a_policy_of_absurdly_long_documents_costs_an_auditor_nothing(chunks: int) -> None:
    """A log may hold any chunks_max; A to that power would fill the memory."""
    lists, begun = Lists(131_072, 400, 300 << 16, 64), time.process_time()
    assert math.isinf(certified_return(lists, HIDDEN, chunks))
    assert math.isinf(decoys_delivered([Asked(lists, 10, 10)], coins=ONE, chunks=chunks, delta=DELTA).returned)
    assert time.process_time() - begun < 20


def test_delta_is_what_sizes_that_hardly_come_leave_and_nothing_else() -> None:
    n = 10**6
    found = decoys_delivered([Asked(SMALL, n, 25)], coins=ONE, chunks=1, delta=DELTA)
    left = n * (1 - ETA) * visible(SMALL, 1).excess
    assert 0 < left <= n * Fraction(1, 1 << LAW_EXPONENT)
    assert Fraction(found.delta) >= left > Fraction(found.delta) * (1 - Fraction(1, 10**12))
    assert found.items == {"law": found.delta}
    over = decoys_delivered([Asked(SMALL, n, 25)], coins=ONE, chunks=1, delta=left / 2)
    assert math.isinf(over.returned)
    assert math.isinf(over.epsilon)
    assert "use fewer queries, or a larger delta" in without_a_return(Asked(SMALL, n, 25), 1, "1/10")


def test_queries_accounts_and_other_ids_change_no_return() -> None:
    """K does not: decoys take places, and that is all."""
    least = decoys_delivered([Asked(SMALL, 1, 1)], coins=ONE, chunks=1, delta=DELTA)
    many = decoys_delivered([Asked(SMALL, 10**7, 10**4)], coins=ONE, chunks=1, delta=DELTA)
    assert least.returned == many.returned
    longer = Lists(SMALL.N, 2 * SMALL.K, SMALL.rate)
    assert certified_return(longer, HIDDEN, 1) == pytest.approx(least.returned, abs=1e-6)
    assert certified_return(Lists(SMALL.N, SMALL.K, SMALL.rate // 2), HIDDEN, 1) > least.returned + 0.6


@pytest.mark.parametrize("chunks", [0, -1])
def test_numbers_out_of_range_are_refused(chunks: int) -> None:
    with pytest.raises(PolicyError):
        decoys_delivered([Asked(SMALL, 1, 1)], coins=ONE, chunks=chunks, delta=DELTA)
    for coins in (CoinThrows(0, 1), CoinThrows(256, 1), CoinThrows(13, -1)):
        with pytest.raises(PolicyError):
            decoys_delivered([Asked(SMALL, 1, 1)], coins=coins, chunks=1, delta=DELTA)
    for delta in (Fraction(0), Fraction(1)):
        with pytest.raises(PolicyError):
            decoys_delivered([Asked(SMALL, 1, 1)], coins=ONE, chunks=1, delta=delta)
    with pytest.raises(PolicyError):
        decoys_delivered([Asked(SMALL, -1, 1)], coins=ONE, chunks=1, delta=DELTA)


# --- a period --------------------------------------------------------------------------------------------------------


def test_windows_of_different_tables_are_together_what_the_worst_of_them_is() -> None:
    few = Lists(5184, 21, rate_of_return(5184, 21, 1, HIDDEN, 8.0))
    both = [Asked(SMALL, 1000, 25), Asked(few, 500, 40)]
    for order in (both, both[::-1]):
        found = decoys_delivered(order, coins=CoinThrows(HIDDEN, 2), chunks=1, delta=DELTA)
        alone = [decoys_delivered([one], coins=ONE, chunks=1, delta=DELTA) for one in order]
        assert found.returned == max(one.returned for one in alone)
        assert found.routes.returned == tuple(max(one.routes.returned[i] for one in alone) for i in (0, 1))
        assert found.unseen == pytest.approx(2 * alone[0].unseen)
        assert found.delta == pytest.approx(sum(one.delta for one in alone))
        missed = math.prod(1 - one.listed_by_chance for one in alone)
        assert found.listed_by_chance == pytest.approx(1 - missed)


def test_one_window_without_a_return_leaves_none() -> None:
    never = Lists(60, 61, 1)  # no table of one draw draws ten slots
    assert visible(never, 9).ratio is None
    found = decoys_delivered([Asked(SMALL, 9, 9), Asked(never, 9, 9)], coins=ONE, chunks=9, delta=DELTA)
    assert math.isinf(found.returned)
    assert "fewer chunks_max" in without_a_return(Asked(never, 9, 9), 9, "1/10")


def test_where_none_answered_only_coins_count() -> None:
    found = decoys_delivered([], coins=CoinThrows(HIDDEN, 3), chunks=2, delta=DELTA)
    assert found.returned == found.delta == found.listed_by_chance == 0
    assert found.epsilon == found.unseen == pytest.approx(6 * math.log(256 / 13))


# --- what comes by chance --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("lists", ALL, ids=name)
def test_decoys_are_a_binomial_number_of_all_slots(lists: Lists) -> None:
    """Exact law of what is drawn against the closed form of a slot that is drawn on its own."""
    found, p0 = by_chance(lists), ideal_drawn(lists)
    n = lists.shards * lists.N
    assert found.drawn == pytest.approx(p0, rel=1e-12)
    assert found.mean == pytest.approx(n * p0, rel=1e-12)
    assert found.most == most_drawn(n, p0)
    assert found.results_least == max(0, lists.K - found.most)
    law = [
        math.exp(math.lgamma(n + 1) - math.lgamma(k + 1) - math.lgamma(n - k + 1) + k * math.log(p0))
        * (1 - p0) ** (n - k)
        for k in range(min(n, lists.K) + 1)
    ]
    assert found.results_mean == pytest.approx(sum((lists.K - k) * p for k, p in enumerate(law)), rel=1e-8)
    assert found.crowded == pytest.approx(max(0.0, 1 - sum(law[: lists.K])), abs=1e-9)
    assert listed_by_chance([Asked(lists, 0, 25)]) == pytest.approx(1 - (1 - p0) ** 25)


def test_drawing_lists_gives_their_law() -> None:
    """By drawing: the table's numbers, and void and repeated ids."""
    rng, lists, found = random.Random(3), SHARDS, by_chance(SHARDS)
    counts = []
    for _ in range(4000):
        drawn = 0
        for _ in range(lists.shards):
            number = lists.table.number(rng.randrange(1 << lists.table.bits))
            drawn += len({one for one in (rng.randrange(1 << lists.L) for _ in range(number)) if one < lists.N})
        counts.append(drawn)
    assert sum(counts) / len(counts) == pytest.approx(found.mean, abs=0.25)
    left = [max(0, lists.K - one) for one in counts]
    assert sum(left) / len(left) == pytest.approx(found.results_mean, abs=0.25)
    assert sum(one >= lists.K for one in counts) / len(counts) == pytest.approx(found.crowded, abs=0.03)
    assert max(counts) <= found.most


def test_what_is_said_of_a_list() -> None:
    text = by_chance(SMALL).in_words()
    assert "12.2 ids of a list are decoys on average and 32 at most but once in 2^20 lists" in text
    assert "of 42 ids 29.8 are left to results on average, and 10 at least" in text


def test_a_query_is_refused_by_elements_and_room_alone() -> None:
    assert refused(0, 6) == Fraction(2, 1 << 64)
    assert refused(50, 6) == Fraction(300, 1 << 44) + Fraction(2, 1 << 64)


# --- the curve -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("slots", "R", "mean", "K"),
    [
        (5184, 5, 33.2, 74), (5184, 6, 12.2, 42), (5184, 8, 1.65, 21), (7000, 5, 44.8, 90), (7000, 6, 16.5, 49),
        (7000, 8, 2.23, 22), (90_000, 5, 575.6, 703), (90_000, 6, 211.8, 295), (90_000, 8, 28.66, 68),
        (10**6, 5, 6395.8, 6791), (10**6, 6, 2352.9, 2598), (10**6, 8, 318.4, 417),
    ],
)  # fmt: skip
def test_the_curve_has_the_numbers_of_the_design(slots: int, R: float, mean: float, K: int) -> None:
    assert least_by_chance(slots, R, HIDDEN) == pytest.approx(mean, rel=4e-3)
    assert ids_needed(slots, R, HIDDEN, 10) == K
    assert ids_needed(slots, R + 1e-3, HIDDEN, 10) <= K
    assert R - 0.2 < return_of_ids(slots, K, HIDDEN, 10) <= R
    assert return_of_ids(slots, 9, HIDDEN, 10) == math.inf


@pytest.mark.parametrize("lists", ALL, ids=name)
def test_decoys_are_on_the_curve(lists: Lists) -> None:
    """K of the curve leaves ten results with the exact law of the table of that return, and one id less does not."""
    returned, n = certified_return(lists, HIDDEN, 1), lists.shards * lists.N
    assert by_chance(lists).mean == pytest.approx(n * drawn_for(returned, HIDDEN), rel=1e-5)
    assert least_by_chance(n, returned, HIDDEN) <= by_chance(lists).mean
    assert by_chance(lists).mean < (1 + math.exp(-returned)) * least_by_chance(n, returned, HIDDEN)
    K, law = ids_needed(n, returned, HIDDEN, 10), drawn_law(lists.table, lists.N, lists.shards)
    assert sum(law[K - 10 + 1 :]) <= (1 << FIXED_BITS) >> 20 < sum(law[K - 10 :])


def test_a_return_of_nothing_is_refused() -> None:
    for returned in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(PolicyError):
            drawn_for(returned, HIDDEN)
    for target in (0.0, -1.0, 64.0, 1e-15):
        with pytest.raises(PolicyError):
            rate_of_return(5184, 42, 1, HIDDEN, target)


# --- rates -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("N", "K", "shards", "target"),
    [
        (60, 8, 1, 3.0),
        (60, 8, 3, 3.0),
        (5184, 42, 1, 6.0),
        (7000, 1, 1, 6.0),
        (16384, 10, 1, 4.0),
        (90_000, 295, 1, 6.5),
    ],
)
def test_the_rate_of_a_return_is_the_fewest_draws_that_an_auditor_certifies_it_for(
    N: int, K: int, shards: int, target: float
) -> None:
    rate = rate_of_return(N, K, shards, HIDDEN, target)

    def audited(draws: int) -> float:
        asked = [Asked(Lists(N, K, draws, shards), 1000, 25)]
        return decoys_delivered(asked, coins=ONE, chunks=1, delta=DELTA).returned

    assert audited(rate) <= target < audited(rate - 2)


def test_a_million_slots_in_six_shards_take_seconds() -> None:
    set_masses.cache_clear()
    visible.cache_clear()
    began = time.process_time()
    rate = rate_of_return(180_000, 2598, 6, HIDDEN, 6.0)
    assert time.process_time() - began < 10  # 1.0 s measured
    assert smallest_draws(Fraction(rate, 1 << 16)) < 1024
    began = time.process_time()
    found = decoys_delivered([Asked(Lists(180_000, 2598, rate, 6), 25_000, 25)], coins=ONE, chunks=1, delta=DELTA)
    assert time.process_time() - began < 2  # 0.3 s measured
    assert 5.999 < found.returned <= 6
    assert found.routes.agree


def test_the_least_float_is_not_below() -> None:
    for x in (Fraction(1, 3), Fraction(2, 3), Fraction(1), Fraction(1, 1 << 80), Fraction(10**30 + 1)):
        assert Fraction(least_float(x)) >= x
        assert Fraction(math.nextafter(least_float(x), 0)) < x


def test_agreement_is_asked_for_where_the_certified_is_the_larger(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that was built for another rate is noticed; few ids beside many decoys are no disagreement."""
    wrong = Lists(5184, 42, SMALL.rate)
    few = decoys_delivered([Asked(Lists(16384, 10, 288 << 16), 9, 9)], coins=ONE, chunks=1, delta=DELTA)
    assert few.routes.agree
    assert few.returned == few.routes.returned[1] > few.routes.returned[0]
    visible.cache_clear()
    monkeypatch.setattr(Lists, "table", property(lambda one: build_table(one.L, one.rate // 2)))
    assert not decoys_delivered([Asked(wrong, 9, 9)], coins=ONE, chunks=1, delta=DELTA).routes.agree
    visible.cache_clear()
