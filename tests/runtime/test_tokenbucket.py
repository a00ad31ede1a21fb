# SPDX-License-Identifier: GPL-3.0-or-later
from __future__ import annotations

import pytest

from ragseal.kernel.errors import BudgetError
from ragseal.runtime.tokenbucket import TokenBuckets


class Time:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_a_bucket_fills_with_time_and_says_how_long() -> None:
    clock = Time()
    buckets = TokenBuckets(3, 2.0, "too often", clock=clock)
    for _ in range(3):
        buckets.take("alice")
    with pytest.raises(BudgetError, match=r"^too often: ask again in 0\.5 s$"):
        buckets.take("alice")
    buckets.take("bob")  # one caller's calls are not another's
    clock.now = 0.49
    with pytest.raises(BudgetError):
        buckets.take("alice")
    clock.now = 0.5
    buckets.take("alice")
    with pytest.raises(BudgetError):
        buckets.take("alice")
    clock.now = 1e6  # never more than the burst
    for _ in range(3):
        buckets.take("alice")
    with pytest.raises(BudgetError):
        buckets.take("alice")


def test_a_token_that_comes_back_is_there_at_once_and_never_more_than_the_burst() -> None:
    buckets = TokenBuckets(2, 0.001, clock=Time())
    buckets.give_back("alice")
    for _ in range(5):
        buckets.take("alice")
        buckets.give_back("alice")
        buckets.give_back("alice")
    buckets.take("alice")
    buckets.take("alice")
    with pytest.raises(BudgetError):
        buckets.take("alice")


def test_a_refused_call_costs_nothing() -> None:
    clock = Time()
    buckets = TokenBuckets(1, 1 / 300, clock=clock)
    buckets.take("a")
    for clock.now in (0.0, 100.0, 299.0):
        with pytest.raises(BudgetError, match=f"ask again in {300 - clock.now:.{1 if clock.now == 299 else 0}f} s"):
            buckets.take("a")
    clock.now = 300.1
    buckets.take("a")


def test_the_quietest_caller_is_forgotten_first() -> None:
    buckets = TokenBuckets(2, 1e-9, callers=2, clock=Time())
    for caller in ("a", "b", "a"):
        buckets.take(caller)
    buckets.take("c")  # b goes
    for caller in ("a", "a"):
        with pytest.raises(BudgetError):
            buckets.take(caller)
    buckets.take("b")
    buckets.take("b")
    with pytest.raises(BudgetError):
        buckets.take("b")
