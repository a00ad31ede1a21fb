# SPDX-License-Identifier: GPL-3.0-or-later
"""A Client for programs with an event loop, and several accounts of one owner as one.

    async with await AsyncClient.open(PROVIDER, STATE, log_key=LOG_KEY, embedder="minilm") as client:
        result = await client.ask("How do I parse JSON?", timeout=10)
        async for result in client.ask_many(questions):
            ...

Checks, signatures and the folder are the :class:`ragseal.client.client.Client`'s own; they and the embedder run in one
thread of this account, so the loop is never held up.  An account's questions go one after another, since each signed
request acknowledges the receipt before it: who wants more at once takes more accounts (:class:`Pool`).
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, TypeVar

from ragseal.client.client import Client
from ragseal.client.result import Result, Resumed
from ragseal.client.retries import ONCE, Retries
from ragseal.kernel.errors import ConfigurationError, TransportError

T = TypeVar("T")

MAX_LEFT = 64  #: answers that are kept for somebody who stopped waiting, of one account


def _close(made: Future[Client]) -> None:
    """Close a client that nobody waited for, if it was made."""
    if not made.cancelled() and made.exception() is None:
        made.result().close()


@dataclass(slots=True, eq=False)
class _Question:
    """A question on its way."""

    task: asyncio.Future[Result] = field(init=False)
    left: threading.Event = field(default_factory=threading.Event)  #: its loop is gone, or nobody waits for it
    _begun: bool = False
    _mutex: threading.Lock = field(default_factory=threading.Lock)

    def begin(self) -> bool:
        """Its turn has come: from here on a request of it may be signed.  False: nobody waits for it any more."""
        with self._mutex:
            self._begun = not self.left.is_set()
            return self._begun

    def give_up(self) -> bool:
        """Ask it not at all.  False: it has begun."""
        with self._mutex:
            if not self._begun:
                self.left.set()
            return not self._begun

    @property
    def away(self) -> bool:
        """Whether it ended because the provider was out of reach or busy, which says nothing of now."""
        if not self.task.done() or self.task.cancelled():
            return self.task.done()
        error = self.task.exception()
        return isinstance(error, Exception) and Retries.passes(error)


class AsyncClient:
    """One account's connection to one provider, awaited.  Belongs to the loop that uses it first."""

    def __init__(self, client: Client, retries: Retries = ONCE) -> None:
        """
        Args:
            client: is closed with this.
            retries: of transport errors, and of refusals that say when to come again; the signed request that is
                pending goes out again, byte for byte.
        """
        self._client, self._retries = client, retries
        self._thread = ThreadPoolExecutor(1, "ragseal-client")  #: works on one question with all its retries
        self._left: dict[str, _Question] = {}  #: questions that are asked on though nobody waits
        self._closed = False

    @classmethod
    async def open(cls, *arguments: Any, retries: Retries = ONCE, **options: Any) -> AsyncClient:
        """As :class:`ragseal.client.client.Client` is made, its embedder loaded outside the loop's thread.

        Whoever stops waiting finds the folder free again once it is loaded.
        """
        thread = ThreadPoolExecutor(1, "ragseal-client")
        making = thread.submit(lambda: Client(*arguments, **options))
        try:
            return cls(await asyncio.wrap_future(making), retries)
        except asyncio.CancelledError:
            making.add_done_callback(_close)
            raise
        finally:
            thread.shutdown(wait=False)

    @property
    def client(self) -> Client:
        """The blocking face, for what is not asked here."""
        return self._client

    async def __aenter__(self) -> AsyncClient:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close connections and release the folder, after the question under way; again is harmless."""
        if self._closed:
            return
        self._closed = True
        try:
            if left := [one.task for one in self._left.values()]:
                await asyncio.wait(left)  # raises nothing of theirs
        finally:
            self._left.clear()
            await asyncio.to_thread(self._client.close)
            self._thread.shutdown(wait=False)

    async def _run(self, call: Callable[[], T]) -> T:
        return await asyncio.wrap_future(self._submit(call))

    def _submit(self, call: Callable[[], T]) -> Future[T]:
        if self._closed:
            raise ConfigurationError("this client is closed: make a new one on the same folder")
        return self._thread.submit(call)

    async def ask(self, text: str, timeout: float | None = None, *, answer: bool | None = None) -> Result:
        """Ask one question, as :meth:`ragseal.client.client.Client.ask` does.

        Args:
            timeout: seconds to wait, its turn and its retries included.  What windows' policies put between a request
                and its answer (SPEC A.14.7) comes on top, that of the questions before it too.  A question whose turn
                has come is asked on all the same, for its request may be signed already: asked again it costs nothing
                more and gives that answer.  One that still waits for others is not asked at all.
            answer: as of Client.ask.

        Raises:
            TransportError: nothing came in time, or the provider cannot be reached; ask the same again.
            Whatever Client.ask raises.
        """
        spent = self._client.policy_seconds
        before, limit, granted = spent.ended, timeout, 0.0
        question = self._left.pop(text, None)
        if question is None or question.away:
            question = self._begin(text, answer)
        try:
            while True:
                try:
                    return await asyncio.wait_for(asyncio.shield(question.task), limit)
                except TimeoutError:
                    limit = spent.begun - before - granted
                    if limit <= 0:
                        raise
                    granted += limit
        except TimeoutError:
            if self._leave(text, question):
                why = "ask the same question again to get the one that is under way"
            else:
                why = "it was not asked, since others of this account come first: ask again later"
            raise TransportError(f"no answer within {(timeout or 0) + granted:g} s: {why}") from None
        except asyncio.CancelledError:
            self._leave(text, question)
            raise

    def _begin(self, text: str, answer: bool | None) -> _Question:
        question = _Question()
        working = self._submit(lambda: self._persist(question, text, answer))

        async def run() -> Result:
            try:
                return await asyncio.wrap_future(working)
            except asyncio.CancelledError:
                question.left.set()  # the thread need not wait for another attempt
                raise

        question.task = asyncio.ensure_future(run())
        return question

    def _persist(self, question: _Question, text: str, answer: bool | None) -> Result:
        """In the account's thread, waits between attempts too: no loop has to run on so that the turn ends."""
        with self._client.turn:
            if not question.begin():
                raise TransportError("nobody waits for this question any more: it was not asked")
            return self._retries.meet(lambda: self._client.ask(text, answer=answer), question.left.wait)

    def _leave(self, text: str, question: _Question) -> bool:
        """Keep a question that nobody waits for any more, if it may cost something; else it is not asked."""
        if question.give_up():
            question.task.cancel()
            return False
        while len(self._left) >= MAX_LEFT:  # the account's folder has that answer all the same
            del self._left[next(iter(self._left))]
        self._left[text] = question
        # told when it is asked for again
        question.task.add_done_callback(lambda done: done.cancelled() or done.exception())
        return True

    def left(self, text: str) -> bool:
        """Whether this question is under way, or was answered, though nobody waited for it."""
        return text in self._left

    def under_way(self) -> list[asyncio.Future[Result]]:
        """Of such questions, those without an answer yet."""
        return [one.task for one in self._left.values() if not one.task.done()]

    async def ask_many(
        self, texts: Iterable[str], timeout: float | None = None, *, answer: bool | None = None
    ) -> AsyncIterator[Result]:
        """The questions in their order, each result as it comes; ``timeout`` and ``answer`` are of each.

        Raises: what :meth:`ask` raises of the question at which it happens; the results before it were given.
        """
        for text in texts:
            yield await self.ask(text, timeout, answer=answer)

    async def resume(self, *, again: bool = False, window: str = "") -> Resumed:
        """As :meth:`ragseal.client.client.Client.resume`, after the question under way."""

        def resume() -> Resumed:
            with self._client.turn:
                return self._client.resume(again=again, window=window)

        return await self._run(resume)

    async def tenant(self) -> str:
        """As :meth:`ragseal.client.client.Client.tenant`."""
        return await self._run(self._client.tenant)

    async def owing(self) -> list[str]:
        """As :meth:`ragseal.client.client.Client.owing`."""
        return await self._run(self._client.owing)


