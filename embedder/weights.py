# SPDX-License-Identifier: GPL-3.0-or-later
"""Digests of a model's content, whatever file format or library carries it.  SPEC A.2."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.transcript import tagged_hash

#: What a transformer's weights do not show about the function they compute.
ARCHITECTURE_KEYS = (
    "hidden_act",
    "hidden_size",
    "intermediate_size",
    "layer_norm_eps",
    "model_type",
    "num_attention_heads",
    "num_hidden_layers",
)


def canonical_json(value: Any) -> str:
    """JSON with sorted keys, no spaces and ASCII only: one text for one value."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=True, allow_nan=False)


def tensors_digest(tensors: Mapping[str, npt.NDArray[Any]]) -> bytes:
    """32 bytes that name the floating-point tensors of a model.

    Tensors in the order of their names (code points); for each a tagged hash of name, type, shape and the
    little-endian bytes in C order; then a tagged hash over all of those.  Integer buffers (position numbers that some
    versions of a library store and others do not) carry no knowledge and are left out.

    Raises:
        ConfigurationError: no floating-point tensor at all.
    """
    parts: list[bytes] = []
    for name in sorted(tensors):
        tensor = tensors[name]
        if not np.issubdtype(tensor.dtype, np.floating):
            continue
        little = np.ascontiguousarray(tensor, dtype=tensor.dtype.newbyteorder("<"))
        content = hashlib.sha256(little.data if little.size else b"").digest()
        kind = f"f{little.dtype.itemsize * 8}{list(little.shape)}"
        parts.append(tagged_hash("embedder/tensor", name.encode("utf-8"), kind.encode("ascii"), content))
    if not parts:
        raise ConfigurationError("the model holds no floating-point tensors")
    return tagged_hash("embedder/weights", *parts)


def tokenizer_digest(definition: bytes | str) -> bytes:
    """32 bytes that name a tokenizer.json without ``padding`` and ``truncation``, which the embedder sets itself.

    Raises:
        ConfigurationError: not a JSON object.
    """
    try:
        value = json.loads(definition)
    except (ValueError, RecursionError):
        raise ConfigurationError("the tokenizer's definition is not JSON; install the model again") from None
    if not isinstance(value, dict):
        raise ConfigurationError("the tokenizer's definition is not a JSON object; install the model again")
    kept = {key: item for key, item in value.items() if key not in ("padding", "truncation")}
    return tagged_hash("embedder/tokenizer", canonical_json(kept).encode("ascii"))


def architecture(config: Mapping[str, Any]) -> str:
    """Canonical JSON of ARCHITECTURE_KEYS as far as ``config`` (a model's config.json) has them."""
    return canonical_json({key: config[key] for key in ARCHITECTURE_KEYS if config.get(key) is not None})
