# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway, called by the clients that people have: OpenAI's, MCP's and plain HTTP; and by those who should not."""

from __future__ import annotations

import asyncio
import base64
import json
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
if find_spec("mcp") is None:  # not loaded here: that takes a second of every worker
    pytest.skip("mcp is not installed", allow_module_level=True)

from ragseal.client.gateway.app import Gateway
from ragseal.client.gateway.commands import gateway_key, hosts_of
from ragseal.client.gateway.search import Search
from ragseal.kernel.attestation import Receipt, Record
from ragseal.kernel.errors import BudgetError, ConfigurationError
from ragseal.ledger.checkpoint import open_checkpoint
from ragseal.ledger.merkle import leaf_hash, verify_inclusion
from tests.client.gateway.serving import KEY, gateway_of, lie, served
from tests.client.lag import check_lag


@pytest.fixture
def url(bench: Any) -> Iterator[str]:
    with served(bench.client(), bench.state) as at:
        yield at


def call(url: str, body: object = None, **headers: str) -> tuple[int, Any, dict[str, str]]:
    """Status, JSON and headers of a POST, or of a GET where there is no body."""
    data = None if body is None else body if isinstance(body, bytes) else json.dumps(body).encode()
    given = {"Authorization": f"Bearer {KEY}", "Content-Type": "application/json", **headers}
    request = urllib.request.Request(url, data, {k.replace("_", "-"): v for k, v in given.items()})
    try:
        with urllib.request.urlopen(request, timeout=30) as answer:
            return answer.status, json.loads(answer.read()), dict(answer.headers)
    except urllib.error.HTTPError as error:
        text = error.read()
        return error.code, json.loads(text) if text.startswith(b"{") else text, dict(error.headers)


@pytest.mark.slow
def test_openais_client_searches_a_tenant(bench: Any, url: str) -> None:
    openai = pytest.importorskip("openai")
    with openai.OpenAI(base_url=f"{url}/v1", api_key=KEY, max_retries=0) as client:
        page = client.vector_stores.search("acme", query="json", max_num_results=2)
        assert page.data
        assert len(page.data) <= 2
        first = page.data[0]
        assert first.content[0].text
        assert first.attributes["ragseal_window"] == "w1"
        assert first.attributes["ragseal_checked"] is True
        assert [d.score for d in page.data] == sorted((d.score for d in page.data), reverse=True)
        with pytest.raises(openai.NotFoundError, match="searches 'acme' alone"):
            client.vector_stores.search("globex", query="json")
        with pytest.raises(openai.BadRequestError, match="rewrite_query"):
            client.vector_stores.search("acme", query="json", rewrite_query=True)
        with pytest.raises(openai.RateLimitError) as spent:
            [client.vector_stores.search("acme", query="json") for _ in range(9)]
    assert int(spent.value.response.headers["retry-after"]) >= 1
    assert spent.value.type == "insufficient_quota"


def test_documents_receipts_and_what_is_kept(bench: Any, url: str) -> None:
    status, found, _ = call(f"{url}/v1/search", {"query": ["json", "xml"]})
    assert status == 200
    assert [one["seq"] for one in found["answers"]] == [0, 1]
    ids = [one["id"] for one in found["results"]]
    assert len(ids) == len(set(ids)), "each document once"
    status, receipt, _ = call(f"{url}/v1/receipts/1?window=w1")
    assert status == 200
    assert receipt["digest"] == found["answers"][1]["receipt"]
    signed = Receipt.decode(base64.b64decode(receipt["receipt"]))
    record = Record.decode(base64.b64decode(receipt["record"]))
    tree = open_checkpoint(signed.body.checkpoint, bench.provider.log_signer.verifier).checkpoint
    verify_inclusion(leaf_hash(record.encode()), signed.body.index, tree.size, signed.path, tree.root)
    assert call(f"{url}/v1/receipts/7")[0] == 404
    assert call(f"{url}/v1/receipts/1?window=other")[0] == 404


def test_filters_choose_among_what_came_back(url: str) -> None:
    _, everything, _ = call(f"{url}/v1/search", {"query": "json"})
    sources = {one["metadata"]["source"] for one in everything["results"]}
    wanted = sorted(sources)[0]
    given = {"type": "eq", "key": "source", "value": wanted}
    _, some, _ = call(f"{url}/v1/search", {"query": "json", "filters": given})
    assert {one["metadata"]["source"] for one in some["results"]} <= {wanted}
    assert some["answers"][0]["documents"] >= len(some["results"])
    status, none, headers = call(
        f"{url}/v1/vector_stores/acme/search", {"query": "json", "ranking_options": {"score_threshold": 1.0}}
    )
    assert status == 200
    assert all(one["score"] == 1.0 for one in none["data"])
    assert headers["ragseal-filters"] == "applied-to-the-answer"


