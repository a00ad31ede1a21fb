# SPDX-License-Identifier: GPL-3.0-or-later
"""A provider and its accounts on a machine without the native module; the auditor, elsewhere, has it.  SPEC A.9, B.

Real processes: the module cannot be imported in those of the provider and of the accounts, so Python and snarkjs do
all of the work, from checking the fetched key to a batch of proofs.  The native auditor must find nothing amiss.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from ragseal.backends.native import available
from ragseal.circuits.build import BuiltCircuit
from ragseal.demo.processes import command, free_port
from tests.classes import TINY

ROOT = Path(__file__).resolve().parents[2]
POLICY = (
    f'class = "{TINY.name}"\n'
    'claim = "every-list"\nlo = 0.2\nhi = 0.9\ngain = 2\nn_max = 4\nk_max = 1\ndelta = "1/1000000"\n'
)
QUERIES = {"alice": "how are log files rotated?", "carol": "archives of old logs"}  #: of one batch

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not available(), reason="the auditor of this test needs the native module"),
]


class Machine:
    """Programs with one environment and one working folder."""

    def __init__(self, folder: Path, **variables: str) -> None:
        self.folder = folder
        self.environment: Mapping[str, str] = {
            **os.environ,
            "RAGSEAL_BUILD": str(ROOT / "var" / "build"),
            "XDG_CONFIG_HOME": str(folder / "config"),
            **variables,
        }

    def run(self, part: str, *arguments: str, patience: float = 0.0) -> tuple[dict[str, Any], str]:
        """What a program prints as JSON, and its other output; again while a peer is not ready."""
        deadline = time.monotonic() + patience
        while True:
            done = subprocess.run(
                command(part, *arguments, "--json"),
                cwd=self.folder, env=self.environment, capture_output=True, text=True, timeout=400,
            )  # fmt: skip
            if done.returncode == 0:
                return json.loads(done.stdout.splitlines()[-1]), done.stderr
            early = re.search(r"cannot be reached|not open|did not answer", " ".join(done.stderr.split()))
            patient = early is not None and time.monotonic() < deadline
            assert patient, (part, arguments, done.stdout[-1500:], done.stderr[-3000:])
            time.sleep(0.5)

    @contextmanager
    def running(self, part: str, *arguments: str) -> Iterator[Path]:
        """A program in the background; yields the file with its output."""
        log = self.folder / f"{part}.log"
        with log.open("wb") as out:
            process = subprocess.Popen(
                command(part, *arguments), cwd=self.folder, env=self.environment, stdout=out, stderr=subprocess.STDOUT
            )
            try:
                yield log
                assert process.poll() is None, log.read_text()[-3000:]
            finally:
                process.terminate()
                process.wait(60)


@pytest.fixture
def plain(tmp_path: Path) -> Machine:
    """A machine without the native module."""
    shadow = tmp_path / "shadow"
    shadow.mkdir()
    (shadow / "ragseal_native.py").write_text('raise ImportError("not on this machine")\n')
    return Machine(tmp_path, PYTHONPATH=os.pathsep.join([str(shadow), str(ROOT)]))


@pytest.mark.long
def test_a_window_without_the_native_module(tmp_path: Path, plain: Machine, built: BuiltCircuit) -> None:
    auditor = Machine(tmp_path, PYTHONPATH=str(ROOT))
    probe = "from ragseal.backends.group import available; raise SystemExit(available())"
    assert subprocess.run([sys.executable, "-c", probe], cwd=tmp_path, env=plain.environment).returncode == 0
    service, provider = (f"127.0.0.1:{free_port()}" for _ in range(2))
    auditor.run("verifier", "init")
    auditor.run("verifier", "keygen", "--class", TINY.name)
    made, _ = plain.run("prover", "init", "--class", TINY.name, "--origin", "example.org/rag")
    log_key = made["ledger_key"]
    for account in QUERIES:
        key, _ = plain.run("client", "keygen", "--state", account, "--account", account)
        plain.run("prover", "accounts", "add", account, "--tenant", "acme", "--key", key["public_key"])
    documents = [{"id": f"d{i}", "text": f"note {i}: how to rotate log file number {i}"} for i in range(40)]
    (tmp_path / "documents.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents))
    plain.run("prover", "documents", "put", "--tenant", "acme", "--corpus", "jsonl:documents.jsonl")
    (tmp_path / "policy.toml").write_text(POLICY)
    with auditor.running(
        "verifier", "serve", "--listen", service, "--provider", provider, "--log-key", log_key
    ):  # fmt: skip
        _, said = plain.run("prover", "fetch-keys", "--verifier", service, patience=30)
        assert "native module is not installed" in " ".join(said.split())
        plain.run("prover", "commit", "--policy", "policy.toml", "--window", "w1", "--yes-epsilon-is", "1000")
        with plain.running("prover", "serve", "--listen", provider) as log:
            for account, query in QUERIES.items():
                answer, _ = plain.run(
                    "client", "ask", query, "--state", account, "--provider", provider, "--log-key", log_key,
                    patience=90,
                )  # fmt: skip
                assert answer["checked"]
            plain.run("prover", "close", "--provider", provider)
            report, _ = auditor.run(
                "verifier", "audit", "--provider", provider, "--log-key", log_key, "--out", "report"
            )
            assert "slow path" in " ".join(log.read_text().split())
    assert report["line"].startswith("PASS epsilon_audit="), report
    assert report["records"] == len(QUERIES)
