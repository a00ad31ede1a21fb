# SPDX-License-Identifier: GPL-3.0-or-later
"""The accounting of claim "until-delivered": against definitions in fractions, closed forms, and dp-accounting."""

from __future__ import annotations

import math
from dataclasses import replace
from decimal import Decimal, localcontext
from fractions import Fraction
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragseal.accounting import delivered
from ragseal.accounting.delivered import (
    CoinThrows,
    Delivered,
    certified_return,
    certified_unseen,
    fewest_hidden,
    ideal_return,
    largest_shift,
    together,
    until_delivered,
)
from ragseal.accounting.guess import presence_odds
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import TOTAL, NoiseTable, build_table
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.overflow import few_exceed_bound

pytestmark = pytest.mark.slow

DELTA = Fraction(1, 10**6)
GEOMETRIC = NoiseClass("test-geo", "geometric-16", 5184, 10, 46, 12, 16, 14, Fraction(3, 2), Fraction(1, 2), 1)
GAUSSIAN = replace(GEOMETRIC, name="test", law="gaussian-128")


def tiny(weights: tuple[int, ...]) -> NoiseTable:
    unit = TOTAL // (weights[0] + 2 * sum(weights[1:]))
    rest = [p * unit for p in weights[1:]]
    return NoiseTable("geometric-16", (TOTAL - 2 * sum(rest), *rest))


def account(shift: int = 96, cls: NoiseClass = GEOMETRIC, **changes: int | Fraction) -> Delivered:
    coins = CoinThrows(changes.pop("hidden", 13), changes.pop("periods", 1))  # type: ignore[arg-type]
    values: dict[str, int | Fraction] = {"chunks": 1, "queries": 30, "delta": DELTA, "n_max": 10}
    return until_delivered(cls, build_table(cls.law), shift=shift, coins=coins, **(values | changes))  # type: ignore[arg-type]


# --- return ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("weights", [(6, 4, 1), (10, 8, 4, 1), (8, 4, 2, 1), (1, 1, 1)])
@pytest.mark.parametrize("budget", [Fraction(1, 3), Fraction(1, 10), Fraction(1, 50)])
@pytest.mark.parametrize("shift", [1, 2])
def test_return_by_definition(weights: tuple[int, ...], budget: Fraction, shift: int) -> None:
    """P(z >= t - shift) <= e^R P(z >= t) + budget for every t; and not for a millionth less, where R is above 0."""
    table = tiny(weights)

    def holds(R: float) -> bool:
        reach = {t: float(Fraction(table.tail(t - 1), TOTAL)) for t in range(-20, 21)}
        return all(reach[t - shift] <= math.exp(R) * reach[t] + float(budget) + 1e-12 for t in range(-10, 21))

    R, lost = certified_return(table, shift, budget)
    if table.tail(table.cut - shift) > budget * TOTAL:
        assert (R, lost) == (math.inf, 0)
        return
    assert holds(R)
    assert lost <= budget
    assert R == 0 or not holds(R - 1.1e-6)
    worst = max(Fraction(table.tail(t - shift - 1)) - Fraction(math.exp(R)) * table.tail(t - 1) for t in range(-10, 21))
    assert float(lost) == pytest.approx(max(0.0, float(worst / TOTAL)), abs=1e-12)  # all events, not tails alone


@pytest.mark.parametrize(
    "table", [build_table("geometric-16"), build_table("one-sided-16")], ids=["two-sided", "one-sided-16"]
)
@pytest.mark.parametrize("shift", [1, 15, 48, 96, 100, 160])
def test_a_geometric_return_is_the_shift_in_nats(table: NoiseTable, shift: int) -> None:
    grid = math.ceil(shift / 16 * 10**6) / 10**6
    for budget in (Fraction(1, 10**8), Fraction(1, 10**14), Fraction(1, 10**18)):
        R, lost = certified_return(table, shift, budget)
        assert grid <= R <= grid + 1.01e-6
        assert lost <= budget
        assert ideal_return(table.law, shift, float(budget)) == pytest.approx(shift / 16, abs=2e-8)


def test_the_tails_that_are_left_to_delta() -> None:
    """A millionth above 10 nats: the end of the table is not all of it, for its last entries are rounded."""
    for table, low, high in ((build_table("geometric-16"), -84, -80), (build_table("one-sided-16"), -84, -80)):
        lost = delivered._law_delta(table, 160, 10_000_001)
        assert low < math.log2(lost) < high
        assert delivered._infinite_mass(table, 160) < lost


