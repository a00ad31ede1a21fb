# SPDX-License-Identifier: GPL-3.0-or-later
"""What a retriever asks: an account by its settings, or a client that is there; from threads and from event loops."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any, cast

from ragseal.client.adapters import account as accounts
from ragseal.client.adapters.account import Account
from ragseal.client.asynchronous import AsyncClient, Pool
from ragseal.client.client import Client
from ragseal.client.result import Result
from ragseal.client.retries import ONCE, Retries
from ragseal.kernel.errors import AuditError, ConfigurationError

Asked = Account | Client | AsyncClient | Pool  #: also a mapping, as :meth:`Account.to_dict` gives it


class _Documents:
    """Of a client what an AsyncClient asks: documents alone, so that a window of answers is refused unasked."""

    def __init__(self, client: Client) -> None:
        self._client = client

    def ask(self, text: str) -> Result:
        return self._client.ask(text, answer=False)


class Asking:
    """Asks for a retriever, blocking or awaited.  Made without opening anything."""

    def __init__(self, asked: object) -> None:
        """
        Args:
            asked: an Account, or what its ``to_dict`` gave; a Client, for blocking and awaited calls; an AsyncClient
                or a Pool, for awaited calls alone.

        Raises:
            ConfigurationError: anything else.
        """
        ready = isinstance(asked, Client | AsyncClient | Pool)
        self.asked: Asked = asked if ready else Account.of(asked)  # type: ignore[assignment]
        self._loops: dict[asyncio.AbstractEventLoop, tuple[Client, AsyncClient]] = {}
        self._mutex = threading.Lock()

    @property
    def embeds(self) -> bool:
        """Whether documents come with scores, as far as it can be told before anything is asked."""
        if isinstance(self.asked, Account):
            return self.asked.embedder is not None
        if isinstance(self.asked, Pool):
            return True
        return (self.asked.client if isinstance(self.asked, AsyncClient) else self.asked).embeds

    @property
    def _retries(self) -> Retries:
        return self.asked.retries() if isinstance(self.asked, Account) else ONCE

    def ask(self, text: str) -> Result:
        """Ask one question and wait.

        Raises:
            ConfigurationError: this was made from something that can only be awaited, or the window gives answers in
                words; nothing was sent.  Also as Client.ask.
        """
        if isinstance(self.asked, AsyncClient | Pool):
            raise ConfigurationError(
                f"this retriever was made from {'a Pool' if isinstance(self.asked, Pool) else 'an AsyncClient'}: await "
                "it, or make one from an Account or a Client"
            )
        asks = _Documents(accounts.opened(self.asked) if isinstance(self.asked, Account) else self.asked)
        for wait in self._retries.waits():
            try:
                return asks.ask(text)
            except AuditError as error:
                if not self._retries.helps(error):
                    raise
                wait = max(wait, self._retries.named(error))
            time.sleep(wait)
        return asks.ask(text)

    async def ask_async(self, text: str) -> Result:
        """Ask one question; opening, checks and embedder run outside the loop's thread.

        A task that is cancelled gives up waiting, not the question: asked again in this loop it costs nothing more.

        Raises: as :meth:`ask`.
        """
        if isinstance(self.asked, AsyncClient | Pool):
            return await self.asked.ask(text)
        if isinstance(self.asked, Client):
            client = self.asked
        else:
            found = accounts.standing(self.asked)
            client = await asyncio.to_thread(accounts.opened, self.asked) if found is None else found
        return await self._of_this_loop(client).ask(text)

    def _of_this_loop(self, client: Client) -> AsyncClient:
        """An AsyncClient belongs to one loop; frameworks make many, one after another or in several threads."""
        here = asyncio.get_running_loop()
        with self._mutex:
            for loop in [one for one in self._loops if one.is_closed()]:
                del self._loops[loop]
            found = self._loops.get(here)
            if found is None or found[0] is not client:
                asks = cast(Client, _Documents(client))  # nobody closes this AsyncClient: the client has other owners
                found = self._loops[here] = client, AsyncClient(asks, self._retries)
            return found[1]

    def to_dict(self) -> dict[str, Any]:
        """The account, for a pipeline's file.

        Raises:
            ConfigurationError: this was made from a client, whose settings nobody knows.
        """
        if not isinstance(self.asked, Account):
            raise ConfigurationError(
                f"a retriever made from {type(self.asked).__name__} cannot be saved: make it from an Account(folder, "
                "provider)"
            )
        return self.asked.to_dict()

    def close(self) -> None:
        """Close an account's client, and with it that of every other retriever on the folder; a client that was given
        stays its owner's."""
        if isinstance(self.asked, Account):
            accounts.close(self.asked)
