# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-verifier audit``: the command, its exit statuses, and what it prints beside the verdict's line."""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragseal.accounting.guess import return_in_words
from ragseal.accounting.rounding import upward
from ragseal.ledger.policy import Policy
from ragseal.runtime.terminal import JSON, client_tls
from ragseal.runtime.tls import ClientTls
from ragseal.verifier import service
from ragseal.verifier.audit import DEADLINE, Target, Terms, conduct, read_receipts, read_turns
from ragseal.verifier.named_key import named_key
from ragseal.verifier.outcome import FAIL, FAILED, NOT_ASKED, OK, OPEN, Verdict
from ragseal.verifier.patience import PATIENCE
from ragseal.verifier.report import board, claim, guess, rests, summary
from ragseal.verifier.report.document import JSON_NAME, PAGE_NAME
from ragseal.verifier.signed.statement import FILE_NAME
from ragseal.verifier.state import State
from ragseal.verifier.steps.blocks import SAMPLE_BLOCKS, Effort
from ragseal.verifier.steps.epsilon import PeriodBudget
from ragseal.verifier.steps.estimate import FULL
from ragseal.verifier.steps.log import MAX_LOG_BYTES
from ragseal.verifier.steps.sample import Sample

if TYPE_CHECKING:
    from rich.console import Console

# 1 is an error before there was anything to audit, 2 a wrong command line.
EXIT_FAIL, EXIT_NO_VERDICT, EXIT_OTHER_WINDOWS, EXIT_NOT_ENOUGH = 3, 4, 5, 6

_MARKS = {
    OK: "[green]ok[/]",
    FAILED: "[red]FAILED[/]",
    OPEN: "[yellow]no verdict[/]",
    NOT_ASKED: "[dim]not asked[/]",
}
_SHOWN = 20  #: files that were set aside and are named on the terminal; the report has all

Option = Callable[..., Any]


def not_enough(verdict: Verdict, most: float | None, full: bool) -> str:
    """Why a PASS is less than was required, empty if it is not."""
    if verdict.budget is not None and most is not None and not verdict.budget.epsilon <= most:
        return f"epsilon {upward(verdict.budget.epsilon)} is more than the {most:g} that --require-epsilon allows"
    if full and verdict.proven < verdict.records:
        return "only a sample of the records was proven, and --require-full asks for all: leave --sample out"
    if full and verdict.estimation is not None and verdict.estimation.certificate != FULL:
        return "the certificate of the coalition estimate is a sample, and --require-full asks for a full one"
    return ""


def status_of(verdict: Verdict, alone: bool, insufficient: str) -> int:
    """The exit status.  ``alone`` excuses other windows, not an earlier FAIL of this one or of the log."""
    if not verdict.passed:
        return EXIT_FAIL if verdict.verdict == FAIL else EXIT_NO_VERDICT
    if insufficient:
        return EXIT_NOT_ENOUGH
    about = None if verdict.about is None else verdict.about[1]
    excused = [one for one in verdict.beside if alone and one.manifest not in (about, b"")]
    return EXIT_OTHER_WINDOWS if len(excused) < len(verdict.beside) else 0


