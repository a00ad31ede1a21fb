# SPDX-License-Identifier: GPL-3.0-or-later
"""As many rows are under way as workers gave a sign of life, on a real PostgreSQL."""

from __future__ import annotations

import time

import psycopg
import pytest

from ragseal.kernel.errors import TransportError
from ragseal.prover.attestation.backlog import Backlog
from ragseal.prover.workers import crew, postgres, rows
from ragseal.prover.workers.interface import StoppingError, UnreachedError, WorkResult
from ragseal.prover.workers.sealed_rows import RowKey
from tests.workers import postgres_scene
from tests.workers.background import InBackground, until
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


def test_many_who_put_at_once_wait_for_each_other_however_long_that_takes(
    server: str, key: RowKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A thousand assignments are gigabytes: none of them is a database that does not answer."""
    slow = postgres._PUT.replace("VALUES (%s, %s, %s, %s, %s)", "SELECT %s, %s, %s, %s, %s FROM pg_sleep(0.5)")
    assert slow != postgres._PUT
    monkeypatch.setattr(postgres, "_PUT", slow)
    monkeypatch.setattr(rows, "DEADLINE", 2.0)
    with engine(server, key) as workers, crowd(server, key, 0.0) as workers_there:
        workers_there.size = 8
        until(lambda: workers.status().workers == 8)
        proving = [InBackground(lambda: workers.prove(WORK)) for _ in range(8)]
        assert all(isinstance(one.outcome(60), WorkResult) for one in proving)


@pytest.mark.parametrize("why", ["the engine ends", "the database goes away"])
def test_who_waits_to_put_an_assignment_in_is_told(
    server: str, key: RowKey, monkeypatch: pytest.MonkeyPatch, why: str
) -> None:
    with engine(server, key) as workers:
        until(lambda: workers._clean)
        sealed = list[bytes]()
        monkeypatch.setattr(RowKey, "seal_work", lambda _, name, *__: sealed.append(name))
        with workers._putting:  # somebody else's is under way
            waiting = InBackground(lambda: workers.prove(WORK))
            until(lambda: workers._waiting)
            if why == "the engine ends":
                workers.close()
            else:
                monkeypatch.setattr(workers, "_look", lambda: _away())
                until(lambda: workers._away)
        told = waiting.outcome(5)
        assert isinstance(told, StoppingError if why == "the engine ends" else UnreachedError)
        assert sealed == [], "so nothing of it is in memory twice"


def _away() -> None:
    raise TransportError("it went away")


def test_assignments_are_in_no_log_of_the_database_and_are_not_compressed(server: str, key: RowKey) -> None:
    with engine(server, key) as workers:
        until(lambda: workers._clean)
        with psycopg.connect(server) as db:
            kept = "SELECT relpersistence FROM pg_class WHERE relname = %s"
            found = [db.execute(kept, (f"ragseal_{name}",)).fetchone() for name in ("assignments", "workers")]
            stored = "SELECT attstorage FROM pg_attribute WHERE attrelid = %s::regclass AND attname = 'body'"
            body = db.execute(stored, ("ragseal_assignments",)).fetchone()
    assert found == [("u",), ("p",)], "who was dropped is not forgotten"
    assert body == ("e",)
