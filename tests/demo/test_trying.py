# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal try`` and ``ragseal up`` on somebody's own documents: real processes, from a file to a provider that goes
on."""

from __future__ import annotations

import io
import json
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from ragseal.backends.native import available
from ragseal.client.result import Opened, Ranked, Result
from ragseal.demo import asking
from ragseal.demo.__main__ import main
from ragseal.demo.asking import answer_lines, typed
from ragseal.demo.folder import MARKER
from ragseal.demo.scenario import MOST_ASKED, corpus_of, own_scenario
from ragseal.kernel.errors import ConfigurationError
from tests.classes import DECOYS

QUESTION = "How do I rotate a log file?"
TEXTS = ("logrotate rotates log files.", "json.loads parses JSON.", "sorted() sorts a list.", "ssh-keygen makes keys.")


@pytest.fixture
def notes(tmp_path: Path) -> Path:
    path = tmp_path / "notes.jsonl"
    path.write_text("".join(json.dumps({"id": f"n{i}", "text": text}) + "\n" for i, text in enumerate(TEXTS)))
    return path


# --- what is named ---------------------------------------------------------------------------------------------------


def test_a_path_says_what_kind_of_corpus_it_is(tmp_path: Path, notes: Path) -> None:
    assert corpus_of(str(notes)) == f"jsonl:{notes}"
    table = tmp_path / "notes.CSV"
    table.write_text("id,text\n")
    assert corpus_of(str(table)) == f"csv:{table}"
    assert corpus_of(str(tmp_path)) == f"text:{tmp_path}"
    (tmp_path / "corpus.jsonl").write_text("")
    assert corpus_of(str(tmp_path)) == f"beir:{tmp_path}"
    assert corpus_of("csv:-") == "csv:-"
    for name, why in (("nothing.jsonl", "is not there"), ("notes.pdf", "a file of no kind that can be read")):
        if "pdf" in name:
            (tmp_path / name).write_text("")
        with pytest.raises(ConfigurationError, match=why):
            corpus_of(str(tmp_path / name))


def test_long_files_of_a_folder_are_split(tmp_path: Path) -> None:
    (tmp_path / "long.md").write_text("A sentence about log files.\n\n" * 200)
    plan = own_scenario(f"text:{tmp_path}", [QUESTION], None)
    assert (plan.chunk, plan.own, plan.class_name) == (1200, True, "decoys-4k")


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (["nowhere.jsonl", QUESTION], "nowhere.jsonl is not there"),
        (["NOTES"], "name a question: ragseal try"),
        (["NOTES", " "], "one of the questions is empty"),
        (["NOTES", *["q"] * (MOST_ASKED + 1)], f"at most {MOST_ASKED} questions"),
        (["NOTES", QUESTION, "--claim", "answers"], "of documents, class and embedder of their own"),
        (["NOTES", QUESTION, "--large"], "of documents, class and embedder of their own"),
        (["--large", "--claim", "both"], "--large is of the claim"),
        (["NOTES", QUESTION, "--claim", "both", "--class", DECOYS.name], "is of one claim"),
        (["NOTES", QUESTION, "--claim", "every-list", "--class", DECOYS.name], "holds no claim every-list"),
        (["NOTES", QUESTION, "--class", "huge"], "no circuit class 'huge'"),
        (["NOTES", QUESTION, "--embedder", "huge"], "unknown embedder 'huge'"),
        (["EMPTY", QUESTION], "holds no documents"),
        (["--queries", "30"], "--queries is for BEIR"),
    ],
)
def test_what_cannot_be_done_is_refused_before_a_folder_is_made(
    tmp_path: Path, notes: Path, arguments: list[str], text: str
) -> None:
    (tmp_path / "empty.jsonl").write_text("")
    named = {"NOTES": str(notes), "EMPTY": str(tmp_path / "empty.jsonl")}
    out = tmp_path / "trial"
    done = CliRunner().invoke(main, ["try", *(named.get(one, one) for one in arguments), "--out", str(out)])
    assert done.exit_code == 1
    assert text in done.output
    assert not out.exists()


def test_nothing_to_go_on_with_is_said(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["up", str(tmp_path)])
    assert done.exit_code == 1
    assert "holds no trial of your documents" in done.output


# --- what is shown ---------------------------------------------------------------------------------------------------


def result(*texts: str) -> Result:
    """An answer of these texts, best first, and of one slot by chance."""
    ranked = tuple(Ranked(i, f"n{i}", text, {}, 8000 - i) for i, text in enumerate(texts))
    opened = tuple(Opened(one.slot, one.id, one.text, {}) for one in ranked)
    nothing: Any = None
    return Result(opened, (*range(len(texts)), 99), nothing, nothing, True, ranked)


def test_the_best_documents_are_shown_where_they_begin() -> None:
    lines = answer_lines(result("two\nlines", "x" * 1000, "\x1b[31mred", "four", "five"), 0.05)
    assert lines[0] == "  1. [n0] (cosine 0.50) two lines"
    assert len(lines[1]) < 330
    assert lines[1].endswith("x…")
    assert "\x1b" not in lines[2]
    assert lines[3] == "  and 2 more documents"
    assert lines[4].startswith("  -- 5 of the 6 returned slots came with a text")


def test_an_answer_without_a_document_says_what_that_may_mean() -> None:
    lines = answer_lines(result(), 0.05)
    assert "no document scores high enough for these words" in lines[0]
    assert "coins hide 1 in 20" in lines[1]


def test_questions_are_typed_until_an_empty_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(asking.sys, "stdin", io.StringIO(f" {QUESTION} \nand json?\n\nnever asked\n"))
    assert list(typed()) == [QUESTION, "and json?"]
    monkeypatch.setattr(asking.sys, "stdin", io.StringIO("again\n" * 100))
    assert list(typed()) == ["again"] * MOST_ASKED
    monkeypatch.setattr(asking.sys, "stdin", io.StringIO(""))
    assert list(typed()) == []
    assert "An empty line closes the window" in capsys.readouterr().err


# --- all of it -------------------------------------------------------------------------------------------------------


def free_ports(*beside: int) -> int:
    """A port that is free, with those that lie so far above it."""
    while True:
        with suppress(OSError), ExitStack() as taken:
            first = taken.enter_context(socket.socket())
            first.bind(("127.0.0.1", 0))
            port = int(first.getsockname()[1])
            for one in beside:
                taken.enter_context(socket.socket()).bind(("127.0.0.1", port + one))
            return port


def program(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "ragseal.demo", *map(str, arguments)]


def finished(*arguments: object, status: int = 0) -> subprocess.CompletedProcess[str]:
    done = subprocess.run(program(*arguments), capture_output=True, text=True, timeout=600, stdin=subprocess.DEVNULL)
    assert done.returncode == status, done.stderr[-3000:]
    return done


@pytest.mark.slow
@pytest.mark.skipif(not available(), reason="the native module is not installed")
def test_from_a_file_to_a_verdict_and_on(notes: Path, tmp_path: Path) -> None:
    out = tmp_path / "trial"
    done = finished("try", notes, QUESTION, "what is the capital of Peru?", "--class", DECOYS.name, "--out", out)
    said = done.stdout.splitlines()
    assert said[-1].startswith("PASS epsilon_audit=2.98023 claim=until-delivered ")
    assert " records=2 window=w1@" in said[-1]
    assert said[1] == QUESTION
    assert re.match(r"  1\. \[n0\] \(cosine 0\.\d\d\) logrotate rotates log files\.$", said[2]) or (
        "coins hide 1 in 20" in done.stdout
    ), "the coin hides one document in twenty"
    assert f"`ragseal up {out}` lets this provider go on" in done.stdout

    again = json.loads(finished("try", notes, QUESTION, "--class", DECOYS.name, "--out", out, "--json").stdout)
    assert [one["line"].split()[0] for one in again] == ["PASS"]
    assert [one["question"] for one in again[0]["answers"]] == [QUESTION]

    port = free_ports(1, 80)
    with subprocess.Popen(program("up", out, "--port", port), stdout=subprocess.PIPE, text=True) as going:
        assert going.stdout is not None
        lines: list[str] = []
        while "Ctrl-C stops all of it." not in (line := going.stdout.readline()):
            assert line, lines
            lines.append(line.strip())
        told = [line for line in lines if line.startswith("ragseal-client ask")]
        assert len(told) == 1
        asked = re.sub(r"^ragseal-client", f"{sys.executable} -m ragseal.client", told[0])
        answer = subprocess.run(asked, shell=True, capture_output=True, text=True, timeout=300)
        assert answer.returncode == 0, answer.stderr
        assert "window w2, query 1" in answer.stdout
        with urllib.request.urlopen(f"http://127.0.0.1:{port + 80}/", timeout=60) as page:
            assert b"<html" in page.read()
        going.send_signal(signal.SIGTERM)
        rest = going.stdout.read()
        assert going.wait(60) == 0
    assert rest == "stopped; `ragseal up` with the same folder goes on\n"
    deadline = time.monotonic() + 20
    while subprocess.run(["pgrep", "-f", str(out)], capture_output=True).returncode == 0:
        assert time.monotonic() < deadline, "a process goes on"
        time.sleep(0.2)

    assert not (out / MARKER).exists()
    kept = sorted(path.name for path in out.iterdir())
    refused = finished("try", notes, QUESTION, "--out", out, status=1)
    assert "or that `ragseal up` keeps" in refused.stderr
    assert sorted(path.name for path in out.iterdir()) == kept
