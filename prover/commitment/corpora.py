# SPDX-License-Identifier: GPL-3.0-or-later
"""Documents from files: JSONL, CSV, BEIR folders, folders of texts; JSONL and CSV also from standard input.

Every reader yields :class:`Document` in the order of the source, or stops with an error that names file and line.
Nothing is skipped in silence: a corpus that lost a document on the way is another corpus than the one its owner agreed
to.  What is not taken in (links in a folder, members that no document has here) is told in :class:`Notes`.
Readers stream; memory holds one line and the identifiers seen so far.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError
from ragseal.kernel.slot_text import NO_METADATA, Metadata, SlotText
from ragseal.prover.commitment.corpus_csv import rows_of
from ragseal.prover.commitment.corpus_files import (
    Limits,
    inside,
    lines_of,
    objects_of,
    require_file,
    require_folder,
    shown,
    text_files,
)
from ragseal.prover.commitment.corpus_metadata import check_names, taken, unread
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.runtime import texts

KINDS = "jsonl:FILE, csv:FILE (- for FILE is standard input), beir:FOLDER or text:FOLDER"


@dataclass(frozen=True, slots=True)
class Document:
    """One retrievable text; it fills one slot of the index.  ``id`` is unique in its corpus."""

    id: str
    text: str
    metadata: Metadata = NO_METADATA

    @property
    def content(self) -> SlotText:
        """What a slot's leaf commits to."""
        return SlotText(self.id, self.text, self.metadata)


@dataclass(frozen=True, slots=True)
class JsonFields:
    """Which members of a JSON line are read.  The first name in ``id`` that the line has is taken."""

    id: tuple[str, ...] = ("id", "_id")
    text: str = "text"
    title: str | None = "title"  #: joined in front of the text with a line break where it is there and not empty
    metadata: tuple[str, ...] = ()  #: kept beside the text where a line has them; title and id may be among them


DEFAULT_FIELDS = JsonFields()
DEFAULT_LIMITS = Limits()


def open_corpus(
    spec: str,
    *,
    fields: JsonFields = DEFAULT_FIELDS,
    limits: Limits = DEFAULT_LIMITS,
    chunk_characters: int | None = None,
    notes: Notes | None = None,
) -> Iterator[Document]:
    """Documents of "jsonl:PATH", "csv:PATH", "beir:DIR" or "text:DIR"; the PATH "-" is standard input.

    What is named is looked up at once; its content is read as the iterator advances.

    Args:
        spec: kind and path.
        fields: which members or columns to read; of BEIR ``metadata`` alone is looked at.
        limits: sizes beyond which a source is refused.
        chunk_characters: for text folders, split files into documents of at most this many characters; None keeps
            one document a file.  A file of c chunks weighs as c documents in the privacy claim (SPEC D.16).
        notes: told what is not taken in, complete once the iterator is at its end.

    Raises:
        ConfigurationError: unknown kind, the path is not what the kind needs, or names that no metadata can have.
        EncodingError: (while reading) content that is refused; names file and line.
    """
    kind, colon, name = spec.partition(":")
    if not colon or not name or kind not in ("jsonl", "csv", "beir", "text"):
        raise ConfigurationError(f"corpus {spec!r} is not of the form {KINDS}")
    if "\0" in name:
        raise ConfigurationError("the corpus path holds a zero byte")
    if chunk_characters is not None and kind != "text":
        raise ConfigurationError("only text folders are split into chunks; lines of JSONL, CSV and BEIR are documents")
    if fields.metadata and kind == "text":
        raise ConfigurationError("texts of a folder have no metadata; their paths are their ids")
    check_names(fields.metadata)
    path, told = Path(name), notes or Notes()
    told.begin(fields.metadata)
    if kind == "jsonl":
        return read_jsonl(path, fields=fields, limits=limits, notes=told)
    if kind == "csv":
        return read_csv(path, fields=fields, limits=limits, notes=told)
    if kind == "beir":
        return read_beir(path, metadata=fields.metadata, limits=limits, notes=told)
    return read_text_folder(path, limits=limits, chunk_characters=chunk_characters, notes=told)


def read_jsonl(
    path: Path, *, fields: JsonFields = DEFAULT_FIELDS, limits: Limits = DEFAULT_LIMITS, notes: Notes | None = None
) -> Iterator[Document]:
    """Documents of a JSONL file: an object a line, identifier (text or integer) and text, optionally a title.

    Raises:
        ConfigurationError: no such file, not a regular file, or unreadable.
        EncodingError: (while reading) see the module's docstring.
    """
    require_file(path, limits)
    return _unique(_jsonl(path, fields, limits, notes or Notes()), path, limits)


