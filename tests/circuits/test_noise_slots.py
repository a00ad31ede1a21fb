# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats against the statement with noise's slots: bounds, digits, which slots must be places.

As in test_noise_winners, one rule stands against each forged statement.
"""

from __future__ import annotations

import pytest

from tests.circuits.noise_drafts import PLACES, NoiseDraft, NoiseSetting, multiplier
from tests.circuits.noise_forgeries import (
    check,
    first,
    of_place,
    requests,
    rising_winner,
    without,
)
from tests.circuits.r1cs import P
from tests.circuits.rules import assert_only_rule, boolean_row, fractions, linear_row
from tests.circuits.scene import compiled, noise_tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=PLACES, ids=str)
def tiny(request: pytest.FixtureRequest) -> NoiseSetting:
    return NoiseSetting(noise_tiny(), compiled(noise_tiny()), *request.param)


# --- bounds: what the verifier multiplies by beta ---------------------------------------------------------------------


def test_bounds_that_nobody_multiplied_by_beta(tiny: NoiseSetting) -> None:
    d = tiny.honest(1000)
    d.scaled = list(d.b)
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"slots\.fCoarse\[\d+\]"))


def test_a_bound_beside_the_coarse_bits_that_is_another_one(tiny: NoiseSetting) -> None:
    """Beside u stands beta times another bound than the one that the slot's distance is measured from."""
    d = tiny.honest(1000)
    d.scaled = [d.beta * b for b in d.b]
    d.scaled[5] = d.beta * (d.b[5] - 1)
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"slots\.fCoarse\[5\]"))


def test_the_circuit_leaves_equal_bounds_to_the_opening(tiny: NoiseSetting) -> None:
    """Live: with the true bound beside u, rows accept a false one in the slot.  C_h and C_1 are opened together."""

    def forge(d: NoiseDraft) -> list[str] | None:
        victim = rising_winner(d)
        true = list(d.b)
        if not without(d, victim):
            return None
        d.b[victim.slot] = d.entry - 1 - min(max(d.digit(victim.slot), 0), d.steps)
        d.scaled = [d.beta * b for b in true]
        d.settle_distances()
        return [] if victim.u < d.theta and d.digit(victim.slot) >= 0 else None

    d, _ = first(tiny, forge)
    assert not tiny.r1cs.violations(tiny.r1cs.solve(d.inputs()))


# --- digits -----------------------------------------------------------------------------------------------------------


def test_a_fraction_of_a_digit_hides_a_place(tiny: NoiseSetting) -> None:
    """Another remainder makes the digit a fraction, a number of 254 bits: no distance in range makes up for it."""

    def forge(d: NoiseDraft) -> list[str] | None:
        victim = rising_winner(d)
        if not without(d, victim) or victim.u >= d.theta:
            return None
        i = victim.slot
        d.remainder[i] = (d.remainder[i] + 1) % 2048
        d.x[i] = (d.entry - 1 - d.b[i] - d.digit(i)) % P
        return [rf"slots\.fDistance\[{i}\]"]

    check(tiny, forge)


def test_a_remainder_out_of_range_lowers_a_digit(tiny: NoiseSetting) -> None:
    """w = 2^c (k - t) + (r + 2^c t)."""

    def forge(d: NoiseDraft) -> list[str] | None:
        victim = rising_winner(d)
        i = victim.slot
        down = d.digit(i) + d.b[i] - d.entry + 1
        if not without(d, victim) or d.u[i] >= d.theta:
            return None
        d.remainder[i] += down << d.cls.c
        d.settle_distances()
        return [rf"slots\.fRemainder\[{i}\]"]

    check(tiny, forge)


@pytest.mark.parametrize("way", ["place", "by its digit", "by the window"])
def test_a_wild_score_that_could_win_cannot_be_proven(tiny: NoiseSetting, way: str) -> None:
    """A slot whose bound reaches the entry with the full score: neither a place nor kept below."""

    def forge(d: NoiseDraft) -> list[str] | None:
        victim = rising_winner(d)
        i, wild = victim.slot, pow(3, 1000, P)
        if way == "place":
            d.w[i] = wild
            victim.k = d.digit(i)
            victim.positive = victim.capped = 1  # s = H
            d.settle()
            return of_place(d, r"f\[\d+\]", victim)
        if not without(d, victim) or d.b[i] + d.steps < d.entry or victim.u >= d.theta:
            return None
        d.w[i] = wild
        d.x[i] = (d.entry - 1 - d.b[i] - (d.digit(i) if way == "by its digit" else d.steps)) % P
        return [rf"slots\.fDistance\[{i}\]"]

    check(tiny, forge, same=way == "place")


def test_a_wild_score_loses(tiny: NoiseSetting) -> None:
    """Where not even the full score reaches the entry the statement is provable, and T is what it is without it."""

    def low(d: NoiseDraft) -> list[int]:
        return [i for i in range(d.cls.N) if d.b[i] + d.steps < d.entry]

    d = next(d for d in requests(tiny) if low(d))
    honest = d.returned()
    for i in low(d)[:5]:
        d.w[i] = pow(5, 1000 + i, P)
    d.settle_distances()
    assert d.returned() == honest
    assert not tiny.r1cs.violations(tiny.r1cs.solve(d.inputs()))


