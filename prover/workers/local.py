# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers as processes of this machine, at the lowest priority: answers keep their cores."""

from __future__ import annotations

import contextlib
import logging
import os
import queue
import socket
import subprocess
import sys
import threading
from pathlib import Path

from ragseal.backends.native import available
from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError, TransportError
from ragseal.kernel.printable import printable
from ragseal.prover.workers.interface import StoppingError, UnreachedError, Work, WorkersStatus, WorkResult
from ragseal.prover.workers.process import receive, send
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.token_key import PIN_VARIABLE

PROGRAM = (sys.executable, "-m", "ragseal.prover.workers.process")
LIMIT = 1800.0  #: seconds for one assignment, the loading of its key and the compiling of its circuit among them
TRIES = 2  #: processes that may end over one assignment
KEPT = 8  #: dropped workers that a status names

log = logging.getLogger("ragseal.provider")


def child_environment() -> dict[str, str]:
    """This process's environment, in which Python finds what this process does, without the PIN of a token."""
    given = {name: value for name, value in os.environ.items() if name != PIN_VARIABLE}
    return {**given, "PYTHONPATH": os.pathsep.join(part for part in sys.path if part)}


class _Process:
    """One worker, started; one thread at a time."""

    def __init__(self, program: tuple[str, ...], keys: Path, threads: int, limit: float) -> None:
        mine, its = socket.socketpair()
        environment = {"RAYON_NUM_THREADS": str(threads), **child_environment()}
        try:
            self._running = subprocess.Popen(
                [*program, str(its.fileno()), str(keys)],
                pass_fds=(its.fileno(),),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                env=environment,
            )
        except OSError as error:
            mine.close()
            raise UnreachedError(f"no worker can be started: {why(error)}") from None
        finally:
            its.close()
        mine.settimeout(limit)
        self._channel = mine
        self.name = f"local-{self._running.pid}"

    @property
    def pid(self) -> int:
        return self._running.pid

    def prove(self, work: bytes) -> WorkResult:
        """Raises OSError, TransportError or EncodingError: it died, is slow, or says what is no result."""
        send(self._channel, work)
        data = receive(self._channel)
        if data is None:
            raise TransportError("it ended")
        return WorkResult.decode(data)

    def end(self) -> None:
        """At once: what it was making is nobody's."""
        with contextlib.suppress(OSError):
            self._channel.shutdown(socket.SHUT_RDWR)  # wakes whoever waits for it
        self._running.kill()
        self._running.wait()
        self._channel.close()


class LocalWorkers:
    """``count`` processes, each started when there is work for it and again when it has died."""

    def __init__(self, count: int, keys: Path, program: tuple[str, ...] = PROGRAM, limit: float = LIMIT) -> None:
        """
        Args:
            keys: the folder of proving keys.
            limit: seconds after which a worker is slow.

        Raises:
            ConfigurationError: no native module, which alone proves in workers.
        """
        if not available() or os.environ.get("RAGSEAL_BACKEND") == "snarkjs":
            raise ConfigurationError("workers prove with the native module only: install it, or use --prove here")
        self._count, self._keys, self._program, self._limit = count, keys.absolute(), program, limit
        self._threads = max(1, len(os.sched_getaffinity(0)) // count)
        self._mutex = threading.Lock()
        self._running: dict[str, _Process] = {}
        self._idle: queue.LifoQueue[_Process | None] = queue.LifoQueue()
        for _ in range(count):
            self._idle.put(None)
        self._dropped: list[str] = []
        self._trouble = ""
        self._closed = False

    @property
    def places(self) -> int:
        return self._count

    def start(self) -> None:
        """Nothing: processes are started when there is work."""

    def pids(self) -> list[int]:
        """The processes that run."""
        with self._mutex:
            return [one.pid for one in self._running.values()]

    def prove(self, work: Work) -> WorkResult:
        data, said = work.encode(), ""
        for _ in range(TRIES):
            process = self._idle.get()
            try:
                if process is None or process.name not in self._running:
                    process = None
                    process = self._started()
                made = process.prove(data)
                if made.worker != process.name:
                    raise EncodingError(f"it says that it is {made.worker!r}")
                self._trouble = ""
                return made
            except (OSError, AuditError) as error:
                if self._closed:
                    raise StoppingError from None
                if process is None:
                    self._trouble = str(error)
                    raise
                slow = isinstance(error, TimeoutError)
                said = f"it made no proof in {self._limit:g} s" if slow else str(error)
                self.drop(process.name, said)
                process = None
            finally:
                alive = process is not None and process.name in self._running
                self._idle.put(process if alive else None)
        self._trouble = f"{TRIES} workers in a row failed over one assignment, the last one because {said}"
        raise UnreachedError(self._trouble)

    def _started(self) -> _Process:
        with self._mutex:
            if self._closed:
                raise StoppingError
            made = _Process(self._program, self._keys, self._threads, self._limit)
            self._running[made.name] = made
            return made

    def drop(self, worker: str, reason: str) -> None:
        reason = printable(reason[:500])
        with self._mutex:
            process = self._running.pop(worker, None)
            self._dropped = [*self._dropped, f"{worker}: {reason}"][-KEPT:]
        log.warning("worker %s is dropped: %s", worker, reason)
        if process is not None:
            process.end()

    def status(self) -> WorkersStatus:
        with self._mutex:
            return WorkersStatus(f"local:{self._count}", len(self._running), tuple(self._dropped), self._trouble)

    def close(self) -> None:
        with self._mutex:
            self._closed = True
            running, self._running = list(self._running.values()), {}
        for process in running:
            process.end()
