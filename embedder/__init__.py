# SPDX-License-Identifier: GPL-3.0-or-later
"""Embedders behind one small interface, shared by provider and client; quantisation to e; C_emb's digest.

    from ragseal.embedder import embed_query
    e = embed_query("how do I parse JSON?")          # int8, shape (384,)

Importing this package loads numpy and nothing heavier; models and their libraries come in at first use.
"""

from __future__ import annotations

if __name__ != "ragseal.embedder":  # a second copy of every class, errors among them
    raise ImportError("import ragseal.embedder, not embedder")

from ragseal.embedder.interface import Embedder, EmbedderIdentity, Identity, Progress, Quantised, Role, Vectors
from ragseal.embedder.loading import DEFAULT, default_cache_dir, embed_query, load_embedder
from ragseal.embedder.quantisation import quantise

__all__ = [
    "DEFAULT",
    "Embedder",
    "EmbedderIdentity",
    "Identity",
    "Progress",
    "Quantised",
    "Role",
    "Vectors",
    "default_cache_dir",
    "embed_query",
    "load_embedder",
    "quantise",
]
