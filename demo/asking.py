# SPDX-License-Identifier: GPL-3.0-or-later
"""The questions of a trial window: a list of them by several accounts, or what somebody types."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import click

from ragseal.client import Client, excerpts
from ragseal.client.result import Ranked, Result
from ragseal.client.window import hidden_share
from ragseal.demo.corpus import DemoQuery
from ragseal.demo.progress import indented, out
from ragseal.demo.scenario import ACCOUNT, MOST_ASKED, OWN_TENANT, Scenario
from ragseal.embedder import Embedder
from ragseal.kernel.errors import AuditError
from ragseal.kernel.printable import printable
from ragseal.runtime.waiting import patiently

SHOWN = 3  #: documents of an answer, with the first SNIPPET characters of each
SNIPPET = 300
PATIENCE = 60.0  #: seconds that a question waits for a provider that is away

Answered = list[tuple[DemoQuery, Result]]


@dataclass(frozen=True, slots=True)
class Served:
    """An open window, as its accounts reach it."""

    provider: str  #: host:port
    log_key: str
    homes: dict[str, Path]  #: account: its folder
    embedder: Embedder

    def client(self, account: str) -> Client:
        return Client(self.provider, self.homes[account], self.log_key, self.embedder)


Ask = Callable[[Scenario, Served], Answered]


def ask_all(plan: Scenario, served: Served) -> Answered:
    """Every account asks its queries in order, the accounts side by side."""
    by_account: dict[str, list[DemoQuery]] = defaultdict(list)
    for query in plan.queries:
        by_account[query.account].append(query)
    done: Answered = []

    def work(account: str) -> None:
        with served.client(account) as client:
            for query in by_account[account]:
                result = patiently(partial(client.ask, query.text, answer=plan.form.words), PATIENCE, indented)
                done.append((query, result))
                if result.answer is not None:
                    told = f"{result.answer} ({', '.join(result.keywords)})"
                    out.print(f"          {len(done):3}/{len(plan.queries)} {account:6} {query.text}", markup=False)
                    out.print(f"              -> {' '.join(told.split())}", markup=False)
                    continue
                first = result.best
                best = f"[{first.id}] {' '.join(first.text.split())}"[:60] if first else "(only empty slots)"
                out.print(
                    f"          {len(done):3}/{len(plan.queries)} {account:6} {query.text[:44]:44} -> {best}",
                    markup=False,
                )

    with ThreadPoolExecutor(len(by_account)) as pool:
        for future in [pool.submit(work, account) for account in by_account]:
            future.result()
    return done


def ask_and_show(plan: Scenario, served: Served, questions: Iterable[str], say: Callable[[str], None]) -> Answered:
    """One account asks; the best documents of each answer are said.  A question that is refused ends nothing.

    Raises:
        AuditError: not one question got an answer; it is the last one's.
    """
    done: Answered = []
    refused: AuditError | None = None
    with served.client(ACCOUNT) as client:
        for question in questions:
            try:
                result = client.ask(question)
            except AuditError as error:
                refused = error
                out.print(f"no answer: {error}", markup=False)
                continue
            done.append((DemoQuery(ACCOUNT, OWN_TENANT, question), result))
            hidden = hidden_share(served.homes[ACCOUNT], result.record.signed.request.window)
            for line in (f"\n{printable(question)}", *answer_lines(result, hidden)):
                say(line)
    if not done and refused is not None:
        raise refused
    return done


def answer_lines(result: Result, hidden: float) -> list[str]:
    """An answer for people: where each of the best SHOWN documents begins; ``hidden``: the share that coins hide."""
    order = result.opened if result.ranked is None else result.ranked
    lines = []
    for at, one in enumerate(order[:SHOWN], 1):
        near = f" (cosine {one.cosine:.2f})" if isinstance(one, Ranked) else ""
        text = " ".join(printable(one.text, keep=excerpts.BREAKS).split())
        lines.append(f"  {at}. [{printable(one.id)}]{near} {text if len(text) <= SNIPPET else text[:SNIPPET] + '…'}")
    if len(order) > SHOWN:
        lines.append(f"  and {len(order) - SHOWN} more documents")
    return [*lines, f"  -- {result.held}", *(f"  {line}" for line in excerpts.missed(result, hidden))]


def typed() -> Iterator[str]:
    """Questions from a terminal, up to an empty line, the end of input, or as many as an account may ask."""
    click.echo("\nAsk in your own words. An empty line closes the window, and the auditor looks at it.", err=True)
    for _ in range(MOST_ASKED):
        click.echo("question: ", nl=False, err=True)
        line = sys.stdin.readline()
        if not line.strip():
            return
        yield line.strip()
    click.echo("these are all the questions of this account in this window", err=True)
