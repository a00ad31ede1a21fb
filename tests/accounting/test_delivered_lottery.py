# SPDX-License-Identifier: GPL-3.0-or-later
"""Unseen, return and delta under the lottery: the proven formula by two routes, over windows and periods."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import pytest

from ragseal.accounting.audit import ScorePolicy, epsilon_audit
from ragseal.accounting.delivered import CoinThrows
from ragseal.accounting.delivered_lottery import certified_return, ideal_return, lottery_delivered
from ragseal.accounting.delivered_period import delivered_period, delivered_window
from ragseal.accounting.failures import every_list
from ragseal.accounting.spent import Spent
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.classes import usual_table
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.lottery_class import LotteryClass, PrizeTable, return_ratio
from ragseal.kernel.noise import build_table
from ragseal.kernel.policy import UNTIL_DELIVERED, Policy
from tests import simulator

CLASSES = load_classes()
TINY, SMALL = CLASSES["lottery-tiny"], CLASSES["lottery-small-32"]
assert isinstance(TINY, LotteryClass)
assert isinstance(SMALL, LotteryClass)
DELTA = Fraction(1, 10**6)


def policy(cls: LotteryClass = TINY, prizes: int = 0, **changes: object) -> Policy:
    table = PrizeTable(cls.m, prizes) if prizes else usual_table(cls)
    own = {
        "class_name": cls.name, "table_digest": table.digest(), "claim": UNTIL_DELIVERED, "hidden": 13, "gate": False,
        "gain": 100,
    }  # fmt: skip
    return simulator.policy(**{**own, **changes})


def coined(name: str, queries: int, coins: bytes, cls: object = TINY, **changes: object) -> Spent:
    return Spent(name, policy(**changes), cls, queries, coins)  # type: ignore[arg-type]


@pytest.mark.parametrize("chunks", [1, 2, 7, 5184])
@pytest.mark.parametrize("prizes", [1, 2, 5])
def test_the_return_is_the_proven_ratio_by_two_routes(prizes: int, chunks: int) -> None:
    """From above: e^R is at least the exact ratio, wherever floats can say so."""
    first, second = certified_return(11, prizes, 13, chunks), ideal_return(11, prizes, 13, chunks)
    assert abs(first - second) <= 1e-12 * first
    if chunks <= 7:
        assert Fraction(math.exp(first)) * (1 + Fraction(1, 10**12)) >= return_ratio(11, prizes, 13, chunks)
        assert math.exp(math.nextafter(first, 0)) <= float(return_ratio(11, prizes, 13, chunks)) * (1 + 1e-12)


def test_chunks_are_not_counted_as_as_many_returns() -> None:
    """n R is below the bound of n slots under one coin, which is what a period charges."""
    one, three = (delivered_window(policy(chunks_max=n), TINY, 2, DELTA) for n in (1, 3))
    assert 3 * one.returned < three.returned == certified_return(8, 3, 13, 3)
    assert three.unseen > 2.99 * one.unseen


def test_gain_window_queries_and_accounts_change_no_return() -> None:
    least = delivered_window(policy(), TINY, 1, DELTA)
    for changes in ({"gain": 1}, {"gain": 200}, {"lo": 0}, {"n_max": 10**6}):
        assert delivered_window(policy(**changes), TINY, 1000, DELTA).returned == least.returned
    assert delivered_window(policy(prizes=1), TINY, 1, DELTA).returned > least.returned
    assert (
        least.epsilon
        == least.unseen
        < least.returned
        == pytest.approx(math.log((1 - 13 / 256) * 256 / 3 + 13 / 256), rel=1e-12)
    )


def test_delta_is_what_refusals_take_and_more_than_that_has_no_return() -> None:
    n = 10**9
    found = lottery_delivered(
        SMALL, prizes=5, coins=CoinThrows(hidden=13, periods=1), chunks=1, queries=n, delta=Fraction(1, 10**9), n_max=1
    )
    assert (
        Fraction(found.delta)
        >= n * (Fraction(1, 1 << 64) + Fraction(1, 1 << 80))
        > Fraction(found.delta) * (1 - Fraction(1, 10**12))
    )
    assert found.items["law"] == 0
    assert math.isfinite(found.returned)
    over = lottery_delivered(
        SMALL, prizes=5, coins=CoinThrows(hidden=13, periods=1), chunks=1, queries=n, delta=Fraction(1, 10**11), n_max=1
    )
    assert math.isinf(over.returned)
    assert math.isinf(over.epsilon)


@pytest.mark.parametrize("change", [{"prizes": 0}, {"prizes": 6}, {"chunks": 0}, {"hidden": 0}, {"periods": -1}])
def test_numbers_out_of_range_are_refused(change: dict[str, int]) -> None:
    sizes = {"prizes": 5, "hidden": 13, "chunks": 1, "periods": 1, "queries": 9, "n_max": 9, **change}
    coins = CoinThrows(sizes.pop("hidden"), sizes.pop("periods"))
    with pytest.raises(PolicyError):
        lottery_delivered(SMALL, delta=DELTA, coins=coins, **sizes)


def test_a_period_has_the_return_of_its_fewest_prizes_and_every_throw_of_coins() -> None:
    many, few = coined("w1", 9, b"a"), coined("w2", 9, b"b", prizes=1)
    alone = delivered_period([few], DELTA)
    both = delivered_period([many, few], DELTA)
    assert both.returned == alone.returned > delivered_period([many], DELTA).returned
    assert both.unseen == pytest.approx(2 * alone.unseen)
    assert delivered_period([many, replace(many, window="w3")], DELTA).unseen == alone.unseen  # one throw of coins


def test_windows_of_noise_and_of_the_lottery_share_a_period() -> None:
    noisy = simulator.policy(claim=UNTIL_DELIVERED, hidden=13, gate=False)
    other = Spent("w2", noisy, simulator.CLS, 9, b"b")
    found = delivered_period([coined("w1", 9, b"a"), other], DELTA)
    assert found.returned == max(delivered_period([one], DELTA / 2).returned for one in (coined("w1", 9, b"a"), other))


def test_a_window_that_never_opened_may_bind_any_table() -> None:
    """It is taken with the class of the window that is audited, whatever its own was: only its coins count."""
    opened = coined("w1", 9, b"a")
    never = coined("w0", 0, b"b", table_digest=build_table("geometric-16").digest())
    found = delivered_period([opened, never], DELTA)
    assert found.returned == delivered_period([opened], DELTA).returned
    assert found.unseen == pytest.approx(2 * delivered_period([opened], DELTA).unseen)
    assert delivered_period([never], DELTA).periods == 1


def test_no_epsilon_of_every_list_is_made_up() -> None:
    with pytest.raises(PolicyError, match="no epsilon of every list"):
        every_list(TINY, 1, 1)
    with pytest.raises(PolicyError, match="has the law 'lottery'"):
        epsilon_audit(
            TINY, build_table("geometric-16"), scores=ScorePolicy(gain=1, lo=0, hi=9), k_max=1, n_max=1, delta=DELTA
        )
