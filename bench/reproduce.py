# SPDX-License-Identifier: GPL-3.0-or-later
"""All of the paper's figures and tables: run what is missing, draw the plots, write the results into
bench/experiments.md.

``python -m bench.reproduce`` takes less than an hour on two cores, most of it Figure 3's index of 10^6 vectors;
``--quick`` a few minutes, into a folder of its own.  Finished cells are kept, so a run that was stopped goes on.
"""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from bench import adversaries, estimate, figure2a, figure2b, figure3, figure5, table2, trained
from bench.experiment import RESULTS, ROOT
from ragseal.kernel.errors import ConfigurationError

PAGE = ROOT / "bench" / "experiments.md"


@dataclass(frozen=True)
class Item:
    """One figure or table: a marker in the page, and how to make it in full or quickly."""

    marker: str
    file: str
    full: Callable[[Path], dict[str, Any]]
    quick: Callable[[Path], dict[str, Any]]
    report: Callable[[dict[str, Any]], str]
    plot: Callable[[dict[str, Any], Path], None]


ITEMS = (
    Item(
        "figure-2a", "figure2a", lambda o: figure2a.experiment(o, 10_000, 10_000),
        lambda o: figure2a.experiment(o, 10_000, 500), figure2a.report, figure2a.plot,
    ),
    Item(
        "figure-2b", "figure2b", lambda o: figure2b.experiment(o, 2_000, 100_000),
        lambda o: figure2b.experiment(o, 300, 500), figure2b.report, figure2b.plot,
    ),
    Item(
        "figure-3", "figure3", lambda o: figure3.experiment(o, "synthetic", 1_000_000, 2_000),
        lambda o: figure3.experiment(o, "synthetic", 1_000, 300), figure3.report, figure3.plot,
    ),
    Item(
        "figure-4", "figure4", estimate.run, lambda o: estimate.run(o, 8, 12, 20), estimate.report, estimate.plot,
    ),
    Item(
        "figure-5", "figure5", lambda o: figure5.experiment(o, 2_000), lambda o: figure5.experiment(o, 300),
        figure5.report, figure5.plot,
    ),
    Item(
        "table-2", "table2", table2.fully, table2.quickly, table2.report, table2.plot,
    ),
    Item(
        "a1", "trained", lambda o: trained.experiment(o, "minilm", 2_000),
        lambda o: trained.experiment(o, "minilm", 300), trained.report, trained.plot,
    ),
    Item(
        "a2", "adversaries", lambda o: adversaries.experiment(o, 2_000), lambda o: adversaries.experiment(o, 100),
        adversaries.report, adversaries.plot,
    ),
)  # fmt: skip


def insert(page: str, marker: str, text: str) -> str:
    """Replace what stands between ``<!-- begin marker -->`` and ``<!-- end marker -->``.

    Raises:
        ConfigurationError: the page has no such markers.
    """
    begin, end = f"<!-- begin {marker} -->", f"<!-- end {marker} -->"
    before, found, rest = page.partition(begin)
    _, closed, after = rest.partition(end)
    if not found or not closed:
        raise ConfigurationError(f"bench/experiments.md has no place marked {marker}")
    return f"{before}{begin}\n{text}\n{end}{after}"


@click.command()
@click.option("--quick", is_flag=True, help="Few trials, into --out; the page stays as it is.")
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for results [bench/results; var/reproduce if quick]."
)
@click.option("--only", multiple=True, type=click.Choice([i.marker for i in ITEMS]), help="Just this item; repeatable.")
def main(quick: bool, out: Path | None, only: tuple[str, ...]) -> None:
    """Reproduce the paper's experiments with this project's own mechanism."""
    folder = out or (ROOT / "var" / "reproduce" if quick else RESULTS)
    folder.mkdir(parents=True, exist_ok=True)
    began = time.monotonic()
    for item in ITEMS:
        if only and item.marker not in only:
            continue
        path = folder / f"{item.file}.json"
        found = (item.quick if quick else item.full)(path)
        item.plot(found, path.with_suffix(".png"))
        click.echo(f"\n## {item.marker}\n\n{item.report(found)}")
        if folder == RESULTS:
            PAGE.write_text(
                insert(PAGE.read_text(), item.marker, f"\n{item.report(found)}\n\n![](results/{item.file}.png)\n")
            )
    if not only or "figure-2a" in only:
        gate = subprocess.run(
            [sys.executable, "-m", "bench.gates", "--figure", str(folder / "figure2a.json")],
            cwd=ROOT, capture_output=True, text=True,
        )  # fmt: skip
        click.echo(gate.stdout)
        if folder == RESULTS:
            PAGE.write_text(insert(PAGE.read_text(), "gates", "\n```\n" + gate.stdout.strip() + "\n```\n"))
        if gate.returncode:
            raise SystemExit(gate.returncode)
    click.echo(f"done in {time.monotonic() - began:.0f} s; results and plots are in {folder}")


if __name__ == "__main__":
    main()
