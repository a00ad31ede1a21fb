# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-verifier audit``: the command, its exit statuses, and what it prints beside the verdict's line."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ragseal.accounting.claims import CLAIMS
from ragseal.accounting.rounding import upward
from ragseal.kernel.errors import ConfigurationError
from ragseal.ledger.policy import Policy
from ragseal.runtime.streams import Decided
from ragseal.runtime.terminal import JSON, client_tls, stderr_console
from ragseal.runtime.tls import ClientTls
from ragseal.verifier.audit.audit import DEADLINE, Target, Terms, conduct, read_probes, read_receipts, read_turns
from ragseal.verifier.base.named_key import named_key
from ragseal.verifier.evidence.patience import PATIENCE
from ragseal.verifier.folder.state import State
from ragseal.verifier.outcome.outcome import FAIL, FAILED, NOT_ASKED, OK, OPEN, Verdict
from ragseal.verifier.report import summary
from ragseal.verifier.report.document import JSON_NAME, PAGE_NAME, SIGNED_NAME
from ragseal.verifier.service import service
from ragseal.verifier.steps.blocks import SAMPLE_BLOCKS, Effort
from ragseal.verifier.steps.estimate import FULL
from ragseal.verifier.steps.log import MAX_LOG_BYTES
from ragseal.verifier.steps.sample import CONFIDENCE, Sample, confidence_of, share_of

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
_SHOWN = 3  #: of files and windows, as many are named on the terminal; the report has all

Option = Callable[..., Any]


def not_enough(
    verdict: Verdict, most: float | None, full: bool, claim: str | None = None, tenant: str | None = None
) -> str:
    """Why a PASS is less than was required, empty if it is not.

    A provider chooses its claim for every window: one without an epsilon is enough only for who asks for it by name.
    Of a window whose tenants have different claims the weakest counts, or that of the one ``tenant``.
    """
    budget = verdict.budget
    if tenant is not None and verdict.window is not None and budget is not None:
        claims = verdict.window.manifest.claims
        held = next((name for name, tenants in claims.items() if tenant in tenants), None)
        if held is None:
            return (
                f"--tenant names {tenant!r}, and the window's tenants are {', '.join(sorted(sum(claims.values(), ())))}"
            )
        budget = next(one for one in (budget, *verdict.higher) if one.claim.name == held)
    made = None if budget is None else budget.claim
    if made is not None and claim is not None and made.name != claim:
        whose = f" of {', '.join(budget.tenants)}" if budget is not None and budget.tenants else ""
        return f"the window makes the claim {made.name}{whose}, and --claim asks for {claim}"
    if made is not None and not made.form.numbered and (claim is None or most is not None):
        asked = "--require-epsilon asks for one" if most is not None else f"--claim {made.name} does not ask for it"
        return f"the claim {made.name} has no epsilon{'' if made.form.private else ': nothing is private'}, and {asked}"
    if budget is not None and most is not None and not budget.epsilon <= most:
        return f"epsilon {upward(budget.epsilon)} is more than the {most:g} that --require-epsilon allows"
    if full and verdict.proven < verdict.records:
        return "only a sample of the records was proven, and --require-full asks for all: audit without a sample"
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


def detect_options(command: Callable[..., None]) -> Callable[..., None]:
    """--detect and --confidence; :func:`sample_of` reads them."""
    command = click.option(
        "--confidence",
        metavar="CONFIDENCE",
        help="Of a sample: 0.99, 1-2^-20, 1-1e-6. Default: 0.99.",
    )(command)
    return click.option(
        "--detect",
        metavar="SHARE",
        help="Ask for proofs of as large a sample as catches a provider that forged this share of the records, such as "
        "0.01, with the confidence: SAMPLED-PASS.",
    )(command)


