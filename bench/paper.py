# SPDX-License-Identifier: GPL-3.0-or-later
"""All of the paper's figures and tables: run what is missing, draw the plots, write the results into
bench/experiments.md, and end with status 1 where gate P1 or P3 does not hold.

``python -m bench.paper`` (``make paper``) takes less than an hour on two cores, most of it Figure 3's index of 10^6
vectors; ``--quick`` a few minutes, into a folder of its own.  Finished cells are kept: a run that was stopped goes on.
``--only figure-3 --corpus beir:PATH --embedder NAME`` runs Figure 3 on another corpus, A.1 takes the embedder.  Results
of a corpus or an embedder that bench/measured.toml does not name go to var/paper.
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

from bench import adversaries, estimate, figure2a, figure2b, figure3, figure5, formulas, measured, table2, trained
from bench.experiment import RESULTS, ROOT
from ragseal.embedder import DEFAULT
from ragseal.kernel.errors import ConfigurationError

PAGE = ROOT / "bench" / "experiments.md"
OTHER = ROOT / "var" / "paper"  #: of quick runs, and of corpora and embedders that no result is kept of
SYNTHETIC = "synthetic"


@dataclass(frozen=True)
class Item:
    """One figure or table: a marker in the page, and how to make it in full or quickly."""

    marker: str
    file: str
    full: Callable[[Path], dict[str, Any]]
    quick: Callable[[Path], dict[str, Any]]
    report: Callable[[dict[str, Any]], str]
    plot: Callable[[dict[str, Any], Path], None] | None = None


def items(corpus: str = SYNTHETIC, size: int = 1_000_000, embedder: str = DEFAULT) -> tuple[Item, ...]:
    """All of them; corpus and size are Figure 3's, the embedder that of Figure 3 and A.1."""
    return (
        Item("formulas", "formulas", formulas.experiment, formulas.experiment, formulas.report),
        Item(
            "figure-2a", "figure2a", lambda o: figure2a.experiment(o, 10_000, 10_000),
            lambda o: figure2a.experiment(o, 10_000, 500), figure2a.report, figure2a.plot,
        ),
        Item(
            "figure-2b", "figure2b", lambda o: figure2b.experiment(o, 2_000, 100_000),
            lambda o: figure2b.experiment(o, 300, 500), figure2b.report, figure2b.plot,
        ),
        Item(
            "figure-3", "figure3" if corpus == SYNTHETIC else f"figure3-{Path(corpus).name}",
            lambda o: figure3.experiment(o, corpus, size, 2_000, embedder=embedder),
            lambda o: figure3.experiment(o, corpus, min(size, 1_000), 300, embedder=embedder),
            figure3.report, figure3.plot,
        ),
        Item(
            "figure-4", "figure4", estimate.run, lambda o: estimate.run(o, 8, 12, 20), estimate.report, estimate.plot,
        ),
        Item(
            "figure-5", "figure5", lambda o: figure5.experiment(o, 2_000), lambda o: figure5.experiment(o, 300),
            figure5.report, figure5.plot,
        ),
        Item("table-2", "table2", table2.fully, table2.quickly, table2.report, table2.plot),
        Item(
            "a1", "trained", lambda o: trained.experiment(o, embedder, 2_000),
            lambda o: trained.experiment(o, embedder, 300), trained.report, trained.plot,
        ),
        Item(
            "a2", "adversaries", lambda o: adversaries.experiment(o, 2_000), lambda o: adversaries.experiment(o, 100),
            adversaries.report, adversaries.plot,
        ),
    )  # fmt: skip


ITEMS = items()


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
@click.option("--out", type=click.Path(path_type=Path), help="Folder for results [bench/results; var/paper if quick].")
@click.option("--only", multiple=True, type=click.Choice([i.marker for i in ITEMS]), help="Just this item; repeatable.")
@click.option("--corpus", default=SYNTHETIC, show_default=True, help="Of Figure 3: synthetic, beir:FOLDER, jsonl:FILE.")
@click.option("--size", default=1_000_000, show_default=True, help="Of Figure 3: vectors of the corpus at most.")
@click.option("--embedder", default=DEFAULT, show_default=True, help="Of Figure 3 and A.1.")
def main(quick: bool, out: Path | None, only: tuple[str, ...], corpus: str, size: int, embedder: str) -> None:
    """Reproduce the paper's experiments with this project's own mechanism."""
    began, known = time.monotonic(), measured.results()
    chosen = [item for item in items(corpus, size, embedder) if not only or item.marker in only]
    for item in chosen:
        standard = item.file in known and embedder == DEFAULT
        folder = out or (RESULTS if standard and not quick else OTHER)
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"{item.file}.json"
        found = (item.quick if quick else item.full)(path)
        text = item.report(found)
        if item.plot is not None:
            item.plot(found, path.with_suffix(".png"))
            text += f"\n\n![](results/{item.file}.png)"
        click.echo(f"\n## {item.marker}\n\n{text}")
        if folder == RESULTS and item.file in {one.file for one in ITEMS}:
            PAGE.write_text(insert(PAGE.read_text(), item.marker, f"\n{text}\n"))
        if item.marker == "figure-2a":
            _gates(path, folder == RESULTS)
    click.echo(f"done in {time.monotonic() - began:.0f} s")


def _gates(figure: Path, keep: bool) -> None:
    """P1 to P3 on the cells of figure 2a; ends the program where P1 or P3 does not hold."""
    command = [sys.executable, "-m", "bench.gates", "--figure", str(figure)]
    gate = subprocess.run(command, cwd=ROOT, capture_output=True, text=True)
    click.echo(gate.stdout)
    if keep:
        PAGE.write_text(insert(PAGE.read_text(), "gates", "\n```\n" + gate.stdout.strip() + "\n```\n"))
    if gate.returncode:
        raise SystemExit(gate.returncode)


if __name__ == "__main__":
    main()
