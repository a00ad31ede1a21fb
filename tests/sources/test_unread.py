# SPDX-License-Identifier: GPL-3.0-or-later
"""No engine's source leaves out a column, a value or a row without a word."""

from __future__ import annotations

import datetime
import re
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ragseal.kernel.errors import EncodingError
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.sources.interface import Item, Refused, Source
from ragseal.prover.sources.opening import open_source
from ragseal.prover.sources.qdrant import QdrantSource
from ragseal.prover.sources.spec import Columns
from tests.sources.engines import Chroma, Engine, Faiss, Lance, Milvus, Parquet, Qdrant, Vdf
from tests.sources.scene import read_all, rows

pytestmark = pytest.mark.slow

#: A source of texts alone of each engine's thirty rows, and what of them it leaves out.
ENGINES: dict[type[Engine], tuple[str, set[str]]] = {
    Lance: ("lancedb:{}/lance?table=chunks", {"e", "source", "page"}),
    Chroma: ("chroma:{}/chroma?collection=chunks", {"source", "page"}),
    Qdrant: ("", {"meta.page"}),
    Milvus: ("milvus:{}/milvus.db?collection=chunks", {"vector", "other dynamic fields"}),
    Parquet: ("parquet:{}/data", {"vector", "source", "page"}),
    Vdf: ("vdf:{}/vdf", {"vector", "source", "page"}),
    Faiss: ("faiss:{}/index.faiss?texts={}/texts.jsonl", {"source", "page"}),
}


def opened(made: type[Engine], folder: Path, notes: Notes, *metadata: str) -> Source:
    """The engine's source of texts alone, and of ``metadata``."""
    for module in made.modules:
        pytest.importorskip(module)
    engine = made(folder)
    engine.write(rows())
    if isinstance(engine, Qdrant):
        return QdrantSource(
            engine.client, "memory", "chunks", Columns("name", metadata=("meta.source", *metadata)), notes
        )
    more = f"&metadata={','.join(metadata)}" if metadata else ""
    spec = ENGINES[made][0].replace("{}", str(folder)) + more
    return open_source(spec if "?" in spec else spec.replace("&", "?"), notes=notes)


@pytest.mark.parametrize("made", ENGINES, ids=lambda made: made.__name__)
def test_what_is_not_kept_is_named_and_counted(made: type[Engine], tmp_path: Path) -> None:
    notes = Notes()
    with closing(opened(made, tmp_path, notes)) as source:
        read_all(source)
    assert notes.members == dict.fromkeys(ENGINES[made][1], 30)
    (line,) = notes.lines()
    assert line.startswith("not kept, as they are not named as metadata: ")


@pytest.mark.parametrize("made", [Chroma, Qdrant, Milvus, Faiss], ids=lambda made: made.__name__)
def test_metadata_that_no_row_has_is_said(made: type[Engine], tmp_path: Path) -> None:
    notes = Notes()
    with closing(opened(made, tmp_path, notes, "sourec")) as source:
        read_all(source)
    assert "no document has metadata 'sourec'" in notes.lines()


# --- Parquet ---------------------------------------------------------------------------------------------------------


def written(folder: Path, columns: dict[str, Any], names: list[str] | None = None) -> Path:
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    arrays = [one if isinstance(one, pa.Array) else pa.array(one) for one in columns.values()]
    path = folder / "a.parquet"
    parquet.write_table(pa.Table.from_arrays(arrays, names or list(columns)), path)
    return path


def found(path: Path, more: str = "") -> list[Item | Refused]:
    with closing(open_source(f"parquet:{path}{more}")) as source:
        return list(source.snapshot()[0])


@pytest.mark.parametrize("twins", [["id", "text", "text"], ["id", "text", "id"], ["id", "text", "x", "x"]])
def test_two_columns_of_one_name_are_refused(tmp_path: Path, twins: list[str]) -> None:
    path = written(tmp_path, {str(at): ["a", "b"] for at in range(len(twins))}, twins)
    with pytest.raises(EncodingError, match=f"a.parquet has two columns '{twins[-1]}': rename or drop"):
        found(path)


def test_a_value_that_python_has_no_form_for_spoils_its_row_alone(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    texts = pa.StringArray.from_buffers(
        3, pa.py_buffer(b"\0\0\0\0\1\0\0\0\2\0\0\0\3\0\0\0"), pa.py_buffer(b"a\xffc"), None
    )
    seconds = pa.array([0, 1, 2**40], pa.int64())
    for column, values, bad in (
        ("text", texts, 2),
        ("at", pa.array([0, 1001, 2_000_000_000], pa.int64()).cast(pa.timestamp("ns")), 2),
        ("at", seconds.cast(pa.timestamp("s")), 3),
        ("day", pa.array([0, 1, 2**30], pa.int32()).cast(pa.date32()), 3),
    ):
        columns: dict[str, Any] = {"id": ["x", "y", "z"], "text": ["a", "b", "c"], column: values}
        path = written(tmp_path, columns)
        rows_found = found(path, "" if column == "text" else f"?metadata={column}")
        refused = [one for one in rows_found if isinstance(one, Refused)]
        assert len(rows_found) == 3
        assert [one.id for one in refused] == [["x", "y", "z"][bad - 1]]
        said = f"row {bad}(: the value of column '{column}' cannot be read: .*|.*'at' is a time in nanoseconds)"
        assert re.search(said, str(refused[0].error))
        assert type(refused[0].error) is EncodingError, "of an outage the next try may end otherwise"


def test_times_are_kept_as_iso_texts_of_utc(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    at = datetime.datetime(2027, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    path = written(tmp_path, {"id": ["x"], "text": ["a"], "at": pa.array([at], pa.timestamp("us", "Asia/Kabul"))})
    (one,) = found(path, "?metadata=at")
    assert isinstance(one, Item)
    assert one.metadata == {"at": "2027-01-02T03:04:05+00:00"}


def test_decimals_are_numbers(tmp_path: Path) -> None:
    from decimal import Decimal

    path = written(tmp_path, {"id": ["x"], "text": ["a"], "price": [Decimal("11.90")]})
    (one,) = found(path, "?metadata=price")
    assert isinstance(one, Item)
    assert one.metadata == {"price": 11.9}


def test_files_and_folders_beside_those_of_parquet_are_said(tmp_path: Path) -> None:
    written(tmp_path, {"id": ["x"], "text": ["a"]})
    (tmp_path / "b.csv").touch()
    (tmp_path / "year=2026").mkdir()
    notes = Notes()
    with closing(open_source(f"parquet:{tmp_path}", notes=notes)) as source:
        assert len(read_all(source)) == 1
    assert notes.lines() == ["not read, as their names end otherwise: 'b.csv', 'year=2026/'"]
