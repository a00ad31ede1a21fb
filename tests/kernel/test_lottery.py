# SPDX-License-Identifier: GPL-3.0-or-later
"""The lottery: its return by brute force and the wrong variants, its bounds over every score vector, its selection."""

from __future__ import annotations

import dataclasses
import hashlib
import itertools
import math
import random
from fractions import Fraction

import pytest

from ragseal.kernel.classes import attestation_class, places_suffice, table_of, usual_table
from ragseal.kernel.errors import AttestationError, PolicyError, UnprovableError
from ragseal.kernel.lottery_class import (
    LOTTERY,
    LotteryClass,
    PrizeTable,
    check_window,
    many_exceed_bound,
    overflow_bound,
    return_ratio,
    smallest_grid,
    smallest_places,
)
from ragseal.kernel.lottery_mechanism import lottery_value, rank, select_lottery
from ragseal.kernel.noise import build_table
from ragseal.kernel.noise_mechanism import wide_elements
from ragseal.kernel.params import TAG_COARSE
from ragseal.kernel.params import R as FIELD
from ragseal.kernel.policy import ANSWERS, EVERY_LIST, UNTIL_DELIVERED, Policy, check_policy, max_gain
from ragseal.kernel.statement import canonical_limit
from tests import simulator
from tests.kernel import lottery_brute as brute

GEOMETRIC = {
    "name": "t", "law": "geometric-16", "N": 126, "K": 3, "R": 22, "m": 8, "q": 18, "c": 11, "a": "2", "b": "1/2",
    "S": 1,
}  # fmt: skip
TINY = LotteryClass("lottery-tiny", LOTTERY, N=126, K=3, R=22, m=8, q=18, c=11, prizes=3)
WIDTH = 1 << 14
LIMIT = Fraction(1, 1 << 64)


# --- what a return tells ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("prizes", [1, 2])
@pytest.mark.parametrize(("K", "R"), [(1, 4), (2, 4), (2, 3), (1, 2)])
def test_no_list_with_a_return_is_likelier_than_the_formula(prizes: int, K: int, R: int) -> None:
    bound = return_ratio(brute.M, prizes, brute.HIDDEN)
    worst = brute.worst_return(4, [0], K, R, prizes)
    assert bound / 2 < worst <= bound


def test_the_formula_is_reached() -> None:
    """One other slot with less: the document is always first, and an empty slot only by its prize."""
    assert brute.worst_return(2, [1], 1, 2, 1) == return_ratio(brute.M, 1, brute.HIDDEN)


def test_a_grid_that_refuses_gives_no_return_away() -> None:
    for grid in (2, 3):
        assert brute.worst_return(3, [0], 1, 3, 1, grid=grid) <= return_ratio(brute.M, 1, brute.HIDDEN)


def test_chunks_under_one_coin_have_the_formula_and_not_a_multiple_of_one_return() -> None:
    one, two = return_ratio(brute.M, 1, brute.HIDDEN), return_ratio(brute.M, 1, brute.HIDDEN, chunks=2)
    assert brute.worst_return(4, [0, 1], 2, 4, 1) <= two
    assert one**2 < brute.worst_return(3, [1, 2], 2, 3, 1) == two


def test_chunks_under_coins_apart_have_not_the_formula_of_one_coin_but_no_more_than_it() -> None:
    two = return_ratio(brute.M, 1, brute.HIDDEN, chunks=2)
    assert brute.worst_return(3, [1, 2], 2, 3, 1, apart=True) == return_ratio(brute.M, 1, brute.HIDDEN) ** 2 < two


def test_a_prize_that_is_added_or_on_top_of_an_exact_list_has_no_ratio() -> None:
    assert brute.worst_return(3, [0], 1, 3, 1, value=brute.added) == math.inf
    assert brute.worst_return(3, [0], 1, 3, 1, top=True) == math.inf


def test_without_a_prize_of_its_own_an_empty_slot_never_comes() -> None:
    def none(w: int, u: int, width: int, m: int, prizes: int) -> int:
        return lottery_value(w, u, width, m, 0)

    assert brute.worst_return(3, [0], 1, 3, 1, value=none) == math.inf


