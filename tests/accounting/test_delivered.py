# SPDX-License-Identifier: GPL-3.0-or-later
"""The accounting of claim "until-delivered": unseen by decimals, and what windows of a period are together."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import pytest

from ragseal.accounting.delivered import CoinThrows, Delivered, certified_unseen, fewest_hidden, together
from ragseal.accounting.delivered_decoys import Asked, Lists, decoys_delivered, rate_of_return
from ragseal.accounting.guess import presence_odds
from ragseal.kernel.errors import PolicyError

pytestmark = pytest.mark.slow

DELTA = Fraction(1, 10**6)
LISTS = Lists(4096, 42, rate_of_return(4096, 42, 1, 13, 6.0))


def account(
    lists: Lists = LISTS, *, hidden: int = 13, periods: int = 1, chunks: int = 1, delta: Fraction = DELTA
) -> Delivered:
    return decoys_delivered([Asked(lists, 30, 10)], coins=CoinThrows(hidden, periods), chunks=chunks, delta=delta)


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
    assert 2 * one.returned < two.returned < 2 * one.returned + 0.1  # one coin for both, or one for each
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
    assert account().returned == pytest.approx(6, abs=1e-5)
    assert account().returned > account().unseen == account().epsilon
    few = Lists(LISTS.N, LISTS.K, rate_of_return(LISTS.N, LISTS.K, 1, 13, 8.0))
    assert account(few).epsilon == account().unseen
    assert account(few).returned == pytest.approx(8, abs=1e-5)
    assert account().hidden_share == 13 / 256
    assert account().chance == 0
    assert account().routes.agree


def test_parts_of_a_period_together() -> None:
    few = Lists(LISTS.N, LISTS.K, rate_of_return(LISTS.N, LISTS.K, 1, 13, 8.0))
    a, b = account(delta=DELTA / 2), account(few, hidden=21, periods=2, delta=DELTA / 2)
    both = together([a, b])
    assert both.unseen == pytest.approx(a.unseen + b.unseen)
    assert both.unseen >= a.unseen + b.unseen
    assert both.returned == max(a.returned, b.returned)
    assert both.epsilon == both.unseen
    assert both.delta == pytest.approx(a.delta + b.delta)
    assert both.delta <= float(DELTA)
    assert both.items["law"] == pytest.approx(a.items["law"] + b.items["law"])
    assert (both.periods, both.hidden_share) == (3, 21 / 256)
    assert both.listed_by_chance == pytest.approx(1 - (1 - a.listed_by_chance) * (1 - b.listed_by_chance))
    assert together([a]) is a
    lost = account(delta=Fraction(1, 2**90))
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
