# SPDX-License-Identifier: GPL-3.0-or-later
"""A window's public files in a folder, and what the TypeScript checks (ledger/web/verify.js, in Node) say of them."""

from __future__ import annotations

import asyncio
import atexit
import json
import select
import shutil
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any

from ragseal.kernel.proofs import ASKED_TOGETHER
from ragseal.ledger.proof_files import batch_path, columns_path, key_path, write_files
from ragseal.ledger.tiles import TileFolder
from tests.simulator import World
from tests.simulator.turning import Turning

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = ROOT / "web" / "verify" / "bin" / "verify-window.mjs"
NODE = shutil.which("node")


class Shown:
    """A world's log as `ragseal-observer export` reads it."""

    def __init__(self, world: World) -> None:
        self._world = world

    async def checkpoint(self) -> bytes:
        return self._world.checkpoint()

    async def rotations(self) -> list[bytes]:
        return [proof.encode() for proof in self._world.proofs()] if isinstance(self._world, Turning) else []

    async def entries(self, start: int, count: int) -> Sequence[bytes]:
        return self._world.entries()[start : start + count]


@dataclass
class Said:
    """A report."""

    state: str
    proven: int
    lines: list[dict[str, str]]
    exit: int = field(default=0)

    def of(self, state: str) -> dict[str, str]:
        """Texts of the lines in a state, by step."""
        return {line["step"]: line["text"] for line in self.lines if line["state"] == state}

    @property
    def bad(self) -> dict[str, str]:
        return self.of("bad")

    @property
    def whose(self) -> list[str]:
        """Who could have made what does not hold."""
        return [line["whose"] for line in self.lines if line["state"] == "bad"]


@dataclass
class Published:
    """A folder of public files and the log's key."""

    folder: Path
    key: str

    def check(self, *options: str) -> Said:
        """What the program says of the folder, in a process of this worker's that goes on to the next one."""
        return self._said(_programs().run([str(self.folder), "--log-key", self.key, "--json", *options]))

    def check_alone(self, *options: str) -> Said:
        """What the program says of the folder as a user starts it."""
        assert NODE is not None
        command = [NODE, str(PROGRAM), str(self.folder), "--log-key", self.key, "--json", *options]
        done = subprocess.run(command, capture_output=True, text=True, timeout=300)
        return self._said({"status": done.returncode, "out": done.stdout, "err": done.stderr})

    @staticmethod
    def _said(done: dict[str, Any]) -> Said:
        assert done["status"] in (0, 1, 3), done["err"]
        found: dict[str, Any] = json.loads(done["out"])
        return Said(found["state"], found["proven"], found["lines"], done["status"])

    def only(self, pattern: str) -> Path:
        """The one file that matches."""
        (found,) = self.folder.glob(pattern)
        return found


class Programs:
    """tests/web/programs.mjs: one Node process for many runs of the program."""

    def __init__(self) -> None:
        assert NODE is not None
        command = [NODE, str(Path(__file__).with_name("programs.mjs"))]
        self._node = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        atexit.register(self._node.kill)

    def run(self, arguments: Sequence[str]) -> dict[str, Any]:
        """Status, output and errors of one run."""
        assert self._node.stdin is not None
        assert self._node.stdout is not None
        self._node.stdin.write(json.dumps(arguments) + "\n")
        self._node.stdin.flush()
        ready, _, _ = select.select([self._node.stdout], [], [], 300)
        line = self._node.stdout.readline() if ready else ""
        if not line:
            _programs.cache_clear()  # the next run has another process
            self._node.kill()
            raise AssertionError(f"Node does not answer to {arguments}")
        found: dict[str, Any] = json.loads(line)
        return found


@cache
def _programs() -> Programs:
    return Programs()


def publish(world: World, folder: Path, *, with_proofs: bool = True) -> Published:
    """All public files of a world's newest window."""
    published = Published(folder, world.signer.verifier.vkey())
    export_log(world, folder)
    files = {key_path(world.key.digest): world.key.vk.to_bytes()}
    files |= {columns_path(one.columns_digest()): one.encode() for one in world.files.values()}
    seqs = [record.seq for record in world.records()]
    for first in range(0, len(seqs) if with_proofs else 0, ASKED_TOGETHER):
        batch = world.tamper_batch(world.batch(world.digest, seqs[first : first + ASKED_TOGETHER]))
        files[batch_path(world.digest, first)] = batch.encode()
    write_files(folder, files)
    return published


def export_log(world: World, folder: Path) -> None:
    """The log's tiles, into a new place."""
    for old in (folder / "tile", folder / "checkpoint", folder / ".sizes.json"):
        shutil.rmtree(old) if old.is_dir() else old.unlink(missing_ok=True)
    tiles = TileFolder(folder, world.signer.verifier)
    try:
        shown: Any = Shown(world)
        asyncio.run(tiles.update(shown))
    finally:
        tiles.close()