def test_no_list_without_a_return_and_no_refusal_is_likelier_with_the_document() -> None:
    """What unseen rests on: the document's presence only takes from lists that do not hold it."""
    for rest in itertools.product((0, 2, 5), repeat=3):
        empty = brute.law((0, *rest), 2, 3, 1, grid=3)
        for own in (1, 5):
            there = brute.law((own, *rest), 2, 3, 1, grid=3)
            for T, p in there.items():
                if isinstance(T, tuple) and 0 not in T:
                    assert p <= empty.get(T, 0)


@pytest.mark.parametrize(("K", "R"), [(1, 4), (2, 3), (2, 4)])
def test_a_list_with_a_chunk_that_does_not_match_is_no_return(K: int, R: int) -> None:
    """It does not stop the view: the chunk has one value in both worlds, and the other one, which matches, loses."""
    for rest in itertools.product((0, 2, 5), repeat=2):
        empty = brute.law((0, 0, *rest), K, R, 1, grid=3)
        for own in (1, 5):
            there = brute.law((own, 0, *rest), K, R, 1, grid=3)
            lists = [T for T in there if isinstance(T, tuple) and 0 not in T]
            assert any(1 in T for T in lists)
            assert all(there[T] <= empty.get(T, 0) for T in lists)


def test_questions_under_one_coin_tell_no_more_and_a_coin_a_question_would() -> None:
    """Up to four questions until the first return, K = 1: views without a return keep eta of their share."""
    bound, eta = return_ratio(brute.M, 1, brute.HIDDEN), brute.ETA
    empty, there = brute.law((0, 0), 1, 2, 1), brute.law((0, 5), 1, 2, 1)
    for before in range(5):
        unseen = ((1 - eta) * there[(0,)] ** before + eta * empty[(0,)] ** before) / empty[(0,)] ** before
        assert eta <= unseen <= 1
        own = (1 - eta) * there[(0,)] ** before * there[(1,)] + eta * empty[(0,)] ** before * empty[(1,)]
        assert own / (empty[(0,)] ** before * empty[(1,)]) <= bound
    redrawn = ((1 - eta) * there[(0,)] + eta * empty[(0,)]) / empty[(0,)]
    assert redrawn**4 < eta


# --- overflow and grid ------------------------------------------------------------------------------------------------


def exact_tail(n: int, least: int, mass: int, out_of: int) -> Fraction:
    p = Fraction(mass, 1 << out_of)
    return sum((math.comb(n, k) * p**k * (1 - p) ** (n - k) for k in range(least, n + 1)), Fraction(0))


@pytest.mark.parametrize(("n", "mass", "out_of"), [(20, 1, 3), (60, 3, 5), (126, 1, 8)])
def test_the_tail_bound_is_above_the_tail_and_close(n: int, mass: int, out_of: int) -> None:
    for least in range(n + 2):
        exact, bound = exact_tail(n, least, mass, out_of), many_exceed_bound(n, least, mass, out_of)
        assert exact <= bound <= 1
        if least > 2 * n * mass >> out_of and exact:
            assert bound < 2 * exact + Fraction(1, 1 << 380)


def test_no_score_vector_overflows_more_often_than_the_bound() -> None:
    """Exactly, over all tie-breaks and score vectors of four slots: all equal and all zero among them."""
    for prizes, K, R in itertools.product((1, 2), (1, 2), (2, 3)):
        if K >= R:
            continue
        bound = overflow_bound(4, K, R, brute.M, prizes)
        worst = max(
            brute.law(scores, K, R, prizes).get("overflow", Fraction(0))
            for scores in itertools.combinations_with_replacement((-3, 0, 1, 2, 5, 9), 4)
        )
        assert 0 < worst <= bound


