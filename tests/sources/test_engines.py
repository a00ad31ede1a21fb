# SPDX-License-Identifier: GPL-3.0-or-later
"""Every other engine, the real one: the same rows go in, are taken with their vectors, change, and are hostile."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError
from ragseal.prover.commitment.documents import Applied
from ragseal.prover.sources.opening import open_source
from ragseal.prover.sources.sync import Target, catch_up, sync
from tests.sources.engines import ENGINES, Chroma, Engine, Lance, Milvus, Parquet, Row, Vdf
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
def test_a_hostile_row_is_named_and_only_deletions_are_taken(
    engine: Engine, target: Target, changes: Row, said: str
) -> None:
    synced(target, engine)
    before = everything(target.state)
    table = rows()
    table[7] = {**table[7], **changes}
    engine.write(table)
    with pytest.raises(EncodingError, match=said):
        synced(target, engine)
    if "id" in changes:
        assert set(held(target.state)) == set(TEXTS) - {"doc-7"}, "the source has no such id any more"
    else:
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
