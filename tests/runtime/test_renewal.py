# SPDX-License-Identifier: GPL-3.0-or-later
"""Every program that serves takes renewed certificate files at SIGHUP, and none ends by one while it starts."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from ragseal.client.gateway import commands as gateway
from ragseal.ledger import witness_command
from ragseal.ledger.note import ED25519, NoteSigner
from ragseal.verifier import __main__ as verifier
from ragseal.verifier.cli import verdict_log_commands as log_commands
from ragseal.verifier.folder.state import State
from ragseal.verifier.service import service
from tests.runtime.certificates import Authority
from tests.runtime.test_certificates import name_at, put
from tests.simulator.provider import account_key

pytestmark = pytest.mark.slow

LOG = NoteSigner("log.example/renewal", account_key("log"), ED25519).verifier.vkey()


def _auditor(folder: Path) -> list[str]:
    State.create(folder, account_key("auditor"))
    return ["ragseal.verifier", "serve", "--state", str(folder)]


def _verdicts(folder: Path) -> list[str]:
    State.create(folder, account_key("auditor"))
    return ["ragseal.verifier", "verdict", "log", "serve", "--state", str(folder)]


def _witness(folder: Path) -> list[str]:
    command = [sys.executable, "-m", "ragseal.ledger", "keygen", "--name", "w.example", "--state", str(folder)]
    subprocess.run(command, check=True, capture_output=True, timeout=120)
    return ["ragseal.ledger", "witness", "--state", str(folder), "--log", LOG]


SERVERS: dict[str, tuple[Callable[[Path], list[str]], str]] = {
    "auditor": (_auditor, "h2"),
    "log of verdicts": (_verdicts, "h2"),
    "witness": (_witness, "http/1.1"),
}


@pytest.mark.parametrize("which", SERVERS)
def test_a_program_shows_its_renewed_certificate(tmp_path: Path, which: str) -> None:
    make, protocol = SERVERS[which]
    ours = Authority(tmp_path, "ours")
    files = tmp_path / "tls.pem", tmp_path / "tls.key"
    put(ours.certificate("first"), files)
    command = [sys.executable, "-m", *make(tmp_path / "state"), "--listen", "127.0.0.1:0", "--json"]
    command += ["--tls-cert", str(files[0]), "--tls-key", str(files[1])]
    running = subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        assert running.stdout is not None
        port = int(json.loads(running.stdout.readline())["listening"].rpartition(":")[2])
        assert name_at(port, protocol) == "first"
        put(ours.certificate("second"), files)
        running.send_signal(signal.SIGHUP)
        end = time.monotonic() + 8  # before it would look by itself
        while name_at(port, protocol) != "second":
            assert time.monotonic() < end, "it goes on with the old one"
            time.sleep(0.1)
        running.send_signal(signal.SIGTERM)
        assert running.wait(60) == 0
    finally:
        running.kill()
        running.communicate()


def _hangs_up(*_: Any, **__: Any) -> None:
    os.kill(os.getpid(), signal.SIGHUP)
    raise click.ClickException("so far")


STARTS: dict[str, tuple[Any, str, Any, Callable[[Path], list[str]]]] = {
    "auditor": (service, "run", verifier.main, lambda folder: _auditor(folder)[1:]),
    "log of verdicts": (log_commands, "_log", verifier.main, lambda folder: _verdicts(folder)[1:]),
    "witness": (
        witness_command, "open_witness", witness_command.witness, lambda folder: ["--state", str(folder), "--log", LOG],
    ),
    "gateway": (gateway, "gateway_key", gateway.gateway, lambda folder: [
        "--state", str(folder), "--provider", "127.0.0.1:1", "--log-key", LOG,
    ]),
}  # fmt: skip


@pytest.mark.parametrize("which", STARTS)
def test_a_hangup_while_a_program_starts_does_not_end_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, which: str
) -> None:
    place, name, command, arguments = STARTS[which]
    monkeypatch.setattr(place, name, _hangs_up)
    ended: list[int] = []
    before = signal.signal(signal.SIGHUP, lambda number, _: ended.append(number))
    try:
        done = CliRunner().invoke(command, arguments(tmp_path / "state"))
        assert "so far" in done.output, done.output
        assert ended == []
    finally:
        signal.signal(signal.SIGHUP, before)
