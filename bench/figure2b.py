# SPDX-License-Identifier: GPL-3.0-or-later
"""Figure 2b: the hit count on returned ids against coalition size.  Paper, section 4.4.

``python -m bench.paper --only figure-2b``.  Where the paper scores cosines as they are,
scores are clipped here to [0, 1], and the decoy is orthogonal to the probe (score gap 1, as in the paper).
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench import topk_harness
from bench.experiment import run, save, table
from bench.plots import auc_against_k, by_epsilon

PAPER = {(16, 1): 0.598, (16, 20): 0.814, (4, 20): 0.611}


def experiment(out: Path, trials: int, retrievals: int, seed: int = 1, n: int = 200) -> dict[str, Any]:
    """All cells, and the exact chances confirmed on so many simulated retrievals a world and noise level."""
    setting = {"seed": seed, "n": n, "trials": trials, "retrievals": retrievals, "slots": topk_harness.SLOTS}
    found = run("Figure 2b", setting, topk_harness.cells(n, trials), topk_harness.measure, out)
    if "confirmed" not in found:
        found["confirmed"] = {
            str(e): topk_harness.confirm(2, e, n, retrievals, seed * 100 + e) for e in topk_harness.EPSILONS
        }
        save(out, found)
    return found


def report(found: dict[str, Any]) -> str:
    """Paper beside measured, as Markdown."""
    rows = [
        (e := c["cell"]["epsilon"], k := c["cell"]["k"], PAPER.get((e, k), "-"), c["exact"], c["auc"], c["se"])
        for c in found["cells"]
    ]
    head = ("eps_acc", "k", "paper", "exact", "AUC", "s.e.")
    checks = [
        (e, one["world"], one["chance"], one["hits"], one["retrievals"], f"{one['deviation']:+.2f}")
        for e, both in found["confirmed"].items() for one in both
    ]  # fmt: skip
    return (
        table(head, rows)
        + "\n\nChance of a hit, exact, against simulated retrievals:\n\n"
        + table(("eps_acc", "target", "chance", "hits", "retrievals", "deviation in s.e."), checks)
    )


def plot(found: dict[str, Any], path: Path) -> None:
    auc_against_k(path, [by_epsilon("hit count on released ids (dashed: exact)", found["cells"], "exact")])
