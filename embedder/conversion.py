# SPDX-License-Identifier: GPL-3.0-or-later
"""A BERT encoder from safetensors to CTranslate2's format, kept in a cache that is addressed by content.

CTranslate2 ships converters that need PyTorch and transformers only to read weights.  Here its encoder
specification is filled from the file itself, tensor by tensor.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.transcript import tagged_hash
from ragseal.runtime.edges.filesystem import why

Tensors = Mapping[str, npt.NDArray[Any]]

_RECIPE = b"bert-encoder-1"  #: part of the cache key: a change in how the specification is filled makes a new entry
_CHECKSUM = "model.sha256"


@dataclass(frozen=True, slots=True)
class BertShape:
    """The part of a BERT config.json that the encoder needs."""

    layers: int
    heads: int
    hidden: int
    epsilon: float

    @staticmethod
    def read(config: Mapping[str, Any]) -> BertShape:
        """Check that ``config`` describes an encoder this module can fill.

        Raises:
            ConfigurationError: another architecture, or fields missing.
        """
        try:
            shape = BertShape(
                layers=int(config["num_hidden_layers"]),
                heads=int(config["num_attention_heads"]),
                hidden=int(config["hidden_size"]),
                epsilon=float(config["layer_norm_eps"]),
            )
        except (KeyError, TypeError, ValueError) as error:
            raise ConfigurationError(f"the model's config.json lacks or garbles {error}") from None
        kind = (config.get("model_type"), config.get("hidden_act"), config.get("position_embedding_type", "absolute"))
        if kind != ("bert", "gelu", "absolute"):
            raise ConfigurationError(
                f"the light embedder runs BERT with gelu and absolute positions, not {kind}; "
                "use sentence-transformers:<name> for other models"
            )
        if shape.layers < 1 or shape.heads < 1 or shape.hidden < 1 or shape.hidden % shape.heads:
            raise ConfigurationError("the model's config.json has impossible sizes")
        return shape


def specification(tensors: Tensors, shape: BertShape, vocabulary: Sequence[str]) -> Any:
    """CTranslate2's encoder specification, filled and validated.

    Raises:
        ConfigurationError: a tensor is missing or has the wrong shape.
    """
    from ctranslate2.specs import (  # type: ignore[import-untyped, unused-ignore]
        common_spec,
        transformer_spec,
    )

    h = shape.hidden

    def tensor(name: str, *dims: int | None) -> npt.NDArray[np.float32]:
        found = tensors.get(name)
        if found is None:
            raise ConfigurationError(f"the model's weights lack {name}")
        fits = found.ndim == len(dims) and all(d is None or d == n for d, n in zip(dims, found.shape, strict=True))
        if not fits:
            raise ConfigurationError(f"tensor {name} has shape {found.shape}, expected {dims}")
        return np.ascontiguousarray(found, dtype=np.float32)

    def norm(target: Any, name: str) -> None:
        target.gamma = tensor(f"{name}.weight", h)
        target.beta = tensor(f"{name}.bias", h)

    encoder = transformer_spec.TransformerEncoderSpec(
        shape.layers,
        shape.heads,
        pre_norm=False,
        activation=common_spec.Activation.GELU,
        layernorm_embedding=True,
        num_source_embeddings=2,
        embeddings_merge=common_spec.EmbeddingsMerge.ADD,
    )
    encoder.scale_embeddings = False
    encoder.embeddings[0].weight = tensor("embeddings.word_embeddings.weight", len(vocabulary), h)
    encoder.embeddings[1].weight = tensor("embeddings.token_type_embeddings.weight", None, h)
    encoder.position_encodings.encodings = tensor("embeddings.position_embeddings.weight", None, h)
    norm(encoder.layernorm_embedding, "embeddings.LayerNorm")
    for i, layer in enumerate(encoder.layer):
        base = f"encoder.layer.{i}"
        inner = tensor(f"{base}.intermediate.dense.weight", None, h)
        width = inner.shape[0]
        parts = [f"{base}.attention.self.{part}" for part in ("query", "key", "value")]
        attention = layer.self_attention
        attention.linear[0].weight = np.concatenate([tensor(f"{part}.weight", h, h) for part in parts])
        attention.linear[0].bias = np.concatenate([tensor(f"{part}.bias", h) for part in parts])
        attention.linear[1].weight = tensor(f"{base}.attention.output.dense.weight", h, h)
        attention.linear[1].bias = tensor(f"{base}.attention.output.dense.bias", h)
        norm(attention.layer_norm, f"{base}.attention.output.LayerNorm")
        layer.ffn.linear_0.weight = inner
        layer.ffn.linear_0.bias = tensor(f"{base}.intermediate.dense.bias", width)
        layer.ffn.linear_1.weight = tensor(f"{base}.output.dense.weight", h, width)
        layer.ffn.linear_1.bias = tensor(f"{base}.output.dense.bias", h)
        norm(layer.ffn.layer_norm, f"{base}.output.LayerNorm")
    spec = transformer_spec.TransformerEncoderModelSpec(encoder)
    spec.config.layer_norm_epsilon = shape.epsilon
    spec.config.unk_token = "[UNK]"
    spec.register_vocabulary(list(vocabulary))
    spec.validate()
    spec.optimize(quantization="float32")
    return spec


def _file_digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _intact(folder: Path) -> bool:
    try:
        expected = (folder / _CHECKSUM).read_text("ascii").strip()
        return (folder / "config.json").is_file() and _file_digest(folder / "model.bin") == expected
    except (OSError, UnicodeDecodeError):
        return False


def cached_model(
    cache_dir: Path, tensors: Tensors, shape: BertShape, vocabulary: Sequence[str], weights_digest: bytes
) -> Path:
    """Folder of the converted model, made if it is not there or does not match its checksum.

    The entry is written beside its place and renamed into it, so a reader sees all of it or nothing, and of two
    processes that convert at once one wins and the other uses what it finds.

    Raises:
        ConfigurationError: the cache folder cannot be written, or the weights do not fit the architecture.
    """
    import ctranslate2  # type: ignore[import-untyped, unused-ignore]

    words = "\n".join(vocabulary).encode("utf-8")
    key = tagged_hash(
        "embedder/cache", _RECIPE, ctranslate2.__version__.encode(), weights_digest, repr(shape).encode(), words
    )
    home = cache_dir / "embedder"
    place = home / key.hex()[:32]
    if _intact(place):
        return place
    try:
        home.mkdir(parents=True, exist_ok=True)
        workshop = Path(tempfile.mkdtemp(prefix=".new-", dir=home))
        try:
            made = workshop / "model"
            made.mkdir()
            specification(tensors, shape, vocabulary).save(str(made))
            (made / _CHECKSUM).write_text(_file_digest(made / "model.bin") + "\n", "ascii")
            if place.exists() and not _intact(place):
                os.rename(place, workshop / "damaged")
            try:
                os.rename(made, place)
            except OSError:
                if not _intact(place):  # only a finished entry of another process may be in the way
                    raise
        finally:
            shutil.rmtree(workshop, ignore_errors=True)
    except OSError as error:
        raise ConfigurationError(
            f"cannot keep the converted embedding model in {home}: {why(error, home)}; "
            "name a writable folder in RAGSEAL_CACHE"
        ) from None
    return place
