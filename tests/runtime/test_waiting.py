# SPDX-License-Identifier: GPL-3.0-or-later
"""A command with --wait tries again while its peer is away, for as long as it was told, and no longer."""

from __future__ import annotations

import pytest

from ragseal.kernel.errors import AuditError, LedgerError, MismatchError, TransportError
from ragseal.runtime.waiting import PAUSE, patiently


class Time:
    """A clock that pauses move."""

    def __init__(self) -> None:
        self.now = 0.0

    def pause(self, seconds: float) -> None:
        self.now += seconds


def attempts(errors: list[AuditError], seconds: float) -> tuple[object, list[str], float]:
    time, said, left = Time(), [], list(errors)

    def call() -> str:
        if left:
            raise left.pop(0)
        return "there"

    try:
        found: object = patiently(call, seconds, said.append, lambda: time.now, time.pause)
    except AuditError as error:
        found = error
    return found, said, time.now


def test_a_peer_that_comes_is_met() -> None:
    found, said, spent = attempts([TransportError("away")] * 3, 60)
    assert (found, spent) == ("there", 3 * PAUSE)
    assert said == ["waiting for at most 60 s: away"], "once, and not for each try"


@pytest.mark.parametrize("seconds", [0, 0.5, 7])
def test_nobody_waits_longer_than_told(seconds: float) -> None:
    found, _, spent = attempts([TransportError("away")] * 100, seconds)
    assert isinstance(found, TransportError)
    assert spent == seconds


@pytest.mark.parametrize("error", [MismatchError("TLS does not agree"), LedgerError("a fork")])
def test_what_no_repetition_mends_is_raised_at_once(error: AuditError) -> None:
    assert attempts([error], 60) == (error, [], 0.0)
