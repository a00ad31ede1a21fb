# SPDX-License-Identifier: GPL-3.0-or-later
"""Which source a specification names."""

from __future__ import annotations

from collections.abc import Callable
from importlib import import_module
from pathlib import Path
from urllib.parse import quote

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.sources.interface import Source
from ragseal.prover.sources.spec import need_driver

Opener = Callable[[str, bool, Notes], Source]  #: what stands behind the kind, whether vectors are wanted, notes

ENGINES = {  #: kind -> module; imported when it is named
    "postgres": "postgres",
    "qdrant": "qdrant",
    "lancedb": "lance",
    "chroma": "chroma",
    "milvus": "milvus",
    "parquet": "parquet",
    "vdf": "vdf",
    "faiss": "faiss_file",
    "jsonl": "corpus",
    "csv": "corpus",
    "beir": "corpus",
    "text": "corpus",
}
#: Engines whose module imports its driver, with the driver's package and extra; others look for theirs when opened.
DRIVERS = {"postgres": ("psycopg", "sources-postgres")}
FILES = set(ENGINES) - {"postgres", "qdrant"}  #: kinds that may name files
TEXTS = "texts="  #: the option that names one, too
KINDS = ", ".join(f"{kind}:..." for kind in ENGINES)


def absolute(spec: str) -> str:
    """The same specification for a process that runs in another folder: relative files are named from the root."""
    kind, colon, location = spec.partition(":")
    if not colon or kind not in FILES or "://" in location or location == "-":
        return spec
    if ENGINES[kind] == "corpus":
        return f"{kind}:{Path(location).absolute()}"
    place, mark, options = location.partition("?")
    here = quote(f"{Path.cwd()}/", safe="/")
    parts = [
        f"{TEXTS}{here}{part[len(TEXTS) :]}" if part.startswith(TEXTS) and not part.startswith(f"{TEXTS}/") else part
        for part in options.split("&")
    ]
    return f"{kind}:{place if place.startswith('/') else here + place}{mark}{'&'.join(parts)}"


def open_source(
    spec: str,
    vectors: bool = False,
    notes: Notes | None = None,
    chunk: int | None = None,
    metadata: tuple[str, ...] = (),
) -> Source:
    """The source of a specification such as ``postgres:postgresql://host/db?table=chunks``.

    Args:
        vectors: whether its items are to bring vectors along.
        notes: told what of the source is not taken, complete once a snapshot was read.
        chunk: of text folders, as :func:`ragseal.prover.commitment.corpora.open_corpus` has it.
        metadata: of files of texts, which members or columns are metadata; databases name theirs in the specification.

    Raises:
        ConfigurationError: an unknown kind or option, or a driver that is not installed (names the extra).
        TransportError: the engine cannot be reached.
    """
    kind, colon, location = spec.partition(":")
    module = ENGINES.get(kind)
    if not colon or module is None:
        raise ConfigurationError(f"source {kind[:40]!r} is of no known kind: {KINDS}")
    told = Notes() if notes is None else notes
    if module == "corpus":
        from ragseal.prover.sources.corpus import CorpusSource

        return CorpusSource(spec, vectors, told, chunk, metadata)
    if metadata:
        raise ConfigurationError("--metadata-fields is for files of texts; name columns in the source: &metadata=a,b")
    if chunk is not None:
        raise ConfigurationError("only text folders are split into chunks; rows of other sources are documents")
    if module in DRIVERS:
        need_driver(*DRIVERS[module])
    opener: Opener = import_module(f"ragseal.prover.sources.{module}").open_at
    return opener(location, vectors, told)
