# SPDX-License-Identifier: GPL-3.0-or-later
"""Every other engine, the real one, with the rows that a test gives it."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from contextlib import closing
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ragseal.prover.commitment.corpus_notes import Notes
from ragseal.prover.sources.interface import Source
from ragseal.prover.sources.opening import open_source
from ragseal.prover.sources.qdrant import QdrantSource
from ragseal.prover.sources.spec import Columns

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
        source = QdrantSource(self.client, "memory", "chunks", columns, Notes())
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
