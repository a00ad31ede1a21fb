# SPDX-License-Identifier: GPL-3.0-or-later
"""A period's parts: what stands outside, and what the whole log comes to.  SPEC D.11, D.12.5."""

from __future__ import annotations

from typing import Any

import pytest

from ragseal.kernel.policy import EVERY_LIST, UNTIL_DELIVERED
from ragseal.verifier.steps.period import Period, PeriodWindow
from tests.kernel.test_policy import policy


def window(index: int, carries: bool = False, **terms: Any) -> PeriodWindow:
    stated = policy(**{"claim": UNTIL_DELIVERED, "hidden": 13, **terms})
    return PeriodWindow(f"w{index}", index, stated, 10, bytes([index]) * 32, 2, b"c" if stated.coined else b"", carries)


BEFORE, INSIDE, LATER, THROWN, THROWN_BEFORE, THROWN_LATER = map(window, (2, 3, 5, 1, 4, 6))
PERIOD = Period(0, (INSIDE,), (BEFORE,), (THROWN,), (THROWN_BEFORE,), (LATER,), (THROWN_LATER,))


def test_every_window_that_is_not_counted_stands_outside() -> None:
    """A throw of the period that never opened is counted, so it does not."""
    assert PERIOD.outside == (BEFORE, THROWN_BEFORE, LATER, THROWN_LATER)
    assert PERIOD.never_opened_outside == (THROWN_BEFORE, THROWN_LATER)
    assert Period(0, (INSIDE,), ()).outside == ()


def test_the_whole_log_counts_all_of_them() -> None:
    whole = PERIOD.whole
    assert whole.windows == (BEFORE, INSIDE, LATER)
    assert set(whole.abandoned) == {THROWN, THROWN_BEFORE, THROWN_LATER}
    assert whole.outside == ()


@pytest.mark.parametrize(
    ("one", "late"),
    [
        (window(1), False),
        (window(1, carries=True), True),
        (window(1, version_every=60), True),
        (window(1, claim=EVERY_LIST, hidden=0, version_every=60), False),
    ],
)
def test_documents_come_late_under_coins_that_are_known(one: PeriodWindow, late: bool) -> None:
    assert one.late is late
    assert Period(0, (INSIDE, one), ()).late is late
    assert not Period(0, (INSIDE,), (one,)).late
