# SPDX-License-Identifier: GPL-3.0-or-later
"""What a retriever asks: an account by its settings, or a client that is there; from threads and from event loops."""

from __future__ import annotations

import asyncio
import threading
from typing import Any

from ragseal.client.adapters import account as accounts
from ragseal.client.adapters.account import Account
from ragseal.client.asynchronous import AsyncClient, Pool
from ragseal.client.client import Client
from ragseal.client.result import Result
from ragseal.client.retries import ONCE, Retries
from ragseal.kernel.errors import ConfigurationError, TransportError

Asked = Account | Client | AsyncClient | Pool  #: also a mapping, as :meth:`Account.to_dict` gives it

MAX_UNSCORED = 64  #: answers that are kept until the embedder is back, of one retriever


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
        self._unscored: dict[str, Result] = {}  #: answers whose scores were wanted and could not be computed
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

    def ask(self, text: str, scored: bool = False) -> Result:
        """Ask one question and wait.

        Args:
            scored: the documents are of no use without scores; an answer that came without them is kept, and ranked
                when the same is asked again, which costs nothing.

        Raises:
            ConfigurationError: this was made from something that can only be awaited, or the window gives answers in
                words; nothing was sent.  Also as Client.ask.
            TransportError: the embedder is away, and scores were wanted.  Also as Client.ask.
        """
        if isinstance(self.asked, AsyncClient | Pool):
            raise ConfigurationError(
                f"this retriever was made from {'a Pool' if isinstance(self.asked, Pool) else 'an AsyncClient'}: await "
                "it, or make one from an Account or a Client"
            )
        kept = self._kept(text) if scored else None
        if kept is None:
            client = accounts.opened(self.asked) if isinstance(self.asked, Account) else self.asked
            with client.turn:
                kept = self._retries.meet(lambda: client.ask(text, answer=False))
        return self._scored(text, kept) if scored else kept

    async def ask_async(self, text: str, scored: bool = False) -> Result:
        """Ask one question; opening, checks and embedder run outside the loop's thread.

        A task that is cancelled gives up waiting, not the question: asked again in this loop it costs nothing more.

        Raises: as :meth:`ask`.
        """
        kept = self._kept(text) if scored else None
        if kept is None:
            asks = await self._awaited()
            kept = await asks.ask(text, answer=False)
        if not scored or kept.ranked is not None:
            return kept
        try:
            return await asyncio.to_thread(self._scored, text, kept)
        except asyncio.CancelledError:
            self._keep(text, kept)
            raise

    async def _awaited(self) -> AsyncClient | Pool:
        if isinstance(self.asked, AsyncClient | Pool):
            return self.asked
        if isinstance(self.asked, Client):
            return self._of_this_loop(self.asked)
        found = accounts.standing(self.asked)
        return self._of_this_loop(await asyncio.to_thread(accounts.opened, self.asked) if found is None else found)

    def _kept(self, text: str) -> Result | None:
        with self._mutex:
            return self._unscored.pop(text, None)

    def _keep(self, text: str, result: Result) -> None:
        with self._mutex:
            while len(self._unscored) >= MAX_UNSCORED:  # the account's folder has that answer all the same
                del self._unscored[next(iter(self._unscored))]
            self._unscored[text] = result

    def _scored(self, text: str, result: Result) -> Result:
        """With scores.  Raises TransportError: the embedder is away; the answer is kept."""
        try:
            return result.rank()
        except TransportError as error:
            self._keep(text, result)
            raise TransportError(
                f"{error}: so these documents have no scores to choose by; they are kept, ask the same again, which "
                "costs nothing more, or leave the least score out"
            ) from None

    def _of_this_loop(self, client: Client) -> AsyncClient:
        """An AsyncClient belongs to one loop; frameworks make many, one after another or in several threads."""
        here = asyncio.get_running_loop()
        with self._mutex:
            for loop in [one for one in self._loops if one.is_closed()]:
                del self._loops[loop]
            found = self._loops.get(here)
            if found is None or found[0] is not client:
                # nobody closes this AsyncClient: the client has other owners
                found = self._loops[here] = client, AsyncClient(client, self._retries)
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
