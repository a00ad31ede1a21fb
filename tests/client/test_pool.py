# SPDX-License-Identifier: GPL-3.0-or-later
"""Pool: as many questions at a time as it has accounts, each with its account; all of them closed."""

from __future__ import annotations

import asyncio
import threading
import time
from typing import Any

import pytest

from ragseal.client import AsyncClient, Pool
from ragseal.client.exchanges import PolicySeconds
from ragseal.kernel.errors import (
    ConfigurationError,
    TransportError,
)


def test_a_pool_closes_every_account(bench: Any) -> None:
    closed: list[int] = []

    class Closing:
        def __init__(self, number: int) -> None:
            self._number = number

        def close(self) -> None:
            closed.append(self._number)
            if not self._number:
                raise ConfigurationError("the first one cannot")

    async def run() -> None:
        with pytest.raises(ConfigurationError, match="first"):
            async with pool_of(*(Closing(number) for number in range(3))):
                pass

    asyncio.run(run())
    assert sorted(closed) == [0, 1, 2]


class Account:
    """Stands for a client with one thread: counts who asks at the same time."""

    def __init__(self, together: list[int], go: threading.Event | None = None) -> None:
        self.asked: list[str] = []
        self._together, self._go = together, go
        self.turn = threading.Lock()
        self.policy_seconds = PolicySeconds()

    def ask(self, text: str, *, answer: bool | None = None) -> Any:
        self._together[0] += 1
        self._together[1] = max(self._together)
        if self._go is not None:
            assert self._go.wait(20)
        else:
            time.sleep(0.02)
        self.asked.append(text)
        self._together[0] -= 1
        return text

    def close(self) -> None:
        pass


def pool_of(*accounts: Any) -> Pool:
    return Pool([AsyncClient(one) for one in accounts])


def test_a_pool_asks_as_many_at_a_time_as_it_has_accounts() -> None:
    together = [0, 0]
    accounts = [Account(together) for _ in range(3)]
    texts = [f"question {i}" for i in range(9)]

    async def run() -> None:
        async with pool_of(*accounts) as pool:
            assert pool.coalition == 3
            assert await pool.ask_many(texts) == texts

    asyncio.run(run())
    assert together == [0, 3]
    assert sorted(t for a in accounts for t in a.asked) == texts
    with pytest.raises(ConfigurationError, match="at least one"):
        Pool([])


def test_a_pool_keeps_a_question_with_its_account() -> None:
    go, together = threading.Event(), [0, 0]
    accounts = [Account(together, go), Account(together, go)]

    async def run() -> None:
        async with pool_of(*accounts) as pool:
            with pytest.raises(TransportError):
                await pool.ask("json", timeout=0.2)
            waiting = [asyncio.ensure_future(pool.ask(text)) for text in ("json", "xml")]
            await asyncio.sleep(0.2)
            go.set()
            assert await asyncio.gather(*waiting) == ["json", "xml"]

    asyncio.run(run())
    assert sorted(len(one.asked) for one in accounts) == [1, 1], "the account under way was not given a second one"
