# SPDX-License-Identifier: GPL-3.0-or-later
"""What a serving provider knows of itself, gathered in its event loop, and what is wrong with it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any

from ragseal.prover.serving import health
from ragseal.prover.serving.health import WITNESS_SECONDS, Health, Running
from ragseal.prover.serving.serving import Serving

Following = Callable[[], dict[str, Any] | None]


class Watching:
    """Of one serving provider."""

    def __init__(self, serving: Serving, following: Following) -> None:
        """``following``: what there is to say of the windows to come."""
        self._serving, self._following = serving, following
        self._began = serving.provider.environment.clock()
        self._missed: dict[tuple[str, str], str] = {}  #: of followed sources that cannot be read, by tenant and kind

    def source(self, tenant: str, source: str) -> Callable[[str], None]:
        """Told why a source that is followed cannot be read; of nothing once it can, or is followed no longer."""
        key = tenant, source.partition(":")[0]

        def missed(why: str) -> None:
            if why:
                self._missed[key] = f"tenant {tenant} is behind its {key[1]} source: {why}"
            else:
                self._missed.pop(key, None)

        return missed

    def running(self) -> Running:
        """What is known now."""
        serving = self._serving
        return Running(
            serving.proofs.backlog.status(serving.provider.environment.clock()),
            serving.ticks.status(),
            self._following(),
            self._witness_age(),
            tuple(self._missed.values()),
            serving.purge_trouble,
            serving.attestation.worded.missed.shares(),
        )

    async def health(self) -> Health:
        """What is wrong now."""
        return await asyncio.to_thread(health.look, self._serving.provider, self.running())

    def _witness_age(self) -> int | None:
        """Seconds since the newest cosignature; None where none is asked for, or the first may still come."""
        serving, book = self._serving, self._serving.book
        wanted = serving.serve_options.witnesses or serving.serve_options.witness_policy is not None
        if book is None or not wanted:
            return None
        now, newest = serving.provider.environment.clock(), book.youngest()
        if newest is None:
            return -1 if now > self._began + WITNESS_SECONDS else None
        return max(0, int(now) - newest.time)
