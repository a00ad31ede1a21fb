# SPDX-License-Identifier: GPL-3.0-or-later
"""README, SPEC and ARCHITECTURE stay true: links exist, commands run, the honest run ends in PASS."""

from __future__ import annotations

import json
import os
import re
import shlex
import socket
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ragseal.backends.native import available

ROOT = Path(__file__).resolve().parents[1]
PARTS = {"provider": "prover", "verifier": "verifier", "observer": "ledger", "client": "client"}


def text(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize("name", ["README.md", "SPEC.md", "ARCHITECTURE.md"])
def test_named_files_exist(name: str) -> None:
    document = text(name)
    named = set(re.findall(r"`([\w./*-]+/[\w./*-]*)`", document)) | set(re.findall(r"\]\(([\w./-]+)\)", document))
    missing = [
        path
        for path in named
        if not list(ROOT.glob(path.strip("/"))) and not path.startswith(("var/", "bench/results"))
    ]
    assert [m for m in missing if m not in ("cosignature/v1", "ragseal/v1/<tag>")] == []


def test_make_targets_exist() -> None:
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    assert set(re.findall(r"make ([a-z]+(?:-[a-z]+)*)", text("README.md"))) <= targets


def readme_commands() -> list[str]:
    """The shell lines of the honest run."""
    blocks = re.findall(r"```sh\n(.*?)```", text("README.md"), re.DOTALL)
    block = next(b for b in blocks if "ragseal-verifier init" in b)
    lines = [line.partition("  #")[0].strip() for line in block.strip().splitlines()]
    path, *commands = [line for line in lines if line]
    assert path == 'export PATH="$PWD/.venv/bin:$PATH"'
    return commands


def test_the_programs_are_where_readme_says() -> None:
    for name in PARTS:
        assert (ROOT / ".venv" / "bin" / f"ragseal-{name}").is_file()


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def as_python(line: str) -> list[list[str]]:
    """The programs of a README line as command lines of this Python, in order."""
    out = []
    for command in line.rstrip(" &").split("&&"):
        words = shlex.split(command)
        assert words[0].startswith("ragseal-"), words
        out.append([sys.executable, "-m", f"ragseal.{PARTS[words[0].removeprefix('ragseal-')]}", *words[1:]])
    return out


def values(stdout: str) -> dict[str, str]:
    lines = [line for line in stdout.splitlines() if line.startswith("{")]
    return dict(json.loads(lines[-1])) if lines else {}


@pytest.mark.skipif(not available(), reason="the native module is not installed")
def test_the_honest_run(tmp_path: Path) -> None:
    """Every line of README's run by hand, with class tiny and other ports, ending in the verdict."""
    documents = [{"id": f"d{i}", "text": f"note {i}: how to rotate log file number {i}"} for i in range(40)]
    (tmp_path / "documents.jsonl").write_text("".join(json.dumps(d) + "\n" for d in documents))
    (tmp_path / "var").mkdir()
    (tmp_path / "var" / "build").symlink_to(ROOT / "var" / "build")
    ports = {"7800": str(free_port()), "7801": str(free_port())}
    holes: dict[str, str] = {}
    background: list[subprocess.Popen[bytes]] = []
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "XDG_CONFIG_HOME": str(tmp_path / "config")}
    last = ""
    try:
        for line in readme_commands():
            for old, new in {"class small": "class tiny", **ports, **holes}.items():
                line = re.sub(rf"\b{re.escape(old)}\b", new, line)
            target = re.search(r"> (\S+)", line)
            line = re.sub(r"> \S+ ", " ", line + " ").strip()
            for number, command in enumerate(as_python(line)):
                if line.endswith("&"):
                    background.append(subprocess.Popen(command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE))
                    continue
                plain = target is not None and number == 0
                for _ in range(60):
                    done = subprocess.run(
                        command if plain else [*command, "--json"],
                        cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600,
                    )  # fmt: skip
                    if done.returncode == 0 or not re.search(r"reach|not open|listen", done.stderr):
                        break
                    time.sleep(0.5)
                assert done.returncode == 0, (command, done.stdout[-1500:], done.stderr[-3000:])
                if plain and target is not None:
                    (tmp_path / target.group(1)).write_text(done.stdout)
                found = values(done.stdout)
                holes["VKEY"] = found.get("ledger_key", holes.get("VKEY", "VKEY"))
                holes["HEX"] = found.get("public_key", holes.get("HEX", "HEX"))
                last = done.stdout
    finally:
        for process in background:
            process.terminate()
        for process in background:
            process.wait(30)
    report = json.loads((tmp_path / "report" / "report.json").read_text())
    assert report["line"].startswith("PASS epsilon_audit="), last
    assert report["records"] == 1
