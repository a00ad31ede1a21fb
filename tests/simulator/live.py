# SPDX-License-Identifier: GPL-3.0-or-later
"""A whole provider behind gRPC in this process, with an account, for attacks on the wire."""

from __future__ import annotations

import asyncio
import json
import random
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from click.testing import CliRunner

from ragseal.backends.group import default_group
from ragseal.backends.mechanism import Engine
from ragseal.client import Client
from ragseal.client.account import KEY_FILE, AccountState
from ragseal.embedder import Embedder
from ragseal.kernel import signature
from ragseal.kernel.beacon import Seat
from ragseal.prover.__main__ import main
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.manifest import NO_CLAIMS
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.storage.state import SETTINGS
from ragseal.prover.storage.window import Window
from ragseal.prover.wire.service import Listening, Server
from ragseal.runtime.keyfile import save_key
from ragseal.verifier.audit.findings import Environment
from ragseal.verifier.audit.verification import audit
from ragseal.verifier.evidence.evidence import Auditor
from ragseal.verifier.evidence.remote import RemoteEvidence
from ragseal.verifier.outcome.outcome import Verdict
from tests.simulator import provider as scene
from tests.simulator.auditing import configured, sealed
from tests.simulator.clients import client_of


class Live:
    """A provider with a window; ``address`` is its gRPC server."""

    def __init__(
        self,
        folder: Path,
        *,
        name: str = "w1",
        coins: bool = False,
        publish: float = 0.0,
        opened: bool = True,
        tenants: Mapping[str, Sequence[str]] = scene.TENANTS,
        texts: Callable[[str], list[Document]] | None = None,
        engine: Callable[[Engine], Engine] = lambda real: real,
        embedder: Embedder = scene.TRIGRAMS,
        seats: Sequence[Seat] = (),
        kind: scene.Kind | None = None,
        claims: Mapping[str, str] = NO_CLAIMS,
        **policy: Any,
    ) -> None:
        """Bring it up, on a folder that holds a provider with its newest window.

        Args:
            coins: the window's claim is until-delivered.
            publish: seconds between two public states of the log, 0: at once.
            opened: through its beacon; else :meth:`open` is the test's.
            tenants, texts: of the state folder.
            kind: class and shards of its indices; by default of class DECOYS with coins, else of TINY.
            engine: what selects, from the real one.
            embedder: of queries.
            seats: auditors of the window; by default the scene's one.
            cls: the provider's.
            claims: of tenants that have a lower one than the policy's.
            policy: as in a policy file.
        """
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()
        kind = kind or scene.kind_of(coins)
        self.clock, self.folder, self._publish, self.kind = scene.Clock(), folder, publish, kind
        self._make = lambda state=None: scene.open_provider(
            folder / "provider", self.clock, coins=coins, estimate=True, state=state, engine=engine, embedder=embedder,
            kind=kind,
        )  # fmt: skip
        found = (folder / "provider" / SETTINGS).exists()
        new = None if found else scene.new_state(folder / "provider", tenants, texts, kind=kind)
        self.provider: Provider = self._make(new)
        if not found:
            of_kind = scene.coined_policy if coins else scene.make_policy
            self.provider.commit(of_kind(kind, **policy), name, auditors=seats, claims=claims)
        self.log = self.provider.state.log_signer.verifier
        self.log_key = self.log.vkey()
        self.start()
        newest = self.provider.journal.history.newest
        if found and newest is not None:
            self.window: Window = newest
        elif opened:
            self.open()

    def open(self) -> None:
        """Take the window through its beacon."""
        self.window = self.call(scene.open_window(self.server.serving))

    def end_window(self) -> None:
        """Close it."""
        key, digest = self.provider.state.key, self.window.digest
        self.call(self.server.serving.close_window(digest, signature.sign(key, "close", digest)))

    def auditor(self) -> Auditor:
        """The window's own, with its part in the beacon."""
        digest = self.window.digest
        return configured(
            self.log, scene.AUDITOR_KEY, cls=self.kind.cls,
            nonces={digest: b"a" * 32}, released={digest: sealed(self.window)},
        )  # fmt: skip

    def audited(self, auditor: Auditor | None = None, **options: Any) -> Verdict:
        """The verdict of an auditor, by default the window's own, over gRPC; ``options`` as of ``audit``."""
        around = Environment(default_group(), int(self.clock.now) + 60, lambda: 0.0, random.SystemRandom().randbytes)
        with RemoteEvidence(self.address) as evidence:
            return audit(evidence, auditor or self.auditor(), around, window=self.window.manifest.window, **options)

    def call(self, action: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(action, self._loop).result(120)

    def start(self) -> None:
        async def begin() -> Server:
            options = ServeOptions(False, 0.0, BeaconRules(participants=2, wait=5.0), self._publish)
            server = Server(self.provider, options, Listening("127.0.0.1:0"))
            await server.start()
            return server

        self.server: Server = self.call(begin())
        self.address = self.server.address

    def stop(self) -> None:
        self.call(self.server.stop())
        self.provider.close()

    def restart(self) -> None:
        """The same provider from what its folder holds."""
        self.stop()
        self.restart_after_stop()

    def restart_after_stop(self) -> None:
        """The second half of :meth:`restart`."""
        self.provider = self._make()
        self.start()

    def account(self, name: str = "alice") -> Path:
        """The folder of a registered account."""
        folder = self.folder / name
        if not folder.exists():
            AccountState.create(folder, name)
            (folder / KEY_FILE).unlink()
            save_key(folder / KEY_FILE, scene.account_key(name))
        return folder

    def client(self, address: str = "", name: str = "alice", **more: Any) -> Client:
        """``more`` as of :func:`client_of`."""
        own = address or self.address, self.account(name), self.log_key, scene.TrigramEmbedder()
        return client_of(*own, **{"timeout": 20.0, **more})

    def end(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@contextmanager
def live(folder: Path, **options: Any) -> Iterator[Live]:
    """A provider that ends with the block; ``options`` as for :class:`Live`."""
    made = Live(folder, **options)
    try:
        yield made
    finally:
        made.end()


def folder_of(made: Live) -> Path:
    return made.folder / "provider"


def run(made: Live, *arguments: str) -> dict[str, Any]:
    """A command on the folder of a provider that serves."""
    command, *rest = arguments
    line = [*command.split(), "--state", str(folder_of(made)), *rest, "--json"]
    done = CliRunner().invoke(main, line)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
