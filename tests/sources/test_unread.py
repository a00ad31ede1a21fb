# SPDX-License-Identifier: GPL-3.0-or-later
"""No engine's source leaves out a column, a value or a row without a word."""

from __future__ import annotations

import datetime
import os
import pickle
import re
import struct
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError
from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.commitment.documents import Applied
from ragseal.prover.sources.interface import Item, Refused, Source
from ragseal.prover.sources.opening import open_source
from ragseal.prover.sources.qdrant import QdrantSource
from ragseal.prover.sources.spec import Columns
from ragseal.prover.sources.sync import Target, sync
from tests.sources.engines import Chroma, Engine, Faiss, Lance, Milvus, Parquet, Qdrant, Vdf, write_parquet, write_texts
from tests.sources.scene import (
    CHECKED,
    matrix_is_right,
    new_target,
    read_all,
    rows,
)

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


# Files of vector engines that are not what they say: refused, without their memory and without another file.


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    made = new_target(tmp_path, rule=CHECKED)
    yield made
    made.state.close()


@pytest.mark.parametrize("damage", ["empty", "text", "cut", "flipped"])
def test_damaged_parquet_is_refused(tmp_path: Path, damage: str) -> None:
    pytest.importorskip("pyarrow")
    path = tmp_path / "a.parquet"
    write_parquet(path, rows())
    raw = path.read_bytes()
    half = len(raw) // 2
    broken = {"empty": b"", "text": b"PAR1 not so", "cut": raw[:half], "flipped": raw[:100] + bytes(200) + raw[300:]}
    path.write_bytes(broken[damage])
    with pytest.raises(EncodingError, match=r"a\.parquet"):
        read_all(open_source(f"parquet:{path}", vectors=True))


def test_a_row_group_that_would_fill_the_memory_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyarrow")
    from ragseal.prover.sources import parquet

    path = tmp_path / "a.parquet"
    write_parquet(path, [{**row, "text": "x" * 100_000} for row in rows()])
    monkeypatch.setattr(parquet, "GROUP_BYTES", 50_000)
    with pytest.raises(EncodingError, match="row group 0 takes"):
        read_all(open_source(f"parquet:{path}"))


@pytest.mark.parametrize(
    ("meta", "said"),
    [
        ("[1]", "not a JSON object but a list"),
        ("{", "not a JSON object"),
        ("[" * 100_000, "not a JSON object"),
        ('{"indexes": {}}', "names no indexes"),
        ('{"indexes": {"a": [], "b": []}}', "say which with index="),
        ('{"indexes": {"a": [{"namespace": "x"}, {"namespace": "y"}]}}', "2 namespaces"),
        ('{"indexes": {"a": 5}}', "0 namespaces"),
        ('{"indexes": {"a": [{}]}}', "names no data_path"),
        ('{"indexes": {"a": [{"data_path": "../outside"}]}}', "out of its folder"),
        ('{"indexes": {"a": [{"data_path": "/etc"}]}}', "out of its folder"),
        ('{"indexes": {"a": [{"data_path": "link"}]}}', "out of its folder"),
        ('{"indexes": {"a": [{"data_path": "inner"}]}}', "no .parquet files"),
    ],
)
def test_a_hostile_vdf_folder_leads_nowhere_else(tmp_path: Path, meta: str, said: str) -> None:
    pytest.importorskip("pyarrow")
    write_parquet(tmp_path / "outside" / "1.parquet", rows())
    folder = tmp_path / "vdf"
    (folder / "inner").mkdir(parents=True)
    os.symlink(tmp_path / "outside", folder / "link")
    os.symlink(tmp_path / "outside" / "1.parquet", folder / "inner" / "1.parquet")
    (folder / "VDF_META.json").write_text(meta)
    with pytest.raises((EncodingError, ConfigurationError), match=said):
        read_all(open_source(f"vdf:{folder}"))


