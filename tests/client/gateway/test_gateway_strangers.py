# SPDX-License-Identifier: GPL-3.0-or-later
"""What a gateway lets callers take of it: bodies, time and connections, and what its errors tell of this machine."""

from __future__ import annotations

import asyncio
import json
import time
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
if find_spec("mcp") is None:  # not loaded here: that takes a second of every worker
    pytest.skip("mcp is not installed", allow_module_level=True)

from starlette.responses import PlainTextResponse

from ragseal.client.gateway import app as gateways
from ragseal.client.gateway.app import Gateway, Guard
from ragseal.client.gateway.search import Search, openai_form, own_form
from ragseal.client.gateway.tools import Found
from ragseal.client.receipts import kept
from ragseal.kernel.errors import AuditError, BudgetError, ConfigurationError, TransportError
from tests.client.gateway.serving import KEY, gateway_of, lie, served
from tests.client.gateway.test_gateway import call

HOST = "127.0.0.1"


# --- bodies ----------------------------------------------------------------------------------------------------------


class Asked:
    """An application that takes whole bodies, as MCP's does, behind the guard."""

    def __init__(self) -> None:
        self.bodies: list[bytes] = []
        self.guard = Guard(self._app, KEY, frozenset([HOST]))

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        body, more = b"", True
        while more:
            part = await receive()
            body, more = body + part["body"], part["more_body"]
        self.bodies.append(body)
        await PlainTextResponse("read")(scope, receive, send)

    def ask(self, *parts: dict[str, Any], pause: float = 0.0, key: str = KEY) -> tuple[int, bytes]:
        """Status and body of the answer to a request that comes in these parts; after them nothing comes."""
        coming, said = list(parts), []

        async def receive() -> dict[str, Any]:
            await asyncio.sleep(pause)
            if not coming:
                await asyncio.sleep(60)
            return {"type": "http.request", "body": b"", "more_body": True, **coming.pop(0)}

        async def send(message: Any) -> None:
            said.append(message)

        headers = [(b"host", HOST.encode()), (b"authorization", f"Bearer {key}".encode())]
        scope = {"type": "http", "method": "POST", "path": "/mcp", "headers": headers, "query_string": b""}
        asyncio.run(self.guard(scope, receive, send))
        return (said[0]["status"], said[1]["body"]) if said else (0, b"")


def test_a_body_is_handed_on_as_it_came() -> None:
    asked = Asked()
    assert asked.ask({"body": b"{"}, {"body": b"}", "more_body": False}) == (200, b"read")
    assert asked.bodies == [b"{}"]