@pytest.mark.parametrize(("law", "row"), [("geometric-16", "two-sided"), ("one-sided-16", "one-sided")])
def test_the_proofs_table_is_that_of_the_kernels_tables(law: str, row: str) -> None:
    """By definition, in decimals: the sum over all values of what is gained at R = shift / 16."""
    text = (Path(__file__).parents[2] / "docs" / "proofs" / "until-delivered.md").read_text(encoding="utf-8")
    (line,) = [line for line in text.splitlines() if line.startswith(f"| log2 delta_R, {row} |")]
    table, found = build_table(law), []
    with localcontext() as context:
        context.prec = 60
        for R in (4, 6, 8, 10):
            values = range(16 * R - table.cut, 16 * R + table.cut + 1)
            gains = (table.mass(x - 16 * R) - Decimal(R).exp() * table.mass(x) for x in values)
            found.append(float((sum(gain for gain in gains if gain > 0) / TOTAL).ln() / Decimal(2).ln()))
    assert [float(cell) for cell in line.split("|")[2:-1]] == pytest.approx(found, abs=0.05)


def test_no_infinite_loss_is_overlooked() -> None:
    table = build_table("geometric-16")
    shift = 1050
    end = Fraction(table.tail(table.cut - shift), TOTAL)
    assert certified_return(table, shift, end / 2) == (math.inf, 0)
    assert certified_return(table, shift, end * 2)[0] < 78


def test_a_sharp_return_does_not_depend_on_the_queries() -> None:
    assert account(queries=10**9).returned == account(queries=30).returned == 6.0


@pytest.mark.parametrize("budget", [1e-3, 1e-8, 1e-14])
@pytest.mark.parametrize(
    ("law", "shift"),
    [
        ("geometric-16", 32),
        ("geometric-16", 96),
        ("gaussian-128", 32),
        ("gaussian-128", 96),
    ],
)
def test_second_implementation(law: str, shift: int, budget: float) -> None:
    module = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    make = (
        (module.from_discrete_laplace_mechanism, 1 / 16) if law == "geometric-16"
        else (module.from_discrete_gaussian_mechanism, 128)
    )  # fmt: skip
    other = make[0](make[1], sensitivity=shift, value_discretization_interval=1e-4, use_connect_dots=True)
    R, _ = certified_return(build_table(law), shift, Fraction(budget))
    assert pytest.approx(other.get_epsilon_for_delta(budget), rel=1e-3) == R


@pytest.mark.parametrize("budget", [0.2, 1e-3, 1e-9])
@pytest.mark.parametrize("shift", [4, 48, 96])
def test_second_implementation_of_the_one_sided_law(shift: int, budget: float) -> None:
    module = pytest.importorskip("dp_accounting.pld.privacy_loss_distribution")
    values = range(750)
    plain = {x: math.log(build_table("one-sided-16").mass(x) / TOTAL) for x in values}
    raised = {x + shift: p for x, p in plain.items()}
    other = module.from_two_probability_mass_functions(
        plain, raised, pessimistic_estimate=True, value_discretization_interval=1e-4, symmetric=False
    )
    ahead = other._pmf_remove
    R, _ = certified_return(build_table("one-sided-16"), shift, Fraction(budget))
    assert pytest.approx(ahead.get_epsilon_for_delta(budget), rel=1e-3) == R
    assert ideal_return("one-sided-16", shift, budget) == pytest.approx(R, abs=1.1e-6)


def test_a_gaussian_return_depends_on_the_queries() -> None:
    few, many = account(cls=GAUSSIAN), account(cls=GAUSSIAN, queries=10**6)
    assert few.routes.agree
    assert many.routes.agree
    assert 4.0 < few.returned < 4.1 < 5.3 < many.returned < 5.4
    assert few.items["law"] == pytest.approx(1e-6, rel=1e-4)


