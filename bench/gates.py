# SPDX-License-Identifier: GPL-3.0-or-later
"""The paper's falsification gates P1 and P3 and its diagnostic P2, as a command that can fail.  Paper, sections 3.8,
4.3.

``python -m bench.gates`` reads bench/results/figure2a.json and ends with 1 if a gate does not hold.  Every statement
is a test with a stated error rate, on the cells' own standard errors:

P1 (slope): the AUC grows with sqrt(k) at every eps_acc where it can be resolved, and where sqrt(k) eps_acc is small
enough for the prediction to be straight, a straight line through the cells is not refuted (chi-square at 1 %).

P3 (tightness): cells lie within the binomial number of 2 standard errors of the prediction (refuted at 1 %), no cell
is beyond 4, none is above the paper's upper bound (3.8), and every cell whose prediction is 4 standard errors above
chance is above it.

P2 (scale collapse): the cells of all eps_acc against sqrt(k) eps_acc lie on one curve; a diagnostic, not a gate.
"""

from __future__ import annotations

import json
import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import NormalDist
from typing import Any

import click
import numpy as np

from bench.calibration import DELTA_ACC
from bench.experiment import RESULTS
from ragseal.accounting.statistics import at_least
from ragseal.kernel.errors import ConfigurationError

NORMAL = NormalDist()
ERROR_RATE = 0.01
STRAIGHT = 0.05  #: relative departure of the prediction from a straight line that counts as straight
SIGNAL = 4.0  #: standard errors above chance from which a cell must show


@dataclass(frozen=True, slots=True)
class Outcome:
    """One gate: whether it holds, and why one may believe that."""

    name: str
    holds: bool
    why: str


def chi_square_tail(value: float, freedom: int) -> float:
    """P(chi-square with ``freedom`` >= 1 degrees exceeds value): the series of the incomplete gamma function."""
    if value <= 0:
        return 1.0
    a, x = freedom / 2, value / 2
    term = total = 1 / a
    n = 0
    while term > total * 1e-16:
        n += 1
        term *= x / (a + n)
        total += term
    return max(0.0, 1 - total * math.exp(-x + a * math.log(x) - math.lgamma(a)))


def _rows(cells: Sequence[dict[str, Any]]) -> dict[float, list[dict[str, Any]]]:
    rows: dict[float, list[dict[str, Any]]] = {}
    for cell in cells:
        rows.setdefault(cell["cell"]["epsilon"], []).append(cell)
    return {e: sorted(row, key=lambda c: c["cell"]["k"]) for e, row in rows.items()}


def _line(row: Sequence[dict[str, Any]]) -> tuple[float, float, float]:
    """(slope, its standard error, chi-square) of AUC - 1/2 = slope sqrt(k), weighted."""
    x = np.sqrt([c["cell"]["k"] for c in row])
    y = np.array([c["auc"] for c in row]) - 0.5
    weight = 1 / np.square([c["se"] for c in row])
    slope = float((weight * x * y).sum() / (weight * x * x).sum())
    return slope, float((weight * x * x).sum() ** -0.5), float((weight * (y - slope * x) ** 2).sum())


def slope_gate(cells: Sequence[dict[str, Any]]) -> Outcome:
    """P1."""
    lines, holds = [], True
    for epsilon, row in _rows(cells).items():
        first = row[0]
        unit = (first["predicted"] - 0.5) / math.sqrt(first["cell"]["k"])
        straight = [c for c in row if abs((c["predicted"] - 0.5) / (unit * math.sqrt(c["cell"]["k"])) - 1) <= STRAIGHT]
        slope, error, square = _line(straight)
        resolvable = unit > SIGNAL * error
        tail = chi_square_tail(square, len(straight) - 1) if len(straight) > 1 else 1.0
        good = tail >= ERROR_RATE and (slope > 2.33 * error or not resolvable)
        holds &= good
        lines.append(
            f"eps_acc {epsilon}: slope {slope:.5f} +- {error:.5f} (predicted {unit:.5f}) over {len(straight)} cells, "
            f"straight with p = {tail:.3f}" + ("" if good else " <- fails")
        )
    return Outcome("P1 slope", holds, "; ".join(lines))


def tightness_gate(cells: Sequence[dict[str, Any]]) -> Outcome:
    """P3."""
    off = [c for c in cells if abs(c["deviation"]) > 2]
    chance = at_least(len(cells), 0.0455, len(off))
    worst = max(abs(c["deviation"]) for c in cells)
    hidden = [c for c in cells if c["predicted"] - 0.5 > SIGNAL * c["se"] and c["auc"] - 0.5 <= 1.64 * c["se"]]
    above = [c for c in cells if 2 * (c["auc"] - 4 * c["se"]) - 1 > bound(c)]
    holds = chance >= ERROR_RATE and worst <= 4 and not hidden and not above
    return Outcome(
        "P3 tightness",
        holds,
        f"{len(cells) - len(off)} of {len(cells)} cells within 2 standard errors (p = {chance:.3f}), largest deviation "
        f"{worst:.2f}; {len(hidden)} cells at chance that should not be; {len(above)} above the bound (3.8)",
    )


def bound(cell: dict[str, Any]) -> float:
    """Equation (3.8) with its delta terms written out: k delta_acc and the slack of the same size."""
    k, epsilon = int(cell["cell"]["k"]), float(cell["cell"]["epsilon"])
    return math.tanh(math.sqrt(k) * epsilon / 2) + (k + 1) * DELTA_ACC


def collapse(cells: Sequence[dict[str, Any]]) -> Outcome:
    """P2: chi-square of the cells around one curve Phi(c sqrt(k) eps), c fitted."""
    x = np.array([math.sqrt(c["cell"]["k"]) * c["cell"]["epsilon"] for c in cells])
    y = np.array([c["auc"] for c in cells])
    se = np.array([c["se"] for c in cells])
    curve = np.array([c["predicted"] for c in cells])
    quantile = np.array([NORMAL.inv_cdf(p) for p in curve])
    scale = float((quantile * x).sum() / (x * x).sum())
    square = float((((y - np.array([NORMAL.cdf(scale * v) for v in x])) / se) ** 2).sum())
    tail = chi_square_tail(square, len(cells) - 1)
    return Outcome("P2 scale collapse (diagnostic)", tail >= ERROR_RATE, f"one curve with p = {tail:.3f}")


@click.command()
@click.option("--figure", type=click.Path(path_type=Path), default=RESULTS / "figure2a.json", show_default=True)
@click.option("--gate", type=click.Choice(["P1", "P2", "P3", "all"]), default="all", show_default=True)
@click.option("--json", "as_json", is_flag=True)
def main(figure: Path, gate: str, as_json: bool) -> None:
    """Test the gates P1 and P3 on the cells of figure 2a; P2 is shown and never fails."""
    try:
        cells = json.loads(figure.read_text())["cells"]
    except (OSError, ValueError, KeyError):
        raise ConfigurationError(f"{figure} is missing or damaged: run python -m bench.figure2a first") from None
    outcomes = {"P1": slope_gate(cells), "P2": collapse(cells), "P3": tightness_gate(cells)}
    chosen = outcomes if gate == "all" else {gate: outcomes[gate]}
    if as_json:
        click.echo(json.dumps({k: {"holds": o.holds, "why": o.why} for k, o in chosen.items()}, indent=1))
    else:
        for outcome in chosen.values():
            click.echo(f"{'holds ' if outcome.holds else 'FAILS '} {outcome.name}: {outcome.why}")
    if any(not o.holds for k, o in chosen.items() if k != "P2"):
        sys.exit(1)


if __name__ == "__main__":
    main()
