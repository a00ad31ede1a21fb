# SPDX-License-Identifier: GPL-3.0-or-later
"""Every float of the accountants lies on the safe side of the number that it stands for, each looked at by itself.

The numbers are made again from the table's integers, in fractions and in decimals of sixty digits.  A whole epsilon
would not show one direction that is wrong: the slack of another one covers it.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterator
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

from ragseal.accounting import audit, pld, topk
from ragseal.accounting.pld import ComposedLoss, LossAtoms
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import NoiseTable, build_table
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import GAUSSIAN, UNIFORM_BITS

pytestmark = pytest.mark.slow

TABLE = build_table(GAUSSIAN)
STEPS: NoiseClass = load_classes()["noise-small-gaussian-50"]
TOTAL = 1 << UNIFORM_BITS


def tiny(*weights: int) -> NoiseTable:
    unit = TOTAL // (weights[0] + 2 * sum(weights[1:]))
    rest = [p * unit for p in weights[1:]]
    return NoiseTable(GAUSSIAN, (TOTAL - 2 * sum(rest), *rest))


TINY = (tiny(6, 4, 1), tiny(40, 30, 16, 6, 2), tiny(1, 1, 1))


@pytest.fixture(autouse=True)
def _sixty_digits() -> Iterator[None]:
    with localcontext() as context:
        context.prec = 60
        yield


def dec(x: Fraction | float) -> Decimal:
    exact = Fraction(x)
    return Decimal(exact.numerator) / Decimal(exact.denominator)


def reach(table: NoiseTable, theta: int) -> Fraction:
    """P(z >= theta)."""
    return Fraction(table.tail(theta - 1), table.total)


def curve(losses: list[tuple[Decimal, Decimal]], epsilon: Decimal) -> Decimal:
    """Sum of mass (1 - e^(epsilon - loss)) over the losses above epsilon."""
    return sum((m * (1 - (epsilon - loss).exp()) for loss, m in losses if loss > epsilon), Decimal(0))


def pairs(atoms: LossAtoms) -> list[tuple[Decimal, Decimal]]:
    return [(dec(loss), dec(m)) for loss, m in zip(atoms.loss.tolist(), atoms.mass.tolist(), strict=True)]


# --- one query -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("shift", [1, 512, 4000, 10752])
def test_losses_and_masses_of_one_query_are_no_smaller_than_the_tables(shift: int) -> None:
    logs = [Decimal(p).ln() for p in TABLE.half]
    both = [x for x in range(-6000, 18000) if TABLE.mass(x - shift) and TABLE.mass(x)]
    atoms = pld.loss_atoms(TABLE, shift)
    assert len(both) == atoms.loss.size
    for x, loss, mass in zip(both, atoms.loss.tolist(), atoms.mass.tolist(), strict=True):
        exact = logs[abs(x - shift)] - logs[abs(x)]
        assert exact <= dec(loss) <= exact + Decimal("2e-12")
        assert Fraction(TABLE.mass(x - shift), TOTAL) <= Fraction(mass)


@pytest.mark.parametrize(("shift", "n"), [(1, 1), (512, 16), (3600, 30), (5376, 7), (10752, 2)])
def test_the_mass_of_infinite_losses_is_no_smaller_than_it_is(shift: int, n: int) -> None:
    exact = 1 - (1 - Fraction(TABLE.tail(TABLE.cut - shift), TOTAL)) ** n
    units, mass = pld._exact_infinite_mass(TABLE, shift, n)
    assert exact <= Fraction(units, 1 << 1024) <= exact + Fraction(8 * n, 1 << 1024)
    assert exact <= Fraction(mass) <= exact * (1 + Fraction(1, 1 << 51))


def test_a_number_of_queries_whose_infinite_losses_are_delta_itself_is_too_large() -> None:
    delta = pld.infinite_loss_mass(TABLE, 3600, 3)
    assert pld.largest_finite_n(TABLE, 3600, delta) == 2
    assert pld.largest_finite_n(TABLE, 3600, math.nextafter(delta, 1)) == 3
    assert audit.full_bound(TABLE, 3600, 3, delta).epsilon == math.inf
    assert topk.topk_epsilon(TABLE, N=126, K=3, shift=3600, n=3, delta=delta).best == math.inf


@pytest.mark.parametrize(("shift", "n", "delta"), [(1, 1, 1e-3), (512, 50, 1e-6), (2048, 3, 1e-9), (4000, 2, 0.3)])
def test_the_pure_bound_gives_up_no_more_than_delta(shift: int, n: int, delta: float) -> None:
    last = min(x for x in range(-6000, 18000) if n * Fraction(TABLE.tail(x - shift), TOTAL) <= Fraction(delta))
    exact = n * (Decimal(TABLE.mass(last - shift)).ln() - Decimal(TABLE.mass(last)).ln())
    assert exact <= dec(pld.truncated_pure_epsilon(TABLE, shift, n, delta)) <= exact + Decimal("1e-9")


def test_no_pure_bound_follows_where_too_much_lies_beyond_the_table() -> None:
    once = TABLE.tail(TABLE.cut - 3600) / TOTAL
    assert pld.truncated_pure_epsilon(TABLE, 3600, 1, once * 0.999) == math.inf
    assert pld.truncated_pure_epsilon(TABLE, 3600, 1, once * 1.001) < math.inf
    assert pld.truncated_pure_epsilon(TABLE, 3600, 2, once * 1.999) == math.inf


# --- composition -----------------------------------------------------------------------------------------------------


def test_a_loss_between_two_points_of_the_grid_tells_no_less_on_both() -> None:
    """Steps and losses are binary fractions, whose floor and remainder are exact: what is looked at are the masses."""
    random = np.random.default_rng(3)
    for mass, exponent, place in zip(
        random.random(80), random.integers(1, 9, 80), random.integers(-300, 300, 80), strict=True
    ):
        step, within = 2.0**-exponent, random.choice([0.0, 0.25, 0.5, 0.75, 2.0**-20])
        loss = (place + within) * step
        one = LossAtoms(np.array([loss]), np.array([mass]))
        index, masses = pld._split_onto_grid(one, step)
        grid = [(dec(i * step), dec(m)) for i, m in zip(index.tolist(), masses.tolist(), strict=True)]
        assert index.tolist() == [place, place + 1]
        assert dec(mass) <= sum(m for _, m in grid) <= dec(mass) * (1 + Decimal("1e-14"))
        for epsilon in (loss + step * x for x in (-2.0, -1.0, -within, -0.125, 0.0, 0.125, 1 - within)):
            assert curve(grid, dec(epsilon)) >= curve(pairs(one), dec(epsilon))


def composed(width: float = 4.0, first: float = 0.25) -> tuple[ComposedLoss, dict[Fraction, Fraction]]:
    """Five losses on the grid's points, three queries; and the probability of every sum of them, exactly."""
    loss, mass = [-0.5, -0.125, 0.0, 0.25, 0.5], [0.2, 0.3, 1e-7, 0.49, 1e-9]
    atoms = LossAtoms(np.array(loss), np.array(mass))
    found = pld._compose_on_grid(atoms, 3, 2.0, first, width, 10, 1e-30)
    exact: dict[Fraction, Fraction] = {}
    for some in itertools.product(zip(map(Fraction, loss), map(Fraction, mass), strict=True), repeat=3):
        at = sum((one[0] for one in some), Fraction(0))
        exact[at] = exact.get(at, Fraction(0)) + math.prod((one[1] for one in some), start=Fraction(1))
    return found, exact