def test_a_faiss_index_with_numbers_finds_its_texts_by_them(tmp_path: Path, target: Target) -> None:
    faiss = pytest.importorskip("faiss")
    table = rows()
    index = faiss.IndexIDMap(faiss.IndexFlatL2(24))
    vectors = np.array([row["vector"] for row in table], dtype=np.float32)
    index.add_with_ids(vectors, np.arange(30) * 7 + 1_000_000)
    faiss.write_index(index, str(tmp_path / "index.faiss"))
    named = [{**row, "number": at * 7 + 1_000_000} for at, row in enumerate(table)]
    write_texts(tmp_path, named[::-1])
    spec = f"faiss:{tmp_path}/index.faiss?texts={tmp_path}/texts.jsonl&key=number"
    assert sync(target, open_source(spec, vectors=True)) == Applied(added=30)
    assert matrix_is_right(target.state)
    for wrong in (5, None, True, "x", named[1]["number"]):
        write_texts(tmp_path, [{**named[0], "number": wrong}, *named[1:]][::-1])
        with pytest.raises(EncodingError, match=r"texts.jsonl, line 30: member 'number'"):
            read_all(open_source(spec, vectors=True))


def test_faiss_texts_and_vectors_go_together_one_to_one(tmp_path: Path) -> None:
    pytest.importorskip("faiss")
    engine = Faiss(tmp_path)
    engine.write(rows())
    write_texts(tmp_path, rows()[:29])
    with pytest.raises(EncodingError, match=r"29 lines, .* 30 vectors"):
        read_all(engine.open())
    write_texts(tmp_path, [*rows(), {**rows()[0], "id": "one more"}])
    with pytest.raises(EncodingError, match=r"line 31: .* has 30 vectors"):
        read_all(engine.open())
    for line in ("[1]", "{", "", "[" * 100_000):
        (tmp_path / "texts.jsonl").write_text(line + "\n")
        with pytest.raises(EncodingError, match=r"line 1: (not a JSON object|empty line)"):
            read_all(engine.open())


def test_a_faiss_file_that_lies_is_refused_without_its_memory(tmp_path: Path) -> None:
    faiss = pytest.importorskip("faiss")
    engine = Faiss(tmp_path)
    engine.write(rows())
    path = tmp_path / "index.faiss"
    raw = path.read_bytes()
    header = len(raw) - 30 * 24 * 4 - 8  # before the length of the vectors
    lies = {
        "cut": raw[:-10],
        "cut in its header": raw[:20],
        "more rows": raw[:8] + struct.pack("<q", 1 << 40) + raw[16:],
        "fewer rows": raw[:8] + struct.pack("<q", 3) + raw[16:],
        "negative": raw[:8] + struct.pack("<q", -1) + raw[16:],
        "wider": raw[:4] + struct.pack("<i", 1 << 30) + raw[8:],
        "more data": raw[:header] + struct.pack("<Q", 1 << 38) + raw[header + 8 :],
        "a pickle": pickle.dumps({"a": 1}),
        "empty": b"",
    }
    said = {"more rows": "too short", "wider": "too short", "a pickle": "begins with"}  # before faiss reads any of it
    for what, lie in lies.items():
        path.write_bytes(lie)
        with pytest.raises(AuditError, match=said.get(what, r"index\.faiss")):
            read_all(engine.open())
    rough = faiss.IndexPQ(24, 4, 4)
    rough.train(np.random.default_rng(1).normal(size=(1000, 24)).astype(np.float32))
    faiss.write_index(rough, str(path))
    with pytest.raises(EncodingError, match=r"begins with .*approximations"):
        read_all(engine.open())
    nested = faiss.IndexIDMap(rough)
    faiss.write_index(nested, str(path))
    with pytest.raises(EncodingError, match="approximations"):
        read_all(engine.open())


def test_no_source_reads_a_pickle() -> None:
    """Neither ours, nor a driver's mode that does: that of qdrant-client for folders."""
    folder = Path(__file__).resolve().parents[2] / "prover" / "sources"
    for file in folder.glob("*.py"):
        text = file.read_text()
        assert "import pickle" not in text, file
        assert "allow_pickle=True" not in text, file
    pytest.importorskip("qdrant_client")
    with pytest.raises(ConfigurationError, match="pickles, which run code"):
        open_source("qdrant:/data/qdrant?collection=docs")