def read_csv(
    path: Path, *, fields: JsonFields = DEFAULT_FIELDS, limits: Limits = DEFAULT_LIMITS, notes: Notes | None = None
) -> Iterator[Document]:
    """Documents of a CSV file (RFC 4180, UTF-8) whose first row names the columns as a JSON line names its members.

    Raises:
        ConfigurationError, EncodingError: as :func:`read_jsonl`.
    """
    require_file(path, limits)
    return _unique(_csv(path, fields, limits, notes or Notes()), path, limits)


def read_beir(
    folder: Path, *, metadata: tuple[str, ...] = (), limits: Limits = DEFAULT_LIMITS, notes: Notes | None = None
) -> Iterator[Document]:
    """Documents of a BEIR folder's corpus.jsonl (``_id``, ``title``, ``text``).  Errors as :func:`read_jsonl`."""
    path = inside(folder, "corpus.jsonl")
    return read_jsonl(path, fields=JsonFields(id=("_id",), metadata=metadata), limits=limits, notes=notes)


def read_beir_queries(folder: Path, *, limits: Limits = DEFAULT_LIMITS) -> dict[str, str]:
    """Query texts by identifier, in file order, from a BEIR folder's queries.jsonl.  Errors as :func:`read_jsonl`."""
    path = inside(folder, "queries.jsonl")
    fields = JsonFields(id=("_id",), title=None)
    return {query.id: query.text for query in read_jsonl(path, fields=fields, limits=limits)}


def read_beir_qrels(folder: Path, split: str = "test", *, limits: Limits = DEFAULT_LIMITS) -> dict[str, dict[str, int]]:
    """Relevance judgements ``{query: {document: grade}}`` from a BEIR folder's qrels/<split>.tsv.

    Whether queries and documents exist is for the caller to check, who has them.

    Raises:
        ConfigurationError: no such split.
        EncodingError: a line without three columns, a grade that is no integer, a pair judged twice.
    """
    if not split or not all(ch.isalnum() or ch in "-_" for ch in split):
        raise ConfigurationError(f"{split!r} is not the name of a split, such as test")
    path = inside(folder, os.path.join("qrels", f"{split}.tsv"))
    require_file(path, limits)
    out: dict[str, dict[str, int]] = {}
    for number, line in lines_of(path, limits):
        cells = line.rstrip("\r").split("\t")
        if number == 1:
            if cells != ["query-id", "corpus-id", "score"]:
                raise EncodingError(f"{path}, line 1: the header must be query-id, corpus-id, score between tabs")
            continue
        if len(cells) != 3 or not cells[0] or not cells[1]:
            raise EncodingError(f"{path}, line {number}: expected query, document and grade between tabs")
        query, document, grade = cells
        if len(grade) > 9 or not grade.removeprefix("-").isascii() or not grade.removeprefix("-").isdigit():
            raise EncodingError(f"{path}, line {number}: the grade is not an integer")
        if document in out.setdefault(query, {}):
            raise EncodingError(f"{path}, line {number}: query {query!r} and document {document!r} are judged twice")
        out[query][document] = int(grade)
    return out


def read_text_folder(
    folder: Path,
    *,
    limits: Limits = DEFAULT_LIMITS,
    chunk_characters: int | None = None,
    notes: Notes | None = None,
) -> Iterator[Document]:
    """A document for every *.txt and *.md file below ``folder``, in the order of their paths.

    Identifiers are paths relative to the folder, with "#1", "#2", ... behind them if files are split.  Other files are
    not part of such a corpus, and neither is what links inside the folder point at, wherever that is.

    Raises:
        ConfigurationError: not a folder, no text in it, or chunk_characters below 80.
        EncodingError: (while reading) a file that is empty, too large or not UTF-8.
    """
    if chunk_characters is not None and chunk_characters < 80:
        raise ConfigurationError("chunks below 80 characters hold no sentence; take chunk_characters of 80 or more")
    root = require_folder(folder)
    told = notes or Notes()
    files = list(text_files(root, told))
    if not files:
        links = f" but {len(told.links) + told.more_links} links, which are not followed" if told.links else ""
        raise ConfigurationError(f"{folder} holds no .txt or .md file{links}")
    return _unique(_texts(root, files, limits, chunk_characters), folder, limits)


