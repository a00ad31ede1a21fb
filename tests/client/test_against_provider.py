# SPDX-License-Identifier: GPL-3.0-or-later
"""The client against the real provider: class TINY, its compiled circuit and key, gRPC, a restart in between."""

from __future__ import annotations

import doctest
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ragseal.client import Client
from ragseal.client import client as client_module
from ragseal.client.link import Retrieved
from ragseal.kernel.attestation import COARSE_TIME
from ragseal.kernel.errors import AttestationError, TransportError
from tests.simulator import provider as scene
from tests.simulator.live import Live

ACCOUNT = "alice"


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Live]:
    """A provider whose window is not open yet."""
    made = Live(tmp_path, publish=COARSE_TIME, opened=False)
    yield made
    made.end()


@pytest.fixture
def state(running: Live) -> Path:
    """The folder of a registered account."""
    return running.account(ACCOUNT)


@pytest.mark.slow
def test_the_usage_example_runs(running: Live, state: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    running.open()
    monkeypatch.setattr(client_module, "load_embedder", lambda name: scene.TrigramEmbedder())
    names = {"PROVIDER": running.address, "STATE": state, "LOG_KEY": running.log_key}
    example = doctest.DocTestParser().get_doctest(client_module.__doc__ or "", names, "client", None, None)
    assert len(example.examples) == 7
    result = doctest.DocTestRunner().run(example, clear_globs=False)
    example.globs["client"].close()
    assert result.failed == 0


@pytest.mark.slow
def test_questions_across_a_restart_and_a_lost_answer(
    running: Live, state: Path, monkeypatch: pytest.MonkeyPatch
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

        def lost(canonical: bytes, signed: bytes, known_size: int, after: float) -> Retrieved:
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


@pytest.mark.slow
def test_an_embedding_of_another_query_is_refused_before_anything_is_signed(running: Live, state: Path) -> None:
    running.open()

    class Odd(scene.TrigramEmbedder):  # type: ignore[misc, name-defined]
        def embed(self, texts: Any, **more: Any) -> Any:
            return super().embed([t[::-1] for t in texts], **more)

    with Client(running.address, state, running.log_key, Odd()) as client:
        with pytest.raises(AttestationError, match="differs by more than 1"):
            client.ask("report about topic 3")
        assert client.state.windows()[0].pending() is None


# The example of an account: it asks, prints what came back, and keeps the receipt.


def test_an_account_asks(bench: Any, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from examples import ask as example

    def client(provider: str, folder: str, log_key: str, **more: str) -> Any:
        assert (provider, folder, log_key) == ("127.0.0.1:7800", "accounts/alice", "key")
        return bench.client()

    monkeypatch.setattr(example, "Client", client)
    example.main("accounts/alice", "127.0.0.1:7800", "key", "json")
    assert "record 0; the receipt is kept" in capsys.readouterr().out
