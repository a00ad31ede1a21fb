# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats with opened slots, their scores and their count against the compiled rows; as ``test_attacks.py``.  SPEC B."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator

import pytest

from ragseal.kernel import mechanism
from ragseal.kernel.errors import UnprovableError
from tests.circuits.drafts import Draft, DraftPlace, Setting, multiplier
from tests.circuits.forgeries import bit_patterns, check, first, losers, spare, swap, unneeded
from tests.circuits.r1cs import R1cs
from tests.circuits.rules import assert_only_rule, boolean_row, fractions, linear_row

pytestmark = pytest.mark.slow


# --- which slots are opened -------------------------------------------------------------------------------------------


def leave_out(d: Draft, victim: DraftPlace) -> None:
    swap(d, victim, d.open(unneeded(d)))
    d.settle()


def test_a_place_left_out(tiny: Setting) -> None:
    """X below 0 makes the slot fail: the range check of its chunks stands against it."""

    def forge(d: Draft) -> list[str]:
        victim = next(p for p in d.places if p.win)
        leave_out(d, victim)
        return [rf"slots\.f[01]\[{victim.slot}\]"]

    check(tiny, forge)


def test_a_slot_that_passes_but_is_not_opened(tiny: Setting) -> None:
    """X in range, e not 0: the slot's own fraction has no partner."""

    def forge(d: Draft) -> list[str] | None:
        victim = next(p for p in d.places if p.win)
        leave_out(d, victim)
        d.x[victim.slot] = 5
        return [rf"slots\.fOpen\[{victim.slot}\]"]

    check(tiny, forge)


def test_a_place_with_another_score(tiny: Setting) -> None:
    """e of the place comes from its own w; it must be the slot's."""

    def forge(d: Draft) -> list[str] | None:
        p = next((p for p in losers(d) if p.w < d.hmax), None)
        if p is None:
            return None
        p.w = d.hmax
        d.with_noise(p)
        d.settle()
        return bit_patterns(d, "fOpen", p)

    check(tiny, forge)


def test_a_place_with_another_x(tiny: Setting) -> None:
    """X is part of the key: another X would let another score give the same e, (Y + w)(Y + H) = (Y' + w')(Y' + H)."""

    def forge(d: Draft) -> list[str] | None:
        for p in losers(d):
            if p.w >= d.hmax:
                continue
            p.w = d.hmax
            d.with_noise(p)
            d.settle()
            if not p.win:
                return None
            least = p.b - d.threshold + 1 + d.hmax  # Y' + H at X' = 0
            short = d.hmax - d.w[p.slot]
            small = max(least, short)
            d.x[p.slot], p.x = 2 * small - least, small - least
            p.w = d.hmax + 2 * (2 * small - short) - small
            d.with_noise(p)
            one = multiplier(d.w[p.slot], p.b, d.x[p.slot], d.threshold, d.hmax)
            assert one
            assert one == multiplier(p.w, p.b, p.x, d.threshold, d.hmax)
            return []
        return None

    d, _ = first(tiny, forge)
    r1cs, inputs = tiny.r1cs, d.inputs()
    assert r1cs.violations(r1cs.solve(inputs))
    # Live: the same rows with X taken out of the keys accept it.
    opening = r1cs.factor_rows(r1cs.named(r"slots\.fOpen.*|place\[\d+\]\.fOpen"))
    chunks = r1cs.named(r"p?x[01]\[\d+\]")
    rows = list(r1cs.rows)
    for i in opening:
        a, b, c = ([(w, k) for w, k in form if w not in chunks] for form in rows[i])
        rows[i] = (tuple(a), tuple(b), tuple(c))
    weaker = dataclasses.replace(r1cs, rows=tuple(rows), _plans={})
    assert not weaker.violations(weaker.solve(inputs))


