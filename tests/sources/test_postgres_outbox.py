# SPDX-License-Identifier: GPL-3.0-or-later
"""The outbox of a real PostgreSQL: changes come by it, whole and in order, and nobody else plants one."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace

import psycopg
import pytest

from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.prover.commitment import document_rows
from ragseal.prover.commitment.documents import Applied, Delete
from ragseal.prover.sources import sync as syncing
from ragseal.prover.sources.interface import StaleMark
from ragseal.prover.sources.postgres import PostgresSource
from ragseal.prover.sources.postgres_outbox import BATCH, KEPT_DAYS, Position
from ragseal.prover.sources.sync import Target, catch_up, follow, sync
from tests.sources import postgres_scene
from tests.sources.postgres_scene import COLUMNS, connected, opened, run, terminate
from tests.sources.scene import TEXTS, held, matrix_is_right

server, target, uri = postgres_scene.server, postgres_scene.target, postgres_scene.uri

pytestmark = pytest.mark.slow


@pytest.fixture
def followed(uri: str) -> Iterator[PostgresSource]:
    with closing(opened(uri)) as source:
        source.install_trigger()
        yield source


def test_changes_come_by_the_outbox(uri: str, followed: PostgresSource, target: Target) -> None:
    assert catch_up(target, followed).added == 30
    run(
        uri,
        "DELETE FROM chunks WHERE page = 3",
        "UPDATE chunks SET id = 'renamed' WHERE page = 4",
        "UPDATE chunks SET source = source",
        "INSERT INTO chunks SELECT 'new', body, embedding FROM chunks WHERE page = 1",
        "INSERT INTO chunks SELECT 'gone at once', body, embedding FROM chunks WHERE page = 1",
        "DELETE FROM chunks WHERE id = 'gone at once'",
    )
    done = catch_up(target, followed)
    assert (done.added, done.deleted, done.changed) == (2, 2, 0)
    assert set(held(target.state)) == {*TEXTS, "renamed", "new"} - {"doc-3", "doc-4"}
    assert matrix_is_right(target.state)
    assert catch_up(target, followed) == Applied()


def test_a_condition_holds_for_changes_too(uri: str, target: Target) -> None:
    with closing(opened(uri, COLUMNS + "&where=page < 10")) as source:
        source.install_trigger()
        assert catch_up(target, source).added == 10
        run(uri, "UPDATE chunks SET page = 50 WHERE page = 2", "UPDATE chunks SET page = 2 WHERE page = 20")
        done = catch_up(target, source)
        assert (done.added, done.deleted) == (1, 1)
        assert "doc-20" in held(target.state)
        assert "doc-2" not in held(target.state)


def test_a_transaction_that_commits_late_is_not_skipped(uri: str, followed: PostgresSource, target: Target) -> None:
    """Its entries have the lower numbers, and appear after those of a younger transaction."""
    catch_up(target, followed)
    with psycopg.connect(uri) as slow:
        slow.execute("DELETE FROM chunks WHERE page = 1")
        run(uri, "DELETE FROM chunks WHERE page = 2")
        early = catch_up(target, followed)
        slow.commit()
    late = catch_up(target, followed)
    assert early.deleted + late.deleted == 2
    assert not {"doc-1", "doc-2"} & set(held(target.state))


def test_a_large_transaction_and_many_small_ones_are_taken_whole(uri: str, target: Target) -> None:
    with closing(opened(uri, vectors=False)) as source:
        source.install_trigger()
        _, mark = source.snapshot()
    count = BATCH + 500
    run(uri, f"INSERT INTO chunks SELECT 'more-' || i, 'text ' || i FROM generate_series(1, {count}) i",
        "DELETE FROM chunks WHERE id = 'more-7'", "INSERT INTO chunks VALUES ('last', 'text')")  # fmt: skip
    with closing(opened(uri, vectors=False)) as source:
        found, first = source.changes(mark)
        got = {one.id: one for one in found}
        assert len(got) == count
        assert isinstance(got["more-7"], Delete)
        found, second = source.changes(first)
        assert {one.id for one in found} == {"more-7", "last"}
        assert source.changes(second)[1] == second


def test_an_emptied_table_a_forgotten_mark_and_another_outbox_mean_a_snapshot(
    uri: str, followed: PostgresSource, target: Target
) -> None:
    catch_up(target, followed)
    identity = followed.identity()
    kept = document_rows.mark_of(target.state, "acme", identity)
    assert kept is not None
    now = Position.decode(kept)
    for stale in (
        replace(now, at=now.at - KEPT_DAYS * 86400),
        replace(now, next=now.next + 1_000_000),
        replace(now, outbox=now.outbox + 1),
    ):
        with pytest.raises(StaleMark):
            followed.changes(stale.encode())
    with pytest.raises(StaleMark, match="before there was an outbox"):
        followed.changes("")
    run(uri, "TRUNCATE chunks", "INSERT INTO chunks VALUES ('only', 'text', array_fill(0.5, ARRAY[24])::vector)")
    with pytest.raises(StaleMark, match="emptied"):
        followed.changes(kept)
    done = catch_up(replace(target, rule=syncing.EMBED), followed)
    assert (done.added, done.deleted) == (1, 30)


def test_without_an_outbox_following_says_how_to_make_one(uri: str, target: Target) -> None:
    with closing(opened(uri)) as source:
        with pytest.raises(AuditError, match="--install-trigger"):
            follow(target, lambda: opened(uri), threading.Event(), 0.1)
        assert held(target.state) == {}
        sync(target, source)
        source.install_trigger()
        source.install_trigger()
        assert catch_up(target, source).unchanged == 30


def test_an_outbox_that_another_role_planted_is_not_used(uri: str) -> None:
    """Its triggers would run with the rights of whoever writes to the table."""
    with closing(opened(uri)) as source:
        name = source._outbox._name
        run(uri, "CREATE ROLE mallory", f"CREATE TABLE {name} (id text, txid bigint, at timestamptz)",
            f"ALTER TABLE {name} OWNER TO mallory")  # fmt: skip
        try:
            with pytest.raises(ConfigurationError, match="another role"):
                source.install_trigger()
        finally:
            run(uri, f"DROP TABLE {name} CASCADE", "DROP ROLE mallory")


def test_a_function_that_another_role_planted_is_not_used(uri: str) -> None:
    """A superuser would replace its body and leave its owner, who may replace it again: writers run it."""
    with closing(opened(uri)) as source:
        name = source._outbox._name
        run(uri, "CREATE ROLE mallory", f"DROP FUNCTION IF EXISTS {name} CASCADE",
            f"CREATE FUNCTION {name}() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN NULL; END'",
            f"ALTER FUNCTION {name}() OWNER TO mallory")  # fmt: skip
        try:
            with pytest.raises(ConfigurationError, match=r"the function ragseal_.* is another role's"):
                source.install_trigger()
            assert not source._outbox.there()
        finally:
            run(uri, f"DROP FUNCTION {name} CASCADE", "DROP ROLE mallory")


def test_no_other_role_s_table_fills_the_outbox(uri: str, followed: PostgresSource) -> None:
    name = followed._outbox._name
    run(uri, "CREATE ROLE mallory LOGIN", "CREATE TABLE theirs (id text)", "ALTER TABLE theirs OWNER TO mallory")
    try:
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            run(uri.replace("postgres:@", "mallory@"),
                f"CREATE TRIGGER t AFTER INSERT ON theirs FOR EACH ROW EXECUTE FUNCTION {name}()")  # fmt: skip
    finally:
        run(uri, "DROP OWNED BY mallory", "DROP ROLE mallory")


def test_writers_need_no_right_on_the_outbox_and_followers_only_select(uri: str, followed: PostgresSource) -> None:
    _, mark = followed.snapshot()
    run(
        uri,
        "CREATE ROLE writer LOGIN",
        "CREATE ROLE reader LOGIN",
        "GRANT INSERT, UPDATE, DELETE, SELECT ON chunks TO writer",
        f"GRANT SELECT ON chunks, {followed._outbox._name} TO reader",
    )
    try:
        run(uri.replace("postgres:@", "writer@"), "DELETE FROM chunks WHERE page = 1")
        with pytest.raises(psycopg.errors.InsufficientPrivilege):
            run(uri.replace("postgres:@", "writer@"), f"DELETE FROM {followed._outbox._name}")
        with closing(opened(uri.replace("postgres:@", "reader@"))) as source:
            assert list(source.changes(mark)[0]) == [Delete("doc-1")]
            source.wait(0.01, threading.Event())
    finally:
        run(uri, "DROP OWNED BY writer", "DROP ROLE writer", "DROP OWNED BY reader", "DROP ROLE reader")


def test_old_entries_are_cleared(uri: str, followed: PostgresSource) -> None:
    name = followed._outbox._name
    run(uri, "UPDATE chunks SET page = page", f"UPDATE {name} SET at = at - interval '8 days' WHERE id <> 'doc-1'")
    followed.wait(0.01, threading.Event())
    with connected(uri) as db:
        assert db.execute(f"SELECT DISTINCT id FROM {name}").fetchall() == [("doc-1",)]


def test_following_survives_a_server_that_drops_it_and_wakes_at_once(
    uri: str, followed: PostgresSource, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(syncing, "FIRST_WAIT", 0.05)
    stop, told = threading.Event(), []
    worker = threading.Thread(target=follow, args=(target, lambda: opened(uri), stop, 3600.0, told.append))
    worker.start()
    try:
        wait_for(lambda: told == [Applied(added=30)])
        began = time.monotonic()
        run(uri, "DELETE FROM chunks WHERE page = 1")
        wait_for(lambda: "doc-1" not in held(target.state))
        assert time.monotonic() - began < 10  # of an hour between two looks
        terminate(uri)
        run(uri, "DELETE FROM chunks WHERE page = 2")
        wait_for(lambda: "doc-2" not in held(target.state))
        run(uri, "DELETE FROM chunks WHERE page = 3")
        wait_for(lambda: "doc-3" not in held(target.state))
    finally:
        stop.set()
        worker.join(10)
    assert not worker.is_alive()
    assert len(held(target.state)) == 27


def wait_for(condition: Callable[[], bool], seconds: float = 20.0) -> None:
    ends = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < ends, "it does not happen"
        time.sleep(0.02)
