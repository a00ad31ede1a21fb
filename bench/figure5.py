# SPDX-License-Identifier: GPL-3.0-or-later
"""Figure 5: coalitions outside the victim's tenant against coalitions inside it.  Paper, section A.3.

``python -m bench.paper --only figure-5``.  In ragseal an account's tenant is read from
the committed registry, so accounts of another tenant get no answer over the victim's index at all; the experiment
gives them access, as the paper does (its M4 fails), and each account its own noise, as every request here has.  Noise
depends on seed, beacon and signed request only, so both regimes have one law: what differs is sampling.
"""

from __future__ import annotations

import statistics
from pathlib import Path
from typing import Any

from bench import topk_harness
from bench.experiment import run, table
from bench.plots import auc_against_k, by_epsilon

REGIMES = ("same-tenant", "external")
PAPER = {("external", 16, 20): 0.810, ("same-tenant", 16, 20): 0.811}
PAPER_LARGEST, PAPER_MEDIAN = 0.022, 0.010


def experiment(out: Path, trials: int, seed: int = 1, n: int = 200) -> dict[str, Any]:
    """30 cells: both regimes at every noise level and size."""
    setting = {"seed": seed, "n": n, "trials": trials, "slots": topk_harness.SLOTS}
    return run("Figure 5", setting, topk_harness.cells(n, trials, REGIMES), topk_harness.measure, out)


def pairs(found: dict[str, Any]) -> list[dict[str, Any]]:
    """Same-tenant and external AUC of every (epsilon_acc, k)."""
    by = {(c["cell"]["regime"], c["cell"]["epsilon"], c["cell"]["k"]): c for c in found["cells"]}
    return [
        {"epsilon": e, "k": k, "same": by["same-tenant", e, k], "external": by["external", e, k]}
        for regime, e, k in by if regime == "same-tenant"
    ]  # fmt: skip


def gaps(found: dict[str, Any]) -> tuple[float, float]:
    """(largest, median) absolute difference of AUC between the regimes."""
    all_gaps = [abs(p["same"]["auc"] - p["external"]["auc"]) for p in pairs(found)]
    return max(all_gaps), statistics.median(all_gaps)


def report(found: dict[str, Any]) -> str:
    """Paper beside measured, as Markdown."""
    rows = [
        (
            p["epsilon"], p["k"], p["same"]["auc"], p["external"]["auc"], p["same"]["se"],
            abs(p["same"]["auc"] - p["external"]["auc"]),
        )
        for p in pairs(found)
    ]  # fmt: skip
    largest, median = gaps(found)
    return (
        table(("eps_acc", "k", "same tenant", "external", "s.e.", "difference"), rows)
        + f"\n\nLargest difference {largest:.3f} (paper {PAPER_LARGEST}), median {median:.3f} (paper {PAPER_MEDIAN})."
    )


def plot(found: dict[str, Any], path: Path) -> None:
    both = {r: [c for c in found["cells"] if c["cell"]["regime"] == r] for r in REGIMES}
    auc_against_k(path, [by_epsilon(f"{r} coalition (dashed: exact)", cells, "exact") for r, cells in both.items()])
