# SPDX-License-Identifier: GPL-3.0-or-later
"""Files of vector engines that are not what they say: refused, without their memory and without another file."""

from __future__ import annotations

import os
import pickle
import struct
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from ragseal.kernel.errors import AuditError, ConfigurationError, EncodingError
from ragseal.prover.commitment.documents import Applied
from ragseal.prover.sources.opening import open_source
from ragseal.prover.sources.sync import Target, sync
from tests.sources.engines import Faiss, write_parquet, write_texts
from tests.sources.scene import (
    CHECKED,
    matrix_is_right,
    new_target,
    read_all,
    rows,
)

pytestmark = pytest.mark.slow


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
