# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers behind a real PostgreSQL: honest, dead, slow and lying ones."""

from __future__ import annotations

import os
import secrets
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import psycopg
import pytest
from click.testing import CliRunner

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.__main__ import main
from ragseal.prover.workers import postgres
from ragseal.prover.workers.interface import StoppingError, UnreachedError, Work, WorkResult
from ragseal.prover.workers.making import NICEST, ProvingKeys
from ragseal.prover.workers.postgres_worker import PostgresWorker
from ragseal.prover.workers.sealed_rows import RowKey
from ragseal.runtime.keyfile import load_shared
from tests.workers import postgres_scene
from tests.workers.background import InBackground, until
from tests.workers.postgres_scene import PROVIDER, Giving, change, engine, rows, working
from tests.workers.scene import fresh_name, held_in, proof_of, stated

key, keys, server = postgres_scene.key, postgres_scene.keys, postgres_scene.server

pytestmark = pytest.mark.slow


# --- what goes well --------------------------------------------------------------------------------------------------


def test_a_database_sees_ciphertext_and_keeps_nothing(server: str, key: RowKey, keys: ProvingKeys) -> None:
    work = stated(0).work
    with engine(server, key) as workers:
        waiting = InBackground(lambda: workers.prove(work))
        until(lambda: rows(server, key))
        ((row, body, proving, provider),) = rows(server, key, "id, body, key, provider")
        assert len(row) == 16
        assert provider.startswith(PROVIDER.hex() + ":")
        assert proving in keys.held()
        assert len(body) == len(work.encode()) + 28
        values = {work.inputs[at : at + 32] for at in range(0, len(work.inputs), 32)}
        assert not any(one in body for one in values)
        with working(server, key, keys) as worker:
            made = waiting.outcome()
            assert made.worker == worker.name
            stated(0).check(made.proof)
            until(lambda: workers.status().workers == 1)
        assert rows(server, key) == []
        assert workers.status().trouble == ""
        assert secrets_of(workers.status().engine)


def secrets_of(engine: str) -> bool:
    return engine.startswith("postgres://") and "@" not in engine


def test_two_providers_on_one_database(server: str, key: RowKey, keys: ProvingKeys) -> None:
    """One with the same key shares its workers, one with another key meets neither them nor their rows."""
    other = RowKey(secrets.token_bytes(32))
    with (
        engine(server, key) as one,
        engine(server, key, bytes(32)) as two,
        engine(server, other) as three,
    ):
        calls = [InBackground(lambda n=n, at=at: at.prove(stated(n).work)) for n, at in ((0, one), (1, two))]  # type: ignore[misc]
        strange = InBackground(lambda: three.prove(stated(2).work))
        until(lambda: len(rows(server, key)) == 2 and len(rows(server, other)) == 1)
        with engine(server, key, b"\1" * 32) as four:
            until(lambda: four._clean)  # a start deletes what its provider left, and nothing of others
        assert len(rows(server, key)) == 2
        with working(server, key, keys) as worker:
            for number, call in enumerate(calls):
                stated(number).check(call.outcome().proof)
            assert worker.made == 2
        assert len(rows(server, other)) == 1
        three.close()
        assert isinstance(strange.outcome(), StoppingError)


def test_what_an_earlier_run_left_is_deleted(server: str, key: RowKey, keys: ProvingKeys) -> None:
    with engine(server, key) as workers:
        until(lambda: workers._clean)
    with psycopg.connect(server, autocommit=True) as db:
        db.execute(postgres._PUT, (b"left behind", key.queue, PROVIDER.hex(), "tiny-0", b"x"))
        db.execute(postgres._PUT, (b"another's", key.queue, bytes(32).hex(), "tiny-0", b"x"))
    with engine(server, key):
        until(lambda: [bytes(one[0]) for one in rows(server, key, "id")] == [b"another's"])


# --- workers that die, sleep or lie ----------------------------------------------------------------------------------


CHILD = """
import sys, threading
from pathlib import Path
from ragseal.prover.workers.making import ProvingKeys
from ragseal.prover.workers.postgres_worker import PostgresWorker
from ragseal.prover.workers.rows import Rows
from ragseal.prover.workers.sealed_rows import RowKey
class Sleeping:
    held = ProvingKeys(Path(sys.argv[3])).held
    def prove(self, work, name):
        threading.Event().wait(60)
PostgresWorker(sys.argv[1], RowKey(bytes.fromhex(sys.argv[2])), Sleeping(), "victim", 1.0, 0.05).run(threading.Event())
"""


def test_a_worker_that_is_killed_in_the_middle_loses_nothing(
    server: str, key: RowKey, keys: ProvingKeys, tmp_path: Path
) -> None:
    folder = held_in(tmp_path)
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}
    command = [sys.executable, "-c", CHILD, server, key.secret.hex(), str(folder)]
    with engine(server, key) as workers:
        waiting = InBackground(lambda: workers.prove(stated(0).work))
        victim = subprocess.Popen(command, env=environment)
        try:
            until(lambda: rows(server, key, "worker") == [("victim",)])
            time.sleep(1.2)  # longer than its lease, which it renews
            assert rows(server, key, "worker, lease > now()") == [("victim", True)]
        finally:
            os.kill(victim.pid, signal.SIGKILL)
            victim.wait()
        with working(server, key, keys) as worker:
            made = waiting.outcome()
            assert made.worker == worker.name
            stated(0).check(made.proof)
        assert workers.status().dropped == (), "it did not lie"


