# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo itself, on a small BEIR folder and small classes: three real processes, real proofs, one verdict a claim."""

from __future__ import annotations

import io
import json
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from ragseal.accounting.rounding import upward
from ragseal.backends.native import available
from ragseal.circuits.circuit import load_classes
from ragseal.circuits.search import count_rows
from ragseal.demo.compared import compared
from ragseal.demo.corpus import demo_documents
from ragseal.demo.processes import Running
from ragseal.demo.scenario import Scenario
from ragseal.demo.window import Outcome
from ragseal.demo.worth import Worth
from ragseal.kernel.classes import AttestationClass
from ragseal.verifier.report.document import SIGNED_NAME
from ragseal.verifier.signed.statement import REPORTS, read_verdict
from tests.classes import DECOYS, GAUSSIAN

pytestmark = pytest.mark.slow

ROOT = Path(__file__).resolve().parents[2]
DOCUMENTS = 50  #: class DECOYS has 60 slots


@pytest.fixture(scope="module")
def beir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Docstrings as a BEIR folder; the queries are first lines of other docstrings, each followed by one as good as
    the same, as in BEIR folders whose queries come in families."""
    folder = tmp_path_factory.mktemp("beir")
    documents = demo_documents()["data"]
    rows = [{"_id": d.id, "title": "", "text": d.text} for d in documents[:DOCUMENTS]]
    lines = [d.text.splitlines()[1][:80] for d in documents[290:314]]
    queries = [{"_id": f"{i}-{j}", "text": t} for i, line in enumerate(lines) for j, t in enumerate((line, line + "?"))]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (folder / "queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in queries))
    relevant = "".join(f"{i}-{j}\t{rows[i]['_id']}\t1\n" for i in range(len(lines)) for j in range(2))
    (folder / "qrels").mkdir()
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + relevant)
    return folder


def children_of_the_demo(out: Path) -> list[str]:
    """Command lines of processes that still mention the demo's folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*/cmdline"):
        try:
            line = entry.read_bytes().replace(b"\0", b" ").decode(errors="replace")
        except OSError:
            continue
        if str(out) in line and str(os.getpid()) != entry.parent.name:
            found.append(line)
    return found


@pytest.mark.skipif(not available(), reason="the native module is not installed")
@pytest.mark.parametrize(("claim", "cls"), [("until-delivered", DECOYS), ("every-list", GAUSSIAN)])
def test_demo_passes_and_leaves_nothing_running(beir: Path, tmp_path: Path, claim: str, cls: AttestationClass) -> None:
    out = tmp_path / "demo"
    of = ("try", f"beir:{beir}", "--claim", claim, "--class", cls.name)
    done = subprocess.run(
        [sys.executable, "-m", "ragseal.demo", *of, "--out", str(out)],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=900,
    )
    assert done.returncode == 0, done.stderr[-4000:]
    line = done.stdout.strip().splitlines()[-1]
    report = json.loads((out / "report.json").read_text())
    assert line.startswith("PASS epsilon_audit=")
    assert f" claim={claim} " in line
    assert float(line.split("=")[1].split()[0]) == pytest.approx(report["epsilon_audit"], rel=1e-5)
    assert report["delta"] == 1e-6
    assert " delta=1e-06 period_from=" in line
    assert " mode=full keys=auditor records=24 window=w1@" in line
    assert line.endswith(" log=ragseal.example/demo")
    estimate = report["estimate"]
    assert (estimate["c"], estimate["k_max"], estimate["certificate"]) == (2, 2, "full")
    assert [bool(re.fullmatch("[0-9a-f]{32}", one)) for one in estimate["members"]] == [True, True]
    assert report["verdict"] == "PASS"
    assert report["records"] == report["proven"] == 24
    assert [s["status"] for s in report["steps"]] == ["ok"] * 11
    assert all(s["evidence"] for s in report["steps"])
    page = (out / "report.html").read_text()
    given = {name: (out / name).read_bytes() for name in REPORTS}
    signed = read_verdict((out / SIGNED_NAME).read_bytes(), bytes.fromhex(report["auditor"]["key"]), given)
    assert signed.line == line, "what the demo leaves is what its auditor signed"
    assert "PASS" in page
    assert "http://" not in page.replace("http://www.w3.org", "")
    assert children_of_the_demo(out) == []
    about = json.loads((out / "demo.json").read_text())
    assert about["processor_seconds_a_question"] > 0
    quality = about["quality"]
    assert quality["queries"] == quality["judged"]["queries"] == 18
    assert 0 <= quality["judged"]["ndcg10"] <= 1
    assert f"nDCG@10 of 18 judged queries: {quality['judged']['ndcg10']:.3f}; without noise" in done.stdout
    _set_side_by_side(claim, quality, report, done.stdout)
    members = report["estimate"]["members"]
    assert len(members) == 2
    assert all(re.fullmatch(r"[0-9a-f]{32}", one) for one in members)
    for name in ("ana", "ben"):  # names are the auditor's and the accounts' own: the report is handed on
        assert f'"{name}"' not in (out / "report.json").read_text()
        assert f">{name}<" not in page
    assert report["estimate"]["c"] == report["estimate"]["k_max"] == 2
    assert "Coalition estimate" in page


def _set_side_by_side(claim: str, quality: dict[str, Any], report: dict[str, Any], said: str) -> None:
    """The table's column for this window, and the paper's numbers beside the paper's claim."""
    name = (DECOYS if claim == "until-delivered" else GAUSSIAN).name
    plan = Scenario(name, {}, {}, [], claim=claim)
    found = Outcome(plan, Path(), report, [], Worth(18, quality["kept"]), 1.234)
    console = Console(width=200, record=True, file=io.StringIO())
    console.print(compared([found]))
    shown = console.export_text()
    for text in (f"{quality['kept']:.0%}", "1.23 s", f"{count_rows(load_classes()[name]).rows:,} rows"):
        assert text in shown, (text, shown)
    if claim == "every-list":
        assert "2 accounts with" in shown
        published = report["epsilon"]["accounting"][name]["published"]
        assert f"sqrt(k) epsilon_acc {upward(published['closed_form'])}" in said


def test_the_processor_time_of_a_program_has_its_childrens(tmp_path: Path) -> None:
    """A provider's proofs are made by workers, which go on."""
    busy = "import time\nwhile time.process_time() < 0.7: pass\nprint(flush=True)\ntime.sleep(60)"
    code = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {busy!r}])"
    with Running(tmp_path) as running, open(tmp_path / "log", "wb") as log:
        process = subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE)
        running._started.append(("program", process, log))
        assert process.stdout is not None
        process.stdout.readline()
        assert running.processor_seconds("program") >= 0.6, "the kernel counts in hundredths"
