# SPDX-License-Identifier: GPL-3.0-or-later
"""The documents stay true: links and files exist, commands parse, the tutorial runs and ends in PASS."""

from __future__ import annotations

import importlib
import importlib.util
import json
import os
import re
import shlex
import socket
import stat
import subprocess
import sys
from contextlib import ExitStack, suppress
from pathlib import Path

import click
import pytest

from ragseal.backends.native import available
from ragseal.programs import PROGRAMS
from tests.specification import FILES, specification

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[1]
TOP = ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md", "SECURITY.md", "CHANGELOG.md"]
SPEC = [f"spec/{path.name}" for path in FILES]
PAGES = [
    *TOP,
    *SPEC,
    "examples/README.md",
    *(str(path.relative_to(ROOT)) for path in sorted((ROOT / "docs").rglob("*.md"))),
]
#: In backquotes, with a slash, and no files of this repository.
NO_FILES = {"cosignature/v1", "ragseal/v1/<tag>"}


def text(name: str) -> str:
    return (ROOT / name).read_text()


@pytest.mark.parametrize("name", PAGES)
def test_links_lead_somewhere(name: str) -> None:
    folder = (ROOT / name).parent
    prose = re.sub(r"```.*?```", "", text(name), flags=re.DOTALL)
    for target, _, anchor in (found.partition("#") for found in re.findall(r"\]\(([^)\s]+)\)", prose)):
        if target.startswith("https://"):
            continue
        page = folder / target if target else ROOT / name
        assert page.exists(), f"{name} links to {target}"
        if anchor:
            headings = re.findall(r"^#+ (.*)$", page.read_text(), re.MULTILINE)
            assert anchor in [re.sub(r"[^\w -]", "", h.lower()).replace(" ", "-") for h in headings], (
                f"{target}#{anchor}"
            )


@pytest.mark.parametrize("name", [*TOP, *SPEC])
def test_named_files_exist(name: str) -> None:
    named = set(re.findall(r"`([\w./*-]+/[\w./*-]*)`", text(name))) - NO_FILES
    missing = [
        path
        for path in named
        if not path.startswith(("var/", "bench/results", "ragseal-trial/"))
        and not list(ROOT.glob(path.strip("/")))
        and not (ROOT / f"{path}.py").exists()
    ]
    assert missing == []


def test_the_threat_models_tests_exist() -> None:
    named = set(re.findall(r"`(test_\w+)`", text("SECURITY.md")))
    assert len(named) > 20
    assert [name for name in sorted(named) if not (ROOT / "tests" / "attacks" / f"{name}.py").exists()] == []


def test_every_clause_of_the_threat_model_exists() -> None:
    clauses = set(re.findall(r"\*\*([GMABCD]\.\d+)", specification()))
    rows = [line for line in text("SECURITY.md").splitlines() if line.startswith("| ")]
    cited = {clause for row in rows for clause in re.findall(r"\b[GMABCD]\.\d+", row)}
    assert cited
    assert cited <= clauses


@pytest.mark.parametrize("name", PAGES)
def test_make_targets_exist(name: str) -> None:
    targets = set(re.findall(r"^([a-z-]+):", text("Makefile"), re.MULTILINE))
    assert set(re.findall(r"(?:`|^|&& )make ([a-z]+(?:-[a-z]+)*)", text(name), re.MULTILINE)) <= targets


# --- commands --------------------------------------------------------------------------------------------------------


def shell(name: str) -> list[str]:
    """The lines of a page's shell blocks, without comments; here-documents left out."""
    out = []
    for block in re.findall(r"^ *```sh\n(.*?)^ *```", text(name), re.DOTALL | re.MULTILINE):
        block = re.sub(r"<<'END'\n.*?^END$", "", block, flags=re.DOTALL | re.MULTILINE)
        out += [line.partition("  #")[0].strip() for line in block.splitlines()]
    return [line for line in out if line and not line.startswith("#")]


def commands(name: str) -> list[list[str]]:
    """The words of every ragseal command in them."""
    parts = [part.strip() for line in shell(name) for part in re.split(r"&&|\||\$\(|\)|&$|>", line)]
    return [shlex.split(part) for part in parts if re.match(r"ragseal[ -]", part)]


def resolve(words: list[str]) -> tuple[click.Command, list[str]]:
    """A command's object and the words that are left for it."""
    found: click.Command = importlib.import_module(f"ragseal.{PROGRAMS[words[0]]}.__main__").main
    rest = words[1:]
    while isinstance(found, click.Group) and rest and not rest[0].startswith("-"):
        child = found.commands.get(rest[0])
        assert child is not None, f"there is no {' '.join(words)}"
        found, rest = child, rest[1:]
    return found, rest


