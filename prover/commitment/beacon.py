# SPDX-License-Identifier: GPL-3.0-or-later
"""Phase A, beacon: commit, seal, open, with the auditors last.  SPEC A.8.

The provider collects commitments, seals who takes part, opens its own nonce first, takes the others' and opens the
window once the auditors have opened; where the claim has a coin, it thins the indices before that.  An observer whose
opening is missing is left out, but only before an auditor opens.  An auditor that has not committed when the beacon is
sealed is left out; one that has cannot be: without its nonce the window never opens.  Observers that the operator named
have places of their own, and strangers are not waited for.

All of it but the opening may happen while the window before is open.  What is entered then becomes public on the coarse
tick only, so everybody is waited for that much longer.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from ragseal.kernel import signature
from ragseal.kernel.beacon import (
    MAX_PARTICIPANTS,
    OBSERVER,
    PROVIDER,
    BeaconCommit,
    BeaconOpening,
    BeaconSeal,
    is_auditor,
)
from ragseal.kernel.commitment import (
    MAX_AUDITORS,
    Thinning,
    WindowOpen,
)
from ragseal.kernel.errors import CommitmentError, ConfigurationError
from ragseal.kernel.signature import SigningKey
from ragseal.prover.commitment.loaded import Loaded
from ragseal.prover.commitment.window_secrets import WindowSecrets
from ragseal.prover.storage.journal import Entry, Journal
from ragseal.prover.storage.window import Stage, Window
from ragseal.runtime.face import when

OPENING_SECONDS = 10.0  #: how long the auditor's call waits for the window to open
POLL_SECONDS = 0.5  #: while the window's opening time is awaited, and after a step that was refused
MAX_STRANGERS = 16  #: observers that the operator did not name
MAX_OBSERVERS = MAX_PARTICIPANTS - 1 - MAX_AUDITORS
MAX_NAMED = MAX_OBSERVERS - MAX_STRANGERS  #: observers that it named
STRANGER_SECONDS = 10.0  #: how long openings of strangers are waited for where observers are named

log = logging.getLogger("ragseal.provider")


@dataclass(frozen=True, slots=True)
class BeaconRules:
    """How long the provider waits, and for whom."""

    participants: int = 1  #: commitments of others, auditors' included, after which the beacon is sealed at once
    wait: float = 60.0  #: seconds after which it is sealed with those who are there, and openings count as missing
    observers: Mapping[str, bytes] = field(default_factory=dict)  #: keys of named ones, by what follows "observer-"

    def __post_init__(self) -> None:
        """Raises ConfigurationError: more observers than there are places, or an empty name."""
        if len(self.observers) > MAX_NAMED:
            raise ConfigurationError(f"{len(self.observers)} observers are named, at most {MAX_NAMED} can be")
        if not all(self.observers):
            raise ConfigurationError("an observer needs a name")

    def key_of(self, owner: str) -> bytes | None:
        """The key that an observer must have; None where any may take part under that name."""
        return self.observers.get(owner.removeprefix(OBSERVER)) if owner.startswith(OBSERVER) else None

    def named(self) -> set[str]:
        """Observers that the operator named."""
        return {OBSERVER + name for name in self.observers}


class _OverError(CommitmentError):
    """The window's time is over: nothing is tried again."""


class _NobodyError(CommitmentError):
    """There is nobody to leave out: the last of them opened while the seal was queued."""


