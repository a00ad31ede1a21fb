# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider plan``: what privacy costs in answers, before a window is opened."""

from __future__ import annotations

import json
import secrets
from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import click

from ragseal.accounting.claims import CLAIMS, planned
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.claims import form_of
from ragseal.kernel.params import MAX_TENANTS
from ragseal.kernel.policy import ANSWERS, EVERY_LIST, UNTIL_DELIVERED, rational
from ragseal.prover.commitment.policy_file import LEAST_UNSEEN, MOST_UNSEEN
from ragseal.prover.planning import answers, page, rungs, tick_costs
from ragseal.prover.planning.budgets import UNSEEN, Budget
from ragseal.prover.planning.candidates import RESULTS
from ragseal.prover.planning.laws import PLANNED_LAWS
from ragseal.prover.planning.plan import (
    DRAWS,
    QUERIES,
    QUICK_DRAWS,
    QUICK_QUERIES,
    QUICK_SCALES,
    SCALES,
    Choices,
    LiveIndex,
    Trial,
    make_plan,
)
from ragseal.prover.planning.recommendation import Target
from ragseal.runtime.sections import Sectioned
from ragseal.runtime.terminal import JSON, named_bars

BOTH = "both"
CHOICES = (UNTIL_DELIVERED, EVERY_LIST, BOTH, ANSWERS, *rungs.RUNGS)
MOST_RETURNED = 4096

#: Headings of the help.
SECTIONS = {
    "Documents and questions": (
        "corpus", "split", "pseudo-queries", "embedder", "public", "window", "queries", "cache",
    ),
    "Claim and target": ("claim", "epsilon", "unseen", "return", "ndcg", "delta"),
    "Accounts and answers": ("law", "returned", "results", "n-max", "k-max", "tenants", "no-ticks"),
    "Answers in words": ("accounts", "participations", "words-max", "words"),
    "The plan": ("quick", "out", "json", "help"),
}  # fmt: skip


@click.command(cls=Sectioned, sections=SECTIONS, short_help="Show what a policy costs in answers")
@click.option(
    "--corpus", help="beir:FOLDER with queries and judgements, or jsonl:FILE or text:FOLDER; answers take none."
)
@click.option("--claim", type=click.Choice(CHOICES), default=UNTIL_DELIVERED,
              show_default=True,
              help="What epsilon is about; both compares the lists and recommends for until-delivered. unseen and "
              "exact have no decoys: nothing is traded.")  # fmt: skip
@click.option("--unseen", type=click.FloatRange(LEAST_UNSEEN, MOST_UNSEEN), default=UNSEEN, show_default=True,
              help="Of until-delivered: the odds of a document's absence grow e^unseen times at most.")  # fmt: skip
@click.option("--epsilon", type=click.FloatRange(min=0, min_open=True),
              help="Target: epsilon of every-list at most; of answers that with the filter.")  # fmt: skip
@click.option("--return", "returned_at_most", type=click.FloatRange(min=0, min_open=True),
              help="Target of until-delivered: return at most. Its epsilon is --unseen.")  # fmt: skip
@click.option("--ndcg", type=click.FloatRange(0, 1, min_open=True), help="Target: nDCG@10 at least.")
@click.option("--law", "laws", multiple=True, type=click.Choice(PLANNED_LAWS), default=PLANNED_LAWS, show_default=True,
              help="Noise, or decoys, which are of until-delivered only. Where two tables of noise have one shape, "
              "the class with the faster proof is taken.")  # fmt: skip
@click.option("--returned", multiple=True, type=click.IntRange(1, MOST_RETURNED),
              help="K, slots returned; the client re-ranks them. By default those of 10, 32 and 50 that have a "
              "class, under every-list of 10 and 50; with decoys as many as --results need.")  # fmt: skip
@click.option("--results", type=click.IntRange(1, MOST_RETURNED), default=RESULTS, show_default=True,
              help="With decoys: places of an answer that are left to results, but once in 2^20 answers.")  # fmt: skip
@click.option("--n-max", multiple=True, type=click.IntRange(min=1), default=(25, 100), show_default=True,
              help="Queries per account; the recommendation is for the first. Only a load limit under "
              "until-delivered.")  # fmt: skip
@click.option("--k-max", multiple=True, type=click.IntRange(min=1), default=(2,), show_default=True,
              help="Accounts per coalition; the recommendation is for the first. Part of epsilon under every-list "
              "only.")  # fmt: skip
@click.option("--accounts", type=click.IntRange(min=1), default=10, show_default=True,
              help="Of answers: accounts of the window; all their answers count.")  # fmt: skip
@click.option("--participations", type=click.IntRange(min=1), default=answers.FILTER, show_default=True,
              help="Of answers: those that one document may take part in.")  # fmt: skip
@click.option("--words-max", type=click.IntRange(min=1), default=answers.WORDS_MAX, show_default=True,
              help="Of answers: keywords that one document may give.")  # fmt: skip
@click.option("--words", type=click.IntRange(min=1), default=answers.WORDS, show_default=True,
              help="Of answers: words of the vocabulary.")  # fmt: skip
@click.option("--delta", default="1/1000000", show_default=True)
@click.option("--window", "given", multiple=True, metavar="LO:HI", help="Score window in cosines, chosen elsewhere.")
@click.option("--public", is_flag=True, help="The corpus is public: choose the score window on it too.")
@click.option("--split", default="test", show_default=True, help="Which of the BEIR folder's judgements.")
@click.option("--pseudo-queries", "pseudo", is_flag=True, help="Make queries from the documents even of a BEIR folder.")
@click.option("--embedder", default="minilm", show_default=True)
@click.option("--tenants", type=click.IntRange(1, MAX_TENANTS), default=1, show_default=True,
              help="Tenants with indices of this size: how often all of them can have a new version.")  # fmt: skip
