# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal try``: one audited window over somebody's documents, or over public ones under two claims.

Each window runs through phases A to D with real processes (:mod:`ragseal.demo.window`) and ends with its auditor's
verdict in one line.
"""

from __future__ import annotations

import json
import os
import shlex
import sys
import webbrowser
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import click

from ragseal.demo.asking import Ask, ask_all, ask_and_show, typed
from ragseal.demo.compared import compared, papers_numbers, price
from ragseal.demo.folder import claim as claim_folder
from ragseal.demo.large import SLOTS, large_scenario
from ragseal.demo.progress import Stopwatch, out
from ragseal.demo.scenario import (
    BEIR_QUERIES,
    Scenario,
    answers_scenario,
    check_class,
    check_queries,
    corpus_of,
    docstrings_of_all,
    own_scenario,
    scenario,
)
from ragseal.demo.window import Outcome, window
from ragseal.embedder import DEFAULT, load_embedder
from ragseal.kernel.claims import form_of
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.policy import ANSWERS, EVERY_LIST, UNTIL_DELIVERED
from ragseal.runtime.terminal import JSON

BOTH = "both"
CLAIMS = (UNTIL_DELIVERED, EVERY_LIST, BOTH, ANSWERS)
FOLDER = "ragseal-trial"  #: of all parties, below the current folder
STDLIB = "stdlib"  #: documents: the docstrings of Python's standard library
REPORT = "report.html"


@click.command("try", short_help="Run an audited window over your documents")
@click.argument("documents", default=STDLIB)
@click.argument("questions", metavar="[QUESTION]...", nargs=-1)
@click.option("--claim", type=click.Choice(CLAIMS), default=UNTIL_DELIVERED, show_default=True,
              help="What the window promises; both: one window of each of the first two, side by side.")  # fmt: skip
@click.option("--embedder", default=DEFAULT, show_default=True, help="minilm, or sentence-transformers:NAME.")
@click.option("--out", "folder", type=click.Path(path_type=Path), default=Path(FOLDER), show_default=True,
              help="Folder of all parties: new, empty, or of an earlier trial, which is deleted.")  # fmt: skip
@click.option("--open/--no-open", "opens", default=None, help="Open the report in a browser; by default on a desktop.")
@click.option("--queries", default=BEIR_QUERIES, show_default=True, help="Of a BEIR folder without a question.")
@click.option("--return", "most_return", type=float, help="Epsilon of a window at most [6; of --large 6.5].")
@click.option("--class", "class_name", help="Circuit class, which is of one claim; by default the smallest that fits.")
@click.option("--large", is_flag=True, help=f"One tenant of {SLOTS:,} slots in shards: docstrings, and random vectors.")
@JSON
def try_(
    documents: str,
    questions: tuple[str, ...],
    claim: str,
    folder: Path,
    opens: bool | None,
    as_json: bool,
    **details: object,
) -> None:
    """Try ragseal on this machine: provider, auditor, observer and an account, in one folder.

    \b
    DOCUMENTS  notes.jsonl   a JSON object per line with id and text
               notes.csv     with the columns id and text
               notes/        a folder of .txt and .md files, which are split into parts; or a BEIR folder
               stdlib        the docstrings of Python's standard library (the default)
    QUESTION   without one you are asked for them; "stdlib" and a BEIR folder have their own.

    The provider commits to the documents, the window opens, your questions are answered and proven, the window is
    closed and audited. Nothing leaves this machine. `ragseal up` then lets the same provider go on.
    """
    wanted = _Wanted(documents, questions, claim, **details)  # type: ignore[arg-type]
    wanted.check()
    say = partial(click.echo, err=as_json)
    ask, watch, outcomes = wanted.asker(say), Stopwatch(), []
    claim_folder(folder)
    for one in (EVERY_LIST, UNTIL_DELIVERED) if claim == BOTH else (claim,):
        own = folder / one if claim == BOTH else folder
        own.mkdir(exist_ok=True)
        watch.stage("corpus", f"claim {one}, documents {documents}")
        outcomes.append(window(wanted.plan(own, one), own, watch, wanted.embedder, ask))
        for line in _told(outcomes[-1]):
            say(line)
    passed = all(found.line.startswith("PASS") for found in outcomes)
    if len(outcomes) > 1:
        out.print()
        out.print(compared(outcomes))
    elif passed and wanted.own:
        say(f"`ragseal up{'' if folder == Path(FOLDER) else f' {shlex.quote(str(folder))}'}` lets this provider go on")
    for found in outcomes:
        say(found.line)
    if as_json:
        click.echo(json.dumps([_values(found) for found in outcomes]))
    if opens or (opens is None and _desktop()):
        webbrowser.open((outcomes[-1].folder / REPORT).resolve().as_uri())
    sys.exit(0 if passed else 1)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """What the command line asks for."""

    documents: str
    questions: tuple[str, ...]
    claim: str
    embedder: str
    queries: int
    class_name: str | None
    large: bool
    most_return: float | None

    @property
    def own(self) -> bool:
        """Whether an account asks questions of its user's; else the corpus has queries of its own."""
        return bool(self.questions) or not (self.documents == STDLIB or self._corpus.startswith("beir:"))

    @property
    def _corpus(self) -> str:
        return STDLIB if self.documents == STDLIB else corpus_of(self.documents)

    def check(self) -> None:
        """What can be known before anything is touched.

        Raises:
            ConfigurationError: options that do not go together, or something that is not there.
            EncodingError: documents that are refused.
        """
        claims = (EVERY_LIST, UNTIL_DELIVERED) if self.claim == BOTH else (self.claim,)
        if self.claim == BOTH and self.class_name is not None:
            raise ConfigurationError(f"--class {self.class_name} is of one claim: name it with --claim")
        words = form_of(self.claim).words if self.claim != BOTH else False
        chosen = self.documents != STDLIB or self.questions or self.class_name or self.embedder != DEFAULT
        if (words or self.large) and chosen:
            raise ConfigurationError(
                f"--claim {ANSWERS} and --large are of documents, class and embedder of their own: leave these out"
            )
        if self.large and (words or self.claim == BOTH):
            raise ConfigurationError(f"--large is of the claim {UNTIL_DELIVERED} or {EVERY_LIST}: name one of them")
        for claim in claims:
            check_class(self.class_name, claim)
        load_embedder(self.embedder)
        if not self.own:
            check_queries(self._corpus, self.class_name, self.queries)
            return
        if not self.questions and not sys.stdin.isatty():
            raise ConfigurationError(f'name a question: ragseal try {shlex.quote(self.documents)} "How do I ...?"')
        if self.documents != STDLIB:
            own_scenario(self._corpus, self.questions, self.class_name, claims[-1])

    def plan(self, folder: Path, claim: str) -> Scenario:
        """Of one window."""
        plan = self._plan(folder, claim)
        return replace(plan, most_return=self.most_return or plan.most_return)

    def _plan(self, folder: Path, claim: str) -> Scenario:
        if self.large:
            return large_scenario(folder, claim)
        if form_of(claim).words:
            return answers_scenario(folder)
        if not self.own:
            return scenario(self._corpus, folder, self.class_name, self.queries, claim)
        corpus = docstrings_of_all(folder / "corpus") if self.documents == STDLIB else self._corpus
        return own_scenario(corpus, self.questions, self.class_name, claim)

    def asker(self, say: Callable[[str], None]) -> Ask:
        """Who asks in a window; answers to questions of the user's own are said."""
        if not self.own:
            return ask_all
        return lambda plan, served: ask_and_show(plan, served, self.questions or typed(), say)


