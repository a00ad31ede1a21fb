# SPDX-License-Identifier: GPL-3.0-or-later
"""Corpus readers: what they yield, and that hostile or broken input is refused with file and line."""

from __future__ import annotations

import io
import os
import re
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError
from ragseal.prover.commitment.corpora import (
    Document,
    JsonFields,
    Limits,
    chunks,
    open_corpus,
    read_beir_qrels,
    read_beir_queries,
    read_csv,
    read_jsonl,
    read_text_folder,
)
from ragseal.prover.commitment.corpus_csv import rows_of
from ragseal.prover.commitment.corpus_notes import Notes
from tests.prover.corpus_scene import GOOD, _file


def test_jsonl_yields_documents_in_order(tmp_path: Path) -> None:
    path = _file(
        tmp_path,
        b'{"id": "a", "text": "first"}\r\n'
        b'{"_id": 7, "title": "T", "text": "second", "metadata": {"x": [1]}}\n'
        b'{"id": "c", "title": "", "text": "third\\u00e9"}\n'
        b'{"id": "d", "title": "only a title", "text": ""}',
    )
    assert list(open_corpus(f"jsonl:{path}")) == [
        Document("a", "first"),
        Document("7", "T\nsecond"),
        Document("c", "thirdé"),
        Document("d", "only a title"),
    ]


def test_jsonl_fields_are_configurable(tmp_path: Path) -> None:
    path = _file(tmp_path, b'{"key": "k", "id": "no", "title": "no", "body": "yes"}\n')
    fields = JsonFields(id=("key",), text="body", title=None)
    assert list(open_corpus(f"jsonl:{path}", fields=fields)) == [Document("k", "yes")]


@pytest.mark.parametrize(
    ("line", "why"),
    [
        (b"", "empty line"),
        (b"   ", "empty line"),
        (b"{", "not a JSON object"),
        (b"[1]", "not a JSON object"),
        (b'"text"', "not a JSON object"),
        (b'{"id": "b", "text": "t"} {}', "not a JSON object"),
        (b'{"id": "b", "text": "t", "x": NaN}', "not a JSON object"),
        (b'{"id": "b", "text": "t", "id": "c"}', "twice"),
        (b"[" * 100_000, "nested deeper"),
        (b'{"a":' * 70 + b"1" + b"}" * 70, "nested deeper"),
        (b'"\\"[' + b'\\"[' * 100_000, "not a JSON object"),
        (b'{"id": ' + b"9" * 5000 + b', "text": "t"}', "not a JSON object"),
        (b"\xef\xbb\xbf" + GOOD.strip(), "byte order mark"),
        (b'{"text": "t"}', "no member 'id' or '_id'"),
        (b'{"id": "b"}', "no member 'text'"),
        (b'{"id": "b", "text": null}', "NoneType"),
        (b'{"id": "b", "text": ["t"]}', "list"),
        (b'{"id": "b", "text": "t", "title": 3}', "title"),
        (b'{"id": true, "text": "t"}', "neither"),
        (b'{"id": 1.5, "text": "t"}', "neither"),
        (b'{"id": "", "text": "t"}', "identifier is empty"),
        (b'{"id": "b\\u0000", "text": "t"}', "control"),
        (b'{"id": "b", "text": " \\n "}', "text is empty"),
        (b'{"id": "a", "text": "again"}', "already taken by .*line 1"),
        (b'{"id": "b", "text": "\\ud800"}', "surrogate"),
        (b'{"id": "b", "text": "\xff"}', "not UTF-8"),
        (b'{"id": "' + b"x" * 513 + b'", "text": "t"}', "513 characters"),
    ],
)
def test_a_bad_line_is_named(tmp_path: Path, line: bytes, why: str) -> None:
    path = _file(tmp_path, GOOD + line + b"\n")
    reader = open_corpus(f"jsonl:{path}")
    assert next(reader).id == "a"
    with pytest.raises(EncodingError, match=rf"(?s)line 2\b.*{why}"):
        next(reader)


def test_a_number_that_no_program_reads_is_named_without_python(tmp_path: Path) -> None:
    path = _file(tmp_path, b'{"id": ' + b"9" * 5000 + b', "text": "a"}\n')
    with pytest.raises(EncodingError, match=r"line 1: not a JSON object \(a whole number of more than 4300 digits\)"):
        list(read_jsonl(path))


