# SPDX-License-Identifier: GPL-3.0-or-later
"""Accounts by their settings: shared in a process, asked from threads and loops; without any framework."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ragseal.client import AsyncClient, Pool
from ragseal.client.adapters import Account
from ragseal.client.adapters import account as accounts
from ragseal.client.adapters.asking import Asking
from ragseal.client.adapters.passages import Choice
from ragseal.client.settings import Trust
from ragseal.kernel.errors import BudgetError, ConfigurationError, TransportError
from tests.client.lag import check_lag
from tests.client.test_asynchronous import hold
from tests.client.test_witnesses import LINES

Make = Callable[..., Account]
FULL = Account(
    "accounts/alice", "rag.example:7800", "example.org/rag+00+AA", None, "rag.example:7801", "0a" * 32, "0b" * 32,
    "witnesses.txt", "ca.pem", "own.pem", "own-key.pem", False, 5.0, 3,
)  # fmt: skip

# --- settings --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("account", [FULL, Account("a", "b:1")])
def test_settings_survive_a_file(account: Account) -> None:
    assert Account.of(json.loads(json.dumps(account.to_dict()))) == account
    assert Account.of(account) is account


def test_settings_say_what_differs_from_the_defaults() -> None:
    assert Account(Path("a"), "b:1").to_dict() == {"folder": "a", "provider": "b:1"}  # type: ignore[arg-type]
    assert Account("a", "b:1", embedder=None).to_dict() == {"folder": "a", "provider": "b:1", "embedder": None}


WRONG: list[tuple[object, str]] = [
    ("account", "expected an Account"),
    (None, "not NoneType"),
    ({"folder": "a"}, "needs its provider"),
    ({"folder": "", "provider": "b:1"}, "needs its folder"),
    ({"folder": "a", "provider": "b:1", "private_key": "00"}, "no 'private_key'"),
    ({"folder": "a", "provider": 1}, "provider is str"),
    ({"folder": "a", "provider": "b:1", "provider_key": "ab"}, "64 hexadecimal"),
    ({"folder": "a", "provider": "b:1", "auditor_key": "x" * 64}, "64 hexadecimal"),
    ({"folder": "a", "provider": "b:1", "timeout": 0}, "timeout is float"),
    ({"folder": "a", "provider": "b:1", "plain": 1}, "plain is bool"),
    ({"folder": "a", "provider": "b:1", "attempts": True}, "attempts is int"),
    ({"folder": "a", "provider": "b:1", "attempts": 0}, "attempts >= 1"),
]


@pytest.mark.parametrize(("given", "why"), WRONG, ids=[why for _, why in WRONG])
def test_settings_that_are_none_are_told_so(given: object, why: str) -> None:
    with pytest.raises(ConfigurationError, match=why):
        Asking(given)


def test_making_one_opens_nothing(tmp_path: Path) -> None:
    asking = Asking(Account(str(tmp_path / "nobody"), "127.0.0.1:1"))
    with pytest.raises(ConfigurationError, match="no account"):
        asking.ask("json")
    asking.close()


def test_every_setting_reaches_the_client(monkeypatch: pytest.MonkeyPatch) -> None:
    """A pipeline's file must not name a check that then is not made."""
    seen: dict[str, Any] = {}
    monkeypatch.setattr(accounts, "Client", lambda *given, **more: seen.update(given=given, **more))
    FULL.client()
    assert seen.pop("given") == ("rag.example:7800", "accounts/alice", "example.org/rag+00+AA", None)
    calls = seen.pop("calls")
    tls = calls.tls
    assert (str(tls.authority), str(tls.certificate), str(tls.key), tls.plain) == (
        "ca.pem", "own.pem", "own-key.pem", False,
    )  # fmt: skip
    assert calls.timeout == 5.0
    assert seen == {
        "ledger": "rag.example:7801",
        "trust": Trust(provider_key=b"\x0a" * 32, auditor_key=b"\x0b" * 32, witness_policy=Path("witnesses.txt")),
    }


# --- one folder, many retrievers -------------------------------------------------------------------------------------


@pytest.mark.slow
def test_retrievers_of_a_folder_share_its_client(account: Make) -> None:
    one = account()
    first, second = Asking(one), Asking(one.to_dict())
    assert first.ask("topic 3").record.signed.request.ctr == 1
    assert second.ask("topic 4").record.signed.request.ctr == 2
    other = Asking({**one.to_dict(), "timeout": 3.0})
    with pytest.raises(ConfigurationError, match="with other settings"):
        other.ask("topic 5")
    with pytest.raises(ConfigurationError, match="with other settings"):
        asyncio.run(other.ask_async("topic 5"))
    other.close()
    assert accounts.standing(one), "who could not open it does not close it"
    first.close()
    assert other.ask("topic 5").record.signed.request.ctr == 3
    other.close()
    assert first.ask("topic 6").record.signed.request.ctr == 4, "closed is opened again"


@pytest.mark.slow
def test_a_pipeline_waits_for_the_witnesses_that_its_file_names(account: Make, tmp_path: Path) -> None:
    path = tmp_path / "policy.txt"
    path.write_text(f"{LINES}\ngroup g 2 w0 w1 w2\nquorum g\n")
    with pytest.raises(TransportError, match="no witness has cosigned"):
        Asking(account(witness_policy=str(path))).ask("topic 3")