def test_no_route_is_handed_a_body_without_bound() -> None:
    asked = Asked()
    half = {"body": bytes(gateways.MAX_BODY // 2 + 1)}
    status, said = asked.ask(half, half, half, half)
    assert status == 400
    assert b"at most" in said
    assert not asked.bodies


def test_a_body_that_does_not_come_is_not_waited_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gateways, "BODY_SECONDS", 0.05)
    asked = Asked()
    began = time.monotonic()
    status, said = asked.ask(*[{"body": b" "}] * 1000, pause=0.01)
    assert time.monotonic() - began < 5
    assert status == 400
    assert b"has to come within" in said
    assert not asked.bodies


def test_nothing_is_read_of_who_may_not_ask() -> None:
    asked = Asked()
    assert asked.ask({"body": bytes(1 << 25)}, pause=0.01, key="another")[0] == 401
    assert not asked.bodies


def test_a_caller_that_goes_away_is_answered_nothing() -> None:
    asked = Asked()
    assert asked.ask({"body": b"{"}, {"type": "http.disconnect"}) == (0, b"")
    assert not asked.bodies


# --- searches ---------------------------------------------------------------------------------------------------------


def test_a_search_too_many_is_told_to_come_back() -> None:
    class Busy:
        async def ask(self, text: str, timeout: float | None = None) -> Any:
            await asyncio.sleep(60)

    async def run() -> None:
        gateway = Gateway(Busy(), "acme", lambda window: [], 60.0, Path("/nowhere"))
        search = Search(("json",))
        waiting = [asyncio.ensure_future(gateway.search(search)) for _ in range(gateways.MOST_WAITING)]
        await asyncio.sleep(0)
        with pytest.raises(TransportError, match="try again"):
            await gateway.search(search)
        waiting[0].cancel()
        await asyncio.wait([waiting[0]])
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(gateway.search(search), 0.01)
        for one in waiting:
            one.cancel()

    asyncio.run(run())


def test_what_was_answered_before_a_query_failed_is_not_paid_for_again() -> None:
    asked: list[str] = []
    failed = {"a"}

    class Failing:
        async def ask(self, text: str, timeout: float | None = None) -> Any:
            asked.append(text)
            if text not in failed:
                failed.add(text)
                raise TransportError("away")
            return text

    async def run() -> None:
        gateway = Gateway(Failing(), "acme", lambda window: [], 60.0, Path("/nowhere"))
        search: Any = Search(("a", "b"))
        with pytest.raises(TransportError):
            await gateway.search(search)
        assert await gateway.search(search) == ["a", "b"]
        assert asked == ["a", "b", "b"]
        assert await gateway.search(search) == ["a", "b"]
        assert asked == ["a", "b", "b", "a", "b"], "a new search is a new search"
        for number in range(gateways.MOST_UNFINISHED + 1):
            with pytest.raises(TransportError):
                await gateway.search(Search(("a", f"other {number}")))
        asked.clear()
        await gateway.search(Search(("a", "other 0")))
        assert asked == ["a", "other 0"], "the oldest are forgotten"

    asyncio.run(run())


def test_searches_at_one_time_have_an_answer_each(bench: Any) -> None:
    names = [f"question {number}" for number in range(4)]

    async def run() -> list[dict[str, Any]]:
        gateway = await gateway_of(bench.client(), bench.state, 600.0)
        searches = [Search((name,)) for name in names]
        found = await asyncio.gather(*(gateway.search(one) for one in searches))
        return [own_form(one, results) for one, results in zip(searches, found, strict=True)]

    found = [one["answers"][0] for one in asyncio.run(run())]
    assert sorted(one["seq"] for one in found) == list(range(4))
    by_seq = {one.answer.receipt.body.seq: one for one in kept(bench.state)}
    asked = [by_seq[one["seq"]].window.exchange(by_seq[one["seq"]].ctr).prepare.query for one in found]
    assert asked == names


# --- what errors tell ------------------------------------------------------------------------------------------------


ODD: list[tuple[object, str]] = [
    ({"query": "\ud800"}, "not text"),
    ({"query": "json", "filters": {"type": ["eq"], "key": "a", "value": 1}}, "none of eq"),
    ({"query": "json", "filters": {"type": "in", "key": "a", "value": [1] * 257}}, "at most 256"),
    ({"query": "json", "\ud800": 1}, "unknown member"),
]


@pytest.mark.parametrize(("body", "why"), ODD)
def test_an_odd_request_is_the_callers_mistake(bench: Any, body: object, why: str) -> None:
    with served(bench.client(), bench.state) as url:
        before = bench.snapshot()
        status, said, _ = call(f"{url}/v1/search", json.dumps(body).encode())
    assert status == 400, said
    assert why in said["error"]["message"]
    assert bench.snapshot() == before


@pytest.mark.parametrize(
    "which", ["9" * 5000, "-1", "0x0", "%2e%2e%2faccount.pem", "..%5caccount.pem", "0?window=..%2f..%2fetc"]
)
def test_a_receipt_that_there_cannot_be(bench: Any, which: str) -> None:
    client = bench.client()
    client.ask("json")
    with served(client, bench.state) as url:
        status, said, _ = call(f"{url}/v1/receipts/{which}")
        assert status == 404, said
        assert call(f"{url}/v1/receipts/0")[0] == 200


def test_a_failed_check_tells_no_folder(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lie(bench, monkeypatch)
    with served(bench.client(), bench.state) as url:
        status, said, _ = call(f"{url}/v1/search", {"query": "json"})
    assert status == 502
    assert said["error"]["message"]
    assert str(bench.state) not in json.dumps(said)


def test_a_fault_of_this_program_tells_nothing(
    bench: Any, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    client = bench.client()
    client.ask("json")

    def broken(text: str) -> Any:
        raise RuntimeError(f"what was asked: {text}")

    monkeypatch.setattr(client, "ask", broken)
    with served(client, bench.state) as url:
        status, said, _ = call(f"{url}/v1/search", {"query": "a private question"})
    assert status == 500
    assert said["error"]["type"] == "configuration_error"
    assert "private" not in json.dumps(said) + caplog.text


def test_trouble_with_the_folder_tells_no_folder(bench: Any) -> None:
    client = bench.client()
    client.ask("json")
    (answer,) = bench.state.glob("windows/*/00000001.answer")
    answer.write_bytes(b"damaged")
    with served(client, bench.state) as url:
        for status, said, _ in (call(f"{url}/v1/receipts/0"), call(f"{url}/v1/search", {"query": "json"})):
            assert status == 500
            assert "its log" in said["error"]["message"]
            assert str(bench.state) not in json.dumps(said)


@pytest.mark.parametrize("kind", [AuditError, ConfigurationError, BudgetError])
def test_whatever_an_error_says_the_folder_is_not_told(tmp_path: Path, kind: type[AuditError]) -> None:
    gateway = Gateway(_Nobody(), "acme", lambda window: [], 1.0, tmp_path)
    assert str(tmp_path) not in gateway.told(kind(f"{tmp_path}/windows/x holds nothing"))
    odd = tmp_path / "a\x1bb"
    gateway = Gateway(_Nobody(), "acme", lambda window: [], 1.0, odd)
    assert str(tmp_path) not in gateway.told(kind(f"{odd}/windows/x holds nothing"))
    gateway = Gateway(_Nobody(), "acme", lambda window: [], 1.0, Path("."))
    assert gateway.told(AuditError("no. It is not.")) == "no. It is not.", "a relative path tells nothing"


class _Nobody:
    async def ask(self, text: str, timeout: float | None = None) -> Any:
        raise AssertionError


# --- what is chosen --------------------------------------------------------------------------------------------------


def test_a_document_that_two_queries_bring_counts_with_its_better_score(bench: Any) -> None:
    """Whichever of them brings it first."""
    client = bench.client()
    found = client.ask("json")
    (best, *_) = found.ranked
    worse = replace(found, ranked=(replace(best, score=best.score - 1),))
    for results in ([found, worse], [worse, found]):
        (first, *_) = Search(("a", "b")).chosen(results)
        assert first == (best, found)


def test_keywords_of_an_answer_in_words_are_not_handed_out_as_documents(bench: Any) -> None:
    """What a window of the claim answers opens: noise may have brought any of it, and it is none of the documents."""
    found = bench.client().ask("json")
    worded = replace(found, answer="Parse it.", ranked=None)
    search = Search(("json", "xml"))
    own = own_form(search, [worded, found])
    assert {one["id"] for one in own["results"]} == {one.id for one in found.ranked}
    first, second = own["answers"]
    assert (first["answer"], first["keywords"], first["documents"]) == ("Parse it.", list(worded.keywords), 0)
    assert (second["answer"], second["keywords"]) == (None, [])
    assert Found.model_validate(own).answers[0].answer == "Parse it."
    page = openai_form(Search(("json",)), [worded])
    assert [one["content"][0]["text"] for one in page["data"]] == ["Parse it."]