def test_a_slot_placed_twice(tiny: Setting) -> None:
    """Two places of one slot share its multiplicity: w1 + w2 + Y = w, so one may score what it likes."""

    def forge(d: Draft) -> list[str] | None:
        for p in losers(d):
            if p.w >= d.hmax:
                continue
            gone = spare(d)
            if gone is p:
                continue
            kept, slots = list(d.places), (p.w, p.low, p.high)
            twin = DraftPlace(**{name: getattr(p, name) for name in DraftPlace.__dataclass_fields__})
            d.places = sorted([x for x in d.places if x is not gone] + [twin], key=lambda x: x.slot)
            p.w = d.hmax
            d.with_noise(p)
            d.settle()
            x = d.x[p.slot]
            y = x + p.b - d.threshold + 1
            twin.w = d.w[p.slot] - y - p.w
            d.with_noise(twin)
            d.settle_bits()
            d.ids = sorted(q.slot for q in d.places if q.win)
            one = multiplier(p.w, p.b, x, d.threshold, d.hmax)
            two = multiplier(twin.w, twin.b, x, d.threshold, d.hmax)
            if p.win and not twin.win and one and two and len(d.ids) == d.cls.K:
                p.x = twin.x = x
                return [rf"order\.f\[{min(d.places.index(p), d.places.index(twin)) + 1}\]\[\d+\]"]
            d.places = kept
            p.w, p.low, p.high = slots
            d.settle()
        return None

    check(tiny, forge)


def test_an_id_beyond_the_capacity(tiny: Setting) -> None:
    """i + 2^L with X - 1 has the slot's key, draws new fine bits, and puts a wrong id into T."""

    def forge(d: Draft) -> list[str] | None:
        for p in sorted((p for p in d.places if p.win), key=lambda p: p.slot):
            slot, w = p.slot, d.hmax - 1
            d.w[slot] = p.w = w
            moved = DraftPlace(**{name: getattr(p, name) for name in DraftPlace.__dataclass_fields__})
            moved.slot = slot + (1 << d.cls.L)
            moved.w = d.hmax + 1
            moved.element = mechanism.fine_element(d.key, moved.slot)
            d.with_noise(moved)
            swap(d, p, moved)
            d.settle()
            d.x[slot], moved.x = 2, 1
            one = multiplier(w, p.b, 2, d.threshold, d.hmax)
            two = multiplier(moved.w, moved.b, 1, d.threshold, d.hmax)
            if moved.win and one and one == two:
                return [rf"order\.f\[{d.cls.R}\]\[\d+\]"]
            return None
        return None

    check(tiny, forge)


# --- the clip ---------------------------------------------------------------------------------------------------------


def test_a_score_above_the_window_is_not_clipped(tiny: Setting) -> None:
    def forge(d: Draft) -> list[str] | None:
        p = max((p for p in losers(d) if p.w > d.hmax), key=lambda p: p.w, default=None)
        if p is None:
            return None
        p.high = 0
        d.settle()
        return bit_patterns(d, r"clip\.f\[3\]", p)

    check(tiny, forge, hmax=2000)


def test_a_score_below_the_window_is_not_clipped(tiny: Setting) -> None:
    def forge(d: Draft) -> list[str] | None:
        p = min((p for p in d.places if p.win and p.w < 0), key=lambda p: p.w, default=None)
        if p is None:
            return None
        p.low = 0
        d.settle()
        return bit_patterns(d, r"clip\.f\[1\]", p)

    check(tiny, forge, hmax=2000)


def test_a_clip_case_that_is_no_bit(tiny: Setting) -> None:
    """-1 for "below the window" counts a score twice."""

    def forge(d: Draft) -> list[str] | None:
        p = max((p for p in losers(d) if 0 < p.w <= d.hmax), key=lambda p: p.w, default=None)
        if p is None:
            return None
        p.low = -1
        d.settle()
        return [f"pcl[{d.places.index(p)}]"]

    d, (name,) = first(tiny, forge)
    assert_only_rule(tiny, d.inputs(), boolean_row(tiny.r1cs, name))


# --- the count of slots above theta -----------------------------------------------------------------------------------


def hidden_by_low_score(d: Draft, count: int) -> list[int] | None:
    """Leave out slots whose noise alone wins, through scores far below the window that only the clip at 0 raises."""
    victims = [p for p in d.places if p.win and p.u >= d.theta and p.w < -10000][:count]
    if len(victims) < count:
        return None
    for victim in victims:
        swap(d, victim, d.open(unneeded(d, *victims)))
    d.settle()
    inside = {p.slot for p in d.places}
    hidden = {i for i in range(d.cls.N) if d.u[i] >= d.theta and i not in inside}
    if any(not 0 <= x < 1 << (2 * d.cls.c) for x in d.x) or hidden != {p.slot for p in victims}:
        return None
    return [p.slot for p in victims]


