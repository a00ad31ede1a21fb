# SPDX-License-Identifier: GPL-3.0-or-later
"""Step 2, second half: opened once, closed once, in its time and in its turn.  SPEC A.1, A.8, D.2."""

from __future__ import annotations

from dataclasses import dataclass

from ragseal.kernel.attestation import COARSE_TIME, Record
from ragseal.kernel.commitment import (
    WindowClose,
    WindowOpen,
)
from ragseal.verifier.evidence.evidence import OWN_CLOCK, Refused, Undecided
from ragseal.verifier.steps.log import LogView
from ragseal.verifier.steps.manifest import Entered
from ragseal.verifier.steps.recorder import Recorder, quiet

CLOCK_SKEW = 600  #: seconds that a provider's clock may lie behind the auditor's


@dataclass(frozen=True, slots=True)
class WindowSpan:
    """Where a window's taking of queries begins and ends in the log."""

    open_index: int
    open: WindowOpen
    close_index: int  #: the log's size as long as the window is open
    close: WindowClose | None


def check_life(log: LogView, entered: Entered, say: Recorder = quiet) -> WindowSpan:
    """Step 2, second half: opened once after its manifest, closed at most once, in its time, overlapping no other one.

    Its manifest may stand in the log while another window is open, its opening may not.

    Raises:
        Refused: the log contradicts itself or the policy.
        Undecided: the window was not opened.
    """
    opens = [(i, m) for i, m in log.of(WindowOpen) if m.manifest == entered.digest]
    closes = [(i, m) for i, m in log.of(WindowClose) if m.manifest == entered.digest]
    if len(opens) > 1:
        raise Refused(f"the window was opened {len(opens)} times", ledger_indices=[i for i, _ in opens])
    if len(closes) > 1:
        raise Refused(
            f"the window has {len(closes)} closing entries; a window is closed once",
            ledger_indices=[i for i, _ in closes],
        )
    if not opens:
        for index, message in log.of(Record):
            if message.manifest == entered.digest:
                raise Refused("the log holds a record of the window, which was never opened", ledger_index=index)
        raise Undecided("the window was not opened: there is nothing in it", "audit a window that was opened")
    life = WindowSpan(*opens[0], *(closes[0] if closes else (log.size, None)))
    policy = entered.manifest.policy
    say(opened_at=life.open.time, open_index=life.open_index)
    if not entered.index < life.open_index < life.close_index:
        raise Refused("the entries manifest, opening, closing are out of order", manifest_index=entered.index)
    _not_passed_over(log, entered, life)
    if not policy.may_open(life.open.time):
        raise Refused("the window was opened outside the time that its policy names", opens=policy.opens)
    if life.close is not None:
        say(closed_at=life.close.time, close_index=life.close_index)
        if life.close.time < life.open.time:
            raise Refused("the window was closed before it was opened")
    _alone(log, entered, life)
    return life


def check_over(life: WindowSpan, now: int, drawn: int) -> None:
    """Step 2: the window is over, and its times fit this auditor's clock.

    Args:
        now: the auditor's clock, seconds since 1970.
        drawn: the same clock when the auditor drew its beacon nonce; the window cannot have opened before.

    Raises:
        Undecided: it is not over yet, or the log's times do not fit.
    """
    if life.close is None:
        raise Undecided("the window is still open", "audit it after it was closed")
    if life.open.time + CLOCK_SKEW < drawn:
        raise Undecided(
            "by this auditor's clock the window was opened before its beacon nonce was drawn: it is dated back, or the "
            "clock was wrong then",
            OWN_CLOCK,
            opened_at=life.open.time,
            drawn_at=drawn,
        )
    if life.close.time > now + COARSE_TIME:
        raise Undecided("the window's closing time lies in the future of this auditor's clock", OWN_CLOCK, now=now)


def _not_passed_over(log: LogView, entered: Entered, life: WindowSpan) -> None:
    """No newer window was committed before this one opened: of two, the provider could take the beacon it likes."""
    for index, _ in log.manifests():
        if entered.index < index < life.open_index:
            raise Refused("the window was opened although a newer one had been committed", newer_index=index)


def _alone(log: LogView, entered: Entered, life: WindowSpan) -> None:
    ends = {m.manifest: (i, m) for i, m in reversed(list(log.of(WindowClose)))}
    for start, other in log.of(WindowOpen):
        if other.manifest == entered.digest:
            continue
        stop, close = ends.get(other.manifest, (log.size, None))
        if start < life.close_index and life.open_index < stop:
            raise Refused("the window overlaps another one of this log", other=other.manifest, other_open=start)
        if close is not None and stop < life.open_index and close.time > life.open.time:
            raise Refused("the window was opened before an earlier one was closed", other=other.manifest)