def test_no_composed_loss_is_rarer_than_it_is() -> None:
    """The transform's own error is absolute: what is rare would be lost in it."""
    found, exact = composed()
    at = {
        Fraction(loss): Fraction(weight)
        for loss, weight in zip(found.loss.tolist(), found.weight.tolist(), strict=True)
    }
    assert min(exact.values()) < Fraction(1, 10**20)
    for loss, mass in exact.items():
        if loss in at:
            assert mass <= at[loss] <= mass * (1 + Fraction(1, 10**6)) + Fraction(1, 10**11)
    assert sum(loss in at for loss in exact) > 10
    assert all(weight > 0 for weight in at.values())


@pytest.mark.parametrize("width", [0.5, 1.0, 2.0])
def test_what_lies_above_the_window_is_no_rarer_than_it_is(width: float) -> None:
    found, exact = composed(width)
    above = sum(mass for loss, mass in exact.items() if loss > Fraction(float(found.loss[-1])))
    assert 0 < above <= Fraction(found.above)


def test_every_part_of_delta_counts_and_epsilon_is_one_that_delta_allows() -> None:
    loss, weight = np.linspace(0.01, 2, 200), np.full(200, 1e-3)
    found = ComposedLoss(loss, weight, 0.01, 0.02)
    for epsilon in (0.0, 0.505, 1.0, 1.9):
        terms = [(dec(x), dec(1e-3)) for x in loss.tolist()]
        exact = curve(terms, dec(epsilon)) + dec(0.01) + dec(0.02)
        assert exact <= dec(found.delta(epsilon)) <= exact * (1 + Decimal("1e-9"))
    for delta in (0.031, 0.05, 0.1):
        epsilon = found.epsilon(delta)
        assert found.delta(epsilon) <= delta < found.delta(epsilon * (1 - 1e-9))
    assert found.epsilon(0.0299) == math.inf
    assert ComposedLoss(loss, weight, 0.0, 0.0).epsilon(0.9) == loss[0]
    assert ComposedLoss(loss - 3, weight, 0.0, 0.0).epsilon(1e-3) == math.inf