class Beacon:
    """Drives the following window from its manifest to its opening."""

    def __init__(
        self,
        journal: Journal,
        secrets: Loaded[WindowSecrets],
        rules: BeaconRules,
        clock: Callable[[], float],
        thin: Callable[[Window], Thinning],
        publish: float = 0.0,
        enter: Callable[..., Awaitable[list[Entry | BaseException]]] | None = None,
    ) -> None:
        """
        Args:
            thin: empties the slots that a window's coins hide, once its beacon is complete; blocks.
            publish: seconds after which the public has seen what is entered beside an open window.
            enter: called with a window and what opens it: enters that, and what belongs right behind it.
        """
        self._publish = publish
        self._enter = enter
        self._thin = thin
        self._journal = journal
        self._secrets = secrets
        self._rules = rules
        self._clock = clock
        self._changed = asyncio.Event()

    async def commit(self, canonical: bytes) -> None:
        """Enter a participant's commitment.

        Raises:
            CommitmentError: a stranger, a name that is another's or taken, too many participants, or too late.
            AttestationError: a signature that does not hold.
        """
        message = BeaconCommit.decode(canonical)
        message.verify()
        window = self._journal.history.window(message.manifest)
        if window.commits.get(message.owner) == message:
            return
        await self._journal.append(lambda: self._admitted(window, message))
        self._changed.set()

    def _admitted(self, window: Window, message: BeaconCommit) -> BeaconCommit:
        """The message, if its owner may have the place; asked in the writer's turn, so that no two get the last one."""
        owner, key = message.owner, self._rules.key_of(message.owner)
        if key is not None and key != message.public_key:
            raise CommitmentError(f"{owner} is the name of an observer with another key: take another name")
        if is_auditor(owner):
            return message
        named, others = self._rules.named(), {one for one in window.commits if not is_auditor(one)}
        if len(others) >= MAX_OBSERVERS:
            raise CommitmentError(f"the beacon has its {MAX_OBSERVERS} observers")
        if owner not in named and len(others - named) >= MAX_STRANGERS:
            raise CommitmentError(
                f"the beacon has its {MAX_STRANGERS} observers that nobody named: ask the operator to name this key"
            )
        return message

    async def open(self, canonical: bytes) -> Window:
        """Enter a participant's nonce; the window, which the last auditor's opens soon if no other one is open.

        Raises:
            CommitmentError: not sealed, out of turn, or not the committed nonce.
        """
        message = BeaconOpening.decode(canonical)
        window = self._journal.history.window(message.manifest)
        if message.owner == PROVIDER:
            raise CommitmentError("the provider opens its own nonce itself")
        if window.openings.get(message.owner) == message.nonce:
            return window
        await self._journal.append(lambda: message)
        self._changed.set()
        history = self._journal.history
        if not window.missing():
            await self._until(lambda: window.stage is Stage.OPEN or history.open is not None, OPENING_SECONDS)
        return window

    def wake(self) -> None:
        """Something happened in the ledger that a window may have waited for: a manifest, a closing."""
        self._changed.set()

    async def pending(self) -> None:
        """Returns once there is a window to drive."""
        while not await self._until(lambda: self._journal.history.following is not None, self._rules.wait):
            pass

    def ready(self, window: Window) -> bool:
        """Whether a window could open now, were none open: the beacon is complete, indices are thinned, it is time."""
        policy = window.manifest.policy
        complete = window.stage is Stage.SEALED and not window.missing()
        thinned = window.thinning is not None or not window.manifest.coins
        return complete and thinned and policy.opens <= self._clock() <= policy.opens_by

    async def run(self) -> None:
        """Bring the following window to its opening, from wherever the ledger stands; returns once it is open.

        A step that the ledger refuses, because somebody else's entry came first, is made anew.

        Raises:
            CommitmentError: the window's time was over first, or a newer one was committed.
            AuditError: its secrets cannot be loaded, or the ledger takes nothing more.
        """
        window = self._journal.history.following
        if window is None:
            return
        self._check_time(window)
        secrets = await asyncio.to_thread(self._secrets.get, window.digest)
        while window.beacon is None:
            try:
                await self._advance(window, secrets)
            except _OverError:
                raise
            except CommitmentError as error:
                if window.beacon is not None:  # closing the window before opened it
                    break
                self._check_time(window)
                log.warning("beacon: %s; trying again", error)
                await asyncio.sleep(POLL_SECONDS)
        log.info("window %s is open", window.manifest.window)

    async def _advance(self, window: Window, secrets: WindowSecrets) -> None:
        """From where the window stands to its opening.  Raises CommitmentError: refused, or its time is over."""
        if window.stage is Stage.COMMITTED:
            await self._collect(window)
            await self._append(lambda: self._first_seal(window, secrets.key))
        if PROVIDER not in window.openings:
            await self._append(lambda: BeaconOpening(window.digest, PROVIDER, secrets.nonce))
        await self._wait_for_openings(window, secrets.key)
        while not await self._until(lambda: not window.missing(), self._patience(), window):
            self._check_time(window)
            log.warning("beacon: waiting for %s to open", ", ".join(window.missing()))
        if window.manifest.coins and window.thinning is None:
            thinning = await asyncio.to_thread(self._thin, window)
            await self._append(lambda: thinning)
            await asyncio.to_thread(self._secrets.get, window.digest)  # thinned, before anybody asks
        history = self._journal.history
        while self._clock() < window.manifest.policy.opens or history.open is not None:
            if window.beacon is not None:
                return
            self._check_time(window)
            if history.open is None:
                await asyncio.sleep(POLL_SECONDS)
            else:
                await self._until(lambda: history.open is None, POLL_SECONDS)
        self._check_time(window)
        if self._enter is None:
            await self._append(lambda: self.opening(window))
            return
        (opened,) = await self._enter(window, lambda: self.opening(window))
        if isinstance(opened, BaseException):
            raise opened
        self._changed.set()

    def _patience(self) -> float:
        """Seconds for participants to do something: longer where they see the log on the coarse tick."""
        return self._rules.wait + (self._publish if self._journal.history.open is not None else 0.0)

    def opening(self, window: Window) -> WindowOpen:
        """The entry that opens a window whose beacon is complete.

        Raises:
            CommitmentError: it is not complete, or the window's time is over.
        """
        time = self._journal.history.opening_time(window, self._clock())
        if time > window.closes:
            raise _OverError(
                f"window {window.manifest.window!r} ends before the newest entry of the ledger: set the clock"
            )
        return WindowOpen(window.digest, window.seal_value(), time)

    def _check_time(self, window: Window) -> None:
        if self._journal.history.passed_over(window):
            raise _OverError(f"window {window.manifest.window!r} is passed over: a newer one is committed")
        if self._clock() > window.closes:
            raise _OverError(
                f"the beacon of window {window.manifest.window!r} was not complete by {when(window.closes)}, until "
                "when it could open: commit a new window"
            )

    async def _collect(self, window: Window) -> None:
        """Until everybody who is expected has committed; then until one of the auditors has."""
        auditors = {one.owner for one in window.manifest.auditors}
        expected = auditors | self._rules.named()
        enough = lambda: expected <= set(window.commits) and len(window.commits) >= self._rules.participants  # noqa: E731
        if await self._until(enough, self._patience(), window):
            return
        while not await self._until(lambda: bool(auditors & set(window.commits)), self._patience(), window):
            self._check_time(window)
            log.warning("beacon: no auditor has committed to window %s yet, it cannot open", window.manifest.window)

    async def _wait_for_openings(self, window: Window, key: SigningKey) -> None:
        """Until nobody's opening but the auditors' is missing; who does not open in time is left out."""
        wait = self._patience()
        stages = [(wait, frozenset[str]())]
        if self._rules.observers:
            strangers = min(STRANGER_SECONDS + wait - self._rules.wait, wait)
            stages.insert(0, (strangers, frozenset(self._rules.named())))
        begun = asyncio.get_running_loop().time()
        for seconds, patience in stages:
            left = begun + seconds - asyncio.get_running_loop().time()
            if await self._until(lambda: all(map(is_auditor, window.missing())), left, window):
                return
            with contextlib.suppress(_NobodyError):
                await self._append(lambda patience=patience: self._later_seal(window, key, patience))  # type: ignore[misc]

    def _first_seal(self, window: Window, key: SigningKey) -> BeaconSeal:
        others = sorted(owner for owner in window.commits if not is_auditor(owner))
        return _seal(window, key, (PROVIDER, *others, *window.committed_auditors()))

    def _later_seal(self, window: Window, key: SigningKey, patience: frozenset[str]) -> BeaconSeal:
        """A seal without those who are missing in the moment in which it is entered, except who has more time."""
        absent = {one for one in window.missing() if not is_auditor(one)} - patience
        if window.seal is None or not absent:
            raise _NobodyError("everybody that had to open has opened")
        log.warning("beacon: %s did not open and are left out", ", ".join(sorted(absent)))
        return _seal(window, key, tuple(owner for owner in window.seal.owners if owner not in absent))

    async def _append(self, make: Callable[[], BeaconSeal | BeaconOpening | Thinning | WindowOpen]) -> None:
        """Enter what ``make`` gives in the writer's turn: nothing can come between its reading and its entry."""
        await self._journal.append(make)
        self._changed.set()

    async def _until(self, condition: Callable[[], bool], seconds: float, window: Window | None = None) -> bool:
        """Wait until ``condition`` holds, at most ``seconds``; whether it does.

        Raises:
            CommitmentError: ``window`` was passed over meanwhile.
        """
        end = asyncio.get_running_loop().time() + seconds
        while not condition():
            if window is not None and self._journal.history.passed_over(window):
                self._check_time(window)
            left = end - asyncio.get_running_loop().time()
            if left <= 0:
                return False
            self._changed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(left, 1.0)):  # wait_for may swallow that this task is to end
                    await self._changed.wait()
        return True


def _seal(window: Window, key: SigningKey, owners: tuple[str, ...]) -> BeaconSeal:
    """``key``: of the window."""
    body = BeaconSeal(window.digest, owners, bytes(64)).body()
    return BeaconSeal(window.digest, owners, signature.sign(key, "beacon-seal", body))
