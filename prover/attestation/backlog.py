# SPDX-License-Identifier: GPL-3.0-or-later
"""Records that wait for their proofs, proven in the background as many at once as there are workers for.

It keeps nothing: what is queued and what is under way follows from the ledger and the proofs at every start.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any

from ragseal.kernel.errors import AuditError
from ragseal.prover.workers.crew import Crew
from ragseal.prover.workers.interface import HERE, StoppingError, UnreachedError, Workers
from ragseal.runtime.face import when

LEAST_WAIT, LONGEST_WAIT = 1.0, 60.0  #: seconds until workers that were not reached are tried again

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
            log.error("no proof of record %d: %s", job[1], error)
        except Exception as error:  # the backlog must outlive a bug; details could hold secrets
            log.error("no proof of record %d: %s", job[1], type(error).__name__)
        with self._mutex:
            self._left, self._made = self._left - 1, self._made + 1
            self._rate = self._made / max(time.monotonic() - self._since, 1e-3)

    def status(self, now: float) -> dict[str, Any]:
        """How much is left, how fast it goes, and when it is done: for ``status``, and for metrics.

        Args:
            now: seconds since 1970.

        Returns:
            engine; workers alive; left; proofs_per_hour; done_by, seconds since 1970 or None where that is not known;
            dropped, with reasons; trouble, empty where there is none.
        """
        with self._mutex:
            left, rate = self._left, self._rate
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
        return {**values, "left": left, "proofs_per_hour": round(3600 * rate, 1), "done_by": done_by}


def lines(proving: dict[str, Any]) -> Iterator[str]:
    """What :meth:`Backlog.status` says, for people."""
    workers = "" if proving["engine"] == HERE else f", {proving['workers']} workers"
    left = f"{proving['left']} wait for their proof" if proving["left"] else "none waits"
    if proving["left"] and proving["done_by"] is not None:
        left += f", at {proving['proofs_per_hour']:g} an hour until {when(int(proving['done_by']))}"
    yield f"proofs: {proving['engine']}{workers}; of the records in the background {left}"
    yield from (f"   dropped: worker {one}" for one in proving["dropped"])
