# SPDX-License-Identifier: GPL-3.0-or-later
"""The provider's side of workers behind a PostgreSQL: assignments in, results out, and who is slow or lies is dropped.

Each assignment is a row under a random id, which the provider deletes once it has the result.  What a start finds of an
earlier run is deleted: the ledger says what is not proven, and the same assignment is made again.  One thread looks for
all that is under way, so that a database which is away keeps nobody but proofs waiting.
"""

from __future__ import annotations

import logging
import secrets
import threading
import time
from dataclasses import dataclass, field

from ragseal.kernel.errors import AuditError, EncodingError
from ragseal.prover.keys.keyring import DIGEST_DIGITS
from ragseal.prover.randomness import Draw
from ragseal.prover.workers.interface import StoppingError, UnreachedError, Work, WorkersStatus, WorkResult
from ragseal.prover.workers.rows import DROPPED_DAYS, Rows
from ragseal.prover.workers.sealed_rows import ID_BYTES, MAX_RESULT, RowKey

PLACES = 16  #: assignments under way
LOOK = 0.25  #: seconds between two looks for results
AWAY = 5.0  #: seconds between two attempts to reach the database
PATIENCE = 60.0  #: seconds in which no worker takes anything, until the engine is in trouble
LIMIT = 1800.0  #: seconds for one claim; who takes longer is slow
LONGEST = 7200.0  #: seconds until an assignment is given up whatever the database says of it
CLAIMS = 3  #: workers that may leave one assignment undone
TRIES = 3  #: rows of one assignment, where the database gives back something else
ALIVE = 60.0  #: seconds since a worker's last sign of life
KEPT = 8  #: dropped workers that a status names

_PUT = "INSERT INTO ragseal_assignments (id, queue, provider, key, body) VALUES (%s, %s, %s, %s, %s)"
_LOOK = """
SELECT id, left(worker, 128), claims, extract(epoch FROM now() - claimed)::float8, coalesce(lease > now(), false),
  substring(result FOR %s), left(refused, 200)
FROM ragseal_assignments WHERE id = ANY(%s)
"""
_BUSY = """
SELECT (SELECT count(*) FROM ragseal_assignments WHERE queue = %s AND lease > now() AND result IS NULL),
  (SELECT count(*) FROM ragseal_workers
   WHERE queue = %s AND dropped IS NULL AND seen > now() - make_interval(secs => %s))
"""
_LEFT = "DELETE FROM ragseal_assignments WHERE queue = %s AND provider = %s AND NOT (id = ANY(%s))"
_OLD = "DELETE FROM ragseal_workers WHERE queue = %s AND seen < now() - make_interval(days => %s)"
_DROP = """
INSERT INTO ragseal_workers VALUES (%s, %s, now(), %s)
ON CONFLICT (queue, worker) DO UPDATE SET dropped = excluded.dropped
"""
_FREE = "UPDATE ragseal_assignments SET worker = NULL, lease = NULL WHERE queue = %s AND worker = %s AND result IS NULL"

log = logging.getLogger("ragseal.provider")


class _UnreadableError(Exception):
    """A row that gives back something else than a result of this assignment."""


@dataclass
class _Row:
    """An assignment that is under way."""

    since: float | None = None  #: when it was put in, monotonic
    ended: threading.Event = field(default_factory=threading.Event)
    worker: str | None = None
    result: bytes | None = None
    trouble: str = ""  #: why it is given up
    unreadable: str = ""  #: why it is put in anew


