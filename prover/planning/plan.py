# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider plan``: what privacy costs in answers, before a window is opened."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from ragseal.circuits.circuit import load_classes
from ragseal.embedder import load_embedder
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.params import SYMMETRIC_LAWS
from ragseal.kernel.policy import rational
from ragseal.prover.planning import page
from ragseal.prover.planning.frontier import Budget, Planner, Point, Window, shapes
from ragseal.prover.planning.public_score_ranges import WHOLE, public_window
from ragseal.prover.planning.recommendation import Target, advise, efficient
from ragseal.prover.planning.workload import load_workload
from ragseal.runtime.terminal import JSON, named_bars

SCALES = {"gaussian": (1.0, 2.0, 4.0, 6.0, 8.0), "geometric": (1.0, 2.0, 4.0, 8.0, 16.0)}
QUICK_SCALES = {"gaussian": (1.0, 4.0), "geometric": (2.0, 6.0)}
QUERIES, QUICK_QUERIES = 300, 60
DRAWS, QUICK_DRAWS = 3, 1
#: What --public chooses among, in cosines, besides [0, 1].
CANDIDATES = ((0.2, 0.4), (0.2, 0.6), (0.3, 0.5), (0.3, 0.7), (0.35, 0.5), (0.4, 0.6), (0.4, 0.8), (0.5, 0.7))


def _window(text: str) -> Window:
    low, colon, high = text.partition(":")
    try:
        lo, hi = float(low), float(high)
    except ValueError:
        lo, hi = 1.0, 0.0
    if not colon or not 0 <= lo < hi <= 1:
        raise ConfigurationError(f"--window takes two cosines such as 0.3:0.7 with 0 <= lo < hi <= 1, not {text!r}")
    return Window.of(lo, hi)


def _windows(digest: bytes, name: str, given: Sequence[str], public: bool) -> tuple[list[Window], str]:
    """The windows of a plan, and why they may be used."""
    if given:
        why = "the score windows were given: a policy may use one only if it was chosen without looking at private data"
        return [_window(text) for text in given], why
    if public:
        why = "the score window was chosen on this very corpus, which --public declares to be public"
        return [Window.of(*WHOLE), *(Window.of(*one) for one in CANDIDATES)], why
    entry = public_window(digest)
    if entry is None:
        why = (
            f"no score window of embedder {name!r} was chosen on public data, so [0, 1] is used, which needs no "
            "choice; plan on a public corpus with --public, and give the window that it recommends with --window"
        )
        return [Window.of(*WHOLE)], why
    why = (
        f"the score window [{entry.lo:g}, {entry.hi:g}] is the public one of embedder {entry.embedder}, chosen on "
        f"{entry.chosen_on}; nothing of this corpus chose it"
    )
    return [Window.of(entry.lo, entry.hi), Window.of(*WHOLE)], why


def make_plan(
    corpus: str,
    embedder: str,
    target: Target,
    *,
    laws: Sequence[str],
    returned: Sequence[int],
    budgets: Sequence[Budget],
    given: Sequence[str] = (),
    public: bool = False,
    split: str = "test",
    pseudo: bool = False,
    queries: int = QUERIES,
    draws: int = DRAWS,
    scales: Mapping[str, Sequence[float]] = SCALES,
    cache: Path | None = None,
    progress: Any = lambda what, done, total: None,
) -> dict[str, Any]:
    """The plan as `--json` prints it.  The first budget is the one that the recommendation is for."""
    model = load_embedder(embedder)
    windows, why = _windows(model.identity().digest(), embedder, given, public)
    classes = load_classes().values()
    work = load_workload(corpus, model, split=split, pseudo=pseudo, most=queries, cache=cache, progress=progress)
    used = shapes(classes, laws, returned, work.documents)
    planner = Planner(work, model.dimension, draws, progress=progress)
    points = planner.grid(used, windows, scales, budgets)
    advice = advise(planner, target, used, windows, budgets[0])
    good = efficient(points)
    free = planner.noise_free(max(returned))
    reasons = [*advice.reasons, why]
    if not public:
        reasons.append(
            f"law, K and gain were compared on this corpus: who publishes the policy that did best tells a little "
            f"about it, up to which of {len(points)} won, and no epsilon covers that; plan on a public corpus like "
            "yours (--public) to tell nothing"
        )
    if "pseudo" in work.source:
        reasons.append(f"measured with {work.source}")
    reasons.append("windows of one period share one budget: n_max here is the sum over all windows of the period")
    return {
        "workload": f"{work.documents} documents, {work.queries} {work.source}",
        "documents": work.documents,
        "queries": work.queries,
        "noise_free": {"ndcg10": round(free.ndcg10, 4), "recall": round(free.recall, 4)},
        "frontier": [{**point.row(), "efficient": best} for point, best in zip(points, good, strict=True)],
        "recommended": _full(advice.recommended),
        "nearest": _full(advice.nearest),
        "reasons": reasons,
    }