def register(main: click.Group, options: Sequence[Option], target_of: Callable[[str, str, ClientTls], Target]) -> None:
    """Add the command to ``ragseal-verifier``; ``options``: --state, --provider, --log-key."""
    folder = click.Path(path_type=Path, file_okay=False)
    existing = click.Path(path_type=Path, file_okay=False, exists=True)
    seconds = click.FloatRange(min=0)

    @main.command()
    @options[0]
    @options[1]
    @options[2]
    @client_tls
    @click.option("--window", default="", help="Default: the newest that was opened.")
    @click.option("--sample", type=click.IntRange(min=1), help="Ask for proofs of a sample of this size: SAMPLED-PASS.")
    @click.option(
        "--estimate-blocks",
        type=click.IntRange(min=1),
        default=SAMPLE_BLOCKS,
        show_default=True,
        help="Random sets of records to ask for where a tenant has too many for a full certificate of the estimate.",
    )
    @click.option(
        "--period-from",
        type=click.IntRange(min=0),
        help="Count every window that ended after this (seconds since 1970), even if the policy's period began later.",
    )
    @click.option(
        "--beacon-of",
        metavar="KEY",
        help="An auditor whom you trust not to have let the beacon be chosen, by its key: its part counts where this "
        "auditor had none, and the verdict names it.",
    )
    @click.option(
        "--receipts",
        type=existing,
        help="Folder with .receipt and .answer files of accounts: none may contradict the log.",
    )
    @click.option(
        "--require-epsilon",
        type=click.FloatRange(min=0),
        help=f"Exit with status {EXIT_NOT_ENOUGH} if the coalition's epsilon is larger.",
    )
    @click.option(
        "--require-full",
        is_flag=True,
        help=f"Exit with status {EXIT_NOT_ENOUGH} unless every record and the whole estimate are proven.",
    )
    @click.option(
        "--only-this-window",
        is_flag=True,
        help=f"Exit with status 0 on a PASS even if other windows of the period have none (else {EXIT_OTHER_WINDOWS}).",
    )
    @click.option(
        "--witness-policy",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        metavar="FILE",
        help="Ask that a quorum of this file's witnesses (C2SP tlog-policy) cosigned the ledger to the window's end.",
    )
    @click.option(
        "--patience",
        type=seconds,
        default=PATIENCE,
        show_default=True,
        help="Seconds to keep asking a provider that is away, slow or busy; then NO VERDICT.",
    )
    @click.option(
        "--deadline", type=seconds, default=DEADLINE, show_default=True, help="Seconds that the whole audit may take."
    )
    @click.option(
        "--log-bytes",
        type=click.IntRange(min=1),
        default=MAX_LOG_BYTES,
        show_default=True,
        help="Largest log to hold; memory is about eight times that.",
    )
    @click.option(
        "--out",
        type=folder,
        default=Path("report"),
        show_default=True,
        help="Where report.json, report.html and the signed verdict go.",
    )
    @JSON
    def audit(
        directory: Path, provider: str, log_key: str, tls: ClientTls, window: str, sample: int | None,
        estimate_blocks: int, period_from: int | None, beacon_of: str | None, receipts: Path | None,
        require_epsilon: float | None, require_full: bool, only_this_window: bool, witness_policy: Path | None,
        patience: float, deadline: float, log_bytes: int, out: Path, as_json: bool,
    ) -> None:  # fmt: skip
        """Check a closed window step by step and issue the verdict.

        The last line is the verdict.

        \b
        Exit status  0  PASS or SAMPLED-PASS, and every other window of the budget period has one here too
                     3  FAIL: something that the provider signed does not hold
                     4  NO VERDICT: what could not be decided, and what would decide it
                     5  PASS, but other windows of the period were not audited here, failed, or have no verdict
                     6  PASS, but --require-epsilon or --require-full asks for more
                     1  an error before anything could be audited
        """
        target = target_of(provider, log_key, tls)
        state = State(directory)
        given, aside = read_receipts(receipts) if receipts else ([], [])
        turns, unread = read_turns(receipts) if receipts else ([], [])
        terms = Terms(
            window=window,
            sample=Sample(sample) if sample else None,
            receipts=given,
            turns=turns,
            set_aside=[*aside, *unread],
            effort=Effort(sampled=estimate_blocks),
            since=period_from,
            relies_on=None if beacon_of is None else named_key(beacon_of, "--beacon-of"),
            patience=patience,
            deadline=deadline,
            witness_policy=None if witness_policy is None else Policy.load(witness_policy).of(target.log_key),
        )
        from rich.console import Console
        from rich.text import Text

        console = Console(stderr=True, highlight=False)
        with console.status("reading the log") as status:
            # as Text: names and error texts of others are in it, and brackets would be read as markup
            around = service.environment(lambda number, title: status.update(Text(f"step {number}: {title}")))
            verdict, values = conduct(state, target, replace(around, log_bytes=log_bytes), terms, out)
        graded = board.in_words(values)
        insufficient = not_enough(verdict, require_epsilon, require_full) if verdict.passed else ""
        _print(console, verdict, out, insufficient)
        for text in filter(None, (summary.asking_as_one(values), rests.sentence(values), *rests.on_others(values))):
            if verdict.passed:
                console.print(text, markup=False)
        if graded:
            console.print(f"protection: {graded}", markup=False)
        click.echo(json.dumps(values) if as_json else verdict.line())
        sys.exit(status_of(verdict, only_this_window, insufficient))


