# SPDX-License-Identifier: GPL-3.0-or-later
"""The small provider with an account and its client, for the tests of this folder and others that need no circuit."""

from __future__ import annotations

import random
import secrets
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client.account import KEY_FILE, AccountKey, AccountState
from ragseal.client.client import Client
from ragseal.kernel import signature
from ragseal.kernel.errors import TransportError
from ragseal.ledger.merkle import MerkleTree
from ragseal.runtime.keyfile import save_key
from tests.client import small_provider
from tests.client.small_provider import CLASS, DIMENSION, NOW, OTHERS, LetterEmbedder, Person, Provider, key_of
from tests.simulator.clients import client_of


class Bench:
    """A provider, an account's folder, and clients made from them."""

    def __init__(self, folder: Path) -> None:
        self.state = folder / "alice"
        AccountState.create(self.state, "alice")
        (self.state / KEY_FILE).unlink()
        save_key(self.state / KEY_FILE, Ed25519PrivateKey.from_private_bytes(b"a" * 32))  # one noise, hence one T
        self.key = AccountKey.load(self.state / KEY_FILE)
        others = [Person(name, tenant, signature.public_bytes(key_of(name))) for name, tenant in OTHERS.items()]
        self.provider = Provider(folder / "ledger", [Person("alice", "acme", self.key.public), *others])
        self.embedder = LetterEmbedder()
        self.provider_class = CLASS
        self.now = float(NOW)
        self._clients: list[Client] = []
        self._randomness = random.Random(1)

    def client(self, **changes: Any) -> Client:
        """A client as in a fresh process; the one before is closed."""
        self.close()
        values: dict[str, Any] = {
            "log_key": self.provider.log_signer.verifier.vkey(), "embedder": self.embedder, "ledger": self.provider,
            "class_of": lambda _: CLASS, "clock": lambda: self.now, "entropy": self._randomness.randbytes,
        }  # fmt: skip
        made = client_of(**({"provider": self.provider, "account": self.state} | values | changes))
        self._clients.append(made)
        return made

    @property
    def pseudonym(self) -> str:
        """How the newest window calls alice."""
        return next(a.pseudonym for a in self.provider.accounts if a.name == "alice")

    def evidence(self) -> list[Path]:
        folder = self.state / "evidence"
        return sorted(folder.iterdir()) if folder.exists() else []

    def snapshot(self) -> dict[str, bytes]:
        """Every file of the account's memory but the evidence."""
        files = (p for p in self.state.rglob("*") if p.is_file() and "evidence" not in p.parts and p.name != "lock")
        return {str(p.relative_to(self.state)): p.read_bytes() for p in files}

    def close(self) -> None:
        while self._clients:
            self._clients.pop().close()


@pytest.fixture
def bench(tmp_path: Path) -> Iterator[Bench]:
    made = Bench(tmp_path)
    yield made
    made.close()
    made.provider.log.close()


@pytest.fixture
def empty(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The scene with a window over an index without documents, as an answer of noise alone looks."""
    monkeypatch.setattr(small_provider, "TEXTS", [])
    bench.provider.rows = [[0] * DIMENSION] * CLASS.N
    bench.provider.tree = MerkleTree(bench.provider.leaves())
    bench.provider.open("empty")
    return bench


@pytest.fixture
def outage() -> Callable[[str], Callable[[str], None]]:
    """Makes a hook under which one kind of call finds nobody."""

    def of(name: str) -> Callable[[str], None]:
        def hook(call: str) -> None:
            if call == name:
                raise TransportError(f"nobody answers ({secrets.token_hex(2)})")

        return hook

    return of
