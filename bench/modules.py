# SPDX-License-Identifier: GPL-3.0-or-later
"""A collection whose queries have many relevant documents, made from this machine's own standard library.

The demo's docstrings are the documents, but for those of modules.  A query is how the docstring of a module begins;
relevant are the docstrings of everything in that module.  Nobody judged them, and nobody who measures chose them.
"""

from __future__ import annotations

import ast
import sysconfig
from collections.abc import Iterator, Mapping
from pathlib import Path

import numpy as np

from ragseal.demo.corpus import demo_documents, modules
from ragseal.embedder import Embedder
from ragseal.prover.planning.workload import Workload, embed
from ragseal.runtime.progress import Progress

LEAST = 10  #: docstrings in a module that is asked for


def first_paragraphs() -> Iterator[tuple[str, str]]:
    """(name, first paragraph of the docstring) of every module of the standard library that has one."""
    for path, name in modules(Path(sysconfig.get_path("stdlib"))):
        text = ast.get_docstring(ast.parse(path.read_bytes()))
        if text:
            yield name, " ".join(text.partition("\n\n")[0].split())


def collection(identifiers: list[str], asked: Mapping[str, str]) -> tuple[list[str], list[dict[int, int]]]:
    """Texts of queries, and of each its relevant documents by place, with grade 1."""
    texts, relevant = [], []
    for name, text in asked.items():
        owned = {place: 1 for place, identifier in enumerate(identifiers) if identifier.startswith(name + ".")}
        if len(owned) >= LEAST:
            texts.append(text)
            relevant.append(owned)
    return texts, relevant


def module_works(embedder: Embedder, cache: Path | None, progress: Progress) -> list[Workload]:
    """One for each tenant of the demo's corpus."""
    asked, works = dict(first_paragraphs()), []
    for tenant, documents in demo_documents().items():
        kept = [d for d in documents if d.id not in asked]
        texts, relevant = collection([d.id for d in kept], asked)
        rows = embed(embedder, [d.text for d in kept], "document", cache, progress).astype(np.int32)
        queries = embed(embedder, texts, "query", cache, progress).astype(np.int32)
        works.append(Workload(f"modules of tenant {tenant}", len(kept), queries @ rows.T, tuple(relevant)))
    return works
