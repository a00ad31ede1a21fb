# SPDX-License-Identifier: GPL-3.0-or-later
"""JSONL, CSV, BEIR folders and folders of texts as sources; their readers are those of ``documents put``."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment.corpora import open_corpus
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.sources.interface import Item


class CorpusSource:
    """A corpus of files.  Errors name file and line."""

    def __init__(self, spec: str, vectors: bool, notes: Notes, chunk: int | None = None) -> None:
        if vectors:
            raise ConfigurationError("files of texts hold no vectors: embed them (--vectors embed)")
        kind, _, name = spec.partition(":")
        self._spec, self._notes, self._chunk = spec, notes, chunk
        cut = "" if chunk is None else f"?chunk={chunk}"
        self._identity = f"{kind}:{name if name == '-' else Path(name).absolute()}{cut}"

    def identity(self) -> str:
        return self._identity

    def snapshot(self) -> tuple[Iterator[Item], str]:
        found = open_corpus(self._spec, chunk_characters=self._chunk, notes=self._notes)
        return (Item(document.id, document.text, where=f"document {document.id!r}") for document in found), ""

    def close(self) -> None:
        pass
