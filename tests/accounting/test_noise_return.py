# SPDX-License-Identifier: GPL-3.0-or-later
"""Return of the noise classes: H steps of a scale of 16 are H / 16 nats, ties or not (docs/proofs/noise.md)."""

from __future__ import annotations

import itertools
from fractions import Fraction

import pytest

from ragseal.accounting.delivered import (
    CoinThrows,
    Delivered,
    certified_return,
    ideal_return,
    largest_shift,
    until_delivered,
)
from ragseal.accounting.delivered_period import delivered_period
from ragseal.accounting.spent import Spent
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.noise import NoiseTable, build_table
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.overflow import few_exceed_bound
from ragseal.kernel.params import GEOMETRIC, ONE_SIDED
from ragseal.kernel.policy import UNTIL_DELIVERED
from tests.simulator import policy as a_policy

DELTA = Fraction(1, 10**6)
CLASSES: dict[str, NoiseClass] = load_classes()
NAMES = ["noise-tiny-two", "noise-tiny-one", "noise-small-one-50"]


def account(cls: NoiseClass, shift: int = 96, chunks: int = 1, queries: int = 1000) -> Delivered:
    return until_delivered(
        cls,
        cls.table,
        shift=shift,
        coins=CoinThrows(hidden=13, periods=1),
        chunks=chunks,
        queries=queries,
        delta=DELTA,
        n_max=25,
    )


@pytest.mark.parametrize("law", [GEOMETRIC, ONE_SIDED])
@pytest.mark.parametrize("nats", [2, 6, 8])
def test_a_return_is_the_windows_width(law: str, nats: int) -> None:
    R, delta = certified_return(build_table(law), 16 * nats, Fraction(1, 1 << 80))
    assert nats <= R <= nats + 2e-6
    assert delta <= Fraction(1, 1 << 80)
    assert ideal_return(law, 16 * nats, 2.0**-80) == pytest.approx(nats, abs=1e-6)


def test_ties_cost_nothing() -> None:
    """Exact, three slots on one lattice: how often a slot is among the best two, ties to the smaller slot.

    The noise is one-sided with ratio 1/2 a step, so H steps have the ratio 2^H, and no place among the ids exceeds it
    but by the table's last masses.
    """
    cut, H = 11, 2
    masses = [1 << (111 - x) for x in range(cut)]
    table = NoiseTable(ONE_SIDED, (*masses, (1 << 112) - sum(masses)))
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


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("chunks", [1, 3])
def test_the_whole_account_of_a_noise_class(name: str, chunks: int) -> None:
    """Exact bits, so that R is the shift itself; refusals are overflow and grid, and nothing for places."""
    cls, n = CLASSES[name], 1000
    found = account(cls, chunks=chunks)
    assert found.returned == 6.0 * chunks
    assert found.epsilon == found.unseen
    assert found.routes.agree
    assert found.items["overflow"] == n / 2**64
    g = few_exceed_bound(cls.N - chunks, cls.R, cls.grid, cls.m)
    assert found.items["grid"] == pytest.approx(float(n * g))
    assert g > few_exceed_bound(cls.N, cls.R, cls.grid, cls.m)
    once = certified_return(cls.table, 96, Fraction(1, 10**12))
    assert found.items["law"] == pytest.approx(n * chunks * float(once[1]))
    assert found.delta == pytest.approx(sum(found.items.values()))


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("target", [0.05, 1.0, 6.0, 6.05])
def test_the_largest_shift_of_a_return(name: str, target: float) -> None:
    cls = CLASSES[name]
    found = largest_shift(cls, cls.table, target=target, chunks=1, queries=1000, delta=DELTA)
    assert found == int(16 * target)
    assert found == 0 or account(cls, found).returned <= target
    assert account(cls, found + 1).returned > target


@pytest.mark.parametrize("budget", [1e-3, 1e-9])
@pytest.mark.parametrize(("law", "shift"), [("geometric-16", 32), ("geometric-16", 96)])
def test_second_implementation(law: str, shift: int, budget: float) -> None:
    module = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    other = module.from_discrete_laplace_mechanism(
        1 / 16, sensitivity=shift, value_discretization_interval=1e-4, use_connect_dots=True
    )
    R, _ = certified_return(build_table(law), shift, Fraction(budget))
    assert pytest.approx(other.get_epsilon_for_delta(budget), rel=1e-3) == R


def test_a_period_of_windows_counts_whole_steps() -> None:
    """The shift of a policy is its window's whole steps, and the largest of a period's windows counts."""
    cls = CLASSES["noise-tiny-one"]

    def window(name: str, width: int) -> Spent:
        policy = a_policy(
            class_name=cls.name, claim=UNTIL_DELIVERED, hidden=13, lo=0, hi=width, gain=1, n_max=25, gate=False
        )
        return Spent(name, policy, cls, 500, name.encode())

    found = delivered_period([window("a", 32 << cls.c), window("b", (97 << cls.c) - 1)], DELTA)
    assert found.returned == 6.0
    assert found.periods == 2
