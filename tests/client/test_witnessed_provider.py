# SPDX-License-Identifier: GPL-3.0-or-later
"""Everything real under one policy: a provider, its witness over HTTP, an account, an observer, an auditor's link."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from ragseal.client import Client
from ragseal.kernel.errors import AuditError, TransportError
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.observer import Observer
from ragseal.ledger.policy import Policy
from ragseal.ledger.remote import RemoteLedger
from ragseal.ledger.witness import UnprovenError, Witness
from ragseal.ledger.witness_http import WITNESS_LIMITS, WitnessSite
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.wire.service import Listening, Server
from ragseal.runtime.http_server import HttpServer
from ragseal.runtime.rpc import open_channel
from ragseal.verifier.evidence.remote import RemoteEvidence
from tests.simulator import provider as scene
from tests.simulator.clients import client_of
from tests.simulator.live import Live

pytestmark = pytest.mark.slow

KEY = NoteSigner("w.example", Ed25519PrivateKey.from_private_bytes(b"w" * 32), COSIGNATURE)
QUESTION = "report about topic 3"


class Witnessed(Live):
    """A provider that submits to one witness, which listens once :meth:`appear` was called."""

    def __init__(self, folder: Path) -> None:
        self.loop = asyncio.new_event_loop()
        threading.Thread(target=self.loop.run_forever, daemon=True).start()
        self.cosigner: HttpServer | None = None
        self.state = folder / "w"
        super().__init__(folder)

    def begin(self, address: str) -> None:
        """The provider's server with a policy, in the place of the one without."""
        self.url = f"http://{address}"
        self.policy = Policy.parse(f"witness w {KEY.verifier.vkey()} {self.url}\nquorum w\n".encode())
        self.call(self.server.stop())

        async def again() -> Server:
            options = ServeOptions(False, 0.0, publish=0, witness_policy=self.policy, witness_every=0.1)
            server = Server(self.provider, options, Listening("127.0.0.1:0"))
            await server.start()
            return server

        self.server = self.call(again())
        self.address = self.server.address

    def appear(self) -> None:
        site = WitnessSite(Witness(self.state, KEY), self.state, [self.log], time.time)
        self.cosigner = HttpServer(site.handle, WITNESS_LIMITS)
        start = self.cosigner.start(self.url.removeprefix("http://"))
        asyncio.run_coroutine_threadsafe(start, self.loop).result(10)

    def asking(self) -> Client:
        return client_of(
            self.address,
            self.account(),
            self.log_key,
            scene.TrigramEmbedder(),
            timeout=20.0,
            witness_policy=self.policy,
        )


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Witnessed]:
    made = Witnessed(tmp_path)

    async def free() -> str:
        server = HttpServer(lambda request: None)  # type: ignore[arg-type, return-value]
        address = await server.start("127.0.0.1:0")
        await server.stop()
        return address

    made.begin(asyncio.run_coroutine_threadsafe(free(), made.loop).result(10))
    yield made
    made.end()
    if made.cosigner is not None:
        asyncio.run_coroutine_threadsafe(made.cosigner.stop(), made.loop).result(10)
    made.loop.call_soon_threadsafe(made.loop.stop)


def test_an_account_waits_for_the_witness_and_then_asks(running: Witnessed, tmp_path: Path) -> None:
    with running.asking() as client, pytest.raises(TransportError, match="no witness has cosigned this log yet"):
        client.ask(QUESTION)
    with running.client() as client:  # who asks for nobody is answered while the witness is away
        assert client.ask(QUESTION).checked

    async def followed(observer_of: Path) -> int:
        async with open_channel(running.address) as channel:
            witness = Witness(observer_of, NoteSigner("o.example", scene.account_key("o"), COSIGNATURE))
            observer = Observer(RemoteLedger(channel), running.log, observer_of, witness, time.time, running.policy)
            try:
                return (await observer.step()).size
            finally:
                witness.close()

    with pytest.raises(UnprovenError, match="no witness has cosigned"):
        asyncio.run(followed(tmp_path / "o"))

    running.appear()
    end = time.monotonic() + 30
    with running.asking() as client:
        while True:
            try:
                assert client.ask(QUESTION).checked
                break
            except AuditError:
                assert time.monotonic() < end
                time.sleep(0.2)
    with RemoteEvidence(running.address) as evidence:
        note = evidence.cosigned()
    assert note is not None
    assert running.policy.open(note, running.log).checkpoint.size > 1
    assert asyncio.run(followed(tmp_path / "o")) > 1
