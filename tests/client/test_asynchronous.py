# SPDX-License-Identifier: GPL-3.0-or-later
"""AsyncClient: a loop that is never held up, the same signed bytes after a lost connection, no query twice."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import pytest

from ragseal.client import AsyncClient, Pool, Retries, asynchronous
from ragseal.client import retries as retrying
from ragseal.client.adapters.asking import Asking
from ragseal.kernel.attestation import SignedRequest
from ragseal.kernel.encoding import peek_tag
from ragseal.kernel.errors import (
    AttestationError,
    BudgetError,
    ConfigurationError,
    MismatchError,
    TransportError,
)

FAST = Retries(attempts=3, first=0.0, most=0.0)


def hold(bench: Any, monkeypatch: pytest.MonkeyPatch) -> threading.Event:
    """The provider answers no request before the event is set."""
    go, real = threading.Event(), bench.provider.retrieve

    def slow(*sent: Any) -> Any:
        assert go.wait(20)
        return real(*sent)

    monkeypatch.setattr(bench.provider, "retrieve", slow)
    return go


def test_questions_are_answered_in_order(bench: Any) -> None:
    async def run() -> None:
        async with AsyncClient(bench.client()) as client:
            first = await client.ask("json")
            found = [one async for one in client.ask_many(["xml", "yaml"])]
            assert [one.receipt.body.seq for one in (first, *found)] == [0, 1, 2]
            assert await client.owing() == []
            assert (await client.resume()).results == ()

    asyncio.run(run())


def test_the_loop_runs_on_while_a_question_is_asked(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    go = hold(bench, monkeypatch)

    async def run() -> None:
        async with AsyncClient(bench.client()) as client:
            asking = asyncio.ensure_future(client.ask("json"))
            for _ in range(20):
                await asyncio.sleep(0.001)
            assert not asking.done()
            go.set()
            assert (await asking).receipt.body.seq == 0

    asyncio.run(run())


@pytest.mark.parametrize("call", ["prepare", "retrieve"])
def test_a_lost_connection_sends_the_same_bytes_again(bench: Any, call: str, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[bytes] = []
    real, failures = bench.provider.retrieve, [2]

    def retrieve(canonical: bytes, *rest: Any) -> Any:
        sent.append(canonical)
        if call == "retrieve" and failures[0]:
            failures[0] -= 1
            raise TransportError("the connection broke")
        return real(canonical, *rest)

    def prepare(*rest: Any) -> Any:
        if call == "prepare" and failures[0]:
            failures[0] -= 1
            raise TransportError("nobody answers")
        return prepared(*rest)

    prepared = bench.provider.prepare
    monkeypatch.setattr(bench.provider, "retrieve", retrieve)
    monkeypatch.setattr(bench.provider, "prepare", prepare)

    async def run() -> None:
        async with AsyncClient(bench.client(), FAST) as client:
            assert (await client.ask("json")).receipt.body.seq == 0
            assert (await client.ask("xml")).receipt.body.seq == 1

    asyncio.run(run())
    assert failures == [0]
    assert len(set(sent)) == 2


@pytest.mark.parametrize(
    ("error", "calls"),
    [(AttestationError("no"), 1), (MismatchError("another protocol"), 1), (TransportError("away"), 3)],
)
def test_only_transport_errors_are_met_with_another_call(bench: Any, error: Exception, calls: int) -> None:
    client, count = bench.client(), 0

    def ask(text: str, *, answer: bool | None = None) -> Any:
        nonlocal count
        count += 1
        raise error

    async def run() -> None:
        async with AsyncClient(client, FAST) as waiting:
            with pytest.raises(type(error)):
                await waiting.ask("json")

    client.ask = ask
    asyncio.run(run())
    assert count == calls


@pytest.mark.parametrize("how", ["time", "cancel"])
def test_nobody_pays_twice_for_what_he_stopped_waiting_for(
    bench: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    go = hold(bench, monkeypatch)

    async def run() -> None:
        async with AsyncClient(bench.client()) as client:
            if how == "time":
                with pytest.raises(TransportError, match="ask the same question again"):
                    await client.ask("json", timeout=0.2)
            else:
                asking = asyncio.ensure_future(client.ask("json"))
                await asyncio.sleep(0.2)
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
            assert client.left("json")
            go.set()
            assert (await client.ask("json")).receipt.body.seq == 0
            assert not client.left("json")
            assert (await client.ask("json")).receipt.body.seq == 1, "the next one is a new question"

    asyncio.run(run())


def test_closing_waits_for_what_is_under_way(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    go = hold(bench, monkeypatch)

    async def run() -> None:
        client = AsyncClient(bench.client())
        with pytest.raises(TransportError):
            await client.ask("json", timeout=0.2)
        threading.Timer(0.05, go.set).start()
        await client.close()
        await client.close()
        with pytest.raises(ConfigurationError, match="closed"):
            await client.ask("json")

    asyncio.run(run())
    kept = bench.client()
    assert kept.owing() == []
    assert kept.ask("xml").receipt.body.seq == 1


def failing(bench: Any, monkeypatch: pytest.MonkeyPatch, failures: int) -> list[bytes]:
    """The first requests get lost on their way; gives the bytes of all that were sent."""
    sent: list[bytes] = []
    real = bench.provider.retrieve

    def retrieve(canonical: bytes, *rest: Any) -> Any:
        if peek_tag(canonical) == SignedRequest.TAG:
            sent.append(canonical)
        if len(sent) <= failures:
            raise TransportError("the connection broke")
        return real(canonical, *rest)

    monkeypatch.setattr(bench.provider, "retrieve", retrieve)
    return sent


@pytest.mark.parametrize("other", ["ask", "resume"])
def test_nothing_comes_between_a_question_and_its_retry(
    bench: Any, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """Else the other one completes the pending request, whose answer nobody gets, and the retry signs a second one."""
    sent = failing(bench, monkeypatch, 1)
    monkeypatch.setattr(retrying.random, "uniform", lambda low, high: high)

    async def run() -> None:
        async with AsyncClient(bench.client(), Retries(attempts=3, first=0.2, most=0.2)) as client:
            first = asyncio.ensure_future(client.ask("json"))
            await asyncio.sleep(0)  # it is its turn
            second = asyncio.ensure_future(client.ask("xml") if other == "ask" else client.resume())
            assert (await first).receipt.body.seq == 0
            await second

    asyncio.run(run())
    assert len(set(sent)) == (2 if other == "ask" else 1)


@pytest.mark.parametrize("other", ["loop", "resume", "retriever", "same loop"])
def test_nothing_from_anywhere_else_comes_between_either(
    bench: Any, monkeypatch: pytest.MonkeyPatch, other: str
) -> None:
    """Every AsyncClient and retriever of one client shares one turn; who blocks the loop meanwhile ends nothing."""
    sent = failing(bench, monkeypatch, 1)
    monkeypatch.setattr(retrying.random, "uniform", lambda low, high: high)
    client, failed = bench.client(), threading.Event()
    real = client.ask

    def ask(text: str, *, answer: bool | None = None) -> Any:
        try:
            return real(text, answer=answer)
        except TransportError:
            failed.set()
            raise

    monkeypatch.setattr(client, "ask", ask)

    async def first() -> Any:
        asking = asyncio.ensure_future(AsyncClient(client, Retries(attempts=3, first=0.4, most=0.4)).ask("json"))
        assert await asyncio.to_thread(failed.wait, 20)
        if other == "same loop":
            assert Asking(client).ask("xml").receipt.body.seq == 1
        return await asking

    def second() -> None:
        assert failed.wait(20)
        if other == "loop":
            asyncio.run(AsyncClient(client).ask("xml"))
        elif other == "resume":
            assert asyncio.run(AsyncClient(client).resume()).results == ()
        elif other == "retriever":
            Asking(client).ask("xml")

    beside = threading.Thread(target=second)
    beside.start()
    assert asyncio.run(first()).receipt.body.seq == 0
    beside.join(20)
    assert len(set(sent)) == (1 if other == "resume" else 2)


def test_a_loop_that_ends_takes_no_retries_along(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """The turn is free again at once, and the account's next question is not held up."""
    failing(bench, monkeypatch, 1)
    monkeypatch.setattr(retrying.random, "uniform", lambda low, high: high)
    client = bench.client()

    async def run() -> None:
        with pytest.raises(TransportError):
            await AsyncClient(client, Retries(attempts=3, first=30.0, most=30.0)).ask("json", timeout=0.3)

    asyncio.run(run())
    assert client.turn.acquire(timeout=5)


