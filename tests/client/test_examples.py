# SPDX-License-Identifier: GPL-3.0-or-later
"""The example of an account: it asks, prints what came back, and keeps the receipt."""

from __future__ import annotations

from typing import Any

import pytest


def test_an_account_asks(bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from examples import ask as example

    def client(provider: str, folder: str, log_key: str, **more: str) -> Any:
        assert (provider, folder, log_key) == ("127.0.0.1:7800", "accounts/alice", "key")
        return bench.client()

    monkeypatch.setattr(example, "Client", client)
    example.main("accounts/alice", "127.0.0.1:7800", "key", "json")
    assert "record 0; the receipt is kept" in capsys.readouterr().out
