# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats against the lottery's places, each against one rule of its circuit (see test_lottery_attacks)."""

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
)
from tests.circuits.lottery_forgeries import EMPTY, count_row, hidden_well
from tests.circuits.r1cs import P
from tests.circuits.rules import assert_only_rule, fractions

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def tiny() -> LotterySetting:
    return LotterySetting.of(lottery_tiny())


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
