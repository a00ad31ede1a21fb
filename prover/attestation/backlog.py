# SPDX-License-Identifier: GPL-3.0-or-later
"""Records that wait for their proofs, proven in the background as many at once as there are workers for.

It keeps nothing: what is queued and what is under way follows from the ledger and the proofs at every start.  A record
whose proof failed is tried again, after waits that double: what failed may be a disk, a missing file, a stopped key.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from ragseal.kernel.errors import AuditError
from ragseal.prover.workers.crew import Crew
from ragseal.prover.workers.interface import HERE, StoppingError, UnreachedError, Workers
from ragseal.runtime.face import when

LEAST_WAIT, LONGEST_WAIT = 1.0, 60.0  #: seconds until workers that were not reached are tried again
AGAIN, LONGEST_AGAIN = 5.0, 600.0  #: seconds until a record whose proof failed is tried again, the first and any time
SAY_SECONDS = 3600.0  #: after which the log tells the same cause once more
CAUSES = 5  #: of failures that are told, those of most records

Job = tuple[bytes, int]  #: manifest and seq

log = logging.getLogger("ragseal.provider")


class Backlog:
    """Proves what is submitted.  Methods may be called from any thread."""

    def __init__(
        self, prove: Callable[[bytes, int], object], workers: Workers | None, places: Callable[[], int] = lambda: 1
    ) -> None:
        """
        Args:
            prove: one record; UnreachedError where it is to be tried again.
            workers: who makes the proofs; None: the process itself.
            places: how many records are proven at once; asked as it goes.
        """
        self._prove, self._workers = prove, workers
        self._crew: Crew[Callable[[], None]] = Crew(places, "proofs", begun=False)
        self._stopping = threading.Event()
        self._mutex = threading.Lock()
        self._own = threading.local()  #: of each thread: how long it waits where no worker is reached
        self._left = 0  #: queued or under way
        self._failing: dict[Job, tuple[str, float]] = {}  #: why the newest try of a record failed, and its next wait
        self._again: list[tuple[float, Job]] = []  #: when records are tried again, monotonic
        self._last, self._said = "", dict[str, float]()  #: the newest cause; when each was told
        self._since, self._made = 0.0, 0  #: when the backlog began, monotonic, and how many of it are done
        self._rate = 0.0  #: proofs a second

    def submit(self, manifest: bytes, seq: int) -> None:
        """Queue a record."""
        with self._mutex:
            if not self._left:
                self._since, self._made = time.monotonic(), 0
            self._left += 1
        self._line((manifest, seq))

    def _line(self, job: Job) -> None:
        with suppress(StoppingError):  # it is made after the next start
            self._crew.submit(partial(self._run, job))

    def start(self, jobs: Iterable[Job]) -> None:
        """Begin, with what a restart left unproven."""
        for job in jobs:
            self.submit(*job)
        self._crew.begin()

    def stop(self, timeout: float = 60.0) -> None:
        """Let each thread finish the proof at hand; what is queued is made after the next start."""
        self._stopping.set()
        self._crew.stop()
        self._crew.join(timeout)

    def _run(self, job: Job) -> None:
        try:
            self._prove(*job)
            self._own.wait = LEAST_WAIT
        except StoppingError:
            self._crew.stop()
            return
        except UnreachedError:  # the engine has said so
            self._line(job)
            wait = getattr(self._own, "wait", LEAST_WAIT)
            self._stopping.wait(wait)
            self._own.wait = min(2 * wait, LONGEST_WAIT)
            return
        except AuditError as error:
            return self._failed(job, str(error))
        except Exception as error:  # the backlog must outlive a bug; details could hold secrets
            return self._failed(job, type(error).__name__)
        with self._mutex:
            if self._failing.pop(job, None) is not None and not self._failing:
                log.info("proofs that had failed are made")
            self._left, self._made = self._left - 1, self._made + 1
            self._rate = self._made / max(time.monotonic() - self._since, 1e-3)

    def _failed(self, job: Job, cause: str) -> None:
        """Count it, tell the log of a new cause, and have it tried again."""
        now = time.monotonic()
        with self._mutex:
            wait = self._failing.get(job, ("", AGAIN))[1]
            self._failing[job] = cause, min(2 * wait, LONGEST_AGAIN)
            self._last = cause
            begins = not self._again
            self._again.append((now + wait, job))
            said = self._said.get(cause)
            tell = said is None or now >= said + SAY_SECONDS
            if tell:
                self._said[cause] = now
        if tell:
            log.error("no proof of record %d: %s; it is tried again, and `status` counts such records", job[1], cause)
        if begins:
            threading.Thread(target=self._try_again, name="proofs-again", daemon=True).start()

    def _try_again(self) -> None:
        """Queue failed records as their time comes, until none waits."""
        while True:
            with self._mutex:
                now = time.monotonic()
                due = [job for at, job in self._again if at <= now]
                self._again = [(at, job) for at, job in self._again if at > now]
                left = min((at for at, _ in self._again), default=None)
            for job in due:
                self._line(job)
            if left is None or self._stopping.wait(max(0.0, left - now)):
                return

    def status(self, now: float) -> dict[str, Any]:
        """How much is left, how fast it goes, and when it is done: for ``status``, and for metrics.

        Args:
            now: seconds since 1970.

        Returns:
            engine; workers alive; left; proofs_per_hour; done_by, seconds since 1970 or None where that is not known;
            dropped, with reasons; trouble, empty where there is none; failing, of the records left those whose newest
            try failed, with causes, the number of records of each; last_failure.
        """
        with self._mutex:
            left, rate = self._left, self._rate
            causes = Counter(cause for cause, _ in self._failing.values())
            last = self._last if causes else ""
        values: dict[str, Any] = {"engine": HERE, "workers": 0, "dropped": [], "trouble": ""}
        if self._workers is not None:
            told = self._workers.status()
            values = {
                "engine": told.engine,
                "workers": told.workers,
                "dropped": list(told.dropped),
                "trouble": told.trouble,
            }
        known = bool(rate) and not values["trouble"]
        done_by = now if not left else now + left / rate if known else None
        return {
            **values,
            "left": left,
            "proofs_per_hour": round(3600 * rate, 1),
            "done_by": done_by,
            "failing": causes.total(),
            "causes": dict(causes.most_common(CAUSES)),
            "last_failure": last,
        }


def lines(proving: dict[str, Any]) -> Iterator[str]:
    """What :meth:`Backlog.status` says, for people."""
    workers = "" if proving["engine"] == HERE else f", {proving['workers']} workers"
    left = f"{proving['left']} wait for their proof" if proving["left"] else "none waits"
    if proving["left"] and proving["done_by"] is not None:
        left += f", at {proving['proofs_per_hour']:g} an hour until {when(int(proving['done_by']))}"
    yield f"proofs: {proving['engine']}{workers}; of the records in the background {left}"
    yield from (f"   dropped: worker {one}" for one in proving["dropped"])
