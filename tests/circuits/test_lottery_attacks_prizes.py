# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats against the lottery's prizes and tie-breaks, each against one rule (see test_lottery_attacks)."""

from __future__ import annotations

import dataclasses

import pytest

from ragseal.kernel.noise_mechanism import wide_elements
from ragseal.kernel.params import TAG_COARSE
from tests.circuits.lottery_drafts import (
    WIDTH,
    LotteryDraft,
    LotterySetting,
    check,
    first,
    lottery_tiny,
    of_place,
)
from tests.circuits.lottery_forgeries import EMPTY, count_row, hidden_well, one_row, prizes_of, without
from tests.circuits.r1cs import P, R1cs
from tests.circuits.rules import assert_only_rule, fractions, linear_row

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tiny() -> LotterySetting:
    return LotterySetting.of(lottery_tiny())


def prize_row(r1cs: R1cs, at: int) -> set[int]:
    """The row in which a place's prize is what its bound says."""
    prize, bound = (r1cs.wire_of[f"{name}[{at}]"] for name in ("placePrize", "placeBound"))
    rows = {i for i in r1cs.rows_of[prize] if bound in {w for w, _ in r1cs.rows[i][2]}}
    rows = {i for i in rows if {w for w, _ in r1cs.rows[i][0] + r1cs.rows[i][1]} <= {0, prize, r1cs.wire_of["hmax"]}}
    assert len(rows) == 1
    return rows


# --- prizes ----------------------------------------------------------------------------------------------------------


def test_the_prize_of_an_empty_slot_is_withheld(tiny: LotterySetting) -> None:
    """What the return's bound rests on: its own score keeps it below any threshold; only the count gives it away."""

    def forge(d: LotteryDraft) -> list[str] | None:
        won = prizes_of(d)
        if not 1 <= len(won) <= 3:
            return None
        without(d, won[0])
        return [] if hidden_well(d) else None

    d, _ = first(tiny, forge, **EMPTY)
    assert_only_rule(tiny, d.inputs(), count_row(tiny.r1cs))


def test_theta_above_the_first_prize_hides_an_empty_slots_prize(tiny: LotterySetting) -> None:
    def forge(d: LotteryDraft) -> list[str] | None:
        lowest = [i for i in prizes_of(d) if d.u[i] == d.first_prize]
        if len(lowest) != 1 or lowest[0] not in d.ids:
            return None
        without(d, *lowest)
        d.theta = d.first_prize + 1
        d.settle_bits()
        return [r"limits\.f\[2\]"] if d.threshold >= d.theta and hidden_well(d) else None

    check(tiny, forge, low=-4 * WIDTH, high=WIDTH)


def test_a_wrong_count_bit_hides_two_prizes(tiny: LotterySetting) -> None:
    def forge(d: LotteryDraft) -> list[str] | None:
        won = prizes_of(d)
        if len(won) < 2:
            return None
        without(d, *won[:2])
        uncounted = next(p for p in d.places if not p.counted)
        uncounted.counted = 1
        return of_place(d, r"f\[\d+\]", uncounted) if hidden_well(d) else None

    check(tiny, forge, **EMPTY)


def test_the_prize_of_a_slot_with_a_score_is_withheld(tiny: LotterySetting) -> None:
    """Not opened, it would have to lie below the threshold with its bound: no distance in range says so."""

    def forge(d: LotteryDraft) -> list[str] | None:
        victim = next((i for i in prizes_of(d) if i in d.ids and d.w[i] > 0), None)
        if victim is None:
            return None
        without(d, victim)
        return [rf"slots\.f(Low|High)\[{victim}\]"]

    d, patterns = first(tiny, forge)
    rows, zero = fractions(tiny.r1cs, *patterns)
    assert_only_rule(tiny, d.inputs(), rows | count_row(tiny.r1cs), zero)


