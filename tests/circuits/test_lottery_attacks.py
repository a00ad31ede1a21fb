# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats against the lottery's statement: slots, theta, the threshold and T; prizes and places have files of their own.

As in test_attacks: each forged statement is completed as well as it can be, so that one rule stands against it; the
circuit rejects it, and accepts it once the rows of that rule are dropped.
"""

from __future__ import annotations

import dataclasses

import pytest

from ragseal.kernel import statement
from tests.circuits.lottery_drafts import (
    WIDTH,
    LotteryDraft,
    LotterySetting,
    check,
    lottery_tiny,
    of_place,
    requests,
)
from tests.circuits.lottery_forgeries import EMPTY, hidden_well, one_row, prizes_of, without
from tests.circuits.r1cs import P
from tests.circuits.rules import assert_only_rule, boolean_row, fractions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tiny() -> LotterySetting:
    return LotterySetting.of(lottery_tiny())


# --- slots -----------------------------------------------------------------------------------------------------------


def test_bounds_that_nobody_multiplied_by_beta(tiny: LotterySetting) -> None:
    d = tiny.honest(1000)
    d.scaled = list(d.b)
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"slots\.fCoarse\[\d+\]"))


def test_a_winning_score_is_hidden(tiny: LotterySetting) -> None:
    def forge(d: LotteryDraft) -> list[str] | None:
        victim = next((i for i in d.ids if d.w[i] > 0 and d.u[i] < d.first_prize), None)
        if victim is None:
            return None
        without(d, victim)
        return [rf"slots\.f(Low|High)\[{victim}\]"] if d.u[victim] < d.theta else None

    check(tiny, forge)


@pytest.mark.parametrize("way", ["place", "by its score", "by the window"])
def test_a_wild_score_that_could_win_cannot_be_proven(tiny: LotterySetting, way: str) -> None:
    def forge(d: LotteryDraft) -> list[str] | None:
        victim = next((p for p in d.places if p.win and p.w >= d.width and not p.prize), None)
        if victim is None:
            return None
        i, wild = victim.slot, pow(3, 1000, P)
        if way != "place":
            without(d, i)
            d.w[i] = wild
            d.x[i] = (d.threshold - 1 - d.b[i] - (wild if way == "by its score" else d.width)) % P
            return [rf"slots\.f(Low|High)\[{i}\]"]
        d.w[i] = victim.w = wild
        victim.positive = victim.capped = 1  # s = H
        d.settle()
        return of_place(d, r"f\[\d+\]", victim)

    check(tiny, forge, same=way == "place")


def test_a_wild_score_loses(tiny: LotterySetting) -> None:
    """Where not even the full score reaches the threshold the statement is provable, and T is what it is without."""
    d = next(d for d in requests(tiny, low=0) if d.threshold > d.width + 200)
    honest = d.returned()
    opened = {p.slot for p in d.places}
    victim = next(i for i in range(d.cls.N) if i not in opened and d.b[i] + d.width < d.threshold)
    d.w[victim] = pow(5, 777, P)
    d.x[victim] = d.threshold - 1 - d.b[victim] - d.width
    assert d.returned() == honest
    assert not tiny.r1cs.violations(tiny.r1cs.solve(d.inputs()))


# --- theta and the threshold -----------------------------------------------------------------------------------------


def test_theta_above_the_threshold_hides_empty_slots(tiny: LotterySetting) -> None:
    """Without any score T is what has the highest bits: one of those is left out, which theta no longer reaches."""

    def forge(d: LotteryDraft) -> list[str] | None:
        if prizes_of(d):
            return None
        victim = next(i for i in d.ids)
        without(d, victim)
        d.theta = d.u[victim] + 1
        if d.theta > d.first_prize or d.theta <= d.threshold:
            return None
        d.settle_bits()
        return [r"limits\.f\[[01]\]"] if hidden_well(d) else None

    check(tiny, forge, **EMPTY)


def test_a_last_winner_beyond_all_slots_shifts_the_threshold(tiny: LotterySetting) -> None:
    """v* one too high and i* a whole 2^L more: of two equal values, the first is hidden and the second wins."""

    def forge(d: LotteryDraft) -> list[str] | None:
        order, K = d.ranked(), d.cls.K
        victim, heir = order[K - 1], order[K]
        if d.value(victim) != d.value(heir) or prizes_of(d):
            return None
        d.threshold, d.threshold_slot = d.value(victim) + 1, heir + 128
        if d.threshold > d.first_prize:
            return None
        d.fill({*order[: K - 1], heir}, [victim])
        d.theta = d.threshold
        d.settle_bits()
        d.place(heir).win = 1
        d.ids = sorted([*d.ids, heir])
        d.settle_distances()
        return [r"lastWinner\.f\[\d+\]"] if hidden_well(d) else None

    check(tiny, forge, **EMPTY)


def test_a_threshold_that_is_no_integer(tiny: LotterySetting) -> None:
    """Half a unit below the last winner's value changes nothing, and yet it is refused."""
    d = tiny.honest(1000)
    d.threshold = (d.threshold - pow(2, -1, P)) % P
    assert tiny.r1cs.violations(tiny.r1cs.solve(d.inputs()))