class Pool:
    """Several accounts of one owner, asked as one: as many questions at a time as there are accounts.

    For the provider's guarantee they are what they are, a coalition: each counts towards k_max, and what is promised to
    one account is not promised to a pool (:attr:`coalition`).  Take accounts of one tenant: each sees its own index.
    """

    def __init__(self, clients: Sequence[AsyncClient]) -> None:
        """Raises ConfigurationError: no accounts."""
        if not clients:
            raise ConfigurationError("a pool needs at least one account")
        self._clients = tuple(clients)
        self._idle: asyncio.Queue[AsyncClient] = asyncio.Queue()
        for client in clients:
            self._idle.put_nowait(client)

    @property
    def coalition(self) -> int:
        """Accounts here: what an estimate of coalitions should find, and a window's k_max has to cover."""
        return len(self._clients)

    async def __aenter__(self) -> Pool:
        return self

    async def __aexit__(self, *_: object) -> None:
        outcomes = await asyncio.gather(*(client.close() for client in self._clients), return_exceptions=True)
        for one in outcomes:
            if one is not None:
                raise one

    async def ask(self, text: str, timeout: float | None = None, *, answer: bool | None = None) -> Result:
        """Ask with the account that has been idle longest; ``timeout`` counts from when there is one.

        A question that somebody stopped waiting for stays with its account: asked again it costs nothing more.
        """
        for client in self._clients:
            if client.left(text):
                return await client.ask(text, timeout, answer=answer)
        client = await self._idle.get()
        try:
            return await client.ask(text, timeout, answer=answer)
        finally:
            self._release(client)

    def _release(self, client: AsyncClient) -> None:
        """Idle again, once what it was asked in vain is over, too."""
        for one in client.under_way():
            one.add_done_callback(lambda _: self._release(client))
            return
        self._idle.put_nowait(client)

    async def ask_many(
        self, texts: Iterable[str], timeout: float | None = None, *, answer: bool | None = None
    ) -> list[Result]:
        """All questions at once, results in their order.

        Raises: the first error by order; what was under way is waited for, and its answers are kept by their accounts.
        """
        found = await asyncio.gather(
            *(self.ask(text, timeout, answer=answer) for text in texts), return_exceptions=True
        )
        results: list[Result] = []
        for one in found:
            if isinstance(one, BaseException):
                raise one
            results.append(one)
        return results