def _told(found: Outcome) -> Iterator[str]:
    """What a window showed, in sentences, and where its report is."""
    if found.worth is not None and found.worth.judged is not None:
        yield found.worth.judged.sentence
    learnt = (found.report.get("attacker_guess") or {}).get("sentence")
    if learnt and found.plan.form.coin:
        yield f"had ten accounts, or ten thousand, asked and compared their answers: {learnt}"
    elif learnt:
        yield f"{'texts included: ' if found.plan.form.words else ''}{learnt}"
    if found.plan.form.counted:
        yield papers_numbers(found)
    if found.proof_seconds:
        yield price(found)
    yield f"report: {found.folder / 'report.json'} and {found.folder / REPORT}"


def _values(found: Outcome) -> dict[str, Any]:
    """A window for programs; the report has the rest."""
    return {
        "claim": found.plan.claim,
        "line": found.line,
        "report": str(found.folder / "report.json"),
        "answers": [
            {
                "account": query.account,
                "question": query.text,
                "documents": [one.id for one in result.ranked or result.opened],
                "answer": result.answer,
            }
            for query, result in found.answers
        ],
    }


def _desktop() -> bool:
    """Whether somebody looks at this and can be shown a page."""
    return sys.stdout.isatty() and (
        sys.platform == "darwin" or bool({"DISPLAY", "WAYLAND_DISPLAY"} & os.environ.keys())
    )
