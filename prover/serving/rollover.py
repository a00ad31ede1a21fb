# SPDX-License-Identifier: GPL-3.0-or-later
"""One window after the other without a gap: the next is committed and drawn while this one is open.  SPEC A.1.1.

What is committed by itself is committed on the terms that the operator named when it started the provider: where the
next window would come to a larger epsilon, none is committed, this one ends by its policy, and log and status say why.
"""

from __future__ import annotations

import asyncio
import logging
import re
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragseal.kernel.beacon import Seat
from ragseal.kernel.encoding import NAME
from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError
from ragseal.prover.commitment.policy_file import policy_bytes
from ragseal.prover.serving.committing import Times, commit_while_serving
from ragseal.prover.serving.serving import Serving
from ragseal.prover.storage.window import Window
from ragseal.runtime.face import when

LOOK_SECONDS = 1.0  #: between two looks at ledger and clock
AGAIN_SECONDS = 60.0  #: after a window that could not be committed
SAY_SECONDS = 3600.0  #: after which an operator is told the same once more
LEAST_EVERY = 600.0
LEAD = 900.0  #: a beacon beside an open window takes four coarse ticks, and longer where participants are late
_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86400}

log = logging.getLogger("ragseal.provider")


def seconds_of(text: str) -> float:
    """The seconds of a text such as 90s, 30m, 24h or 7d; ConfigurationError for another one."""
    found = re.fullmatch(r"([0-9]{1,9})([smhd])", text)
    if found is None:
        raise ConfigurationError(f"{text!r} is not a length of time: write 90s, 30m, 24h or 7d")
    return float(int(found[1]) * _UNITS[found[2]])


@dataclass(frozen=True, slots=True)
class Schedule:
    """What an operator wants of the windows that follow each other."""

    policy: Path  #: read anew for each
    every: float  #: seconds from one opening to the next
    pattern: str = "w{n}"  #: of their names: {n} is a number, % as in strftime (UTC)
    agreed: float | None = None  #: the largest epsilon over the budget period that is committed to
    auditors: Sequence[Seat] = ()
    lead: float = LEAD  #: seconds before its opening at which the next is committed, at most half of ``every``

    def check(self) -> None:
        """Raises ConfigurationError: windows too short, a pattern whose names do not differ or that none may have."""
        if self.every < LEAST_EVERY:
            raise ConfigurationError(
                f"--every is at least {LEAST_EVERY:.0f} s: a beacon takes minutes while another window is open"
            )
        name_of(self.pattern, (), 0.0)
        policy_bytes(self.policy)

    @property
    def ahead(self) -> float:
        return min(self.lead, self.every / 2)


def name_of(pattern: str, known: Collection[str], opens: float) -> str:
    """The next window's name.

    Raises:
        ConfigurationError: the pattern gives every window the same name, or one that no window may have.
    """
    if "{n}" not in pattern and "%" not in pattern:
        raise ConfigurationError(
            f"--name {pattern!r} names every window alike: put {{n}} or a date such as %Y-%m-%d in"
        )
    try:
        dated = time.strftime(pattern, time.gmtime(opens))
    except ValueError as error:
        raise ConfigurationError(f"--name {pattern!r}: {error}") from None
    numbered = dated if "{n}" in dated else dated + "-{n}"
    number = len(known) + 1 if "{n}" in dated else 1
    while True:
        name = dated if "{n}" not in dated and number == 1 else numbered.replace("{n}", str(number))
        if name not in known:
            break
        number += 1
    try:
        NAME.write(name, bytearray())
    except EncodingError as error:
        raise ConfigurationError(f"--name {pattern!r} gives a name that no window may have: {error}") from None
    return name


class RollOver:
    """Commits, closes and opens in a serving provider's event loop."""

    def __init__(self, serving: Serving, schedule: Schedule) -> None:
        self._serving, self._schedule = serving, schedule
        serving.warns_of_ends = False
        self._clock = serving.provider.environment.clock
        self._opened: dict[bytes, float] = {}  #: when a window was seen to open; its entry says it to the minute only
        self._began = False
        self._not_before = 0.0
        self._said = ("", 0.0)
        self.trouble = ""  #: why no window follows

    async def run(self) -> None:
        """Go on until cancelled."""
        while True:
            try:
                await self.step()
            except AuditError as error:
                self._refused(str(error))
            except Exception as error:
                log.exception("the next window")
                self._refused(type(error).__name__)
            await asyncio.sleep(LOOK_SECONDS)

    def _refused(self, why: str) -> None:
        now = self._clock()
        self.trouble, self._not_before = why, now + AGAIN_SECONDS
        if why == self._said[0] and now < self._said[1] + SAY_SECONDS:
            return
        self._said = why, now
        window = self._serving.journal.history.open
        ends = "no window is open" if window is None else f"the open one ends at {when(window.closes)}"
        log.error("NO WINDOW FOLLOWS: %s; %s, and accounts get no answers after that", why, ends)

    def turn(self, window: Window) -> float:
        """When an open window's time is over by the schedule."""
        return self._opened.get(window.digest, float(window.opened_at)) + self._schedule.every

    async def step(self) -> None:
        """Do what is due now.

        Raises:
            AuditError: the next window cannot be committed, or the ledger takes nothing.
        """
        history, now = self._serving.journal.history, self._clock()
        window, following = history.open, history.following
        if window is not None:
            self._opened.setdefault(window.digest, now if self._began else float(window.opened_at))
        self._began = True
        if following is not None and now > following.closes:
            following = None  # its time was over before it could open
        if window is None:
            if following is None:
                await self._commit(now)
            return
        turn = self.turn(window)
        if following is None and now >= turn - self._schedule.ahead and now >= self._not_before:
            await self._commit(max(turn, now))
            return
        ready = following is not None and self._serving.beacon.ready(following)
        if now > window.closes or (ready and now >= turn):
            await self._serving.turn(window)

    async def _commit(self, opens: float) -> None:
        if self._clock() < self._not_before:
            return
        schedule, serving = self._schedule, self._serving
        known = {one.manifest.window for one in serving.journal.history.windows.values()}
        name = name_of(schedule.pattern, known, opens)
        times = Times(int(opens), int(schedule.every + schedule.ahead))
        policy = await asyncio.to_thread(policy_bytes, schedule.policy)
        said = await commit_while_serving(serving, policy, name, schedule.agreed, times, schedule.auditors)
        self.trouble, self._said = "", ("", 0.0)
        log.info("%s", said.text)

    def status(self) -> dict[str, Any]:
        """What the operator is told: every, the turn of the open window, and why no window follows."""
        window = self._serving.journal.history.open
        return {
            "every": self._schedule.every,
            "turn": None if window is None else int(self.turn(window)),
            "trouble": self.trouble,
        }
