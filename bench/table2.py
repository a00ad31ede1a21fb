# SPDX-License-Identifier: GPL-3.0-or-later
"""Table 2, measured instead of modelled: rows, key size, proving time and memory against index size, naive against
ours.

``python -m bench.table2`` compiles, makes keys and proves each circuit in a process of its own (so that its peak memory
is its own) and writes bench/results/table2.json and .png.  Of ours each size of the paper is measured with the smallest
class that holds it: up to 16,224 documents with one proof, 100,000 and 1,000,000 with one proof of each of 3 and 30
shards.  The naive circuit recomputes every inner product: d products and one Poseidon hash of the packed embedding a
document, nothing else (no noise, no selection), so it is a lower bound on what the paper calls naive.  It is measured
for up to 256 documents; a line through those measurements gives its larger sizes.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench import shardproofs
from bench.experiment import RESULTS, ROOT, Cell, pyplot, run, table
from ragseal.circuits.build import _constants, build, compile_main, find_compiler, header
from ragseal.circuits.circuit import circuit_of, class_digest, load_classes, noise_sources
from ragseal.circuits.search import count_rows
from ragseal.groth16.keys import make_keys
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.noise_class import with_noise

DIMENSION = 384
OURS = {  # documents: (the smallest class for so many, its shards)
    1_000: ("noise-mini-two-10", 1),
    10_000: ("noise-small-two-50", 2),
    100_000: ("noise-large-gaussian-50", 3),
    1_000_000: ("noise-large-gaussian-50", 30),
}
GAUSSIAN = "noise-large-gaussian-50"  #: the largest class with the paper's noise
NAIVE_SIZES = (32, 64, 128, 256)
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


def ours(name: str) -> dict[str, Any]:
    """Rows, key and one proof of a class."""
    import ragseal_native as native
    from bench.records import Bench, make
    from ragseal.groth16.keys import KeyView

    cls = load_classes()[name]
    built = build(cls, ROOT / "var" / "build")
    with tempfile.TemporaryDirectory() as folder:
        zkey = Path(folder) / "key.zkey"
        began = time.perf_counter()
        native.setup(str(built.r1cs), str(zkey), circuit_of(cls).kept)
        setup_s, key_bytes = time.perf_counter() - began, zkey.stat().st_size
        proving = native.ProvingKey.load(str(zkey))
    r1cs = native.R1cs.load(str(built.r1cs))
    instance = make(Bench(with_noise(cls), KeyView(cls, proving.verifying_key()), np.random.default_rng(1)), 0)
    samples = _timed(lambda: proving.prove(r1cs.solve(instance.assignment.packed())))
    return {"slots": cls.N, "rows": count_rows(cls).rows, "domain": proving.domain,
            **_cost(setup_s, key_bytes, samples)}  # fmt: skip


def sharded(name: str, shards: int) -> dict[str, Any]:
    """Rows, key and the proofs of one record over so many shards."""
    import ragseal_native as native

    cls = load_classes()[name]
    built = build(cls, ROOT / "var" / "build")
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        made = make_keys(built.r1cs, cls, class_digest(cls), Path(folder))
        setup_s, proving = time.perf_counter() - began, native.ProvingKey.load(str(made.zkey))
        key_bytes = made.zkey.stat().st_size
        found = shardproofs.apart(shardproofs.prove, name, ROOT / "var" / "build", made.zkey, shards)
    return {"slots": shards * cls.N, "rows": shards * count_rows(cls).rows, "domain": proving.domain,
            "setup_s": setup_s, "key_bytes": key_bytes, "prove_s": found["record"]["seconds"],
            "prove_cpu_s": found["record"]["processor_seconds"], "memory_mib": found["worker_peak_mib"],
            "shard_samples_s": found["samples_s"]}  # fmt: skip


def naive(slots: int) -> dict[str, Any]:
    """Rows, key and one proof of the naive circuit."""
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
        began = time.perf_counter()
        native.setup(str(at / "naive.r1cs"), str(at / "key.zkey"))
        setup_s, key_bytes = time.perf_counter() - began, (at / "key.zkey").stat().st_size
        proving = native.ProvingKey.load(str(at / "key.zkey"))
        r1cs = native.R1cs.load(str(at / "naive.r1cs"))
    rows = rng.integers(-40, 41, (slots, DIMENSION)) + 128
    e = rng.integers(-40, 41, DIMENSION)
    hashes = []
    for row in rows.tolist():
        packed = [sum(x << (8 * j) for j, x in enumerate(row[at : at + PACKED])) for at in range(0, DIMENSION, PACKED)]
        hashes.append(poseidon(9, *packed))
    inputs = field.pack([*map(int, e), *hashes, *(int(x) for x in rows.ravel())])
    samples = _timed(lambda: proving.prove(r1cs.solve(inputs)))
    return {"slots": slots, "rows": constraints + public, "domain": proving.domain,
            **_cost(setup_s, key_bytes, samples)}  # fmt: skip


def _timed(proof: Callable[[], object]) -> list[tuple[float, float]]:
    """(seconds, processor seconds of all threads) of three proofs."""
    samples = []
    for _ in range(3):
        clock, processor = time.perf_counter(), time.process_time()
        proof()
        samples.append((time.perf_counter() - clock, time.process_time() - processor))
    return samples


def _cost(setup_s: float, key_bytes: int, samples: list[tuple[float, float]]) -> dict[str, Any]:
    seconds, processor = (sorted(one)[len(one) // 2] for one in zip(*samples, strict=True))
    return {
        "setup_s": setup_s,
        "key_bytes": key_bytes,
        "prove_s": seconds,
        "prove_cpu_s": processor,
        "prove_samples": samples,
        "memory_mib": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024,
    }


def measure(cell: Cell, _: np.random.Generator) -> dict[str, Any]:
    """One circuit in a process of its own."""
    command = [sys.executable, "-m", "bench.table2", "--one", json.dumps(dict(cell))]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    if done.returncode:
        raise ConfigurationError(f"measuring {dict(cell)} failed: {done.stderr.strip()[-1000:]}")
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


def experiment(
    out: Path, chosen: Mapping[int, tuple[str, int]], gaussian: str, naive_slots: tuple[int, ...], seed: int = 1
) -> dict[str, Any]:
    """Ours for each number of documents, the largest class with Gaussian noise, and every naive size."""
    cells: list[dict[str, Any]] = [
        {"circuit": "ours", "documents": documents, "class": name, "shards": shards}
        for documents, (name, shards) in chosen.items()
    ]
    cells.append({"circuit": "ours", "class": gaussian, "shards": 1})
    cells += [{"circuit": "naive", "slots": n} for n in naive_slots]
    return run("Table 2", {"seed": seed}, cells, measure, out)


def line(found: dict[str, Any], what: str) -> tuple[float, float]:
    """(per document, fixed) of a least-squares line through the naive circuits, relative errors weighted."""
    rows = [c for c in found["cells"] if c["cell"]["circuit"] == "naive"]
    x = np.array([c["slots"] for c in rows], dtype=np.float64)
    y = np.array([c[what] for c in rows], dtype=np.float64)
    slope, fixed = np.polyfit(x, y, 1, w=1 / y)
    return float(slope), float(fixed)


def _row(c: dict[str, Any]) -> tuple[Any, ...]:
    cell = c["cell"]
    shards = f", {cell['shards']} shards" if cell.get("shards", 1) > 1 else ""
    costs = (c["key_bytes"] // 2**20, c["setup_s"], c["prove_s"], c["prove_cpu_s"], c["memory_mib"])
    return (f"{cell.get('class', 'naive')}{shards}", c["slots"], c["rows"], *costs)


def report(found: dict[str, Any]) -> str:
    """Paper beside measured, as Markdown."""
    head = ("circuit", "documents", "rows", "key, MiB", "keys, s", "proof, s", "processor, s", "peak memory, MiB")
    lines = []
    for c in found["cells"]:
        documents = c["cell"].get("documents")
        if documents not in PAPER:
            continue
        (optimised, s1), (plain, s2) = PAPER[documents]
        rows, seconds = (
            slope * documents + fixed for slope, fixed in (line(found, w) for w in ("rows", "prove_cpu_s"))
        )
        lines.append((f"{documents:,}", optimised, c["rows"], s1, c["prove_cpu_s"], plain, rows, s2, seconds))
    columns = "documents|paper, optimised|ours|paper, s|ours, s|paper, naive|naive here|paper, s|naive here, s"
    beside = "Rows of a record and processor seconds of a proof; the naive ones lie on a line through the sizes above:"
    costs = table(head, [_row(c) for c in found["cells"]])
    return f"{costs}\n\n{beside}\n\n{table(columns.split('|'), lines)}"


def plot(found: dict[str, Any], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10.4, 3.9))
    for at, (what, label) in zip(axes, (("rows", "rows"), ("prove_cpu_s", "processor seconds to prove")), strict=True):
        for circuit in ("ours", "naive"):
            points = [(c["slots"], c[what]) for c in found["cells"] if c["cell"]["circuit"] == circuit]
            drawn = at.plot(*zip(*points, strict=True), "o", label=f"{circuit}, measured")[0]
        slope, fixed = line(found, what)
        span = np.logspace(1.0, 6, 50)
        at.plot(span, slope * span + fixed, "--", linewidth=1, color=drawn.get_color(), label="naive, fitted")
        for n, name in enumerate(("optimised", "naive")):
            values = [PAPER[d][n][0 if what == "rows" else 1] for d in PAPER]
            at.plot(list(PAPER), values, "x", label=f"paper's model, {name}")
        at.set(xscale="log", yscale="log", xlabel="documents", ylabel=label)
        at.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


@click.command()
@click.option("--quick", is_flag=True, help="Two small classes, one of them over shards, and two small naive circuits.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS / "table2.json", show_default=True)
@click.option("--one", hidden=True)
def main(quick: bool, out: Path, one: str | None) -> None:
    """Table 2: what a proof costs against the size of the index."""
    if one is not None:
        click.echo(json.dumps(_one(json.loads(one))))
        return
    found = quickly(out) if quick else fully(out)
    plot(found, out.with_suffix(".png"))
    click.echo(report(found))


def _one(cell: dict[str, Any]) -> dict[str, Any]:
    if cell["circuit"] == "naive":
        return naive(cell["slots"])
    return sharded(cell["class"], cell["shards"]) if cell["shards"] > 1 else ours(cell["class"])


def fully(out: Path) -> dict[str, Any]:
    """All of the paper's sizes."""
    return experiment(out, OURS, GAUSSIAN, NAIVE_SIZES)


def quickly(out: Path) -> dict[str, Any]:
    """The same path with the smallest circuits; its sizes are not the paper's."""
    return experiment(out, {126: ("noise-tiny-two", 1), 252: ("noise-tiny-two", 2)}, "noise-tiny-gaussian", (2, 4))


if __name__ == "__main__":
    main()
