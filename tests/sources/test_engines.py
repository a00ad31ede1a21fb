# SPDX-License-Identifier: GPL-3.0-or-later
"""Every other engine, the real one: the same rows go in, are taken with their vectors, change, and are hostile."""

from __future__ import annotations

import json
import os
import pickle
import struct
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError
from ragseal.prover.commitment.documents import Applied
from ragseal.prover.sources.interface import Source
from ragseal.prover.sources.opening import open_source
from ragseal.prover.sources.qdrant import QdrantSource
from ragseal.prover.sources.spec import Columns
from ragseal.prover.sources.sync import Target, catch_up, sync
from tests.sources.scene import (
    CHECKED,
    TEXTS,
    everything,
    held,
    matrix_is_right,
    new_target,
    read_all,
    rows,
)

pytestmark = pytest.mark.slow

Row = dict[str, Any]


class Engine(ABC):
    """One engine with a table of rows."""

    modules: ClassVar[tuple[str, ...]]  #: what it takes
    doubles = True  #: whether an id may stand there twice
    loose = True  #: whether rows may lack a column or have a vector of another size
    long = True  #: whether texts may be longer than ours

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    @abstractmethod
    def write(self, table: list[Row]) -> None:
        """Make the table hold exactly these rows."""

    @abstractmethod
    def open(self, vectors: bool = True) -> Source:
        """The source, with metadata source and page."""


class Lance(Engine):
    modules = ("lancedb", "pyarrow")

    def write(self, table: list[Row]) -> None:
        import lancedb
        import pyarrow as pa

        database = lancedb.connect(self.folder / "lance")
        kind = pa.list_(pa.float32())  # called "vector", or of one length, it would be checked by LanceDB itself
        fields = {"id": pa.string(), "text": pa.string(), "e": kind, "source": pa.string(), "page": pa.int64()}
        named = [{**row, "e": row["vector"]} for row in table]
        data = pa.Table.from_pylist(named, pa.schema(list(fields.items())))
        database.create_table("chunks", data, mode="overwrite")

    def open(self, vectors: bool = True) -> Source:
        return open_source(f"lancedb:{self.folder}/lance?table=chunks&vector=e&metadata=source,page", vectors)


class Chroma(Engine):
    modules = ("chromadb",)
    doubles = loose = False

    def write(self, table: list[Row]) -> None:
        import chromadb
        from chromadb.config import Settings

        client = chromadb.PersistentClient(self.folder / "chroma", Settings(anonymized_telemetry=False))
        if "chunks" in [one.name for one in client.list_collections()]:
            client.delete_collection("chunks")
        made = client.create_collection("chunks", embedding_function=None)
        made.add(
            ids=[row["id"] for row in table],
            documents=[row["text"] for row in table],
            embeddings=[row["vector"] for row in table],
            metadatas=[{"source": row["source"], "page": row["page"]} for row in table],
        )

    def open(self, vectors: bool = True) -> Source:
        return open_source(f"chroma:{self.folder}/chroma?collection=chunks&metadata=source,page", vectors)


class Qdrant(Engine):
    """qdrant-client's own engine in memory, behind the same client as a server."""

    modules = ("qdrant_client",)
    loose = False

    def __init__(self, folder: Path) -> None:
        from qdrant_client import QdrantClient

        super().__init__(folder)
        self.client = QdrantClient(location=":memory:")

    def write(self, table: list[Row]) -> None:
        from qdrant_client import models

        if self.client.collection_exists("chunks"):
            self.client.delete_collection("chunks")
        size = models.VectorParams(size=24, distance=models.Distance.EUCLID)
        self.client.create_collection("chunks", vectors_config=size)
        points = [
            models.PointStruct(
                id=at,
                vector=row["vector"],
                payload={
                    "name": row["id"],
                    "text": row["text"],
                    "meta": {"source": row["source"], "page": row["page"]},
                },
            )
            for at, row in enumerate(table)
        ]
        self.client.upsert("chunks", points)

    def open(self, vectors: bool = True) -> Source:
        columns = Columns("name", vector="" if vectors else None, metadata=("meta.source", "meta.page"))
        source = QdrantSource(self.client, "memory", "chunks", columns)
        source.close = lambda: None  # type: ignore[method-assign]
        return source


class Milvus(Engine):
    modules = ("pymilvus", "milvus_lite")
    doubles = loose = long = False

    def write(self, table: list[Row]) -> None:
        from pymilvus import MilvusClient

        with closing(MilvusClient(str(self.folder / "milvus.db"))) as client:
            if client.has_collection("chunks"):
                client.drop_collection("chunks")
            client.create_collection("chunks", dimension=24, id_type="string", max_length=600, metric_type="L2")
            client.insert("chunks", table)

    def open(self, vectors: bool = True) -> Source:
        return open_source(f"milvus:{self.folder}/milvus.db?collection=chunks&metadata=source,page", vectors)


