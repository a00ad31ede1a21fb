# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider that rolls over and kills itself at one step.  Started by test_rollover.py: folder, coins, when, kind."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path
from typing import Any

from ragseal.prover.provider.provider import Provider
from ragseal.prover.storage.journal import Journal
from tests.simulator import provider as scene
from tests.simulator.rolling import Running, rolling, schedule

FOLDER, COINS, WHEN, KIND = Path(sys.argv[1]), sys.argv[2] == "coins", sys.argv[3], sys.argv[4]


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def patch() -> None:
    """Die before an entry of that kind is stored, or once it is durable, or once a manifest is prepared."""
    prepare, build, reveal = Provider.prepare, Journal._build, Journal._reveal

    def prepared(self: Provider, *given: Any, **named: Any) -> Any:
        made = prepare(self, *given, **named)
        if KIND == "prepared":
            die()
        return made

    def built(self: Journal, index: int, make: Any, messages: list[Any]) -> bytes:
        data = build(self, index, make, messages)
        if WHEN == "before" and type(messages[0]).__name__ == KIND:
            die()
        return data

    def revealed(self: Journal, messages: Any) -> None:
        if WHEN == "after" and type(messages[0]).__name__ == KIND:
            die()
        reveal(self, messages)

    Provider.prepare, Journal._build, Journal._reveal = prepared, built, revealed  # type: ignore[assignment, method-assign]


async def main() -> None:
    provider = scene.open_provider(FOLDER / "provider", Running(), coins=COINS)
    async with rolling(provider, schedule(FOLDER, 3.0, coins=COINS)):
        await asyncio.sleep(60)


patch()
asyncio.run(main())
