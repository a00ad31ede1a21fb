# SPDX-License-Identifier: GPL-3.0-or-later
"""A window of the demo, kept as a result: ``python -m bench.demo NAME``, with options of the demo behind it.

``large-lists``                          ``make demo-large CLAIM=every-list``
``large-decoys``                         ``make demo-large``
``scifact-demo beir:PATH``               ``make demo CLAIM=until-delivered CORPUS=beir:PATH QUERIES=300``

The demo runs a provider, an auditor and an observer as real processes; a worker's process beside the provider makes the
proofs.  Kept are the verdict's line, the policy, the auditor's seconds for each step, and what demo.json says.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import click

from bench.experiment import RESULTS, ROOT, machine, save
from ragseal.demo.window import ABOUT

WINDOWS = {
    "large-lists": ("--large", "--claim", "every-list"),
    "large-decoys": ("--large", "--claim", "until-delivered"),
    "scifact-demo": ("--claim", "until-delivered", "--queries", "300"),
}


def kept(folder: Path) -> dict[str, Any]:
    """What stays of a window's folder."""
    report, about = (json.loads((folder / name).read_text()) for name in ("report.json", ABOUT))
    return {
        "machine": machine(),
        "line": report["line"],
        "records": report["records"],
        "proven": report["proven"],
        "proofs": report["proven"] * about["shards"],
        "policy": report["policy"],
        "demo": {name: value for name, value in about.items() if name not in ("machine", "corpora")},
        "audit_steps_s": report["timings"],
    }


@click.command(context_settings={"ignore_unknown_options": True})
@click.argument("name", type=click.Choice(list(WINDOWS)))
@click.argument("options", nargs=-1, type=click.UNPROCESSED)
def main(name: str, options: tuple[str, ...]) -> None:
    """Run the demo and write bench/results/NAME.json; ends as the demo does where its verdict is no PASS."""
    folder = ROOT / "var" / name
    command = [sys.executable, "-m", "ragseal.demo", "try", *options, *WINDOWS[name]]
    command += ["--out", str(folder), "--no-open"]
    done = subprocess.run(command, cwd=ROOT)
    if done.returncode:
        sys.exit(done.returncode)
    save(RESULTS / f"{name}.json", kept(folder))


if __name__ == "__main__":
    main()