class Parquet(Engine):
    modules = ("pyarrow",)

    def write(self, table: list[Row]) -> None:
        write_parquet(self.folder / "data" / "one.parquet", table[:20])
        write_parquet(self.folder / "data" / "two.parquet", table[20:])

    def open(self, vectors: bool = True) -> Source:
        return open_source(f"parquet:{self.folder}/data?metadata=source,page", vectors)


class Vdf(Engine):
    modules = ("pyarrow",)

    def write(self, table: list[Row]) -> None:
        write_parquet(self.folder / "vdf" / "chunks" / "1.parquet", table)
        meta = {
            "version": "0.1.245",
            "exported_from": "pinecone",
            "indexes": {
                "chunks": [{"namespace": "", "dimensions": 24, "vector_columns": ["vector"], "data_path": "chunks"}]
            },
        }
        (self.folder / "vdf" / "VDF_META.json").write_text(json.dumps(meta))

    def open(self, vectors: bool = True) -> Source:
        return open_source(f"vdf:{self.folder}/vdf?metadata=source,page", vectors)


class Faiss(Engine):
    modules = ("faiss",)
    loose = False

    def write(self, table: list[Row]) -> None:
        import faiss

        index = faiss.IndexFlatIP(24)
        index.add(np.array([row["vector"] for row in table], dtype=np.float32))
        faiss.write_index(index, str(self.folder / "index.faiss"))
        write_texts(self.folder, table)

    def open(self, vectors: bool = True) -> Source:
        return open_source(
            f"faiss:{self.folder}/index.faiss?texts={self.folder}/texts.jsonl&metadata=source,page", vectors
        )


def write_parquet(path: Path, table: list[Row]) -> None:
    import pyarrow as pa
    from pyarrow import parquet

    path.parent.mkdir(parents=True, exist_ok=True)
    fields = {"id": pa.string(), "text": pa.string(), "vector": pa.list_(pa.float32()), "source": pa.string()}
    parquet.write_table(pa.Table.from_pylist(table, pa.schema([*fields.items(), ("page", pa.int64())])), path)


def write_texts(folder: Path, table: list[Row]) -> None:
    lines = [json.dumps({name: value for name, value in row.items() if name != "vector"}) for row in table]
    (folder / "texts.jsonl").write_text("".join(f"{line}\n" for line in lines))


ENGINES: list[type[Engine]] = [Lance, Chroma, Qdrant, Milvus, Parquet, Vdf, Faiss]


@pytest.fixture(params=ENGINES, ids=lambda one: one.__name__)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Engine:
    for module in request.param.modules:
        pytest.importorskip(module)
    made: Engine = request.param(tmp_path)
    made.write(rows())
    return made


@pytest.fixture
def target(tmp_path: Path) -> Iterator[Target]:
    made = new_target(tmp_path, rule=CHECKED)
    yield made
    made.state.close()


def synced(target: Target, engine: Engine) -> Applied:
    with closing(engine.open()) as source:
        return sync(target, source)


def test_rows_are_taken_with_their_vectors_changed_and_deleted(engine: Engine, target: Target) -> None:
    assert synced(target, engine) == Applied(added=30)
    assert held(target.state) == TEXTS
    assert matrix_is_right(target.state)
    assert synced(target, engine) == Applied(unchanged=30)
    table = rows()
    table[4] = {**table[5], "id": "doc-4"}
    del table[7]
    engine.write([*table, {**table[0], "id": "new"}])
    assert synced(target, engine) == Applied(added=1, changed=1, deleted=1, unchanged=28)
    assert matrix_is_right(target.state)
    with closing(engine.open()) as source:
        assert catch_up(target, source) == (Applied() if isinstance(engine, Lance) else Applied(unchanged=30))


def test_ids_texts_and_metadata_arrive_without_vectors_too(engine: Engine) -> None:
    with closing(engine.open(vectors=False)) as source:
        found = {one.id: one for one in read_all(source)}
        assert source.identity() == engine.open(vectors=False).identity()
    assert {name: one.text for name, one in found.items()} == TEXTS
    assert all(one.vector is None for one in found.values())
    assert set(found["doc-3"].metadata.values()) == {"file-3", 3}


