# SPDX-License-Identifier: GPL-3.0-or-later
"""That others were shown the window that an account relies on: a quorum of its witness policy.  SPEC A.7.3."""

from __future__ import annotations

from ragseal.client.evidence import Evidence
from ragseal.client.history import History, Shown
from ragseal.client.window import WindowState
from ragseal.kernel.errors import AuditError, TransportError
from ragseal.ledger.policy import Policy, QuorumError

LATER = "ask again in a minute; if it stays so, the provider does not submit to the witnesses of your policy"


class Witnesses:
    """An account's policy, and what it asks of a window."""

    def __init__(self, policy: Policy, history: History) -> None:
        self.policy, self._history = policy, history

    def check(self, memory: WindowState, evidence: Evidence) -> None:
        """A quorum cosigned a checkpoint that covers the window's opening, and with it the manifest.

        The checkpoint is of the one history that this account remembers, in which it found both.  Once found, the note
        is kept with the window.

        Raises:
            TransportError: not yet, or not shown; nothing was sent under the window.
            LedgerError, EncodingError: a note or a line in it that does not verify, or another history.
        """
        if self.policy.asks_nobody or self._covers(memory.witnessed, memory.opened_at):
            return
        note = self._history.cosigned(evidence)
        if note is None:
            raise TransportError(f"no witness has cosigned this log yet: {LATER}")
        try:
            signed = self.policy.open(note, self._history.log)
        except QuorumError as error:
            raise TransportError(f"{error}: {LATER}") from None
        size = signed.checkpoint.size
        if size <= memory.opened_at:
            opening = f"the window opens with entry {memory.opened_at}"
            raise TransportError(f"a quorum of witnesses cosigned {size} entries, {opening}: {LATER}")
        newest = self._history.agrees(signed.checkpoint, evidence)
        self._history.remember(Shown(note, signed.checkpoint, newest))
        memory.remember_witnessed(note)

    def _covers(self, kept: bytes | None, index: int) -> bool:
        """Whether a note that was kept is enough: another policy may be in force by now."""
        if kept is None:
            return False
        try:
            return self.policy.open(kept, self._history.log).checkpoint.size > index
        except AuditError:
            return False
