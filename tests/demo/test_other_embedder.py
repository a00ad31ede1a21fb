# SPDX-License-Identifier: GPL-3.0-or-later
"""The demo with a sentence-transformers model of another shape: CLS pooling, a projection to 96 dimensions, prompts."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from ragseal.backends.native import available
from ragseal.demo.corpus import demo_documents
from ragseal.embedder import load_embedder
from ragseal.embedder.minilm import packaged_model
from tests.classes import DECOYS

library = pytest.importorskip("sentence_transformers", reason="extra 'torch' is not installed")

ROOT = Path(__file__).resolve().parents[2]
DIMENSION = 96


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The packaged weights below other modules; the projection is random, and the same at every run."""
    import torch
    from sentence_transformers.sentence_transformer import modules as models

    folder = tmp_path_factory.mktemp("model")
    words = models.Transformer(str(packaged_model()), max_seq_length=128)
    torch.manual_seed(1)
    projection = models.Dense(384, DIMENSION, bias=False, activation_function=torch.nn.Identity())
    prompts = {"query": "question: ", "document": "answer: "}
    made = library.SentenceTransformer(
        modules=[words, models.Pooling(384, pooling_mode="cls"), projection], prompts=prompts, device="cpu"
    )
    made.save(str(folder))
    return folder


def test_identity_names_what_differs(model: Path, tmp_path: Path) -> None:
    other, ours = (
        load_embedder(f"sentence-transformers:{model}").identity(),
        load_embedder("minilm", tmp_path).identity(),
    )
    assert (other.pooling, other.dimension, other.max_tokens) == ("cls+Dense", DIMENSION, 128)
    assert (other.query_prompt, other.document_prompt) == ("question: ", "answer: ")
    assert other.weights != ours.weights
    assert other.tokenizer == ours.tokenizer


@pytest.mark.skipif(not available(), reason="the native module is not installed")
def test_demo_passes(model: Path, tmp_path: Path) -> None:
    corpus, out = tmp_path / "beir", tmp_path / "demo"
    corpus.mkdir()
    documents = demo_documents()["data"]
    rows = [{"_id": d.id, "title": "", "text": d.text} for d in documents[:50]]
    queries = [{"_id": str(i), "text": d.text.splitlines()[1][:80]} for i, d in enumerate(documents[290:314])]
    (corpus / "corpus.jsonl").write_text("".join(json.dumps(r) + "\n" for r in rows))
    (corpus / "queries.jsonl").write_text("".join(json.dumps(q) + "\n" for q in queries))
    command = [sys.executable, "-m", "ragseal.demo", "try", f"beir:{corpus}", "--class", DECOYS.name]
    done = subprocess.run(
        [*command, "--embedder", f"sentence-transformers:{model}", "--out", str(out)],
        cwd=ROOT, capture_output=True, text=True, timeout=900,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-4000:]
    assert done.stdout.strip().splitlines()[-1].startswith("PASS epsilon_audit=")
    report = json.loads((out / "report.json").read_text())
    assert report["records"] == report["proven"] == 24
    assert len(report["estimate"]["members"]) == 2
    assert json.loads((out / "demo.json").read_text())["embedder"] == f"sentence-transformers:{model}"
    policy = (out / "policy.toml").read_text()
    assert "lo = 0.30\n" not in policy