def test_many_rows_come_in_pages_each_once(engine: Engine) -> None:
    one = rows()[0]
    engine.write([{**one, "id": f"row {i}"} for i in range(700)])
    with closing(engine.open()) as source:
        found = read_all(source)
    assert sorted(item.id for item in found) == sorted(f"row {i}" for i in range(700))
    assert all(item.text == one["text"] for item in found)


HOSTILE: list[tuple[Row, str, str]] = [
    ({"id": None}, "it has no", "loose"),
    ({"text": None}, r"doc-7'\): it has no 'text'", "loose"),
    ({"text": "x" * ((1 << 20) + 1)}, "doc-7.*1048577 characters", "long"),
    ({"text": " "}, "doc-7.*text is empty", ""),
    ({"id": "doc-3"}, "doc-3.*occurs twice", "doubles"),
    ({"vector": None}, "doc-7.*no vector", "loose"),
    ({"vector": [1.0, 2.0]}, "doc-7.*a vector of 2 entries", "loose"),
    ({"vector": [float("nan")] * 24}, "doc-7.*NaN", "loose"),
    ({"vector": [0.0] * 24}, "doc-7.*length 0", ""),
    ({"source": "x" * 600}, "doc-7.*600 characters", ""),
]


@pytest.mark.parametrize(
    ("engine", "changes", "said"),
    [
        pytest.param(made, changes, said, id=f"{made.__name__}-{said}")
        for made in ENGINES
        for changes, said, needs in HOSTILE
        if not needs or getattr(made, needs)  # others take no such row themselves
    ],
    indirect=["engine"],
)
def test_a_hostile_row_changes_nothing_and_is_named(engine: Engine, target: Target, changes: Row, said: str) -> None:
    synced(target, engine)
    before = everything(target.state)
    table = rows()
    table[7] = {**table[7], **changes}
    engine.write(table)
    with pytest.raises(EncodingError, match=said):
        synced(target, engine)
    assert everything(target.state) == before


def test_vectors_of_another_text_are_refused(engine: Engine, target: Target) -> None:
    table = rows()
    engine.write([{**row, "vector": table[0]["vector"]} for row in table])
    with pytest.raises(EncodingError, match="cosine"):
        synced(target, engine)
    assert held(target.state) == {}


@pytest.mark.parametrize(
    ("spec", "said", "module"),
    [
        ("lancedb:{}/nowhere?table=t", "not a folder", "lancedb"),
        ("lancedb:{}?table=nope", "no table 'nope'", "lancedb"),
        ("chroma:{}?collection=docs", "no chroma.sqlite3", "chromadb"),
        ("milvus:{}/none.db?collection=docs", "that is there", "pymilvus"),
        ("milvus:{}/folder?collection=docs", "neither a URL nor", "pymilvus"),
        ("parquet:{}/none.parquet", "cannot read", "pyarrow"),
        ("parquet:{}", "no .parquet files", "pyarrow"),
        ("vdf:{}", "holds no VDF_META.json", "pyarrow"),
        ("faiss:{}/i.faiss?texts={}/t.jsonl", "cannot read", "faiss"),
        ("qdrant:http://127.0.0.1:1?collection=docs", "Qdrant: ", "qdrant_client"),
        ("chroma:http://127.0.0.1:1?collection=docs", "Chroma: ", "chromadb"),
    ],
)
def test_a_place_that_is_not_there_is_refused_and_not_made(tmp_path: Path, spec: str, said: str, module: str) -> None:
    pytest.importorskip(module)
    with pytest.raises(AuditError, match=said), closing(open_source(spec.replace("{}", str(tmp_path)))) as source:
        read_all(source)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("made", [Lance, Chroma, Milvus, Parquet, Vdf])
def test_a_collection_or_column_that_is_not_there_is_named(made: type[Engine], tmp_path: Path) -> None:
    for module in made.modules:
        pytest.importorskip(module)
    engine = made(tmp_path)
    engine.write(rows())
    spec = {
        Lance: "lancedb:{}/lance?table=chunks&text=nope",
        Chroma: "chroma:{}/chroma?collection=nope",
        Milvus: "milvus:{}/milvus.db?collection=nope",
        Parquet: "parquet:{}/data?text=nope",
        Vdf: "vdf:{}/vdf?index=nope",
    }[made]
    with pytest.raises(ConfigurationError, match="nope"), closing(open_source(spec.format(tmp_path))) as source:
        read_all(source)


# --- files that are not what they say --------------------------------------------------------------------------------


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
        ("[1]", "names no indexes"),
        ("{", "not JSON"),
        ("[" * 100_000, "not JSON"),
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
        with pytest.raises(EncodingError, match="line 1: not a JSON object"):
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
