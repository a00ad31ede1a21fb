# SPDX-License-Identifier: GPL-3.0-or-later
"""Specifications and rows as operators and drivers write them."""

from __future__ import annotations

import datetime
import decimal
import sys
import uuid
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragseal.kernel.errors import ConfigurationError, EncodingError, TransportError
from ragseal.prover.sources.interface import Item
from ragseal.prover.sources.opening import ENGINES, open_source
from ragseal.prover.sources.reading import driver_errors, read_row
from ragseal.prover.sources.spec import Columns, columns_of, need_driver, split
from ragseal.prover.sources.vectors import VectorCheck, VectorRule
from tests.sources.scene import EMBEDDER, TEXTS, item, read_all

WEST, EAST = (datetime.timezone(datetime.timedelta(hours=hours)) for hours in (-5, 5))
ROW: dict[str, Any] = {
    "id": "d",
    "text": "body",
    "title": "head",
    "vector": [1.0, 2.0],
    "meta": {"page": 3, "a": {"b": 1}},
}


def test_a_row_is_read_by_its_columns() -> None:
    assert read_row(ROW, Columns(), "row 1") == Item("d", "body", where="row 1 (id 'd')")
    found = read_row(ROW, Columns(title="title", vector="vector", metadata=("meta.page", "meta.a.b", "none")), "r")
    assert (found.text, found.metadata) == ("head\nbody", {"meta.page": 3, "meta.a.b": 1})
    assert found.vector is not None
    assert found.vector.tolist() == [1.0, 2.0]
    assert read_row({**ROW, "title": None}, Columns(title="title"), "r").text == "body"
    assert read_row({"id": 7, "text": "t", "a.b": 1}, Columns(metadata=("a.b",)), "r").id == "7"
    one = uuid.uuid4()
    assert read_row({"id": one, "text": "t"}, Columns(), "r").id == str(one)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"id": None}, "it has no 'id'"),
        ({"id": 1.5}, "the id 'id' is a float"),
        ({"id": True}, "the id 'id' is a bool"),
        ({"id": b"x"}, "the id 'id' is a bytes"),
        ({"text": None}, r"\(id 'd'\): it has no 'text'"),
        ({"text": 5}, "'text' is a int, not text"),
        ({"text": b"x"}, "'text' is a bytes"),
        ({"title": 5}, "'title' is a int"),
        ({"vector": None}, "no vector 'vector'.*--vectors embed"),
        ({"vector": "abc"}, "not a vector of numbers"),
        ({"vector": [[1.0]]}, r"shape \(1, 1\)"),
        ({"vector": []}, r"shape \(0,\)"),
        ({"vector": 1.0}, r"shape \(\)"),
        ({"vector": [1.0, [2.0]]}, "not a vector of numbers"),
        ({"m": [1]}, "metadata 'm' is a list"),
        ({"m": b"x"}, "metadata 'm' is a bytes"),
        ({"m": decimal.Decimal("NaN")}, "metadata 'm' is NaN"),
        ({"m": decimal.Decimal("Infinity")}, "metadata 'm' is Infinity"),
        ({"m": decimal.Decimal("0.12345678901234567890")}, "metadata 'm' has 20 digits, which no number keeps"),
        ({"m": decimal.Decimal("1e400")}, r"metadata 'm' is 1.00E\+400, which no number keeps"),
        ({"m": decimal.Decimal("-1e-400")}, "metadata 'm' is -1.00E-400, which no number keeps"),
        ({"m": datetime.datetime(9999, 12, 31, 23, tzinfo=WEST)}, "'m' is 9999-12-31T23:00:00-05:00, which in UTC is"),
        ({"m": datetime.datetime(1, 1, 1, tzinfo=EAST)}, r"'m' is 0001-01-01T00:00:00\+05:00, which in UTC is"),
        ({"id": 10**5000}, "the id 'id' is a number of 16610 bits, at most 1024"),
        ({"title": np.array([1, 2])}, "'title' is a ndarray, not text"),
        ({"m": decimal.Decimal(2**53 + 1)}, "which no number keeps"),
        ({"m": float("nan")}, "metadata 'm' is nan"),
    ],
)
def test_a_row_that_is_no_document_is_refused_by_name(changes: dict[str, Any], said: str) -> None:
    columns = Columns(title="title", vector="vector", metadata=("m",))
    with pytest.raises(EncodingError, match=f"row 9.*{said}"):
        read_row({**ROW, **changes}, columns, "row 9")


