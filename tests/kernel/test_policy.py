# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies: refused with the reason when they overflow their class or promise nothing.  SPEC A.6."""

from __future__ import annotations

import dataclasses
import re
from fractions import Fraction
from typing import Any

import pytest

from ragseal.accounting.audit import ScorePolicy, epsilon_audit
from ragseal.kernel.errors import AuditError, PolicyError
from ragseal.kernel.fixedpoint import check_embedding, clip, score, score_limit, within_slack
from ragseal.kernel.noise_class import NoiseClass
from ragseal.kernel.params import GAUSSIAN, GEOMETRIC
from ragseal.kernel.policy import ANSWERS, Policy, check_policy, max_gain
from ragseal.kernel.versions import nameable

CLASS = NoiseClass("toy", GAUSSIAN, N=120, K=3, R=30, m=8, q=20, c=14, a=Fraction(3), b=Fraction(1, 2), S=1)


def policy(**changes: Any) -> Policy:
    values: dict[str, Any] = {
        "class_name": "toy", "class_digest": b"c" * 32, "table_digest": CLASS.table.digest(),
        "dimension": 384, "claim": "every-list", "hidden": 0,
        "lo": 4800, "hi": 11300, "gain": 40, "n_max": 10, "k_max": 2, "delta": "1/1000000",
        "epsilon_account": "300", "theta": "9/10", "tau": 1000, "gate": True, "unit": "slot", "chunks_max": 1,
        "period_start": 0, "opens": 10, "closes": 20, "ids": 3,
    }  # fmt: skip
    return Policy(**(values | changes))