def test_a_worker_that_never_finishes_is_dropped(server: str, key: RowKey, keys: ProvingKeys) -> None:
    """Its lease is renewed for as long as it lives, so there is a limit to that."""
    free = threading.Event()

    def sleeps(work: Work, name: str) -> WorkResult:
        free.wait(30)
        return WorkResult(name, proof_of(0), "")

    with engine(server, key, limit=0.5) as workers, working(server, key, Giving(keys, sleeps), "sleeper") as sleeper:
        waiting = InBackground(lambda: workers.prove(stated(0).work))
        until(lambda: workers.status().dropped)
        (said,) = workers.status().dropped
        assert said == "sleeper: it made no proof in 0.5 s"
        until(lambda: rows(server, key, "worker") == [(None,)])
        free.set()
        with pytest.raises(ConfigurationError, match="gives this worker nothing more"):
            sleeper.step(threading.Event())
        assert sleeper.made == 0, "what it has at last is nobody's any more"
        workers._limit = 60.0
        with working(server, key, keys, "awake"):
            assert waiting.outcome().worker == "awake"


def test_an_assignment_that_nobody_finishes_is_given_up(server: str, key: RowKey, keys: ProvingKeys) -> None:
    with engine(server, key) as workers:
        waiting = InBackground(lambda: workers.prove(stated(0).work))
        until(lambda: rows(server, key))
        change(server, key, "worker = 'w3', claims = 3, claimed = now(), lease = now() - interval '1 second'")
        error = waiting.outcome()
        assert isinstance(error, UnreachedError)
        assert "3 workers in a row" in str(error)


def test_a_worker_that_stops_gives_its_assignment_back(server: str, key: RowKey, keys: ProvingKeys) -> None:
    def stops(work: Work, name: str) -> WorkResult:
        raise KeyboardInterrupt

    with engine(server, key) as workers:
        waiting = InBackground(lambda: workers.prove(stated(0).work))
        until(lambda: rows(server, key))
        leaving = PostgresWorker(server, key, Giving(keys, stops), fresh_name())  # type: ignore[arg-type]
        with pytest.raises(KeyboardInterrupt):
            leaving.step(threading.Event())
        leaving.close()
        assert rows(server, key, "worker, lease") == [(None, None)]
        with working(server, key, keys):
            stated(0).check(waiting.outcome().proof)


def test_without_workers_nobody_waits_for_ever(server: str, key: RowKey) -> None:
    with engine(server, key, patience=0.6) as workers:
        error = InBackground(lambda: workers.prove(stated(0).work)).outcome()
        assert isinstance(error, UnreachedError)
        assert "no worker took an assignment for 0.6 s" in str(error)
        assert "worker run" in workers.status().trouble
        until(lambda: not rows(server, key))


def test_others_work_does_not_hide_that_nobody_takes_mine(server: str, key: RowKey) -> None:
    with engine(server, key, patience=0.6) as workers:
        until(lambda: workers._clean)
        with psycopg.connect(server, autocommit=True) as db:
            db.execute(postgres._PUT, (b"busy" + key.secret[:8], key.queue, "other", "tiny-0", b"x"))
            db.execute("INSERT INTO ragseal_workers VALUES (%s, 'w', now(), NULL)", (key.queue,))
        change(server, key, "worker = 'w', lease = now() + interval '1 minute'")
        error = InBackground(lambda: workers.prove(stated(0).work)).outcome()
        assert isinstance(error, UnreachedError)
        assert "no worker took an assignment" in str(error)
        until(lambda: workers.status().workers == 1)
        time.sleep(1.0)
        assert "no worker took" in workers.status().trouble, "people see it until one is taken"


def test_what_is_waited_for_behind_ones_own_work_is_waited_for(server: str, key: RowKey) -> None:
    with engine(server, key, patience=0.6) as workers:
        calls = [InBackground(lambda n=n: workers.prove(stated(n).work)) for n in (0, 1)]  # type: ignore[misc]
        until(lambda: len(rows(server, key)) == 2)
        with psycopg.connect(server, autocommit=True) as db:
            db.execute(
                "UPDATE ragseal_assignments SET worker = 'w', lease = now() + interval '1 minute' WHERE id = %s",
                rows(server, key, "id")[0],
            )
        time.sleep(1.5)
        assert workers.status().trouble == ""
        workers.close()
        assert all(isinstance(one.outcome(), StoppingError) for one in calls)


# --- the command -----------------------------------------------------------------------------------------------------


def test_the_command_proves_until_it_is_told_to_end(
    server: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, key: RowKey
) -> None:
    niceness: list[int] = []
    monkeypatch.setattr(os, "nice", niceness.append)  # it would be this process's for all tests to come
    file = tmp_path / "worker.key"
    (tmp_path / "keys").mkdir()
    folder = held_in(tmp_path / "keys")
    assert CliRunner().invoke(main, ["worker", "key", str(file)]).exit_code == 0
    assert CliRunner().invoke(main, ["worker", "key", str(file)]).exit_code == 1, "a key was overwritten"
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    with engine(server, RowKey(load_shared(file))) as workers:

        def call() -> WorkResult:
            try:
                return workers.prove(stated(0).work)
            finally:
                os.kill(os.getpid(), signal.SIGTERM)

        waiting = InBackground(call)
        try:
            done = CliRunner().invoke(main, ["worker", "run", server, "--key", str(file), "--keys", str(folder)])
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)
        assert done.exit_code == 0, done.output
        made = waiting.outcome()
        stated(0).check(made.proof)
        assert f"worker {made.worker} of queue" in done.output
        assert niceness == [NICEST]
    file.chmod(0o644)
    refused = CliRunner().invoke(main, ["worker", "run", server, "--key", str(file), "--keys", str(folder)])
    assert refused.exit_code == 1
    assert "chmod 600" in refused.output