def _full(point: Point | None) -> dict[str, Any] | None:
    return None if point is None else {**point.row(), "policy": point.policy_file()}


@click.command()
@click.option("--corpus", required=True, help="beir:FOLDER with queries and judgements, or jsonl:FILE or text:FOLDER.")
@click.option("--epsilon", type=click.FloatRange(min=0, min_open=True), help="Target: the coalition's epsilon at most.")
@click.option("--ndcg", type=click.FloatRange(0, 1, min_open=True), help="Target: nDCG@10 at least.")
@click.option("--law", "laws", multiple=True, type=click.Choice(SYMMETRIC_LAWS), default=SYMMETRIC_LAWS,
              show_default=True)  # fmt: skip
@click.option("--returned", multiple=True, type=click.IntRange(1, 128), default=(10, 50), show_default=True,
              help="K, slots returned; the client re-ranks them.")  # fmt: skip
@click.option("--n-max", multiple=True, type=click.IntRange(min=1), default=(25, 100), show_default=True,
              help="Queries of an account; the first is what is recommended for.")  # fmt: skip
@click.option("--k-max", multiple=True, type=click.IntRange(min=1), default=(2,), show_default=True,
              help="Accounts of a coalition; the first is what is recommended for.")  # fmt: skip
@click.option("--delta", default="1/1000000", show_default=True)
@click.option("--window", "given", multiple=True, metavar="LO:HI", help="Score window in cosines, chosen elsewhere.")
@click.option("--public", is_flag=True, help="The corpus is public: choose the score window on it too.")
@click.option("--split", default="test", show_default=True, help="Of the BEIR judgements.")
@click.option("--pseudo-queries", "pseudo", is_flag=True, help="Make queries from the documents even of a BEIR folder.")
@click.option("--embedder", default="minilm", show_default=True)
@click.option("--queries", type=click.IntRange(min=2), help=f"At most so many, default {QUERIES}.")
@click.option("--quick", is_flag=True, help="Fewer queries, draws and points: a first look.")
@click.option("--cache", type=click.Path(path_type=Path, file_okay=False),
              help="Keep embeddings here by content; they are as private as the texts.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("plan"), show_default=True,
              help="Where plan.json, plan.png and plan.html go.")  # fmt: skip
@JSON
def plan(
    corpus: str,
    epsilon: float | None,
    ndcg: float | None,
    laws: Sequence[str],
    returned: Sequence[int],
    n_max: Sequence[int],
    k_max: Sequence[int],
    delta: str,
    given: Sequence[str],
    public: bool,
    split: str,
    pseudo: bool,
    embedder: str,
    queries: int | None,
    quick: bool,
    cache: Path | None,
    out: Path,
    as_json: bool,
) -> None:
    """Show what privacy costs in answers, and recommend a policy for a target of either.

    Measures the served mechanism on a corpus whose queries are public, or are made from the documents; never give it
    what your accounts asked. Epsilon is the one that an audit of the policy reports.
    """
    if not page.has_plot():
        click.echo(page.NO_PLOT, err=True)
    share: Fraction = rational(delta, "--delta")
    with named_bars() as progress:
        made = make_plan(
            corpus,
            embedder,
            Target(epsilon, ndcg),
            laws=tuple(dict.fromkeys(laws)),
            returned=tuple(dict.fromkeys(returned)),
            budgets=[Budget(n, k, share) for n in dict.fromkeys(n_max) for k in dict.fromkeys(k_max)],
            given=given,
            public=public,
            split=split,
            pseudo=pseudo,
            queries=queries or (QUICK_QUERIES if quick else QUERIES),
            draws=QUICK_DRAWS if quick else DRAWS,
            scales=QUICK_SCALES if quick else SCALES,
            cache=cache,
            progress=progress,
        )
    files = page.save(out, made)
    click.echo(json.dumps(made) if as_json else _for_people(made, files))


def _for_people(made: dict[str, Any], files: Sequence[Path]) -> str:
    rows = [row for row in made["frontier"] if row["efficient"]]
    best = made["recommended"] or made["nearest"]
    head = "recommended policy:" if made["recommended"] else "the target CANNOT be met; the nearest policy:"
    lines = [made["workload"], "", page.text_table(rows), ""]
    if best:
        lines += [head, best["policy"]]
    lines += [f"- {reason}" for reason in made["reasons"]]
    return "\n".join([*lines, f"written: {', '.join(map(str, files))}"])