REFUSED: list[tuple[int, dict[str, str]]] = [
    (401, {"Authorization": ""}),
    (401, {"Authorization": "Bearer " + KEY[:-1]}),
    (401, {"Authorization": f"Basic {KEY}"}),
    (403, {"Origin": "http://127.0.0.1"}),
    (403, {"Sec_Fetch_Site": "cross-site"}),
    (421, {"Host": "attacker.example"}),  # a name that the attacker's own server of names leads here
]


@pytest.mark.parametrize(("status", "headers"), REFUSED)
@pytest.mark.parametrize("path", ["/v1/search", "/v1/vector_stores/acme/search", "/mcp", "/v1/receipts/0"])
def test_who_may_not_ask_spends_nothing(bench: Any, url: str, path: str, status: int, headers: dict[str, str]) -> None:
    before = bench.snapshot()
    got, said, _ = call(url + path, None if "receipts" in path else {"query": "json"}, **headers)
    assert got == status, said
    assert bench.snapshot() == before


WRONG: list[tuple[object, str]] = [
    (b"{", "not JSON"),
    (b"[" * 100_000, "not JSON"),
    (b" " * (1 << 20) + b"{}", "at most"),
    ([], "JSON object"),
    ({}, "query"),
    ({"query": "  "}, "query"),
    ({"query": ["json"] * 9}, "at most 8"),
    ({"query": "x" * 70_000}, "bytes"),
    ({"query": "json", "max_num_results": 0}, "max_num_results"),
    ({"query": "json", "max_num_results": True}, "max_num_results"),
    ({"query": "json", "top_k": 3}, "unknown member 'top_k'"),
    ({"query": "json", "ranking_options": {"score_threshold": 2}}, "score_threshold"),
    ({"query": "json", "ranking_options": {"weights": 2}}, "ranking_options"),
    ({"query": "json", "ranking_options": []}, "ranking_options"),
    ({"query": "json", "ranking_options": {"ranker": "cross-encoder"}}, "ranker"),
    (b'{"query": "json", "query": "yaml"}', "the member 'query' occurs twice"),
    (b'{"query": "json", "ranking_options": {"score_threshold": NaN}}', "NaN is not JSON"),
    ('{"query": "json"}'.encode("utf-16"), "is UTF-16LE, not UTF-8"),
    (b'{"query": "\xff"}', "not UTF-8"),
    ({"query": "json", "filters": {"type": "like", "key": "a", "value": "b"}}, "none of eq"),
]


@pytest.mark.parametrize(("body", "why"), WRONG)
def test_a_wrong_request_is_told_why_and_spends_nothing(bench: Any, url: str, body: object, why: str) -> None:
    before = bench.snapshot()
    status, said, _ = call(f"{url}/v1/search", body)
    assert status == 400
    assert why in said["error"]["message"]
    assert bench.snapshot() == before


@pytest.mark.parametrize(
    ("path", "said"),
    [
        ("/v1/search?filters=x", "'filters' is unknown: known are []"),
        ("/v1/search?query=json", "'query' is unknown"),
        ("/v1/vector_stores/acme/search?limit=3", "'limit' is unknown"),
        ("/v1/receipts/0?windo=w1", "'windo' is unknown: known are ['window']"),
        ("/v1/receipts/0?window=w1&window=w2", "'window' stands there twice"),
    ],
)
def test_query_parameters_that_nobody_reads_are_refused(bench: Any, url: str, path: str, said: str) -> None:
    before = bench.snapshot()
    status, told, _ = call(url + path, None if "receipts" in path else {"query": "json"})
    assert (status, said in told["error"]["message"]) == (400, True), told
    assert bench.snapshot() == before


def test_a_mark_in_front_of_a_body_is_no_part_of_it(bench: Any, url: str) -> None:
    assert call(f"{url}/v1/search", b'\xef\xbb\xbf{"query": "json"}')[0] == 200


