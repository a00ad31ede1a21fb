# SPDX-License-Identifier: GPL-3.0-or-later
"""The adapters of docs/how-to/apps.md, run as they stand there, on a live provider."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest

from ragseal.client.adapters import Account
from ragseal.client.adapters import account as accounts

pytestmark = pytest.mark.slow

PAGE = Path(__file__).resolve().parents[3] / "docs" / "how-to" / "apps.md"
MODULES = {"langchain": "langchain_core", "llama_index": "llama_index.core", "haystack": "haystack"}


def shown(name: str) -> str:
    """The page's block about an adapter."""
    blocks = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    (found,) = (block for block in blocks if f"ragseal.client.adapters.{name} " in block)
    return found


@pytest.mark.parametrize("name", MODULES)
def test_ten_lines_ask(
    name: str,
    account: Callable[..., Account],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    pytest.importorskip(MODULES[name])
    text = shown(name)
    assert len(text.strip().splitlines()) <= 10
    one = account()
    accounts.opened(one)  # pins the log's key, as the first question of `ragseal-client ask --log-key` did
    accounts.close(one)
    (tmp_path / "account").symlink_to(one.folder)
    monkeypatch.chdir(tmp_path)
    try:
        there = text.replace("localhost:7800", one.provider).replace("How do I parse JSON?", "acme report number 7")
        exec(compile(there, str(PAGE), "exec"), {})
    finally:
        accounts.close(Account("account", one.provider))
    said = capsys.readouterr().out
    assert {"langchain": "[acme-", "llama_index": " acme-", "haystack": "['acme-"}[name] in said
