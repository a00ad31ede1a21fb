# SPDX-License-Identifier: GPL-3.0-or-later
"""The planner's numbers on a public corpus: known points measured again, the public score window, a frontier.

``python -m bench.plan check --corpus beir:PATH``      known nDCG@10 of SciFact at mu = 6, three windows, and in float
``python -m bench.plan calibrate --corpus beir:PATH``  which window serves best at equal epsilon
``python -m bench.plan frontier --corpus beir:PATH``   what `ragseal-provider plan` says under every-list

Each writes its part of bench/results/plan-<folder>.json.  Embeddings are kept under var/embeddings by content.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Mapping
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench.experiment import RESULTS, ROOT, machine, save, table
from ragseal.circuits.circuit import load_classes
from ragseal.demo.corpus import demo_documents
from ragseal.embedder import load_embedder
from ragseal.kernel.noise import build_table, scale_of
from ragseal.kernel.params import GAUSSIAN, GEOMETRIC
from ragseal.prover.planning.budgets import Budget
from ragseal.prover.planning.candidates import Candidate, Sizes, Window
from ragseal.prover.planning.frontier import Planner
from ragseal.prover.planning.plan import CANDIDATES, Choices, Trial, make_plan
from ragseal.prover.planning.public_score_ranges import WHOLE
from ragseal.prover.planning.quality import Judge, NoiseMeasurement, clipped, largest_slots
from ragseal.prover.planning.recommendation import Target
from ragseal.prover.planning.shapes import shapes
from ragseal.prover.planning.workload import Workload, chosen, load_workload

CACHE = ROOT / "var" / "embeddings"
DOCSTRINGS = 300  #: documents of the second public corpus
MU = 6.0
#: Score window and nDCG@10 in the order of noisy scores at mu = 6, as the design notes state them.
KNOWN = (((-1.0, 1.0), 0.03), ((0.0, 1.0), 0.18), ((0.3, 0.7), 0.45))
KNOWN_FREE = 0.645
SCALES = {GAUSSIAN: (2.0, 4.0, 6.0, 8.0), GEOMETRIC: (4.0, 6.0, 8.0, 12.0)}
NO_COIN = Budget(25, 2, Fraction(1, 10**6))
LEAST = 0.1  #: nDCG@10 of the best window below which a setting says nothing


def in_noisy_order(work: Workload, capacity: int, s: int, window: Window, gain: int, draws: int) -> tuple[float, float]:
    """(nDCG@10, standard error) when the ten largest noisy scores are taken in their own order."""
    measure, judge = NoiseMeasurement(work, build_table(GAUSSIAN), s, capacity, draws, 11), Judge(work)
    sums = np.zeros(work.queries)
    for draw in range(draws):
        v = measure.drawn(draw).astype(np.int64)
        v[:, : work.documents] += gain * clipped(work.scores, window.lo, window.hi).astype(np.int64)
        sums += [judge.ndcg(q, row) for q, row in enumerate(largest_slots(v, 10).tolist())]
    means = sums / draws
    return float(means.mean()), float(means.std(ddof=1) / np.sqrt(work.queries))


def check(work: Workload, draws: int) -> dict[str, Any]:
    """The known points, and the same ones as a client that re-ranks gets them."""
    (shape,) = shapes(load_classes().values(), [GAUSSIAN], Sizes([10]), work.documents)
    cls = shape.cls
    planner = Planner(work, 384, draws)
    free, unit = planner.noise_free(10), scale_of(GAUSSIAN)
    points = []
    for (lo, hi), known in KNOWN:
        window = Window.of(lo, hi)
        gain = round(MU * (unit << cls.step_bits) / (window.hi - window.lo))
        value, error = in_noisy_order(work, cls.N, cls.step_bits, window, gain, draws)
        ranked = planner.qualities([Candidate(shape, window, gain, NO_COIN, shape.ids)])[0]
        points.append({
            "window": [lo, hi], "mu": gain * (window.hi - window.lo) / (unit << cls.step_bits), "known": known,
            "ndcg10": value, "se": error, "deviation": (value - known) / error, "re_ranked": ranked.ndcg10,
        })  # fmt: skip
    return {
        "class": cls.name, "draws": draws, "queries": work.queries, "noise_free": free.ndcg10,
        "known_noise_free": KNOWN_FREE, "points": points,
    }  # fmt: skip


def docstrings(most: int, progress: Callable[[str, int, int], None]) -> Workload:
    """A second public corpus: docstrings of Python's standard library, with pseudo-queries."""
    documents = [d for tenant in demo_documents().values() for d in tenant]
    names = set(chosen([d.id for d in documents], DOCSTRINGS))
    used = [d for d in documents if d.id in names]
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "docstrings.jsonl"
        path.write_text("".join(json.dumps({"id": d.id, "text": d.text}) + "\n" for d in used))
        return load_workload(f"jsonl:{path}", load_embedder(), most=most, cache=CACHE, progress=progress)


