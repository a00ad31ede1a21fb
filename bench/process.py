# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider as a real process: ``python -m bench.process STATE``, or the real ``ragseal-provider serve``.

What differs from ``serve`` is where query vectors come from (:class:`bench.scene.TableEmbedder`), and that the public
log shows records at once, since a round of kills is shorter than the coarse tick; with ``--profile`` the process writes
what its threads did where its time went.
"""

from __future__ import annotations

import asyncio
import dataclasses
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import click

from bench.scene import ROOT, TableEmbedder, table_path
from ragseal.prover.commitment.beacon import BeaconRules
from ragseal.prover.fsck import fsck
from ragseal.prover.provider import assembly
from ragseal.prover.provider.provider import Provider
from ragseal.prover.serving.serving import ServeOptions
from ragseal.prover.storage.state import State
from ragseal.prover.wire import service

START_SECONDS = 120.0


def child_environment() -> dict[str, str]:
    """Compiled Python is kept for the next start: half of a start would else be spent on it."""
    kept = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    return {**kept, "PYTHONPYCACHEPREFIX": str(ROOT / "var" / "bench" / "pycache")}


class Process:
    """A started provider; its first line of output is its address.  Leaving the block kills it if it still runs."""

    def __init__(self, state: Path, *arguments: str, serve: bool = False, tick: float = 0.0) -> None:
        """With ``serve`` it is ``ragseal-provider serve``, the embedder included."""
        common = ["--proofs", "on-demand", "--tick", str(tick)]
        if serve:
            command = ["-m", "ragseal.prover", "serve", "--state", str(state), "--listen", "127.0.0.1:0", "--json"]
            command += [*common, *arguments]
        else:
            command = ["-m", "bench.process", str(state), "--tick", str(tick), *arguments]
        self.log = state.parent / f"{state.name}.log"
        with open(self.log, "ab") as log:
            self.popen = subprocess.Popen(
                [sys.executable, *command],
                stdout=subprocess.PIPE,
                stderr=log,
                cwd=ROOT,
                env=child_environment(),
                text=True,
            )
        self.address = ""

    def wait_until_ready(self) -> str:
        """The address, once calls are taken; RuntimeError if it ended instead."""
        assert self.popen.stdout is not None
        for line in self.popen.stdout:
            if line.startswith("{") and "listening" in line:
                self.address = json.loads(line)["listening"]
                return self.address
        self.popen.wait()
        raise RuntimeError(f"the provider ended with {self.popen.returncode}: {self.log.read_text()[-2000:]}")

    def cpu_seconds(self) -> float:
        """Processor time of all its threads until now, user and system."""
        fields = Path(f"/proc/{self.popen.pid}/stat").read_text().rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def kill(self) -> None:
        self.popen.send_signal(signal.SIGKILL)
        self.popen.wait()

    def stop(self) -> int:
        """SIGTERM, and its exit status."""
        self.popen.send_signal(signal.SIGTERM)
        return self.popen.wait(30)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.popen.poll() is None:
            self.kill()
        if self.popen.stdout is not None:
            self.popen.stdout.close()


def _sample(target: Path, ending: threading.Event) -> None:
    """A sampling profile of every thread, on CPU or waiting: stacks counted 200 times a second."""
    counts: dict[str, int] = {}
    own = threading.get_ident()
    while not ending.wait(0.005):
        for thread, frame in sys._current_frames().items():
            if thread == own:
                continue
            stack: list[str] = []
            at: Any = frame
            while at is not None:
                code = at.f_code
                stack.append(f"{Path(code.co_filename).name}:{code.co_qualname}:{at.f_lineno}")
                at = at.f_back
            key = ";".join(reversed(stack))
            counts[key] = counts.get(key, 0) + 1
    lines = [f"{count} {stack}" for stack, count in sorted(counts.items(), key=lambda item: -item[1])]
    target.write_text("\n".join(lines))


@click.command()
@click.argument("directory", type=click.Path(path_type=Path, exists=True, file_okay=False))
@click.option("--tick", type=float, default=0.0)
@click.option("--listen", default="127.0.0.1:0")
@click.option("--profile", type=click.Path(path_type=Path), help="Write sampled stacks here at the end.")
def main(directory: Path, tick: float, listen: str, profile: Path | None) -> None:
    """Serve the newest window of a state folder until SIGTERM, as `serve` does."""
    began = time.monotonic()
    ending = threading.Event()
    if profile is not None:
        threading.Thread(target=_sample, args=(profile, ending), daemon=False).start()
    state = State(directory)
    tools = dataclasses.replace(assembly.assemble(state, lambda _: None), embedder=TableEmbedder(table_path()))
    provider = Provider(state, tools)
    try:
        fsck.check_start(provider)

        def ready(address: str, tiles: str) -> None:
            click.echo(json.dumps({"listening": address, "seconds": round(time.monotonic() - began, 3)}))
            sys.stdout.flush()

        serve_options = ServeOptions(eager=False, tick=tick, beacon=BeaconRules(1, 60.0), publish=0)
        asyncio.run(service.run(provider, serve_options, service.Listening(listen), ready))
    finally:
        ending.set()
        provider.close()


if __name__ == "__main__":
    main()