# --- the released slots ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("table", "N", "K"), [(TINY[0], 40, 3), (TINY[1], 25, 1), (TABLE, 126, 3)])
def test_the_threshold_is_no_later_than_it_is(table: NoiseTable, N: int, K: int) -> None:
    law = topk.threshold_law(table, N, K)
    values = range(-table.cut - 1, table.cut + 1)
    chances = []
    for x, units in zip(values, law, strict=True):
        if table is TABLE and x % 150:
            continue
        above = Fraction(table.tail(x), TOTAL)
        exact = sum(math.comb(N - 1, j) * above**j * (1 - above) ** (N - 1 - j) for j in range(K))
        assert exact <= Fraction(units, 1 << 1024) <= exact + Fraction(1, 1 << 900)
        chances.append(exact)
    if table is not TABLE:
        for before, at, (start, stop, found) in zip(
            chances, chances[1:], topk._threshold_cells(table, N, K), strict=False
        ):
            assert start == stop
            assert at - before <= Fraction(found)


def test_the_mirrored_half_of_a_pair_is_no_smaller_than_the_other_one() -> None:
    """Losses come in raised by the slack; what they were before is what is mirrored."""
    random = np.random.default_rng(5)
    loss, mass = random.random(50) * 20, random.random(50) / 200
    atoms = topk._symmetric(loss, mass, 0.125)
    for i in range(50):
        true = dec(loss[i]) - dec(topk._SLACK)
        assert dec(atoms.loss[50 + i]) >= -true
        assert dec(atoms.mass[50 + i]) >= dec(mass[i]) * (-true).exp()
    assert atoms.loss[100] == 0
    assert sum(map(Fraction, atoms.mass.tolist())) >= Fraction(7, 8)
    assert topk._symmetric(loss, mass * 10, 0.5).mass[100] > 0  # more than all: nothing is taken away


@pytest.mark.parametrize("table", TINY)
@pytest.mark.parametrize(("N", "K", "shift"), [(3, 1, 1), (9, 4, 2), (40, 3, 3)])
def test_masses_of_theorem_a_are_no_smaller_than_the_theorems(table: NoiseTable, N: int, K: int, shift: int) -> None:
    law = topk.threshold_law(table, N, K)
    atoms = topk.ordered_atoms(table, shift, N, K)
    exact = [
        Fraction(law[x + table.cut + 1], 1 << 1024) * Fraction(table.mass(x - shift), TOTAL)
        for x, loss in zip(range(shift - table.cut, table.cut + 1), pld.loss_atoms(table, shift).loss, strict=True)
        if loss > 0
    ]
    assert len(exact) == (atoms.mass.size - 1) // 2 >= sum(p > q for p, q in itertools.pairwise(table.half)) // shift
    assert all(one <= Fraction(mass) for one, mass in zip(exact, atoms.mass.tolist(), strict=False))


