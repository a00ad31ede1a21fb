# SPDX-License-Identifier: GPL-3.0-or-later
"""Secrets in no log, no error, no ledger, no report, no left-over file, and not on the wire to auditor or observer.

A whole window runs as a process of its own with debug logging, through success and failure.  Then every secret of it is
searched for in everything that left the process, in every form in which a program might print it.
"""

from __future__ import annotations

import base64
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest

from tests.attacks.secrets_scene import LEAKS
from tests.attacks.world import ROOT

pytestmark = pytest.mark.slow

#: who gets what: the account's own secrets travel to the account, the provider's to nobody
PRIVATE = ("provider", "alice", "bob", "carol", "secrets.json", "wire-account.bin")


def forms(value: bytes) -> Iterator[bytes]:
    """A secret as bytes, text, hexadecimal, base64 at any alignment, or a number, either end first."""
    number = int.from_bytes(value, "big")
    for order in (value, value[::-1]):
        yield order
        yield order.hex().encode()
        yield order.hex().upper().encode()
        for shift in range(3):  # inside of a longer base64 text, edges differ with the alignment
            text = base64.b64encode(bytes(shift) + order).rstrip(b"=")
            inner = text[4 if shift else 0 : -1]
            yield inner
            yield inner.replace(b"+", b"-").replace(b"/", b"_")
    yield str(number).encode()
    yield hex(number)[2:].encode()
    yield repr(list(value)).encode()[1:-1]
    yield repr(value).encode()[2:-1]


def leaks(data: bytes, secrets: dict[str, str]) -> list[str]:
    """Names of the secrets that occur in data."""
    found = []
    for name, text in secrets.items():
        value = bytes.fromhex(text)
        if any(form in data for form in forms(value) if len(form) >= 12):
            found.append(name)
    return found


def run(folder: Path, faults: Sequence[str] = ()) -> dict[str, bytes]:
    """The scene; everything that left it, by name."""
    temporary = folder / "tmp"
    temporary.mkdir(parents=True)
    environment = {**os.environ, "TMPDIR": str(temporary), "GRPC_VERBOSITY": "DEBUG", "RUST_BACKTRACE": "full"}
    command = [sys.executable, "-X", "dev", "-W", "ignore", "-m", "tests.attacks.secrets_scene", str(folder), *faults]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, env=environment, timeout=500, check=False)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    sinks = {"stdout": done.stdout, "stderr": done.stderr}
    for path in sorted(folder.rglob("*")):
        where = path.relative_to(folder)
        if path.is_file() and where.parts[0] not in PRIVATE:
            sinks[str(where)] = path.read_bytes()
    for path in (folder / "provider").rglob("*"):
        if path.is_file() and "ledger" in path.parts:
            sinks[str(path.relative_to(folder))] = path.read_bytes()
    return sinks


@pytest.fixture(scope="module")
def honest(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, bytes]]:
    folder = tmp_path_factory.mktemp("secrets")
    return folder, run(folder)


def test_no_secret_leaves_the_provider(honest: tuple[Path, dict[str, bytes]]) -> None:
    folder, sinks = honest
    secrets = json.loads((folder / "secrets.json").read_text())
    everything = {**secrets["all"], **secrets["account"]}
    assert len(everything) > 400, "hardly any secret was collected"
    assert {"wire-public.bin", "errors.txt", "report/report.json", "stderr"} <= set(sinks)
    assert any("ledger" in name for name in sinks)
    assert len(sinks["wire-public.bin"]) > 10_000
    assert b"done: " in sinks["stderr"]
    assert sinks["errors.txt"].count(b"Error") >= 10, sinks["errors.txt"].decode()
    for name, data in sinks.items():
        found = leaks(data, everything)
        assert not found, f"{name} holds {found[:5]}"


def test_an_account_learns_its_own_secrets_only(honest: tuple[Path, dict[str, bytes]]) -> None:
    folder, _ = honest
    secrets = json.loads((folder / "secrets.json").read_text())
    wire = (folder / "wire-account.bin").read_bytes()
    assert not leaks(wire, secrets["all"])
    found = leaks(wire, secrets["account"])
    assert {"r of query 0", "e of query 0", "query 0"} <= set(found), "the search does not even find what is there"
    assert not [name for name in found if name.startswith(("salt", "text"))], "an answer travels unsealed"


def test_leaks_would_be_found(tmp_path: Path) -> None:
    """A number in a debug line, a query in an error, a seed in a delivered batch, a blinder in a temporary file."""
    sinks = run(tmp_path / "leaky", list(LEAKS))
    secrets = json.loads((tmp_path / "leaky" / "secrets.json").read_text())
    everything = {**secrets["all"], **secrets["account"]}
    assert any(name.startswith("rho of") for name in leaks(sinks["stderr"], everything))
    assert "query 0" in leaks(sinks["errors.txt"], everything)
    assert "seed" in leaks(sinks["wire-public.bin"], everything)
    left = [name for name in sinks if name.startswith("tmp")]
    assert any(leaks(sinks[name], everything) for name in left)
