# SPDX-License-Identifier: GPL-3.0-or-later
"""The gateway, called from Node by OpenAI's client and by a tool of the AI SDK, both as npm has them."""

from __future__ import annotations

import json
import shutil
import subprocess
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("starlette")
pytest.importorskip("uvicorn")
if find_spec("mcp") is None:  # not loaded here: that takes a second of every worker
    pytest.skip("mcp is not installed", allow_module_level=True)

from tests.client.gateway.serving import KEY, served

HERE = Path(__file__).parent / "node"
NODE = shutil.which("node")
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(
        NODE is None or not (HERE / "node_modules").exists(),
        reason="needs Node.js and `npm ci` in tests/client/gateway/node: make test-extras",
    ),
]


@pytest.fixture
def url(bench: Any) -> Iterator[str]:
    bench.provider.open("w2", n_max=6)
    with served(bench.client(), bench.state) as at:
        yield at


def node(program: str, *arguments: str) -> Any:
    """What a program printed, as JSON."""
    assert NODE
    done = subprocess.run([NODE, program, *arguments], cwd=HERE, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def test_openais_client_searches_a_tenant(url: str) -> None:
    said = node("openai.mjs", url, KEY)
    assert len(said["data"]) == 2
    first = said["data"][0]
    assert first["content"][0]["text"].startswith("entry ")
    assert (first["attributes"]["ragseal_window"], first["attributes"]["ragseal_checked"]) == ("w2", True)
    assert said["data"][0]["score"] >= said["data"][1]["score"]
    assert said["chosen"] == []
    assert len(said["iterated"]) == len(set(said["iterated"])) > 0
    assert (said["other"]["kind"], said["other"]["status"]) == ("NotFoundError", 404)
    assert "searches 'acme' alone" in said["other"]["message"]
    assert said["rewritten"]["kind"] == "BadRequestError"
    assert said["stranger"]["kind"] == "AuthenticationError"
    assert (said["spent"]["kind"], said["spent"]["type"]) == ("RateLimitError", "insufficient_quota")
    assert int(said["spent"]["retryAfter"]) >= 1


def test_a_tool_of_the_ai_sdk_searches(url: str) -> None:
    said = node("agent.mjs", url, KEY, "json")
    assert (said["steps"], said["output"]["type"]) == (2, "json")
    found = said["output"]["value"]
    assert found["answers"][0]["checked"] is True
    assert len(found["results"]) == 2
    assert all(one["seq"] == found["answers"][0]["seq"] for one in found["results"])


def test_a_tool_of_the_ai_sdk_is_told_why_not(url: str) -> None:
    said = node("agent.mjs", url, KEY[:-1], "json")
    assert said["output"] == {"type": "error-text", "value": said["output"]["value"]}
    assert "show the gateway's key" in said["output"]["value"]
