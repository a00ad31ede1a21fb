# SPDX-License-Identifier: GPL-3.0-or-later
"""Figure 2a: AUC against coalition size for the noisy score of one slot.  Paper, sections 4.1 to 4.3.

``python -m bench.paper --only figure-2a``.  The noise is a simulation of the paper's law at its own sigma
(:mod:`bench.attacks.channels`), and the prediction of every cell is equation (3.11).
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from bench.attacks.adversaries import Coalition, pooled_mean
from bench.attacks.channels import ScoreChannel
from bench.attacks.roc import delong, deviation
from bench.calibration import KS, paper_sigma, predicted_auc
from bench.experiment import Cell, run, table
from bench.plots import auc_against_k, by_epsilon

EPSILONS = (1, 2, 4)
PAPER = {(4, k): 0.5 + a / 2 for k, a in zip(KS, (0.061, 0.077, 0.125, 0.192, 0.275), strict=True)}
PAPER |= {(2, 1): 0.5 + 0.044 / 2, (2, 20): 0.5 + 0.151 / 2}


def measure(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One (epsilon_acc, k): empirical AUC with its standard error, and what is predicted."""
    coalition = Coalition(cell["k"], cell["n"], cell["trials"])
    sigma = paper_sigma(cell["epsilon"], cell["n"])
    found = delong(*pooled_mean(ScoreChannel(sigma), coalition, 1, 0, rng))
    expected = predicted_auc(1, sigma, coalition.queries)
    return {
        "auc": found.auc,
        "se": found.se,
        "predicted": expected,
        "deviation": deviation(found, expected),
        "paper": PAPER.get((cell["epsilon"], cell["k"])),
    }


def experiment(out: Path, n: int, trials: int, seed: int = 1, epsilons: Sequence[int] = EPSILONS) -> dict[str, Any]:
    """All 15 cells."""
    cells = [{"epsilon": e, "k": k, "n": n, "trials": trials} for e in epsilons for k in KS]
    return run("Figure 2a", {"seed": seed, "n": n, "trials": trials, "law": "simulated Gaussian"}, cells, measure, out)


def within(found: dict[str, Any], errors: float = 2.0) -> int:
    """How many cells lie within so many standard errors of their prediction."""
    return sum(abs(c["deviation"]) <= errors for c in found["cells"])


def report(found: dict[str, Any]) -> str:
    """Paper beside measured, as Markdown."""
    rows = [
        (
            c["cell"]["epsilon"], c["cell"]["k"], c["paper"] or "-", c["predicted"], c["auc"],
            c["se"], f"{c['deviation']:+.2f}",
        )
        for c in found["cells"]
    ]  # fmt: skip
    head = ("eps_acc", "k", "paper", "(3.11)", "AUC", "s.e.", "deviation in s.e.")
    total = len(found["cells"])
    return table(head, rows) + f"\n\nWithin 2 standard errors: {within(found)} of {total} (paper: 15 of 15)."


def plot(found: dict[str, Any], path: Path) -> None:
    auc_against_k(path, [by_epsilon("noisy score of one slot (dashed: predicted)", found["cells"], "predicted")])
