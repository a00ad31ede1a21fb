# SPDX-License-Identifier: GPL-3.0-or-later
"""The numbers that the paper computes: its epsilon_audit table, (5.2), and the lower bound of section 3.8.

``python -m bench.paper --only formulas``.  Beside each stands what it leaves out, and what the mechanism that it speaks
of has exactly: all noisy scores released, with Gaussian noise of the sigma of (3.4).
"""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

from bench.experiment import save, table
from ragseal.accounting import closed_forms, ideal_curves

N, DELTA = 10_000, 1e-6  #: questions of an account, delta_acc
PRINTED = {(1, 10): 3.16, (1, 50): 7.07, (2, 50): 14.14, (1, 100): 10.0}  #: epsilon_audit by (eps_acc, k_max)
DELTA_POLICY = 1e-3  #: that (5.2) is shown at; at (k + 1) delta_acc it is (3.2)
GAP = 0.1  #: of scores, of the lower bound
KS, EPSILONS = (10, 50, 100), (1, 2, 4)
BELOW = {1: 0.01, 2: 0.01, 4: 0.025}  #: what section 3.8 says of every k, by eps_acc


def audited(epsilon: int, k: int) -> dict[str, Any]:
    """A row of the epsilon_audit table."""
    mu = math.sqrt(k * N) / closed_forms.paper_sigma(epsilon, N, DELTA)
    return {
        "epsilon": epsilon, "k": k, "paper": PRINTED[epsilon, k],
        "headline": closed_forms.joint_epsilon(epsilon, k),
        "with_residual": closed_forms.joint_epsilon_in_full(epsilon, k, DELTA),
        "renyi_residual": closed_forms.renyi_in_full(epsilon, k, DELTA),
        "equation_52": closed_forms.audited_epsilon(epsilon, k, DELTA, DELTA_POLICY),
        "renyi_grid": min(closed_forms.mironov(a * mu * mu / 2, a, DELTA) for a in closed_forms.GRID),
        "exact": ideal_curves.gaussian_epsilon(mu, DELTA),
    }  # fmt: skip


def lower_bound(epsilon: int, k: int) -> dict[str, Any]:
    """A cell of the lower bound: (3.9) at the score gap, and the advantage that the best attack has."""
    found = closed_forms.least_advantage(epsilon, k, N, DELTA, GAP)
    mu = GAP * math.sqrt(k * N) / closed_forms.paper_sigma(epsilon, N, DELTA)
    return {
        "epsilon": epsilon, "k": k, "least_advantage": found, "paper_below": BELOW[epsilon],
        "holds": found < BELOW[epsilon], "exact": ideal_curves.gaussian_advantage(mu),
    }  # fmt: skip


def experiment(out: Path) -> dict[str, Any]:
    """Both tables; they take no time."""
    found = {
        "setting": {"n": N, "delta": DELTA, "gap": GAP, "delta_policy": DELTA_POLICY},
        "audited": [audited(*cell) for cell in PRINTED],
        "lower_bound": [lower_bound(epsilon, k) for epsilon in EPSILONS for k in KS],
    }
    save(out, found)
    return found


def report(found: dict[str, Any]) -> str:
    """Both, as Markdown."""
    head = (
        "eps_acc", "k_max", "paper's epsilon_audit", "sqrt(k) eps_acc", "(3.2)", "(3.6)",
        f"(5.2), delta_policy = {DELTA_POLICY:g}", "Renyi grid at sigma of (3.4)", "exact at sigma of (3.4)",
    )  # fmt: skip
    bounds = [
        (
            row["epsilon"], row["k"], row["least_advantage"], row["paper_below"],
            "yes" if row["holds"] else "**no**", row["exact"],
        )
        for row in found["lower_bound"]
    ]  # fmt: skip
    columns = ("eps_acc", "k", "(3.9)", "paper: below", "holds", "exact advantage of the attack")
    return (
        table(head, [tuple(row.values()) for row in found["audited"]])
        + f"\n\nLower bound (3.9) at a score gap of {GAP}, n = {N:,}, delta_acc = {DELTA:g}:\n\n"
        + table(columns, bounds)
    )