@pytest.mark.slow
def test_good_policy_and_round_trip() -> None:
    check_policy(policy(), CLASS, b"c" * 32)
    assert Policy.decode(policy().encode()) == policy()
    assert policy().width == 40 * 6500
    policy(gain=1, n_max=1, k_max=1, tau=1, chunks_max=1, dimension=1, theta="1/2", period_start=10).validate()  # least
    assert policy(gain=4, lo=0, hi=2 * 4096 - 1).shift(CLASS) == 1  # what is less than a step is cut off
    assert policy(gain=4, lo=0, hi=2 * 4096).shift(CLASS) == 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"lo": -1}, "0 <= lo < hi"),
        ({"lo": 5, "hi": 5}, "0 <= lo < hi"),
        ({"gain": 0}, "gain"),
        ({"n_max": 0}, "n_max and k_max"),
        ({"k_max": 0}, "n_max and k_max"),
        ({"delta": "1"}, "delta"),
        ({"delta": "0"}, "delta must lie strictly between"),
        ({"theta": "0"}, "theta must lie in"),
        ({"delta": "0.000001"}, "lowest terms"),
        ({"delta": "x"}, "no rational"),
        ({"epsilon_account": "0"}, "positive"),
        ({"theta": "3/2"}, "theta"),
        ({"theta": "15534/16129", "dimension": 384}, "every repeat of a query, .* nearest is theta = 15533/16129"),
        ({"delta": "1e-6"}, "no rational"),
        ({"theta": "1e999999999"}, "no rational"),  # Fraction would fill the memory with it
        ({"epsilon_account": "1e5000"}, "no rational"),
        ({"tau": 0}, "tau must be at least 1"),
        ({"tau_time": 90}, "the nearest is 120"),
        ({"tau_time": 366 * 86_400 + 60}, "the nearest is 31622400"),
        ({"unit": "user"}, "unit"),
        ({"closes": 10}, "opens < closes"),
        ({"closes": 10 + 366 * 86400 + 1}, "longer than .*366 days"),
        ({"period_start": 11}, "period_start"),
        ({"class_digest": b"d" * 32}, "another circuit class"),
        ({"table_digest": b"d" * 32}, "noise table"),
        ({"hi": 100000}, "largest possible score"),
        ({"gain": 64000}, "use gain <="),
        ({"dimension": 0}, "dimension"),
        ({"chunks_max": 0}, "chunks_max"),
        ({"ids": 2}, "has 3 ids, not 2: let ids be 3"),
        ({"decoy_rate": 1}, "decoy_rate must be 0"),
        ({"version_every": 30}, "the nearest is 60"),
        ({"version_every": 90}, "the nearest is 120"),
        ({"version_every": 86460}, "the nearest is 86400"),
        ({"guard": "clean"}, "no epsilon of any claim would follow"),
        ({"guard": "noised"}, "more than the list that epsilon is about"),
        ({"guard": "on"}, "one of off, or returned"),
        ({"guard_rho": "1/20"}, "without a guard has guard_rho = 0"),
        ({"guard_formula": "paper"}, "guard_formula = none"),
        ({"guard": "returned"}, "strictly between 0 and 1"),
        ({"guard": "returned", "guard_rho": "1"}, "strictly between 0 and 1"),
        ({"guard": "returned", "guard_rho": "0.1"}, "no rational|lowest terms"),
        ({"guard": "returned", "guard_rho": "1/20"}, "formula is one of precise, or paper"),
    ],
)
def test_refused_with_the_reason(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(PolicyError, match=reason):
        check_policy(policy(**changes), CLASS, b"c" * 32)


@pytest.mark.slow
def test_suggested_gain_is_the_largest_that_fits() -> None:
    most = max_gain(policy(), CLASS)
    check_policy(policy(gain=most), CLASS, b"c" * 32)
    with pytest.raises(PolicyError, match=f"use gain <= {most}"):
        check_policy(policy(gain=most + 1), CLASS, b"c" * 32)


@pytest.mark.slow
def test_scores() -> None:
    assert score([1, -2, 3], [4, 5, 6]) == 12
    assert [clip(3 * (y - 100), 60) for y in (90, 100, 110, 130)] == [0, 0, 30, 60]
    worst = [127] * 4
    assert score_limit(4) >= score(worst, worst) // 4  # unit vectors of 4 equal entries are 63.5 each
    assert within_slack([1, 2], [1, 1])
    assert not within_slack([1, 2], [2, 1])
    assert within_slack([1, 1] + [0] * 14, [0] * 16)
    assert not within_slack([1, 1, -1] + [0] * 13, [0] * 16)
    assert not within_slack([1, 2], [3, 2])
    assert not within_slack([1], [1, 2])
    check_embedding([127, 0, 0], 3)
    for bad in ([127, 0], [0, 0, 0], [-128, 0, 0], [127, 127, 127]):
        with pytest.raises(AuditError):
            check_embedding(bad, 3)


@pytest.mark.slow
def test_class_files() -> None:
    assert NoiseClass.from_mapping(CLASS.to_mapping()) == CLASS
    good = CLASS.to_mapping()
    for key, value in {
        "N": 121,
        "K": 0,
        "R": 200,
        "q": 27,
        "c": 7,
        "law": "cauchy",
        "a": "1",
        "b": "x",
        "m": True,
    }.items():
        with pytest.raises(PolicyError):
            NoiseClass.from_mapping(good | {key: value})
    with pytest.raises(PolicyError, match="unknown or missing"):
        NoiseClass.from_mapping(good | {"extra": 1})
    with pytest.raises(PolicyError):
        dataclasses.replace(CLASS, R=3)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"lo": 11300, "hi": 4800}, r"lo = 4800, hi = 11300 \(they look swapped\)"),
        ({"lo": -5}, "lo = 0, hi = 11300"),
        ({"lo": 7, "hi": 7}, "lo = 7, hi = 8"),
        ({"n_max": 0, "k_max": 3}, "n_max = 1, k_max = 3"),
        ({"opens": 30, "closes": 20}, "close after 30"),
        ({"period_start": 11}, "period_start = 10"),
    ],
)
def test_refusals_name_the_nearest_that_would_do(changes: dict[str, Any], reason: str) -> None:
    with pytest.raises(PolicyError, match=reason):
        check_policy(policy(**changes), CLASS, b"c" * 32)


@pytest.mark.slow
def test_the_largest_score_that_is_named_is_accepted() -> None:
    limit = score_limit(384)
    with pytest.raises(PolicyError, match=f"hi = {limit}$"):
        check_policy(policy(hi=limit + 1), CLASS, b"c" * 32)
    check_policy(policy(hi=limit), CLASS, b"c" * 32)


@pytest.mark.slow
def test_an_overflow_names_gain_and_classes_that_would_do() -> None:
    wide = dataclasses.replace(CLASS, name="wide", c=16)
    geometric = dataclasses.replace(CLASS, name="geometric", law=GEOMETRIC, c=16)
    narrow = dataclasses.replace(CLASS, name="narrow", c=13)
    others = [CLASS, wide, narrow, geometric]
    greedy = policy(gain=9600)
    with pytest.raises(PolicyError) as refusal:
        check_policy(greedy, CLASS, b"c" * 32, others)
    most = max_gain(greedy, CLASS)
    assert f"use gain <= {most}, or class 'wide' (120 slots) with gain = 38400" in str(refusal.value)
    assert "'toy' (" not in str(refusal.value)
    assert "geometric" not in str(refusal.value)  # another law is another promise
    # The same noise for a score, half the gain at half the step, does not fit the class of half the room.
    assert max_gain(greedy, narrow) < 4800
    assert "narrow" not in str(refusal.value)
    check_policy(policy(gain=most), CLASS, b"c" * 32)
    check_policy(policy(class_name="wide", gain=38400), wide, b"c" * 32)


