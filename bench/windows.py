# SPDX-License-Identifier: GPL-3.0-or-later
"""The coalition estimate on windows of production size, what it costs, and theta for real queries.

``python -m bench.windows`` writes bench/results/estimate.json: 100,000 records of one tenant at d = 384 with tau =
10,000 through the kernel's own estimator (seconds, memory; FAISS beside it where it is installed), the paper's patterns
among 100 accounts of 1,000 queries, and the calibration table of SciFact's queries (``--beir FOLDER``) and the demo's.
"""

from __future__ import annotations

import math
import os
import resource
import subprocess
import sys
import time
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench import experiment
from bench.coalitions import probes, quantised, sphere, tail
from bench.experiment import RESULTS, Cell, table
from bench.paper import PAGE, insert
from ragseal.demo.corpus import COLLUDING, demo_queries
from ragseal.embedder import DEFAULT
from ragseal.kernel.estimate import (
    Embeddings,
    components,
    find_links,
    link_threshold,
    reach_of,
    spanning_links,
)
from ragseal.prover.planning.calibration_queries import Queries, embedded, read_queries
from ragseal.prover.planning.false_alarms import Window, report
from ragseal.prover.planning.similarities import similarities

REAL = "9/10"
SHOWN = ("1/2", "3/5", "7/10", "3/4", "4/5", "17/20", "9/10", "19/20")


