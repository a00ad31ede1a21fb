# SPDX-License-Identifier: GPL-3.0-or-later
"""A FAISS index file beside a JSONL file of ids and texts.

    faiss:index.faiss?texts=texts.jsonl&metadata=source

Line n of the texts belongs to vector n, or for an IndexIDMap to the vector whose number its member ``key`` holds.  The
index is read by faiss itself, flat ones only, since others keep approximations.  LangChain's index.pkl is a pickle,
which runs code when it is read: export its texts as JSONL instead.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.prover.commitment.corpora import DEFAULT_LIMITS
from ragseal.prover.commitment.corpus_files import objects_of, require_file
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.sources.interface import Item, Refused
from ragseal.prover.sources.reading import driver_errors, take_row
from ragseal.prover.sources.spec import Columns, columns_of, need, need_driver, split

FORM = "faiss:INDEX?texts=FILE.jsonl&key=MEMBER&id=MEMBER&text=MEMBER&metadata=MEMBER,..."
INDEX_BYTES = 8 << 30
FLAT, MAPPED = (b"IxFI", b"IxF2"), (b"IxMp", b"IxM2")  #: how files begin: flat by product or distance; with numbers
VECTOR = "vector"


def open_at(location: str, vectors: bool, notes: Notes) -> FaissSource:
    """As :func:`ragseal.prover.sources.opening.open_source`."""
    place, options = split(location, ("texts", "key", "id", "text", "title", "metadata"), FORM)
    texts = need("texts", options, FORM)
    for one in (place, texts):
        if one.endswith((".pkl", ".pickle")):
            raise ConfigurationError(
                f"{one} is a pickle, which runs code when it is read: it is not. Export ids and texts as JSONL"
            )
    need_driver("faiss", "sources-faiss")
    columns = columns_of(options, vectors, Columns(), VECTOR)
    return FaissSource(Path(place).absolute(), Path(texts).absolute(), options.get("key"), columns, notes)


class FaissSource:
    """Vectors of an index file and the texts beside it."""

    def __init__(self, index: Path, texts: Path, key: str | None, columns: Columns, notes: Notes) -> None:
        self._index, self._texts, self._key, self._columns, self._notes = index, texts, key, columns, notes
        self._identity = f"faiss:{index}?texts={texts}&{columns.told()}"

    def identity(self) -> str:
        return self._identity

    def snapshot(self) -> tuple[Iterator[Item | Refused], str]:
        self._notes.begin(self._columns.metadata)
        require_file(self._texts, DEFAULT_LIMITS)
        return self._read(), ""

    def _read(self) -> Iterator[Item | Refused]:
        vectors, numbers = _vectors(self._index)
        key = self._key
        place = {int(number): at for at, number in enumerate(numbers)}
        count = 0
        for count, (where, row) in enumerate(objects_of(self._texts, DEFAULT_LIMITS), 1):
            at = count - 1
            if key is not None:
                number = row.get(key)
                if isinstance(number, bool) or not isinstance(number, int) or number not in place:
                    raise EncodingError(f"{where}: member {key!r} is not the number of a vector in {self._index}")
                at = place.pop(number)
            if at >= len(vectors):
                raise EncodingError(f"{where}: {self._index} has {len(vectors)} vectors, and no more")
            own = {name: value for name, value in row.items() if name != key or name in self._columns.names()}
            yield take_row(own, self._columns, where, self._notes, vector=vectors[at])
        if count != len(vectors):
            raise EncodingError(f"{self._texts} has {count} lines, {self._index} {len(vectors)} vectors")

    def close(self) -> None:
        pass


def _vectors(path: Path) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.int64]]:
    """All vectors, (n, d), and their numbers, (n,).  Raises EncodingError: not a flat index."""
    import faiss

    require_file(path, DEFAULT_LIMITS)
    if path.stat().st_size > INDEX_BYTES:
        raise EncodingError(f"{path} has more than {INDEX_BYTES} bytes")
    with path.open("rb") as file:
        head, told = file.read(4), file.read(12)
    dimension, count = int.from_bytes(told[:4], "little"), int.from_bytes(told[4:], "little")
    if 4 * dimension * count > path.stat().st_size:
        raise EncodingError(f"{path} says it has {count} vectors of {dimension}: it is too short for them")
    if head not in (*FLAT, *MAPPED):
        raise EncodingError(f"{path} is not a flat FAISS index (it begins with {head!r}): others keep approximations")
    with driver_errors(f"FAISS, {path}"):
        try:
            outer: Any = faiss.read_index(str(path))
        except RuntimeError as error:
            raise EncodingError(f"{path} is not a FAISS index that can be read: {str(error)[-200:]}") from None
        index, numbers = outer, np.arange(outer.ntotal)
        if head in MAPPED:
            numbers = faiss.vector_to_array(outer.id_map)
            index = faiss.downcast_index(outer.index)  # lives as long as the outer one
        if not isinstance(index, faiss.IndexFlat) or index.ntotal != len(numbers):
            raise EncodingError(f"{path} is not a flat FAISS index: others keep approximations")
        return index.reconstruct_n(0, index.ntotal), numbers
