# SPDX-License-Identifier: GPL-3.0-or-later
"""Which asks of auditors were taken: each is answered once, whatever restarts and clocks do.  SPEC G.8.

An ask is kept in state.db before it is worked on, for as long as its time would do.  The clock that says so may jump:
what was forgotten too early is not taken again, because no ask of an auditor is older than one of its that was
forgotten.  That is by the auditor's own clock, so auditors whose clocks differ do not lock each other out.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable

from ragseal.kernel.errors import AttestationError, TransportError
from ragseal.kernel.inquiry import ASK_SECONDS, Ask
from ragseal.prover.storage.state import State


class Asked:
    """The asks that were taken.  :meth:`take` and ``len`` belong to one thread; what ``take`` returns may block."""

    def __init__(self, state: State) -> None:
        self._state = state
        rows = state.rows("SELECT digest, auditor, time FROM asks ORDER BY rowid")
        self._known: dict[bytes, tuple[bytes, int]] = {digest: (who, at) for digest, who, at in rows}  # oldest first
        self._floors: dict[bytes, int] = dict(state.rows("SELECT auditor, time FROM ask_floors"))

    def __len__(self) -> int:
        return len(self._known)

    def take(self, auditor: bytes, ask: Ask, now: float) -> Callable[[], None]:
        """Take an ask whose signature and time hold.

        Returns:
            What makes it durable, to be called (from any thread) before the ask is worked on.  A crash before forgets
            the ask, and nobody has an answer to it.  Raises ConfigurationError: the disk refuses.

        Raises:
            AttestationError: it was taken before.
            TransportError: nobody can tell any more whether it was; the auditor asks anew.
        """
        digest, horizon = ask.digest(), int(now) - ASK_SECONDS
        if digest in self._known:
            raise AttestationError("this ask was sent before: every ask has a fresh nonce")
        self._forget(horizon)
        if ask.time <= self._floors.get(auditor, -1):
            raise TransportError("this provider's clock jumped, and it forgot which asks of that time it had: ask anew")
        self._known[digest] = auditor, ask.time
        return lambda: self._keep(digest, auditor, ask.time, horizon)

    def _forget(self, horizon: int) -> None:
        """Those of before ``horizon``, from the one that was taken first to the first that is still of its time."""
        gone = list(itertools.takewhile(lambda one: one[1][1] < horizon, self._known.items()))
        for digest, (auditor, time) in gone:
            del self._known[digest]
            self._floors[auditor] = max(time, self._floors.get(auditor, -1))

    def _keep(self, digest: bytes, auditor: bytes, time: int, horizon: int) -> None:
        with self._state.transaction() as db:
            db.execute(
                "INSERT INTO ask_floors SELECT auditor, MAX(time) FROM asks WHERE time < ? GROUP BY auditor "
                "ON CONFLICT DO UPDATE SET time = MAX(time, excluded.time)",
                (horizon,),
            )
            db.execute("DELETE FROM asks WHERE time < ?", (horizon,))
            db.execute("INSERT INTO asks VALUES (?, ?, ?)", (digest, auditor, time))