class PostgresWorkers:
    """Hands assignments to whoever takes them from the database."""

    def __init__(
        self, conninfo: str, key: RowKey, provider: bytes, draw: Draw = secrets.token_bytes,
        patience: float = PATIENCE, limit: float = LIMIT,
    ) -> None:  # fmt: skip
        """
        Args:
            provider: its public key; rows of another provider on the same database are left alone.

        Raises:
            ConfigurationError: no connection URI.
        """
        self._rows, self._looks = Rows(conninfo), Rows(conninfo)
        self._key, self._provider, self._draw = key, provider.hex(), draw
        self._patience, self._limit = patience, limit
        self._mutex = threading.Lock()
        self._waiting: dict[bytes, _Row] = {}
        self._dropped: list[str] = []
        self._trouble, self._alive, self._moved = "", 0, time.monotonic()
        self._clean = False  #: whether the rows of an earlier run are gone
        self._closing = threading.Event()
        self._looker: threading.Thread | None = None

    @property
    def places(self) -> int:
        return PLACES

    def start(self) -> None:
        with self._mutex:
            if self._looker is None:
                self._looker = threading.Thread(target=self._run, name="results", daemon=True)
                self._looker.start()

    def prove(self, work: Work) -> WorkResult:
        said = ""
        for _ in range(TRIES):
            try:
                return self._through_a_row(work)
            except _UnreadableError as error:
                said = str(error)
                log.error("an assignment is put into the database anew: %s", said)
            except AuditError as error:
                if self._closing.is_set() and not isinstance(error, StoppingError):
                    raise StoppingError from None
                raise
        raise UnreachedError(f"the database of proofs gave back {TRIES} times what is no result, the last time: {said}")

    def _through_a_row(self, work: Work) -> WorkResult:
        self.start()
        if self._trouble and not self._closing.is_set():
            raise UnreachedError(self._trouble)  # the thread that looks tries again: nobody else waits for a connection
        name, row = self._draw(ID_BYTES), _Row()
        sealed = self._key.seal_work(name, work, self._draw)
        with self._mutex:
            if self._closing.is_set():
                raise StoppingError
            if not self._waiting:
                self._moved = time.monotonic()  # nobody waited for workers while there was nothing to do
            self._waiting[name] = row
        try:
            folder = f"{work.circuit}-{work.key.hex()[:DIGEST_DIGITS]}"
            try:
                self._rows.run(_PUT, (name, self._key.queue, self._provider, folder, sealed))
            except AuditError as error:
                raise UnreachedError(str(error)) from None
            row.since = time.monotonic()
            row.ended.wait(LONGEST)
        finally:
            with self._mutex:
                del self._waiting[name]
            if self._trouble:
                self._clean = False  # it goes with all that nobody waits for, once the database is back
            else:
                self._delete(name)
        if self._closing.is_set():
            raise StoppingError
        if row.result is None:
            if row.unreadable:
                raise _UnreadableError(row.unreadable)
            raise UnreachedError(row.trouble or f"no proof came back in {LONGEST:g} s")
        try:
            return self._key.open_result(name, row.result)
        except EncodingError as error:
            raise _UnreadableError(str(error)) from None

    def _delete(self, name: bytes) -> None:
        try:
            self._rows.run("DELETE FROM ragseal_assignments WHERE id = %s", (name,))
        except AuditError:
            self._clean = False

    # --- looking ---

    def _run(self) -> None:
        while not self._closing.is_set():
            wait = LOOK
            try:
                self._look()
            except Exception as error:  # it must outlive a bug, and whatever a database gives back
                said = str(error) if isinstance(error, AuditError) else type(error).__name__
                if said != self._trouble:
                    log.error("no proofs are made by workers now: %s", said)
                self._trouble, self._alive, wait = said, 0, AWAY
                self._give_up(said)
            self._closing.wait(wait)

    def _look(self) -> None:
        """One look at all that is under way."""
        queue = self._key.queue
        with self._mutex:
            names = list(self._waiting)
        if not self._clean:
            self._looks.run(_LEFT, (queue, self._provider, names))
            self._looks.run(_OLD, (queue, DROPPED_DAYS))
            self._clean = True
        busy, self._alive = self._looks.run(_BUSY, (queue, queue, ALIVE))[0]
        found = {bytes(one[0]): one[1:] for one in self._looks.run(_LOOK, (MAX_RESULT + 1, names))} if names else {}
        if busy or not names or any(one[4] is not None for one in found.values()):
            self._moved = time.monotonic()
        for name in names:
            row = self._waiting.get(name)
            if row is not None:
                self._looked(row, found.get(name))
        if time.monotonic() - self._moved > self._patience:
            self._in_trouble(
                f"no worker took an assignment for {self._patience:g} s: see that `ragseal-provider worker run` runs "
                "with this key file and holds the proving key"
            )
            self._moved = time.monotonic()  # the next ones are waited for as long
        elif self._trouble and (busy or self._alive):
            log.info("workers are there again")
            self._trouble = ""

    def _looked(self, row: _Row, found: tuple[object, ...] | None) -> None:
        if found is None:
            if row.since is not None and time.monotonic() - row.since > 2 * LOOK:  # else it may not be in there yet
                row.unreadable = "its row is gone"
                row.ended.set()
            return
        worker, claims, claimed, leased, result, refused = found
        if row.worker not in (None, worker):
            log.warning("worker %s left an assignment undone: another one takes it", row.worker)
        row.worker = None if worker is None else str(worker)
        if isinstance(result, bytes):
            row.result = result
        elif refused is not None:
            row.unreadable = f"a worker refuses it: {refused}"
        elif isinstance(claims, int) and claims >= CLAIMS and not leased:
            row.trouble = f"{CLAIMS} workers in a row left one assignment undone"
        elif leased and row.worker is not None and isinstance(claimed, float) and claimed > self._limit:
            self.drop(row.worker, f"it made no proof in {self._limit:g} s")
            return
        else:
            return
        row.ended.set()

    def _in_trouble(self, said: str) -> None:
        if said != self._trouble:
            log.error("no proofs are made by workers now: %s", said)
        self._trouble = said
        self._give_up(said)

    def _give_up(self, said: str) -> None:
        with self._mutex:
            rows = list(self._waiting.values())
        for row in rows:
            row.trouble = said
            row.ended.set()

    # --- the rest ---

    def drop(self, worker: str, reason: str) -> None:
        with self._mutex:
            self._dropped = [*self._dropped, f"{worker}: {reason}"][-KEPT:]
        log.warning("worker %s is dropped: %s", worker, reason)
        try:
            self._rows.run(_DROP, (self._key.queue, worker, reason[:500]))
            self._rows.run(_FREE, (self._key.queue, worker))
        except AuditError as error:
            log.error("worker %s is not told that it is dropped: %s", worker, error)

    def status(self) -> WorkersStatus:
        with self._mutex:
            return WorkersStatus(self._rows.place, self._alive, tuple(self._dropped), self._trouble)

    def close(self) -> None:
        self._closing.set()
        self._give_up("")
        if self._looker is not None:
            self._looker.join(AWAY)
        self._looks.close()
        self._rows.close()
