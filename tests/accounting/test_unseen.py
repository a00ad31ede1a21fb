# SPDX-License-Identifier: GPL-3.0-or-later
"""Claim unseen: throws of coins add up, and nothing else counts."""

from __future__ import annotations

import math
from dataclasses import replace
from typing import Any

import pytest

from ragseal.accounting.claims.unseen import unseen_period
from ragseal.accounting.delivered import certified_unseen
from ragseal.accounting.spent import Spent
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import UNSEEN, UNTIL_DELIVERED
from tests.claims.scene import DECOYS, classes, policy, without_decoys


def window(number: int, coins: bytes, queries: int = 3, **changes: Any) -> Spent:
    rules = without_decoys(UNSEEN, number, **{"hidden": 13, **changes})
    return Spent(f"w{number}", rules, classes()[DECOYS][0], queries, coins, accounts=5)


def test_a_throw_counts_once_for_all_windows_that_carry_it_on() -> None:
    once = certified_unseen(13, chunks=1, periods=1)
    one = unseen_period([window(0, b"a")])
    assert (one.unseen, one.periods, one.queries) == (pytest.approx(once), 1, 15)
    assert unseen_period([window(0, b"a"), window(1, b"a")]).unseen == one.unseen
    assert unseen_period([window(0, b"a"), window(1, b"b")]).unseen == pytest.approx(2 * once)
    given_up = unseen_period([window(0, b"a"), window(1, b"b", queries=0)])
    assert (given_up.periods, given_up.queries) == (2, 15)
    assert one.returned == math.inf
    assert not one.boundless
    assert not one.disagreement


def test_shares_and_slots_are_those_of_each_throw() -> None:
    parts = [window(0, b"a"), window(1, b"b", hidden=40)]
    found = unseen_period(parts)
    each = sum(certified_unseen(j, chunks=1, periods=1) for j in (13, 40))
    assert found.unseen >= each
    assert found.unseen == pytest.approx(each)
    assert found.hidden_share == 40 / 256
    whole = unseen_period([*parts, window(2, b"b", hidden=40, chunks_max=3)])
    assert whole.unseen == pytest.approx(3 * each)


def test_neither_queries_nor_accounts_count() -> None:
    few, many = (unseen_period([window(0, b"a", queries=n)]).unseen for n in (1, 10**9))
    assert few == many


def test_routes_that_disagree_are_said() -> None:
    one = unseen_period([window(0, b"a")])
    assert "disagree" in replace(one, routes=(one.unseen, one.unseen * 1.01)).disagreement


def test_no_window_and_another_claim_have_no_number() -> None:
    with pytest.raises(PolicyError, match="at least one window"):
        unseen_period([])
    other = Spent("w1", policy(UNTIL_DELIVERED, 1), classes()[DECOYS][0], 3, b"b")
    with pytest.raises(PolicyError, match="mixes the claims unseen and until-delivered"):
        unseen_period([window(0, b"a"), other])
    assert unseen_period([window(0, b"a"), replace(other, queries=0)]).periods == 2, "coins that were given up count"
