# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole provider behind gRPC in this process, with an account, for attacks on the wire."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import Any

from ragseal.circuits.build import build
from ragseal.circuits.circuit import class_digest
from ragseal.client import Client
from ragseal.client.account import KEY_FILE, AccountState
from ragseal.groth16.keys import KeyPaths, make_keys
from ragseal.kernel.certificate import CLASSES
from ragseal.kernel.policy import UNTIL_DELIVERED
from ragseal.prover import assembly
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.provider import ServeOptions
from ragseal.prover.service import Listening, Server
from ragseal.runtime.keyfile import save_key
from tests.attacks.world import machine
from tests.prover import provider_scene as scene

SIZE = CLASSES["estimate-6"]


@cache
def estimate_key() -> KeyPaths:
    """A key of the coalition estimate's small circuit, kept under var/."""
    return make_keys(build(SIZE).r1cs, SIZE, class_digest(SIZE), scene.KEYS_CACHE)


class Live:
    """A provider with an open window; ``address`` is its gRPC server."""

    def __init__(self, folder: Path, publish: float = 0.0, coins: bool = False, **policy: Any) -> None:
        """``coins``: the window's claim is until-delivered."""
        tools = machine()
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        self.clock = scene.Clock()
        self.provider = scene.open_provider(folder / "provider", tools.cls, tools.paths, self.clock, coins)
        self.estimate = estimate_key()
        rings = assembly.open_estimate_keys(self.provider.state, lambda _: None)
        ring = next(ring for ring in rings if ring.cls == SIZE)
        ring.folder(self.estimate.digest).symlink_to(self.estimate.directory.resolve())
        self.provider.backends = replace(self.provider.backends, estimate_keys=rings)
        stated = scene.make_policy(tools.cls, **policy)
        if coins:
            stated = replace(stated, claim=UNTIL_DELIVERED, hidden=60, epsilon_account="60")
        self.provider.commit(stated, "w1")
        self.log_key = self.provider.state.log_signer.verifier.vkey()
        self.log = self.provider.state.log_signer.verifier
        self.folder = folder
        self.server: Server = self.call(self._begin(publish))
        self.address = self.server.address
        self.auditor = b""  #: public key of the beacon's auditor
        self.window = self.call(self._opened())

    def call(self, action: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(action, self._loop).result(120)

    async def _begin(self, publish: float) -> Server:
        server = Server(
            self.provider,
            ServeOptions(False, 0.0, BeaconRules(participants=2, wait=5.0), publish),
            Listening("127.0.0.1:0"),
        )
        await server.start()
        return server

    async def _opened(self) -> Any:
        window = await scene.open_window(self.server.serving)
        self.auditor = window.commits["auditor"].public_key
        return window

    def account(self, name: str = "alice") -> Path:
        """The folder of a registered account."""
        folder = self.folder / name
        if not folder.exists():
            AccountState.create(folder, name)
            (folder / KEY_FILE).unlink()
            save_key(folder / KEY_FILE, scene.account_key(name))
        return folder

    def client(self, address: str = "", name: str = "alice") -> Client:
        return Client(address or self.address, self.account(name), self.log_key, scene.TrigramEmbedder(), timeout=20.0)

    def end(self) -> None:
        self.call(self.server.stop())
        self.provider.close()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def live(folder: Path, **policy: Any) -> Iterator[Live]:
    made = Live(folder, **policy)
    try:
        yield made
    finally:
        made.end()
