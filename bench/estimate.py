# SPDX-License-Identifier: GPL-3.0-or-later
"""Figure 4 and Observation 5.2: what the coalition estimate finds, and what it cannot.  Paper, section 5.4.

``python -m bench.paper --only figure-4``: the null model and patterns P-A, P-B, P-C of
the paper's toy (30 accounts of 100 queries, d = 32), then coalitions that diversify (P-D) or coordinate (P-E), there
and at the dimension and theta of a real embedder (d = 384, 0.90).  ``bench.windows`` does windows of production size.
"""

from __future__ import annotations

import hashlib
from fractions import Fraction
from pathlib import Path
from typing import Any

from bench import coalitions, experiment
from bench.coalitions import PATTERNS, THETAS
from bench.experiment import Cell, pyplot, table
from ragseal.kernel import estimate as kernel_estimate

OPERATING = "4/5"  #: the paper's theta*
REAL = "9/10"  #: of the policy template
KS = (2, 5, 10, 20)
COSINES = (1.0, 0.95, 0.9, 0.87, 0.85, 0.8, 0.75, 0.7, 0.6)
REAL_COSINES = (1.0, 0.97, 0.96, 0.95, 0.945, 0.94, 0.93, 0.9)
PAPER_FPR = {"3/4": 0.595, "4/5": 0.040, "13/20": 1.0}


