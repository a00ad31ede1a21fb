# SPDX-License-Identifier: GPL-3.0-or-later
"""Table 2, measured instead of modelled: rows, time, memory and price of the proof of one record.

For each size of the paper a whole record is proven: every shard of the smallest class of noise that holds so many
documents, one after the other in one process, as a worker does (:mod:`bench.shardproofs`).  Beside it stands the same
of the default's decoys.  The naive circuit recomputes every inner product: d products and one Poseidon hash of the
packed embedding a document, nothing else (no noise, no selection), so it is a lower bound on what the paper calls
naive.  It is measured for a few documents, and no size is extrapolated.
"""

from __future__ import annotations

import tempfile
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench import shardproofs
from bench.experiment import ROOT, Cell, pyplot, run, table
from ragseal.circuits.build import _constants, compile_main, find_compiler, header
from ragseal.circuits.circuit import load_classes, noise_sources
from ragseal.circuits.search import count_rows
from ragseal.demo.compared import CORE_HOUR

DIMENSION = 384
NOISE, DECOYS, PLAIN = "noise", "decoys", "naive"
SIZES = {  # documents: the smallest class of the paper's noise that holds so many and its shards; decoys likewise
    1_000: (("noise-small-gaussian-50", 1), ("decoys-4k", 1)),
    10_000: (("noise-large-gaussian-50", 1), ("decoys-16k", 1)),
    100_000: (("noise-large-gaussian-50", 4), ("decoys-128k", 1)),
    1_000_000: (("noise-large-gaussian-50", 31), ("decoys-128k", 8)),
}
NAIVE_SIZES = (64, 256)
PACKED = 31  #: int8 entries in a field element
PAPER = {  # documents: (constraints, seconds to prove) optimised, naive
    1_000: ((9.8e4, 0.1), (8.7e5, 0.9)),
    10_000: ((8.9e5, 0.9), (8.6e6, 8.6)),
    100_000: ((8.8e6, 8.8), (8.6e7, 86.0)),
    1_000_000: ((8.8e7, 88.0), (8.6e8, 856.0)),
}
NAIVE = """pragma circom 2.1.6;
include "poseidon.circom";

// y[i] = <E[i], e> for committed rows E[i] and a public e: the scores recomputed inside the circuit.
template NaiveScores(N, D, PACK) {
    signal input e[D];
    signal input row[N];    // Poseidon of each packed row
    signal input E[N][D];   // shifted by 128, so that packing is injective for honest rows
    signal output y[N];
    var parts = (D + PACK - 1) \\ PACK;
    signal product[N][D];
    component hash[N];
    for (var i = 0; i < N; i++) {
        hash[i] = Poseidon(9, parts);
        var sum = 0;
        for (var p = 0; p < parts; p++) {
            var packed = 0;
            for (var j = p * PACK; j < D && j < (p + 1) * PACK; j++) {
                packed += E[i][j] * 256 ** (j - p * PACK);
                product[i][j] <== (E[i][j] - 128) * e[j];
                sum += product[i][j];
            }
            hash[i].in[p] <== packed;
        }
        hash[i].out === row[i];
        y[i] <== sum;
    }
}

component main {public [e, row]} = NaiveScores(@SLOTS, @DIMENSION, @PACKED);
"""


def ours(name: str, shards: int) -> dict[str, Any]:
    """A whole record of a class, over so many shards."""
    cls = load_classes()[name]
    found = shardproofs.proofs(name, ROOT / "var" / "build", ROOT / "var" / "bench" / "shards", shards)
    return {
        "slots": shards * cls.N, "rows": shards * count_rows(cls).rows, "prove_s": found["record"]["seconds"],
        "prove_cpu_s": found["record"]["processor_seconds"], "memory_mib": found["worker_peak_mib"],
        "verify_ms": round(shards * found["verify_ms_a_shard"], 3), "shard_samples_s": found["samples_s"],
    }  # fmt: skip


