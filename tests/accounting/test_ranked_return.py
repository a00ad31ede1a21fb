# SPDX-License-Identifier: GPL-3.0-or-later
"""Return of the ranked laws: H steps of a scale of 16 are H / 16 nats, ties or not (docs/proofs/ranked.md)."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from ragseal.accounting.delivered import certified_return, ideal_return
from ragseal.kernel.noise import NoiseTable, build_table
from ragseal.kernel.params import RANKED_LAWS, RANKED_ONE_SIDED

ETA = Fraction(2, 1 << 45)


@pytest.mark.parametrize("law", RANKED_LAWS)
@pytest.mark.parametrize("nats", [2, 6, 8])
def test_a_return_is_the_windows_width(law: str, nats: int) -> None:
    R, delta = certified_return(build_table(law), 16 * nats, Fraction(1, 1 << 80), ETA)
    assert nats <= R <= nats + 2e-6
    assert delta <= Fraction(1, 1 << 85)
    assert ideal_return(law, 16 * nats, 2.0**-80) == pytest.approx(nats, abs=1e-6)


def test_ties_cost_nothing() -> None:
    """Exact, three slots on one lattice: how often a slot is among the best two, ties to the smaller slot.

    The noise is one-sided with ratio 1/2 a step, so H steps have the ratio 2^H, and no place among the ids exceeds it
    but by the table's last masses.
    """
    cut, H = 11, 2
    masses = [1 << (111 - x) for x in range(cut)]
    table = NoiseTable(RANKED_ONE_SIDED, (*masses, (1 << 112) - sum(masses)))
    tail = table.tail(cut - H)
    ratios = []
    for place, *others in itertools.product(range(3), range(H + 1), range(H + 1)):
        chances = []
        for s in (0, H):
            scores = [*others[:place], s, *others[place:]]
            chance = 0
            for noise in itertools.product(range(cut + 1), repeat=3):
                best = sorted((-(x + z), i) for i, (x, z) in enumerate(zip(scores, noise, strict=True)))[:2]
                if place in (best[0][1], best[1][1]):
                    chance += table.mass(noise[0]) * table.mass(noise[1]) * table.mass(noise[2])
            chances.append(chance)
        assert chances[1] <= (chances[0] << H) + tail * table.total**2
        ratios.append(Fraction(chances[1], chances[0]))
    assert max(ratios) > Fraction(3, 2)
