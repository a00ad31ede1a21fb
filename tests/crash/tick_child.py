# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider with a live index that kills itself at one step of a tick.  Started by test_ticks.py: folder, step."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from ragseal.kernel.versions import IndexUpdate
from ragseal.prover.commitment import slots
from ragseal.prover.provider.provider import Provider
from ragseal.prover.storage.journal import Journal
from tests.simulator import provider as scene

FOLDER, STEP = Path(sys.argv[1]), sys.argv[2]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def patch() -> None:
    """Die once a tenant's rows are written, once all secrets are durable, before the entry is stored, or once it is."""
    store, update, build, reveal = slots.store, Provider.update, Journal._build, Journal._reveal

    def stored(*given: Any) -> None:
        store(*given)
        if STEP == "rows":
            die()

    def updated(self: Provider, *given: Any) -> Any:
        made = update(self, *given)
        if STEP == "durable":
            die()
        return made

    def built(self: Journal, at: int, make: Any, messages: list[Any]) -> bytes:
        data = build(self, at, make, messages)
        if STEP == "built" and isinstance(messages[0], IndexUpdate):
            die()
        return data

    def revealed(self: Journal, messages: Any) -> None:
        if STEP == "entered" and isinstance(messages[0], IndexUpdate):
            die()
        reveal(self, messages)

    slots.store, Provider.update = stored, updated  # type: ignore[method-assign]
    Journal._build, Journal._reveal = built, revealed  # type: ignore[method-assign]


async def main() -> None:
    clock = scene.Clock(scene.NOW + 60)
    async with scene.serving_on(scene.open_provider(FOLDER, clock)):
        await asyncio.sleep(60)


patch()
asyncio.run(main())
