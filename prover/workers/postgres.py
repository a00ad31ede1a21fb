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
from contextlib import suppress
from dataclasses import dataclass, field

from ragseal.kernel.errors import AuditError, EncodingError
from ragseal.kernel.printable import printable
from ragseal.prover.base.randomness import Draw
from ragseal.prover.keys.keyring import DIGEST_DIGITS
from ragseal.prover.workers.interface import (
    StoppingError,
    UnreachedError,
    Work,
    WorkersStatus,
    WorkResult,
    places_for,
)
from ragseal.prover.workers.rows import DROPPED_DAYS, Rows, bytes_of, text_of
from ragseal.prover.workers.sealed_rows import ID_BYTES, MAX_RESULT, RowKey

LOOK = 0.25  #: seconds between two looks for results
AWAY = 5.0  #: seconds between two attempts to reach the database
PATIENCE = 60.0  #: seconds in which no worker takes anything, until the engine is in trouble
LIMIT = 1800.0  #: seconds for one claim; who takes longer is slow
LONGEST = 7200.0  #: seconds until an assignment is given up whatever the database says of it
BAD = 5  #: workers dropped with hardly a result between them, until the engine is in trouble
REST = 600.0  #: seconds in which nothing is handed to workers then
CLAIMS = 3  #: workers that may leave one assignment undone
TRIES = 3  #: rows of one assignment, where the database gives back something else
ALIVE = 60.0  #: seconds since a worker's last sign of life
KEPT = 8  #: dropped workers that a status names

_PUT = "INSERT INTO ragseal_assignments (id, queue, provider, key, body) VALUES (%s, %s, %s, %s, %s)"
#: bounded, whatever somebody made of the tables
_LOOK = """
SELECT substring(id FOR %s), left(worker, 128), claims, extract(epoch FROM now() - claimed)::float8,
  coalesce(lease > now(), false), substring(result FOR %s), left(refused, 200)
FROM ragseal_assignments WHERE id = ANY(%s) LIMIT %s
"""
_ALIVE = """
SELECT count(*) FROM ragseal_workers
WHERE queue = %s AND dropped IS NULL AND seen > now() - make_interval(secs => %s)
"""
_EARLIER = "DELETE FROM ragseal_assignments WHERE queue = %s AND left(provider, %s) = %s AND provider <> %s"
_OWN = "DELETE FROM ragseal_assignments WHERE queue = %s AND provider = %s"
_DELETE = "DELETE FROM ragseal_assignments WHERE id = ANY(%s)"
_OLD = "DELETE FROM ragseal_workers WHERE queue = %s AND seen < now() - make_interval(days => %s)"
_DROP = """
INSERT INTO ragseal_workers VALUES (%s, %s, now(), %s)
ON CONFLICT (queue, worker) DO UPDATE SET dropped = excluded.dropped
"""
DROPPED = "dropped"  #: what is said of it: a reason may quote what was sealed, and the database reads this
_FREE = "UPDATE ragseal_assignments SET worker = NULL, lease = NULL WHERE queue = %s AND worker = %s AND result IS NULL"

log = logging.getLogger("ragseal.provider")


class _UnreadableError(Exception):
    """A row that gives back something else than a result of this assignment."""


