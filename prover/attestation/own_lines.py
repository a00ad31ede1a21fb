# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts get their own lines of a window's registry, and nobody learns who else is registered.  SPEC A.7, B.9."""

from __future__ import annotations

import asyncio

from ragseal.kernel import signature
from ragseal.kernel.commitment import Account, AccountAsk
from ragseal.kernel.errors import AttestationError
from ragseal.prover.commitment.registry import OpenRegistry, named_account
from ragseal.prover.limits import LINES, LINES_A_SECOND
from ragseal.prover.storage.history import History
from ragseal.prover.storage.loaded import Loaded, Loads
from ragseal.prover.storage.state import State
from ragseal.prover.storage.window import Window
from ragseal.runtime.tokenbucket import TokenBuckets


class OwnLines:
    """Answers GetAccount.  Belongs to one event loop."""

    def __init__(self, state: State, history: History, provider_key: bytes, registries: Loaded[OpenRegistry]) -> None:
        self._state = state
        self._history = history
        self._provider_key = provider_key
        self._lines = TokenBuckets(LINES, LINES_A_SECOND, "this account asks for its line too often")
        self._registries = Loads(registries, "this account asks for its lines of too many old windows")

    async def line(self, canonical: bytes, proof: bytes) -> bytes:
        """An account's own line of a window's registry (canonical Membership).

        Raises:
            AttestationError: no such account in this window, or not its signature; which of the two is not said.
            BudgetError: this account asks too often.
        """
        ask = AccountAsk.decode(canonical)
        window = self._history.window(ask.manifest)
        account = await asyncio.to_thread(self._signer, window, ask.name, canonical, proof)
        self._lines.take(account.public_key)
        registry = await self._registries.of(window.digest, account.public_key)
        return registry.membership(account).encode()

    def _signer(self, window: Window, name: str, canonical: bytes, proof: bytes) -> Account:
        account = named_account(self._state, window.digest, name)
        try:
            # a name that is not there costs a signature's check too: no clock tells who is registered
            signature.verify(self._provider_key if account is None else account.public_key, "account", canonical, proof)
            if account is None:
                raise AttestationError("no such account")
        except AttestationError:
            raise AttestationError(
                f"window {window.manifest.window!r} has no account of this name and key: give the provider the line "
                "that `ragseal-client register-line` prints; it takes effect with the next window"
            ) from None
        return account