def test_a_table_that_is_not_its_law_makes_the_routes_disagree() -> None:
    """T1 to T4 hold for it; its sigma is 125."""
    weights = [math.exp(-x * x / (2 * 125.0**2)) for x in range(1300)]
    total = weights[0] + 2 * sum(weights[1:])
    half = [max(1, round(Fraction(w / total) * TOTAL)) for w in weights]
    for x in range(1, len(half) - 1):
        half[x + 1] = min(half[x + 1], half[x] * half[x] // half[x - 1])
    half[0] = TOTAL - 2 * sum(half[1:])
    found = until_delivered(
        GAUSSIAN,
        NoiseTable("gaussian-128", tuple(half)),
        shift=96,
        coins=CoinThrows(hidden=13, periods=1),
        chunks=1,
        queries=30,
        delta=DELTA,
        n_max=1,
    )
    assert not found.routes.agree
    assert found.returned == found.routes.returned[0] > 1.02 * found.routes.returned[1]
    assert account(cls=GAUSSIAN).routes.agree


@given(st.integers(1, 400), st.integers(1, 400), st.sampled_from(["geometric-16", "one-sided-16", "gaussian-128"]))
def test_ideal_returns_grow_with_the_shift_and_fall_with_delta(a: int, b: int, law: str) -> None:
    low, high = sorted((a, b))
    assert ideal_return(law, low, 1e-6) <= ideal_return(law, high, 1e-6) + 1e-12
    assert ideal_return(law, a, 1e-2) <= ideal_return(law, a, 1e-6) + 1e-12


# --- unseen ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("hidden", [1, 2, 3, 13, 21, 34, 94, 128, 200, 254, 255])
def test_unseen_is_rounded_upwards_and_by_no_more_than_a_unit(hidden: int) -> None:
    with localcontext() as context:
        context.prec = 60
        for count in (1, 3, 40):
            exact = count * (Decimal(256) / hidden).ln()
            found = certified_unseen(hidden, 1, count)
            assert exact <= Decimal(found)
            assert Decimal(math.nextafter(found, 0.0)) < exact
            assert certified_unseen(hidden, count, 1) == found


def test_coins_and_slots_add_up() -> None:
    one = account()
    assert one.unseen == one.unseen_once == pytest.approx(2.9802280870)
    three = account(periods=3)
    assert three.unseen == pytest.approx(3 * one.unseen)
    assert three.unseen_once == one.unseen
    assert three.returned == one.returned
    two = account(chunks=2, periods=3)
    assert two.unseen == pytest.approx(6 * one.unseen)
    assert two.unseen_once == pytest.approx(2 * one.unseen)
    assert two.returned == pytest.approx(2 * one.returned, abs=3e-6)
    none = account(periods=0)
    assert (none.unseen, none.epsilon) == (0.0, 0.0)
    assert none.routes.agree


def test_the_fewest_hidden_slots_of_a_target() -> None:
    found = {target: fewest_hidden(target, chunks=1, periods=1) for target in (8.0, 5.0, 4.0, 3.0, 2.0, 1.0, 0.001)}
    assert found == {8.0: 1, 5.0: 2, 4.0: 5, 3.0: 13, 2.0: 35, 1.0: 95, 0.001: 0}
    assert certified_unseen(12, 1, 1) > 3 >= certified_unseen(13, 1, 1)
    assert fewest_hidden(6.0, chunks=2, periods=1) == fewest_hidden(6.0, chunks=1, periods=2) == 13


# --- the whole -------------------------------------------------------------------------------------------------------


def test_epsilon_is_unseen_whatever_the_return_is() -> None:
    assert account().returned == 6.0 > account().unseen == account().epsilon
    assert account(shift=32).epsilon == account().unseen
    assert account(shift=32).returned == 2.0
    assert account().hidden_share == 13 / 256
    assert account().chance == 0
    assert all(account(shift=s).routes.agree for s in (1, 32, 96, 128))


def test_the_one_sided_law_in_the_whole_account() -> None:
    found = account(cls=replace(GEOMETRIC, law="one-sided-16"))
    assert (found.returned, found.epsilon) == (6.0, found.unseen)
    assert found.routes.agree


def test_delta_by_item() -> None:
    found = account(queries=10**6, chunks=2)
    assert found.items["overflow"] == 10**6 / 2**64
    assert found.items["grid"] == pytest.approx(10**6 * float(few_exceed_bound(5182, 46, GEOMETRIC.grid, 12)))
    assert found.delta == pytest.approx(sum(found.items.values()))
    assert found.delta <= float(DELTA)
    once = certified_return(build_table("geometric-16"), 192, Fraction(1, 10**13))
    assert found.items["law"] == pytest.approx(2 * 10**6 * float(once[1]))
    gaussian = account(cls=GAUSSIAN, queries=10**6, chunks=2)
    assert 0.999e-6 < gaussian.delta <= 1e-6


def test_a_delta_that_refusals_use_up_bounds_no_return() -> None:
    for delta in (Fraction(1, 2**64), Fraction(1, 10**18)):
        found = account(delta=delta)
        assert found.returned == found.epsilon == math.inf
        assert found.unseen < 3
        assert not found.bounds_reading
    assert account(delta=Fraction(1, 10**16)).returned <= 6.000001


def test_a_return_bounds_reading_only_below_the_share_that_is_listed() -> None:
    edge = math.log((1 - 13 / 256) * 518.4)
    assert account(shift=int(edge * 16)).bounds_reading
    assert not account(shift=int(edge * 16) + 1).bounds_reading


def test_ids_that_noise_alone_shows() -> None:
    wide = replace(GEOMETRIC, K=50, R=120)
    assert account(cls=wide, n_max=100).listed_by_chance == pytest.approx(0.6207, abs=1e-4)
    assert account(n_max=0).listed_by_chance == 0
    assert account(n_max=10**9).listed_by_chance == 1


@pytest.mark.parametrize("target", [0.03, 1.0, 4.64, 6.0, 6.2499])
@pytest.mark.parametrize("cls", [GEOMETRIC, GAUSSIAN], ids=["geometric-16", "gaussian-128"])
@pytest.mark.parametrize("chunks", [1, 3])
def test_the_largest_shift_of_a_return(target: float, cls: NoiseClass, chunks: int) -> None:
    table = build_table(cls.law)
    found = largest_shift(cls, table, target=target, chunks=chunks, queries=1000, delta=DELTA)
    assert found == 0 or account(found, cls, chunks=chunks, queries=1000).returned <= target
    assert account(found + 1, cls, chunks=chunks, queries=1000).returned > target


def test_the_largest_shift_at_the_ends() -> None:
    table = build_table("geometric-16")
    assert largest_shift(GEOMETRIC, table, target=6, chunks=1, queries=30, delta=DELTA) == 96
    assert largest_shift(GEOMETRIC, table, target=6, chunks=2, queries=30, delta=DELTA) == 48
    assert largest_shift(GEOMETRIC, table, target=0, chunks=1, queries=30, delta=DELTA) == 0
    assert largest_shift(GEOMETRIC, table, target=6, chunks=1, queries=30, delta=Fraction(1, 2**70)) == 0
    last = largest_shift(GEOMETRIC, table, target=math.inf, chunks=1, queries=1, delta=DELTA)
    assert math.isfinite(account(last, queries=1).returned)
    assert math.isinf(account(last + 1, queries=1).returned)


def test_classes_of_a_period_together() -> None:
    a, b = account(delta=DELTA / 2), account(shift=64, cls=GAUSSIAN, hidden=21, periods=2, delta=DELTA / 2)
    both = together([a, b])
    assert both.unseen == pytest.approx(a.unseen + b.unseen)
    assert both.unseen >= a.unseen + b.unseen
    assert both.returned == max(a.returned, b.returned)
    assert both.epsilon == both.unseen
    assert both.delta == pytest.approx(a.delta + b.delta)
    assert both.delta <= float(DELTA)
    assert both.items["law"] == pytest.approx(a.items["law"] + b.items["law"])
    assert (both.periods, both.hidden_share) == (3, 21 / 256)
    assert both.listed_by_chance == pytest.approx(1 - (1 - a.listed_by_chance) ** 2)
    assert together([a]) is a
    lost = account(delta=Fraction(1, 2**70))
    assert together([a, lost]).epsilon == math.inf
    with pytest.raises(PolicyError, match="at least one window"):
        together([])


def test_what_even_odds_become() -> None:
    assert presence_odds(3) == (95.3, 4.7)
    assert presence_odds(2) == (88.1, 11.9)
    assert presence_odds(0) == (50.0, 50.0)
    assert presence_odds(math.inf) == (100.0, 0.0)
    with pytest.raises(PolicyError):
        presence_odds(-1)


def test_nonsense_is_refused() -> None:
    table = build_table("geometric-16")
    for changes in (
        {"hidden": 0}, {"hidden": 256}, {"chunks": 0}, {"periods": -1}, {"queries": -1}, {"n_max": -1},
        {"delta": Fraction(0)}, {"delta": Fraction(1)}, {"shift": 0},
    ):  # fmt: skip
        with pytest.raises(PolicyError):
            account(**changes)  # type: ignore[arg-type]
    with pytest.raises(PolicyError, match="law"):
        until_delivered(
            GAUSSIAN, table, shift=1, coins=CoinThrows(hidden=1, periods=1), chunks=1, queries=1, delta=DELTA, n_max=1
        )
    broken = NoiseTable("geometric-16", (5, 4, 3))
    with pytest.raises(PolicyError, match="T2"):
        until_delivered(
            GEOMETRIC, broken, shift=1, coins=CoinThrows(hidden=1, periods=1), chunks=1, queries=1, delta=DELTA, n_max=1
        )
    for law, shift, budget in (
        ("none", 1, 0.1),
        ("geometric-16", 0, 0.1),
        ("geometric-16", 1, 0.0),
        ("geometric-16", 1, 1.0),
    ):
        with pytest.raises(PolicyError):
            ideal_return(law, shift, budget)
    for target in (-1.0, math.nan):
        with pytest.raises(PolicyError, match="target"):
            largest_shift(GEOMETRIC, table, target=target, chunks=1, queries=1, delta=DELTA)
