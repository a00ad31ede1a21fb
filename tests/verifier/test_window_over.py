# SPDX-License-Identifier: GPL-3.0-or-later
"""When an auditor takes a window for over, by its own clock: each bound at both of its sides.  SPEC D.2."""

from __future__ import annotations

import pytest

from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.commitment import WindowClose, WindowOpen
from ragseal.verifier.evidence.evidence import Undecided
from ragseal.verifier.steps.lifespan import CLOCK_SKEW, WindowSpan, check_over

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
