# SPDX-License-Identifier: GPL-3.0-or-later
"""Table 2, measured instead of modelled: rows, key size, proving time and memory against index size, naive against
ours.

``python -m bench.table2`` compiles, makes keys and proves each class in a process of its own (so that its peak memory
is its own) and writes bench/results/table2.json and .png.  The naive circuit recomputes every inner product: d
products and one Poseidon hash of the packed embedding a document, nothing else (no noise, no selection), so it is a
lower bound on what the paper calls naive.  The line through our classes is fitted to rows and seconds and followed to
a million documents, where nothing was measured.
"""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench.experiment import RESULTS, ROOT, Cell, pyplot, run, table
from ragseal.circuits.build import _constants, build, compile_main, find_compiler, header
from ragseal.circuits.circuit import circuit_of, class_digest, load_classes, sources
from ragseal.kernel.errors import ConfigurationError

DIMENSION = 384
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
    instance = make(Bench(cls, KeyView(cls, proving.verifying_key()), np.random.default_rng(1)), 0)
    samples = []
    for _ in range(3):
        began = time.perf_counter()
        proving.prove(r1cs.solve(instance.assignment.packed()))
        samples.append(time.perf_counter() - began)
    return {"slots": cls.N, "rows": built.constraints + built.public, "domain": proving.domain,
            "class_digest": class_digest(cls).hex(), **_cost(setup_s, key_bytes, samples)}  # fmt: skip


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
        compile_main(text, at, find_compiler(), [*sources(), _constants()], "naive")
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
    samples = []
    for _ in range(3):
        began = time.perf_counter()
        proving.prove(r1cs.solve(inputs))
        samples.append(time.perf_counter() - began)
    return {"slots": slots, "rows": constraints + public, "domain": proving.domain,
            **_cost(setup_s, key_bytes, samples)}  # fmt: skip


def _cost(setup_s: float, key_bytes: int, samples: list[float]) -> dict[str, Any]:
    return {
        "setup_s": setup_s,
        "key_bytes": key_bytes,
        "prove_s": sorted(samples)[len(samples) // 2],
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


def experiment(out: Path, classes: tuple[str, ...], naive_slots: tuple[int, ...], seed: int = 1) -> dict[str, Any]:
    """Every class and every naive size."""
    cells: list[dict[str, Any]] = [{"circuit": "ours", "class": name} for name in classes]
    cells += [{"circuit": "naive", "slots": n} for n in naive_slots]
    return run("Table 2", {"seed": seed}, cells, measure, out)


def line(found: dict[str, Any], circuit: str, what: str) -> tuple[float, float]:
    """(per document, fixed) of a least-squares line through one circuit's measurements, relative errors weighted."""
    rows = [c for c in found["cells"] if c["cell"]["circuit"] == circuit]
    x = np.array([c["slots"] for c in rows], dtype=np.float64)
    y = np.array([c[what] for c in rows], dtype=np.float64)
    slope, fixed = np.polyfit(x, y, 1, w=1 / y)
    return float(slope), float(fixed)


def report(found: dict[str, Any]) -> str:
    """Paper beside measured, as Markdown."""
    rows = [
        (
            c["cell"].get("class", "naive"), c["slots"], c["rows"], c["domain"], c["key_bytes"] // 2**20, c["setup_s"],
            c["prove_s"], c["memory_mib"],
        )
        for c in found["cells"]
    ]  # fmt: skip
    head = ("circuit", "documents", "rows", "domain", "key, MiB", "keys, s", "proof, s", "peak memory, MiB")
    lines = []
    for documents, ((optimised, s1), (plain, s2)) in PAPER.items():
        here = [line(found, c, w) for c in ("ours", "naive") for w in ("rows", "prove_s")]
        at = [slope * documents + fixed for slope, fixed in here]
        lines.append((f"{documents:,}", optimised, at[0], s1, at[1], plain, at[2], s2, at[3]))
    return (
        table(head, rows)
        + "\n\nThe fitted lines, extrapolated beyond the largest class (a proof's time steps at powers of two):\n\n"
        + table(
            (
                "documents",
                "paper, optimised",
                "ours",
                "paper, s",
                "ours, s",
                "paper, naive",
                "naive here",
                "paper, s",
                "naive here, s",
            ),
            lines,
        )
    )


def plot(found: dict[str, Any], path: Path) -> None:
    plt = pyplot()
    figure, axes = plt.subplots(1, 2, figsize=(10.4, 3.9))
    for at, (what, label) in zip(axes, (("rows", "rows"), ("prove_s", "seconds to prove")), strict=True):
        for circuit in ("ours", "naive"):
            points = [(c["slots"], c[what]) for c in found["cells"] if c["cell"]["circuit"] == circuit]
            drawn = at.plot(*zip(*points, strict=True), "o", label=f"{circuit}, measured")[0]
            slope, fixed = line(found, circuit, what)
            span = np.logspace(1.0, 6, 50)
            at.plot(span, slope * span + fixed, "--", linewidth=1, color=drawn.get_color(), label=f"{circuit}, fitted")
        for n, name in enumerate(("optimised", "naive")):
            values = [PAPER[d][n][0 if what == "rows" else 1] for d in PAPER]
            at.plot(list(PAPER), values, "x", label=f"paper's model, {name}")
        at.set(xscale="log", yscale="log", xlabel="documents", ylabel=label)
        at.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


@click.command()
@click.option("--quick", is_flag=True, help="Class tiny and two small naive circuits.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS / "table2.json", show_default=True)
@click.option("--one", hidden=True)
def main(quick: bool, out: Path, one: str | None) -> None:
    """Table 2: what a proof costs against the size of the index."""
    if one is not None:
        cell = json.loads(one)
        click.echo(json.dumps(ours(cell["class"]) if cell["circuit"] == "ours" else naive(cell["slots"])))
        return
    classes = ("tiny", "tiny-geo") if quick else ("small", "base", "large")
    found = experiment(out, classes, (2, 4) if quick else (32, 64, 128, 256))
    plot(found, out.with_suffix(".png"))
    click.echo(report(found))


if __name__ == "__main__":
    main()
