# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A, beacon: commit, seal, open, with the auditor last.  SPEC A.8; protocol section 3.

The provider collects commitments, seals who takes part, opens its own nonce first, takes the others' and opens the
window once the auditor has opened.  A missing opening removes its owner, but only before the auditor opens; without the
auditor no window opens.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.kernel import signature
from ragseal.kernel.commitment import MAX_PARTICIPANTS, BeaconCommit, BeaconOpening, BeaconSeal, WindowOpen
from ragseal.kernel.errors import CommitmentError
from ragseal.prover.commitment import WindowSecrets
from ragseal.prover.journal import Journal
from ragseal.prover.window import AUDITOR, PROVIDER, Stage, Window, coarse

OPENING_SECONDS = 10.0  #: how long the auditor's call waits for the window to open
POLL_SECONDS = 0.5  #: while the window's opening time is awaited

log = logging.getLogger("ragseal.provider")


@dataclass(frozen=True, slots=True)
class BeaconRules:
    """How long the provider waits, and for whom."""

    participants: int = 1  #: commitments of others, the auditor's included, after which the beacon is sealed at once
    wait: float = 60.0  #: seconds after which it is sealed with those who are there, and openings count as missing


class Beacon:
    """Drives the newest window from its manifest to its opening."""

    def __init__(
        self,
        journal: Journal,
        secrets_of: Callable[[bytes], WindowSecrets],
        key: Ed25519PrivateKey,
        rules: BeaconRules,
        clock: Callable[[], float],
    ) -> None:
        self._journal = journal
        self._secrets_of = secrets_of
        self._key = key
        self._rules = rules
        self._clock = clock
        self._changed = asyncio.Event()

    async def commit(self, canonical: bytes) -> int:
        """Enter a participant's commitment; the ledger index.

        Raises:
            CommitmentError: a stranger, a name that is taken, too many participants, or too late.
            AttestationError: a signature that does not hold.
        """
        message = BeaconCommit.decode(canonical)
        message.verify()
        window = self._journal.history.window(message.manifest)
        known = window.commits.get(message.owner)
        if known == message:
            return self._journal.index_of(canonical, window.index)
        room = MAX_PARTICIPANTS - 1 - (0 if message.owner == AUDITOR or AUDITOR in window.commits else 1)
        if len(window.commits) >= room:
            raise CommitmentError(f"the beacon has its {MAX_PARTICIPANTS} participants")
        entry = await self._journal.append(lambda: message)
        self._changed.set()
        return entry.index

    async def open(self, canonical: bytes) -> tuple[int, Window]:
        """Enter a participant's nonce; the ledger index and the window.

        Raises:
            CommitmentError: not sealed, out of turn, or not the committed nonce.
        """
        message = BeaconOpening.decode(canonical)
        window = self._journal.history.window(message.manifest)
        if message.owner == PROVIDER:
            raise CommitmentError("the provider opens its own nonce itself")
        if window.openings.get(message.owner) == message.nonce:
            return self._journal.index_of(canonical, window.index), window
        entry = await self._journal.append(lambda: message)
        self._changed.set()
        if message.owner == AUDITOR:
            await self._until(lambda: window.stage is Stage.OPEN, OPENING_SECONDS)
        return entry.index, window

    async def run(self) -> None:
        """Bring the newest window to its opening, from wherever the ledger stands; returns once it is open."""
        window = self._journal.history.newest
        if window is None or window.stage in (Stage.OPEN, Stage.CLOSED):
            return
        secrets = await asyncio.to_thread(self._secrets_of, window.digest)
        if window.stage is Stage.COMMITTED:
            await self._collect(window)
            others = sorted(owner for owner in window.commits if owner != AUDITOR)
            await self._seal(window, (PROVIDER, *others, AUDITOR))
        if PROVIDER not in window.openings:
            opening = BeaconOpening(window.digest, PROVIDER, secrets.nonce)
            await self._journal.append(lambda: opening)
        if not await self._until(lambda: set(window.missing()) <= {AUDITOR}, self._rules.wait):
            assert window.seal is not None
            absent = set(window.missing()) - {AUDITOR}
            log.warning("beacon: %s did not open and are left out", ", ".join(sorted(absent)))
            await self._seal(window, tuple(o for o in window.seal.owners if o not in absent))
        while not await self._until(lambda: not window.missing(), self._rules.wait):
            log.warning("beacon: waiting for the auditor to open its nonce")
        while self._clock() < window.manifest.policy.opens:
            await asyncio.sleep(POLL_SECONDS)
        if self._clock() > window.manifest.policy.closes:
            raise CommitmentError(
                f"the closing time of window {window.manifest.window!r} passed before its beacon was complete: "
                "commit a new window"
            )
        await self._journal.append(lambda: WindowOpen(window.digest, window.seal_value(), coarse(self._clock())))
        self._changed.set()
        log.info("window %s is open", window.manifest.window)

    async def _collect(self, window: Window) -> None:
        enough = lambda: AUDITOR in window.commits and len(window.commits) >= self._rules.participants  # noqa: E731
        if await self._until(enough, self._rules.wait):
            return
        while not await self._until(lambda: AUDITOR in window.commits, self._rules.wait):
            log.warning("beacon: no auditor has committed to window %s yet, it cannot open", window.manifest.window)

    async def _seal(self, window: Window, owners: tuple[str, ...]) -> None:
        body = BeaconSeal(window.digest, owners, bytes(64)).body()
        seal = BeaconSeal(window.digest, owners, signature.sign(self._key, "beacon-seal", body))
        await self._journal.append(lambda: seal)
        self._changed.set()

    async def _until(self, condition: Callable[[], bool], seconds: float) -> bool:
        """Wait until ``condition`` holds, at most ``seconds``; whether it does."""
        end = asyncio.get_running_loop().time() + seconds
        while not condition():
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            self._changed.clear()
            try:
                await asyncio.wait_for(self._changed.wait(), min(left, 1.0))
            except TimeoutError:
                continue
        return True
