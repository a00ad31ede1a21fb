# SPDX-License-Identifier: GPL-3.0-or-later
"""When a window opens and ends, and how long an answer may take: each bound from both sides.  SPEC A.1.6, A.14.7."""

from __future__ import annotations

from typing import Any

import pytest

from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import ANSWERS, Policy
from ragseal.kernel.versions import nameable
from tests.kernel.test_policy import policy

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
