# SPDX-License-Identifier: GPL-3.0-or-later
""".github/workflows: what a linter of workflows asks, and that they run .ci/run with what it needs."""

from __future__ import annotations

import re
import subprocess
import tomllib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / ".github" / "workflows"
FILES = sorted(FOLDER.iterdir())
TOP = {"name", "on", "permissions", "concurrency", "env", "defaults", "jobs"}
JOB = {"name", "runs-on", "needs", "if", "permissions", "env", "strategy", "timeout-minutes", "steps", "defaults"}
STEP = {"name", "id", "if", "uses", "with", "run", "env", "shell", "working-directory", "continue-on-error"}
CONTEXTS = {"github", "matrix", "env", "runner", "steps", "needs", "job"}  #: without secrets, inputs, vars


def load(text: str) -> dict[str, Any]:
    found = yaml.safe_load(text)
    return {"on" if name is True else name: value for name, value in found.items()}  # YAML 1.1 reads on as a truth


def faults(text: str) -> Iterator[str]:
    """What is wrong with a workflow."""
    flow = load(text)
    yield from (f"{name}: no key of a workflow" for name in flow.keys() - TOP)
    if flow.get("permissions") != {"contents": "read"}:
        yield "permissions: reading, and nothing else"
    if "pull_request_target" in flow["on"]:
        yield "pull_request_target: runs strangers' code with the host's rights"
    for expression in re.findall(r"\$\{\{(.*?)\}\}", text):
        yield from (f"{name}: no context" for name in set(re.findall(r"([a-z]+)\.", expression)) - CONTEXTS)
    if found := re.search(r"https?://|\b[\w-]+\.(?:com|org|io|net|dev)\b", text):
        yield f"{found[0]}: a host"
    for job in flow["jobs"].values():
        yield from (f"{name}: no key of a job" for name in job.keys() - JOB)
        if not {"runs-on", "timeout-minutes", "steps"} <= job.keys():
            yield "a job says where it runs, how long at most, and what"
        for step in job.get("steps", ()):
            yield from _of_step(step)
        axes = job.get("strategy", {}).get("matrix", {})
        yield from (f"matrix.{name}: no axis" for name in set(re.findall(r"matrix\.([\w-]+)", str(job))) - axes.keys())


def _of_step(step: dict[str, Any]) -> Iterator[str]:
    yield from (f"{name}: no key of a step" for name in step.keys() - STEP)
    if ("run" in step) == ("uses" in step):
        yield "a step runs or uses something"
    if "uses" in step and not re.fullmatch(r"[\w-]+/[\w-]+@(?:v[0-9]+|[0-9a-f]{40})", step["uses"]):
        yield f"{step['uses']}: owner/name@version"
    for name, value in step.get("with", {}).items():
        if not isinstance(value, str):
            yield f"{name}: {value!r} is no text: 3.10 would be 3.1"
    if "run" in step:
        done = subprocess.run(["bash", "-n"], input=step["run"], capture_output=True, text=True)
        yield from done.stderr.splitlines()


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_workflow_is_right(path: Path) -> None:
    assert path.suffix == ".yml"
    assert list(faults(path.read_text())) == []


GOOD = (FOLDER / "ci.yml").read_text()


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("permissions: { contents: read }", "permissions: { contents: write }", "permissions"),
        ("permissions: { contents: read }\n", "", "permissions"),
        ("pull_request:", "pull_request_target:", "pull_request_target"),
        ("github.ref", "secrets.key", "secrets"),
        ("github.ref", "matrix.os", "matrix.os"),
        ("    timeout-minutes: 180\n", "", "how long"),
        ("timeout-minutes", "timeout", "timeout: no key of a job"),
        ("- run: .ci/run", "- script: .ci/run", "script: no key of a step"),
        ("actions/checkout@v4", "actions/checkout", "owner/name@version"),
        ('"3.11"', "3.11", "no text"),
        ("run: .ci/run", "run: if .ci/run", "syntax error"),
        ("run: .ci/run", "run: curl https://example.org", "a host"),
    ],
)
def test_a_fault_is_found(old: str, new: str, fault: str) -> None:
    assert old in GOOD
    text = GOOD.replace(old, new)
    if new == "matrix.os":
        text = text.replace("run: .ci/run", "run: echo ${{ matrix.os }}")
    assert fault in "\n".join(faults(text))


def test_it_runs_what_a_contributor_runs() -> None:
    """All of .ci/run, with the programs that set-up asks for, in versions that it takes."""
    (job,) = load(GOOD)["jobs"].values()
    commands = [step.get("run", step.get("uses")) for step in job["steps"]]
    assert commands[-1] == ".ci/run"
    assert (ROOT / ".ci" / "run").stat().st_mode & 0o111
    given = {name: value for step in job["steps"] for name, value in step.get("with", {}).items()}
    least = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["requires-python"].removeprefix(">=")
    assert tuple(map(int, given["python-version"].split("."))) >= tuple(map(int, least.split(".")))
    assert int(given["node-version"]) >= 20
    assert any("clippy,rustfmt" in command for command in commands)
