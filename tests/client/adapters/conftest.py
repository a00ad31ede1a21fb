# SPDX-License-Identifier: GPL-3.0-or-later
"""One live provider for the tests of all frameworks: gRPC, class TINY, accounts by their settings."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from ragseal.client import client as client_module
from ragseal.client.adapters import Account
from ragseal.client.adapters import account as accounts
from ragseal.prover.commitment.corpora import Document
from tests.simulator import provider as scene
from tests.simulator.live import Live, live

os.environ["HAYSTACK_TELEMETRY_ENABLED"] = "False"  # before Haystack is imported: it would report its components
NAMES = [f"account-{i}" for i in range(32)]


@pytest.fixture(scope="session")
def provider(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Live]:
    """With one window, and an account for each test.

    Every slot has a document and every score the flag, so that an answer has K texts whatever the noise is.
    """

    def full(tenant: str) -> list[Document]:
        return scene.documents(tenant, scene.TINY.N)

    with live(tmp_path_factory.mktemp("live"), tenants={"acme": NAMES}, texts=full, n_max=20, lo=0.0) as made:
        yield made


@pytest.fixture(scope="session")
def unused() -> list[str]:
    """Accounts that no test has yet."""
    return list(NAMES)


@pytest.fixture
def account(provider: Live, unused: list[str], monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Account]]:
    """Makes the settings of an account that no other test has; closed at the end."""
    monkeypatch.setattr(client_module, "load_embedder", lambda name: scene.TrigramEmbedder())
    made: list[Account] = []

    def make(**more: Any) -> Account:
        folder = provider.account(unused.pop())
        made.append(Account(str(folder), provider.address, provider.log_key, **{"embedder": "trigrams", **more}))
        return made[-1]

    yield make
    for one in made:
        accounts.close(one)
