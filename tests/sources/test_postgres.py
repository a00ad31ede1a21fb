# SPDX-License-Identifier: GPL-3.0-or-later
"""PostgreSQL with pgvector, the real one: snapshots, and a server that is hostile or goes away."""

from __future__ import annotations

import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import closing
from dataclasses import replace
from typing import Any
from urllib.parse import quote

import pytest

from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError, TransportError
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.commitment.documents import Applied
from ragseal.prover.sources import sync as syncing
from ragseal.prover.sources.opening import open_source
from ragseal.prover.sources.sync import Target, catch_up, sync
from tests.sources import postgres_scene
from tests.sources.postgres_scene import connected, opened, run, terminate
from tests.sources.scene import TEXTS, everything, held, matrix_is_right, read_all

server, target, uri = postgres_scene.server, postgres_scene.target, postgres_scene.uri

pytestmark = pytest.mark.slow


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
                "yes": True, "f": 0.25, "n": 1.5, "day": "2027-01-02", "j": '{"a": 1}',
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
        ("UPDATE chunks SET body = NULL WHERE page = 7", r"\(id 'doc-7'\): it has no 'body'"),
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
        ("ALTER TABLE chunks ALTER embedding TYPE text", "not a vector of numbers"),
    ],
)  # fmt: skip
def test_a_hostile_row_is_named_and_holds_up_no_deletion(uri: str, target: Target, statement: str, said: str) -> None:
    with closing(opened(uri)) as source:
        sync(target, source)
    run(uri, "DELETE FROM chunks WHERE page = 20", statement)
    with closing(opened(uri)) as source, pytest.raises(EncodingError, match=f"{said}.*deleted all the same"):
        sync(target, source)
    gone = {"doc-20", "doc-7"} if "SET id" in statement else {"doc-20"}  # doc-7 is no id of the table any more
    assert held(target.state) == {name: text for name, text in TEXTS.items() if name not in gone}


def test_a_refused_row_of_the_outbox_holds_up_no_deletion(uri: str, target: Target) -> None:
    with closing(opened(uri)) as source:
        source.install_trigger()
        sync(target, source)
        run(uri, "UPDATE chunks SET body = NULL WHERE page = 7", "DELETE FROM chunks WHERE page IN (5, 20)")
        for _ in range(2):  # the second time nothing is left to delete, and the row is refused again
            with pytest.raises(EncodingError, match=r"\(id 'doc-7'\): it has no 'body'"):
                catch_up(target, source)
            assert set(held(target.state)) == set(TEXTS) - {"doc-5", "doc-20"}
        run(uri, f"UPDATE chunks SET body = '{TEXTS['doc-7']}' WHERE page = 7")
        assert catch_up(target, source) == Applied(unchanged=1)


KINDS = [
    ("numeric", "11", 11), ("numeric", "11.10", 11.1), ("numeric(12,4)", "0.0001", 0.0001), ("numeric", "1e20", 1e20),
    ("date", "'2027-01-02'", "2027-01-02"), ("timestamp", "'2027-01-02 03:04:05'", "2027-01-02T03:04:05"),
    ("timestamptz(3)", "'2027-01-02 03:04:05.25+02'", "2027-01-02T01:04:05.25+00:00"),
    ("timestamptz", "'12027-01-02 03:04:05+00'", "12027-01-02T03:04:05+00:00"),
    ("timestamptz", "'infinity'", "infinity"), ("date", "'0044-03-15 BC'", "0044-03-15 BC"),
    ("varchar(9)", "'a'", "a"), ("bigint", "7", 7), ("boolean", "true", True),
    ("uuid", "'6ba7b810-9dad-11d1-80b4-00c04fd430c8'", "6ba7b810-9dad-11d1-80b4-00c04fd430c8"),
]  # fmt: skip


@pytest.mark.parametrize(("kind", "value", "kept"), KINDS)
def test_metadata_is_kept_as_what_it_is_whatever_the_role_has_set(
    uri: str, kind: str, value: str, kept: object
) -> None:
    run(uri, f"ALTER TABLE chunks ADD extra {kind}", f"UPDATE chunks SET extra = {value}")
    own = "&options=-c%20datestyle%3DGerman%20-c%20timezone%3DAsia/Kabul"
    notes = Notes()
    with closing(open_source(f"postgres:{uri}{own}&table=chunks&text=body&metadata=extra", notes=notes)) as source:
        first = read_all(source)[0]
    assert first.metadata == {"extra": kept}
    assert type(first.metadata["extra"]) is type(kept)
    assert not notes.written


@pytest.mark.parametrize(("kind", "value"), [("jsonb", "'[1]'"), ("text[]", "'{a,b}'"), ("interval", "'1 day'")])
def test_metadata_in_the_servers_own_spelling_is_noted(uri: str, kind: str, value: str) -> None:
    run(uri, f"ALTER TABLE chunks ADD extra {kind}", f"UPDATE chunks SET extra = {value}")
    notes = Notes()
    with closing(open_source(f"postgres:{uri}&table=chunks&text=body&metadata=extra", notes=notes)) as source:
        read_all(source)
    assert notes.lines() == [
        "not kept, as they are not named as metadata: 'embedding' (in 30 documents), 'source' (in 30 documents), "
        "'page' (in 30 documents)",
        f"kept as text in the database's own spelling, which filters compare as text: 'extra' ({kind})",
    ]


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ("'NaN'", r"\(id 'doc-0'\): metadata 'price' is NaN"),
        ("0.12345678901234567890", "metadata 'price' has 20 digits, which no number keeps"),
        ("1e600", "metadata 'price' has more than 512 digits"),
    ],
)
def test_a_decimal_that_no_number_keeps_is_refused(uri: str, value: str, said: str) -> None:
    run(uri, "ALTER TABLE chunks ADD price numeric", f"UPDATE chunks SET price = {value}")
    source = open_source(f"postgres:{uri}&table=chunks&text=body&metadata=price")
    with closing(source), pytest.raises(EncodingError, match=said):
        read_all(source)


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
    embedding = replace(target, rule=syncing.EMBED, shape=lambda: replace(target.shape(), capacity=2000))
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
