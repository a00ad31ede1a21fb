# SPDX-License-Identifier: GPL-3.0-or-later
"""Which version of its index an account is answered from, and whether it may ask over that one.  SPEC A.12, A.13."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from ragseal.kernel.commitment import Account
from ragseal.kernel.errors import AttestationError
from ragseal.kernel.versions import ANSWERING
from ragseal.prover.attestation.open_window import OpenWindow
from ragseal.prover.commitment import enrolling
from ragseal.prover.commitment.index import Version
from ragseal.prover.commitment.loaded import Loads
from ragseal.prover.commitment.update_secrets import UpdateSecrets, update_key
from ragseal.prover.storage.journal import Journal
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Stage, Window

OPENING_SECONDS = 2.0  #: how long an account waits for the first version of an index behind its window's opening


class AnsweringVersions:
    """The versions of the windows' indices, as they are answered from.  Coroutines run in one event loop."""

    def __init__(
        self, state: State, journal: Journal, updates: Loads[UpdateSecrets], clock: Callable[[], float]
    ) -> None:
        """
        Args:
            updates: the secrets of the versions that windows with ticks answer from.
            clock: seconds since 1970.
        """
        self._state = state
        self._journal = journal
        self._updates = updates
        self._clock = clock

    async def of(self, opened: OpenWindow, account: Account, digest: bytes) -> Version:
        """The version of the account's index with this digest."""
        number = opened.window.number_of(digest)
        if not number:
            return opened.version(account.tenant, digest)
        update = await self._updates.of(update_key(opened.digest, number), account.public_key)  # beside the event loop
        return update.versions[account.tenant]

    async def wait_for_first(self, window: Window) -> None:
        """Wait for the first version of a window that is just being opened: it is on its way behind the opening."""
        end = time.monotonic() + OPENING_SECONDS
        while window.every and window.stage is Stage.OPEN and time.monotonic() < end:
            if window.updates and window.updates[0][0] < self._journal.public.size:
                return
            await asyncio.sleep(0.05)

    def newest(self, window: Window, tenant: str) -> tuple[bytes, int]:
        """Digest of the newest version that everybody can see, and where the ledger names it (0: in the manifest).

        Raises:
            AttestationError: there is none yet, or it is overdue.
        """
        if not window.every:
            return window.manifest.index_of(tenant).digest(), 0
        shown = [(index, one) for index, one in window.updates[-ANSWERING - 1 :] if index < self._journal.public.size]
        if not shown or self._clock() >= shown[-1][1].time + ANSWERING * window.every:
            raise AttestationError(
                f"the index of window {window.manifest.window!r} is being brought up to date: ask again in a minute"
            )
        index, newest = shown[-1]
        return newest.index_digest(tenant), index

    async def check_enrolled(self, window: Window, pseudonym: str, digest: bytes) -> None:
        """Raises AttestationError: the account may not ask over the version with this digest."""
        if window.every:
            number = window.number_of(digest)
            await asyncio.to_thread(enrolling.check_enrolled, self._state, window.digest, pseudonym, number)
