# SPDX-License-Identifier: GPL-3.0-or-later
"""As many workers behind a database as one likes, in one thread: they take rows and give what is no proof."""

from __future__ import annotations

import secrets
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

import psycopg

from ragseal.prover.workers.interface import WorkResult
from ragseal.prover.workers.sealed_rows import RowKey

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
