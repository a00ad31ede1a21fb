# SPDX-License-Identifier: GPL-3.0-or-later
"""What a plan is measured on: documents, queries and judgements, quantised as the mechanism quantises them.

Queries and judgements come from a BEIR folder, or are made from the documents themselves (known-item search: a sentence
of a document is the query, that document the answer).  They never come from what accounts asked: a policy tuned on
private queries would tell about them.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from ragseal.embedder import Embedder, Quantised, quantise
from ragseal.embedder.interface import Role
from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.prover.commitment.corpora import Document, open_corpus, read_beir_qrels, read_beir_queries
from ragseal.runtime.edges.filesystem import why
from ragseal.runtime.progress import Progress, nothing

EMBED_BATCH = 256  #: texts between two progress reports
SENTENCE_FROM = 1000  #: characters of a document that pseudo-queries are taken from: embedders cut what follows
SENTENCE_WORDS = (5, 40)


@dataclass(frozen=True, slots=True)
class Workload:
    """Documents fill slots 0, 1, 2, ... of an index; every query has at least one relevant document."""

    source: str  #: where the queries come from, for people
    documents: int
    scores: np.ndarray  #: y, int32, shape (queries, documents)
    relevant: tuple[Mapping[int, int], ...]  #: a query's grades above 0 by document

    @property
    def queries(self) -> int:
        return len(self.relevant)


def load_workload(
    spec: str,
    embedder: Embedder,
    *,
    split: str = "test",
    pseudo: bool = False,
    most: int = 300,
    cache: Path | None = None,
    progress: Progress = nothing,
) -> Workload:
    """Read a corpus, find its queries, embed and score all of it.

    Args:
        spec: "beir:FOLDER", whose queries and judgements are taken, or any corpus for pseudo-queries.
        split: of the BEIR judgements.
        pseudo: make queries from the documents even where the folder has its own.
        most: queries that are used, drawn by the hash of their identifiers.
        cache: folder in which embeddings are kept by content; they are as private as the texts.

    Raises:
        ConfigurationError, EncodingError: as the readers say; judgements of documents that are not there.
    """
    documents = list(open_corpus(spec))
    kind, _, name = spec.partition(":")
    if kind == "beir" and not pseudo:
        texts, relevant = _judged(Path(name), split, documents, most)
        source = f"queries of {spec}, judgements of split {split}"
    else:
        texts, relevant = pseudo_queries(documents, most)
        source = f"pseudo-queries: a sentence of each of {len(texts)} documents, which is easier than real questions"
    rows = embed(embedder, [d.text for d in documents], "document", cache, progress)
    asked = embed(embedder, texts, "query", cache, progress)
    scores = np.stack([rows.astype(np.int32) @ e.astype(np.int32) for e in asked])
    return Workload(source, len(documents), scores, relevant)


def chosen(names: Sequence[str], most: int) -> list[str]:
    """At most ``most`` of the names, by their hash: a fixed choice that depends on no order or generator."""
    return sorted(names, key=lambda name: hashlib.sha256(name.encode()).digest())[:most]


def _judged(
    folder: Path, split: str, documents: Sequence[Document], most: int
) -> tuple[list[str], tuple[dict[int, int], ...]]:
    slots = {document.id: i for i, document in enumerate(documents)}
    texts, qrels = read_beir_queries(folder), read_beir_qrels(folder, split)
    relevant: dict[str, dict[int, int]] = {}
    for query, grades in qrels.items():
        missing = [d for d in grades if d not in slots]
        if query not in texts or missing:
            what = f"document {missing[0]!r}" if missing else f"query {query!r}"
            raise EncodingError(f"{folder}, split {split}: {what} is judged but not in the corpus")
        good = {slots[d]: grade for d, grade in grades.items() if grade > 0}
        if good:
            relevant[query] = good
    if not relevant:
        raise ConfigurationError(f"{folder}, split {split}: no query has a relevant document; use another --split")
    names = chosen(list(relevant), most)
    return [texts[n] for n in names], tuple(relevant[n] for n in names)


def pseudo_queries(documents: Sequence[Document], most: int) -> tuple[list[str], tuple[dict[int, int], ...]]:
    """A sentence of a document as the query for it; of a document with one sentence, half of its words."""
    names = chosen([document.id for document in documents], most)
    slots = {document.id: i for i, document in enumerate(documents)}
    return [_sentence(documents[slots[n]]) for n in names], tuple({slots[n]: 1} for n in names)


def _sentence(document: Document) -> str:
    parts = re.split(r"(?<=[.!?])\s+|\n+", document.text[:SENTENCE_FROM])
    shortest, longest = SENTENCE_WORDS
    fit = [part for part in parts if shortest <= len(part.split()) <= longest]
    if len(fit) > 1:
        return fit[int.from_bytes(hashlib.sha256(document.id.encode()).digest()[:8], "big") % len(fit)]
    words = document.text[:SENTENCE_FROM].split()
    return " ".join(words[: max(1, len(words) // 2)])


def embed(embedder: Embedder, texts: Sequence[str], role: Role, cache: Path | None, progress: Progress) -> Quantised:
    """Quantised embeddings of ``texts``; from ``cache`` where the same texts were embedded before."""
    path = None if cache is None else cache / f"{_content(embedder, texts, role)}.npy"
    if path is not None and path.exists():
        try:
            kept = np.load(path, allow_pickle=False)
        except OSError as error:
            raise ConfigurationError(f"cannot read {path}: {why(error, path)}") from None
        except ValueError:
            raise ConfigurationError(f"{path} is damaged: remove it and plan again") from None
        if kept.dtype == np.int8 and kept.shape == (len(texts), embedder.dimension):
            return np.asarray(kept)
        raise ConfigurationError(f"{path} is damaged: remove it and plan again")
    what = f"embedding {'queries' if role == 'query' else 'documents'}"
    parts = [np.zeros((0, embedder.dimension), dtype=np.int8)]
    progress(what, 0, len(texts))
    for at in range(0, len(texts), EMBED_BATCH):
        parts.append(quantise(embedder.embed(list(texts[at : at + EMBED_BATCH]), role=role)))
        progress(what, at + len(parts[-1]), len(texts))
    rows = np.concatenate(parts)
    if path is not None:
        _keep(path, rows)
    return rows


def _content(embedder: Embedder, texts: Sequence[str], role: Role) -> str:
    h = hashlib.sha256(embedder.identity().digest() + role.encode())
    for text in texts:
        data = text.encode()
        h.update(len(data).to_bytes(8, "big") + data)
    return h.hexdigest()


def _keep(path: Path, rows: Quantised) -> None:
    """Readable by its owner only; whole or absent."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        handle, temporary = tempfile.mkstemp(dir=path.parent, suffix=".part")  # mode 0600
        with os.fdopen(handle, "wb") as file:
            np.save(file, rows)
        os.replace(temporary, path)
    except OSError as error:
        raise ConfigurationError(f"cannot keep embeddings in {path.parent}: {why(error, path.parent)}") from None
