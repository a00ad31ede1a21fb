# SPDX-License-Identifier: GPL-3.0-or-later
"""What checking in public costs: a window's proofs in a browser's engine, and following a log of a million entries.

``python -m bench.public`` writes bench/results/public.json.  The checks are those of the observer's page, run by Node;
the window has real keys and proofs of the smallest class, made anew, and its public files lie in a folder.  The
observer is the real one, with its memory in a folder; the log that it follows is in this process, so no network is in
the figures.

Targets: a record's proof within 0.2 s, and a window of 1,000 records within 3 minutes.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import click
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.experiment import RESULTS, ROOT, machine, save
from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.checkpoint import Checkpoint
from ragseal.ledger.merkle import MerkleTree
from ragseal.ledger.note import COSIGNATURE, NoteSigner
from ragseal.ledger.observer import Observer
from ragseal.ledger.witness import Witness

PROGRAM = ROOT / "web" / "verify" / "bin" / "verify-window.mjs"
SECONDS_A_RECORD, SECONDS_A_WINDOW, WINDOW = 0.2, 180.0, 1000
ENTRY_BYTES = 300  #: about those of a record
SECONDS_A_QUERY = 30  #: by the simulated clock
LOOK = 1000  #: entries between two looks
_ACCOUNTS = ("alice", "carol", "bob")


# --- a browser's checks ----------------------------------------------------------------------------------------------


def published(folder: Path, records: int) -> str:
    """A closed window with real proofs as public files; gives the log's key."""
    from tests.attacks.machine import policy
    from tests.attacks.world import AttackWorld
    from tests.simulator.parties import OPENS
    from tests.web.published import publish

    world, closes = AttackWorld(), OPENS + 3600 + SECONDS_A_QUERY * records
    world.commit(policy_=policy(n_max=records, closes=closes))
    for number in range(records):
        world.ask(_ACCOUNTS[number % len(_ACCOUNTS)])
    world.close(closes)
    return publish(world, folder).key


def checked(folder: Path, key: str, records: int) -> dict[str, Any]:
    """Seconds by the clock and of processor time for a window, of which everything holds."""
    node = shutil.which("node")
    if node is None:
        raise ConfigurationError("Node.js is not installed: the browser's checks cannot be run")
    before, began = resource.getrusage(resource.RUSAGE_CHILDREN), time.perf_counter()
    command = [node, str(PROGRAM), str(folder), "--log-key", key, "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    seconds, after = time.perf_counter() - began, resource.getrusage(resource.RUSAGE_CHILDREN)
    report = json.loads(done.stdout) if done.returncode in (0, 1, 3) else {}
    if (report.get("state"), report.get("proven")) != ("good", records):
        raise ConfigurationError(f"the window does not hold in Node: {done.stdout[-500:]}{done.stderr[-500:]}")
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    bytes_ = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
    return {"records": records, "seconds": round(seconds, 3), "cpu_seconds": round(cpu, 3), "bytes": bytes_}


def browser(records: int, few: int) -> dict[str, Any]:
    """Two windows: what a record costs is their difference, and the rest is the window's."""
    samples = []
    for count in (few, records):
        with tempfile.TemporaryDirectory() as folder:
            samples.append(checked(Path(folder), published(Path(folder), count), count))
    small, large = samples
    each = {
        name: (large[name] - small[name]) / (large["records"] - small["records"]) for name in ("seconds", "cpu_seconds")
    }
    rest = small["seconds"] - small["records"] * each["seconds"]
    whole = rest + WINDOW * each["seconds"] if records != WINDOW else large["seconds"]
    return {
        "record_seconds": round(each["seconds"], 4),
        "record_cpu_seconds": round(each["cpu_seconds"], 4),
        "window_besides_seconds": round(rest, 3),
        "window_of_1000_seconds": round(whole, 2),
        "window_of_1000_measured": records == WINDOW,
        "holds": {
            "record_within_0.2_s": each["seconds"] <= SECONDS_A_RECORD,
            "1000_records_within_180_s": whole <= SECONDS_A_WINDOW,
        },
        "samples": samples,
    }


# --- an observer -----------------------------------------------------------------------------------------------------


class Growing:
    """A log of made-up entries as an observer reads it, in this process."""

    def __init__(self, entries: int) -> None:
        self.signer = NoteSigner("bench.example/public", Ed25519PrivateKey.generate())
        self._entries = [number.to_bytes(8, "big") + bytes(ENTRY_BYTES - 8) for number in range(entries)]
        self._tree = MerkleTree(self._entries)
        self.size = entries

    async def checkpoint(self) -> bytes:
        return Checkpoint(self.signer.name, self.size, self._tree.root(self.size)).sign(self.signer)

    async def rotations(self) -> list[bytes]:
        return []

    async def cosigned(self) -> bytes | None:
        return None

    async def entries(self, start: int, count: int) -> list[bytes]:
        return self._entries[start : start + count]

    async def consistency(self, old: int, new: int) -> list[bytes]:
        return self._tree.consistency(old, new)

    async def add_cosignature(self, size: int, witness: str, line: str) -> None:
        pass


def observer(entries: int) -> dict[str, Any]:
    """The first look at a log, one at what came since, one at nothing new; and what the observer keeps of it."""
    look, log = min(LOOK, entries // 2), Growing(entries)
    with tempfile.TemporaryDirectory() as folder:
        state = Path(folder)
        signer = NoteSigner("o.example", Ed25519PrivateKey.generate(), COSIGNATURE)
        witness = Witness(state, signer)
        remote: Any = log
        follower = Observer(remote, log.signer.verifier, state, witness, time.time)
        seconds = {}
        try:
            for name, size in (("first", entries - look), ("next", entries), ("again", entries)):
                log.size = size
                began = time.perf_counter()
                step = asyncio.run(follower.step())
                seconds[name] = round(time.perf_counter() - began, 4)
                if step.size != size:
                    raise ConfigurationError(f"the observer has {step.size} of {size} entries")
        finally:
            witness.close()
        kept = {path.name.rpartition(".")[2]: path.stat().st_size for path in state.iterdir() if path.is_file()}
    return {
        "entries": entries,
        "entry_bytes": ENTRY_BYTES,
        "state_bytes": sum(kept.values()),
        "state_files": kept,
        "first_look_seconds": seconds["first"],
        "look_at_new_seconds": seconds["next"],
        "look_at_new_entries": look,
        "look_at_nothing_seconds": seconds["again"],
    }


@click.command()
@click.option("--records", type=click.IntRange(min=2), default=WINDOW, show_default=True, help="Of the larger window.")
@click.option("--few", type=click.IntRange(min=1), default=10, show_default=True, help="Of the smaller one.")
@click.option(
    "--entries", type=click.IntRange(min=2), default=1_000_000, show_default=True, help="Of the log followed."
)
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=RESULTS, show_default="bench/results")
def main(records: int, few: int, entries: int, out: Path) -> None:
    """Measure and write public.json.  Making the proofs of 1,000 records takes minutes."""
    if few >= records:
        raise click.UsageError("--few is smaller than --records: what a record costs is their difference")
    found = {"machine": machine(), "busy": os.getloadavg()[0] > (os.cpu_count() or 1) / 2}
    found |= {"observer": observer(entries), "browser": browser(records, few)}
    out.mkdir(parents=True, exist_ok=True)
    save(out / "public.json", found)
    click.echo(json.dumps({name: found[name] for name in ("busy", "observer", "browser")}, indent=1))


if __name__ == "__main__":
    main()
