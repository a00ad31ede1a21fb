# SPDX-License-Identifier: GPL-3.0-or-later
"""A budget period under claim until-delivered: coins add up, the largest return counts, claims do not mix."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import pytest

from ragseal.accounting.claims import named
from ragseal.accounting.claims.claim import MOST_ROWS, one_claim
from ragseal.accounting.delivered import CoinThrows, together
from ragseal.accounting.delivered_decoys import Asked, Lists, decoys_delivered, rate_of_return
from ragseal.accounting.delivered_period import delivered_period
from ragseal.accounting.period import account_period
from ragseal.accounting.spent import Spent
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import EVERY_LIST, UNTIL_DELIVERED, Policy
from tests.simulator import policy as a_policy

DELTA = Fraction(1, 10**6)
SMALL, LARGE = load_classes()["decoys-4k"], load_classes()["decoys-16k"]
NOISE = load_classes()["noise-small-two-50"]
IDS = 64

THROWS = (b"throw %d" % number for number in itertools.count())


def rate(cls: AttestationClass, returned: float) -> int:
    """Draws of a shard that give a return where 13 in 256 slots are hidden."""
    return rate_of_return(cls.N, IDS, 1, 13, returned)


def policy(cls: AttestationClass = SMALL, returned: float = 6.0, hidden: int = 13, chunks: int = 1) -> Policy:
    return a_policy(
        class_name=cls.name, claim=UNTIL_DELIVERED, hidden=hidden, lo=2500, hi=2501, gain=1, n_max=25, ids=IDS,
        decoy_rate=rate(cls, returned), epsilon_account="1", gate=False, chunks_max=chunks, period_start=0, opens=0,
        closes=1,
    )  # fmt: skip


def coined(
    name: str = "w", cls: AttestationClass = SMALL, queries: int = 100, returned: float = 6.0, **terms: int
) -> Spent:
    return Spent(name, policy(cls, returned, **terms), cls, queries, next(THROWS))


def test_one_window_is_what_the_accountant_says_of_it() -> None:
    found = delivered_period([coined()], DELTA)
    asked = Asked(Lists(SMALL.N, IDS, rate(SMALL, 6.0)), 100, 25)
    assert found == decoys_delivered([asked], coins=CoinThrows(hidden=13, periods=1), chunks=1, delta=DELTA)
    assert found.unseen == pytest.approx(math.log(256 / 13))
    assert found.returned == pytest.approx(6, abs=1e-3)


def test_unseen_adds_up_over_coins_and_the_return_does_not() -> None:
    found = delivered_period([coined("a"), coined("b"), coined("c", returned=5.0)], DELTA)
    assert found.periods == 3
    assert found.unseen == pytest.approx(3 * math.log(256 / 13))
    assert found.returned == pytest.approx(6, abs=1e-3)
    assert found.epsilon == found.unseen
    apart = [delivered_period([coined(returned=one)], DELTA).listed_by_chance for one in (6.0, 6.0, 5.0)]
    assert found.listed_by_chance == pytest.approx(1 - math.prod(1 - one for one in apart))


def test_a_window_that_never_opened_costs_its_coins_and_nothing_else() -> None:
    opened = delivered_period([coined()], DELTA)
    found = delivered_period([coined(queries=0, returned=9.0), coined()], DELTA)
    assert found.unseen == pytest.approx(2 * opened.unseen)
    assert (found.returned, found.listed_by_chance) == (opened.returned, opened.listed_by_chance)
    assert delivered_period([coined(queries=0, returned=9.0)], DELTA).unseen == opened.unseen


def test_classes_are_accounted_together_and_coins_apart_within_one_delta() -> None:
    windows = [coined("a"), coined("b", LARGE, returned=7.0), coined("c", hidden=40)]
    found = delivered_period(windows, DELTA)
    assert found.unseen == pytest.approx(2 * math.log(256 / 13) + math.log(256 / 40))
    assert found.returned == pytest.approx(7, abs=1e-3)
    assert found.hidden_share == 40 / 256


def test_different_coins_share_one_delta() -> None:
    """Of what one group takes, all windows together leave it half."""
    one = delivered_period([coined("a", hidden=13)], DELTA)
    assert one.delta > 0
    least = Fraction(one.delta) * Fraction(3, 2)
    assert math.isfinite(delivered_period([coined("a", hidden=13)], least).returned)
    assert math.isinf(delivered_period([coined("a", hidden=13), coined("b", hidden=40)], least).returned)


def test_windows_that_share_a_throw_count_its_coins_once() -> None:
    first = coined("a")
    later = [replace(coined(name), coins=first.coins) for name in ("b", "c")]
    found = delivered_period([first, *later], DELTA)
    alone = delivered_period([first], DELTA)
    assert (found.periods, found.unseen) == (1, alone.unseen)
    assert found.listed_by_chance > alone.listed_by_chance
    rows = named(UNTIL_DELIVERED).odometer([first, later[0], coined("new"), later[1]], DELTA)
    assert [row["periods"] for row in rows] == [1, 1, 2, 2]


def test_a_throw_counts_once_over_classes_and_again_where_another_share_is_hidden() -> None:
    first = coined("a")
    larger = replace(coined("b", LARGE), coins=first.coins)
    assert delivered_period([first, larger], DELTA).unseen == delivered_period([first], DELTA).unseen
    other = replace(coined("c", hidden=26), coins=first.coins)
    found = delivered_period([first, other], DELTA)
    assert found.unseen == pytest.approx(math.log(256 / 13) + math.log(256 / 26))


def test_the_largest_document_counts_in_every_window() -> None:
    found = delivered_period([coined(chunks=3), coined()], DELTA)
    assert found.unseen == pytest.approx(6 * math.log(256 / 13))
    assert 18 < found.returned < 18.2


def test_a_period_does_not_mix_claims() -> None:
    every = replace(policy(), claim=EVERY_LIST, hidden=0, gate=True)
    with pytest.raises(PolicyError, match="mixes the claims every-list and until-delivered: begin a new period"):
        one_claim([policy(), every])
    assert one_claim([policy(), policy()]) == UNTIL_DELIVERED
    with pytest.raises(PolicyError, match=r"make a claim other than until-delivered .*: b; begin a new period"):
        delivered_period([coined(), Spent("b", every, NOISE, 1, b"")], DELTA)
    with pytest.raises(PolicyError, match="have no coin"):
        delivered_period([Spent("b", every, NOISE, 1, b"")], DELTA)
    with pytest.raises(PolicyError, match="at least one window"):
        delivered_period([], DELTA)


def test_a_law_without_a_return_is_refused() -> None:
    """Attack: windows of noise, which the log of a provider that nobody stopped may hold."""
    noise = Spent("b", replace(policy(), class_name=NOISE.name), NOISE, 1, b"b")
    for windows in ([noise], [coined(), noise], [noise, coined()]):
        with pytest.raises(PolicyError, match="has the law 'geometric-16', which bounds no return: decoys do"):
            delivered_period(windows, DELTA)


def test_parts_are_together_what_the_worst_of_them_is() -> None:
    good = delivered_period([coined()], DELTA)
    loud = replace(good, returned=good.returned + 1, routes=replace(good.routes, agree=False))
    assert good.routes.agree
    assert together([good, good]).routes.agree
    for parts in ((good, loud), (loud, good)):
        found = together(parts)
        assert (found.returned, found.routes.agree) == (loud.returned, False)
        assert found.delta >= good.delta + loud.delta
    with pytest.raises(PolicyError, match="at least one window"):
        together([])


def test_epsilon_is_unseen_and_nothing_where_no_return_follows() -> None:
    good = delivered_period([coined()], DELTA)
    assert replace(good, returned=100 * good.unseen).epsilon == good.unseen
    assert replace(good, returned=math.inf).epsilon == math.inf


def test_the_odometer_ends_with_the_period_and_puts_old_windows_together() -> None:
    windows = [coined(f"w{i}") for i in range(MOST_ROWS + 3)]
    rows = named(UNTIL_DELIVERED).odometer(windows, DELTA)
    assert [row["window"] for row in rows] == ["(3 windows)", *(f"w{i}" for i in range(3, MOST_ROWS + 3))]
    whole = delivered_period(windows, DELTA)
    last = [rows[-1][name] for name in ("unseen", "returned", "epsilon")]
    assert last == [whole.unseen, whole.returned, whole.epsilon]
    assert [row["periods"] for row in rows] == list(range(3, MOST_ROWS + 4))
    assert rows[0]["queries"] == 300
    two = named(UNTIL_DELIVERED).odometer([coined("a"), coined("b")], DELTA)
    assert [row["window"] for row in two] == ["a", "b"]


@pytest.mark.slow
def test_a_window_of_less_than_one_step_is_accounted_as_one_step() -> None:
    """H = 0 of a noise class: nobody may open it, but where a log holds it later windows need their numbers."""
    plain = a_policy(class_name=NOISE.name, claim=EVERY_LIST, lo=0, hi=2000)
    spent = [Spent(name, replace(plain, gain=gain), NOISE, 10) for name, gain in (("odd", 1), ("good", 90))]
    assert (spent[0].policy.hmax(NOISE), spent[0].policy.shift(NOISE)) == (0, 1)
    assert account_period(spent[:1], DELTA, 1).epsilon < account_period(spent, DELTA, 1).epsilon
    assert len(named(EVERY_LIST).odometer(spent, DELTA)) == 2
