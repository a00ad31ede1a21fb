# SPDX-License-Identifier: GPL-3.0-or-later
"""Qdrant: a collection, scrolled through in the order of its point ids.

    qdrant:https://qdrant.example:6333?collection=docs&text=text&metadata=source,title

A point's id is the document's, or a field of its payload (id=FIELD); ``vector`` names one of several vectors.  The API
key comes from QDRANT_API_KEY.  A scroll is no snapshot: points that are written meanwhile may be of before or after.
Qdrant tells nobody what changed, so rows are compared by id and content.  A folder of the client's local mode is not
read: it keeps points as pickles, which run code when they are read.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.sources.interface import Item, Refused
from ragseal.prover.sources.reading import driver_errors, take_row
from ragseal.prover.sources.spec import Columns, columns_of, need, need_driver, require_no_password, split
from ragseal.runtime.edges.proxy import go_straight_in_the_clear

FORM = "qdrant:http://HOST:6333?collection=NAME&text=FIELD&id=FIELD&vector=NAME&metadata=FIELD,..."
API_KEY = "QDRANT_API_KEY"
FETCH = 256
SECONDS = 60  #: for one page
POINT_ID = "point id"  #: column of the point's own id; payload fields have no such name by default


def open_at(location: str, vectors: bool, notes: Notes) -> QdrantSource:
    """As :func:`ragseal.prover.sources.opening.open_source`."""
    url, options = split(location, ("collection", "id", "text", "title", "vector", "metadata"), FORM)
    if not url.startswith(("http://", "https://")):
        raise ConfigurationError(
            "a Qdrant source is the URL of a server: a folder of the client's local mode holds pickles, which run code "
            f"when they are read; the form is {FORM}"
        )
    require_no_password(url, f"the API key comes from {API_KEY}")
    need_driver("qdrant_client", "sources-qdrant")
    go_straight_in_the_clear(url)
    from qdrant_client import QdrantClient

    with driver_errors("Qdrant"):
        client = QdrantClient(url=url, api_key=os.environ.get(API_KEY), timeout=SECONDS)
    columns = columns_of(options, vectors, Columns(id=POINT_ID), "")
    return QdrantSource(client, url, need("collection", options, FORM), columns, notes)


class QdrantSource:
    """A collection behind a client.

    Args:
        client: of qdrant_client.
        place: where it is, for its identity.
        columns: payload fields; the vector's name is empty for a collection that has one.
    """

    def __init__(self, client: Any, place: str, collection: str, columns: Columns, notes: Notes) -> None:
        self._client, self._notes = client, notes
        self._collection = collection
        self._columns = columns
        self._identity = f"qdrant:{place}?collection={collection}&{columns.told()}"

    def identity(self) -> str:
        return self._identity

    def snapshot(self) -> tuple[Iterator[Item | Refused], str]:
        self._notes.begin(self._columns.metadata)
        with driver_errors("Qdrant"):
            if not self._client.collection_exists(self._collection):
                raise ConfigurationError(f"Qdrant has no collection {self._collection!r}")
        return self._read(), ""

    def _read(self) -> Iterator[Item | Refused]:
        columns = self._columns
        named = columns.vector
        wanted: bool | list[str] = [named] if named else named is not None
        offset: Any = None
        while True:
            with driver_errors("Qdrant"):
                points, offset = self._client.scroll(
                    self._collection, limit=FETCH, offset=offset, with_payload=True, with_vectors=wanted
                )
            for point in points:
                vector = point.vector.get(named) if isinstance(point.vector, dict) else point.vector
                row = {**(point.payload or {}), POINT_ID: point.id}
                if columns.id != POINT_ID:
                    del row[POINT_ID]
                where = f"point {point.id} of collection {self._collection!r}"
                yield take_row(row, columns, where, self._notes, vector=vector)  # all of the payload, to note the rest
            if offset is None:
                return

    def close(self) -> None:
        self._client.close()