def chunks(text: str, size: int) -> Iterator[str]:
    """Pieces of at most ``size`` characters whose words, in order, are those of ``text``.

    Breaks after a paragraph, else a line, a sentence or a word, whichever comes first in that order in the second
    half of the piece; a word longer than a piece is cut.
    """
    text, at = text.strip(), 0
    while len(text) - at > size:
        cut = at + size
        for mark in ("\n\n", "\n", ". ", " "):
            found = text.rfind(mark, at + size // 2, cut - len(mark) + 1)
            if found >= 0:
                cut = found + len(mark)
                break
        yield text[at:cut].rstrip()
        at = cut
        while text[at].isspace():  # the last character is none
            at += 1
    if text:
        yield text[at:]


# ---- content ---------------------------------------------------------------------------------------------------------


def _jsonl(path: Path, fields: JsonFields, limits: Limits, notes: Notes) -> Iterator[tuple[str, Document]]:
    for where, value in objects_of(path, limits):
        yield where, _document(value, fields, where, notes)


def _csv(path: Path, fields: JsonFields, limits: Limits, notes: Notes) -> Iterator[tuple[str, Document]]:
    for where, row in rows_of(path, fields.id, fields.text, fields.metadata, limits):
        yield where, _document(row, fields, where, notes)


def _document(value: Mapping[str, Any], fields: JsonFields, where: str, notes: Notes) -> Document:
    text = _member(value, fields.text, where)
    title = ""
    if fields.title is not None and value.get(fields.title) is not None:
        title = _member(value, fields.title, where)
    named, identifier = _identifier(value, fields.id, where)
    metadata = taken(value, fields.metadata, where)
    notes.unread(unread(value, (named, fields.text, fields.title), fields.metadata))
    notes.carried(pair.key for pair in metadata.pairs)
    return Document(identifier, "\n".join(part for part in (title, text) if part.strip()), metadata)


def _member(value: Mapping[str, Any], name: str, where: str) -> str:
    if name not in value:
        raise EncodingError(f"{where}: no member {name!r}")
    if not isinstance(value[name], str):
        raise EncodingError(f"{where}: member {name!r} is a {type(value[name]).__name__}, not a string")
    text: str = value[name]
    return text


def _identifier(value: Mapping[str, Any], names: tuple[str, ...], where: str) -> tuple[str, str]:
    """The first of these members that is there, and its value."""
    for name in names:
        if name in value:
            found = value[name]
            if isinstance(found, bool) or not isinstance(found, str | int):
                raise EncodingError(f"{where}: member {name!r} is neither a string nor an integer")
            return name, str(found)
    raise EncodingError(f"{where}: no member {' or '.join(repr(name) for name in names)}")


def _texts(root: Path, files: list[Path], limits: Limits, size: int | None) -> Iterator[tuple[str, Document]]:
    for path in files:
        require_file(path, limits)
        # at most four bytes a character, so a file beyond that is too long in any case
        most = 4 * limits.text_characters if size is None else limits.chunked_bytes
        if path.stat().st_size > most:
            chunked = ", or ask for chunks" if size is None else ""
            raise EncodingError(f"{path}: larger than {most} bytes; split it{chunked}")
        raw = texts.read_bytes(path, str(path), most=most, error=EncodingError)
        text = texts.text_of(raw, str(path), error=EncodingError)
        name = path.relative_to(root).as_posix()
        if size is None or not text.strip():
            yield str(path), Document(name, text)
        else:
            for count, piece in enumerate(chunks(text, size), start=1):
                yield str(path), Document(f"{name}#{count}", piece)


def check_document(where: str, document: Document, limits: Limits) -> None:
    """Raises EncodingError, which begins with ``where``: no document can be so."""
    for name, value, most in (
        ("identifier", document.id, limits.id_characters),
        ("text", document.text, limits.text_characters),
    ):
        if not value.strip():
            raise EncodingError(f"{where}: the {name} is empty; remove the document or give it one")
        if len(value) > most:
            raise EncodingError(f"{where}: the {name} has {len(value)} characters, at most {most}")
        _require_scalars(value, name, where)
    if not document.id.isprintable():
        raise EncodingError(f"{where}: the identifier holds a control character")
    try:
        document.content.check()  # which counts bytes
    except AuditError as error:
        raise EncodingError(f"{where}: document {document.id[:80]!r} fits no slot: {error}") from None


def _unique(documents: Iterator[tuple[str, Document]], source: Path, limits: Limits) -> Iterator[Document]:
    """The documents, each checked; ``where`` of the pair names file and line in an error."""
    seen: dict[str, str] = {}
    for where, document in documents:
        check_document(where, document, limits)
        if document.id in seen:
            raise EncodingError(f"{where}: identifier {document.id!r} is already taken by {seen[document.id]}")
        if len(seen) >= limits.documents:
            raise EncodingError(f"{where}: more than {limits.documents} documents; split the corpus into tenants")
        seen[document.id] = where
        yield document
    if not seen:
        raise EncodingError(f"{shown(source)} holds no documents")


def _require_scalars(value: str, name: str, where: str) -> None:
    try:
        value.encode("utf-8")
    except UnicodeEncodeError:
        raise EncodingError(f"{where}: the {name} holds a lone surrogate (an unpaired \\ud8xx escape)") from None
