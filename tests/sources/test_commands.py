# SPDX-License-Identifier: GPL-3.0-or-later
"""``documents sync`` as people run it."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from ragseal.prover.__main__ import main
from ragseal.prover.storage.database import DATABASE
from ragseal.prover.storage.state import State
from tests.classes import TINY
from tests.sources.scene import held

pytestmark = pytest.mark.slow


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def answer(*arguments: str | Path) -> dict[str, Any]:
    done = run(*arguments, "--json")
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def write(file: Path, **texts: str) -> None:
    partial = file.with_suffix(".new")
    partial.write_text("".join(json.dumps({"id": name, "text": text}) + "\n" for name, text in texts.items()))
    os.replace(partial, file)


@pytest.fixture
def state(tmp_path: Path) -> Path:
    answer("init", "--state", tmp_path / "state", "--origin", "example.org/sync", "--class", TINY.name)
    return tmp_path / "state"


def test_sync_makes_the_documents_those_of_the_source(state: Path, tmp_path: Path) -> None:
    file = tmp_path / "corpus.jsonl"
    where = ("--state", state, "--tenant", "acme", "--source", f"jsonl:{file}")
    write(file, a="one", b="two", c="three")
    done = answer("documents", "sync", *where)
    counts = {"added": 3, "changed": 0, "deleted": 0, "unchanged": 0, "erased": 0, "waiting": 0}
    assert done == {"tenant": "acme", **counts, "notes": [], "still_answered": []}
    write(file, a="one", b="2", d="four")
    kept = answer("documents", "sync", *where, "--keep-missing")
    assert (kept["added"], kept["changed"], kept["deleted"], kept["unchanged"]) == (1, 1, 0, 1)
    assert answer("documents", "sync", *where)["deleted"] == 1
    listed = answer("documents", "list", "--state", state, "--tenant", "acme")["documents"]
    assert [one["id"] for one in listed] == ["a", "b", "d"]
    assert {one["source"] for one in listed} == {f"jsonl:{file}"}


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--source", "jsonl:x", "--vectors", "trust"], "check:N"),
        (["--source", "jsonl:x", "--vectors", "check:5"], "hold no vectors"),
        (["--source", "jsonl:/nowhere"], "cannot read"),
        (["--source", "oracle:x"], "no known kind"),
        (["--source", "jsonl:x", "--install-trigger"], "--install-trigger is for PostgreSQL"),
        (["--source", "parquet:x", "--chunk", "100"], "only text folders"),
    ],
)
def test_refusals_are_one_line_with_a_way_out(state: Path, arguments: list[str], said: str) -> None:
    done = run("documents", "sync", "--state", state, "--tenant", "acme", *arguments)
    assert done.exit_code == 1
    assert said in " ".join(done.output.split()), done.output
    assert "Traceback" not in done.output


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_following_ends_cleanly_when_it_is_asked_to(state: Path, tmp_path: Path, number: signal.Signals) -> None:
    file = tmp_path / "corpus.jsonl"
    write(file, a="one", b="two")
    command = [sys.executable, "-m", "ragseal.prover", "documents", "sync", "--state", str(state), "--tenant", "acme",
               "--source", f"jsonl:{file}", "--follow", "--every", "0.5", "--json"]  # fmt: skip
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            until_stored(state, {"a": "one", "b": "two"})
            write(file, a="one", c="three")
            until_stored(state, {"a": "one", "c": "three"})
            process.send_signal(number)
            output, _ = process.communicate(timeout=30)
        finally:
            process.kill()
    assert process.returncode == 0
    assert json.loads(output.splitlines()[-1])["added"] == 3
    with State(state) as found:
        assert held(found) == {"a": "one", "c": "three"}


def until_stored(state: Path, texts: dict[str, str]) -> None:
    """Look into the database beside the command, which tells a terminal only what it does."""
    ends, found = time.monotonic() + 60, dict[str, str]()
    while found != texts:
        assert time.monotonic() < ends, found
        time.sleep(0.1)
        with closing(sqlite3.connect(f"file:{state / DATABASE}?mode=ro", uri=True)) as database:
            found = dict(database.execute("SELECT document, text FROM documents"))