def test_metadata_has_limits_and_dates_become_text() -> None:
    many = Columns(metadata=tuple(f"m{i}" for i in range(17)))
    full = {**ROW, **{f"m{i}": i for i in range(16)}}
    assert len(read_row(full, many, "r").document().metadata.pairs) == 16
    for columns, more, why in (
        (many, {"m16": 1}, "17 items"),
        (Columns(metadata=("k" * 65,)), {"k" * 65: 1}, "65 characters"),
        (Columns(metadata=("m",)), {"m": "x" * 513}, "513 characters"),
        (Columns(metadata=("m",)), {"m": 1 << 53}, "loses digits"),
    ):
        with pytest.raises(EncodingError, match=rf"r \(id .*{why}"):
            read_row({**full, **more}, columns, "r").document()
    day = datetime.datetime(2027, 1, 2, 3, 4, tzinfo=datetime.UTC)
    assert read_row({**ROW, "m": day}, Columns(metadata=("m",)), "r").metadata == {"m": "2027-01-02T03:04:00+00:00"}
    assert read_row({**ROW, "m": np.float32(0.5)}, Columns(metadata=("m",)), "r").metadata == {"m": 0.5}


def test_specifications_are_split_and_decoded() -> None:
    place, options = split("/a%3Fb/c?id=x%26y&where=a=1+1", ("id", "where"), "FORM")
    assert (place, options) == ("/a?b/c", {"id": "x&y", "where": "a=1+1"})
    columns = columns_of({"metadata": "a,b,,c", "title": "t"}, True, Columns(id="own"), "v")
    assert columns == Columns("own", "text", "t", "v", ("a", "b", "c"))
    assert columns_of({"vector": "mine"}, False, Columns(), "v").vector is None
    for bad in ("x?nope=1", "x?id", "x?id=1&id=2", "", "?id=1", "a%00b"):
        with pytest.raises(ConfigurationError, match="FORM"):
            split(bad, ("id", "where"), "FORM")


@pytest.mark.parametrize(
    ("spec", "said"),
    [
        ("pdf:x", "no known kind"),
        ("postgres", "no known kind"),
        ("postgres:mysql://h/d?table=t", "as a URI"),
        ("postgres:postgresql://h/d", "needs table="),
        ("qdrant:/some/folder?collection=c", "pickles"),
        ("faiss:index.pkl?texts=t.jsonl", "a pickle, which runs code"),
        ("faiss:index.faiss?texts=docstore.pickle", "a pickle, which runs code"),
        ("faiss:index.faiss", "needs texts="),
        ("jsonl:", "jsonl:FILE"),
    ],
)
def test_a_specification_that_is_none_is_refused_with_its_form(spec: str, said: str) -> None:
    with pytest.raises(ConfigurationError, match=said):
        read_all(open_source(spec))


@pytest.mark.parametrize(
    "spec",
    [
        "qdrant:https://reader:s3cret@db.example:6333?collection=docs",
        "qdrant:https://s3cret@db.example?collection=docs",
        "chroma:http://reader:s3cret@db.example:8000?collection=docs",
        "milvus:http://root:s3cret@db.example:19530?collection=docs",
        "milvus:http://root:s3cret%40db.example:19530?collection=docs",
        "lancedb:s3://key:s3cret@bucket?table=docs",
    ],
)
def test_a_url_with_a_password_is_refused_and_not_shown(spec: str) -> None:
    """It would be part of the source's identity, which is stored with every document, listed and logged."""
    with pytest.raises(ConfigurationError, match="holds a user or password") as caught:
        open_source(spec)
    assert "s3cret" not in str(caught.value)


