# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers behind a PostgreSQL that changes rows, says what it likes, or is away."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import psycopg
import pytest

from ragseal.kernel.errors import ConfigurationError, TransportError
from ragseal.prover.workers import postgres
from ragseal.prover.workers import rows as rows_module
from ragseal.prover.workers.interface import StoppingError, UnreachedError, Work, WorkResult
from ragseal.prover.workers.making import ProvingKeys
from ragseal.prover.workers.postgres import PostgresWorkers
from ragseal.prover.workers.postgres_worker import PostgresWorker
from ragseal.prover.workers.rows import Rows, bytes_of, text_of
from ragseal.prover.workers.sealed_rows import RowKey
from tests.workers import postgres_scene
from tests.workers.background import InBackground, until
from tests.workers.postgres_scene import PROVIDER, Giving, change, engine, rows, working
from tests.workers.scene import fresh_name, proof_of, stated

key, keys, server = postgres_scene.key, postgres_scene.keys, postgres_scene.server

pytestmark = pytest.mark.slow

AWAY = "postgres://nobody@127.0.0.1:1/none"


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


def test_results_of_those_that_were_dropped_do_not_hide_that_one_liar_follows_the_other(
    server: str, key: RowKey
) -> None:
    """Else who has the worker key pads its lies with results that nobody takes, and each lie costs a proof here."""
    with engine(server, key) as workers:
        until(lambda: workers._clean)
        for number in range(postgres.BAD):
            workers.drop(name := f"liar-{number}", "it lied")
            for claimant in (name, "another"):
                for _ in range(workers.places + 1):
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
    with pytest.raises(ConfigurationError, match="not a connection URI") as refused:
        PostgresWorkers("postgres://u:hunter2@[/none", key, PROVIDER)
    assert "hunter2" not in str(refused.value)
    assert "hunter2" not in repr(replace(key, secret=b"hunter2"))
