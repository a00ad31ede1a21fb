# SPDX-License-Identifier: GPL-3.0-or-later
"""Chroma: a collection of a server, or of a folder that no server uses just then.

    chroma:http://localhost:8000?collection=docs&metadata=source
    chroma:/data/chroma?collection=docs

Chroma's id is the document's and its document the text, unless id and text name metadata.  It is read page by page, so
what is written meanwhile may be of before or after, and it tells nobody what changed.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.sources.interface import Item, Refused
from ragseal.prover.sources.reading import driver_errors, take_row
from ragseal.prover.sources.spec import Columns, columns_of, need, need_driver, require_no_password, split
from ragseal.runtime.edges.proxy import go_straight_in_the_clear

FORM = "chroma:http://HOST:8000|FOLDER?collection=NAME&id=KEY&text=KEY&metadata=KEY,..."
FETCH = 256
OWN_ID, DOCUMENT, EMBEDDING = "chroma id", "chroma document", "chroma embedding"  #: what stands outside metadata
RUST = "chromadb.api.rust.RustBindingsAPI"  #: reads a folder without Python's pickle, unlike what older releases did


def open_at(location: str, vectors: bool, notes: Notes) -> ChromaSource:
    """As :func:`ragseal.prover.sources.opening.open_source`."""
    place, options = split(location, ("collection", "id", "text", "title", "metadata"), FORM)
    require_no_password(place, "none is sent; put a proxy in between that adds it")
    need_driver("chromadb", "sources-chroma")
    if place.startswith(("http://", "https://")):
        go_straight_in_the_clear(place)
    import chromadb
    from chromadb.config import Settings

    collection = need("collection", options, FORM)
    with driver_errors("Chroma"):
        if place.startswith(("http://", "https://")):
            url = urlsplit(place)
            quiet = Settings(anonymized_telemetry=False)
            port = url.port or (443 if url.scheme == "https" else 8000)
            client = chromadb.HttpClient(url.hostname or "", port, url.scheme == "https", settings=quiet)
        else:
            if not (Path(place) / "chroma.sqlite3").is_file():  # the library would make one
                raise ConfigurationError(f"{place} is not a folder of Chroma: it has no chroma.sqlite3")
            place = str(Path(place).absolute())
            quiet = Settings(anonymized_telemetry=False, chroma_api_impl=RUST)
            client = chromadb.PersistentClient(place, quiet)
    columns = columns_of(options, vectors, Columns(id=OWN_ID, text=DOCUMENT), EMBEDDING)
    return ChromaSource(client, place, collection, columns, notes)


class ChromaSource:
    """A collection behind a client; its own embedding function is never made.  ConfigurationError: there is none."""

    def __init__(self, client: Any, place: str, collection: str, columns: Columns, notes: Notes) -> None:
        with driver_errors("Chroma"):
            if collection not in [one.name for one in client.list_collections()]:
                raise ConfigurationError(f"Chroma has no collection {collection!r}")
            self._collection = client.get_collection(collection, embedding_function=None)
        self._name, self._columns, self._notes = collection, columns, notes
        self._identity = f"chroma:{place}?collection={collection}&{columns.told()}"

    def identity(self) -> str:
        return self._identity

    def snapshot(self) -> tuple[Iterator[Item | Refused], str]:
        self._notes.begin(self._columns.metadata)
        return self._read(), ""

    def _read(self) -> Iterator[Item | Refused]:
        own = self._columns.names()
        include = ["documents", "metadatas", *(["embeddings"] if self._columns.vector is not None else [])]
        at = 0
        while True:
            with driver_errors("Chroma"):
                page = self._collection.get(limit=FETCH, offset=at, include=include)
            names, vectors = page["ids"], page["embeddings"]
            for number, name in enumerate(names):
                engines = {
                    OWN_ID: name,
                    DOCUMENT: page["documents"][number],
                    EMBEDDING: None if vectors is None else vectors[number],
                }
                told = {key: value for key, value in engines.items() if key in own or (key == DOCUMENT and value)}
                where = f"row {at + number + 1} of collection {self._name!r}"
                yield take_row({**(page["metadatas"][number] or {}), **told}, self._columns, where, self._notes)
            if len(names) < FETCH:
                return
            at += len(names)

    def close(self) -> None:
        pass