@click.option("--no-ticks", is_flag=True, help="Recommend no version_every: documents count from the next window on.")
@click.option("--queries", type=click.IntRange(min=2), help=f"How many queries to measure at most, default {QUERIES}.")
@click.option("--quick", is_flag=True, help="Fewer queries, draws and points: a first look.")
@click.option("--cache", type=click.Path(path_type=Path, file_okay=False),
              help="Keep embeddings here by content; they are as private as the texts.")  # fmt: skip
@click.option("--out", type=click.Path(path_type=Path, file_okay=False), default=Path("plan"), show_default=True,
              help="Where plan.json, plan.png and plan.html go.")  # fmt: skip
@JSON
def plan(
    corpus: str | None,
    claim: str,
    unseen: float,
    epsilon: float | None,
    returned_at_most: float | None,
    ndcg: float | None,
    laws: Sequence[str],
    returned: Sequence[int],
    results: int,
    n_max: Sequence[int],
    k_max: Sequence[int],
    accounts: int,
    participations: int,
    words_max: int,
    words: int,
    delta: str,
    given: Sequence[str],
    public: bool,
    split: str,
    pseudo: bool,
    embedder: str,
    tenants: int,
    no_ticks: bool,
    queries: int | None,
    quick: bool,
    cache: Path | None,
    out: Path,
    as_json: bool,
) -> None:
    """Show what privacy costs in answers, and recommend a policy for a target of either.

    Measures the served mechanism on a corpus whose queries are public, or are made from the documents; never give it
    what your accounts asked. Epsilon is the one that an audit of the policy reports: of claim until-delivered, against
    any accounts and queries, or of claim every-list, against k_max accounts of n_max queries each. Of claim answers
    nothing is measured: class and gain follow from epsilon and the filter, and what a keyword needs from them. Nor is
    anything of claims unseen and exact, whose lists are exact: it says what they promise.
    """
    _check_targets(claim, epsilon, returned_at_most)
    if claim in rungs.RUNGS:
        values = rungs.gives(claim, unseen)
        click.echo(json.dumps(values) if as_json else "\n".join(f"- {one}" for one in rungs.in_words(values)))
        return
    share: Fraction = rational(delta, "--delta")
    if claim in CLAIMS and CLAIMS[claim].planned is None:
        wish = answers.Wish(epsilon or answers.EPSILON, n_max[0], accounts, share, participations, words_max, words)
        found = answers.plan_answers(wish, load_classes().values(), tuple(dict.fromkeys(returned)) or (10,))
        click.echo(json.dumps(found) if as_json else answers.in_words(found))
        return
    if corpus is None:
        raise click.UsageError(
            "Missing option '--corpus': only --claim answers, unseen and exact are planned without one."
        )
    if not page.has_plot():
        click.echo(page.NO_PLOT, err=True)
    with named_bars() as progress:
        trial = Trial(
            corpus,
            embedder,
            split=split,
            pseudo=pseudo,
            public=public,
            queries=queries or (QUICK_QUERIES if quick else QUERIES),
            draws=QUICK_DRAWS if quick else DRAWS,
            cache=cache,
        )
        choices = Choices(
            laws=tuple(dict.fromkeys(laws)),
            budgets=_budgets(claim, unseen, tuple(dict.fromkeys(n_max)), tuple(dict.fromkeys(k_max)), share),
            returned=tuple(dict.fromkeys(returned)),
            given=given,
            scales=QUICK_SCALES if quick else SCALES,
            results=results,
        )
        live = None if no_ticks else LiveIndex(partial(tick_costs.measured, draw=secrets.token_bytes), tenants)
        made = make_plan(trial, choices, Target(epsilon, returned_at_most, ndcg), progress, live)
    files = page.save(out, made)
    click.echo(json.dumps(made) if as_json else _for_people(made, files))


def _check_targets(claim: str, epsilon: float | None, returned: float | None) -> None:
    """Raises UsageError: a target that the claim does not have."""
    refused = CLAIMS[claim].target_refused(epsilon, returned) if claim in CLAIMS else ""
    if refused:
        raise click.UsageError(refused)


def _budgets(claim: str, unseen: float, n_max: Sequence[int], k_max: Sequence[int], delta: Fraction) -> list[Budget]:
    """Of the claim, or of both; the first is the one that the recommendation is for."""
    names = [claim] if claim in CLAIMS else [UNTIL_DELIVERED, EVERY_LIST]
    return [
        Budget(n, k, delta, unseen if form_of(name).coin else None)
        for name in names
        for n, k in planned(name).pairs(n_max, k_max)
    ]


def _for_people(made: dict[str, Any], files: Sequence[Path]) -> str:
    rows = [row for row in made["frontier"] if row["efficient"]]
    best = made["recommended"] or made["nearest"]
    head = "recommended policy:" if made["recommended"] else "the target CANNOT be met; the nearest policy:"
    lines = [made["workload"], "", page.text_table(rows), ""]
    if best:
        lines += [head, best["policy"]]
    lines += [f"- {reason}" for reason in made["reasons"]]
    return "\n".join([*lines, f"written: {', '.join(map(str, files))}"])
