# SPDX-License-Identifier: GPL-3.0-or-later
"""What answers are worth under claim until-delivered: nDCG@10 on a BEIR folder, first answers on the demo's corpus.

``python -m bench.claims --corpus beir:PATH``  (unseen, return, K), each against the same without decoys and coin
``python -m bench.claims``                     the demo's corpus alone
``python -m bench.claims --only-modules``      queries with many relevant documents (:mod:`bench.modules`) alone
``python -m bench.claims --served``            through a running provider (:mod:`bench.served`)

On the demo's corpus (docstrings of Python's standard library, two tenants) the measure is how often the first text that
the client ranks is the best one without decoys and coin: for the demo's 30 queries, and for 60 questions that chose
nothing (:mod:`bench.questions`).  Writes bench/results/claims.json; embeddings are kept under var/embeddings.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import click
import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

from bench import served
from bench.experiment import RESULTS, ROOT, machine, save, table
from bench.modules import module_works
from bench.questions import QUESTIONS
from ragseal.circuits.circuit import load_classes
from ragseal.demo.corpus import demo_documents, demo_queries
from ragseal.demo.scenario import RETURN as DEMO_RETURN
from ragseal.embedder import Embedder, load_embedder
from ragseal.kernel.decoys.table import DECOYS
from ragseal.prover.commitment.policy_file import MOST_UNSEEN
from ragseal.prover.planning.budgets import RETURN, UNSEEN, Budget, cost
from ragseal.prover.planning.candidates import Candidate, Shape, Sizes, Window
from ragseal.prover.planning.frontier import Planner
from ragseal.prover.planning.laws import planned_law
from ragseal.prover.planning.public_score_ranges import PUBLIC_WINDOWS
from ragseal.prover.planning.shapes import shapes
from ragseal.prover.planning.workload import Workload, embed, load_workload

CACHE = ROOT / "var" / "embeddings"
DELTA = Fraction(1, 10**6)
DIMENSION = 384  #: of the packaged embedder
N_MAX, K_MAX = 25, 2
RETURNED = (10, 16, 32, 50, 128)  #: K
HIGHER = (0.35, 0.55)  #: cosines of a second score range, for queries with good answers
COSTS = ((UNSEEN, 5.0), (UNSEEN, RETURN), (UNSEEN, 6.5), (UNSEEN, 8.0), (MOST_UNSEEN, RETURN))  #: (unseen, return)
#: What is aimed at: (measure, unseen, return, least share of the same without noise).
TARGETS = (
    ("beir", UNSEEN, RETURN, 0.90), ("beir", MOST_UNSEEN, RETURN, 0.96), ("demo", UNSEEN, DEMO_RETURN, 0.80),
    ("questions", UNSEEN, DEMO_RETURN, 0.80), ("modules", UNSEEN, RETURN, 0.88),
)  # fmt: skip
PUBLIC = next(iter(PUBLIC_WINDOWS.values()))

Moved = Callable[[str, int, int], None]


def demo_works(
    queries: Mapping[str, Sequence[str]], embedder: Embedder, cache: Path | None, moved: Moved
) -> list[Workload]:
    """One for each tenant of the demo's corpus; the best document without noise is the only relevant one."""
    works = []
    for tenant, documents in demo_documents().items():
        rows = embed(embedder, [d.text for d in documents], "document", cache, moved).astype(np.int32)
        asked = embed(embedder, list(queries[tenant]), "query", cache, moved).astype(np.int32)
        scores = asked @ rows.T
        works.append(Workload(f"tenant {tenant}", len(documents), scores, tuple({int(r.argmax()): 1} for r in scores)))
    return works


def own_queries() -> dict[str, list[str]]:
    """The demo's queries by tenant, each once."""
    out: dict[str, list[str]] = {}
    for query in demo_queries():
        out.setdefault(query.tenant, []).append(query.text)
    return out


def within(shape: Shape, window: Window, target: float, unseen: float) -> Candidate | None:
    """The policy with the best answers whose return is at most the target; None: the class has no room for it."""
    dial = planned_law(shape.cls).dial(shape, window, Budget(N_MAX, K_MAX, DELTA, unseen), DIMENSION)
    place = dial.of_return(target) or 0
    return dial.at(place) if place >= dial.least else None