@pytest.mark.parametrize("table", TINY)
@pytest.mark.parametrize(("N", "K", "shift"), [(3, 1, 1), (4, 2, 2), (6, 5, 3)])
def test_the_curve_of_theorem_b_is_no_smaller_than_the_theorems(table: NoiseTable, N: int, K: int, shift: int) -> None:
    """S(g) by its definition: both intervals, every threshold in them."""
    law = topk.threshold_law(table, N, K)
    epsilons, deltas = topk.set_curve(table, shift, N, K)
    atoms, endless = topk.curve_atoms(epsilons, deltas)
    losses = pairs(atoms)
    for k in (0, 1, 700, 2048, 4095, 5000, 7001, 8190, 8191):
        epsilon = dec(epsilons[k])
        g, exact = epsilon.exp(), Decimal(0)
        for tau in range(-table.cut, table.cut + 1):
            chance = Fraction(law[tau + table.cut + 1] - law[tau + table.cut], 1 << 1024)
            some = (*range(tau, tau + shift + 2), *range(-tau, shift + 2 - tau))
            best = max(dec(reach(table, y - shift)) - g * dec(reach(table, y)) for y in some)
            exact += dec(chance) * max(best, Decimal(0))
        assert exact <= dec(deltas[k]) <= exact * (1 + Decimal("1e-9")) + Decimal("1e-11")
        assert dec(deltas[k]) <= curve(losses, epsilon) + dec(endless)


@pytest.mark.parametrize("table", TINY)
@pytest.mark.parametrize("order", [1.0001, 1.5, 8.0, 900.0])
def test_moments_of_theorem_b_are_no_smaller_than_the_theorems(table: NoiseTable, order: float) -> None:
    N, K, shift = 4, 2, 2
    law, C, a = topk.threshold_law(table, N, K), table.cut, dec(order)
    lost = Fraction(table.tail(C - shift), TOTAL)

    def moment(p: tuple[Fraction, Fraction], q: tuple[Fraction, Fraction]) -> Decimal:
        return sum(
            ((a * dec(x).ln() + (1 - a) * dec(y).ln()).exp() for x, y in zip(p, q, strict=True) if x > 0), Decimal(0)
        )

    total = Decimal(0)
    for tau in range(-C, C + 1):
        worst = Decimal(0)
        for theta in range(tau, tau + shift + 2):
            plain, raised = reach(table, theta), reach(table, theta - shift)
            up = moment((max(Fraction(0), raised - lost), 1 - raised), (plain, 1 - plain))
            down = moment((max(Fraction(0), 1 - plain - lost), plain), (1 - raised, raised))
            worst = max(worst, up, down)
        total += dec(Fraction(law[tau + C + 1] - law[tau + C], 1 << 1024)) * worst
    channel = topk.SetRenyi(table, shift, N, K)
    found = channel.log_moment(order)
    assert total.ln() <= dec(found) <= total.ln() + dec(order) * Decimal("1.1e-11") + Decimal("2e-12")
    for n, delta in ((1, 1e-2), (50, 1e-9)):
        exact = (n * dec(found) - dec(delta).ln() - a.ln()) / (a - 1) + (1 - 1 / a).ln()
        assert (
            exact <= dec(channel.at(order, n, delta)) <= exact + exact.copy_abs() * Decimal("2e-12") + 20 * (exact < 0)
        )


