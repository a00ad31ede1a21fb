# SPDX-License-Identifier: GPL-3.0-or-later
"""A folder of texts as a corpus: whole or in chunks, bounded, no links followed."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragseal.kernel.errors import ConfigurationError, EncodingError
from ragseal.prover.commitment.corpora import (
    Document,
    Limits,
    chunks,
    open_corpus,
    read_text_folder,
)
from ragseal.prover.commitment.corpus_notes import Notes
from tests.prover.corpus_scene import _file


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
