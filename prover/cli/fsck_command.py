# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider fsck``: the examination of a state folder, as a command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ragseal.prover.base.check_report import NOT_CHECKED, OK, STATUSES, WRONG, Report
from ragseal.prover.cli.options import STATE
from ragseal.prover.fsck.fsck import examine_folder
from ragseal.runtime.face import counted
from ragseal.runtime.terminal import JSON, named_bars


def in_words(report: Report) -> str:
    """The report for a person."""
    lines = [f"checked: {', '.join(f'{what} {number}' for what, number in report.checked.items())}"]
    lines += [f"note: {note}" for note in report.notes]
    lines += [f"NOT CHECKED: {what}" for what in report.unchecked]
    lines += [f"WRONG: {problem}" for problem in report.findings]
    verdict = {
        OK: "all is well",
        WRONG: f"{counted(len(report.findings), 'problem')}: do not serve this state",
        NOT_CHECKED: "nothing is wrong as far as it was checked, and "
        f"{counted(len(report.unchecked), 'thing')} could not be",
    }[report.outcome]
    return "\n".join([*lines, f"{verdict} ({report.seconds:.1f} s)"])


@click.command(short_help="Check every file against the log")
@STATE
@click.option("--quick", is_flag=True, help="Only what every start of `serve` checks.")
@JSON
def fsck(directory: Path, quick: bool, as_json: bool) -> None:
    """Check every file of this provider against every other.

    Ends with status 0 if all is well, 1 if something is wrong, and 4 if nothing is, but something could not be looked
    at (a missing tool, module or key; a busy or unreadable file). With status 4 the provider may be
    served.

    The provider must not be running. Nothing is repaired: a finding says what to restore.
    """
    with named_bars() as progress:
        report = examine_folder(directory, not quick, progress)
    click.echo(json.dumps(report.as_json()) if as_json else in_words(report))
    sys.exit(STATUSES[report.outcome])
