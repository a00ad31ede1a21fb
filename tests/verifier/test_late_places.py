# SPDX-License-Identifier: GPL-3.0-or-later
"""Slots whose documents may have come late: of each tenant once, and of no window that commits before its coins."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from ragseal.kernel.policy import UNTIL_DELIVERED
from ragseal.verifier.steps.epsilon import late_places
from ragseal.verifier.steps.period import Period, PeriodWindow
from tests.classes import TINY
from tests.simulator import CLS, World, policy


def window(*tenants: str, **terms: Any) -> PeriodWindow:
    """A window with these tenants; ``carries``: it carries on an earlier one's coins."""
    carries = terms.pop("carries", False)
    stated = policy(**{"claim": UNTIL_DELIVERED, "hidden": 60, **terms})
    return PeriodWindow("w", 0, stated, stated, 1, b"w" * 32, 1, b"c" * 32, carries, tenants)


def places_of(*windows: PeriodWindow) -> int:
    return late_places(World().auditor(), Period(0, windows, ()))


def test_a_window_that_commits_before_its_coins_has_no_late_place() -> None:
    in_time, carried = window("north", "south"), window("east", carries=True)
    assert places_of(in_time) == places_of() == 0
    assert places_of(in_time, carried) == places_of(carried, in_time) == CLS.N


def test_each_tenant_of_a_late_window_counts_once() -> None:
    live, carried = window("north", "south", version_every=60), window("south", "east", carries=True)
    assert places_of(live) == 2 * CLS.N
    assert places_of(live, carried, carried) == 3 * CLS.N


def test_what_stands_outside_the_period_counts_nothing() -> None:
    late = window("north", carries=True)
    assert late_places(World().auditor(), Period(0, (), (late,), (late,), (late,), (late,), (late,))) == 0


def test_a_tenant_counts_by_its_largest_index() -> None:
    cls, digest = TINY, b"d" * 32
    auditor = replace(World().auditor(), classes={cls.name: (cls, digest)})
    named = {"class_name": cls.name, "class_digest": digest, "table_digest": cls.table.digest()}
    one, three = (window("north", carries=True, shards=shards, **named) for shards in (1, 3))
    for order in ((one, three), (three, one)):
        assert late_places(auditor, Period(0, order, ())) == 3 * cls.N