def cells(trials: int, accounts: int, each: int, d: int) -> list[Cell]:
    """Null, 12 cells of patterns (all thetas at k = 10), and both kinds of evasion."""
    toy = {"accounts": accounts, "each": each, "d": d, "trials": trials}
    grid, high = [str(t) for t in THETAS], [str(t) for t in THETAS if t >= Fraction(OPERATING)]
    out: list[Cell] = [{"pattern": "null", **toy}]
    out += [
        {"pattern": p, "k": k, "thetas": grid if k == 10 else high, **toy} for p in PATTERNS for k in KS if k < accounts
    ]
    k = min(10, accounts // 3)
    real = {"accounts": 3 * k, "each": 25, "d": 384, "trials": max(1, trials // 4)}  # 25: n_max of the policy template
    for name in ("P-D", "P-E"):
        out += [{"pattern": name, "k": k, "cosine": c, "thetas": [REAL], **real} for c in REAL_COSINES]
    toy["trials"] = max(1, trials // 10)
    for name in ("P-D", "P-E"):
        out += [{"pattern": name, "k": k, "cosine": c, "thetas": [OPERATING], **toy} for c in COSINES]
    return out


def run(
    out: Path, trials: int = 200, accounts: int = 30, each: int = 100, d: int = 32, seed: int = 1
) -> dict[str, Any]:
    kernel = hashlib.sha256(Path(str(kernel_estimate.__file__)).read_bytes()).hexdigest()[:16]
    setting = {"seed": seed, "trials": trials, "accounts": accounts, "each": each, "d": d, "kernel": kernel}
    return experiment.run("Figure 4", setting, cells(trials, accounts, each, d), coalitions.measure, out)


def _of(found: dict[str, Any], *patterns: str, d: int | None = None) -> list[dict[str, Any]]:
    return [c for c in found["cells"] if c["cell"]["pattern"] in patterns and (d is None or c["cell"]["d"] == d)]


def least_theta(rates: dict[str, float], target: float = 0.05) -> str | None:
    """The paper's rule: the smallest theta of the grid that keeps the target."""
    return next((str(t) for t in THETAS if rates[str(t)] <= target), None)


def observation(found: dict[str, Any]) -> dict[str, bool]:
    """Observation 5.2, point by point."""
    null = _of(found, "null")[0]
    chosen = least_theta(null["fpr"])
    patterns = _of(found, *PATTERNS)
    return {
        f"operating point {OPERATING}": chosen == OPERATING,
        "false-positive rate at most 0.05": null["fpr"][OPERATING] <= 0.05,
        "every coalition found": all(c["found"][OPERATING] == 1 for c in patterns),
        "exact recovery, zero variance": all(c["exact"][OPERATING] == 1 for c in patterns),
    }


def report(found: dict[str, Any]) -> str:
    """Paper beside measured, as Markdown; what is not measured yet is left out and said so."""
    setting = found["setting"]
    missing = len(cells(*(setting[name] for name in ("trials", "accounts", "each", "d")))) - len(found["cells"])
    parts = [f"**{missing} cells are not measured yet.**"] if missing else []
    null = _of(found, "null")
    rates = [
        (f"{float(t):.2f}", PAPER_FPR.get(str(t), "-"), null[0]["fpr"][str(t)], null[0]["independent"][str(t)])
        for t in THETAS
        if null and t >= Fraction(3, 5)
    ]
    if rates:
        parts.append(table(("theta", "paper, false alarms", "measured", "independent pairs, exact"), rates))
    patterns = [
        (c["cell"]["pattern"], c["cell"]["k"], 1, c["found"][OPERATING], c["cell"]["k"], c["mean"][OPERATING],
         c["deviation"][OPERATING], c["exact"][OPERATING])
        for c in _of(found, *PATTERNS)
    ]  # fmt: skip
    if patterns:
        head = ("pattern", "k", "paper, found", "found", "paper, mean c", "mean c", "deviation of c", "c = k")
        parts.append(table(head, patterns))
    if null and patterns:
        holds = observation(found)
        parts.append("\n".join(f"- {'holds' if ok else '**fails**'}: {name}" for name, ok in holds.items()))
    evading = [
        (c["cell"]["d"], c["cell"]["thetas"][0], c["cell"]["cosine"], c["cell"]["trials"], _share(c, "found"),
         _share(c, "exact"), _share(twin, "found"))
        for c in _of(found, "P-D")
        if (twin := _twin(found, c))
    ]  # fmt: skip
    if evading:
        parts.append(
            "Coalitions of 10 that share a target and keep this cosine to it (P-D: otherwise random; P-E: coordinated):"
        )
        parts.append(table(("d", "theta", "cosine kept", "windows", "P-D found", "P-D c = k", "P-E found"), evading))
    return "\n\n".join(parts)


def _twin(found: dict[str, Any], cell: dict[str, Any]) -> dict[str, Any] | None:
    """P-E's cell beside one of P-D."""
    wanted = {**cell["cell"], "pattern": "P-E"}
    return next((c for c in found["cells"] if c["cell"] == wanted), None)


def _share(cell: dict[str, Any], what: str) -> float | str:
    return next(iter(cell[what].values())) if cell["feasible"] else "cannot: linked"


def plot(found: dict[str, Any], path: Path) -> None:
    """(a) false alarms, (b) mean c at k = 10, (c) coalitions that diversify."""
    plt = pyplot()
    figure, axes = plt.subplots(1, 3, figsize=(15, 4))
    x = [float(t) for t in THETAS]
    for null in _of(found, "null"):
        axes[0].plot(x, list(null["fpr"].values()), "o", label="measured")
        axes[0].plot(x, list(null["independent"].values()), "--", linewidth=1, label="independent pairs, exact")
    axes[0].plot([float(Fraction(t)) for t in PAPER_FPR], list(PAPER_FPR.values()), "x", label="paper")
    axes[0].axhline(0.05, color="grey", linestyle=":")
    axes[0].set(xlabel="theta", ylabel="false alarms", title="(a) honest windows")
    for cell in _of(found, *PATTERNS):
        if len(cell["mean"]) == len(THETAS):
            mean, error = list(cell["mean"].values()), list(cell["deviation"].values())
            axes[1].errorbar(x, mean, error, fmt="o-", markersize=4, capsize=2, label=cell["cell"]["pattern"])
    axes[1].axhline(10, color="grey", linestyle=":")
    axes[1].set(xlabel="theta", ylabel="mean c", title="(b) coalition of 10 among 30")
    for d, theta in ((int(found["setting"]["d"]), OPERATING), (384, REAL)):
        for name, style in (("P-D", "o-"), ("P-E", "x--")):
            drawn = [c for c in _of(found, name, d=d) if c["feasible"]]
            axes[2].plot(
                [c["cell"]["cosine"] for c in drawn], [c["found"][theta] for c in drawn], style, markersize=4,
                label=f"{name}, d = {d}, theta = {float(Fraction(theta))}",
            )  # fmt: skip
    axes[2].set(xlabel="cosine to the common target", ylabel="share found", title="(c) coalitions that evade")
    for at in axes:
        if at.get_legend_handles_labels()[1]:
            at.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)