def test_a_filter_that_compares_text_with_numbers_says_so(bench: Any, url: str) -> None:
    given = {"type": "gt", "key": "source", "value": 5}
    _, told, _ = call(f"{url}/v1/search", {"query": "json", "filters": given})
    assert not told["results"]
    (note,) = told["notes"]
    same = "'source' is text in documents, and the filter compares it with a number: they never agree ("
    assert note.startswith(same)
    _, page, _ = call(f"{url}/v1/vector_stores/acme/search", {"query": "json", "filters": given})
    assert page["ragseal_notes"] == [note]
    assert not call(f"{url}/v1/search", {"query": "json"})[1]["notes"]


def test_a_lie_is_answered_with_where_the_evidence_lies(bench: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    lie(bench, monkeypatch)
    with served(bench.client(), bench.state) as url:
        status, said, _ = call(f"{url}/v1/search", {"query": "json"})
    assert status == 502
    (bundle,) = bench.evidence()
    assert said["error"]["evidence"] == bundle.name
    assert "results" not in said


def test_a_provider_out_of_reach(bench: Any, outage: Any) -> None:
    with served(bench.client(), bench.state) as url:
        bench.provider.on_call = outage("prepare")
        status, said, headers = call(f"{url}/v1/search", {"query": "json"})
    assert status == 503
    assert said["error"]["type"] == "provider_unreachable"
    assert int(headers["retry-after"]) >= 1


def _told(result: Any) -> Any:
    assert not result.is_error, result
    return result.structured_content


def test_agents_call_the_tool_over_http(bench: Any, url: str) -> None:
    import httpx2
    from mcp.client import Client
    from mcp.client.streamable_http import streamable_http_client

    async def run() -> None:
        headers = {"Authorization": f"Bearer {KEY}"}
        async with (
            httpx2.AsyncClient(headers=headers) as http,
            Client(streamable_http_client(f"{url}/mcp", http_client=http)) as client,
        ):
            (tool,) = (await client.list_tools()).tools
            assert tool.name == "search"
            assert tool.annotations.read_only_hint is False, "each call spends budget"
            assert set(tool.output_schema["properties"]) == {"results", "answers"}
            found = _told(await client.call_tool("search", {"query": "json", "max_num_results": 2}))
            assert found["answers"][0]["seq"] == 0
            assert len(found["results"]) <= 2
            refused = await client.call_tool("search", {"query": " "})
            assert refused.is_error
            assert "query" in refused.content[0].text
            assert tool.input_schema["additionalProperties"] is False
            before = bench.snapshot()
            for strange in ({"filters": {"type": "eq", "key": "a", "value": 1}}, {"max_result": 1}, {"": None}):
                dropped = await client.call_tool("search", {"query": "json", **strange})
                assert dropped.is_error
                assert "unknown argument" in dropped.content[0].text
                assert "nothing was asked" in dropped.content[0].text
            assert bench.snapshot() == before

    asyncio.run(run())


def test_an_argument_that_occurs_twice_or_is_no_number_spends_nothing(bench: Any, url: str) -> None:
    """The library's parser would keep the last one, and take true for 1."""

    def asked(arguments: str) -> tuple[int, str]:
        body = '{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "search", "arguments": %s}}'
        status, said, _ = call(f"{url}/mcp", (body % arguments).encode(), Accept="application/json, text/event-stream")
        return status, str(said)

    before = bench.snapshot()
    status, said = asked('{"query": "json", "query": "yaml"}')
    assert (status, "the member 'query' occurs twice" in said) == (400, True), said
    assert "argument 'max_num_results' is true or false" in asked('{"query": "json", "max_num_results": true}')[1]
    assert bench.snapshot() == before
    assert asked('{"query": "json"}')[0] == 200
    assert bench.snapshot() != before


@pytest.mark.slow
def test_agents_call_the_tool_on_standard_input(tmp_path: Path) -> None:
    from mcp.client import Client
    from mcp.client.stdio import StdioServerParameters, stdio_client

    root = Path(__file__).resolve().parents[3]

    async def run() -> None:
        parameters = StdioServerParameters(
            command=sys.executable,
            args=["-m", "tests.client.gateway.serving", str(tmp_path)],
            cwd=root,
            env={"PYTHONPATH": str(root)},
        )
        async with Client(stdio_client(parameters)) as client:
            found = _told(await client.call_tool("search", {"query": "json"}))
            assert found["answers"][0]["checked"] is True

    asyncio.run(run())


@pytest.mark.slow
def test_a_member_that_occurs_twice_on_standard_input_spends_nothing(tmp_path: Path) -> None:
    def call(number: int, arguments: str) -> str:
        about = '{"name": "search", "arguments": ' + arguments + "}"
        return f'{{"jsonrpc": "2.0", "id": {number}, "method": "tools/call", "params": {about}}}'

    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    hello = {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": about}
    root = Path(__file__).resolve().parents[3]
    with subprocess.Popen(
        [sys.executable, "-m", "tests.client.gateway.serving", str(tmp_path)], cwd=root, text=True,
        env={"PYTHONPATH": str(root)}, stdin=subprocess.PIPE, stdout=subprocess.PIPE,
    ) as process:  # fmt: skip
        assert process.stdin is not None
        assert process.stdout is not None
        stdin, stdout = process.stdin, process.stdout

        def refusal(line: str) -> tuple[int | None, str]:
            print(line, file=stdin, flush=True)
            said = json.loads(stdout.readline())
            return said["id"], said.get("error", {}).get("message", "none")

        assert refusal(json.dumps(hello)) == (1, "none")
        print('{"jsonrpc": "2.0", "method": "notifications/initialized"}', file=stdin, flush=True)
        twice = refusal(call(2, '{"query": "json", "query": "yaml"}'))
        assert twice == (2, "the message: not JSON (the member 'query' occurs twice); nothing was asked")
        number, said = refusal(call(3, '{"query": "json", "max_num_results": NaN}'))
        assert (number, "nothing was asked" in said) == (3, True), said
        number, said = refusal("no JSON")
        assert (number, "not JSON" in said) == (None, True), said
        number, said = refusal('{"id": "\\ud800", "x": 1, "x": 2}')  # no answer can bear this name
        assert (number, "'x' occurs twice" in said) == (None, True), said
        print(call(4, '{"query": "json"}'), file=stdin, flush=True)
        found = json.loads(stdout.readline())["result"]["structuredContent"]
        assert found["answers"][0]["seq"] == 0, "the first record of the window"
        stdin.close()
        assert process.wait(30) == 0


def test_the_key_is_made_once_and_kept_from_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("RAGSEAL_GATEWAY_KEY", raising=False)
    key, where = gateway_key(tmp_path)
    assert gateway_key(tmp_path) == (key, where)
    assert Path(where).stat().st_mode & 0o777 == 0o600
    assert len(key) >= 40
    Path(where).chmod(0o640)
    with pytest.raises(ConfigurationError, match="open to other users"):  # of this machine, who would ask with it
        gateway_key(tmp_path)
    with pytest.raises(ConfigurationError, match="cannot write"):
        gateway_key(tmp_path / "none" / "of" / "these")
    monkeypatch.setenv("RAGSEAL_GATEWAY_KEY", "from-a-vault-of-secrets")
    assert gateway_key(tmp_path)[0] == "from-a-vault-of-secrets"
    for weak in ("", "short", "ä" * 30):
        monkeypatch.setenv("RAGSEAL_GATEWAY_KEY", weak)
        with pytest.raises(ConfigurationError, match=r"at least 20|is empty"):
            gateway_key(tmp_path)


def test_hosts() -> None:
    assert {"127.0.0.1:7", "localhost:7", "[::1]:7"} <= hosts_of("127.0.0.1", 7, ())
    beyond = hosts_of("10.0.0.5", 7, ("search.acme.example",))
    assert {"10.0.0.5:7", "search.acme.example:7", "search.acme.example"} <= beyond
    assert not {"localhost", "127.0.0.1"} & beyond


def test_eight_searches_at_a_time_leave_the_loop_alone(bench: Any) -> None:
    """Nobody's event loop waits for a search, the gateway's neither."""
    bench.provider.open("w2", n_max=9)

    async def run() -> None:
        gateway = await gateway_of(bench.client(), bench.state)
        await gateway.search(Search(("json",)))  # imports
        asked = [asyncio.ensure_future(gateway.search(Search((f"question {i}",)))) for i in range(8)]
        await check_lag(asked)
        assert {len(one.result()) for one in asked} == {1}

    asyncio.run(run())


def test_a_refusal_that_time_mends_says_how_long() -> None:
    """An account that asks too often has budget left: callers come again, as OpenAI's clients do by themselves."""
    gateway = Gateway(None, "acme", lambda _: [], 1.0, Path())  # type: ignore[arg-type]
    for wait, header in ((0, "1"), (1200, "2")):
        answer = gateway.refusal(BudgetError("too often", retry_after_ms=wait))
        assert (answer.status_code, answer.headers["retry-after"]) == (429, header)
        assert json.loads(answer.body)["error"]["type"] == "rate_limit_exceeded"
