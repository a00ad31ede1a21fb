# SPDX-License-Identifier: GPL-3.0-or-later
"""As many rows are under way as workers gave a sign of life, on a real PostgreSQL."""

from __future__ import annotations

import time

import psycopg
import pytest

from ragseal.prover.attestation.backlog import Backlog
from ragseal.prover.workers import crew
from ragseal.prover.workers.sealed_rows import RowKey
from tests.workers import postgres_scene
from tests.workers.background import until
from tests.workers.crowd import crowd
from tests.workers.many_nodes import WORK
from tests.workers.postgres_scene import engine

key, server = postgres_scene.key, postgres_scene.server

pytestmark = pytest.mark.slow


def test_two_hundred_workers_prove_at_once_and_rows_follow_them(
    server: str, key: RowKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "LOOK", 0.1)
    with engine(server, key) as workers, crowd(server, key, 2.0) as workers_there:
        done = list[int]()

        def prove(_: bytes, seq: int) -> None:
            workers.prove(WORK)
            done.append(seq)

        backlog = Backlog(prove, workers, lambda: workers.places)
        backlog.start((b"m", seq) for seq in range(700))
        until(lambda: len(workers._waiting) == 16)
        time.sleep(0.3)
        assert len(workers._waiting) == workers.places == 16, "nobody is there yet"
        workers_there.size = 200
        until(lambda: workers_there.most == 200)
        assert workers.places == 250
        until(lambda: len(workers._waiting) == 250)
        workers_there.size = 5
        until(lambda: workers.status().workers == 5 and len(backlog._crew._threads) <= 16)
        assert len(workers._waiting) <= 16
        workers_there.size = 300
        until(lambda: backlog.status(0.0)["left"] == 0)
        assert sorted(done) == list(range(700))
        backlog.stop()


def test_who_makes_up_workers_gets_no_more_than_the_most_places(server: str, key: RowKey) -> None:
    """Whoever reaches the database names as many as it likes."""
    with engine(server, key) as workers:
        with psycopg.connect(server, autocommit=True) as db:
            db.execute(
                "INSERT INTO ragseal_workers SELECT %s, 'w' || n, now(), NULL FROM generate_series(1, 100000) n",
                (key.queue,),
            )
        until(lambda: workers.status().workers == 100_000)
        assert workers.places == 1024
