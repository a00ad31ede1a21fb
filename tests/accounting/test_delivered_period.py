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
from ragseal.accounting.delivered import CoinThrows, together, until_delivered
from ragseal.accounting.delivered_period import delivered_period
from ragseal.accounting.period import account_period
from ragseal.accounting.spent import Spent
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import build_table
from ragseal.kernel.policy import EVERY_LIST, UNTIL_DELIVERED, Policy
from tests.simulator import policy as a_policy

DELTA = Fraction(1, 10**6)
SMALL = load_classes()["noise-small-two-50"]
LARGE = load_classes()["noise-small-two-50"]


THROWS = (b"throw %d" % number for number in itertools.count())


def policy(cls: AttestationClass = SMALL, shift: int = 96, hidden: int = 13, chunks: int = 1) -> Policy:
    return a_policy(
        class_name=cls.name, claim=UNTIL_DELIVERED, hidden=hidden, lo=0, hi=shift << cls.step_bits, gain=1, n_max=25,
        epsilon_account="1", gate=False, chunks_max=chunks, period_start=0, opens=0, closes=1,
    )  # fmt: skip


def coined(name: str = "w", cls: AttestationClass = SMALL, queries: int = 100, shift: int = 96, **terms: int) -> Spent:
    return Spent(name, policy(cls, shift, **terms), cls, queries, next(THROWS))


def test_one_window_is_what_the_accountant_says_of_it() -> None:
    found = delivered_period([coined()], DELTA)
    assert found == until_delivered(
        SMALL,
        build_table("geometric-16"),
        shift=96,
        coins=CoinThrows(hidden=13, periods=1),
        chunks=1,
        queries=100,
        delta=DELTA,
        n_max=25,
    )
    assert found.unseen == pytest.approx(math.log(256 / 13))
    assert found.returned == pytest.approx(6, abs=1e-3)


def test_unseen_adds_up_over_coins_and_the_return_does_not() -> None:
    found = delivered_period([coined("a"), coined("b"), coined("c", shift=48)], DELTA)
    assert found.periods == 3
    assert found.unseen == pytest.approx(3 * math.log(256 / 13))
    assert found.returned == pytest.approx(6, abs=1e-3)
    assert found.epsilon == found.unseen
    assert found.listed_by_chance == pytest.approx(1 - (1 - SMALL.most_ids(1) / SMALL.N) ** 75)


def test_a_window_that_never_opened_costs_its_coins_and_nothing_else() -> None:
    opened = delivered_period([coined()], DELTA)
    found = delivered_period([coined(queries=0, shift=1000), coined()], DELTA)
    assert found.unseen == pytest.approx(2 * opened.unseen)
    assert (found.returned, found.listed_by_chance) == (opened.returned, opened.listed_by_chance)
    assert delivered_period([coined(queries=0, shift=1000)], DELTA).unseen == opened.unseen


def test_classes_and_coins_are_accounted_apart_within_one_delta() -> None:
    windows = [coined("a"), coined("b", LARGE, shift=150), coined("c", hidden=40)]
    found = delivered_period(windows, DELTA)
    assert found.unseen == pytest.approx(2 * math.log(256 / 13) + math.log(256 / 40))
    assert found.returned == pytest.approx(150 / 16, abs=1e-3)
    assert found.hidden_share == 40 / 256


def test_different_coins_share_one_delta() -> None:
    gaussian = load_classes()["noise-small-gaussian-50"]  # whose return uses all of the delta that it is given
    found = delivered_period([coined("a", gaussian, hidden=13), coined("b", gaussian, hidden=40)], DELTA)
    assert float(DELTA) / 2 < found.delta <= float(DELTA)


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
    assert found.returned == pytest.approx(18, abs=1e-3)


def test_a_period_does_not_mix_claims() -> None:
    every = replace(policy(), claim=EVERY_LIST, hidden=0, gate=True)
    with pytest.raises(PolicyError, match="mixes the claims every-list and until-delivered: begin a new period"):
        one_claim([policy(), every])
    assert one_claim([policy(), policy()]) == UNTIL_DELIVERED
    with pytest.raises(PolicyError, match=r"make a claim other than until-delivered .*: b; begin a new period"):
        delivered_period([coined(), Spent("b", every, SMALL, 1, b"")], DELTA)
    with pytest.raises(PolicyError, match="have no coin"):
        delivered_period([Spent("b", every, SMALL, 1, b"")], DELTA)
    with pytest.raises(PolicyError, match="at least one window"):
        delivered_period([], DELTA)


def test_parts_are_together_what_the_worst_of_them_is() -> None:
    good = replace(delivered_period([coined()], DELTA), bounds_reading=True)
    loud = replace(good, returned=good.returned + 1, bounds_reading=False, routes=replace(good.routes, agree=False))
    assert good.routes.agree
    assert together([good, good]).bounds_reading
    assert together([good, good]).routes.agree
    for parts in ((good, loud), (loud, good)):
        found = together(parts)
        assert (found.returned, found.bounds_reading, found.routes.agree) == (loud.returned, False, False)
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
    steps = load_classes()["noise-small-one-50"]
    odd, good = (
        Spent(name, replace(policy(), class_name=steps.name, gain=gain, lo=0, hi=2000), steps, 100, name.encode())
        for name, gain in (("odd", 1), ("good", 90))
    )
    assert (odd.policy.hmax(steps), odd.policy.shift(steps)) == (0, 1)
    rows = named(UNTIL_DELIVERED).odometer([odd, good], DELTA)
    assert [math.isfinite(row["epsilon"]) for row in rows] == [True, True]
    assert rows[0]["returned"] < rows[1]["returned"]
    assert delivered_period([odd, good], DELTA).returned == rows[1]["returned"]
    two = load_classes()["noise-small-two-50"]
    spent = [Spent(one.window, replace(one.policy, claim=EVERY_LIST, hidden=0), two, 10) for one in (odd, good)]
    assert account_period(spent[:1], DELTA, 1).epsilon < account_period(spent, DELTA, 1).epsilon
    assert len(named(EVERY_LIST).odometer(spent, DELTA)) == 2
