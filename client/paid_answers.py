# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers that were paid for and are not here: of pending requests, and those that the folder lacks.  SPEC B.4.11."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from ragseal.client.attestation import Window
from ragseal.client.exchanges import Exchanges
from ragseal.client.link import RefusedError
from ragseal.client.result import Owed, Result
from ragseal.client.settings import Environment
from ragseal.client.window import Exchange, WindowState
from ragseal.kernel.errors import AttestationError, AuditError


class PaidAnswers:
    """Of one account.  Belongs to one thread at a time."""

    def __init__(self, exchanges: Exchanges, environment: Environment) -> None:
        self._exchanges = exchanges
        self._clock, self._class_of = environment.clock, environment.class_of
        self.fetched: list[Result] = []  #: that this folder lacked

    def finish(self, window: Window, memory: WindowState, exchange: Exchange) -> Result | None:
        """The answer to a signed request; None: its number has gone to a request of another copy of this folder.

        That one's answer is kept then, and this request is put away.
        """
        try:
            return self._exchanges.finish(window, memory, exchange)
        except RefusedError as refusal:
            if not isinstance(refusal.reason, AttestationError):
                raise
            try:
                found = self._exchanges.fetch(window, memory)
            except RefusedError:
                raise refusal from None
            if found is None:
                raise
            self.fetched.append(found)
            return found if found.record.signed == exchange.signed else None

    def catch_up(self, window: Window, memory: WindowState, answered: int | None = None) -> Iterator[Result]:
        """Fetch the answers behind those that are kept, one after the other.

        Args:
            answered: as many as the provider says that there are; None: as many as it gives.

        Raises:
            AttestationError: it does not show those of which it says that they are there.
            RefusedError, LedgerError, ...: as :meth:`ragseal.client.exchanges.Exchanges.fetch`.
        """
        while answered is None or memory.answered < answered:
            one = self._exchanges.fetch(window, memory)
            if one is None:
                break
            self.fetched.append(one)
            yield one
        if answered is not None and memory.answered < answered:
            raise AttestationError(
                f"the provider says that this account has asked {answered} times in window "
                f"{window.manifest.window!r}, and shows {memory.answered} of these requests: nothing was signed"
            )

    def of(
        self, memory: WindowState, windows: Sequence[WindowState], again: bool
    ) -> Iterator[Result | Owed | Literal["given up"]]:
        """What one window brings and what it still owes; ``windows`` and ``again`` as Client.resume has them."""
        pending, lost, trouble = None, False, None
        ctr: int | None = None
        try:
            pending = memory.pending()  # first: it may find that an answer is kept already
            if memory.settled and pending is None and not again:
                return
            if not again and memory.given_up is not None:
                yield "given up"
                return
            if not memory.opened and pending is None:  # nothing was ever signed in it
                return
            try:
                yield from self._all(self._remembered(memory), memory, pending)
                if self._over(memory, windows):
                    memory.settle()
                return
            except RefusedError as refusal:
                reason, ctr = refusal.reason, memory.answered + 1
            if self._over(memory, windows) and isinstance(reason, AttestationError):
                try:
                    if memory.given_up is None:
                        memory.give_up(str(reason))
                    lost = True
                except AuditError as error:  # of the disk: it is asked again next time
                    trouble = error
        except AuditError as error:
            reason = error
        if ctr is None and pending is not None:
            ctr = pending.signed.request.ctr
        yield Owed(memory.manifest.window, ctr, reason, lost, memory.folder, trouble)

    def _all(self, window: Window, memory: WindowState, pending: Exchange | None) -> Iterator[Result | Owed]:
        """The answer to what is pending, and whatever else this folder lacks of a window."""
        if pending is not None:
            result = self.finish(window, memory, pending)
            yield self.fetched[-1] if result is None else result
            if result is None:
                reason = AttestationError(
                    "its number had gone to another request of this account: it was not recorded and cost nothing; "
                    "ask the question again"
                )
                name, ctr = memory.manifest.window, pending.signed.request.ctr
                yield Owed(name, ctr, reason, False, memory.folder)
        yield from self.catch_up(window, memory)

    def _remembered(self, memory: WindowState) -> Window:
        """A window as it was accepted before."""
        manifest, account = memory.manifest, memory.account
        index, cls = manifest.index_of(account.tenant), self._class_of(manifest.policy)
        return Window(manifest, memory.digest, account, index, cls)

    def _over(self, memory: WindowState, windows: Sequence[WindowState]) -> bool:
        """Whether no request can get a record any more, so that nothing but a provider's lie is left to find.

        A record needs an open window: this one is past its end, or the log has shown the opening of a later one.  A
        provider refuses answers that it owes only for a while, and then for another reason (too many, too often).
        """
        own = memory.manifest
        return self._clock() >= memory.closes or any(
            one.manifest.origin == own.origin and one.opened_at > memory.opened_at for one in windows
        )