def honest_theta(d: int, accounts: int, records: int, tau: int, target: float = 0.05) -> Fraction:
    """The smallest theta in hundredths at which uniform queries raise a false alarm with at most this chance."""
    pairs = (tau * records - tau * (tau + 1) // 2) * (1 - 1 / accounts)
    return next(t for i in range(1, 100) if -math.expm1(-pairs * tail(float(t := Fraction(i, 100)), d)) <= target)


def window(rng: np.random.Generator, cell: Cell) -> tuple[Embeddings, list[str]]:
    """One window in random order: a coalition's queries among honest ones, and who asked."""
    accounts, each, d = cell["accounts"], cell["each"], cell["d"]
    n = accounts * each
    e = np.empty((n, d), dtype=np.int8)
    for start in range(0, n, 10_000):
        e[start : start + 10_000] = quantised(sphere(rng, min(10_000, n - start), d))
    if cell["pattern"] != "null":
        count = cell["k"] * each
        e[:count] = quantised(probes(cell["pattern"], rng, 1, count, d, cell.get("cosine", 1.0))[0])
    order = rng.permutation(n)
    return e[order], [f"account{i // each}" for i in order]


def size_cell(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """c at the theta that suits uniform queries and at a real embedder's."""
    e, accounts = window(rng, cell)
    found: dict[str, Any] = {"c": {}}
    for theta in cell["thetas"]:
        links = spanning_links(e, reach_of([0] * len(e), cell["tau"]), link_threshold(Fraction(theta)))
        estimate = components(accounts, links)
        members = sum(int(name.removeprefix("account")) < cell.get("k", 0) for name in estimate.members)
        found["c"][theta] = {"c": estimate.c, "of the coalition": members}
    return found


def rank_links(e: Embeddings, tau: int, threshold: int) -> list[tuple[int, int]] | None:
    """All links of records at most tau ranks apart."""
    return find_links(e, reach_of([0] * len(e), tau), threshold)


def faiss_links(e: Embeddings, tau: int, threshold: int, rows: int = 4096) -> list[tuple[int, int]]:
    """The same links by FAISS range search over a moving index."""
    import faiss

    links: list[tuple[int, int]] = []
    for top in range(0, len(e), rows):
        index = faiss.IndexFlatIP(e.shape[1])
        index.add(e[top : top + rows + tau].astype(np.float32))
        # Range search returns what is strictly above its radius; products are integers.
        limits, _, ids = index.range_search(e[top : top + rows].astype(np.float32), threshold - 0.5)
        a = np.repeat(np.arange(top, top + len(limits) - 1), np.diff(limits.astype(np.int64)))
        b = ids + top
        fit = (a < b) & (b - a <= tau)
        links += zip(a[fit].tolist(), b[fit].tolist(), strict=True)
    links.sort()
    return links


def speed_cell(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """Seconds and peak memory of one engine, in a process of its own so that memory is its own."""
    done = subprocess.run(
        [sys.executable, "-m", "bench.windows", "--engine", cell["engine"], str(cell["accounts"] * cell["each"]),
         str(cell["tau"]), str(cell["d"])],
        capture_output=True, text=True, check=True,
    )  # fmt: skip
    seconds, cpu, before, peak, links = done.stdout.split()
    return {
        "seconds": float(seconds),
        "cpu_seconds": float(cpu),
        "memory_before_mib": int(before) // 1024,
        "memory_peak_mib": int(peak) // 1024,
        "links": int(links),
        "load": os.getloadavg()[0],
    }


def engine_run(name: str, n: int, tau: int, d: int) -> None:
    """Print seconds, processor seconds, peak memory before and after (KiB), links."""
    accounts = n // 1000
    e, _ = window(
        np.random.default_rng(1),
        {"accounts": accounts, "each": n // accounts, "d": d, "pattern": "P-C", "k": 1},
    )
    e[1 : n // 2 : 2] = quantised(sphere(np.random.default_rng(2), len(e[1 : n // 2 : 2]), d))
    before, cpu, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time(), time.perf_counter()
    find = faiss_links if name == "faiss" else rank_links
    links = find(e, tau, link_threshold(Fraction(REAL)))
    assert links is not None, "these windows have far fewer links than a list may hold"
    seconds, cpu = time.perf_counter() - began, time.process_time() - cpu
    print(seconds, cpu, before, resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, len(links))


def demo_pairs() -> Queries:
    """The demo's queries; its two colluding accounts ask in pairs."""
    asked = demo_queries()
    ranks = [[i for i, q in enumerate(asked) if q.account == name] for name in COLLUDING]
    return Queries([q.text for q in asked], frozenset(tuple(sorted(p)) for p in zip(*ranks, strict=True)))


def theta_cell(cell: Cell, rng: np.random.Generator, beir: Path | None) -> dict[str, Any]:
    """What ``ragseal-provider calibrate`` prints."""
    queries = demo_pairs() if cell["queries"] == "demo" else read_queries(f"beir:{beir}")
    found = similarities(embedded(DEFAULT, queries.texts), queries.related)
    honest = Window(cell["accounts"], cell["each"], 1000)
    return {
        f"k_max {k}": report(found, honest, k, Fraction(1, 20), 1000, int(rng.integers(1 << 31))) for k in (1, 2, 3)
    }


def cells(beir: bool, accounts: int = 100, each: int = 1000, tau: int = 10_000) -> list[Cell]:
    """Everything, cheapest first."""
    d = 384
    out: list[Cell] = [{"part": "theta", "queries": "demo", "accounts": 3, "each": 10}]
    if beir:
        out.append({"part": "theta", "queries": "BEIR", "accounts": 30, "each": 10})
    size = {"accounts": accounts, "each": each, "d": d, "tau": tau}
    engines = ["kernel"]
    try:
        import faiss  # noqa: F401

        engines.append("faiss")
    except ImportError:
        pass
    out += [{"part": "speed", "engine": engine, **size} for engine in engines]
    thetas = [str(honest_theta(d, accounts, accounts * each, tau)), REAL]
    out.append({"part": "size", "pattern": "null", "thetas": thetas, **size})
    for name, more in (("P-A", {}), ("P-B", {}), ("P-C", {}), ("P-D", {"cosine": 0.93}), ("P-D", {"cosine": 0.5})):
        out.append({"part": "size", "pattern": name, "k": 10, **more, "thetas": thetas, **size})
    return out


def run(out: Path, todo: list[Cell], beir: Path | None = None, seed: int = 1) -> dict[str, Any]:
    def measure(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
        if cell["part"] == "theta":
            return theta_cell(cell, rng, beir)
        return (size_cell if cell["part"] == "size" else speed_cell)(cell, rng)

    return experiment.run("Estimate at production size", {"seed": seed}, todo, measure, out)


def markdown(found: dict[str, Any]) -> str:
    """All tables."""
    of = {part: [c for c in found["cells"] if c["cell"]["part"] == part] for part in ("speed", "size", "theta")}
    speed = [
        (c["cell"]["engine"], c["cell"]["accounts"] * c["cell"]["each"], c["cell"]["tau"], c["seconds"],
         c["cpu_seconds"], c["memory_before_mib"], c["memory_peak_mib"], c["links"], c["load"])
        for c in of["speed"]
    ]  # fmt: skip
    size = [
        (c["cell"]["pattern"] + (f" at {c['cell']['cosine']}" if "cosine" in c["cell"] else ""),
         c["cell"].get("k", "-"),
         *(f"{v['c']} ({v['of the coalition']} of it)" for v in c["c"].values()))
        for c in of["size"]
    ]  # fmt: skip
    lines = [
        table(("engine", "records", "tau", "seconds", "CPU seconds", "MiB before", "peak MiB", "links", "load"), speed),
    ]
    if size:
        lines.append(table(("pattern", "k", *(f"c at theta {t}" for t in of["size"][0]["cell"]["thetas"])), size))
    for c in of["theta"]:
        first = c["k_max 1"]
        name = "the demo's" if c["cell"]["queries"] == "demo" else "SciFact's"
        rows = []
        for at, rate in enumerate(first["rates"]):
            if rate["theta"] in SHOWN:
                measured = [c[f"k_max {k}"]["rates"][at]["measured"] for k in (1, 2, 3)]
                rows.append((rate["theta"], rate["pair_rate"], rate["predicted"], *measured, rate["found"]))
        lines += [
            f"{name} queries: {first['queries']}, related pairs {first['related']['pairs']}, squared norms "
            f"{first['norms'][0]} to {first['norms'][1]}; windows of {c['cell']['accounts']} accounts of "
            f"{c['cell']['each']} queries; theta for 5 % false alarms: "
            + ", ".join(f"{c[f'k_max {k}']['theta'] or 'none'} at k_max = {k}" for k in (1, 2, 3)),
            table(
                ("theta", "an unrelated pair links", "any false link, independent pairs", "c > 1", "c > 2", "c > 3",
                 "related pairs found"), rows,
            ),
        ]  # fmt: skip
    return "\n\n".join(lines)


@click.command()
@click.option("--beir", type=click.Path(path_type=Path, exists=True, file_okay=False), help="SciFact's folder.")
@click.option("--quick", is_flag=True, help="2,000 records: seconds instead of minutes.")
@click.option("--out", type=click.Path(path_type=Path), default=RESULTS / "estimate.json", show_default=True)
@click.option("--engine", nargs=4, type=(str, int, int, int), hidden=True)
def main(beir: Path | None, quick: bool, out: Path, engine: tuple[str, int, int, int] | None) -> None:
    """The estimate at production size: what it finds, what it costs, and theta for real queries."""
    if engine is not None:
        engine_run(*engine)
        return
    todo = cells(beir is not None, 20, 100, 500) if quick else cells(beir is not None)
    text = markdown(run(out, todo, beir))
    click.echo(text)
    if out.parent == RESULTS:
        PAGE.write_text(insert(PAGE.read_text(), "estimate", f"\n{text}\n"))


if __name__ == "__main__":
    main()
