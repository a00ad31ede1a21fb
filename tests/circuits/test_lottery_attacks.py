# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats against the lottery's statement: prizes, tie-breaks, places, theta, the threshold and T.

As in test_attacks: each forged statement is completed as well as it can be, so that one rule stands against it; the
circuit rejects it, and accepts it once the rows of that rule are dropped.
"""

from __future__ import annotations

import dataclasses

import pytest

from ragseal.kernel import statement
from tests.circuits.lottery_drafts import (
    WIDTH,
    DraftPlace,
    LotteryDraft,
    LotterySetting,
    check,
    first,
    lottery_tiny,
    of_place,
    requests,
)
from tests.circuits.r1cs import P, R1cs
from tests.circuits.rules import assert_only_rule, boolean_row, fractions, linear_row

pytestmark = pytest.mark.slow

EMPTY = {"low": -4 * WIDTH, "high": -2 * WIDTH}  #: scores of empty slots: far below the window


@pytest.fixture(scope="module")
def tiny() -> LotterySetting:
    return LotterySetting.of(lottery_tiny())


def prizes_of(d: LotteryDraft) -> list[int]:
    """Slots that win a prize."""
    return [i for i, u in enumerate(d.u) if u >= d.first_prize]


def without(d: LotteryDraft, *victims: int) -> None:
    """Slots left out of the places; the next best ones come into T."""
    last = [i for i in d.ranked() if i not in victims][d.cls.K - 1]
    d.threshold, d.threshold_slot = d.value(last), last
    must = {i for i in range(d.cls.N) if d.u[i] >= d.first_prize or d.value(i) >= d.threshold}
    d.fill(must - set(victims), victims)
    d.settle()


def hidden_well(d: LotteryDraft) -> bool:
    """Whether every slot that is no place has a distance in range: then its own rows say nothing."""
    opened = {p.slot for p in d.places}
    return all(0 <= d.x[i] < d.cls.room for i in range(d.cls.N) if i not in opened)


def count_row(r1cs: R1cs) -> set[int]:
    return linear_row(r1cs, "placeCounted[0]", "placeCounted[1]")


def prize_row(r1cs: R1cs, at: int) -> set[int]:
    """The row in which a place's prize is what its bound says."""
    prize, bound = (r1cs.wire_of[f"{name}[{at}]"] for name in ("placePrize", "placeBound"))
    rows = {i for i in r1cs.rows_of[prize] if bound in {w for w, _ in r1cs.rows[i][2]}}
    rows = {i for i in rows if {w for w, _ in r1cs.rows[i][0] + r1cs.rows[i][1]} <= {0, prize, r1cs.wire_of["hmax"]}}
    assert len(rows) == 1
    return rows


def one_row(r1cs: R1cs, choice: list[int]) -> set[int]:
    """The linear row in which these wires, each once, add up to 1."""
    rows = {i for i in r1cs.rows_of[choice[0]] if {w for form in r1cs.rows[i] for w, _ in form} == {0, *choice}}
    return {i for i in rows if len({c for form in r1cs.rows[i] for w, c in form if w}) == 1}


# --- prizes -----------------------------------------------------------------------------------------------------------


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


# --- tie-break bits ---------------------------------------------------------------------------------------------------


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


# --- slots ------------------------------------------------------------------------------------------------------------


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


# --- places -----------------------------------------------------------------------------------------------------------


def test_a_place_with_another_score(tiny: LotterySetting) -> None:
    def forge(d: LotteryDraft) -> list[str] | None:
        p = next((p for p in d.places if not p.win and not p.prize), None)
        if p is None or p.u >= d.theta:
            return None
        p.w, p.positive, p.capped = d.width, 1, 0
        last = sorted(d.places, key=lambda p: (-p.value(d.width), p.slot))[d.cls.K - 1]
        d.threshold, d.threshold_slot = last.value(d.width), last.slot
        d.settle()
        return of_place(d, "fOpen", p)

    check(tiny, forge, high=WIDTH - 300)


def test_a_place_with_the_bits_of_a_prize(tiny: LotterySetting) -> None:
    """Its key is no slot's; and one more place has u >= theta than slots."""

    def forge(d: LotteryDraft) -> list[str] | None:
        p = next((p for p in d.places if not p.win and not p.prize), None)
        if p is None:
            return None
        p.u, p.b, p.prize = 255, d.bound(255), 1
        last = sorted(d.places, key=lambda p: (-p.value(d.width), p.slot))[d.cls.K - 1]
        d.threshold, d.threshold_slot = last.value(d.width), last.slot
        d.settle()
        return of_place(d, "fOpen", p)

    d, patterns = first(tiny, forge, **EMPTY)
    rows, zero = fractions(tiny.r1cs, *patterns)
    assert_only_rule(tiny, d.inputs(), rows | count_row(tiny.r1cs), zero)