@pytest.mark.parametrize("answer", [True, False, None])
def test_what_is_wanted_reaches_the_client(bench: Any, monkeypatch: pytest.MonkeyPatch, answer: bool | None) -> None:
    client, wanted = bench.client(), []
    monkeypatch.setattr(client, "ask", lambda text, *, answer=None: wanted.append(answer))

    async def run() -> None:
        async with AsyncClient(client) as one:
            await one.ask("json", answer=answer)
            [_ async for _ in one.ask_many(["xml"], answer=answer)]
            pool = Pool([one])
            await pool.ask("yaml", answer=answer)
            await pool.ask_many(["toml"], answer=answer)

    asyncio.run(run())
    assert wanted == [answer] * 4


@pytest.mark.parametrize("how", ["time", "cancel"])
def test_a_question_that_waits_for_others_is_not_asked_when_nobody_waits_for_it(
    bench: Any, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    go = hold(bench, monkeypatch)

    async def run() -> None:
        async with AsyncClient(bench.client()) as client:
            first = asyncio.ensure_future(client.ask("json"))
            await asyncio.sleep(0)
            if how == "time":
                with pytest.raises(TransportError, match="it was not asked"):
                    await client.ask("xml", timeout=0.2)
            else:
                asking = asyncio.ensure_future(client.ask("xml"))
                await asyncio.sleep(0.2)
                asking.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await asking
            assert not client.left("xml")
            go.set()
            assert (await first).receipt.body.seq == 0
            assert (await client.ask("yaml")).receipt.body.seq == 1, "of the one between nothing was spent"

    asyncio.run(run())


def test_an_outage_that_nobody_was_told_of_is_not_told_later(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    go, real, away = threading.Event(), bench.provider.retrieve, [True]

    def retrieve(*sent: Any) -> Any:
        assert go.wait(20)
        if away[0]:
            raise TransportError("the connection broke")
        return real(*sent)

    monkeypatch.setattr(bench.provider, "retrieve", retrieve)

    async def run() -> None:
        async with AsyncClient(bench.client()) as client:
            with pytest.raises(TransportError, match="ask the same"):
                await client.ask("json", timeout=0.2)
            (under_way,) = client.under_way()
            go.set()
            await asyncio.wait([under_way])
            away[0] = False
            assert (await client.ask("json")).receipt.body.seq == 0

    asyncio.run(run())


def test_closing_is_not_hindered_by_who_stops_waiting_meanwhile(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    go = hold(bench, monkeypatch)

    async def run() -> None:
        client = AsyncClient(bench.client())
        with pytest.raises(TransportError):
            await client.ask("json", timeout=0.2)
        other = asyncio.ensure_future(client.ask("xml", timeout=0.05))
        await asyncio.sleep(0)
        threading.Timer(0.15, go.set).start()
        await client.close()
        with pytest.raises(TransportError):
            await other

    asyncio.run(run())
    assert bench.client().ask("yaml").receipt.body.seq == 1, "the folder is free"


def test_an_opening_that_nobody_waits_for_frees_the_folder(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    go, made = threading.Event(), threading.Event()

    def slow(*_: Any) -> Any:
        assert go.wait(20)
        client = bench.client()
        real = client.close

        def close() -> None:
            real()
            made.set()

        monkeypatch.setattr(client, "close", close)
        return client

    monkeypatch.setattr(asynchronous, "Client", slow)

    async def run() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(AsyncClient.open("provider", "account"), 0.02)

    asyncio.run(run())
    go.set()
    assert made.wait(20)
    assert bench.client().ask("json").receipt.body.seq == 0


def test_a_spent_budget_says_when_it_renews(bench: Any) -> None:
    async def run() -> None:
        async with AsyncClient(bench.client()) as client:
            window = client.client.ask("json").record.signed.request.window
            assert window == "w1"
            with pytest.raises(BudgetError) as spent:
                [one async for one in client.ask_many(["json"] * 9)]
            assert spent.value.renews_at == bench.provider.closes

    asyncio.run(run())


def test_waits_double_and_are_drawn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(retrying.random, "uniform", lambda low, high: high)
    assert list(Retries(5, 1.0, 3.0).waits()) == [1.0, 2.0, 3.0, 3.0]
    assert list(Retries(1).waits()) == []
    refused: list[Callable[[], Retries]] = [lambda: Retries(0), lambda: Retries(2, -1.0), lambda: Retries(2, 5.0, 1.0)]
    for make in refused:
        with pytest.raises(ConfigurationError, match="attempts >= 1"):
            make()


def test_a_refusal_that_says_when_to_come_again_is_waited_out(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to the longest wait of the retries; where the provider names none, or a longer one, it is an answer."""
    real, refusals, slept = bench.provider.prepare, [250, 500], []

    def early(*sent: Any) -> Any:
        if refusals:
            raise BudgetError("this account asks too often", retry_after_ms=refusals.pop(0))
        return real(*sent)

    met = Retries.meet
    monkeypatch.setattr(Retries, "meet", lambda self, call, *_: met(self, call, slept.append))
    monkeypatch.setattr(bench.provider, "prepare", early)
    monkeypatch.setattr(retrying.random, "uniform", lambda low, high: high)

    async def run() -> None:
        async with AsyncClient(bench.client(), Retries(attempts=3, first=0.01, most=0.5)) as client:
            await client.ask("json")
            assert slept == [0.01 + 0.25, 0.02 + 0.5]
            for wait in (600, None):
                refusals.append(wait)  # type: ignore[arg-type]
                with pytest.raises(BudgetError):
                    await client.ask("xml")
            assert len(slept) == 2

    asyncio.run(run())