def test_prizes_and_ties_are_both_counted() -> None:
    """Each part alone is below what really happens: many prizes with K near R, and ties where prizes are rare."""
    prizes_only = many_exceed_bound(4, 3 + 1, 2, brute.M)
    ties_only = 4 * many_exceed_bound(3, 3 - 2 + 1, 1, brute.M)
    assert min(prizes_only, ties_only) > 0
    assert overflow_bound(4, 2, 3, brute.M, 2) == min(1, prizes_only + ties_only)
    assert brute.law((0, 0, 0, 0), 1, 2, 1)["overflow"] > many_exceed_bound(4, 3, 1, brute.M)


def test_the_grid_refuses_less_often_than_the_bound() -> None:
    for grid, K in itertools.product((2, 3), (1, 2)):
        few = exact_tail(4, 4 - K + 1, (1 << brute.M) - (grid - 1), brute.M)  # at least 4 - K + 1 outside
        worst = max(
            brute.law(scores, K, 4, 1, grid=grid).get("grid", Fraction(0))
            for scores in itertools.combinations_with_replacement((-3, 0, 2, 5), 4)
        )
        assert 0 < worst <= few


@pytest.mark.parametrize(
    ("N", "K", "m", "prizes", "R", "G"),
    [(126, 3, 8, 3, 22, 103), (5184, 20, 11, 5, 57, 43), (5184, 32, 11, 5, 63, 52), (5184, 50, 11, 13, 97, 64)],
)
def test_places_and_grids_are_the_smallest(N: int, K: int, m: int, prizes: int, R: int, G: int) -> None:
    assert (smallest_places(N, K, m, prizes), smallest_grid(N, K, m)) == (R, G)
    assert overflow_bound(N, K, R, m, prizes) <= LIMIT < overflow_bound(N, K, R - 1, m, prizes)


def test_fewer_prizes_never_overflow_more() -> None:
    bounds = [overflow_bound(126, 3, 22, 8, j) for j in range(1, 8)]
    assert bounds == sorted(bounds)


def test_a_class_with_one_place_less_has_no_proof() -> None:
    assert TINY.overflow_bound_holds()
    assert not dataclasses.replace(TINY, R=21).overflow_bound_holds()
    with pytest.raises(PolicyError, match="too few places"):
        smallest_places(126, 3, 8, 200)
    with pytest.raises(PolicyError, match="no threshold grid"):
        smallest_grid(20, 15, 8)


