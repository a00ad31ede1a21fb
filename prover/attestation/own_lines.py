# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts get their own lines of a window's registry, and nobody learns who else is registered.  SPEC A.7, B.9."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from ragseal.kernel import signature
from ragseal.kernel.commitment import Account, AccountAsk
from ragseal.kernel.enrolment import Enrolment
from ragseal.kernel.errors import AttestationError
from ragseal.prover.base.limits import LINES, LINES_A_SECOND
from ragseal.prover.commitment.enrolling import OpenEnrolments, enrolled_by_name
from ragseal.prover.commitment.loaded import Loaded, Loads
from ragseal.prover.commitment.registry import OpenRegistry, named_account
from ragseal.prover.commitment.update_secrets import update_key
from ragseal.prover.storage.history import History
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Window
from ragseal.runtime.tokenbucket import TokenBuckets


@dataclass(frozen=True, slots=True)
class _Signer:
    """Whose ask it is."""

    account: Account
    line: Enrolment | None  #: of an account that came later than the manifest

    @property
    def public_key(self) -> bytes:
        return self.account.public_key


class OwnLines:
    """Answers GetAccount.  Belongs to one event loop."""

    def __init__(
        self,
        state: State,
        history: History,
        provider_key: bytes,
        registries: Loaded[OpenRegistry],
        enrolments: Loaded[OpenEnrolments],
        shown: Callable[[], int],
    ) -> None:
        """
        Args:
            registries: of manifests, and ``enrolments`` of the versions of windows with ticks.
            shown: how many entries of the log everybody is shown.
        """
        self._state, self._shown = state, shown
        self._history = history
        self._provider_key = provider_key
        self._lines = TokenBuckets(LINES, LINES_A_SECOND, "this account asks for its line too often")
        self._registries = Loads(registries, "this account asks for its lines of too many old windows")
        self._enrolments = Loads(enrolments, "this account asks for its lines of too many old versions")

    async def line(self, canonical: bytes, proof: bytes) -> bytes:
        """An account's own line of a window's registry: canonical Membership, of one that came later LateMembership.

        Raises:
            AttestationError: no such account in this window, or not its signature; which of the two is not said.
            BudgetError: this account asks too often.
        """
        ask = AccountAsk.decode(canonical)
        window = self._history.window(ask.manifest)
        account = await asyncio.to_thread(self._signer, window, ask.name, canonical, proof)
        self._lines.take(account.public_key)
        if account.line is not None:
            return await self._late(window, account.line)
        registry = await self._registries.of(window.digest, account.public_key)
        return registry.membership(account.account).encode()

    async def _late(self, window: Window, line: Enrolment) -> bytes:
        """The line of an account that came with an update, as the newest one has it that everybody is shown."""
        shown = [(index, one) for index, one in window.updates if index < self._shown()]
        if not shown or not line.in_force(shown[-1][1].number):
            raise AttestationError(
                f"this account may not ask over the newest version of window {window.manifest.window!r}: if it was "
                "registered just now, it comes with the next version; ask again after the tick"
            )
        index, newest = shown[-1]
        tree = await self._enrolments.of(update_key(window.digest, newest.number), line.account.public_key)
        return tree.membership(line, index).encode()

    def _signer(self, window: Window, name: str, canonical: bytes, proof: bytes) -> _Signer:
        account, line = named_account(self._state, window.digest, name), None
        if window.every:
            found = enrolled_by_name(self._state, window.digest, name)
            account = None if found is None else found.account
            line = found if found is not None and found.since else None
        try:
            # a name that is not there costs a signature's check too: no clock tells who is registered
            signature.verify(self._provider_key if account is None else account.public_key, "account", canonical, proof)
            if account is None:
                raise AttestationError("no such account")
        except AttestationError:
            raise AttestationError(
                f"window {window.manifest.window!r} has no account of this name and key: give the provider the line "
                "that `ragseal-client register-line` prints; it takes effect with the next window, or where indices "
                "change on a tick with the next of their versions"
            ) from None
        return _Signer(account, line)