def test_files_of_texts_have_no_vectors_and_rows_no_chunks(tmp_path: Path) -> None:
    file = tmp_path / "a.jsonl"
    file.write_text('{"id": "a", "text": "one"}\n{"id": "b", "text": "two"}\n')
    assert [(one.id, one.text) for one in read_all(open_source(f"jsonl:{file}"))] == [("a", "one"), ("b", "two")]
    with pytest.raises(ConfigurationError, match="no vectors"):
        open_source(f"jsonl:{file}", vectors=True)
    with pytest.raises(ConfigurationError, match="chunks"):
        open_source("parquet:x", chunk=100)
    folder = tmp_path / "texts"
    folder.mkdir()
    (folder / "a.txt").write_text("word " * 100)
    found = open_source(f"text:{folder}", chunk=100)
    assert len(read_all(found)) > 4
    assert found.identity().endswith("chunk=100")


def test_a_missing_driver_is_named_with_its_extra() -> None:
    for extra in ("sources-qdrant", "sources-parquet"):
        with pytest.raises(ConfigurationError, match=rf"pip install 'ragseal\[{extra}\]'"):
            need_driver("module", extra, lambda name: None)
    need_driver("numpy", "sources-numpy")


@pytest.mark.parametrize(
    ("driver", "spec", "extra"),
    [
        ("psycopg", "postgres:postgresql://h/d?table=t", "sources-postgres"),
        ("qdrant_client", "qdrant:http://h:1?collection=c", "sources-qdrant"),
        ("lancedb", "lancedb:.?table=t", "sources-lancedb"),
        ("chromadb", "chroma:.?collection=c", "sources-chroma"),
        ("pymilvus", "milvus:http://h:1?collection=c", "sources-milvus"),
        ("pyarrow", "parquet:x", "sources-parquet"),
        ("pyarrow", "vdf:.", "sources-parquet"),
        ("faiss", "faiss:x?texts=y", "sources-faiss"),
    ],
)
def test_an_engine_without_its_driver_names_the_extra(
    monkeypatch: pytest.MonkeyPatch, driver: str, spec: str, extra: str
) -> None:
    monkeypatch.setitem(sys.modules, driver, None)
    with pytest.raises(ConfigurationError, match=rf"needs the package {driver}: pip install 'ragseal\[{extra}\]'"):
        open_source(spec)


def test_every_engine_is_one_module() -> None:
    folder = Path(__file__).resolve().parents[2] / "prover" / "sources"
    assert all((folder / f"{module}.py").is_file() for module in ENGINES.values())


def test_what_a_driver_raises_becomes_one_line() -> None:
    with pytest.raises(TransportError, match=r"^Engine: ValueError: first$"), driver_errors("Engine"):
        raise ValueError("first\nsecond")
    with pytest.raises(EncodingError, match="ours"), driver_errors("Engine"):
        raise EncodingError("ours")


def test_a_servers_words_do_not_show_the_key_that_it_was_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ENGINE_API_KEY", "sk-0123456789")
    monkeypatch.setenv("SHORT_TOKEN", "no")
    with pytest.raises(TransportError) as caught, driver_errors("Engine"):
        raise ValueError("no such key: sk-0123456789")
    assert str(caught.value) == "Engine: ValueError: no such key: (the value of ENGINE_API_KEY)"


@pytest.mark.parametrize("text", ["", "check", "check:", "check:0", "check:-1", "check:1000001", "check:٣", "trust"])
def test_a_rule_for_vectors_checks_at_least_one(text: str) -> None:
    with pytest.raises(ConfigurationError, match="check:N"):
        VectorRule.parse(text)
    assert VectorRule.parse("embed").check is None
    assert VectorRule.parse("check:1").check == 1


def test_every_row_is_drawn_equally_often() -> None:
    """Reservoir sampling of 3 out of 30 rows: chi-squared with 29 degrees of freedom, 5 sigma."""
    drawn: Counter[str] = Counter()
    rounds = 1500
    for _ in range(rounds):
        check = VectorCheck(EMBEDDER, 3)
        check.rows([item(name) for name in list(TEXTS)[:17]])
        check.rows([item(name) for name in list(TEXTS)[17:]])
        drawn.update(one.id for one in check._sample)
    expected = rounds * 3 / 30
    assert sum(drawn.values()) == 3 * rounds
    assert sum((drawn[name] - expected) ** 2 / expected for name in TEXTS) < 29 + 5 * 58**0.5