# --- the class --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"K": 22}, "1 <= K < R"),
        ({"R": 127}, "R <= N"),
        ({"q": 27, "N": 135}, "208 bits"),
        ({"N": 125}, "multiple of q"),
        ({"m": 12, "q": 14}, "m <= c"),
        ({"prizes": 0}, "from 1 to"),
        ({"prizes": 256}, "from 1 to"),
        ({"prizes": 103}, "no theta below them"),
        ({"N": 18 << 28}, "below 2"),
        ({"law": "geometric-16"}, "law must be 'lottery'"),
    ],
)
def test_a_class_that_contradicts_itself_is_refused(change: dict[str, int], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        dataclasses.replace(TINY, **change)


def test_a_class_is_read_as_it_was_written() -> None:
    assert LotteryClass.from_mapping(TINY.to_mapping()) == TINY
    with pytest.raises(PolicyError, match="unknown or missing"):
        LotteryClass.from_mapping({**TINY.to_mapping(), "s": 3})


def test_a_class_is_found_by_its_law() -> None:
    assert attestation_class(TINY.to_mapping()) == TINY
    assert places_suffice(TINY, PrizeTable(8, 3))
    assert not places_suffice(dataclasses.replace(TINY, R=21), PrizeTable(8, 3))
    with pytest.raises(PolicyError, match="has the law 'lottery', the table 'geometric-16'"):
        places_suffice(TINY, build_table("geometric-16"))


def test_a_prize_table_has_one_digest() -> None:
    """By hand: length and tag, protocol version, coarse bits, prizes."""
    data = bytes([19]) + b"ragseal.prize-table" + bytes([0, 1, 8, 0, 0, 0, 3])
    assert PrizeTable(8, 3).digest() == hashlib.sha256(data).digest()
    assert len({PrizeTable(m, j).digest() for m in (8, 9) for j in (1, 2, 3)}) == 6


def test_a_policy_binds_one_of_its_class_s_prize_tables() -> None:
    assert [table_of(TINY, PrizeTable(8, j).digest()) for j in (1, 2, 3)] == list(TINY.tables())
    assert usual_table(TINY) == PrizeTable(8, 3)
    for digest in (PrizeTable(8, 4).digest(), PrizeTable(8, 0).digest(), PrizeTable(9, 3).digest(), bytes(32)):
        with pytest.raises(PolicyError, match="prize table is not the canonical"):
            table_of(TINY, digest)
    with pytest.raises(PolicyError, match="noise table is not the canonical"):
        table_of(attestation_class(GEOMETRIC), PrizeTable(8, 3).digest())


def policy(**changes: object) -> Policy:
    """A policy of the class with three prizes."""
    own = {
        "class_name": TINY.name, "class_digest": bytes(32), "table_digest": PrizeTable(8, 3).digest(),
        "claim": UNTIL_DELIVERED, "hidden": 13, "gate": False, "gain": 100,
    }  # fmt: skip
    return simulator.policy(**{**own, **changes})


def test_a_policy_of_the_lottery_is_checked() -> None:
    check_policy(policy(), TINY, bytes(32))
    assert [policy(table_digest=PrizeTable(8, j).digest()).prizes(TINY) for j in (1, 2, 3)] == [1, 2, 3]
    assert policy().hmax(TINY) == policy().width


@pytest.mark.parametrize("claim", [EVERY_LIST, ANSWERS])
def test_the_law_goes_with_no_claim_but_until_delivered(claim: str) -> None:
    """SPEC M.9.2: no epsilon of every list follows, and histograms have no slot that could win a prize."""
    own: dict[str, object] = {"claim": claim, "hidden": 0, "gate": claim == EVERY_LIST}
    if claim == ANSWERS:
        own |= {"lo": 0, "hi": 9, "vocabulary": b"v" * 32, "words_max": 1, "participations": 1, "similarity": 1}
        own |= {"answered_by": 30}
    with pytest.raises(PolicyError, match="bounds one return and nothing else"):
        check_policy(policy(**own), TINY, bytes(32))


def test_a_policy_that_overflows_the_class_is_told_the_largest_gain() -> None:
    most = max_gain(policy(), TINY)
    check_policy(policy(gain=most), TINY, bytes(32))
    with pytest.raises(PolicyError, match=f"use gain <= {most}"):
        check_policy(policy(gain=most + 1), TINY, bytes(32))


@pytest.mark.parametrize(
    ("width", "least", "most", "why"),
    [
        (0, 0, 9, "no width"),
        (9, 1, 9, "without 0"),
        (9, -9, -1, "without 0"),
        (WIDTH, WIDTH - (1 << 22), 9, "below it do not fit 22 bits"),
        (WIDTH, 0, (1 << 22) + 1, "above the window's lower end"),
        ((1 << 22) - 511, 0, 9, "prizes above it"),
    ],
)
def test_a_window_that_overflows_the_class_is_refused(width: int, least: int, most: int, why: str) -> None:
    """And the widest ones on the other side of each bound are not."""
    with pytest.raises(PolicyError, match=why):
        check_window(TINY, width, least, most)
    check_window(TINY, WIDTH, WIDTH - (1 << 22) + 1, 1 << 22)
    check_window(TINY, (1 << 22) - 512, 0, 9)


def test_used_bits_lie_below_the_canonical_top() -> None:
    assert TINY.q * TINY.m <= TINY.coarse_top_position
    assert canonical_limit(TINY.coarse_top_position) << TINY.coarse_top_position <= FIELD


# --- the selection ----------------------------------------------------------------------------------------------------


def plain(w: list[int], coarse: tuple[int, ...], prizes: int, K: int) -> list[int]:
    """T by a sort on (prize, score without prize, u, -i): another route than one number a slot."""
    first = (1 << TINY.m) - prizes
    key = [
        (u >= first, 0 if u >= first else min(max(x, 0), WIDTH) + u, u, -i)
        for i, (x, u) in enumerate(zip(w, coarse, strict=True))
    ]
    by_value = sorted(range(len(w)), key=lambda i: (key[i][0], key[i][1] if not key[i][0] else key[i][2], -i))
    return sorted(by_value[-K:])


@pytest.mark.parametrize("kind", ["zero", "equal", "full", "below", "wild", "random"])
def test_whatever_the_scores_the_top_is_that_of_a_plain_sort(kind: str) -> None:
    rng = random.Random(kind)
    for key in range(8):
        w = {
            "zero": [0] * 126,
            "equal": [777] * 126,
            "full": [WIDTH] * 126,
            "below": [-5 * WIDTH] * 126,
            "wild": [rng.choice((-(1 << 40), 1 << 40)) for _ in range(126)],
            "random": [rng.randrange(-WIDTH, 2 * WIDTH) for _ in range(126)],
        }[kind]
        selection = select_lottery(TINY, key, w, WIDTH, 3)
        elements = wide_elements(key, TAG_COARSE, TINY.elements, 0)
        assert list(selection.coarse) == [e >> 8 * k & 255 for e in elements for k in range(18)]
        assert list(selection.ids) == plain(w, selection.coarse, 3, 3)
        assert {one.slot: one.flag for one in selection.returned} == {i: w[i] >= 1 for i in selection.ids}
        assert set(selection.ids) <= {p.slot for p in selection.places}
        assert len(selection.places) <= TINY.R
        assert {i for i, u in enumerate(selection.coarse) if u >= selection.theta} <= {p.slot for p in selection.places}
        assert selection.theta <= 253  # so a prize is a place whatever its score


def test_more_prizes_than_results_leave_no_place_for_a_score() -> None:
    """Some key of the first forty has more than three prizes; then the full score wins nothing."""
    full = [WIDTH] * 126
    crowded = [
        s
        for s in (select_lottery(TINY, key, full, WIDTH, 3) for key in range(100))
        if sum(p.prize for p in s.places) > 3
    ]
    assert crowded
    for selection in crowded:
        assert selection.entry == WIDTH + 256 < selection.threshold
        assert all(p.prize for p in selection.places)
        best = rank([p.score for p in selection.places], 3)
        assert sorted(selection.places[k].slot for k in best) == list(selection.ids)


def test_a_prize_comes_before_the_fullest_score() -> None:
    assert lottery_value(-(1 << 50), 253, WIDTH, 8, 3) > lottery_value(1 << 50, 252, WIDTH, 8, 3)
    values = [lottery_value(w, u, WIDTH, 8, 3) for w in (-1, 0, 1, WIDTH, WIDTH + 1) for u in (253, 254, 255)]
    assert len(set(values)) == 3  # of a prize, only u counts


def test_a_query_that_no_proof_would_cover_is_refused() -> None:
    key = next(k for k in range(100) if len(select_lottery(TINY, k, [0] * 126, WIDTH, 3).places) > 4)
    with pytest.raises(UnprovableError, match="reach the entry"):
        select_lottery(dataclasses.replace(TINY, R=4), key, [0] * 126, WIDTH, 3)
    narrow = dataclasses.replace(TINY)
    narrow.__dict__["grid"] = 4  # theta may be 253 alone
    key = next(k for k in range(100) if select_lottery(TINY, k, [0] * 126, WIDTH, 3).theta < 253)
    with pytest.raises(UnprovableError, match="grid"):
        select_lottery(narrow, key, [0] * 126, WIDTH, 3)


def test_what_contradicts_the_class_is_refused() -> None:
    with pytest.raises(AttestationError, match="capacity"):
        select_lottery(TINY, 1, [0] * 125, WIDTH, 3)
    with pytest.raises(AttestationError, match="width"):
        select_lottery(TINY, 1, [0] * 126, 0, 3)
    for prizes in (0, 4):
        with pytest.raises(PolicyError, match="takes 1 to 3"):
            select_lottery(TINY, 1, [0] * 126, WIDTH, prizes)
