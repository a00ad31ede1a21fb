# SPDX-License-Identifier: GPL-3.0-or-later
"""Metadata of a corpus: only what the operator names, refused with file and line where no leaf could hold it."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.kernel.slot_text import NO_METADATA
from ragseal.prover.commitment.corpora import (
    Document,
    JsonFields,
    open_corpus,
)
from ragseal.prover.commitment.corpus_metadata import field_names
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.runtime.metadata import committed
from tests.prover.corpus_scene import GOOD, _file

# --- what is not kept ------------------------------------------------------------------------------------------------


def test_members_that_are_not_read_are_named(tmp_path: Path) -> None:
    lines = [{"id": i, "text": "t", "title": "", "metadata": {}, **({"u\x1brl": 1} if i else {})} for i in range(3)]
    path = _file(tmp_path, "".join(json.dumps(line) + "\n" for line in lines).encode())
    notes = Notes()
    assert len(list(open_corpus(f"jsonl:{path}", notes=notes))) == 3
    assert notes.members == {"metadata": 3, "u\x1brl": 2}
    assert notes.lines() == [
        "not kept, as they are not named as metadata: 'metadata' (in 3 documents), 'u\\x1brl' (in 2 documents)"
    ]
    wild = [{"id": i, "text": "t", **{f"{i}-{n}": 0 for n in range(50)}} for i in range(40)]
    notes = Notes()
    list(open_corpus(f"jsonl:{_file(tmp_path, chr(10).join(map(json.dumps, wild)).encode())}", notes=notes))
    assert len(notes.members) + notes.more_members == 2000
    assert len(notes.members) == 100
    assert notes.lines()[0].endswith("and 1990 more")
    assert Notes().lines() == []


def test_what_stands_twice_in_a_line_is_taken_once_and_the_other_is_named(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        b'{"id": "1", "_id": "z", "text": "t", "s": "outer", "metadata": {"s": "inner"}}\n'
        b'{"_id": "2", "text": "t", "s": "same", "metadata": {"s": "same"}}\n'
        b'{"id": "3", "text": "t", "s": "alone", "metadata": {"s": null}}\n',
    )
    notes = Notes()
    found = list(open_corpus(f"jsonl:{path}", fields=_named("s"), notes=notes))
    assert [(one.id, {pair.key: pair.value for pair in one.metadata.pairs}) for one in found] == [
        ("1", {"s": "inner"}), ("2", {"s": "same"}), ("3", {"s": "alone"})
    ]  # fmt: skip
    assert notes.members == {"_id": 1, "s beside metadata.s": 1}
    notes = Notes()
    list(open_corpus(f"csv:{_file(tmp_path, b'_id,id,text' + chr(10).encode() + b'z,1,t', 'c.csv')}", notes=notes))
    assert notes.members == {"_id": 1}


# --- metadata --------------------------------------------------------------------------------------------------------


def _named(*names: str) -> JsonFields:
    return JsonFields(metadata=names)


def test_members_that_are_named_are_metadata(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        b'{"id": 7, "title": "T", "text": "x", "source": "s", "pages": 12, "score": 0.5, "draft": false, "url": "u"}\n'
        b'{"id": "b", "text": "y", "source": null, "pages": 1e3}\n'
        b'{"id": "c", "text": "z", "source": "o", "pages": 2, '
        b'"metadata": {"source": "inner", "deep": [1], "pages": null}}\n',
    )
    notes = Notes()
    fields = _named("source", "pages", "score", "draft", "title", "id")
    assert list(open_corpus(f"jsonl:{path}", fields=fields, notes=notes)) == [
        Document(
            "7",
            "T\nx",
            committed({"source": "s", "pages": 12, "score": 0.5, "draft": False, "title": "T", "id": 7}),
        ),
        Document("b", "y", committed({"pages": 1000, "id": "b"})),
        Document("c", "z", committed({"source": "inner", "pages": 2, "id": "c"})),
    ]
    assert notes.members == {"url": 1, "metadata.deep": 1, "source beside metadata.source": 1}
    assert notes.awaited == {}


def test_beir_metadata_are_taken_if_they_are_named(tmp_path: Path) -> None:
    line = {
        "_id": "d1",
        "title": "T",
        "text": "x",
        "metadata": {"url": "https://example.org", "year": 2024, "tags": []},
    }
    _file(tmp_path, json.dumps(line).encode())
    (found,) = open_corpus(f"beir:{tmp_path}", fields=_named("url", "year"))
    assert found == Document("d1", "T\nx", committed({"url": "https://example.org", "year": 2024}))
    assert next(open_corpus(f"beir:{tmp_path}")).metadata == NO_METADATA
    with pytest.raises(EncodingError, match=r"line 1: metadata 'tags': .*not list"):
        list(open_corpus(f"beir:{tmp_path}", fields=_named("tags")))


def test_columns_that_are_named_are_metadata(tmp_path: Path) -> None:
    path = _file(tmp_path, b"id,title,text,url,page\na,T,x,u,7\nb,,y,,\n", "c.csv")
    assert list(open_corpus(f"csv:{path}", fields=_named("url", "page", "title"))) == [
        Document("a", "T\nx", committed({"url": "u", "page": "7", "title": "T"})),
        Document("b", "y"),
    ]
    with pytest.raises(EncodingError, match="line 1: no column 'sourec', which is to be metadata"):
        list(open_corpus(f"csv:{path}", fields=_named("sourec")))


@pytest.mark.parametrize(
    ("value", "why"),
    [
        ("x" * 513, "513 characters"),
        ([1], "not list"),
        ({"a": 1}, "not dict"),
        (2**53, "write it as text"),
        ("\ud800", "surrogate"),
    ],
)
def test_metadata_that_no_leaf_holds_are_refused_with_file_and_line(tmp_path: Path, value: object, why: str) -> None:
    line = json.dumps({"id": "b", "text": "x", "source": value})
    path = _file(tmp_path, GOOD + line.encode())
    with pytest.raises(EncodingError, match=rf"corpus\.jsonl, line 2: metadata 'source': .*{why}"):
        list(open_corpus(f"jsonl:{path}", fields=_named("source")))
    assert len(list(open_corpus(f"jsonl:{path}"))) == 2  # where it is not named it is nobody's concern


def test_numbers_beyond_every_double_are_refused(tmp_path: Path) -> None:
    path = _file(tmp_path, b'{"id": "b", "text": "x", "n": 1e400}\n')
    with pytest.raises(EncodingError, match=r"line 1: metadata 'n': .*finite"):
        list(open_corpus(f"jsonl:{path}", fields=_named("n")))


def test_a_name_that_no_document_has_is_told(tmp_path: Path) -> None:
    notes = Notes()
    list(open_corpus(f"jsonl:{_file(tmp_path, GOOD)}", fields=_named("sourec", "url"), notes=notes))
    assert notes.lines() == ["no document has metadata 'sourec', 'url'"]


@pytest.mark.parametrize(
    ("names", "why"),
    [
        (("a", "b", "a"), "'a' is named twice"),
        (("",), "0 characters, not 1 to 64"),
        (("x" * 65,), "65 characters"),
        (("ragseal",), "cannot be a name for metadata"),
        (tuple(f"f{i}" for i in range(17)), "17 metadata fields are named, a document carries at most 16"),
    ],
)
def test_names_that_no_metadata_can_have_are_refused_before_reading(names: tuple[str, ...], why: str) -> None:
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        open_corpus("jsonl:/nowhere", fields=_named(*names))
    with pytest.raises(ConfigurationError, match=re.escape(why)):
        field_names(",".join(names))


def test_an_option_names_fields() -> None:
    assert field_names("source, title,url") == ("source", "title", "url")
    assert field_names(None) == ()


def test_texts_of_a_folder_have_no_metadata(tmp_path: Path) -> None:
    _file(tmp_path, b"x", "a.txt")
    with pytest.raises(ConfigurationError, match="have no metadata"):
        open_corpus(f"text:{tmp_path}", fields=_named("source"))
