# SPDX-License-Identifier: GPL-3.0-or-later
"""Windows with a coin of which the provider tells one lie."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ragseal.kernel.commitment import (
    ThinnedIndex,
    Thinning,
)
from tests.simulator.coined import CoinedWorld


def told(lie: Callable[[CoinedWorld], None], **changes: Any) -> CoinedWorld:
    """A window about whose beginning a lie is told before anybody asks."""
    world = CoinedWorld()
    world.commit(**changes)
    lie(world)
    world.queries()
    world.close()
    return world


def _entries(world: CoinedWorld) -> tuple[ThinnedIndex, ...]:
    entry = world.messages[world.at(Thinning)]
    assert isinstance(entry, Thinning)
    return entry.tenants
