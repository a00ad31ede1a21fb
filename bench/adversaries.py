# SPDX-License-Identifier: GPL-3.0-or-later
"""A.2: adversaries beside the pooled mean: the exact likelihood ratio, and a coalition that splits its probes.

``python -m bench.paper --only a2`` writes bench/results/adversaries.json and .png.  Paper, appendix A.2: nothing beats
the pooled mean.  The likelihood ratio is that of the law gaussian-512 itself, whose scores are whole steps, at
four of them; splits are a simulation of the paper's law (:mod:`bench.attacks.channels`).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np

from bench.attacks.adversaries import Coalition, diversified, likelihood_ratio, pooled_mean
from bench.attacks.channels import ScoreChannel
from bench.attacks.roc import delong, deviation
from bench.calibration import KS, paper_sigma, predicted_auc
from bench.experiment import Cell, run, table
from bench.plots import Panel, auc_against_k
from ragseal.kernel.noise import GAUSSIAN_SIGMA

EPSILON, N = 4, 10_000
STEPS = 4  #: shift of the likelihood ratio: a 128th of a standard deviation, paper_sigma(4, 200) has 115
STEP_QUERIES = 200  #: of an account, there
SHARES = (1.0, 0.5, 0.25)
PAPER_SPLIT = {1.0: 0.638, 0.5: 0.593, 0.25: 0.580}


def measure(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One adversary at one k."""
    coalition = Coalition(cell["k"], N, cell["trials"])
    if cell["adversary"] == "likelihood ratio":
        small = Coalition(cell["k"], STEP_QUERIES, cell["trials"])
        ratio, mean = (delong(*w) for w in likelihood_ratio(small, STEPS, rng))
        expected = predicted_auc(STEPS, GAUSSIAN_SIGMA, small.queries)
        return {"auc": ratio.auc, "se": ratio.se, "predicted": expected, "deviation": deviation(ratio, expected),
                "same_draws_mean": mean.auc, "mean_predicted": expected}  # fmt: skip
    channel = ScoreChannel(paper_sigma(EPSILON, N))
    full = math.sqrt(coalition.queries) / channel.sigma
    share = cell["share"]
    pooled = delong(*diversified(channel, coalition, 1, 0, share, rng))
    aimed = delong(*pooled_mean(channel, Coalition(round(cell["k"] * share), N, cell["trials"]), 1, 0, rng))
    return {
        "auc": pooled.auc,
        "se": pooled.se,
        "predicted": predicted_auc(full * share, 1.0, 1),
        "deviation": deviation(pooled, predicted_auc(full * share, 1.0, 1)),
        "aimed_only": aimed.auc,
        "aimed_predicted": predicted_auc(full * math.sqrt(share), 1.0, 1),
    }


def experiment(out: Path, trials: int, seed: int = 1) -> dict[str, Any]:
    """The likelihood ratio at every k, and three splits at the largest."""
    cells: list[dict[str, Any]] = [{"adversary": "likelihood ratio", "k": k, "trials": trials} for k in KS]
    cells += [{"adversary": "split", "share": s, "k": KS[-1], "trials": trials} for s in SHARES]
    return run("A.2", {"seed": seed, "trials": trials}, cells, measure, out)


def report(found: dict[str, Any]) -> str:
    """Paper beside measured, as Markdown."""
    ratio = [
        (c["cell"]["k"], c["predicted"], c["auc"], c["se"], c["mean_predicted"], c["same_draws_mean"])
        for c in found["cells"] if c["cell"]["adversary"] == "likelihood ratio"
    ]  # fmt: skip
    split = [
        (
            c["cell"]["share"], PAPER_SPLIT[c["cell"]["share"]], c["predicted"], c["auc"], c["se"],
            c["aimed_predicted"], c["aimed_only"],
        )
        for c in found["cells"] if c["cell"]["adversary"] == "split"
    ]  # fmt: skip
    return (
        table(("k", "predicted", "likelihood ratio", "s.e.", "predicted", "pooled mean, same draws"), ratio)
        + "\n\nPart of 20 accounts aims at the target, the others at random orthogonal directions:\n\n"
        + table(
            ("part", "paper", "predicted", "mean over all", "s.e.", "predicted, aimed only", "mean over those aimed"),
            split,
        )
    )


def plot(found: dict[str, Any], path: Path) -> None:
    cells = [c for c in found["cells"] if c["cell"]["adversary"] == "likelihood ratio"]
    measured = {
        "likelihood ratio": [(c["cell"]["k"], c["auc"], c["se"]) for c in cells],
        "pooled mean": [(c["cell"]["k"], c["same_draws_mean"], c["se"]) for c in cells],
    }
    line = {
        "likelihood ratio": [(c["cell"]["k"], c["predicted"]) for c in cells],
        "pooled mean": [(c["cell"]["k"], c["mean_predicted"]) for c in cells],
    }
    auc_against_k(path, [Panel("eps_acc = 4 (dashed: predicted)", measured, line)])
