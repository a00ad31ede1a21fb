# SPDX-License-Identifier: GPL-3.0-or-later
"""Asking, re-ranking, and what is refused before anything is sent.  SPEC B."""

from __future__ import annotations

import asyncio
import re
import threading
import time
from pathlib import Path
from typing import Any

import pytest

from ragseal.client import AsyncClient, Pool
from ragseal.client.account import AccountState
from ragseal.client.exchanges import PolicySeconds
from ragseal.kernel.attestation import NO_RECEIPT
from ragseal.kernel.errors import (
    AttestationError,
    AuditError,
    BudgetError,
    CommitmentError,
    ConfigurationError,
    EncodingError,
    LedgerError,
    TransportError,
)
from tests.client.small_provider import TEXTS


def test_a_checked_answer(bench: Any) -> None:
    result = bench.client().ask("json")
    assert result.checked
    assert len(result.returned) == 3
    assert len(result.texts) == len(result.slots) == len(result.ranked)
    assert set(result.slots) <= set(result.returned)
    scores = [r.score for r in result.ranked]
    assert scores == sorted(scores, reverse=True)
    assert {r.text for r in result.ranked} == set(result.texts)
    assert result.best == result.ranked[0]
    for one in (*result.opened, *result.ranked):
        assert one.id == f"d{one.slot}"
        assert one.text == TEXTS[one.slot]
        assert one.metadata == {"draft": one.slot % 2 == 0, "line": one.slot, "source": f"notes-{one.slot % 3}"}
    assert [one.slot for one in result.opened] == sorted(one.slot for one in result.ranked)
    many = {0: "none of the 3", 3: "all 3"}.get(len(result.slots), f"{len(result.slots)} of the 3")
    assert result.held.startswith(f"{many} returned slots came with a text")
    assert sorted((*result.slots, *result.unread)) == list(result.returned)
    assert not set(result.slots) & set(result.unread)
    assert result.record.signed.request.last_receipt == NO_RECEIPT
    assert bench.evidence() == []


def test_counters_and_acknowledgements_follow_each_other_across_restarts(bench: Any) -> None:
    first = bench.client().ask("json")
    second = bench.client().ask("csv")  # another process
    request = second.record.signed.request
    assert (first.record.signed.request.ctr, request.ctr) == (1, 2)
    assert request.last_receipt == first.receipt.digest()
    assert request.nonce != first.record.signed.request.nonce


def test_the_log_of_a_checked_answer_is_remembered(bench: Any) -> None:
    client = bench.client()
    for _ in range(2):
        answer = client.ask("json")
        assert client._history.size > answer.receipt.body.index


def test_every_question_has_random_bytes_of_its_own(bench: Any) -> None:
    """The salt keeps the digest of a question, which is public, from everybody who guesses the question."""
    client = bench.client()
    for _ in range(3):
        client.ask("json")
    [memory] = client.state.windows()
    asked = [memory.exchange(ctr) for ctr in (1, 2, 3)]
    for part in (
        [one.prepare.salt for one in asked],
        [one.prepare.request_id for one in asked],
        [one.signed.request.nonce for one in asked],
        [one.seal_secret for one in asked],
    ):
        assert len(set(part)) == 3
        assert not any(set(value) == {0} for value in part)


def test_generators_are_those_of_a_window_s_dimension(bench: Any) -> None:
    exchanges = bench.client()._exchanges
    few, many, again = (exchanges._bases(dimension) for dimension in (2, 5, 2))
    assert many.startswith(few)
    assert len(many) > len(few)
    assert few is again, "made once"


def test_a_new_window_starts_at_one(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    bench.provider.open("w2")
    result = client.ask("json")  # the provider refuses the old manifest, the client looks again
    assert result.record.signed.request.window == "w2"
    assert result.record.signed.request.ctr == 1
    assert result.record.signed.request.last_receipt == NO_RECEIPT


def test_without_an_embedder_the_request_says_unchecked(bench: Any) -> None:
    result = bench.client(embedder=None).ask("json")
    assert not result.checked
    assert not result.record.signed.request.checked
    assert result.ranked is None
    assert result.best is None


def test_an_answer_of_empty_slots_is_survived_and_explained(empty: Any) -> None:
    """README's ten lines took ranked[0], which such an answer has not."""
    result = empty.client().ask("json")
    assert (result.ranked, result.texts, result.best) == ((), (), None)
    assert result.held == (
        "none of the 3 returned slots came with a text, all by chance alone: no document scores high enough for "
        "these words, or chance hid it; other words may find it"
    )


@pytest.mark.parametrize("scene", ["bench", "empty"])
def test_readmes_ten_lines_run(
    request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], scene: str
) -> None:
    found = request.getfixturevalue(scene)
    readme = (Path(__file__).resolve().parents[2] / "README.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", readme, re.DOTALL)
    monkeypatch.setattr("ragseal.client.client.Client", lambda *_, **__: found.client())
    exec(block, {})
    shown = capsys.readouterr().out
    assert ("all by chance alone: " in shown) == (scene == "empty")


