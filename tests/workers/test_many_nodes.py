# SPDX-License-Identifier: GPL-3.0-or-later
"""As many assignments are under way as there are nodes, and they follow when nodes come and go."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import psycopg
import pytest

from ragseal.kernel.errors import TransportError
from ragseal.prover.attestation.backlog import Backlog
from ragseal.prover.workers import crew, postgres, rows
from ragseal.prover.workers.interface import StoppingError, UnreachedError, WorkResult
from ragseal.prover.workers.ray_engine import BAD, RayWorkers
from ragseal.prover.workers.sealed_rows import RowKey
from tests.workers import postgres_scene
from tests.workers.background import InBackground, until
from tests.workers.crowd import crowd
from tests.workers.many_nodes import KEY, WORK, many_nodes
from tests.workers.postgres_scene import engine

pytestmark = pytest.mark.slow


def test_two_hundred_nodes_prove_at_once_and_places_follow_them(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(crew, "LOOK", 0.1)
    with many_nodes(tmp_path, 200, 1.0) as cluster:
        workers, done = cluster.workers, list[int]()

        def prove(_: bytes, seq: int) -> None:
            workers.prove(WORK)
            done.append(seq)

        backlog = Backlog(prove, workers, lambda: workers.places)
        backlog.start((b"m", seq) for seq in range(1000))
        until(lambda: cluster.told.most == 200)
        assert workers.places == 250
        cluster.grow_to(300)
        until(lambda: cluster.told.most == 300)
        assert workers.places == 375
        cluster.grow_to(10)
        until(lambda: workers.status().workers == 10)
        assert workers.places == 16
        until(lambda: len(backlog._crew._threads) <= 16)
        cluster.grow_to(250)  # nodes of other names came in their places
        until(lambda: backlog.status(0.0)["left"] == 0)
        assert sorted(done) == list(range(1000))
        assert cluster.told.waits == 1, "one call of Ray's waits for all of them"
        began = time.monotonic()
        backlog.stop()
        workers.close()
        assert time.monotonic() - began < 10


def test_nodes_that_have_nothing_to_prove_are_missed_as_well(tmp_path: Path) -> None:
    with many_nodes(tmp_path, 30, 0.1) as cluster:
        until(lambda: cluster.workers.status().workers == 30)
        cluster.grow_to(2)
        until(lambda: cluster.workers.status().workers == 2, 10)
        assert cluster.workers.prove(WORK).proof


def test_who_waits_in_line_costs_nothing_and_is_told_at_once(tmp_path: Path) -> None:
    with many_nodes(tmp_path, 1, 3.0) as cluster:
        workers = cluster.workers
        until(lambda: workers.status().workers == 1)
        waiting = [InBackground(lambda: workers.prove(WORK)) for _ in range(300)]
        until(lambda: sum(map(len, workers._matching.lines.values())) == 299)
        began = time.process_time()
        time.sleep(1.0)
        assert time.process_time() - began < 0.2, "299 threads look whether they must wait on"
        cluster.grow_to(0)
        until(lambda: workers.status().workers == 0)
        workers._patience = 0.0
        told = [one.outcome(20) for one in waiting]
        assert all(isinstance(one, UnreachedError) for one in told)
        assert any("no node of the cluster has a worker" in str(one) for one in told)


def test_whoever_waits_when_the_engine_ends_is_told(tmp_path: Path) -> None:
    with many_nodes(tmp_path, 0, 3.0) as cluster:
        waiting = [InBackground(lambda: cluster.workers.prove(WORK)) for _ in range(50)]
        until(lambda: sum(map(len, cluster.workers._matching.lines.values())) == 50)
        cluster.workers.close()
        assert all(isinstance(one.outcome(10), StoppingError) for one in waiting)
        with pytest.raises(StoppingError):
            cluster.workers.prove(WORK)


def test_nobody_is_given_what_waits_while_workers_rest(tmp_path: Path) -> None:
    """Liars in a row: those in line are told, and no worker that comes has their assignments."""
    workers = RayWorkers("ray://127.0.0.1:1", KEY, program=("/bin/false",))
    workers._keeper = threading.current_thread()  # nothing speaks with a cluster
    waiting = InBackground(lambda: workers.prove(WORK))
    until(lambda: workers._matching.lines)
    for number in range(BAD):
        workers.drop(f"liar-{number}", "it lied")
    error = waiting.outcome(5)
    assert isinstance(error, UnreachedError)
    assert "5 workers in a row were dropped" in str(error)
    with pytest.raises(UnreachedError, match="were dropped"):
        workers.prove(WORK)


def test_liars_among_many_that_are_honest_are_not_in_a_row(tmp_path: Path) -> None:
    """As many results as places may be under way between two of them."""
    workers = RayWorkers("ray://127.0.0.1:1", KEY)
    for number in range(200):
        workers._matching.has(f"w{number}", f"n{number}", frozenset())
    for number in range(BAD):
        workers._since_drop = workers.places + 1
        workers.drop(f"liar-{number}", "it lied")
    assert not workers._rest
    for number in range(BAD):
        workers._since_drop = workers.places
        workers.drop(f"other-{number}", "it lied")
    assert workers._rest


# As many rows are under way as workers gave a sign of life, on a real PostgreSQL.


key, server = postgres_scene.key, postgres_scene.server


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
