# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider whose embedder runs on somebody else's machine: real provider, real client, real HTTP.  SPEC A.2, B.1."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ragseal.client import Client
from ragseal.embedder.declared import declared
from ragseal.kernel.attestation import Prepare
from ragseal.kernel.errors import CommitmentError, TransportError
from ragseal.prover.attestation.kept_embeddings import KeptEmbeddings
from ragseal.prover.attestation.prepared_embedding import EmbeddingCommitter, PrepareJob
from ragseal.prover.storage.state import State
from tests.embedder.embedding_server import EmbeddingServer, serving
from tests.prover.test_hashed import offer
from tests.simulator import GROUP
from tests.simulator import provider as scene
from tests.simulator.live import Live

NAME = f"acme/trigrams@{scene.DIMENSION}"


@pytest.fixture
def server() -> Iterator[EmbeddingServer]:
    with serving(lambda texts: scene.TRIGRAMS.embed(texts).tolist()) as made:
        yield made


@pytest.fixture
def running(tmp_path: Path, server: EmbeddingServer) -> Iterator[Live]:
    made = Live(tmp_path, embedder=server.model(NAME))
    yield made
    made.end()


def client(running: Live, embedder: Any = None, name: str = "alice") -> Client:
    return Client(running.address, running.account(name), running.log_key, embedder)


@pytest.mark.slow
def test_the_manifest_commits_to_what_is_declared_and_records_say_unchecked(running: Live) -> None:
    assert running.window.manifest.embedder == declared(NAME).digest()
    with client(running) as asking:
        result = asking.ask("report about topic 3")
    assert not result.checked
    assert not result.record.signed.request.checked
    assert result.ranked is None


@pytest.mark.slow
def test_an_account_with_a_key_of_its_own_checks(running: Live, server: EmbeddingServer) -> None:
    with client(running, server.model(NAME)) as asking:
        result = asking.ask("report about topic 3")
    assert result.checked
    assert result.ranked is not None
    with (
        client(running, server.model(f"other/trigrams@{scene.DIMENSION}"), "bob") as other,
        pytest.raises(CommitmentError, match="a different embedder"),
    ):
        other.ask("report about topic 3")


@pytest.mark.slow
def test_a_request_is_answered_after_a_restart_though_the_server_says_something_else(
    running: Live, server: EmbeddingServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What the provider told is kept: another C_e for the same Prepare would leave a signed request without answer."""
    honest, calls = server.vectors, 0

    def never_the_same(texts: list[str]) -> Any:
        nonlocal calls
        calls += 1
        return [[row[0] + 0.05 * calls, *row[1:]] for row in honest(texts)]

    server.vectors = never_the_same
    sent: list[bytes] = []

    def lost(canonical: bytes, *_: Any) -> Any:
        sent.append(canonical)
        raise TransportError("lost")

    with client(running) as first:
        monkeypatch.setattr(first._provider, "retrieve", lost)
        with pytest.raises(TransportError):
            first.ask("report about topic 5")
    running.restart()
    with client(running) as second:
        result = second.ask("report about topic 5")
    assert [result.record.signed.encode()] == sent
    assert calls == 1


@pytest.mark.slow
def test_embeddings_of_older_windows_are_not_kept(running: Live) -> None:
    state: State = running.provider.state
    with client(running) as asking:
        asking.ask("report about topic 5")
    assert len(state.rows("SELECT * FROM prepared")) == 1
    fixer = EmbeddingCommitter(GROUP, running.provider.backends.embedder, KeptEmbeddings(state))
    message = Prepare(b"m" * 32, "alice", bytes(16), bytes(32), "report", b"")
    later = PrepareJob(message, message.encode(), b"b" * 32, scene.DIMENSION)
    embedding = fixer.alone(later)[0]
    assert state.rows("SELECT manifest, embedding FROM prepared") == [(b"m" * 32, embedding)]


@pytest.mark.slow
def test_where_the_server_is_away_the_account_asks_again_later(running: Live, server: EmbeddingServer) -> None:
    server.away = True
    with client(running) as asking:
        with pytest.raises(TransportError, match="ask again later") as error:
            asking.ask("secret topic 3")
        assert "secret" not in str(error.value)
        server.away = False
        result = asking.ask("secret topic 3")
    assert result.record.signed.request.ctr == 1
    assert len(running.window.records) == 1


@pytest.mark.slow
def test_an_answer_is_given_though_nothing_can_rank_it(running: Live, server: EmbeddingServer) -> None:
    model = server.model(NAME)
    real = model.embed

    def only_queries(texts: Any, *, role: Any = "document", **more: Any) -> Any:
        server.away = role == "document"
        try:
            return real(texts, role=role, **more)
        finally:
            server.away = False

    model.embed = only_queries  # type: ignore[method-assign]
    with client(running, model) as asking:
        # The noise may choose empty places alone, about one time in five: then nothing had to be ranked.
        results = [asking.ask(f"acme report number 3 about topic {topic}") for topic in range(6)]
    ranked_by = [result.ranked for result in results if result.opened]
    assert ranked_by
    assert set(ranked_by) == {None}


def test_a_server_that_is_away_is_not_asked_once_for_each_query(server: EmbeddingServer) -> None:
    """Sixteen accounts that wait for one answer do not wait sixteen times as long."""
    server.away = True
    fixer = EmbeddingCommitter(GROUP, server.model(NAME))
    found = fixer.together([offer()] * 16)
    assert all(isinstance(one, TransportError) for one in found)
    assert len(server.asked) == 2  # the attempts at one call