@pytest.mark.parametrize("invented", [True, False])
def test_a_bound_that_is_not_what_the_table_has(tiny: LotterySetting, invented: bool) -> None:
    """A prize invented: a slot without one has a prize's bound; a prize withheld: a slot with one has its bare u."""

    def forge(d: LotteryDraft) -> list[str] | None:
        if invented:
            victim = next(i for i in range(d.cls.N) if i not in d.ids and d.u[i] < d.first_prize)
        elif set(prizes_of(d)) & set(d.ids):
            victim = next(i for i in prizes_of(d) if i in d.ids)
        else:
            return None
        d.b[victim] = d.u[victim] + (d.width + 256) * invented
        claimed = dataclasses.replace(d.open(victim), b=d.b[victim], prize=int(invented))
        slots = range(d.cls.N)
        values = {i: (claimed if i == victim else d.open(i)).value(d.width) for i in slots}
        last = sorted(slots, key=lambda i: (-values[i], i))[d.cls.K - 1]
        d.threshold, d.threshold_slot = values[last], last
        d.fill({i for i in slots if d.u[i] >= d.first_prize or values[i] >= d.threshold} | {victim})
        d.places[d.places.index(d.place(victim))] = claimed
        d.settle()
        return [rf"slots\.fCoarse\[{victim}\]", *of_place(d, "fCoarse", claimed)]

    check(tiny, forge, **EMPTY)


@pytest.mark.parametrize("invented", [True, False])
def test_a_place_denies_its_prize_or_claims_one(tiny: LotterySetting, invented: bool) -> None:
    """A prize that is denied adds its score to its bound; a slot that claims one loses its score: both change T."""

    def forge(d: LotteryDraft) -> list[str] | None:
        victim = next((p for p in d.places if p.win and p.prize != invented and p.w > 0), None)
        if victim is None:
            return None
        victim.prize = int(invented)
        last = sorted(d.places, key=lambda p: (-p.value(d.width), p.slot))[d.cls.K - 1]
        nearest = max((d.value(i) for i in range(d.cls.N) if i not in {p.slot for p in d.places}), default=0)
        if last.value(d.width) <= nearest:
            return None  # a slot outside of the places would win
        d.threshold, d.threshold_slot = last.value(d.width), last.slot
        d.settle()
        return [str(d.places.index(victim))]

    d, (at,) = first(tiny, forge, same=not invented, low=-WIDTH, high=WIDTH)
    assert_only_rule(tiny, d.inputs(), prize_row(tiny.r1cs, int(at)))


def test_a_prize_is_moved_to_another_slot(tiny: LotterySetting) -> None:
    """A place of no slot, whose multiplier is 0, so that no slot has to answer for it."""

    def forge(d: LotteryDraft) -> list[str] | None:
        won = prizes_of(d)
        if len(won) != 1:
            return None
        without(d, won[0])
        top = 255
        fake = next(p for p in d.places if p.u < d.theta and not p.win)
        fake.u, fake.b, fake.prize, fake.positive, fake.capped = top, d.bound(top), 1, 0, 0
        last = sorted(d.places, key=lambda p: (-p.value(d.width), p.slot))[d.cls.K - 1]
        d.threshold, d.threshold_slot = last.value(d.width), last.slot
        d.theta = min(d.threshold, d.first_prize)
        d.settle_bits()
        real = d.places
        d.places = [p for p in real if p is not fake]
        d.settle_distances()
        d.places = real
        fake.x, fake.w = 0, d.threshold - 1 - fake.b
        return [str(d.places.index(fake))] if hidden_well(d) and fake.w < 0 and fake.slot in d.ids else None

    d, (at,) = first(tiny, forge, **EMPTY)
    wire = tiny.r1cs.wire_of[f"place[{at}].fInverse"]
    (row,) = tiny.r1cs.rows_of[wire]
    assert_only_rule(tiny, d.inputs(), {row}, {wire})


def redraw(d: LotteryDraft, choice: list[int], drawn: int) -> None:
    """Everything as it is with so many prizes, but for theta, which keeps to those of the policy."""
    least = d.first_prize
    d.choice, d.drawn = choice, drawn
    d.read_elements()
    d.choose()
    d.fill({p.slot for p in d.places if d.value(p.slot) >= d.threshold} | {i for i, u in enumerate(d.u) if u >= least})
    d.theta = min(d.threshold, least)
    d.settle_bits()
    d.settle_distances()


