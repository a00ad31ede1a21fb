# SPDX-License-Identifier: GPL-3.0-or-later
"""``python -m bench.million``: a whole provider of 1,000,000 documents in shards, its memory and its answers.

Unlike :mod:`bench.scale`, which measures what an answer computes, this is a provider's folder as the programs make it,
texts included, and its serving process, which accounts ask over gRPC: every answer is recorded, synced and receipted.
Vectors are synthetic but for 60.  Claim every-list: nothing is thinned.  Nothing is proven: workers do that.  Writes
bench/results/million.json.
"""

from __future__ import annotations

import json
import tempfile
import time
from pathlib import Path
from typing import Any

import click

from bench.experiment import RESULTS, ROOT, machine, save
from bench.load import Crowd, ask_provider, quantile
from bench.scene import make_state
from bench.shardproofs import apart, peak_mib
from ragseal.circuits.circuit import load_classes

CLASS = "noise-large-gaussian-50"
EMBEDDED = 60
MEMORY_MIB = 2048  #: at most, of the process that answers


def commit(folder: str, class_name: str, shards: int, clients: int, filled: int) -> dict[str, float]:
    """In a process of its own: documents are put and a window is committed."""
    began = time.monotonic()
    make_state(Path(folder), class_name, clients, 1_000_000, count=EMBEDDED, shards=shards, filled=filled)
    return {"seconds": round(time.monotonic() - began, 1), "peak_memory_mib": round(peak_mib(), 1)}


def measure(folder: Path, class_name: str, documents: int, clients: int, seconds: float) -> dict[str, Any]:
    cls, state = load_classes()[class_name], folder / "provider"
    shards = -(-documents // cls.N)
    made = apart(commit, str(state), class_name, shards, clients, documents - EMBEDDED)
    size = sum(one.stat().st_size for one in state.rglob("*") if one.is_file() and not one.is_symlink())
    ran = ask_provider(folder, state, Crowd(clients, seconds))
    total = sorted(kept.ended - kept.began for kept in ran.kept)
    return {
        "class": class_name, "shards": shards, "documents": documents, "commit": made, "folder_mib": size >> 20,
        "peak_memory_mib": round(ran.peak_kib / 1024, 1), "memory_target_mib": MEMORY_MIB, "clients": clients,
        "answers": len(total), "answers_per_s": round(len(total) / ran.seconds, 1),
        "p50_s": round(quantile(total, 0.5), 4), "p99_s": round(quantile(total, 0.99), 4),
        "provider_cpu_ms_per_answer": round(1000 * ran.cpu_seconds / len(total), 2),
        "load_average_before": round(ran.load_before, 2),
    }  # fmt: skip


@click.command()
@click.option("--class", "class_name", default=CLASS, show_default=True)
@click.option("--documents", default=1_000_000, show_default=True)
@click.option("--clients", default=4, show_default=True)
@click.option("--seconds", default=30.0, show_default=True)
def main(class_name: str, documents: int, clients: int, seconds: float) -> None:
    """Measure and write bench/results/million.json."""
    with tempfile.TemporaryDirectory() as folder:
        found = measure(Path(folder), class_name, documents, clients, seconds)
    click.echo(json.dumps(found, indent=1))
    if (class_name, documents) == (CLASS, 1_000_000):
        save(RESULTS / "million.json", {"machine": machine(), **found})
        click.echo(f"written: {(RESULTS / 'million.json').relative_to(ROOT)}")


if __name__ == "__main__":
    main()
