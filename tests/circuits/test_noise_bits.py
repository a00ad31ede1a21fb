# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats with what should be a bit or a set and is not, against the statement with noise; as test_noise_winners."""

from __future__ import annotations

import pytest

from ragseal.kernel import noise, statement
from tests.circuits.noise_drafts import PLACES, NoiseDraft, NoiseSetting
from tests.circuits.noise_forgeries import first, losers
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


def test_a_winner_twice_in_the_set(tiny: NoiseSetting) -> None:
    """T with a repeated id is no set: increasing order forbids it, the winners' fractions too."""
    d = tiny.honest(1000)
    d.ids[1] = d.ids[0]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"inside\[1\]\.fInside", r"increasing\.f\[1\]\[\d+\]"))