def test_wild_scores_of_two_slots_that_cancel(tiny: NoiseSetting) -> None:
    """A hidden winner passes, and another slot's wild score makes its numerator the opposite one: their keys differ."""

    def forge(d: NoiseDraft) -> list[str] | None:
        victim = rising_winner(d)
        other = next((i for i in range(d.cls.N) if d.b[i] + d.steps < d.entry), None)
        if other is None or not without(d, victim) or victim.u >= d.theta:
            return None
        i = victim.slot
        d.x[i], d.x[other] = 5, 7
        e = multiplier(d.digit(i), d.b[i], 5, d.entry, d.steps)
        y = 7 + d.b[other] - d.entry + 1
        if not y + d.steps or not e:
            return None
        k = -e * pow(y + d.steps, -1, P) - y
        d.w[other] = (k * (1 << d.cls.c) + d.remainder[other]) % P
        return [rf"slots\.fOpen\[({i}|{other})\]"]

    check(tiny, forge)


def test_a_place_left_out(tiny: NoiseSetting) -> None:
    """A distance below 0 makes the slot fail: its range check stands against it."""

    def forge(d: NoiseDraft) -> list[str] | None:
        victim = rising_winner(d)
        if not without(d, victim) or victim.u >= d.theta:
            return None
        return [rf"slots\.fDistance\[{victim.slot}\]"]

    check(tiny, forge)


def test_a_slot_that_passes_but_is_no_place(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str] | None:
        victim = rising_winner(d)
        if not without(d, victim) or victim.u >= d.theta:
            return None
        d.x[victim.slot] = 5
        return [rf"slots\.fOpen\[{victim.slot}\]"]

    check(tiny, forge)


def test_a_low_score_hides_noise_that_wins_alone(tiny: NoiseSetting) -> None:
    """k + b < entry by a digit far below 0, although b alone reaches it: as many places as slots have u >= theta."""

    def forge(d: NoiseDraft) -> list[str] | None:
        victim = next((p for p in d.places if p.win and p.u >= d.theta and p.k + p.b < d.entry), None)
        if victim is None or not without(d, victim):
            return None
        return [] if all(0 <= x < 2048 for x in d.x) else None

    d, _ = first(tiny, forge, low=-1300, high=-1100)
    assert_only_rule(tiny, d.inputs(), linear_row(tiny.r1cs, "placeCounted[0]", "placeCounted[1]"))


def test_a_wrong_multiplicity_hides_it(tiny: NoiseSetting) -> None:
    victims: list[int] = []

    def forge(d: NoiseDraft) -> list[str] | None:
        victim = next((p for p in d.places if p.win and p.u >= d.theta and p.k + p.b < d.entry), None)
        if victim is None or not without(d, victim) or not all(0 <= x < 2048 for x in d.x):
            return None
        d.count_edit = {victim.u: -1}
        victims.append(victim.slot)
        return []

    d, _ = first(tiny, forge, low=-1300, high=-1100)
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, rf"slots\.fCoarse\[{victims[-1]}\]"))


def test_a_higher_theta_hides_it(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str] | None:
        victim = next((p for p in d.places if p.win and p.u >= d.theta and p.k + p.b < d.entry), None)
        if victim is None or not without(d, victim) or not all(0 <= x < 2048 for x in d.x):
            return None
        d.theta = 1 << d.cls.m  # "none"
        for p in d.places:
            p.counted = 0
        return [r"limits\.f\[0\]"]

    check(tiny, forge, low=-1300, high=-1100)


def test_a_wrong_count_bit_hides_two(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str] | None:
        for _ in range(2):
            victim = next((p for p in d.places if p.win and p.u >= d.theta and p.k + p.b < d.entry), None)
            if victim is None or not without(d, victim):
                return None
        uncounted = next((p for p in d.places if not p.counted), None)
        if uncounted is None or not all(0 <= x < 2048 for x in d.x):
            return None
        uncounted.counted = 1
        # slots counted: two more than places; one bit too many makes up for both
        return of_place(d, r"f\[\d+\]", uncounted)

    check(tiny, forge, low=-1300, high=-1100)


def test_a_count_bit_of_two_hides_two(tiny: NoiseSetting) -> None:
    def forge(d: NoiseDraft) -> list[str] | None:
        for _ in range(2):
            victim = next((p for p in d.places if p.win and p.u >= d.theta and p.k + p.b < d.entry), None)
            if victim is None or not without(d, victim):
                return None
        counted = [p for p in d.places if p.counted]
        if not counted or not all(0 <= x < 2048 for x in d.x):
            return None
        counted[0].counted = 2  # a place counts with its slot: one more makes up for two slots
        return [f"placeCounted[{d.places.index(counted[0])}]"]

    d, (name,) = first(tiny, forge, low=-1300, high=-1100)
    assert_only_rule(tiny, d.inputs(), boolean_row(tiny.r1cs, name))