@pytest.mark.parametrize("name", [page for page in PAGES if "reference/" not in page])
def test_commands_parse(name: str) -> None:
    for words in commands(name):
        found, rest = resolve(words)
        known = {option for parameter in found.params for option in (*parameter.opts, *parameter.secondary_opts)}
        assert {word for word in rest if word.startswith("--")} <= known | {"--help"}, words
        required = {p.opts[0] for p in found.params if p.required and isinstance(p, click.Option)}
        assert required <= set(rest), words
    for quoted in re.findall(r"`(ragseal(?:-[a-z]+)? [a-z][^`]*)`", text(name)):
        resolve(shlex.split(quoted))
    for module in re.findall(r"python3? -m ([a-z_0-9.]+[a-z])\b", text(name)):
        assert module in ("pip", "venv") or importlib.util.find_spec(module), module


def test_the_programs_are_where_the_tutorial_says() -> None:
    assert shell("docs/tutorial.md")[0] == 'export PATH="$PWD/.venv/bin:$PATH"'
    for name in PROGRAMS:
        assert (ROOT / ".venv" / "bin" / name).is_file()


# --- the tutorial ----------------------------------------------------------------------------------------------------


def free_port() -> int:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return int(s.getsockname()[1])


def programs(folder: Path) -> None:
    """The commands, run by this Python from this checkout; it replaces the shell, so signals reach it."""
    folder.mkdir()
    for name, part in PROGRAMS.items():
        path = folder / name
        python = shlex.quote(sys.executable)
        path.write_text(f'#!/bin/sh\nexec {python} -m ragseal.{part} "$@"\n')
        path.chmod(path.stat().st_mode | stat.S_IXUSR)


def on_other_ports(script: str) -> str:
    """With others than 7800 and 7801; those that `ragseal up` takes beside its first one are free, too."""
    while True:
        port = free_port()
        with suppress(OSError), ExitStack() as taken:
            for one in (port + 1, port + 80):
                taken.enter_context(socket.socket()).bind(("127.0.0.1", one))
            return re.sub(r"\b7800\b", str(port), re.sub(r"\b7801\b", str(port + 1), script))


def script_of(name: str) -> str:
    """All of a page's commands, in order; Python is run by the same shell."""
    parts = ["set -eum"]
    for language, block in re.findall(r"^```(sh|python)\n(.*?)^```", text(name), re.DOTALL | re.MULTILINE):
        parts.append(block if language == "sh" else f"{shlex.quote(sys.executable)} - <<'PYTHON'\n{block}PYTHON\n")
    return "\n".join(parts)


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="the native module is not installed")
@pytest.mark.parametrize(
    ("name", "folder", "records"), [("docs/tutorial.md", "first-window", 1), ("README.md", "quick-start", 2)]
)
def test_the_commands_of_a_page_end_in_pass(name: str, folder: str, records: int, tmp_path: Path) -> None:
    """Every command, by bash, in order and without a pause between them, on other ports."""
    script = script_of(name)
    script = re.sub(r"^make .*\n", "", script, flags=re.MULTILINE)
    script = on_other_ports(script)
    programs(tmp_path / "bin")
    environment = {
        **{k: v for k, v in os.environ.items() if not k.endswith("_STATE")},
        "PATH": f"{tmp_path / 'bin'}:{os.environ['PATH']}",
        "PYTHONPATH": str(ROOT),
        "RAGSEAL_BUILD": str(ROOT / "var" / "build"),
    }
    with (tmp_path / "output").open("w+") as output:
        bash = subprocess.Popen(
            ["bash", "-c", script], cwd=tmp_path, env=environment, stdout=output, stderr=output, start_new_session=True
        )
        try:
            status = bash.wait(900)
        finally:
            for pid in serving(bash.pid):
                os.kill(pid, 15)
        output.seek(0)
        said = output.read()
    assert status == 0, said[-4000:]
    report = json.loads((tmp_path / folder / "report" / "report.json").read_text())
    assert report["line"].startswith(
        "PASS epsilon_audit=2.98023 claim=until-delivered coalition=any queries=any unseen="
    ), said[-4000:]
    assert report["line"] in said
    assert report["records"] == records


def serving(session: int) -> list[int]:
    """Processes that a script left behind when it failed: those of its session."""
    listed = subprocess.run(["ps", "-o", "pid=", "-s", str(session)], capture_output=True, text=True).stdout
    return [int(pid) for pid in listed.split()]