def calibrate(works: Mapping[str, Workload], draws: int) -> dict[str, Any]:
    """nDCG@10 of every candidate window at equal scale, which is equal epsilon; the best on average is recommended."""
    rows, shares = [], dict.fromkeys([WHOLE, *CANDIDATES], 0.0)
    for name, work in works.items():
        used = shapes(load_classes().values(), [GAUSSIAN, GEOMETRIC], Sizes([10, 50]), max(work.documents, 2305))
        planner = Planner(work, 384, draws)
        for shape in used:
            cls = shape.cls
            for scale in SCALES[cls.law]:
                unit = scale_of(cls.law) << cls.step_bits
                windows = [Window.of(*w) for w in shares]
                gains = [max(1, round(scale * unit / (w.hi - w.lo))) for w in windows]
                asked = [Candidate(shape, w, gain, NO_COIN, shape.ids) for w, gain in zip(windows, gains, strict=True)]
                found = planner.qualities(asked)
                best = max(q.ndcg10 for q in found)
                if best < LEAST:
                    continue
                for window, quality in zip(shares, found, strict=True):
                    point = {"corpus": name, "law": cls.law, "K": shape.ids, "scale": scale, "window": list(window)}
                    rows.append({**point, "ndcg10": quality.ndcg10, "se": quality.ndcg10_se})
                    shares[window] += quality.ndcg10 / best
    count = len(rows) // len(shares)
    mean = {f"{lo:g}:{hi:g}": total / count for (lo, hi), total in shares.items()}
    top = max(shares, key=lambda w: shares[w])
    sizes = {name: {"documents": work.documents, "queries": work.queries} for name, work in works.items()}
    return {"corpora": sizes, "draws": draws, "mean_share_of_best": mean, "chosen": list(top), "rows": rows}


def frontier(corpus: str, progress: Callable[[str, int, int], None]) -> dict[str, Any]:
    """The default plan, the corpus being public."""
    choices = Choices(laws=(GAUSSIAN, GEOMETRIC), budgets=[NO_COIN], returned=(10, 50))
    return make_plan(Trial(corpus, cache=CACHE), choices, Target(), progress)


@click.command()
@click.argument("part", type=click.Choice(["check", "calibrate", "frontier"]))
@click.option("--corpus", required=True, help="A public BEIR folder, beir:PATH.")
@click.option("--draws", default=3, show_default=True, help="Noise samples a query.")
@click.option("--most", default=300, show_default=True, help="Queries.")
def main(part: str, corpus: str, draws: int, most: int) -> None:
    """Measure one part and write it beside the others."""
    out = RESULTS / f"plan-{Path(corpus.partition(':')[2]).name}.json"
    found: dict[str, Any] = json.loads(out.read_text()) if out.exists() else {}
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def moved(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        if part == "frontier":
            found[part] = frontier(corpus, moved)
        else:
            # A window is never chosen on what it is shown to work on.
            split = "train" if part == "calibrate" else "test"
            work = load_workload(corpus, load_embedder(), split=split, most=most, cache=CACHE, progress=moved)
            if part == "check":
                found[part] = check(work, draws)
            else:
                name = f"{Path(corpus.partition(':')[2]).name}, train queries"
                found[part] = calibrate({name: work, "Python docstrings": docstrings(most, moved)}, draws)
    found["machine"] = machine()
    RESULTS.mkdir(parents=True, exist_ok=True)
    save(out, found)
    if part == "check":
        rows = [(str(p["window"]), p["known"], p["ndcg10"], p["se"], p["re_ranked"]) for p in found[part]["points"]]
        click.echo(table(("window", "known", "nDCG@10", "s.e.", "re-ranked"), rows))
        click.echo(f"noise-free {found[part]['noise_free']:.4f}, known {KNOWN_FREE}")
    elif part == "calibrate":
        click.echo(table(("window", "mean share of the best"), list(found[part]["mean_share_of_best"].items())))
    else:
        click.echo("\n".join(found[part]["reasons"]))
    click.echo(f"written: {out.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
