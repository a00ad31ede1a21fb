# SPDX-License-Identifier: GPL-3.0-or-later
"""Embedders by name, and the one call a client needs for its own e.  SPEC B.1."""

from __future__ import annotations

import functools
import os
from pathlib import Path

from ragseal.embedder.declared import PREFIX, DeclaredModel
from ragseal.embedder.interface import Embedder, Quantised
from ragseal.embedder.minilm import MiniLM
from ragseal.embedder.quantisation import quantise
from ragseal.embedder.sentence import SentenceModel
from ragseal.kernel.errors import UnavailableError

DEFAULT = "minilm"
_SENTENCE = "sentence-transformers:"


def default_cache_dir() -> Path:
    """RAGSEAL_CACHE, else the user's cache folder (XDG_CACHE_HOME or ~/.cache) with "ragseal" below it."""
    own = os.environ.get("RAGSEAL_CACHE")
    if own:
        return Path(own)
    base = os.environ.get("XDG_CACHE_HOME")
    return (Path(base) if base else Path.home() / ".cache") / "ragseal"


def load_embedder(name: str = DEFAULT, cache_dir: Path | None = None, threads: int | None = None) -> Embedder:
    """The embedder called ``name``: "minilm", "sentence-transformers:" and a folder or model name, or "declared:" and
    PROVIDER/MODEL@DIMENSION of one that is asked over the network.

    Cheap: weights are read at first use.  ``cache_dir`` defaults to :func:`default_cache_dir`.  ``threads`` of one run
    (minilm only) default to all cores, which suits documents; for a service that embeds queries take 1: threads that
    wait for each other over a few tokens burn several times the work itself.

    Raises:
        UnavailableError: unknown name, or the packages it needs are not installed (says which).
    """
    if name == DEFAULT:
        return MiniLM(default_cache_dir() if cache_dir is None else Path(cache_dir), intra_threads=threads)
    if name.startswith(_SENTENCE) and len(name) > len(_SENTENCE):
        return SentenceModel(name.removeprefix(_SENTENCE))
    if name.startswith(PREFIX):
        return DeclaredModel.from_environment(name.removeprefix(PREFIX))
    raise UnavailableError(
        f"unknown embedder {name!r}; known: {DEFAULT!r}, '{_SENTENCE}<folder or model name>', "
        f"'{PREFIX}<provider>/<model>@<dimension>'"
    )


@functools.lru_cache(maxsize=4)
def _shared(name: str, cache_dir: Path) -> Embedder:
    return load_embedder(name, cache_dir)


def embed_query(text: str, name: str = DEFAULT, cache_dir: Path | None = None) -> Quantised:
    """A client's own e for one query, int8, shape (d,), computed on its machine without asking the provider.

    The model stays loaded for the next call.

    Raises:
        EncodingError: the text is no valid Unicode or too long.
        ConfigurationError: the embedder is unknown or not installed.
    """
    embedder = _shared(name, default_cache_dir() if cache_dir is None else Path(cache_dir))
    e: Quantised = quantise(embedder.embed([text], role="query"))[0]
    return e
