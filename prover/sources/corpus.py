# SPDX-License-Identifier: GPL-3.0-or-later
"""JSONL, CSV, BEIR folders and folders of texts as sources; their readers are those of ``documents put``."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment.corpora import DEFAULT_FIELDS, Document, open_corpus
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.sources.interface import Item, Refused
from ragseal.runtime.metadata import mapping_of


class CorpusSource:
    """A corpus of files.  Errors name file and line."""

    def __init__(
        self, spec: str, vectors: bool, notes: Notes, chunk: int | None = None, metadata: tuple[str, ...] = ()
    ) -> None:
        if vectors:
            raise ConfigurationError("files of texts hold no vectors: embed them (--vectors embed)")
        kind, _, name = spec.partition(":")
        self._spec, self._notes, self._chunk = spec, notes, chunk
        self._fields = replace(DEFAULT_FIELDS, metadata=metadata)
        cut = "" if chunk is None else f"?chunk={chunk}"
        self._identity = f"{kind}:{name if name == '-' else Path(name).absolute()}{cut}"

    def identity(self) -> str:
        return self._identity

    def snapshot(self) -> tuple[Iterator[Item | Refused], str]:
        found = open_corpus(self._spec, fields=self._fields, chunk_characters=self._chunk, notes=self._notes)
        return (_item(document) for document in found), ""

    def close(self) -> None:
        pass


def _item(document: Document) -> Item:
    return Item(document.id, document.text, mapping_of(document.metadata), where=f"document {document.id!r}")
