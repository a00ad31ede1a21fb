# SPDX-License-Identifier: GPL-3.0-or-later
"""A cluster of as many nodes as one likes, in one process: ``python -m tests.workers.many_nodes FOLDER FD ADDRESS``.

The bridge is the real one; what it speaks with stands in for Ray.  An actor takes FOLDER/seconds for what is no proof.
FOLDER/nodes says how many nodes there are, now; FOLDER/told is what they do: see :class:`Told`.
"""

from __future__ import annotations

import heapq
import itertools
import json
import os
import secrets
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

from ragseal.prover.workers import ray_bridge
from ragseal.prover.workers.interface import Work, WorkResult
from ragseal.prover.workers.ray_engine import RayWorkers
from ragseal.prover.workers.sealed_rows import RowKey
from tests.classes import TINY

KEY = RowKey(bytes(range(32)))
WORK = Work(TINY.name, bytes(32), bytes(32 * 8))
HELD = f"{TINY.name}-{bytes(12).hex()}"


@dataclass
class Told:
    """What the nodes of a cluster do."""

    proving: int = 0
    most: int = 0  #: at once, so far
    done: int = 0
    waits: int = 0  #: calls of Ray's that wait, at once, at most


# --- in the bridge's process -----------------------------------------------------------------------------------------


@dataclass(eq=False)
class Ref:
    """An answer of an actor, once it is there."""

    made: Callable[[], bytes]
    ends: Callable[[], None]
    there: bool = False


@dataclass
class Clock:
    """Answers come when their time is over."""

    due: list[tuple[float, int, Ref]] = field(default_factory=list)
    changed: threading.Condition = field(default_factory=threading.Condition)
    count: Iterator[int] = field(default_factory=itertools.count)
    told: Told = field(default_factory=Told)

    def after(self, seconds: float, made: Callable[[], bytes], ends: Callable[[], None] = lambda: None) -> Ref:
        ref = Ref(made, ends)
        with self.changed:
            heapq.heappush(self.due, (time.monotonic() + seconds, next(self.count), ref))
            self.changed.notify_all()
        return ref

    def run(self) -> None:
        with self.changed:
            while True:
                now = time.monotonic()
                while self.due and self.due[0][0] <= now:
                    ref = heapq.heappop(self.due)[2]
                    ref.there = True
                    ref.ends()
                    self.changed.notify_all()
                self.changed.wait(self.due[0][0] - now if self.due else None)

    def wait(self, refs: list[Ref], num_returns: int, timeout: float) -> tuple[list[Ref], list[Ref]]:
        end = time.monotonic() + timeout
        with self.changed:
            while len(there := [one for one in refs if one.there]) < num_returns:
                if not self.changed.wait(max(0.0, end - time.monotonic())):
                    break
        return there, [one for one in refs if not one.there]


class Actor:
    def __init__(self, clock: Clock, name: str, seconds: Path) -> None:
        self._clock, self._name, self._seconds = clock, name, seconds
        told = json.dumps({"queue": KEY.queue, "keys": [HELD], "trouble": ""}).encode()
        self.ready = SimpleNamespace(remote=lambda: clock.after(0.0, lambda: told))
        self.prove = SimpleNamespace(remote=self._prove)

    def _prove(self, row: bytes, sealed: bytes) -> Ref:
        told = self._clock.told
        with self._clock.changed:
            told.proving += 1
            told.most = max(told.most, told.proving)

        def ends() -> None:
            told.proving, told.done = told.proving - 1, told.done + 1

        def made() -> bytes:
            KEY.open_work(row, sealed)
            return KEY.seal_result(row, WorkResult(self._name, bytes(256), ""), secrets.token_bytes)

        return self._clock.after(float(self._seconds.read_text()), made, ends)


def stand_in(folder: Path) -> ModuleType:
    """What the bridge imports as ``ray``."""
    clock, waiting = Clock(), threading.Semaphore(1)
    threading.Thread(target=clock.run, daemon=True).start()

    def nodes() -> list[dict[str, Any]]:
        count = int((folder / "nodes").read_text())
        one = {"Alive": True, "Resources": {"CPU": 1.0}}
        return [{**one, "NodeID": f"node-{n}", "NodeManagerHostname": f"host-{n}"} for n in range(count)]

    def wait(refs: list[Ref], num_returns: int, timeout: float) -> tuple[list[Ref], list[Ref]]:
        alone = waiting.acquire(blocking=False)
        clock.told.waits = max(clock.told.waits, 1 if alone else 2)
        try:
            return clock.wait(refs, num_returns, timeout)
        finally:
            if alone:
                waiting.release()

    def tell() -> None:
        while True:
            (folder / "told.new").write_text(json.dumps(asdict(clock.told)))
            (folder / "told.new").rename(folder / "told")
            time.sleep(0.02)

    def remote(_: type) -> Any:
        made = SimpleNamespace(remote=lambda name: Actor(clock, name, folder / "seconds"))
        return SimpleNamespace(options=lambda **_: made)

    threading.Thread(target=tell, daemon=True).start()
    ray = ModuleType("ray")
    ray.__dict__.update(
        init=lambda *_, **__: None, nodes=nodes, wait=wait, get=lambda ref: ref.made(), remote=remote,
        kill=lambda _: None, shutdown=lambda: None,
    )  # fmt: skip
    return ray


def main() -> None:
    folder = Path(sys.argv.pop(1))
    strategies = ModuleType("ray.util.scheduling_strategies")
    strategies.__dict__["NodeAffinitySchedulingStrategy"] = lambda *_, **__: None
    sys.modules["ray"], sys.modules["ray.util"] = stand_in(folder), ModuleType("ray.util")
    sys.modules["ray.util.scheduling_strategies"] = strategies
    ray_bridge.LOOK = 0.1
    ray_bridge.main()


# --- in the provider's -----------------------------------------------------------------------------------------------


@dataclass
class Cluster:
    """The nodes, and the provider's side of them."""

    folder: Path
    workers: RayWorkers

    def grow_to(self, nodes: int) -> None:
        _put(self.folder / "nodes", str(nodes))

    @property
    def told(self) -> Told:
        with suppress(FileNotFoundError):
            return Told(**json.loads((self.folder / "told").read_text()))
        return Told()


def _put(path: Path, text: str) -> None:
    path.with_suffix(".new").write_text(text)
    path.with_suffix(".new").rename(path)


@contextmanager
def many_nodes(folder: Path, nodes: int, seconds: float) -> Iterator[Cluster]:
    """So many nodes that take so long for an assignment."""
    _put(folder / "nodes", str(nodes))
    _put(folder / "seconds", str(seconds))
    program = (sys.executable, "-m", "tests.workers.many_nodes", os.fspath(folder))
    workers = RayWorkers("ray://127.0.0.1:1", KEY, program=program)
    workers.start()
    try:
        yield Cluster(folder, workers)
    finally:
        workers.close()


if __name__ == "__main__":
    main()