def naive(slots: int) -> dict[str, Any]:
    """Rows and one proof of the naive circuit."""
    import ragseal_native as native
    from ragseal.kernel import field
    from ragseal.kernel.poseidon import poseidon

    text = NAIVE
    for name, value in (("@SLOTS", slots), ("@DIMENSION", DIMENSION), ("@PACKED", PACKED)):
        text = text.replace(name, str(value))
    rng = np.random.default_rng(slots)
    with tempfile.TemporaryDirectory() as folder:
        at = Path(folder)
        compile_main(text, at, find_compiler(), [*noise_sources(), _constants()], "naive")
        constraints, public = header(at / "naive.r1cs")
        native.setup(str(at / "naive.r1cs"), str(at / "key.zkey"))
        proving = native.ProvingKey.load(str(at / "key.zkey"))
        r1cs = native.R1cs.load(str(at / "naive.r1cs"))
    rows = rng.integers(-40, 41, (slots, DIMENSION)) + 128
    e = rng.integers(-40, 41, DIMENSION)
    hashes = []
    for row in rows.tolist():
        packed = [sum(x << (8 * j) for j, x in enumerate(row[at : at + PACKED])) for at in range(0, DIMENSION, PACKED)]
        hashes.append(poseidon(9, *packed))
    inputs = field.pack([*map(int, e), *hashes, *(int(x) for x in rows.ravel())])
    clock, processor = time.perf_counter(), time.process_time()
    proving.prove(r1cs.solve(inputs))
    return {
        "slots": slots, "rows": constraints + public, "prove_s": round(time.perf_counter() - clock, 3),
        "prove_cpu_s": round(time.process_time() - processor, 3), "memory_mib": round(shardproofs.peak_mib(), 1),
    }  # fmt: skip


def measure(cell: Cell, _: np.random.Generator) -> dict[str, Any]:
    """One circuit; its proof is made in a process of its own, so that its peak memory is its own."""
    if cell["circuit"] == PLAIN:
        return shardproofs.apart(naive, cell["documents"])
    return ours(cell["class"], cell["shards"])


def experiment(
    out: Path, sizes: Mapping[int, Sequence[tuple[str, int]]], naive_sizes: Sequence[int], seed: int = 1
) -> dict[str, Any]:
    """Noise and decoys for each number of documents, and every naive size."""
    cells: list[dict[str, Any]] = [
        {"circuit": circuit, "documents": documents, "class": name, "shards": shards}
        for documents, both in sizes.items()
        for circuit, (name, shards) in zip((NOISE, DECOYS), both, strict=True)
    ]
    cells += [{"circuit": PLAIN, "documents": n} for n in naive_sizes]
    return run("Table 2", {"seed": seed}, cells, measure, out)


def report(found: dict[str, Any]) -> str:
    """Paper beside measured, as Markdown."""
    head = (
        "documents", "circuit", "slots", "paper, rows", "rows", "rows a slot", "paper, s", "proof, s", "processor, s",
        "a thousand records cost", "verified, ms", "peak memory, MiB",
    )  # fmt: skip
    lines = []
    for c in found["cells"]:
        cell = c["cell"]
        rows, seconds = PAPER.get(cell["documents"], (("-", "-"),))[0] if cell["circuit"] == NOISE else ("-", "-")
        name = cell.get("class", PLAIN) + (f", {cell['shards']} shards" if cell.get("shards", 1) > 1 else "")
        price = 1000 * c["prove_cpu_s"] / 3600 * CORE_HOUR
        lines.append(
            (
                f"{cell['documents']:,}", name, f"{c['slots']:,}", rows, f"{c['rows']:,}", c["rows"] / c["slots"],
                seconds, c["prove_s"], c["prove_cpu_s"], price, c.get("verify_ms", "-"), c["memory_mib"],
            )
        )  # fmt: skip
    said = f"The price is at {CORE_HOUR} a core-hour. The paper's naive circuit has 860 rows a document."
    return f"{table(head, lines)}\n\n{said}"


def plot(found: dict[str, Any], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10.4, 3.9))
    for at, (what, label) in zip(axes, (("rows", "rows"), ("prove_cpu_s", "processor seconds to prove")), strict=True):
        for circuit in (NOISE, DECOYS, PLAIN):
            cells = [c for c in found["cells"] if c["cell"]["circuit"] == circuit]
            at.plot(
                [c["cell"]["documents"] for c in cells], [c[what] for c in cells], "o", label=f"{circuit}, measured"
            )
        for n, name in enumerate(("optimised", "naive")):
            values = [PAPER[d][n][0 if what == "rows" else 1] for d in PAPER]
            at.plot(list(PAPER), values, "x", label=f"paper's model, {name}")
        at.set(xscale="log", yscale="log", xlabel="documents", ylabel=label)
        at.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def fully(out: Path) -> dict[str, Any]:
    """All of the paper's sizes."""
    return experiment(out, SIZES, NAIVE_SIZES)


def quickly(out: Path) -> dict[str, Any]:
    """The same path with the smallest circuits; its sizes are not the paper's."""
    return experiment(out, {60: (("noise-tiny-gaussian", 1), ("decoys-tiny", 1))}, (2,))
