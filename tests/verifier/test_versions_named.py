# SPDX-License-Identifier: GPL-3.0-or-later
"""Which versions of an index a record may name, and until when: each bound at both of its sides.  SPEC A.12."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.commitment import WindowOpen
from ragseal.kernel.errors import AttestationError
from ragseal.verifier.evidence.evidence import Refused
from ragseal.verifier.steps.lifespan import WindowSpan
from ragseal.verifier.steps.versions import IndexVersion, Versions, _check_update
from tests.kernel.test_policy import policy

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
    window: Any = SimpleNamespace(manifest=SimpleNamespace(policy=stated, tenants=tenants))
    life = WindowSpan(3, WindowOpen(b"m" * 32, 1, 600 + late), 99, None)

    def update(time: int) -> Any:
        return SimpleNamespace(number=1, time=time, tenants=tenants)

    _check_update(window, life, 1, 50, update(1200 + late))
    with pytest.raises(Refused, match="dated after the window's end"):
        _check_update(window, life, 1, 50, update(1200 + late + EVERY))
    for index in (life.open_index, life.close_index):
        with pytest.raises(Refused, match="stands outside its window"):
            _check_update(window, life, 1, index, update(1200))
