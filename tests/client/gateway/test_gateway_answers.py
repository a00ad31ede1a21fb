# SPDX-License-Identifier: GPL-3.0-or-later
"""A gateway to a window of the claim answers, whose policy says how long after its request an answer leaves."""

from __future__ import annotations

import asyncio
from importlib.util import find_spec
from pathlib import Path

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
if find_spec("mcp") is None:
    pytest.skip("mcp is not installed", allow_module_level=True)

from ragseal.client import Client
from ragseal.client.gateway.search import Search
from ragseal.kernel.errors import TransportError
from ragseal.runtime.timer import Timer
from tests.client.gateway.serving import gateway_of
from tests.simulator.answered import QUESTION, AnsweringLive
from tests.simulator.clients import client_of
from tests.simulator.provider import TrigramEmbedder

pytestmark = pytest.mark.slow


def test_a_gateway_s_limit_begins_when_an_answer_is_due(tmp_path: Path) -> None:
    """Of the second search too, whose turn comes once the first one has its answer."""
    live = AnsweringLive(tmp_path, answered_by=6, timer=Timer())

    async def run(client: Client) -> list[list[int]]:
        gateway = await gateway_of(client, tmp_path, timeout=4.0)
        first = asyncio.create_task(gateway.search(Search((f"{QUESTION} first",), 1)))
        await asyncio.sleep(1)
        then = await gateway.search(Search((f"{QUESTION} then",), 1))
        return [[one.record.seq for one in results] for results in (await first, then)]

    try:
        with client_of(live.address, live.account(), live.log_key, TrigramEmbedder(), timeout=4.0) as client:
            assert asyncio.run(run(client)) == [[0], [1]]
            spent = client.policy_seconds
            assert spent.begun == spent.ended == 12
    finally:
        live.end()


def test_a_gateway_s_limit_is_one_beside_what_the_policy_says(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A provider that goes on for ever is not waited for for ever."""
    live = AnsweringLive(tmp_path, answered_by=1, timer=Timer())

    async def run(client: Client) -> None:
        gateway = await gateway_of(client, tmp_path, timeout=0.5)
        with pytest.raises(TransportError, match=r"no answer within 1\.5 s: ask the same question again"):
            await gateway.search(Search((QUESTION,), 1))

    async def never(*_: object) -> None:
        await asyncio.sleep(6)
        raise TransportError("away")

    try:
        with Client(live.address, live.account(), live.log_key, TrigramEmbedder()) as client:
            client.tenant()
            monkeypatch.setattr(live.server.serving.attestation, "retrieve", never)
            asyncio.run(run(client))
    finally:
        live.end()