def test_one_slot_as_two_places(tiny: LotterySetting) -> None:
    """Their multipliers add up to the slot's: w1 + w2 + Y = w.  T has it without and with its flag.

    One more place with u >= theta than slots: an empty slot, which is left out, makes up for it.
    """

    def forge(d: LotteryDraft) -> list[str] | None:
        empty = next((i for i in d.ids if d.w[i] < 0), None)
        if empty is None:
            return None
        rest = [i for i in d.ranked() if i != empty]
        won = rest[: d.cls.K - 1]
        d.threshold, d.threshold_slot = d.value(won[-1]), won[-1]
        twice = next((i for i in won if d.u[i] < d.first_prize and d.w[i] > d.u[i] - d.threshold + 1 > 0), None)
        if twice is None:
            return None
        d.fill({*won, *(i for i, u in enumerate(d.u) if u >= d.first_prize)} - {empty}, [empty])
        d.settle()
        spare = next(p for p in d.places if not p.win and not p.counted)
        two = d.place(twice)
        one = dataclasses.replace(two, w=0, x=0, positive=0)
        two.w, two.x, d.x[twice] = two.w - (two.b - d.threshold + 1), 0, 0
        d.places[d.places.index(spare)] = one
        d.x[spare.slot] = d.threshold - 1 - spare.b - spare.w
        d.places.sort(key=lambda p: (p.slot, p.w))
        assert one.win == two.win == 1 <= two.w
        parts = [d.multiplier(p.w, p.b, 0) for p in (one, two)]
        assert 0 not in parts
        assert sum(parts) == d.multiplier(d.w[twice], two.b, 0)
        d.stated = sorted(statement.Returned(p.slot, bool(p.positive)) for p in d.places if p.win)
        return [rf"order\.f\[{d.places.index(two)}\]\[\d+\]"] if hidden_well(d) else None

    for number in range(1000, 1200):
        w = [-2 * WIDTH] * tiny.cls.N
        w[tiny.honest(number, w).ranked()[1]] = 9
        d = tiny.honest(number, w)
        patterns = forge(d)
        if patterns is not None:
            assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, *patterns))
            return
    raise AssertionError("no request offers this attack")


def test_a_place_beyond_the_last_slot(tiny: LotterySetting) -> None:
    """Slot i + 2^L with u - 1 has the key of slot i with u: T would name a slot that there is not."""

    def forge(d: LotteryDraft) -> list[str] | None:
        p = next((p for p in d.places if p.win and not p.prize and p.w == d.width - 1 and p.u > 0), None)
        if p is None or p.u >= d.theta:
            return None
        whole = d.multiplier(p.w, p.b, p.x)
        p.slot, p.u, p.b, p.w, p.capped = p.slot + 128, p.u - 1, p.b - 1, d.width + 1, 1
        assert d.multiplier(p.w, p.b, p.x) == whole
        d.places.sort(key=lambda q: q.slot)
        d.settle_bits()
        if len(d.ids) != d.cls.K:
            return None
        return [rf"order\.f\[{d.cls.R}\]\[\d+\]"]

    for number in range(1000, 1200):
        d = tiny.honest(number, [WIDTH - 1 if i % 9 == 4 else -2 * WIDTH for i in range(tiny.cls.N)])
        patterns = forge(d)
        if patterns is not None:
            assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, *patterns))
            return
    raise AssertionError("no request offers this attack")


def test_a_distance_that_is_no_chunk_gives_a_place_the_key_of_another_slot(tiny: LotterySetting) -> None:
    """The other slot's score is wild, so that its multiplier can be whatever the false place's is."""

    def forge(d: LotteryDraft) -> list[str] | None:
        spare = next((p for p in d.places if not p.win and p.u < d.theta), None)
        opened = {p.slot for p in d.places}
        other = next(i for i in range(d.cls.N) if i not in opened and d.u[i] < d.theta)
        if spare is None:
            return None
        fake = DraftPlace(spare.slot, d.width, d.u[other], d.b[other], 0, 1)
        d.places[d.places.index(spare)] = fake
        last = sorted(d.places, key=lambda p: (-p.value(d.width), p.slot))[d.cls.K - 1]
        d.threshold, d.threshold_slot = last.value(d.width), last.slot
        d.theta = min(d.threshold, d.first_prize)
        d.settle_bits()
        real = d.places
        d.places = [p for p in real if p is not fake]
        d.settle_distances()
        d.places = real
        d.x[other] = 5
        fake.x = (5 + (other - fake.slot) * pow(1 << (d.cls.L + d.cls.m), -1, P)) % P
        y = 5 + d.b[other] - d.threshold + 1
        d.w[other] = (d.multiplier(fake.w, fake.b, fake.x) * pow(y + d.width, -1, P) - y) % P
        if not hidden_well(d) or fake.slot not in d.ids:
            return None
        at, ncmp = d.places.index(fake), d.cls.compare_chunks
        return [rf"place\[{at}\]\.f\[{ncmp}\]"]

    check(tiny, forge, high=WIDTH // 2)


# --- theta and the threshold ------------------------------------------------------------------------------------------


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


# --- winners, flags, T ------------------------------------------------------------------------------------------------


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
