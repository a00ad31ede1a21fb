# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider whose windows follow each other by themselves, with an auditor that takes part in each."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

from ragseal.kernel.errors import AuditError
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.rollover import Schedule
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.storage.window import Window
from ragseal.prover.wire.service import Listening, Server
from tests.classes import DECOYS, TINY
from tests.simulator import provider as scene

POLICY = f"""class = "{TINY.name}"
claim = "every-list"
lo = 0.2
hi = 0.9
gain = 20
n_max = {{n_max}}
k_max = 2
delta = "1/1000000"
"""
COINED = f"""class = "{DECOYS.name}"
claim = "until-delivered"
unseen = 3
lo = 0.2
ids = 5
return = 4.5
n_max = {{n_max}}
k_max = 2
delta = "1/1000000"
"""


class Running(scene.Clock):
    """A clock that goes, from the tests' time on."""

    def __init__(self) -> None:
        super().__init__(scene.NOW)
        self._began = time.monotonic()

    def __call__(self) -> float:
        return self.now + time.monotonic() - self._began


def schedule(folder: Path, every: float, *, coins: bool = False, n_max: int = 6, agreed: float = math.inf) -> Schedule:
    """Windows of so many seconds, each committed half of that before it opens."""
    file = folder / "policy.toml"
    file.write_text((COINED if coins else POLICY).format(n_max=n_max))
    return Schedule(file, every, agreed=agreed)


async def audit(server: Server, auditor: bool = True) -> None:
    """The auditor's part in every beacon, until cancelled; without ``auditor`` nobody takes it."""
    beacon, history = server.serving.beacon, server.serving.journal.history
    while auditor:
        window = history.following
        if window is not None:
            part = scene.Participant("auditor", window.digest, scene.AUDITOR_KEY, b"a" * 32)
            with contextlib.suppress(AuditError):
                if "auditor" not in window.commits:
                    await beacon.commit(part.commit().encode())
                elif window.missing() == ["auditor"]:
                    await beacon.open(part.open().encode())
        await asyncio.sleep(0.05)


@asynccontextmanager
async def rolling(provider: Provider, plan: Schedule, *, auditor: bool = True) -> AsyncIterator[Server]:
    """The provider's server; closed with its provider at the end."""
    options = ServeOptions(False, 0.0, BeaconRules(1, 5.0), 0.0)
    server = Server(provider, options, Listening("127.0.0.1:0"), plan)
    await server.start()
    part = asyncio.create_task(audit(server, auditor))
    try:
        yield server
    finally:
        part.cancel()
        await asyncio.gather(part, return_exceptions=True)
        await server.stop()
        provider.close()


async def until_open(server: Server, name: str, seconds: float = 30.0) -> Window:
    """Wait until a window of that name is open."""
    history = server.serving.journal.history
    async with asyncio.timeout(seconds):
        while history.open is None or history.open.manifest.window != name:
            await asyncio.sleep(0.02)
    return history.open
