# SPDX-License-Identifier: GPL-3.0-or-later
"""A client whose trust, calls and environment are given by their members' names."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from ragseal.client.client import Client
from ragseal.client.settings import Calls, Environment, Trust


def client_of(provider: Any, account: Any, log_key: Any = None, embedder: Any = None, **members: Any) -> Client:
    """``members`` of any of the three records, and ``ledger``."""
    records = {}
    for name, kind in (("trust", Trust), ("calls", Calls), ("environment", Environment)):
        records[name] = kind(**{one.name: members.pop(one.name) for one in fields(kind) if one.name in members})
    return Client(provider, account, log_key, embedder, **records, **members)
