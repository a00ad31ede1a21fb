# SPDX-License-Identifier: GPL-3.0-or-later
"""The client against the real provider: class tiny, its compiled circuit and key, gRPC, a restart in between."""

from __future__ import annotations

import asyncio
import doctest
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragseal.circuits.build import DEFAULT_CACHE, build
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.client import Client
from ragseal.client import client as client_module
from ragseal.client.account import KEY_FILE, AccountState
from ragseal.client.link import Retrieved
from ragseal.groth16.keys import KeyPaths, make_keys
from ragseal.kernel.errors import AttestationError, TransportError
from ragseal.kernel.params import CircuitClass
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.provider import ServeOptions
from ragseal.prover.service import Listening, Server
from ragseal.runtime.keyfile import save_key
from tests.prover import provider_scene as scene

ACCOUNT = "alice"


class Running:
    """A provider in an event loop of its own, stopped and started again on the same state folder."""

    def __init__(self, folder: Path, tiny: CircuitClass, keys: KeyPaths) -> None:
        self._make = lambda: scene.open_provider(folder, tiny, keys, scene.Clock())
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever)
        self._thread.start()
        self.provider = self._make()
        self.provider.commit(scene.make_policy(tiny), "w1")
        self.log_key = self.provider.state.log_signer.verifier.vkey()
        self.address = self.start()

    def call(self, action: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(action, self._loop).result(120)

    def start(self) -> str:
        async def begin() -> Server:
            serve_options = ServeOptions(False, 0.0, BeaconRules(participants=2, wait=5.0))
            server = Server(self.provider, serve_options, Listening("127.0.0.1:0"))
            await server.start()
            return server

        self.server = self.call(begin())
        address: str = self.server.address
        return address

    def open(self) -> None:
        self.call(scene.open_window(self.server.serving))

    def stop(self) -> None:
        self.call(self.server.stop())
        self.provider.close()

    def restart(self) -> None:
        self.stop()
        self.provider = self._make()
        self.address = self.start()

    def end(self) -> None:
        self.stop()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Running]:
    tiny = load_classes()["tiny"]
    keys = make_keys(build(tiny, DEFAULT_CACHE).r1cs, tiny, class_digest(tiny), scene.KEYS_CACHE)
    made = Running(tmp_path / "provider", tiny, keys)
    yield made
    made.end()


@pytest.fixture
def state(tmp_path: Path) -> Path:
    """The folder of an account that the provider's scene has registered."""
    folder = tmp_path / ACCOUNT
    AccountState.create(folder, ACCOUNT)
    (folder / KEY_FILE).unlink()
    save_key(folder / KEY_FILE, scene.account_key(ACCOUNT))
    return folder


def test_the_usage_example_runs(running: Running, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running.open()
    monkeypatch.setattr(client_module, "load_embedder", lambda name: scene.TrigramEmbedder())
    names = {"PROVIDER": running.address, "STATE": state, "LOG_KEY": running.log_key}
    example = doctest.DocTestParser().get_doctest(client_module.__doc__ or "", names, "client", None, None)
    assert len(example.examples) == 7
    result = doctest.DocTestRunner().run(example, clear_globs=False)
    example.globs["client"].close()
    assert result.failed == 0


def test_questions_across_a_restart_and_a_lost_answer(
    running: Running, state: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def client() -> Client:
        return Client(running.address, state, running.log_key, scene.TrigramEmbedder())

    with client() as early, pytest.raises(TransportError, match="not open yet"):
        early.ask("topic 3")
    running.open()
    with client() as first:
        one = first.ask("report about topic 3")
        assert one.checked
        assert one.ranked is not None
        assert one.record.signed.request.ctr == 1
        sent: list[bytes] = []

        def lost(canonical: bytes, signed: bytes, known_size: int) -> Retrieved:
            sent.append(canonical)
            raise TransportError("lost")

        monkeypatch.setattr(first._provider, "retrieve", lost)
        with pytest.raises(TransportError):
            first.ask("report about topic 5")  # prepared and signed, never received
    running.restart()  # the provider's memory of the Prepare is gone
    with client() as second:
        two = second.ask("report about topic 5")
        assert [two.record.signed.encode()] == sent
        assert two.record.signed.request.last_receipt == one.receipt.digest()
        monkeypatch.setattr(second._provider, "retrieve", received_but_lost(second._provider.retrieve))
        with pytest.raises(TransportError):
            second.ask("report about topic 7")  # recorded, the answer lost on the way
    running.restart()
    with client() as third:
        assert third.ask("report about topic 7").record.seq == 2
        assert third.ask("report about topic 9").record.seq == 3
    assert not (state / "evidence").exists()


def received_but_lost(retrieve: Callable[..., Retrieved]) -> Callable[..., Retrieved]:
    def lost(*sent: Any) -> Retrieved:
        retrieve(*sent)
        raise TransportError("lost")

    return lost


def test_an_embedding_of_another_query_is_refused_before_anything_is_signed(running: Running, state: Path) -> None:
    running.open()

    class Odd(scene.TrigramEmbedder):  # type: ignore[misc, name-defined]
        def embed(self, texts: Any, **more: Any) -> Any:
            return super().embed([t[::-1] for t in texts], **more)

    with Client(running.address, state, running.log_key, Odd()) as client:
        with pytest.raises(AttestationError, match="differs by more than 1"):
            client.ask("report about topic 3")
        assert client.state.windows()[0].pending() is None
