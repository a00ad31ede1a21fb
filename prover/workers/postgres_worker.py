# SPDX-License-Identifier: GPL-3.0-or-later
"""A worker that takes assignments from a PostgreSQL, on whatever machine.

It claims a row for as long as its lease, which a second connection renews while it proves.  A worker that dies loses
the lease, and another one takes the row: each assignment is proven at least once.  What it reads stays in its memory.
"""

from __future__ import annotations

import logging
import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError, TransportError
from ragseal.prover.base.randomness import Draw
from ragseal.prover.workers.interface import Work, WorkResult
from ragseal.prover.workers.making import ProvingKeys
from ragseal.prover.workers.rows import Rows, bytes_of, text_of
from ragseal.prover.workers.sealed_rows import MAX_ROW, RowKey

LEASE = 30.0  #: seconds without a sign of life after which another worker takes an assignment
BEATS = 3  #: signs of life in one lease
IDLE = 0.5  #: seconds between two looks for work
AWAY = 5.0  #: seconds between two attempts to reach the database

_BEAT = """
INSERT INTO ragseal_workers VALUES (%s, %s, now(), NULL)
ON CONFLICT (queue, worker) DO UPDATE SET seen = now() RETURNING left(dropped, 500)
"""
_CLAIM = """
WITH free AS MATERIALIZED (
  SELECT id FROM ragseal_assignments
  WHERE queue = %s AND key = ANY(%s) AND result IS NULL AND refused IS NULL AND (lease IS NULL OR lease < now())
  ORDER BY made, id LIMIT 1 FOR UPDATE SKIP LOCKED)
UPDATE ragseal_assignments a
SET worker = %s, claimed = now(), lease = now() + make_interval(secs => %s), claims = claims + 1
FROM free WHERE a.id = free.id RETURNING a.id, substring(a.body FOR %s)
"""
_RENEW = """
UPDATE ragseal_assignments SET lease = now() + make_interval(secs => %s)
WHERE id = %s AND worker = %s AND result IS NULL RETURNING 1
"""
_GIVE = "UPDATE ragseal_assignments SET result = %s WHERE id = %s AND worker = %s AND result IS NULL RETURNING 1"
_REFUSE = "UPDATE ragseal_assignments SET refused = %s WHERE id = %s AND worker = %s AND result IS NULL"
_LEAVE = "UPDATE ragseal_assignments SET lease = NULL, worker = NULL WHERE id = %s AND worker = %s AND result IS NULL"

log = logging.getLogger("ragseal.provider")


class PostgresWorker:
    """One worker.  :meth:`run` it in one thread; it takes one assignment at a time."""

    def __init__(
        self, conninfo: str, key: RowKey, keys: ProvingKeys, name: str, lease: float = LEASE, idle: float = IDLE,
        draw: Draw = secrets.token_bytes,
    ) -> None:  # fmt: skip
        """
        Args:
            keys: the proving keys on this machine's disk; assignments of others are left to others.
            name: of this process, never used before: a provider drops workers by it.

        Raises:
            ConfigurationError: no connection URI.
        """
        self._rows, self._beats = Rows(conninfo), Rows(conninfo)
        self._key, self._keys, self.name = key, keys, name
        self._lease, self._idle, self._draw = lease, idle, draw
        self.made = 0  #: results given

    def run(self, stop: threading.Event) -> None:
        """Prove what there is until ``stop``; waits for a database that is away.

        Raises:
            ConfigurationError: the provider dropped this worker, the database refuses, or the keys cannot be read.
        """
        said = ""
        while not stop.is_set():
            try:
                busy = self.step(stop)
                said = ""
            except TransportError as error:
                if str(error) != said:
                    log.error("%s", error)
                said, busy = str(error), False
                stop.wait(AWAY)
                continue
            if not busy:
                stop.wait(self._idle)

    def step(self, stop: threading.Event) -> bool:
        """Take one assignment and give its result; whether there was one.  Raises as :meth:`run`, or TransportError."""
        queue = self._key.queue
        dropped = self._rows.run(_BEAT, (queue, self.name))[0][0]
        if dropped is not None:
            raise ConfigurationError(
                f"the provider gives this worker nothing more ({text_of(dropped, 500)}): its log and `status` say why; "
                "look at this machine's memory, its keys and its release of ragseal, then start it again"
            )
        claimed = self._rows.run(_CLAIM, (queue, self._keys.held(), self.name, self._lease, MAX_ROW + 1))
        if not claimed:
            return False
        row, body = bytes_of(claimed[0][0]), bytes_of(claimed[0][1])
        try:
            work = self._key.open_work(row, body)
        except EncodingError as error:
            log.error("an assignment is refused: %s", error)
            self._rows.run(_REFUSE, (str(error)[:500], row, self.name))
            return True
        with self._kept_alive(row):
            result = self._proved(work, row)
        sealed = self._key.seal_result(row, result, self._draw)
        if self._rows.run(_GIVE, (sealed, row, self.name)):
            self.made += 1
        else:
            log.warning("an assignment was taken from this worker before it was done")
        return True

    def _proved(self, work: Work, row: bytes) -> WorkResult:
        try:
            return self._keys.prove(work, self.name)
        except BaseException:  # whoever is next need not wait for the lease to end
            with suppress(AuditError):
                self._rows.run(_LEAVE, (row, self.name))
            raise

    @contextmanager
    def _kept_alive(self, row: bytes) -> Iterator[None]:
        """Renews the lease; a database that is away is asked again, until the lease is another's."""
        done = threading.Event()

        def beat() -> None:
            while not done.wait(self._lease / BEATS):
                with suppress(AuditError):
                    self._beats.run(_BEAT, (self._key.queue, self.name))
                    if not self._beats.run(_RENEW, (self._lease, row, self.name)):
                        return

        thread = threading.Thread(target=beat, name="lease", daemon=True)
        thread.start()
        try:
            yield
        finally:
            done.set()
            thread.join()

    def close(self) -> None:
        """Say goodbye, if the database is there."""
        with suppress(AuditError):
            self._rows.run(
                "DELETE FROM ragseal_workers WHERE queue = %s AND worker = %s AND dropped IS NULL",
                (self._key.queue, self.name),
            )
        self._rows.close()
        self._beats.close()
