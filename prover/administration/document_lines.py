# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents on their way to a serving provider: one a line."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from ragseal.kernel.errors import EncodingError
from ragseal.prover.commitment.corpora import Document
from ragseal.runtime.metadata import committed, mapping_of

MAX_LINE = 1 << 22  #: bytes of one document as a line
MAX_CORPUS = 1 << 31  #: bytes of all that come in one call


def lines_of(found: Iterable[Document]) -> Iterator[bytes]:
    """Documents as they are handed to a serving provider."""
    for one in found:
        yield json.dumps({"id": one.id, "text": one.text, "metadata": mapping_of(one.metadata)}).encode() + b"\n"


class Lines:
    """Documents from pieces of lines that are cut anywhere; bounded before anything is parsed."""

    def __init__(self) -> None:
        self.documents: list[Document] = []
        self._left = bytearray()
        self._size = 0

    def add(self, piece: bytes) -> None:
        """The next piece.  EncodingError: too much, or a line that is no document."""
        self._size += len(piece)
        if self._size > MAX_CORPUS:
            raise EncodingError(f"more than {MAX_CORPUS} bytes of documents came at once: send fewer")
        self._left += piece
        *whole, rest = self._left.split(b"\n")
        self._left = bytearray(rest)
        if len(rest) > MAX_LINE:
            raise EncodingError(f"a document takes more than {MAX_LINE} bytes")
        for line in whole:
            self.documents.append(_document(bytes(line)))

    def all(self) -> list[Document]:
        """Every document.  EncodingError: the last line has no end, so that something was cut off."""
        if self._left:
            raise EncodingError("the last document was cut off: nothing was added")
        return self.documents


def _document(line: bytes) -> Document:
    try:
        values = json.loads(line.decode("utf-8"))
    except (ValueError, RecursionError):
        raise EncodingError("a document is not a line of JSON") from None
    if not isinstance(values, dict) or set(values) != {"id", "text", "metadata"}:
        raise EncodingError("a document must hold exactly the members id, text and metadata")
    name, text, metadata = values["id"], values["text"], values["metadata"]
    if not isinstance(name, str) or not isinstance(text, str) or not isinstance(metadata, dict):
        raise EncodingError("a document's id and text are texts, its metadata is an object")
    return Document(name, text, committed(metadata))