def register(main: click.Group, options: Sequence[Option], target_of: Callable[[str, str, ClientTls], Target]) -> None:
    """Add the command to ``ragseal-verifier``; ``options``: --state, --provider, --log-key."""
    folder = click.Path(path_type=Path, file_okay=False)
    existing = click.Path(path_type=Path, file_okay=False, exists=True)
    seconds = click.FloatRange(min=0)

    @main.command(short_help="Audit a closed window")
    @options[0]
    @options[1]
    @options[2]
    @client_tls
    @click.option("--window", default="", help="Default: the newest that was opened.")
    @click.option("--sample", type=click.IntRange(min=1), help="Ask for proofs of a sample of this size: SAMPLED-PASS.")
    @detect_options
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
        "--probes",
        type=click.Path(path_type=Path, exists=True, dir_okay=False),
        multiple=True,
        metavar="FILE",
        help="A statement of `ragseal-observer probe` (repeat): its answers are checked as receipts are, its hits are "
        "counted again. Its count decides nothing.",
    )
    @click.option(
        "--require-epsilon",
        type=click.FloatRange(min=0),
        help=f"Exit with status {EXIT_NOT_ENOUGH} if the coalition's epsilon is larger.",
    )
    @click.option(
        "--claim",
        type=click.Choice(tuple(CLAIMS)),
        help=f"Exit with status {EXIT_NOT_ENOUGH} unless the window makes this claim. Where it is not given, so does a "
        "PASS of a claim that has no epsilon: unseen and exact. Of tenants with different claims the weakest counts.",
    )
    @click.option(
        "--tenant",
        metavar="NAME",
        help="The one whose claim --claim and --require-epsilon are about; the verdict is the same for all.",
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
        detect: str | None, confidence: str | None, estimate_blocks: int, period_from: int | None,
        beacon_of: str | None, receipts: Path | None, probes: tuple[Path, ...], require_epsilon: float | None,
        claim: str | None, tenant: str | None, require_full: bool, only_this_window: bool, witness_policy: Path | None,
        patience: float, deadline: float, log_bytes: int, out: Path, as_json: bool,
    ) -> None:  # fmt: skip
        """Check a closed window step by step and issue the verdict.

        The last line is the verdict. Before it stand the checklist and three sentences; evidence, claim and what the
        verdict does not say are in the report.

        \b
        Exit status  0  PASS or SAMPLED-PASS, and every other window of the budget period has one here too
                     3  FAIL: something that the provider signed does not hold
                     4  NO VERDICT: what could not be decided, and what would decide it
                     5  PASS, but other windows of the period were not audited here, failed, or have no verdict
                     6  PASS, but --require-epsilon, --claim or --require-full asks for more, or its claim (of several
                        the weakest, or that of --tenant) has no epsilon and --claim does not name it: of claim exact
                        nothing is private
                     1  an error before anything could be audited
        """
        target = target_of(provider, log_key, tls)
        state = State(directory)
        given, aside = read_receipts(receipts) if receipts else ([], [])
        turns, unread = read_turns(receipts) if receipts else ([], [])
        probed, odd = read_probes(probes)
        terms = Terms(
            window=window,
            sample=sample_of(sample, detect, confidence),
            receipts=[*given, *probed],
            turns=turns,
            set_aside=[*aside, *unread, *odd],
            effort=Effort(sampled=estimate_blocks),
            since=period_from,
            relies_on=None if beacon_of is None else named_key(beacon_of, "--beacon-of"),
            patience=patience,
            deadline=deadline,
            witness_policy=None if witness_policy is None else Policy.load(witness_policy).of(target.log_key),
        )
        from rich.text import Text

        console = stderr_console()
        with console.status("reading the log") as status:
            # as Text: names and error texts of others are in it, and brackets would be read as markup
            around = service.environment(lambda number, title: status.update(Text(f"step {number}: {title}")))
            verdict, values = conduct(state, target, replace(around, log_bytes=log_bytes), terms, out)
        insufficient = not_enough(verdict, require_epsilon, require_full, claim, tenant) if verdict.passed else ""
        _print(console, verdict, values, out, insufficient)
        click.echo(json.dumps(values) if as_json else verdict.line())
        raise Decided(status_of(verdict, only_this_window, insufficient))  # printed or not


def sample_of(size: int | None, detect: str | None, confidence: str | None) -> Sample | None:
    """What --sample, --detect and --confidence ask for; None: every record."""
    if size is not None and detect is not None:
        raise ConfigurationError(
            "--sample says how many records are proven, --detect what share of bad ones the sample catches: give one"
        )
    if size is None and detect is None:
        if confidence is not None:
            raise ConfigurationError(
                "an audit of every record leaves nothing to chance: give --detect SHARE or --sample SIZE beside "
                "--confidence, or leave it out"
            )
        return None
    sure = CONFIDENCE if confidence is None else confidence_of(confidence)
    return Sample(size, sure, None if detect is None else share_of(detect))


def _print(console: Console, verdict: Verdict, values: Mapping[str, Any], out: Path, insufficient: str) -> None:
    """The checklist, three plain sentences and where everything else stands; the verdict's line follows on its own."""

    def say(text: str) -> None:
        """One line: what others signed or named may hold line breaks, and must add no line of its own."""
        console.print(" ".join(text.splitlines()), markup=False)

    for step in sorted(verdict.steps, key=lambda step: step.number):
        mark = _MARKS.get(step.status, f"[dim]{step.status}[/]")
        console.print(f"{step.number:3}  {step.title:16} {mark}  [dim]{step.seconds:.2f} s[/]")
        if step.message:
            say(f"     {step.message}")
    for sentence in summary.in_three(values):
        say(sentence)
    for text in notes(verdict, insufficient):
        say(text)
    more = f"{len(values['does_not_say'])} exclusions and all evidence" if verdict.passed else "all evidence"
    say(f"{more}: {out / PAGE_NAME} ({out / JSON_NAME} for programs); signed, to hand on: {out / SIGNED_NAME}")


def notes(verdict: Verdict, insufficient: str) -> list[str]:
    """What is different from an audit in which all is well, a line each."""
    found = []
    if verdict.set_aside:
        named = [one.file for one in verdict.set_aside[:_SHOWN]]
        more = [f"and {len(verdict.set_aside) - _SHOWN} more"] if len(verdict.set_aside) > _SHOWN else []
        found.append(f"set aside, no evidence of anything: {', '.join(named + more)}")
    if verdict.passed and verdict.beside:
        others = [f"{one.window} ({one.verdict})" for one in verdict.beside[:_SHOWN]]
        more = [f"and {len(verdict.beside) - _SHOWN} more"] if len(verdict.beside) > _SHOWN else []
        found.append(f"without a PASS here: {', '.join(others + more)}")
    found += [text for text in (one.note() for one in verdict.probes) if text]
    found += [f"not kept: {text}" for text in verdict.unkept]
    return [*found, f"not enough: {insufficient}"] if insufficient else found
