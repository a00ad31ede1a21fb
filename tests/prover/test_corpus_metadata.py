# SPDX-License-Identifier: GPL-3.0-or-later
"""Metadata of a corpus: only what the operator names, refused with file and line where no leaf could hold it."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.kernel.slot_text import NO_METADATA
from ragseal.prover.administration import documents
from ragseal.prover.administration.documents import Reading
from ragseal.prover.commitment.corpora import (
    Document,
    JsonFields,
    Limits,
    chunks,
    open_corpus,
    read_text_folder,
)
from ragseal.prover.commitment.corpus_metadata import field_names
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.storage.state import State
from ragseal.runtime.metadata import committed
from tests.prover.corpus_scene import GOOD, _file
from tests.simulator.provider import TrigramEmbedder, new_state

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


# A folder of texts as a corpus: whole or in chunks, bounded, no links followed.


def test_text_folder(tmp_path: Path) -> None:
    _file(tmp_path, b"zwei\n", "b.md")
    _file(tmp_path, "eins é\n".encode(), "a/x.TXT")
    _file(tmp_path, b"\xef\xbb\xbfwith a mark", "c.txt")
    _file(tmp_path, b"\x00\x01", "a/picture.png")
    assert list(open_corpus(f"text:{tmp_path}")) == [
        Document("a/x.TXT", "eins é\n"),
        Document("b.md", "zwei\n"),
        Document("c.txt", "with a mark"),
    ]


def test_text_folder_in_chunks(tmp_path: Path) -> None:
    text = "\n\n".join(f"Paragraph {i} has a few words, not many." for i in range(20))
    _file(tmp_path, text.encode(), "long.txt")
    _file(tmp_path, b"short", "short.txt")
    documents = list(open_corpus(f"text:{tmp_path}", chunk_characters=200))
    assert [d.id for d in documents[:2]] == ["long.txt#1", "long.txt#2"]
    assert documents[-1] == Document("short.txt#1", "short")
    assert all(len(d.text) <= 200 for d in documents)
    assert " ".join(d.text for d in documents[:-1]).split() == text.split()
    with pytest.raises(ConfigurationError, match="80"):
        open_corpus(f"text:{tmp_path}", chunk_characters=10)
    with pytest.raises(ConfigurationError, match="text folders"):
        open_corpus(f"beir:{tmp_path}", chunk_characters=200)


@given(st.text(alphabet="ab .\n", max_size=600), st.integers(80, 200))
def test_chunks_lose_no_word(text: str, size: int) -> None:
    pieces = list(chunks(text, size))
    assert all(0 < len(piece) <= size for piece in pieces)
    assert "".join("".join(pieces).split()) == "".join(text.split())
    if max((len(word) for word in text.split()), default=0) <= size // 2:
        assert " ".join(pieces).split() == text.split()


@pytest.mark.parametrize(
    ("content", "why"), [(b"", "empty"), (b" \n", "empty"), (b"fine\n\xff", "line 2: not UTF-8"), (b"x" * 99, "99")]
)
def test_a_bad_text_file_is_named(tmp_path: Path, content: bytes, why: str) -> None:
    _file(tmp_path, b"fine", "a.txt")
    _file(tmp_path, content, "b.txt")
    with pytest.raises(EncodingError, match=rf"b\.txt.*{why}"):
        list(read_text_folder(tmp_path, limits=Limits(text_characters=50)))


def test_a_huge_text_file_is_refused_before_it_is_decoded(tmp_path: Path) -> None:
    _file(tmp_path, b"x" * 1000, "a.txt")
    with pytest.raises(EncodingError, match="larger than 40 bytes"):
        list(read_text_folder(tmp_path, limits=Limits(text_characters=10)))


def test_links_in_a_text_folder_are_skipped_and_said(tmp_path: Path) -> None:
    secret = _file(tmp_path / "elsewhere", b"secret", "secret.txt")
    folder = tmp_path / "folder"
    _file(folder, b"fine", "a.txt")
    (folder / "b.txt").symlink_to(folder / "a.txt")
    (folder / "c.txt").symlink_to(secret)
    (folder / "d").symlink_to(secret.parent)
    (folder / "e.txt").symlink_to(folder / "e.txt")
    (folder / "picture.png").symlink_to(secret)  # would be no part of the corpus as a file either
    notes = Notes()
    assert [d.id for d in open_corpus(f"text:{folder}", notes=notes)] == ["a.txt"]
    assert sorted(notes.links) == ["b.txt", "c.txt", "d/", "e.txt"]
    assert all(name in notes.lines()[0] for name in ("links are not followed", "'b.txt'", "'d/'"))
    (folder / "a.txt").unlink()
    with pytest.raises(ConfigurationError, match="but 4 links, which are not followed"):
        open_corpus(f"text:{folder}")


def test_a_folder_without_texts_is_no_corpus(tmp_path: Path) -> None:
    _file(tmp_path, b"{}", "x.json")
    with pytest.raises(ConfigurationError, match=r"no \.txt"):
        read_text_folder(tmp_path)


def test_documents_survive_a_round_trip(tmp_path: Path) -> None:
    documents = [Document(f"id {i}", f"text {i} “quoted” \u2028 line") for i in range(50)]
    content = "".join(json.dumps({"id": d.id, "text": d.text}, ensure_ascii=False) + "\n" for d in documents)
    assert list(open_corpus(f"jsonl:{_file(tmp_path, content.encode())}")) == documents


def test_files_that_are_no_texts_are_said(tmp_path: Path) -> None:
    for name in ("a.txt", "b.MD", "c.pdf", "d", "e/f.docx", ".hidden"):
        _file((tmp_path / name).parent, b"fine", Path(name).name)
    notes = Notes()
    for _ in range(2):  # a source that is followed is read again and again
        assert [d.id for d in open_corpus(f"text:{tmp_path}", notes=notes)] == ["a.txt", "b.MD"]
    assert sorted(notes.others) == [".hidden", "c.pdf", "d", "e/f.docx"]
    (line,) = notes.lines()
    assert line.startswith("not read, as their names end otherwise: ")


# Texts of which the embedder reads the beginning alone are named, or refused.


class ShortSighted(TrigramEmbedder):
    """Reads twenty characters."""

    most_tokens = 20

    def cut(self, texts: Sequence[str]) -> list[int]:
        return [at for at, text in enumerate(texts) if len(text) > self.most_tokens]


LONG = "a text of which the end is in no vector"
CORPUS = [Document("short", "a short text"), Document("long", LONG), Document("longer", LONG * 2)]
SAID = (
    "2 texts are longer than the embedder reads, 20 word pieces; they are 'long', 'longer': questions find them by "
    "their beginnings; split them into several documents (--chunk does it for text folders)"
)


def silent(what: str, done: int, total: int) -> None: ...


@pytest.fixture
def state(tmp_path: Path) -> State:
    return new_state(tmp_path / "state", tenants={})


def count(state: State) -> int:
    return len(state.rows("SELECT document FROM documents"))


def test_they_are_named_when_they_are_put(state: State) -> None:
    told = documents.put(state, ShortSighted(), "acme", CORPUS, silent)
    assert told.values["notes"] == [SAID]
    assert told.text.endswith(f"\nnote: {SAID}")
    assert documents.put(state, ShortSighted(), "acme", CORPUS, silent).values["notes"] == [], (
        "nothing is embedded anew"
    )
    assert documents.put(state, TrigramEmbedder(), "other", CORPUS, silent).values["notes"] == [], "it cannot tell"


def test_strict_refuses_them_before_anything_is_put(state: State) -> None:
    with pytest.raises(
        EncodingError, match=r"2 texts are longer .* begin with 'a text of which the end is .*Nothing was put"
    ):
        documents.put(state, ShortSighted(), "acme", CORPUS, silent, strict=True)
    assert count(state) == 0
    assert documents.put(state, ShortSighted(), "acme", CORPUS[:1], silent, strict=True).values["added"] == 1


def test_they_are_named_when_a_source_is_read(state: State, tmp_path: Path) -> None:
    (tmp_path / "texts").mkdir()
    for one in CORPUS:
        (tmp_path / "texts" / f"{one.id}.txt").write_text(one.text)
    reading = Reading("acme", f"text:{tmp_path / 'texts'}")
    with pytest.raises(EncodingError, match="2 texts are longer"):
        documents.sync(state, ShortSighted(), Reading("acme", reading.source, strict=True), silent, threading.Event())
    assert count(state) == 0
    told = documents.sync(state, ShortSighted(), reading, silent, threading.Event())
    assert told.values["notes"] == [SAID.replace("'long', 'longer'", "'long.txt', 'longer.txt'")]
    assert documents.sync(state, ShortSighted(), reading, silent, threading.Event()).values["notes"] == []


def test_many_are_counted(state: State) -> None:
    (note,) = documents.put(
        state, ShortSighted(), "acme", [Document(f"d{i:02}", LONG) for i in range(25)], silent
    ).values["notes"]
    assert note.startswith("25 texts are longer")
    assert "'d09' and 15 more: " in note
