# SPDX-License-Identifier: GPL-3.0-or-later
"""Answers of a running provider beside plain search: what is asked, and a run with real processes."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from bench import served
from bench.modules import first_paragraphs
from bench.questions import QUESTIONS
from ragseal.backends.native import available
from ragseal.demo.corpus import demo_documents

pytestmark = pytest.mark.slow


def test_what_is_asked_of_docstrings(tmp_path: Path) -> None:
    plan, sets = served.docstrings(tmp_path)
    modules, questions = sets["modules"], sets["questions"]
    asked = dict(first_paragraphs())
    held = {
        json.loads(line)["id"]
        for corpus in plan.corpora.values()
        for line in Path(corpus.partition(":")[2]).read_text().splitlines()
    }
    assert not held & asked.keys(), "a module's own docstring would answer for it"
    assert len(questions) == sum(map(len, QUESTIONS.values()))
    assert all(grades.keys() <= held for grades in modules.values())
    assert sorted(query.text for query in plan.queries) == sorted([*questions, *modules]), "each once"
    assert all(plan.accounts[query.account] == query.tenant for query in plan.queries)


@pytest.mark.skipif(not available(), reason="the native module is not installed")
def test_a_running_provider_is_asked(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "small"
    (folder / "qrels").mkdir(parents=True)
    documents = demo_documents()["data"][:40]
    rows = [{"_id": d.id, "title": "", "text": d.text} for d in documents]
    queries = [{"_id": str(at), "text": documents[at].text.splitlines()[1][:80]} for at in range(6)]
    (folder / "corpus.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    (folder / "queries.jsonl").write_text("".join(json.dumps(query) + "\n" for query in queries))
    relevant = "".join(f"{at}\t{documents[at].id}\t1\n" for at in range(6))
    (folder / "qrels" / "test.tsv").write_text("query-id\tcorpus-id\tscore\n" + relevant)
    monkeypatch.setattr(served, "ROOT", tmp_path)
    monkeypatch.setattr(served, "POINTS", ((6, 42), (8, None)))
    found: list[list[dict[str, Any]]] = list(served.measure(f"beir:{folder}", 6))
    assert [[row["set"] for row in rows] for rows in found] == [["judged"], ["judged"]]
    named, unnamed = (rows[0] for rows in found)
    assert (named["K"], named["named"], unnamed["named"]) == (42, True, False)
    for row in (named, unnamed):
        assert row["queries"] == 6
        assert row["plainly_found"] == 1, "a document's own first line finds it"
        assert row["share"] == pytest.approx(row["ndcg10"] / row["noise_free"])
        assert 0 < row["kept"] <= 1
    again = served.prepared(served.beir(f"beir:{folder}", 6)[0], next((tmp_path / "var" / "served").iterdir()), None)  # type: ignore[arg-type]
    assert "+" in again, "a run that was stopped goes on with what was put"
    assert "| 6 judged | 6 | 42 |" in served.report([named])