# --- winners, flags, T -----------------------------------------------------------------------------------------------


def test_a_loser_is_returned_instead_of_a_winner(tiny: LotterySetting) -> None:
    def forge(d: LotteryDraft) -> list[str]:
        ranked = sorted(d.places, key=lambda p: (-p.value(d.width), p.slot))
        winner, loser = ranked[d.cls.K - 1], ranked[d.cls.K]
        winner.win, loser.win = 0, 1
        d.ids = sorted(p.slot for p in d.places if p.win)
        return of_place(d, r"f\[\d+\]", winner, loser)

    check(tiny, forge)


def test_the_committed_set_is_not_the_winners(tiny: LotterySetting) -> None:
    def forge(d: LotteryDraft) -> list[str]:
        d.ids[-1] = max(d.ids) + 1
        return [rf"fSet\[{d.cls.K - 1}\]"]

    check(tiny, forge)


def test_t_in_another_order(tiny: LotterySetting) -> None:
    """Its hash is another one; that there is one hash of a set is what the order is for."""
    d = tiny.honest(1000)
    one, two, three = d.returned()
    d.stated = [two, one, three]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"increasing\.f\[[01]\]\[\d+\]"))


@pytest.mark.parametrize("raised", [True, False])
def test_t_states_another_flag_than_its_place(tiny: LotterySetting, raised: bool) -> None:
    """Of an empty slot that a prize returned, too: its text would be opened."""
    for d in requests(tiny, **(EMPTY if raised else {"low": 0})):
        returned = d.returned()
        at = next((k for k, one in enumerate(returned) if one.flag != raised), None)
        if at is not None:
            break
    d.stated = [dataclasses.replace(one, flag=raised) if k == at else one for k, one in enumerate(returned)]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, rf"fSet\[{at}\]"))


@pytest.mark.parametrize("w", [-40, 0, 1, 40])
def test_a_flag_is_set_exactly_from_one_unit_on(tiny: LotterySetting, w: int) -> None:
    """All slots at one score: the honest flag holds; the other one, with whatever it does to v, is refused."""
    for number in range(1000, 1040):
        d = tiny.honest(number, [w] * tiny.cls.N)
        assert all(one.flag == (w >= 1) for one in d.returned())
        p = max((p for p in d.places if p.win), key=lambda p: (p.prize, p.value(d.width)))
        p.positive = 1 - p.positive
        distances = list(d.x)
        d.settle()
        d.x = distances
        if not p.win:
            continue
        assert statement.Returned(p.slot, w < 1) in d.returned()
        assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, "|".join(of_place(d, r"f\[\d+\]", p))))
        return
    raise AssertionError("no request offers this attack")


@pytest.mark.parametrize("claimed", [True, False])
def test_a_score_is_clipped_where_it_is_above_the_window(tiny: LotterySetting, claimed: bool) -> None:
    def forge(d: LotteryDraft) -> list[str] | None:
        p = next((p for p in d.places if not p.win and not p.prize and p.w >= 1 and p.capped != claimed), None)
        if p is None:
            return None
        p.capped = int(claimed)
        last = sorted(d.places, key=lambda p: (-p.value(d.width), p.slot))[d.cls.K - 1]
        d.threshold, d.threshold_slot = last.value(d.width), last.slot
        d.settle()
        return of_place(d, r"f\[\d+\]", p)

    check(tiny, forge, low=-WIDTH, high=WIDTH if claimed else 2 * WIDTH)


@pytest.mark.parametrize(
    "group", ["placePositive", "placeCapped", "placeCounted", "placeWins", "thetaChoice", "prizeChoice"]
)
def test_bits_are_bits(tiny: LotterySetting, group: str) -> None:
    count = {"thetaChoice": tiny.cls.grid - 1, "prizeChoice": tiny.cls.prizes}.get(group, tiny.cls.R)
    for k in range(count):
        boolean_row(tiny.r1cs, f"{group}[{k}]")


@pytest.mark.parametrize("group", ["thetaChoice", "prizeChoice"])
def test_choices_are_of_one_point(tiny: LotterySetting, group: str) -> None:
    """Bits that add up to 1, by a row of their own."""
    count = {"thetaChoice": tiny.cls.grid - 1, "prizeChoice": tiny.cls.prizes}[group]
    assert len(one_row(tiny.r1cs, [tiny.r1cs.wire_of[f"{group}[{k}]"] for k in range(count)])) == 1