@pytest.mark.slow
def test_delta_too_small_for_the_queries_names_both_ways_out() -> None:
    small = Fraction(1, 10**13)
    table = CLASS.table
    shape: dict[str, Any] = {"scores": ScorePolicy(gain=1, lo=0, hi=257), "k_max": 1}
    with pytest.raises(PolicyError, match="used up") as refusal:
        epsilon_audit(CLASS, table, n_max=10**7, delta=small, **shape)
    found = re.search(r"\(([\d.e-]+)\); allow a delta above that, or at most (\d+) queries", str(refusal.value))
    assert found is not None
    most = int(found.group(2))
    assert epsilon_audit(CLASS, table, n_max=most - 1, delta=small, **shape).epsilon > 0
    with pytest.raises(PolicyError, match="used up"):
        epsilon_audit(CLASS, table, n_max=most + 1, delta=small, **shape)


# When a window opens and ends, and how long an answer may take: each bound from both sides. SPEC A.1.6, A.14.7.


DAY = 86400
OPENS = 60_007  #: seven seconds after a whole minute


def answers(**changes: Any) -> Policy:
    values = {
        "claim": ANSWERS, "lo": 0, "hi": 20, "vocabulary": b"v" * 32, "words_max": 1, "participations": 1,
        "similarity": 1, "answered_by": 30, "opens": OPENS, "closes": OPENS + 600,
    }  # fmt: skip
    return policy(**(values | changes))


@pytest.mark.parametrize(("length", "late"), [(10, 3600), (3600, 3600), (3601, 3601), (DAY, DAY)])
def test_a_window_opens_from_the_minute_on_and_lasts_its_length(length: int, late: int) -> None:
    """One that lasts shorter than an hour has an hour to open; one that lasts longer may open as late as it lasts."""
    made = policy(opens=OPENS, closes=OPENS + length)
    assert made.length == length
    assert made.opens_by == OPENS + late
    assert [made.may_open(time) for time in (59_999, 60_000, OPENS, OPENS + late, OPENS + late + 1)] == [
        False, True, True, True, False,
    ]  # fmt: skip
    assert made.ends(60_000) == 60_000 + length, "it lasts as long whenever it opens"
    assert made.ends(OPENS + late) == OPENS + late + length


def test_a_window_of_366_days_is_the_longest() -> None:
    policy(closes=10 + 366 * DAY).validate()
    with pytest.raises(PolicyError, match=f"close at {10 + 366 * DAY} at the latest"):
        policy(closes=10 + 366 * DAY + 1).validate()


def test_an_answer_takes_from_1_to_300_seconds() -> None:
    for by in (1, 300):
        answers(answered_by=by).validate()
    for by, nearest in ((0, 1), (301, 300)):
        with pytest.raises(PolicyError, match=f"nearest is answered_by = {nearest}$"):
            answers(answered_by=by).validate()


def test_no_other_claim_says_how_long_an_answer_takes() -> None:
    policy().validate()
    with pytest.raises(PolicyError, match="answered_by are of the claim answers"):
        policy(answered_by=1).validate()


def test_an_answer_leaves_before_its_versions_are_replaced_and_its_window_is_over() -> None:
    answers(version_every=120, answered_by=60).validate()
    policy(version_every=60).validate()
    with pytest.raises(PolicyError, match=r"nearest is answered_by = 60$"):
        answers(version_every=120, answered_by=61).validate()
    with pytest.raises(PolicyError, match=r"nearest is version_every = 120$"):
        answers(version_every=60, answered_by=1).validate()
    answers(closes=OPENS + 30).validate()
    with pytest.raises(PolicyError, match=f"let it close after {OPENS + 30}$"):
        answers(closes=OPENS + 29).validate()


def test_only_a_record_of_answers_may_name_a_third_version() -> None:
    assert nameable(answers()) == 3
    assert nameable(policy()) == 2