def _print(console: Console, verdict: Verdict, out: Path, insufficient: str) -> None:
    """The checklist and the numbers, for people; the verdict's line follows on its own."""

    def say(text: str) -> None:
        """One line: what others signed or named may hold line breaks, and must add no line of its own."""
        console.print(" ".join(text.splitlines()), markup=False)

    for step in sorted(verdict.steps, key=lambda step: step.number):
        mark = _MARKS.get(step.status, f"[dim]{step.status}[/]")
        console.print(f"{step.number:3}  {step.title:16} {mark}  [dim]{step.seconds:.2f} s[/]")
        if step.message:
            say(f"     {step.message}")

    if verdict.set_aside:
        say(f"set aside, {len(verdict.set_aside)} files that say nothing about the provider:")
        for one in verdict.set_aside[:_SHOWN]:
            say(f"     {one.file}: {one.why}")
    for tally in verdict.tallies:
        say(
            f"tenant {tally.tenant}: {tally.total} records, {tally.checked} checked, {tally.unchecked} unchecked, "
            f"{tally.acknowledged} acknowledged"
        )
    if verdict.estimation is not None:
        found = verdict.estimation
        members = ", ".join(found.members) or "none"
        say(
            f"estimate: {found.c} accounts ask as one ({members}), k_max of the policy is {found.k_max}, "
            f"certificate {found.certificate}"
        )
    if verdict.passed and verdict.budget is not None:
        _print_budget(say, verdict, verdict.budget)
    if verdict.obstacle is not None:
        say(f"what to do: {verdict.obstacle.way_out}")
    for text in verdict.unkept:
        say(f"not kept: {text}")
    say(f"{out / JSON_NAME}, {out / PAGE_NAME}; signed, to hand on: {out / FILE_NAME}")
    if insufficient:
        say(f"not enough: {insufficient}")


def _number(rational: str) -> str:
    """A policy's rational as a decimal, rounded up."""
    return upward(float(Fraction(rational)))


def _print_budget(say: Callable[[str], None], verdict: Verdict, budget: PeriodBudget) -> None:
    say(
        f"epsilon {upward(budget.epsilon)} is claimed for the {budget.checked} checked records"
        + (
            f"; for the {budget.unchecked} unchecked ones it holds only if the provider's embeddings do not depend "
            "on the index"
            if budget.unchecked
            else ""
        )
    )
    say(
        f"one account alone in this window: epsilon {upward(budget.epsilon_account)}, "
        f"{_number(budget.advertised)} advertised"
    )
    say(_accounting(budget))
    if budget.period.outside:
        whole = budget.whole_log if isinstance(budget.whole_log, str) else upward(budget.whole_log or math.inf)
        say(f"not counted: {len(budget.period.outside)} windows outside of the period; epsilon with them: {whole}")
    say(f"claim: {claim.in_full(budget, budget.claimed(bool(verdict.beside)))}")
    say("the verdict does not say: " + " ".join(claim.does_not_say(budget.claim)))
    if verdict.beside:
        say("windows of the same budget period, or findings kept here, without a PASS:")
        for one in verdict.beside:
            say(f"     {one.window}: {one.verdict}")
    if budget.delivered is not None:
        say(guess.sentence_of_delivered(budget.delivered.unseen))
    elif budget.answers is not None:
        say(guess.sentence_of_answers(budget.epsilon, budget.answers.filtered.epsilon, budget.delta))
    else:
        say(guess.sentence(budget.epsilon, budget.epsilon_account, budget.delta, budget.k_max))


def _accounting(budget: PeriodBudget) -> str:
    windows = f"{len(budget.windows)} windows of the period"
    promise, told = budget.delivered, budget.answers
    if told is not None:
        return (
            f"accountant: {told.plain.accountant}; all {told.plain.answers} answers of {windows}, to any accounts. By "
            f"the provider's word that a document takes part in at most {told.participations} of them: epsilon "
            f"{upward(told.filtered.epsilon)} ({told.filtered.accountant})"
        )
    if promise is None:
        accountant = budget.report.accountant if budget.report is not None else "none"
        return f"accountant: {accountant}; {budget.queries} queries of {budget.k_max} accounts in {windows}"
    every = upward(budget.report.epsilon) if budget.report is not None else "not known"
    return (
        f"unseen {upward(promise.unseen)} of {promise.periods} coin periods in {windows} with at most {budget.queries} "
        f"queries of all accounts; {promise.hidden_share:.1%} of the documents are hidden from everybody; "
        f"{return_in_words(promise.returned)}; epsilon of every list of {budget.k_max} accounts, which is another "
        f"claim: {every}"
    )