def test_brackets_inside_strings_do_not_nest(tmp_path: Path) -> None:
    line = b'{"id": "b", "text": "' + b"[" * 500 + b'\\"{' * 500 + b'"}\n'
    assert [d.id for d in open_corpus(f"jsonl:{_file(tmp_path, GOOD + line)}")] == ["a", "b"]


def test_nothing_is_skipped_after_a_bad_line(tmp_path: Path) -> None:
    path = _file(tmp_path, GOOD + b"\n" + b'{"id": "b", "text": "t"}\n')
    with pytest.raises(EncodingError, match="line 2"):
        list(read_jsonl(path))


def test_limits_refuse_instead_of_cutting(tmp_path: Path) -> None:
    path = _file(tmp_path, GOOD + b'{"id": "b", "text": "' + b"x" * 200 + b'"}\n')
    with pytest.raises(EncodingError, match="line 2: longer than 100 bytes"):
        list(read_jsonl(path, limits=Limits(line_bytes=100)))
    with pytest.raises(EncodingError, match="line 2: the text has 200 characters"):
        list(read_jsonl(path, limits=Limits(text_characters=199)))
    with pytest.raises(EncodingError, match="more than 1 documents"):
        list(read_jsonl(path, limits=Limits(documents=1)))
    with pytest.raises(EncodingError, match="bytes, at most"):
        read_jsonl(path, limits=Limits(file_bytes=50))
    assert len(list(read_jsonl(path, limits=Limits(text_characters=200, documents=2)))) == 2


def test_a_file_that_grows_while_it_is_read_is_refused(tmp_path: Path) -> None:
    path = _file(tmp_path, GOOD)
    reader = read_jsonl(path, limits=Limits(file_bytes=len(GOOD)))
    with path.open("ab") as file:
        file.write(b'{"id": "b", "text": "t"}\n')
    with pytest.raises(EncodingError, match="exceeds"):
        list(reader)


@given(st.binary(max_size=60))
def test_random_bytes_give_a_named_error_or_documents(tmp_path_factory: pytest.TempPathFactory, content: bytes) -> None:
    path = _file(tmp_path_factory.mktemp("random"), content)
    try:
        found = list(read_jsonl(path))
    except AuditError as error:
        found, message = [], str(error)
    assert found or str(path) in message


@pytest.mark.parametrize("spec", ["", "jsonl", "jsonl:", "csv:x", "/tmp/x.jsonl", "text:\0"])
def test_malformed_specifications(spec: str) -> None:
    with pytest.raises(ConfigurationError):
        open_corpus(spec)


@pytest.mark.parametrize("kind", ["jsonl", "beir", "text"])
def test_what_is_not_there_is_said_before_the_first_document(tmp_path: Path, kind: str) -> None:
    with pytest.raises(ConfigurationError):
        open_corpus(f"{kind}:{tmp_path}/none")
    with pytest.raises(ConfigurationError):
        open_corpus(f"{kind}:{_file(tmp_path, GOOD) if kind != 'jsonl' else tmp_path}")


def test_an_empty_file_is_no_corpus(tmp_path: Path) -> None:
    with pytest.raises(EncodingError, match="no documents"):
        list(open_corpus(f"jsonl:{_file(tmp_path, b'')}"))