def low_scores(setting: Setting) -> Iterator[Draft]:
    for number in range(2000, 2200):
        try:
            yield setting.honest(number, [-20000 - i for i in range(setting.cls.N)], 5)
        except UnprovableError:
            continue


def hide(setting: Setting, count: int, then: Callable[[Draft, list[int]], object]) -> tuple[Draft, object]:
    for d in low_scores(setting):
        honest = list(d.ids)
        victims = hidden_by_low_score(d, count)
        if victims is None or d.ids == honest:
            continue
        found = then(d, victims)
        if found is not None:
            return d, found
    raise AssertionError("no request offers this attack")


def count_row(r1cs: R1cs) -> set[int]:
    return linear_row(r1cs, "pcnt[0]", "pcnt[1]")


def test_a_slot_whose_noise_alone_wins_is_left_out(tiny: Setting) -> None:
    d, _ = hide(tiny, 1, lambda d, victims: victims)
    assert_only_rule(tiny, d.inputs(), count_row(tiny.r1cs))


def test_a_wrong_multiplicity_hides_it(tiny: Setting) -> None:
    d, victims = hide(tiny, 1, lambda d, victims: victims)
    assert isinstance(victims, list)
    d.mc_edit = {d.u[victims[0]]: -1}
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, rf"slots\.fCoarse\[{victims[0]}\]"))


def test_a_higher_theta_hides_it(tiny: Setting) -> None:
    def then(d: Draft, victims: list[int]) -> list[int]:
        d.theta = 1 << d.cls.m  # "none"
        for p in d.places:
            p.counted = 0
        return victims

    d, _ = hide(tiny, 1, then)
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"threshold\.f\[\d+\]"))


def test_a_wrong_count_bit_hides_two(tiny: Setting) -> None:
    def then(d: Draft, victims: list[int]) -> list[str] | None:
        low = [p for p in d.places if not p.counted][:2]
        if len(low) < 2 or len(victims) != 2:
            return None
        low[0].counted = 1
        return bit_patterns(d, r"counted\.f\[\d+\]", low[0])

    d, patterns = hide(tiny, 2, then)
    assert isinstance(patterns, list)
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, *patterns))


def test_a_count_bit_of_two_hides_two(tiny: Setting) -> None:
    def then(d: Draft, victims: list[int]) -> str | None:
        p = next((p for p in d.places if p.counted), None)
        if p is None:
            return None
        p.counted = 2
        return f"pcnt[{d.places.index(p)}]"

    d, name = hide(tiny, 2, then)
    assert_only_rule(tiny, d.inputs(), boolean_row(tiny.r1cs, str(name)))


def test_a_place_without_a_slot_hides_one(tiny: Setting) -> None:
    """A place with e = 0 is tied to no slot; it would count as one above theta."""

    def then(d: Draft, victims: list[int]) -> str | None:
        inside = {p.slot for p in d.places}
        fake = d.open(next(i for i in range(d.cls.N) if i not in inside and i not in victims))
        # The lowest coarse value that counts: it must not win by itself.
        fake.u, fake.b = d.theta, d.bounds[d.theta] if d.theta < len(d.bounds) else 0
        if d.theta >= len(d.bounds):
            return None
        d.with_noise(fake)
        swap(d, spare(d), fake)
        threshold = d.threshold
        d.settle()
        if d.threshold != threshold or fake.win or not fake.counted:
            return None
        fake.x = d.threshold - 1 - fake.b - fake.w
        # Its slot is none of the opened ones: it fails like any other.
        i = fake.slot
        d.x[i] = d.threshold - 1 - d.b[i] - d.w[i]
        if not (0 <= fake.x < 1 << (2 * d.cls.c) and 0 <= d.x[i] < 1 << (2 * d.cls.c)):
            return None
        return f"place[{d.places.index(fake)}].fInverse"

    d, name = hide(tiny, 1, then)
    wire = tiny.r1cs.wire_of[str(name)]
    assert_only_rule(tiny, d.inputs(), set(tiny.r1cs.rows_of[wire]), {wire})
