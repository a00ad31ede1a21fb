# SPDX-License-Identifier: GPL-3.0-or-later
"""The examples of an account: they ask, print what came back, and keep the receipt."""

from __future__ import annotations

import importlib
from typing import Any

import pytest


@pytest.mark.parametrize("name", ["ask", "langchain"])
def test_an_account_asks(
    name: str, bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    if name == "langchain":
        pytest.importorskip("langchain_core")
    example = importlib.import_module(f"examples.{name}")

    def client(provider: str, folder: str, log_key: str, **more: str) -> Any:
        assert (provider, folder, log_key) == ("127.0.0.1:7800", "accounts/alice", "key")
        return bench.client()

    monkeypatch.setattr(example, "Client", client)
    example.main("accounts/alice", "127.0.0.1:7800", "key", "json")
    shown = capsys.readouterr().out
    assert ("record 0; the receipt is kept" if name == "ask" else "entry ") in shown
