# SPDX-License-Identifier: GPL-3.0-or-later
"""Cheats against the two ends of the order of places, and against the order of T.

A place outside of the slots can have a slot's key all the same: a slot number further up and coarse bits lower, or the
other way round.  Its numerator is the slot's as well where the slot's score is made for it: scores come from a
provider's own columns.  Only the gaps before the first and after the last place keep such places out.
"""

from __future__ import annotations

import pytest

from tests.circuits.noise_drafts import PLACES, DraftPlace, NoiseDraft, NoiseSetting, centred, multiplier
from tests.circuits.noise_forgeries import check, requests
from tests.circuits.r1cs import P
from tests.circuits.rules import assert_only_rule, fractions
from tests.circuits.scene import compiled, noise_tiny

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module", params=PLACES, ids=str)
def tiny(request: pytest.FixtureRequest) -> NoiseSetting:
    return NoiseSetting(noise_tiny(), compiled(noise_tiny()), *request.param)


def made_for(d: NoiseDraft, i: int, fake: DraftPlace) -> None:
    """A score of slot i with which its numerator is that of a place of the same key."""
    wanted = multiplier(fake.k, fake.b, fake.x, d.entry, d.steps)
    y = fake.x + d.b[i] - d.entry + 1
    assert wanted
    assert y + d.steps
    k = centred(wanted * pow(y + d.steps, -1, P) - y)
    d.w[i] = (k << d.cls.c) + d.remainder[i]
    assert (multiplier(d.digit(i), d.b[i], fake.x, d.entry, d.steps) - wanted) % P == 0


def key(d: NoiseDraft, slot: int, u: int, x: int) -> int:
    return slot + (u << (d.cls.L + 1)) + (x << (d.cls.L + 1 + d.cls.m))


def test_an_edge_place_beyond_the_last_slot(tiny: NoiseSetting) -> None:
    """Slot i + 2^(L+1) with coarse bits u - 1 has the key of slot i with u."""

    def forge(d: NoiseDraft) -> list[str] | None:
        inside = {p.slot for p in d.places}
        for i in range(d.cls.N):
            k = d.entry - 1 - d.cls.bounds[d.u[i] - 1]
            if i not in inside and 1 <= d.u[i] < d.theta and 1 <= k <= d.steps:
                break
        else:
            return None
        fake = d.clip(DraftPlace(i + (2 << d.cls.L), k, d.u[i] - 1, d.cls.bounds[d.u[i] - 1], 0))
        assert key(d, fake.slot, fake.u, fake.x) == key(d, i, d.u[i], fake.x)
        made_for(d, i, fake)
        d.places[-1] = fake
        d.draw()
        d.settle()
        d.x[i] = fake.x
        return [rf"order\.f\[{d.cls.R}\]\[\d+\]"]

    check(tiny, forge, same=True)


def test_a_full_place_before_the_first_slot(tiny: NoiseSetting) -> None:
    """Slot i - 2^(L+1) with coarse bits u + 1; it takes the first rank, and all others move: another T."""

    def forge(d: NoiseDraft) -> list[str] | None:
        inside = {p.slot for p in d.places}
        if sum(p.full for p in d.places) == d.cls.R - 1:
            return None  # the last place is not full by a rule of its own
        for i in range(d.cls.N):
            k = d.entry - d.cls.bounds[min(d.u[i] + 1, 255)]
            if i not in inside and d.u[i] + 1 < d.theta and 1 <= k <= d.steps:
                break
        else:
            return None
        fake = d.clip(DraftPlace(i - (2 << d.cls.L), k, d.u[i] + 1, d.cls.bounds[d.u[i] + 1], 1, shift=1))
        assert key(d, fake.slot, fake.u, fake.x) == key(d, i, d.u[i], fake.x)
        made_for(d, i, fake)
        d.places = [fake, *d.places[:-1]]
        d.draw()
        d.settle()
        d.x[i] = fake.x
        return [r"order\.f\[0\]\[\d+\]"] if not fake.win and d.threshold >= d.entry else None

    check(tiny, forge)


def test_t_in_another_order(tiny: NoiseSetting) -> None:
    """The same winners, packed in another order: another commitment to T for one and the same set."""
    d = next(requests(tiny))
    one, two, three = d.returned()
    d.stated = [two, one, three]
    assert_only_rule(tiny, d.inputs(), *fractions(tiny.r1cs, r"increasing\.f\[[12]\]\[\d+\]"))