@pytest.mark.parametrize("number", [2, 1])
def test_the_number_of_prizes_is_not_the_policys(tiny: LotterySetting, number: int) -> None:
    """With fewer prizes than the policy has, an empty slot returns less often than the bound of a return says."""

    def forge(d: LotteryDraft) -> list[str] | None:
        redraw(d, [int(j == number) for j in (1, 2, 3)], number)
        return []

    d, _ = first(tiny, forge)
    assert_only_rule(tiny, d.inputs(), linear_row(tiny.r1cs, "prizes", "prizeChoice[2]"))


def test_two_numbers_of_prizes_at_once(tiny: LotterySetting) -> None:
    """1 and 2 add up to 3: the third prize is none."""

    def forge(d: LotteryDraft) -> list[str] | None:
        if 253 not in {d.u[i] for i in d.ids} or 255 in d.u:
            return None  # a place with the highest bits, whose prize counts twice, could not say so
        redraw(d, [1, 1, 0], 2)
        return []

    d, _ = first(tiny, forge)
    rows = one_row(tiny.r1cs, [tiny.r1cs.wire_of[f"prizeChoice[{j}]"] for j in range(3)])
    assert len(rows) == 1
    assert_only_rule(tiny, d.inputs(), rows)


# --- tie-break bits --------------------------------------------------------------------------------------------------


def test_tie_break_bits_that_the_permutation_did_not_give(tiny: LotterySetting) -> None:
    """The coarse bits of an empty slot are said to be the highest: the rest of its element is no longer canonical."""

    def forge(d: LotteryDraft) -> list[str] | None:
        victim = next(i for i in range(d.cls.N) if i not in d.ids)
        d.u[victim] = 255
        d.b[victim] = d.bound(255)
        d.choose()
        d.settle()
        element = victim // d.cls.q
        return [rf"block\[{element // 16}\]\.f\[{element % 16}\]\[\d+\]"]

    check(tiny, forge, **EMPTY)


@pytest.mark.parametrize("part", ["beacon", "ctx", "seed"])
def test_prizes_of_another_request_or_window(tiny: LotterySetting, part: str) -> None:
    """All tickets are those of another beacon, account, query or seed: every element's top is a wild one."""

    def forge(d: LotteryDraft) -> list[str]:
        other = {"seed": (d.seed[0], d.seed[1] + 1)} if part == "seed" else {part: getattr(d, part) + 1}
        d.coarse_elements = wide_elements(dataclasses.replace(d, **other).key, TAG_COARSE, d.cls.elements, 0)
        d.read_elements()
        d.choose()
        d.settle()
        return [r"block\[\d+\]\.f\[\d+\]\[\d+\]"]

    check(tiny, forge)


@pytest.mark.parametrize("theirs", [True, False])
def test_two_slots_exchange_their_tickets(tiny: LotterySetting, theirs: bool) -> None:
    """A prize goes to a slot of the same element, or of another one; places and table are as they would be."""

    def forge(d: LotteryDraft) -> list[str] | None:
        won = next((i for i in prizes_of(d) if i in d.ids), None)
        if won is None:
            return None
        rest = (i for i in range(d.cls.N) if i not in d.ids and (i // d.cls.q == won // d.cls.q) == theirs)
        other = next(rest)
        for values in (d.u, d.b):
            values[won], values[other] = values[other], values[won]
        d.choose()
        d.settle()
        touched = {won // d.cls.q, other // d.cls.q}
        return [rf"block\[{e // 16}\]\.f\[{e % 16}\]\[\d+\]" for e in touched]

    check(tiny, forge, **EMPTY)


def test_an_element_above_the_modulus(tiny: LotterySetting) -> None:
    """The same element plus the field's order splits into other bits: its top has no room below the modulus."""

    def forge(d: LotteryDraft) -> list[str] | None:
        d.coarse_elements[0] += P
        if d.coarse_elements[0] >> d.cls.coarse_top_position >= 1 << (d.cls.c * d.cls.coarse_top):
            return None
        d.read_elements()
        d.choose()
        d.settle()
        n = d.cls.coarse_filler + d.cls.coarse_top
        return [rf"block\[0\]\.f\[0\]\[({'|'.join(str(n + j) for j in range(d.cls.coarse_top))})\]"]

    check(tiny, forge)
