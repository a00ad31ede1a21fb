# SPDX-License-Identifier: GPL-3.0-or-later
"""The live index: on every tick of an open window, a new version of every tenant's index.  SPEC A.12.

A version is made once its tick has come, of the documents that are there then; its entry stands in the log from the
next coarse tick on, in the moment in which everybody is shown it, so that nobody is answered from what they cannot see.
The first one stands right behind the window's opening.  Ticks that went by while the provider was away are not made up
for.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from ragseal.kernel.encoding import Message
from ragseal.kernel.enrolment import places
from ragseal.kernel.errors import AuditError, CommitmentError
from ragseal.kernel.versions import IndexUpdate, tick_at
from ragseal.prover.commitment.enrolling import waiting
from ragseal.prover.commitment.update_secrets import UpdateSecrets, documents_waiting, update_key
from ragseal.prover.provider.provider import Provider
from ragseal.prover.storage.journal import Entry
from ragseal.prover.storage.window import Window

LOOK_SECONDS = 1.0  #: between two looks at ledger and clock
AGAIN_SECONDS = 60.0  #: after a version that could not be made

log = logging.getLogger("ragseal.provider")


class Ticks:
    """Makes and enters the versions of one serving provider.  Belongs to one event loop.

    A version's secrets are durable before its entry, and from its making to its entry nothing else is made: what the
    log names is never replaced.
    """

    def __init__(self, provider: Provider, publish: float) -> None:
        """``publish``: seconds between two public states of the log; 0: every entry is public at once."""
        self._provider, self._publish = provider, publish
        self._clock = provider.environment.clock
        self.making = asyncio.Lock()  #: of versions: held while what they are made of is purged, too
        self._made: UpdateSecrets | None = None  #: durable, and not entered yet
        self._not_before = 0.0
        self.trouble = ""  #: why the newest version could not be made

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            try:
                await self.step()
            except AuditError as error:
                self._failed(str(error))
            except Exception as error:
                log.exception("the next version of the indices")
                self._failed(type(error).__name__)
            await asyncio.sleep(LOOK_SECONDS)

    def _failed(self, why: str) -> None:
        if why != self.trouble:
            log.error("NO NEW VERSION OF THE INDICES: %s; it is tried again every %.0f s", why, AGAIN_SECONDS)
        self.trouble, self._not_before = why, self._clock() + AGAIN_SECONDS

    async def step(self) -> None:
        """Make what is due now, and enter it if it need not wait for the coarse tick.

        Raises:
            AuditError: it cannot be made, or the ledger takes nothing.
        """
        async with self.making:
            window = self._provider.journal.history.open
            if self._made is not None and (window is None or self._made.entry.manifest != window.digest):
                self._made = None  # its window is over
            if window is None or self._provider.journal.failure is not None or self._provider.journal.frozen:
                return
            tick = window.due(self._clock())
            if self._made is None and tick is not None and self._clock() >= self._not_before:
                self._made = await asyncio.to_thread(self._provider.update, window, tick)
                self.trouble = ""
            if (
                self._made is not None
                and (self._publish <= 0 or self._made.entry.number == 1)
                and self._may_enter(window)
            ):
                await self._enter(self._made)

    def make_anew(self) -> None:
        """Forget a version that is made and not entered: something must not be in it.  With :attr:`making` held."""
        self._made = None

    async def publish(self) -> None:
        """Enter what waits: everybody is about to be shown it.  Raises AuditError: the ledger takes it not.

        What is still being made waits for the next coarse tick: the public sees records on time.
        """
        if self.making.locked():
            return
        async with self.making:
            window = self._provider.journal.history.open
            if self._made is not None and self._may_enter(window):
                await self._enter(self._made)

    def _may_enter(self, window: Window | None) -> bool:
        """Whether every request that was admitted can still be recorded behind what is made; else it waits for them."""
        return (
            window is None
            or self._made is None
            or not self._provider.under_way.keeps_out(window, self._made.entry.number)
        )

    async def _enter(self, made: UpdateSecrets) -> None:
        self._made = None
        self._provider.updates.put(update_key(made.entry.manifest, made.entry.number), made)
        await self._provider.journal.append(lambda: made.entry)
        log.info("version %d of the indices is in force", made.entry.number)

    async def open(self, window: Window, *makes: Callable[[], Message]) -> list[Entry | BaseException]:
        """Enter entries, the last of which opens ``window``, and the window's first version right behind them.

        Raises:
            CommitmentError, ProofError, ConfigurationError: the version cannot be made; nothing was entered.
        """
        if not window.every:
            return await self._provider.journal.append_all(*makes)
        async with self.making:
            if self._provider.journal.failure is not None:
                raise CommitmentError(self._provider.journal.failure)
            made = await asyncio.to_thread(self._provider.update, window, 0)
            self._provider.updates.put(update_key(window.digest, 1), made)
            *entered, _ = await self._provider.journal.append_all(*makes, lambda: _first(window, made.entry))
            return entered

    def status(self) -> dict[str, Any] | None:
        """What the operator is told of the open window: the version in force, when the next comes, what waits for it.

        None where the indices of no window change.
        """
        window = self._provider.journal.history.open
        if window is None or not window.every:
            return None
        newest = window.updates[-1][1] if window.updates else None
        number = 0 if newest is None else newest.number
        coming, later = waiting(self._provider.state, window.manifest, window.digest, number)
        return {
            "every": window.every,
            "number": number,
            "time": None if newest is None else newest.time,
            "next": tick_at(window.opened_at, window.every, int(self._clock())) + window.every,
            "waiting": documents_waiting(self._provider.state, window.digest, number),
            "accounts_waiting": coming,
            "accounts_for_next_window": later,
            "places": places(window.manifest),
            "overdue": window.overdue(self._clock()),
            "trouble": self.trouble,
        }


def _first(window: Window, made: IndexUpdate) -> IndexUpdate:
    """The first update of a window that has just opened: its tick is that of the opening."""
    return replace(made, time=tick_at(window.opened_at, window.every, window.opened_at))