def test_budget_is_refused_before_anything_is_sent(bench: Any) -> None:
    client = bench.client()
    for word in ("a", "b", "c", "d"):
        client.ask(word)
    bench.provider.calls.clear()
    with pytest.raises(BudgetError, match="used its 4 queries"):
        client.ask("e")
    assert "prepare" not in bench.provider.calls


def test_a_spent_budget_is_no_reason_to_overlook_the_next_window(bench: Any) -> None:
    client = bench.client()
    for word in ("a", "b", "c", "d"):
        client.ask(word)
    bench.provider.open("w2")
    assert client.ask("e").record.signed.request.window == "w2"


@pytest.mark.parametrize("text", ["", " ", "\n\t\u3000"])
def test_an_empty_question_costs_nothing(bench: Any, outage: Any, text: str) -> None:
    client = bench.client()
    with pytest.raises(AttestationError, match="the question is empty: nothing was sent"):
        client.ask(text)
    assert bench.provider.calls == []
    bench.provider.on_call = outage("retrieve")
    with pytest.raises(TransportError):
        client.ask("json")
    bench.provider.on_call = lambda _: None
    calls = len(bench.provider.calls)
    with pytest.raises(AttestationError, match="the question is empty"):
        client.ask(text)
    assert len(bench.provider.calls) == calls  # nor does it send what is pending
    assert client.ask("json").record.signed.request.ctr == 1
    assert bench.evidence() == []


def test_a_closed_client_says_that_it_is_closed(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    before, calls = bench.snapshot(), len(bench.provider.calls)
    client.close()
    client.close()
    for call in (lambda: client.ask("csv"), client.resume):
        with pytest.raises(ConfigurationError, match="this client is closed"):
            call()
    assert (bench.snapshot(), len(bench.provider.calls)) == (before, calls)
    assert bench.client().ask("csv").record.signed.request.ctr == 2


def test_closing_waits_for_the_query_under_way(bench: Any) -> None:
    client, entered, go = bench.client(), threading.Event(), threading.Event()

    def slow(call: str) -> None:
        if call == "retrieve":
            entered.set()
            assert go.wait(20)

    bench.provider.on_call = slow
    results: list[Any] = []
    asking = threading.Thread(target=lambda: results.append(client.ask("json")))
    asking.start()
    assert entered.wait(20)
    closing = threading.Thread(target=client.close)
    closing.start()
    closing.join(0.2)
    assert closing.is_alive()
    go.set()
    asking.join(20)
    closing.join(20)
    assert results[0].checked


def test_only_an_open_window_takes_questions(bench: Any) -> None:
    client = bench.client()
    bench.provider.stage = "preparing"
    with pytest.raises(TransportError, match="not open yet"):
        client.ask("json")
    bench.provider.stage = "open"
    client.ask("json")
    bench.provider.stage = "closed"
    with pytest.raises(TransportError, match="is closed"):
        bench.client().ask("csv")
    assert bench.evidence() == []


def test_bad_texts_are_refused_before_anything_is_sent(bench: Any) -> None:
    client = bench.client(embedder=None)
    for text in ("\ud800", "x" * 70000):
        with pytest.raises(EncodingError):
            client.ask(text)
    assert "prepare" not in bench.provider.calls


def test_two_processes_and_missing_pins_are_refused(bench: Any) -> None:
    client = bench.client()
    with pytest.raises(LedgerError, match="in use by another process"):
        AccountState(bench.state)
    client.state.close()
    other = bench.provider.log_signer.verifier.vkey().replace("test.example/log", "else")
    with pytest.raises(AuditError):
        bench.client(log_key=other)
    fresh = bench.state.parent / "fresh"
    AccountState.create(fresh, "alice")
    with pytest.raises(ConfigurationError, match="no log key is pinned"):
        type(client)(bench.provider, fresh, ledger=bench.provider)
    AccountState(fresh).close()  # released after the failure


def test_another_embedder_than_the_window_s(bench: Any) -> None:
    bench.provider.open("w2", embedder=b"x" * 32)
    with pytest.raises(CommitmentError, match="a different embedder"):
        bench.client().ask("json")
    assert bench.client(embedder=None).ask("json").checked is False


def test_a_provider_key_given_by_hand_counts_from_the_first_contact(bench: Any) -> None:
    with pytest.raises(CommitmentError, match="by the provider key"):
        bench.client(provider_key=b"x" * 32).ask("json")
    assert "prepare" not in bench.provider.calls


def test_the_first_contact_pins_provider_and_log(bench: Any) -> None:
    bench.client().ask("json")
    state = bench.client(log_key=None).state
    assert state.provider_key() == bench.provider.manifest.provider_key
    assert state.log_key() == bench.provider.log_signer.verifier
    assert state.checkpoint().note.encode() == bench.provider.log.checkpoint()


# Pool: as many questions at a time as it has accounts, each with its account; all of them closed.


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
