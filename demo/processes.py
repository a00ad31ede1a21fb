# SPDX-License-Identifier: GPL-3.0-or-later
"""Real processes on loopback: started with a log file each, watched, and stopped whatever happens."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from types import TracebackType
from typing import IO, Any, Self

from ragseal.kernel.errors import ConfigurationError

STOP_SECONDS = 20.0


def free_port() -> int:
    """A loopback port that nobody listens on right now."""
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def command(part: str, *arguments: str) -> list[str]:
    """The command line of one of ragseal's programs, run by this very Python."""
    return [sys.executable, "-m", f"ragseal.{part}", *arguments]


def run(part: str, *arguments: str, show: bool = False, accept: tuple[int, ...] = (0,)) -> dict[str, Any]:
    """Run a program to its end and return the JSON object it prints; its progress goes to this terminal if ``show``.

    ``accept``: exit codes that are results (an auditor's FAIL is one).

    Raises:
        ConfigurationError: it failed; the message is its own.
    """
    done = subprocess.run(
        command(part, *arguments, "--json"), stdout=subprocess.PIPE, stderr=None if show else subprocess.PIPE, text=True
    )
    if done.returncode not in accept:
        said = "" if show else (done.stderr or "").strip()[-2000:]
        raise ConfigurationError(f"ragseal {part} {arguments[0]} failed: {said}")
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    try:
        found: dict[str, Any] = json.loads(lines[-1]) if lines else {}
    except ValueError:
        raise ConfigurationError(f"ragseal {part} {arguments[0]} printed no JSON") from None
    return found


class Running:
    """Background programs; leaving the block stops them all, the last one started first."""

    def __init__(self, logs: Path) -> None:
        self._logs = logs
        self._started: list[tuple[str, subprocess.Popen[bytes], IO[bytes]]] = []
        logs.mkdir(parents=True, exist_ok=True)

    def start(self, name: str, part: str, *arguments: str, ready: int | None = None) -> None:
        """Start a program; with ``ready`` wait until it listens on that port.

        Raises:
            ConfigurationError: it ended early; the message carries the end of its log.
        """
        log = open(self._logs / f"{name}.log", "wb")  # noqa: SIM115 - closed by __exit__
        process = subprocess.Popen(command(part, *arguments), stdout=log, stderr=subprocess.STDOUT)
        self._started.append((name, process, log))
        deadline = time.monotonic() + 300
        while ready is not None:
            self.check()
            with socket.socket() as s:
                s.settimeout(1)
                if s.connect_ex(("127.0.0.1", ready)) == 0:
                    return
            if time.monotonic() > deadline:
                raise ConfigurationError(f"{name} does not listen after five minutes; see {self._logs / name}.log")
            time.sleep(0.1)

    def processor_seconds(self, name: str) -> float:
        """Processor time that a program and all its descendants have used so far; 0 where no /proc says it."""
        pid = next(process.pid for one, process, _ in self._started if one == name)
        ticks, parents = {}, {}
        for stat in Path("/proc").glob("[0-9]*/stat"):
            try:
                fields = stat.read_text().rpartition(")")[2].split()
            except OSError:
                continue  # it has ended: its parent has its time
            own = int(stat.parent.name)
            parents[own], ticks[own] = int(fields[1]), sum(map(int, fields[11:15]))  # with ended children's
        family = {pid}
        while more := {one for one, parent in parents.items() if parent in family} - family:
            family |= more
        return sum(ticks.get(one, 0) for one in family) / os.sysconf("SC_CLK_TCK")

    def check(self) -> None:
        """Raises ConfigurationError if a program has ended."""
        for name, process, _ in self._started:
            if process.poll() is not None:
                tail = (self._logs / f"{name}.log").read_text(errors="replace").strip()[-1500:]
                raise ConfigurationError(f"{name} ended with status {process.returncode}:\n{tail}")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        for _, process, _log in reversed(self._started):
            process.terminate()
        deadline = time.monotonic() + STOP_SECONDS
        for _, process, log in reversed(self._started):
            try:
                process.wait(max(0.1, deadline - time.monotonic()))
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
            log.close()