def measure(
    what: str, works: Sequence[Workload], used: Sequence[Shape], windows: Sequence[Window],
    costs: Sequence[tuple[float, float]], draws: int, moved: Moved,
) -> list[dict[str, Any]]:  # fmt: skip
    """Every class, window and cost: means over all queries of the works, and the share of the same without noise."""
    wanted = []
    for shape in used:
        for window in windows:
            for unseen, target in costs:
                one = within(shape, window, target, unseen)
                if one is not None:
                    wanted.append((one, target))
    planners = [Planner(work, DIMENSION, draws, progress=moved) for work in works]
    found = [planner.qualities([one for one, _ in wanted]) for planner in planners]
    free = {K: [planner.noise_free(K) for planner in planners] for K in {one.ids for one, _ in wanted}}
    weights = np.array([work.queries for work in works]) / sum(work.queries for work in works)

    def mean(name: str, qualities: Sequence[Any]) -> float:
        return float(weights @ [getattr(q, name) for q in qualities])

    def error(name: str, qualities: Sequence[Any]) -> float:
        return float(math.sqrt(sum((w * getattr(q, name)) ** 2 for w, q in zip(weights, qualities, strict=True))))

    rows = []
    for (one, target), *qualities in zip(wanted, *found, strict=True):
        cls, budget, without = one.cls, one.budget, mean("ndcg10", free[one.ids])
        made = cost(cls, one.terms, budget)
        rows.append({
            "corpus": what, "claim": budget.claim, "law": cls.law, "N": one.capacity, "K": one.ids,
            "window": list(one.window.cosines), "gain": one.gain, "unseen": budget.unseen, "return": target,
            "epsilon": made.epsilon if math.isfinite(made.epsilon) else "inf", "hidden": budget.hidden,
            "ndcg10": mean("ndcg10", qualities), "ndcg10_se": error("ndcg10_se", qualities),
            "share": mean("ndcg10", qualities) / without,
            "top1": mean("top1", qualities), "top1_se": error("top1_se", qualities),
        })  # fmt: skip
    return rows


def against_targets(rows: Sequence[Mapping[str, Any]]) -> list[str]:
    """What is reached of each target, at K = 10 and at the K that does best."""
    lines = []
    for what, unseen, target, least in TARGETS:
        name = "share" if what in ("beir", "modules") else "top1"
        own = [row for row in rows if (row["corpus"], row["unseen"], row["return"]) == (what, unseen, target)]
        for K in sorted({row["K"] for row in own}):
            best = max((row for row in own if row["K"] == K), key=lambda row: float(row[name]))
            lines.append(
                f"{what}, unseen {unseen:.3g}, return {target:g}, K = {K}: {best[name]:.1%} of the noise-free, wanted "
                f"{least:.0%}: {best['law']}, window {best['window']}"
            )
    return lines


def _of(row: Mapping[str, Any]) -> tuple[Any, ...]:
    """What a row was measured on: classes that a plan no longer chooses keep theirs."""
    return tuple(row[name] for name in ("corpus", "law", "N", "K"))


@click.command()
@click.option("--corpus", help="A public BEIR folder, beir:PATH.")
@click.option("--draws", default=3, show_default=True, help="Draws a query of the BEIR folder.")
@click.option("--demo-draws", default=40, show_default=True, help="Draws a query of the demo's corpus.")
@click.option("--most", default=300, show_default=True, help="Queries of the BEIR folder.")
@click.option("--no-demo", is_flag=True, help="Measure the BEIR folder alone.")
@click.option("--only-modules", is_flag=True, help="Measure queries with many relevant documents alone.")
@click.option("--served", "running", is_flag=True, help="Through a running provider, into bench/results/served.json.")
def main(
    corpus: str | None, draws: int, demo_draws: int, most: int, no_demo: bool, only_modules: bool, running: bool
) -> None:
    """Measure, print and write bench/results/claims.json; what is not measured again is kept."""
    if running:
        corpora = [*([] if no_demo else [None]), *([] if corpus is None else [corpus])]
        click.echo(served.main(corpora, most))
        return
    out = RESULTS / "claims.json"
    kept: list[dict[str, Any]] = json.loads(out.read_text())["points"] if out.exists() else []
    columns = (TextColumn("{task.description}"), BarColumn(), TimeElapsedColumn())
    with Progress(*columns, console=Console(stderr=True)) as bars:
        tasks: dict[str, Any] = {}

        def moved(what: str, done: int, total: int) -> None:
            if what not in tasks:
                tasks[what] = bars.add_task(what, total=total)
            bars.update(tasks[what], completed=done, total=total)

        model, classes = load_embedder(), load_classes().values()
        windows = [Window.of(PUBLIC.lo, PUBLIC.hi), Window.of(*HIGHER)]
        rows = []
        if not no_demo:
            works = module_works(model, CACHE, moved)
            used = shapes(classes, [DECOYS], Sizes(RETURNED), max(work.documents for work in works))
            rows += measure("modules", works, used, windows, COSTS, demo_draws, moved)
        for what, queries in () if no_demo or only_modules else (("demo", own_queries()), ("questions", QUESTIONS)):
            works = demo_works(queries, model, CACHE, moved)
            used = shapes(classes, [DECOYS], Sizes(RETURNED), max(work.documents for work in works))
            rows += measure(what, works, used, windows, COSTS, demo_draws, moved)
        if corpus is not None:
            work = load_workload(corpus, model, most=most, cache=CACHE, progress=moved)
            used = shapes(classes, [DECOYS], Sizes(RETURNED), work.documents)
            rows += measure("beir", [work], used, windows, COSTS, draws, moved)
    fresh = {_of(row) for row in rows}
    rows += [row for row in kept if _of(row) not in fresh]
    RESULTS.mkdir(parents=True, exist_ok=True)
    save(out, {"points": rows, "delta": str(DELTA), "machine": machine()})
    names = ("corpus", "claim", "law", "K", "window", "unseen", "return", "epsilon", "ndcg10", "share", "top1")
    click.echo(table(names, [[row[name] for name in names] for row in rows]))
    click.echo("\n".join(against_targets(rows)))
    click.echo(f"written: {out.relative_to(ROOT)}")


if __name__ == "__main__":
    main()