def test_what_infinite_losses_take_is_no_other_losss() -> None:
    """Near the end of the table they take half of delta, which the moments must not spend again."""
    n = 2
    delta = 2 * pld.infinite_loss_mass(TABLE, 3344, n)
    found = topk.topk_epsilon(TABLE, N=126, K=3, shift=3344, n=n, delta=delta)
    channel = topk.set_renyi(TABLE, 3344, 126, 3)
    assert found.set_renyi == channel.at(found.order, n, delta / 2)
    N, K, n = 32936, 1, 20  # so many slots that the threshold is near the table's end
    infinite = pld.infinite_loss_mass(TABLE, 3344, n)
    delta = 1.05 * infinite
    found = topk.topk_epsilon(TABLE, N=N, K=K, shift=3344, n=n, delta=delta)
    atoms, once = topk.set_atoms(TABLE, 3344, N, K)
    ordered = topk.ordered_atoms(TABLE, 3344, N, K)
    assert delta / 4 < n * once < infinite
    for epsilon, alone, lost in ((found.set_curve, atoms, n * once), (found.ordered, ordered, infinite)):
        left = delta - lost
        assert epsilon >= pld.compose_atoms(alone, n, left, 0.0).epsilon(left) * (1 - 1e-9)


# --- the audit's ------------------------------------------------------------------------------------------------------


def test_the_larger_route_counts_and_a_bound_that_does_not_hold_never() -> None:
    assert audit.Bound("x", 1.0, 2.0, True).epsilon == audit.Bound("x", 2.0, 1.0, True).epsilon == 2.0
    full, less = audit.Bound("full", 5.0, 5.0, True), audit.Bound("less", 1.0, 1.0, True)
    assert audit.reported_bound((full, less)) == less
    assert audit.reported_bound((full, audit.Bound("less", 1.0, 1.0, False))) == full
    assert audit.reported_bound((full, audit.Bound("less", 1.0, 1.0, True, "unfit"))) == full
    assert audit._agree(1.0, 1.0009, 0.0, 1e-6)
    assert not audit._agree(1.0, 1.0011, 1e-10, 1e-6)
    assert audit._agree(1.0, 1.5, 1.1e-9, 1e-6)


@pytest.mark.parametrize("chunks", [1, 2])
def test_noise_has_what_refusals_leave_of_delta_and_no_more(chunks: int) -> None:
    """Whole steps have no bias, so that nothing else is taken."""
    delta, k_max, n_max = Fraction(1, 3 * 10**9), 3, 20
    report = audit.epsilon_audit(
        STEPS,
        TABLE,
        scores=audit.ScorePolicy(gain=1 << STEPS.c, lo=0, hi=16),
        k_max=k_max,
        n_max=n_max,
        delta=delta,
        chunks=chunks,
    )
    inside = Fraction(STEPS.grid, 1 << STEPS.m)
    others = STEPS.N - chunks
    grid = sum(math.comb(others, j) * inside**j * (1 - inside) ** (others - j) for j in range(STEPS.R))
    exact = delta - k_max * n_max * (STEPS.a**chunks / (1 << 64) + grid)
    assert exact * (1 - Fraction(1, 1 << 52)) <= Fraction(report.delta.table) <= exact
    assert report.shift == 16
    assert report.compositions == 60 * chunks
    assert report.bounds[0] == audit.full_bound(TABLE, 16, 60 * chunks, report.delta.table)
    assert report.delta.overflow == float(60 * STEPS.a**chunks / (1 << 64))
    assert report.delta.grid == pytest.approx(float(60 * grid))
    if chunks == 1:
        assert report.bounds[1:] == audit.topk_bounds(TABLE, STEPS.N, STEPS.K, 16, 60, report.delta.table)
    assert (report.accountant == audit.FULL) is (chunks > 1)
    assert [bound.unfit != "" for bound in report.bounds] == [False, *[chunks > 1] * 3]
    assert report.n_max_finite == pld.largest_finite_n(TABLE, 16, report.delta.table) // chunks
    alone = audit.audited_bound(STEPS, TABLE, 16, n_max, chunks, delta)
    assert report.epsilon_account == alone.epsilon < report.epsilon


def test_a_documents_slots_count_for_what_is_accounted_at_all() -> None:
    scores = audit.ScorePolicy(gain=1 << STEPS.c, lo=0, hi=2)
    for most, chunks in ((audit.MOST_QUERIES + 1, 1), (audit.MOST_QUERIES // 2 + 1, 2)):
        with pytest.raises(PolicyError, match="beyond what is accounted"):
            audit.epsilon_audit(
                STEPS, TABLE, scores=scores, k_max=1, n_max=most, delta=Fraction(1, 10**6), chunks=chunks
            )
