# SPDX-License-Identifier: GPL-3.0-or-later
"""As many assignments are under way as there are nodes, and they follow when nodes come and go."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import pytest

from ragseal.prover.attestation.backlog import Backlog
from ragseal.prover.workers import crew
from ragseal.prover.workers.interface import StoppingError, UnreachedError
from ragseal.prover.workers.ray_engine import BAD, RayWorkers
from tests.workers.background import InBackground, until
from tests.workers.many_nodes import KEY, WORK, many_nodes

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
