# SPDX-License-Identifier: GPL-3.0-or-later
"""Milvus, or a file of Milvus Lite: a collection, by the client's query iterator.

    milvus:http://localhost:19530?collection=docs&id=id&text=text&vector=vector&metadata=source
    milvus:/data/milvus.db?collection=docs

The token comes from MILVUS_TOKEN.  Milvus tells nobody what changed.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ragseal.kernel.errors import ConfigurationError
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.sources.interface import Item, Refused
from ragseal.prover.sources.reading import driver_errors, take_row
from ragseal.prover.sources.spec import Columns, columns_of, need, need_driver, require_no_password, split
from ragseal.runtime.edges.proxy import go_straight_in_the_clear

FORM = "milvus:http://HOST:19530|FILE.db?collection=NAME&id=FIELD&text=FIELD&vector=FIELD&metadata=FIELD,..."
TOKEN = "MILVUS_TOKEN"
FETCH = 256
DYNAMIC = "other dynamic fields"  #: of a collection that takes any; their names are in no schema


def open_at(location: str, vectors: bool, notes: Notes) -> MilvusSource:
    """As :func:`ragseal.prover.sources.opening.open_source`."""
    place, options = split(location, ("collection", "id", "text", "title", "vector", "metadata"), FORM)
    require_no_password(place, f"the token (USER:PASSWORD, too) comes from {TOKEN}")
    need_driver("pymilvus", "sources-milvus")
    collection = need("collection", options, FORM)
    if not place.startswith(("http://", "https://")):
        if not place.endswith(".db") or not Path(place).exists():  # the library would make one
            raise ConfigurationError(f"{place} is neither a URL nor a file of Milvus Lite (*.db) that is there")
        need_driver("milvus_lite", "sources-milvus")
        place = str(Path(place).absolute())
    else:
        go_straight_in_the_clear(place)
    from pymilvus import MilvusClient

    with driver_errors("Milvus"):
        client = MilvusClient(uri=place, token=os.environ.get(TOKEN, ""))
    try:
        return MilvusSource(client, place, collection, columns_of(options, vectors, Columns(), "vector"), notes)
    except BaseException:
        client.close()
        raise


class MilvusSource:
    """A collection behind a client.  ConfigurationError: no such collection, or none of its fields."""

    def __init__(self, client: Any, place: str, collection: str, columns: Columns, notes: Notes) -> None:
        self._client, self._notes = client, notes
        with driver_errors("Milvus"):
            if not client.has_collection(collection):
                raise ConfigurationError(f"Milvus has no collection {collection!r}")
            told = client.describe_collection(collection)
            known = [field["name"] for field in told["fields"]]
            client.load_collection(collection)
        missing = [name for name in columns.names() if name not in known]
        if missing and not told.get("enable_dynamic_field"):
            raise ConfigurationError(
                f"collection {collection!r} has no field {missing[0]!r}; it has {', '.join(known)}"
            )
        self._rest = [name for name in known if name not in columns.names()]
        if told.get("enable_dynamic_field"):
            self._rest.append(DYNAMIC)
        self._name, self._columns = collection, columns
        self._identity = f"milvus:{place}?collection={collection}&{columns.told()}"

    def identity(self) -> str:
        return self._identity

    def snapshot(self) -> tuple[Iterator[Item | Refused], str]:
        self._notes.begin(self._columns.metadata)
        return self._read(), ""

    def _read(self) -> Iterator[Item | Refused]:
        with driver_errors("Milvus"):
            pages = self._client.query_iterator(self._name, batch_size=FETCH, output_fields=self._columns.names())
            try:
                number = 0
                while rows := pages.next():
                    for row in rows:
                        number += 1
                        where = f"row {number} of collection {self._name!r}"
                        also = [name for name in self._rest if name not in row]
                        yield take_row(row, self._columns, where, self._notes, also=also)
            finally:
                pages.close()

    def close(self) -> None:
        self._client.close()
