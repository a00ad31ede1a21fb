# SPDX-License-Identifier: GPL-3.0-or-later
"""What an account runs: signs requests, checks answers, keeps receipts.

    from ragseal.client import Client
    with Client("localhost:7800", "account", log_key="example.org/rag+...", embedder="minilm") as client:
        print(client.ask("How do I parse JSON?").best)

See :mod:`ragseal.client.client`.  Names are loaded at first use: listing receipts needs neither numpy nor gRPC.
"""

from __future__ import annotations

if __name__ != "ragseal.client":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.client, not client")

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ragseal.client.account import AccountKey as AccountKey
    from ragseal.client.account import AccountState as AccountState
    from ragseal.client.asynchronous import AsyncClient as AsyncClient
    from ragseal.client.asynchronous import Pool as Pool
    from ragseal.client.client import Client as Client
    from ragseal.client.result import Owed as Owed
    from ragseal.client.result import Ranked as Ranked
    from ragseal.client.result import Result as Result
    from ragseal.client.result import Resumed as Resumed
    from ragseal.client.retries import Retries as Retries
    from ragseal.client.settings import Calls as Calls
    from ragseal.client.settings import Trust as Trust

_HOME = {
    "AccountKey": "account", "AccountState": "account", "AsyncClient": "asynchronous", "Calls": "settings",
    "Client": "client",
    "Owed": "result", "Pool": "asynchronous", "Ranked": "result", "Result": "result", "Resumed": "result",
    "Retries": "retries", "Trust": "settings",
}  # fmt: skip

__all__ = [
    "AccountKey", "AccountState", "AsyncClient", "Calls", "Client", "Owed", "Pool", "Ranked", "Result", "Resumed",
    "Retries", "Trust",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