@dataclass
class _Row:
    """An assignment that is under way."""

    folder: str  #: of the proving key, as workers name it
    begun: float = field(default_factory=time.monotonic)  #: the upload counts
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
        patience: float = PATIENCE, limit: float = LIMIT, cleans: bool = True,
    ) -> None:  # fmt: skip
        """
        Args:
            provider: its public key; rows of another provider on the same database are left alone.
            cleans: delete what earlier runs of this provider left; not so for a copy, beside which the provider runs.

        Raises:
            ConfigurationError: no connection URI.
        """
        self._rows, self._looks, self._puts = Rows(conninfo), Rows(conninfo), Rows(conninfo)
        self._putting = threading.Lock()
        self._key, self._draw, self._owner = key, draw, provider.hex()
        self._provider = f"{self._owner}:{draw(ID_BYTES).hex()}"  # this run's rows
        self._patience, self._limit = patience, limit
        self._mutex = threading.Lock()
        self._waiting: dict[bytes, _Row] = {}
        self._dropped: list[str] = []
        self._barred: set[str] = set()  #: names of those that were dropped
        self._given, self._given_then, self._bad = 0, 0, 0  #: results, those at the last drop, drops in a row
        self._away = ""  #: why the database cannot be reached
        self._unmet: dict[str, str] = {}  #: by key folder ("" for all), for people: why nobody took the last assignment
        self._shut: dict[str, float] = {}  #: by key folder: until when, monotonic, nothing is put in
        self._taken: dict[str, float] = {}  #: by key folder: when one of this run's was last seen with a worker
        self._alive = 0
        self._clean = not cleans  #: whether the rows of an earlier run are gone
        self._leftover: set[bytes] = set()  #: rows of this run that could not be deleted
        self._closing = threading.Event()
        self._looker: threading.Thread | None = None

    @property
    def places(self) -> int:
        return places_for(self._alive)

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
        said = f"the database of proofs gave back {TRIES} times what is no result, the last time: {said}"
        with self._mutex:
            self._unmet[""] = said
        raise UnreachedError(said)

    def _refuse_shut(self, folder: str) -> None:
        """The thread that looks tries again: nobody else waits for what is not there."""
        if self._away:
            raise UnreachedError(self._away)
        now = time.monotonic()
        with self._mutex:
            for name in ("", folder):
                if name in self._shut and (now < self._shut[name] or not self._alive):
                    raise UnreachedError(self._unmet.get(name) or "no worker took an assignment lately")

    def _through_a_row(self, work: Work) -> WorkResult:
        self.start()
        folder = f"{work.circuit}-{work.key.hex()[:DIGEST_DIGITS]}"
        if not self._closing.is_set():
            self._refuse_shut(folder)
        name, row = self._draw(ID_BYTES), _Row(folder)
        with self._mutex:
            if self._closing.is_set():
                raise StoppingError
            self._waiting[name] = row
        try:
            self._put(name, row, work)
            if not row.ended.wait(LONGEST):
                row.trouble = f"no proof came back in {LONGEST:g} s"
                self._not_taken(folder, row.trouble)
        finally:
            with self._mutex:
                del self._waiting[name]
            self._delete(name)
        if self._closing.is_set():
            raise StoppingError
        if row.result is None:
            if row.unreadable:
                raise _UnreadableError(row.unreadable)
            raise UnreachedError(row.trouble)
        try:
            made = self._key.open_result(name, row.result)
        except EncodingError as error:
            raise _UnreadableError(str(error)) from None
        return self._of_its_claimant(made, row.worker)

    def _put(self, name: bytes, row: _Row, work: Work) -> None:
        """One after the other, sealed in its turn: a thousand at once are gigabytes, and take longer than DEADLINE."""
        with self._putting:
            if self._closing.is_set():
                raise StoppingError
            self._refuse_shut(row.folder)
            sealed = self._key.seal_work(name, work, self._draw)
            try:
                self._puts.run(_PUT, (name, self._key.queue, self._provider, row.folder, sealed))
            except AuditError as error:
                raise UnreachedError(str(error)) from None
        row.since = time.monotonic()

    def _of_its_claimant(self, made: WorkResult, claimant: str | None) -> WorkResult:
        """Else a worker that lies goes on under its name, or has an honest one dropped by writing that one's."""
        with self._mutex:
            barred = made.worker in self._barred
        if barred:
            raise _UnreadableError(f"worker {printable(made.worker)} was dropped, and its results with it")
        if made.worker != claimant:
            raise _UnreadableError(
                f"worker {printable(made.worker)} gave it, and {printable(str(claimant))} had taken the assignment"
            )
        with self._mutex:  # what nobody takes does not count: else a liar's lies would hide each other
            self._given += 1
            if time.monotonic() >= self._shut.get("", 0.0):
                self._unmet.pop("", None)
        return made

    def _delete(self, name: bytes) -> None:
        """Now, or with the next look at a database that is away."""
        if not self._away and not self._closing.is_set():
            with suppress(AuditError):
                self._rows.run(_DELETE, ([name],))
                return
        with self._mutex:
            self._leftover.add(name)

    # --- looking ---

    def _run(self) -> None:
        while not self._closing.is_set():
            wait = LOOK
            try:
                self._look()
            except Exception as error:  # it must outlive a bug, and whatever a database gives back
                said = str(error) if isinstance(error, AuditError) else type(error).__name__
                if said != self._away:
                    log.error("no proofs are made by workers now: %s", said)
                self._away, self._alive, wait = said, 0, AWAY
                self._give_up(said)
            self._closing.wait(wait)

    def _look(self) -> None:
        """One look at all that is under way."""
        queue, now = self._key.queue, time.monotonic()  # what was put in before now is in what is read below
        with self._mutex:
            waiting, left = dict(self._waiting), list(self._leftover)
        if not self._clean:
            self._looks.run(_EARLIER, (queue, len(self._owner), self._owner, self._provider))
            self._looks.run(_OLD, (queue, DROPPED_DAYS))
            self._clean = True
        if left:
            self._looks.run(_DELETE, (left,))
            with self._mutex:
                self._leftover.difference_update(left)
        ((alive,),) = self._looks.run(_ALIVE, (queue, ALIVE))
        names = list(waiting)
        seen = self._looks.run(_LOOK, (ID_BYTES, MAX_RESULT + 1, names, len(names))) if names else []
        found = {bytes_of(one[0]): one[1:] for one in seen}
        self._present(alive if isinstance(alive, int) else 0)
        for name, row in waiting.items():
            if found.get(name, (None,))[0] is not None:
                self._is_taken(row, now)
        for name, row in waiting.items():
            self._looked(row, found.get(name), now)

    def _present(self, alive: int) -> None:
        """The database answers, and so many workers gave a sign of life."""
        with self._mutex:
            if self._away or (alive and not self._alive):  # what holds now need not be what held then
                rest = self._shut.get("")
                self._shut = {} if rest is None else {"": rest}
            back, self._away, self._alive = self._away, "", alive
        if back:
            log.info("the database of proofs is there again")

    def _is_taken(self, row: _Row, now: float) -> None:
        folder = row.folder
        with self._mutex:
            if row.trouble:  # given up meanwhile: what was read of it is older than why
                return
            self._taken[folder] = now
            self._shut.pop(folder, None)
            if self._unmet.pop(folder, None):
                log.info("workers take assignments of key %s again", folder)

    def _not_taken(self, folder: str, said: str) -> None:
        """Nothing is put in for a while, so that what is asked for is made here; people read why until one is taken."""
        with self._mutex:
            if self._unmet.get(folder) != said:
                log.error("no proofs are made by workers now: %s", said)
            self._unmet[folder], self._shut[folder] = said, time.monotonic() + self._patience

    def _looked(self, row: _Row, found: tuple[object, ...] | None, now: float) -> None:
        if found is None:
            if row.since is not None and now - row.since > 2 * LOOK:  # else it may not be in there yet
                row.unreadable = "its row is gone"
                row.ended.set()
            return
        worker, claims, claimed, leased, result, refused = found
        if row.worker is not None and row.worker != worker:
            log.warning("worker %s left an assignment undone: another one takes it", printable(row.worker))
        row.worker = worker if isinstance(worker, str) else None
        if isinstance(result, bytes):
            row.result = result
        elif refused is not None:
            row.unreadable = f"a worker refuses it: {text_of(refused, 200)}"
        elif isinstance(claims, int) and claims >= CLAIMS and not leased:
            row.trouble = f"{CLAIMS} workers in a row left one assignment undone"
        elif leased and row.worker is not None and isinstance(claimed, float) and claimed > self._limit:
            self.drop(row.worker, f"it made no proof in {self._limit:g} s")
            return
        elif row.worker is None and now - max(row.begun, self._taken.get(row.folder, 0.0)) > self._patience:
            row.trouble = (
                f"no worker took an assignment for {self._patience:g} s: see that `ragseal-provider worker run` runs "
                "with this key file and holds the proving key, and whether others' assignments keep all workers busy"
            )
            self._not_taken(row.folder, row.trouble)
        else:
            return
        row.ended.set()

    def _give_up(self, said: str) -> None:
        with self._mutex:
            rows = list(self._waiting.values())
        for row in rows:
            row.trouble = said
            row.ended.set()

    # --- the rest ---

    def drop(self, worker: str, reason: str) -> None:
        """Take nothing more from this name.  The database is told that it is dropped, and not why."""
        shown = printable(worker[:128])
        with self._mutex:
            self._barred.add(worker)
            self._dropped = [*self._dropped, f"{shown}: {printable(reason[:500])}"][-KEPT:]
            self._bad = self._bad + 1 if self._given - self._given_then <= self.places else 1
            self._given_then = self._given
            if self._bad >= BAD:
                self._unmet[""] = (
                    f"{self._bad} workers in a row were dropped: who has the worker key can take new names at will, so "
                    "make a new key (`ragseal-provider worker key`) for those workers that you trust"
                )
                self._shut[""] = time.monotonic() + REST
        log.warning("worker %s is dropped: %s", shown, printable(reason[:500]))
        try:
            self._rows.run(_DROP, (self._key.queue, worker, DROPPED))
            self._rows.run(_FREE, (self._key.queue, worker))
        except AuditError as error:
            log.error("worker %s is not told that it is dropped: %s", shown, error)

    def status(self) -> WorkersStatus:
        with self._mutex:
            trouble = self._away or next(iter(self._unmet.values()), "")
            return WorkersStatus(self._rows.place, self._alive, tuple(self._dropped), trouble)

    def close(self) -> None:
        self._closing.set()
        self._give_up("")
        if not self._away:
            with suppress(AuditError):  # else the next start deletes them
                self._rows.run(_OWN, (self._key.queue, self._provider), AWAY)
        for one in (self._looks, self._puts, self._rows):
            one.close()
        if self._looker is not None:
            self._looker.join(AWAY)