@pytest.mark.slow
def test_an_account_is_asked_from_any_loop_and_thread(account: Make) -> None:
    asking = Asking(account())
    found = [asyncio.run(asking.ask_async(f"topic {i}")) for i in range(2)]
    assert len(asking._loops) == 1, "a loop that is closed is forgotten"

    async def both() -> list[Any]:
        return list(await asyncio.gather(*(asking.ask_async(f"report {i}") for i in range(3))))

    threads = [threading.Thread(target=lambda: found.extend(asyncio.run(both()))) for _ in range(2)]
    for thread in threads:
        thread.start()
    found.append(asking.ask("report 9"))
    for thread in threads:
        thread.join(60)
    assert sorted(one.record.signed.request.ctr for one in found) == list(range(1, 10))


@pytest.mark.slow
def test_eight_calls_at_a_time_leave_the_loop_alone(account: Make) -> None:
    """Opening included."""
    asking = Asking(account())

    async def run() -> None:
        asked = [asyncio.ensure_future(asking.ask_async(f"topic {i}")) for i in range(8)]
        await check_lag(asked)
        for one in asked:
            assert one.result().checked

    asyncio.run(run())


# --- over a client that is there -------------------------------------------------------------------------------------


def test_documents_alone_are_asked_for(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """So a window of answers is refused before anything is sent."""
    client = bench.client()
    wanted: list[Any] = []
    real = client.ask
    monkeypatch.setattr(
        client, "ask", lambda text, *, answer=None: (wanted.append(answer), real(text, answer=answer))[1]
    )
    Asking(client).ask("json")

    async def run() -> None:
        await Asking(client).ask_async("xml")
        async with AsyncClient(client) as awaited:
            await Asking(awaited).ask_async("yaml")
            await Asking(Pool([awaited])).ask_async("toml")

    asyncio.run(run())
    assert wanted == [False] * 4


def test_what_can_only_be_awaited_says_so(bench: Any) -> None:
    async def run() -> None:
        async with AsyncClient(bench.client()) as client:
            for asked in (client, Pool([client])):
                with pytest.raises(ConfigurationError, match="await it"):
                    Asking(asked).ask("json")
                assert (await Asking(asked).ask_async("json")).checked
                Asking(asked).close()  # not ours
            with pytest.raises(ConfigurationError, match="cannot be saved"):
                Asking(client).to_dict()

    asyncio.run(run())


def test_whether_there_are_scores_is_known_before(bench: Any) -> None:
    assert Asking(FULL).embeds is False
    assert Asking(Account("a", "b:1")).embeds is True
    assert Asking(bench.client()).embeds is True
    blind = bench.client(embedder=None)
    assert Asking(blind).embeds is False
    assert Asking(AsyncClient(blind)).embeds is False


def test_a_cancelled_question_is_paid_once(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    go = hold(bench, monkeypatch)
    asking = Asking(bench.client())

    async def run() -> None:
        task = asyncio.ensure_future(asking.ask_async("json"))
        await asyncio.sleep(0.01)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        go.set()
        assert (await asking.ask_async("json")).record.seq == 0
        assert (await asking.ask_async("json")).record.seq == 1

    asyncio.run(run())


@pytest.mark.parametrize("awaited", [False, True])
def test_an_answer_without_scores_is_kept_until_the_embedder_is_back(
    bench: Any, monkeypatch: pytest.MonkeyPatch, awaited: bool
) -> None:
    client, choice = bench.client(), Choice(least_score=-1.0)
    asking, embedder = Asking(client), client._embedder
    real, away = embedder.embed, [True]

    def embed(texts: Any, role: str) -> Any:
        if role == "document" and away[0]:
            raise TransportError("nobody answers")
        return real(texts, role=role)

    monkeypatch.setattr(embedder, "embed", embed)

    def ask() -> Any:
        return asyncio.run(asking.ask_async("json", True)) if awaited else asking.ask("json", True)

    for _ in range(2):
        with pytest.raises(TransportError, match=r"nobody answers.* costs nothing more"):
            ask()
    away[0] = False
    result = ask()
    assert result.record.seq == 0, "one question was paid for"
    assert [one.score for one in choice.of(result)] == [one.cosine for one in result.ranked]
    assert ask().record.seq == 1, "the next one is a new question"


@pytest.mark.parametrize("awaited", [False, True])
def test_attempts_meet_transport_errors_alone(
    bench: Any, outage: Any, monkeypatch: pytest.MonkeyPatch, awaited: bool
) -> None:
    monkeypatch.setattr("ragseal.client.retries.random.uniform", lambda low, high: 0.0)
    client = bench.client()
    account = Account(str(bench.state), "b:1", attempts=3)
    monkeypatch.setattr(accounts, "opened", lambda _: client)
    monkeypatch.setattr(accounts, "standing", lambda _: None)

    def ask() -> Any:
        return asyncio.run(Asking(account).ask_async("json")) if awaited else Asking(account).ask("json")

    bench.provider.on_call = outage("prepare")
    with pytest.raises(TransportError):
        ask()
    assert bench.provider.calls.count("prepare") == 3

    def refuse(call: str) -> None:
        if call == "prepare":
            raise BudgetError("spent")

    bench.provider.on_call = refuse
    bench.provider.calls.clear()
    with pytest.raises(BudgetError, match="spent"):
        ask()
    assert bench.provider.calls.count("prepare") == 1
