# SPDX-License-Identifier: GPL-3.0-or-later
"""Workers on a Ray cluster that do not do what they should: ``python -m tests.workers.ray_others CLASS FD ADDRESS``.

They run on the cluster, in place of the honest one.  HERE names the folder by which a test hears of them.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path
from typing import Any

from ragseal.prover.workers import ray_bridge
from ragseal.prover.workers.interface import WorkResult
from ragseal.prover.workers.process import MAX_FRAME
from ragseal.prover.workers.ray_worker import RayWorker

HERE = "RAGSEAL_TEST_FOLDER"


def note(name: str, text: str) -> None:
    (Path(os.environ[HERE]) / name).write_text(text)


class Leaky(RayWorker):
    """Prints what it is given, as a debugging line would."""

    def prove(self, row: bytes, sealed: bytes) -> bytes:
        assert self._held is not None
        print(int.from_bytes(self._held[0].open_work(row, sealed).inputs[-32:], "big"), flush=True)
        return super().prove(row, sealed)


class Lying(RayWorker):
    """Gives a proof that does not hold."""

    def prove(self, row: bytes, sealed: bytes) -> bytes:
        return self._sealed(row, WorkResult(self._name, bytes(range(256)), ""))

    def _sealed(self, row: bytes, made: WorkResult) -> bytes:
        assert self._held is not None
        return self._held[0].seal_result(row, made, os.urandom)


class Echoing(Lying):
    """Opens what it is given and proves nothing: what is left is what Ray costs."""

    def prove(self, row: bytes, sealed: bytes) -> bytes:
        assert self._held is not None
        self._held[0].open_work(row, sealed)
        return super().prove(row, sealed)


class Renamed(Lying):
    """Speaks in another's name."""

    def prove(self, row: bytes, sealed: bytes) -> bytes:
        return self._sealed(row, WorkResult("honest", bytes(256), ""))


class Elsewhere(Lying):
    """Gives the result of another assignment."""

    def prove(self, row: bytes, sealed: bytes) -> bytes:
        return super().prove(b"another row     ", sealed)


class Long(RayWorker):
    def prove(self, row: bytes, sealed: bytes) -> bytes:
        return bytes(1 << 20)


class Endless(RayWorker):
    """Gives more than one frame between the provider's processes can hold."""

    def prove(self, row: bytes, sealed: bytes) -> bytes:
        return bytes(MAX_FRAME + 1)


class Pickled(RayWorker):
    """Gives what runs a program wherever it is unpickled: each process that does writes its command line."""

    def prove(self, row: bytes, sealed: bytes) -> Any:
        return Runs(os.environ[HERE])


class Runs:
    """Each process that unpickles it is noted, and pickles it again."""

    def __init__(self, folder: str) -> None:
        self._folder = folder

    def __reduce__(self) -> Any:
        return unpickled, (self._folder,)


def unpickled(folder: str) -> Runs:
    with (Path(folder) / "ran").open("a") as file:
        file.write(Path("/proc/self/cmdline").read_text())
    return Runs(folder)


class Sleeping(RayWorker):
    """Says who it is and makes nothing, until there is a file "go"; those that come then are honest."""

    def prove(self, row: bytes, sealed: bytes) -> bytes:
        if not (Path(os.environ[HERE]) / "go").exists():
            note("asleep", str(os.getpid()))
            time.sleep(600)
        return super().prove(row, sealed)


def main() -> None:
    from tests.workers import ray_others  # by its name, as the cluster finds it

    worker = getattr(ray_others, sys.argv.pop(1))
    ray_bridge.ALIVE = ray_bridge.LOOK = 0.3
    ray_bridge.LEAST_WAIT = 0.2
    ray_bridge.main(worker)


if __name__ == "__main__":
    main()
