# SPDX-License-Identifier: GPL-3.0-or-later
"""``make demo``: the same documents and questions under the paper's claim and under the default's.

Each window runs through phases A to D with real processes (:mod:`ragseal.demo.window`) and ends with its auditor's
verdict in one line; a table sets both side by side.  CLAIM= runs one of them.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

import click
from rich.markup import escape

from ragseal.circuits.build import BUILD_VARIABLE
from ragseal.circuits.circuit import load_classes
from ragseal.demo.compared import compared, papers_numbers
from ragseal.demo.folder import claim as claim_folder
from ragseal.demo.large import SLOTS, large_scenario
from ragseal.demo.scenario import BEIR_QUERIES, answers_scenario, check_arguments, scenario
from ragseal.demo.window import CACHE, Outcome, Stopwatch, out, window
from ragseal.embedder import DEFAULT
from ragseal.kernel.claims import form_of
from ragseal.kernel.errors import AuditError, ConfigurationError
from ragseal.kernel.policy import ANSWERS, EVERY_LIST, UNTIL_DELIVERED
from ragseal.runtime.terminal import Alone

BOTH = "both"
CLAIMS = (BOTH, EVERY_LIST, UNTIL_DELIVERED, ANSWERS)


@click.command(cls=Alone)
@click.option("--corpus", default="stdlib", show_default=True, help="stdlib, or beir:PATH.")
@click.option("--claim", type=click.Choice(CLAIMS), default=BOTH, show_default=True,
              help="answers: in words, whose texts the epsilon covers; of the demo's corpus.")  # fmt: skip
@click.option("--class", "class_name", help="Circuit class, which is of one claim; by default the smallest that fits.")
@click.option("--queries", default=BEIR_QUERIES, show_default=True, help="Of a BEIR folder; four records each three.")
@click.option("--embedder", default=DEFAULT, show_default=True, help="minilm, or sentence-transformers:NAME.")
@click.option("--large", is_flag=True, help=f"One tenant of {SLOTS:,} slots in shards: docstrings, and random vectors.")
@click.option("--out", "folder", type=click.Path(path_type=Path), default=CACHE / "demo", show_default=True,
              help="Folder of the demo's own: new, empty, or of an earlier run, which is deleted.")  # fmt: skip
def main(
    corpus: str, claim: str, class_name: str | None, queries: int, embedder: str, large: bool, folder: Path
) -> None:
    """Run an audit window end to end under each claim."""
    os.environ[BUILD_VARIABLE] = str(CACHE / "build")  # what the processes compile stays where `make clean` finds it
    watch, outcomes = Stopwatch(), []
    try:
        if class_name in (known := load_classes()) and claim == BOTH:
            claim = EVERY_LIST if known[class_name].noisy else UNTIL_DELIVERED
        check_arguments(corpus, class_name, embedder, queries, UNTIL_DELIVERED if claim == BOTH else claim)
        if (large or form_of(claim).words) and (corpus != "stdlib" or class_name or embedder != DEFAULT):
            raise ConfigurationError(
                f"--claim {ANSWERS} and --large are of the demo's own corpus, class and embedder: leave the others out"
            )
        if large and form_of(claim).words:
            raise ConfigurationError(f"--large is of the claim {UNTIL_DELIVERED} or {EVERY_LIST}: name one of them")
        if large and claim == BOTH:
            claim = UNTIL_DELIVERED
        claim_folder(folder)
        for one in (EVERY_LIST, UNTIL_DELIVERED) if claim == BOTH else (claim,):
            own = folder / one if claim == BOTH else folder
            own.mkdir(exist_ok=True)
            watch.stage("corpus", f"claim {one}, corpus {corpus}")
            if large:
                plan = large_scenario(own, one)
            elif form_of(one).words:
                plan = answers_scenario(own)
            else:
                plan = scenario(corpus, own, class_name, queries, one)
            outcomes.append(window(plan, own, watch, embedder))
            _told(outcomes[-1])
    except AuditError as error:
        out.print(f"[bold red]demo failed:[/] {escape(str(error))}")
        sys.exit(1)
    if len(outcomes) > 1:
        out.print()
        out.print(compared(outcomes))
    for found in outcomes:
        click.echo(found.line)
    sys.exit(0 if all(found.line.startswith("PASS") for found in outcomes) else 1)


def _told(found: Outcome) -> None:
    """What a window showed, in sentences, and where its report is."""
    if found.worth is not None and found.worth.judged is not None:
        out.print(found.worth.judged.sentence, markup=False)
    learnt = (found.report.get("attacker_guess") or {}).get("sentence")
    if learnt and found.plan.form.coin:
        out.print(f"had ten accounts, or ten thousand, asked and compared their answers: {learnt}", markup=False)
    elif learnt:
        out.print(f"{'texts included: ' if found.plan.form.words else ''}{learnt}", markup=False)
    if found.plan.form.counted:
        out.print(papers_numbers(found), markup=False)
    out.print(f"report: {found.folder / 'report.json'} and {found.folder / 'report.html'}", markup=False)


if __name__ == "__main__":
    main()
