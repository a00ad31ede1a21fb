# SPDX-License-Identifier: GPL-3.0-or-later
"""A period's parts: what stands outside, and what the whole log comes to.  SPEC D.11, D.12.5."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.commitment import WindowClose, WindowOpen
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.policy import EVERY_LIST, UNTIL_DELIVERED
from ragseal.verifier.evidence.evidence import Refused, Undecided
from ragseal.verifier.steps.lifespan import CLOCK_SKEW, WindowSpan, check_over
from ragseal.verifier.steps.period import Period, PeriodWindow
from ragseal.verifier.steps.versions import IndexVersion, Versions, _check_update
from tests.kernel.test_policy import policy


def window(index: int, carries: bool = False, **terms: Any) -> PeriodWindow:
    stated = policy(**{"claim": UNTIL_DELIVERED, "hidden": 13, **terms})
    return PeriodWindow(
        f"w{index}", index, stated, stated, 10, bytes([index]) * 32, 2, b"c" if stated.coined else b"", carries
    )


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


# When an auditor takes a window for over, by its own clock: each bound at both of its sides. SPEC D.2.


OPENED, CLOSED = 60_000, 63_600


def span(close: WindowClose | None) -> WindowSpan:
    return WindowSpan(3, WindowOpen(b"m" * 32, 1, OPENED), 9, close)


def test_a_window_is_over_once_it_was_closed() -> None:
    with pytest.raises(Undecided, match="still open"):
        check_over(span(None), CLOSED, OPENED)


def test_a_closing_time_is_rounded_and_not_of_the_future() -> None:
    closed = span(WindowClose(b"m" * 32, 0, CLOSED))
    check_over(closed, CLOSED - COARSE_TIME, OPENED)
    with pytest.raises(Undecided, match="lies in the future"):
        check_over(closed, CLOSED - COARSE_TIME - 1, OPENED)


def test_a_window_opens_no_earlier_than_its_nonce_was_drawn() -> None:
    closed = span(WindowClose(b"m" * 32, 0, CLOSED))
    check_over(closed, CLOSED, OPENED + CLOCK_SKEW)
    with pytest.raises(Undecided, match="opened before its beacon nonce was drawn"):
        check_over(closed, CLOSED, OPENED + CLOCK_SKEW + 1)


# Which versions of an index a record may name, and until when: each bound at both of its sides. SPEC A.12.


EVERY, NEWEST = 60, 4
UPDATES: list[Any] = [(10 * n, SimpleNamespace(number=n, time=EVERY * n)) for n in range(1, NEWEST + 1)]
KNOWN = {bytes([n]) * 32: IndexVersion("north", n, b"t" * 32) for n in range(1, NEWEST + 1)}
BEHIND = 10 * NEWEST + 1  #: in the log, the newest update before it


def record(number: int, time: int = EVERY * NEWEST) -> Any:
    request = SimpleNamespace(index_digest=bytes([number]) * 32)
    return SimpleNamespace(time=time, signed=SimpleNamespace(request=request))


@pytest.mark.parametrize("nameable", [2, 3])
def test_a_record_names_one_of_the_newest(nameable: int) -> None:
    versions = Versions(EVERY, KNOWN, UPDATES, nameable)
    for number in range(NEWEST - nameable + 1, NEWEST + 1):
        assert versions.answering(BEHIND, record(number)).number == number
    for index, number in ((BEHIND, NEWEST - nameable), (BEHIND - 1, NEWEST)):
        with pytest.raises(AttestationError, match=f"one of the {nameable} newest"):
            versions.answering(index, record(number))
    with pytest.raises(AttestationError, match="no tenant of the window has"):
        versions.answering(BEHIND, record(NEWEST + 1))


@pytest.mark.parametrize("nameable", [2, 3])
def test_no_record_stands_where_the_newest_is_too_old(nameable: int) -> None:
    """Whatever a record may name: what was deleted is gone two ticks later."""
    versions, newest = Versions(EVERY, KNOWN, UPDATES, nameable), EVERY * NEWEST
    for time in (newest, newest + 2 * EVERY + COARSE_TIME - 1):
        versions.answering(BEHIND, record(NEWEST, time))
    with pytest.raises(AttestationError, match="long overdue"):
        versions.answering(BEHIND, record(NEWEST, newest + 2 * EVERY + COARSE_TIME))
    with pytest.raises(AttestationError, match="dated after a record that follows it"):
        versions.answering(BEHIND, record(NEWEST, newest - 1))


@pytest.mark.parametrize("late", [0, 300])
def test_updates_end_with_the_window_and_one_that_opened_late_lasts_as_long(late: int) -> None:
    stated = policy(opens=600, closes=1200, version_every=EVERY)
    tenants: tuple[Any, ...] = ()
    window: Any = SimpleNamespace(manifest=SimpleNamespace(policy=stated, tenants=tenants, coined=()))
    life = WindowSpan(3, WindowOpen(b"m" * 32, 1, 600 + late), 99, None)

    def update(time: int) -> Any:
        return SimpleNamespace(number=1, time=time, tenants=tenants)

    _check_update(window, life, 1, 50, update(1200 + late))
    with pytest.raises(Refused, match="dated after the window's end"):
        _check_update(window, life, 1, 50, update(1200 + late + EVERY))
    for index in (life.open_index, life.close_index):
        with pytest.raises(Refused, match="stands outside its window"):
            _check_update(window, life, 1, index, update(1200))
