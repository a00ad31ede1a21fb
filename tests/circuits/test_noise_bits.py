# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats with what should be a bit or a set and is not, against the statement with noise; as test_noise_winners."""

from __future__ import annotations

import pytest

from ragseal.kernel import noise, statement
from ragseal.kernel.noise_statement import NoiseLayout
from tests.circuits.noise_drafts import PLACES, NoiseDraft, NoiseSetting
from tests.circuits.noise_forgeries import first, losers, without
from tests.circuits.rules import assert_only_rule, boolean_row, fractions
from tests.circuits.scene import compiled
from tests.classes import TINY

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=PLACES, ids=str)
def tiny(request: pytest.FixtureRequest) -> NoiseSetting:
    return NoiseSetting(TINY, compiled(TINY), *request.param)


def test_a_sign_that_is_no_bit(tiny: NoiseSetting) -> None:
    """Sign 2 folds a uniform between a third and a half to another one, and gives the noise -3 z."""

    def forge(d: NoiseDraft) -> list[str] | None:
        total = d.cls.table.total
        for p in (p for p in d.places if p.win):
            uniform = (p.u << d.cls.fine_bits) + p.fine
            folded = uniform + 2 * (total - 1 - 2 * uniform)
            if total // 2 <= folded < total:
                p.sign, p.z = 2, noise.inverse_cdf(d.cls.table, folded)
                p.before, p.upto = d.cls.table.cdf(p.z - 1), d.cls.table.cdf(p.z)
                d.settle()
                return [f"placeSign[{d.places.index(p)}][0]"] if d.threshold >= d.entry else None
        return None

    d, (name,) = first(tiny, forge)
    assert_only_rule(tiny, d.inputs(), boolean_row(tiny.r1cs, name))


def test_a_clip_case_that_is_no_bit(tiny: NoiseSetting) -> None:
    """2 for "above the window's lower end" counts a score twice, and says so of the next slot's flag in T."""

    def forge(d: NoiseDraft) -> list[str] | None:
        p = max((p for p in losers(d) if 0 < p.k <= d.steps), key=lambda p: p.k, default=None)
        if p is None:
            return None
        p.positive = 2
        d.settle()
        d.stated = sorted(statement.unpacked(2 * q.slot + q.positive) for q in d.places if q.win)
        return [f"placePositive[{d.places.index(p)}]"] if p.win and len(set(d.stated)) == d.cls.K else None

    d, (name,) = first(tiny, forge)
    assert_only_rule(tiny, d.inputs(), boolean_row(tiny.r1cs, name))


def test_a_cap_that_is_no_bit(tiny: NoiseSetting) -> None:
    """2 for "above the window" takes what is above off twice: a winner loses."""

    def forge(d: NoiseDraft) -> list[str] | None:
        for p in (p for p in d.places if p.win and p.k > d.steps):
            p.capped = 2
            if p.clipped(d.steps) + p.b >= d.entry:
                d.settle()
                return [f"placeCapped[{d.places.index(p)}]"] if d.threshold >= d.entry else None
            p.capped = 1
        return None

    d, (name,) = first(tiny, forge, high=600, steps=60)
    assert_only_rule(tiny, d.inputs(), boolean_row(tiny.r1cs, name))


def test_a_theta_of_five_points_hides_noise_that_wins_alone(tiny: NoiseSetting) -> None:
    """Beside "none", c at g1, -c behind it, -c at g2 and c behind it: the same theta, and a bound as low as c makes it.

    Sums up to a point, which multiplicities are weighed with, are 0 but at g1 and g2, coarse bits that no slot has.
    """
    choices: list[dict[int, int]] = []

    def forge(d: NoiseDraft) -> list[str] | None:
        victim = next((p for p in d.places if p.win and p.u >= d.theta and p.k + p.b < d.entry), None)
        if victim is None or not without(d, victim) or not all(0 <= x < 2048 for x in d.x):
            return None
        grid, bounds = d.cls.grid, d.cls.bounds
        least = (1 << d.cls.m) - grid + 1
        step = {g: bounds[least + g] - bounds[least + g - 1] for g in range(grid - 1) if least + g not in d.u}
        high, low = (pick(step, key=lambda g: step[g]) for pick in (max, min))
        if step[high] == step[low] or abs(high - low) == 1:
            return None
        d.theta = 1 << d.cls.m  # "none"
        for p in d.places:
            p.counted = 0
        c = -(-(bounds[-1] - d.entry + 1) // (step[high] - step[low]))
        choice = dict.fromkeys((high, high + 1, low, low + 1, grid - 1), 0)
        for g, value in ((high, c), (high + 1, -c), (low, -c), (low + 1, c), (grid - 1, 1)):
            choice[g] += value
        choices.append(choice)
        return [f"thetaChoice[{g}]" for g in choice]

    d, names = first(tiny, forge, low=-1300, high=-1100)
    choice, groups, h = choices[-1], NoiseLayout(d.cls).by_name, d.hints()
    least = (1 << d.cls.m) - d.cls.grid + 1
    for g, value in choice.items():
        h[groups["thetaChoice"].offset + g] = value
    bound = sum(value * d.cls.bounds[least + g - 1] for g, value in choice.items())
    h[groups["rangeCount"].offset + d.entry - 1 - bound] += 1
    rows = set.union(*(boolean_row(tiny.r1cs, name) for name in names))
    assert_only_rule(tiny, d.inputs(h), rows)


def test_a_winner_twice_in_the_set(tiny: NoiseSetting) -> None:
    """T with a repeated id is no set: increasing order forbids it, the winners' fractions too."""
    d = tiny.honest(1000)
    d.ids[1] = d.ids[0]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"inside\[1\]\.fInside", r"increasing\.f\[1\]\[\d+\]"))
