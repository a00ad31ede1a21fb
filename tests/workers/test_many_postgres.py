# SPDX-License-Identifier: GPL-3.0-or-later
"""As many rows are under way as workers gave a sign of life, on a real PostgreSQL."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg
import pytest

from ragseal.prover.attestation.backlog import Backlog
from ragseal.prover.workers import crew
from ragseal.prover.workers.interface import WorkResult
from ragseal.prover.workers.sealed_rows import RowKey
from tests.workers import postgres_scene
from tests.workers.background import until
from tests.workers.many_nodes import WORK
from tests.workers.postgres_scene import engine

key, server = postgres_scene.key, postgres_scene.server

pytestmark = pytest.mark.slow

_TAKE = """
UPDATE ragseal_assignments SET worker = %s, claimed = now(), lease = now() + interval '30 seconds', claims = claims + 1
WHERE id = (SELECT id FROM ragseal_assignments WHERE queue = %s AND worker IS NULL ORDER BY made, id LIMIT 1)
RETURNING id
"""


class Crowd:
    """Workers that take so long for what is no proof, and how many have a row at once."""

    def __init__(self, uri: str, key: RowKey, seconds: float) -> None:
        self._uri, self._key, self._seconds, self.size, self.most, self.proving = uri, key, seconds, 0, 0, 0
        self.stop = threading.Event()

    def run(self) -> None:
        free, had = list[str](), dict[str, tuple[bytes, float]]()
        with psycopg.connect(self._uri, autocommit=True) as db:
            known = 0
            while not self.stop.wait(0.01):
                for number in range(known, self.size):
                    db.execute(
                        "INSERT INTO ragseal_workers VALUES (%s, %s, now(), NULL)", (self._key.queue, f"w{number}")
                    )
                for number in range(self.size, known):
                    db.execute(
                        "DELETE FROM ragseal_workers WHERE queue = %s AND worker = %s", (self._key.queue, f"w{number}")
                    )
                known = self.size
                free = [f"w{number}" for number in range(known) if f"w{number}" not in had]
                for name in free:
                    taken = db.execute(_TAKE, (name, self._key.queue)).fetchone()
                    if taken is None:
                        break
                    had[name] = bytes(taken[0]), time.monotonic() + self._seconds
                self.proving = len(had)
                self.most = max(self.most, self.proving)
                now = time.monotonic()
                for name, (row, due) in list(had.items()):
                    if due <= now:
                        made = self._key.seal_result(row, WorkResult(name, bytes(256), ""), secrets.token_bytes)
                        db.execute("UPDATE ragseal_assignments SET result = %s WHERE id = %s", (made, row))
                        del had[name]


@contextmanager
def crowd(uri: str, key: RowKey, seconds: float) -> Iterator[Crowd]:
    made = Crowd(uri, key, seconds)
    thread = threading.Thread(target=made.run)
    thread.start()
    try:
        yield made
    finally:
        made.stop.set()
        thread.join(10)


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
