# SPDX-License-Identifier: GPL-3.0-or-later
"""``ragseal-provider fsck``: the examination of a state folder, as a command."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import click

from ragseal.prover.options import STATE
from ragseal.prover.storage.check_report import Report
from ragseal.prover.storage.fsck import examine_folder
from ragseal.runtime.terminal import JSON, named_bars


def in_words(report: Report) -> str:
    """The report for a person."""
    lines = [f"checked: {', '.join(f'{number} {what}' for what, number in report.checked.items())}"]
    lines += [f"note: {note}" for note in report.notes]
    lines += [f"WRONG: {problem}" for problem in report.findings]
    verdict = "all is well" if not report.findings else f"{len(report.findings)} problems: do not serve this state"
    return "\n".join([*lines, f"{verdict} ({report.seconds:.1f} s)"])


@click.command()
@STATE
@click.option("--quick", is_flag=True, help="Only what every start of `serve` checks.")
@JSON
def fsck(directory: Path, quick: bool, as_json: bool) -> None:
    """Check every file of this provider against every other; 1 if something is wrong.

    The provider must not be running. Nothing is repaired: a finding says what to restore.
    """
    with named_bars() as progress:
        report = examine_folder(directory, not quick, progress)
    click.echo(json.dumps(report.as_json()) if as_json else in_words(report))
    sys.exit(1 if report.findings else 0)