def test_pipes_are_refused_without_waiting(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.txt")
    with pytest.raises(ConfigurationError, match="regular"):
        read_jsonl(tmp_path / "pipe.txt")
    with pytest.raises(ConfigurationError, match="regular"):
        list(read_text_folder(tmp_path))


# --- BEIR ------------------------------------------------------------------------------------------------------------


def _beir(folder: Path) -> Path:
    _file(folder, b'{"_id": "d1", "title": "T", "text": "x"}\n{"_id": "d2", "title": "", "text": "y"}\n')
    _file(folder, b'{"_id": "q1", "text": "why?", "metadata": {}}\n', "queries.jsonl")
    _file(folder, b"query-id\tcorpus-id\tscore\nq1\td1\t1\nq1\td2\t0\n", "qrels/test.tsv")
    return folder


def test_beir_folder(tmp_path: Path) -> None:
    _beir(tmp_path)
    assert list(open_corpus(f"beir:{tmp_path}")) == [Document("d1", "T\nx"), Document("d2", "y")]
    assert read_beir_queries(tmp_path) == {"q1": "why?"}
    assert read_beir_qrels(tmp_path) == {"q1": {"d1": 1, "d2": 0}}


@pytest.mark.parametrize(
    ("row", "why"),
    [
        (b"q1\td1", "expected"),
        (b"q1\td1\t1\t2", "expected"),
        (b"\td1\t1", "expected"),
        (b"", "expected"),
        (b"q1\td3\tx", "integer"),
        (b"q1\td3\t1.0", "integer"),
        (b"q1\td3\t" + b"1" * 5000, "integer"),
        (b"q1\td1\t1", "twice"),
        (b"q1\td\xff\t1", "UTF-8"),
    ],
)
def test_a_bad_judgement_is_named(tmp_path: Path, row: bytes, why: str) -> None:
    path = _beir(tmp_path) / "qrels" / "test.tsv"
    path.write_bytes(path.read_bytes() + row + b"\n")
    with pytest.raises(EncodingError, match=f"line 4.*{why}"):
        read_beir_qrels(tmp_path)


def test_judgements_need_their_header_and_a_plain_split(tmp_path: Path) -> None:
    _beir(tmp_path)
    (tmp_path / "qrels" / "dev.tsv").write_bytes(b"q1\td1\t1\n")
    with pytest.raises(EncodingError, match="line 1"):
        read_beir_qrels(tmp_path, "dev")
    for split in ("", "train", "../test", "a/b"):
        with pytest.raises(ConfigurationError):
            read_beir_qrels(tmp_path, split)


def test_links_out_of_a_beir_folder_are_refused(tmp_path: Path) -> None:
    secret = _file(tmp_path / "elsewhere", GOOD)
    folder = _beir(tmp_path / "beir")
    (folder / "corpus.jsonl").unlink()
    (folder / "corpus.jsonl").symlink_to(secret)
    with pytest.raises(ConfigurationError, match="link out"):
        open_corpus(f"beir:{folder}")


# --- CSV and standard input ------------------------------------------------------------------------------------------


def test_csv_yields_documents(tmp_path: Path) -> None:
    long = "x" * 200_000  # more than csv's own limit of a cell
    table = f'\ufeffid,title,text,url\r\na,,"first, with ""quotes""\nand a line",u\r\n7,T,{long},\r\n'
    notes = Notes()
    assert list(open_corpus(f"csv:{_file(tmp_path, table.encode(), 'c.csv')}", notes=notes)) == [
        Document("a", 'first, with "quotes"\nand a line'),
        Document("7", f"T\n{long}"),
    ]
    assert notes.members == {"url": 2}


def test_an_empty_cell_is_no_value_of_metadata_and_an_empty_text_elsewhere(tmp_path: Path) -> None:
    """Also of a column that is metadata beside what it is."""
    path = _file(tmp_path, b"id,text,note,left out\na,,,\n", "c.csv")
    [(_, row)] = rows_of(path, ("id",), "text", ("text", "note"), Limits())
    assert row == {"id": "a", "text": "", "note": None, "left out": ""}


@pytest.mark.parametrize(
    ("table", "why"),
    [
        (b"id,text\na\n", "line 2: 1 cells, the first row names 2"),
        (b"id,text\na,b,c\n", "line 2: 3 cells"),
        (b"id,text\na,b\n\n", "line 3: 0 cells"),
        (b"id,id,text\n", "line 1: the first row must name every column"),
        (b"\nid,text\n", "line 1: the first row must name every column"),
        (b"name,text\na,b\n", "line 1: no column 'id' or '_id'"),
        (b"id,body\na,b\n", "line 1: no column 'text'; the first row names the columns"),
        (b'id,text\na,"b\n', "line 2: not CSV"),
        (b'id,text\na,"b"c\n', "line 2: not CSV"),
        (b"id,text\na,b\na,c\n", "line 3: identifier 'a' is already taken"),
        (b'id,text\na,"b\nc"\nb,\xff\n', "line 4: not UTF-8"),
        (b"id,text\n", "holds no documents"),
        (b"id;text\na;b\n", "line 1: no column 'text'; semicolons stand between its columns"),
        (b'"id";"text"\n"a";"b"\n', "line 1: not CSV (semicolons stand between its columns"),
        (b"id\ttext\na\tb\n", "line 1: no column 'text'; tabs stand between its columns"),
        (b"id;key,body\na,b\n", "line 1: no column 'text'; the first row names the columns"),
        (b'id,text,"a;b;c;d"\na,b,"c\n', "line 2: not CSV (unexpected end of data)"),
        (b"sep=;\nid;text\n", "line 1: no column 'text'; it begins with a spreadsheet's line sep="),
        (b"id, text\na,b\n", "line 1: no column 'text'; it has ' text': write the name alone"),
        (b"Id,text\na,b\n", "line 1: no column 'id' or '_id'; it has 'Id'"),
        ("id,\u200btext\na,b\n".encode(), "it has '\\u200btext'"),
        (b"id,text\ra,b\r", "line 1: not CSV (its lines end in carriage returns alone"),
        (b"id,text\na,b\n\xef\xbb\xbfid,text\nb,c\n", "line 3: begins with a byte order mark"),
        (b"id,text\na," + "\u00e9".encode() * 600_000 + b"\n", "line 2: document 'a' fits no slot: slot-text.text"),
    ],
)
def test_bad_csv_is_named(tmp_path: Path, table: bytes, why: str) -> None:
    with pytest.raises(EncodingError, match=rf"c\.csv.*{re.escape(why)}"):
        list(open_corpus(f"csv:{_file(tmp_path, table, 'c.csv')}"))


@pytest.mark.parametrize(
    ("kind", "content"), [("jsonl", '{"id": "a", "text": "é"}\n{"id": "a"}\n'), ("csv", "id,text\na,é\nb,\n")]
)
def test_standard_input_is_a_corpus(monkeypatch: pytest.MonkeyPatch, kind: str, content: str) -> None:
    monkeypatch.setattr("sys.stdin", io.TextIOWrapper(io.BytesIO(content.encode())))
    documents = open_corpus(f"{kind}:-")
    assert next(documents) == Document("a", "é")
    with pytest.raises(EncodingError, match=r"standard input, line [23]"):
        next(documents)


def test_a_first_name_in_quotes_is_read_behind_a_mark(tmp_path: Path) -> None:
    path = _file(tmp_path, b'\xef\xbb\xbf"title","id","text"\r\n"Rotation of logs","1","hello"\r\n', "c.csv")
    notes = Notes()
    assert list(read_csv(path, notes=notes)) == [Document("1", "Rotation of logs\nhello")]
    assert notes.lines() == []


def test_a_column_without_a_name_is_noted(tmp_path: Path) -> None:
    notes = Notes()
    list(read_csv(_file(tmp_path, b",id,text,\n0,a,b,\n", "c.csv"), notes=notes))
    assert notes.lines() == [
        "not kept, as they are not named as metadata: 'column 1 (no name)' (in 1 documents), 'column 4 (no name)' "
        "(in 1 documents)"
    ]


def test_the_name_that_is_near_the_missing_one_is_shown(tmp_path: Path) -> None:
    with pytest.raises(EncodingError, match=r"no column 'text'; it has 'Text': "):
        list(read_csv(_file(tmp_path, b"ID,Text\n1,a\n", "c.csv")))


def test_a_large_file_is_not_read_for_its_chunks(tmp_path: Path) -> None:
    """Memory would hold all of it; one of holes takes no disk."""
    with (tmp_path / "a.txt").open("wb") as file:
        file.truncate(300 << 20)
    with pytest.raises(EncodingError, match=r"a\.txt: larger than 268435456 bytes; split it$"):
        list(read_text_folder(tmp_path, chunk_characters=100))


def test_chunks_take_time_in_proportion_to_the_text() -> None:
    """Copies of the rest would take minutes."""
    text = "word and word. " * (1 << 20)
    began = time.process_time()
    assert "".join("".join(chunks(text, 100)).split()) == "".join(text.split())
    assert time.process_time() - began < 20


def test_lines_that_end_in_carriage_returns_alone_are_named(tmp_path: Path) -> None:
    path = _file(tmp_path, b'{"id": "a", "text": "t"}\r{"id": "b", "text": "t"}\r')
    with pytest.raises(EncodingError, match=r"line 1: its lines end in carriage returns alone: .*tr "):
        list(read_jsonl(path))
