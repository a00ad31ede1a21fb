# SPDX-License-Identifier: GPL-3.0-or-later
"""Epsilon tables: every accountant over N, K, mu and n; the paper's noise levels and what they really give.

``python -m bench.accounting`` writes bench/results/accounting.json and .png and prints tables of bench/experiments.md.
mu is the score range over the noise scale of one query: mu = 1 is a shift of 512 steps.  delta is 1e-6.
"""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import numpy as np

from bench.experiment import RESULTS, Cell, pyplot, run, save, table
from ragseal.accounting import closed_forms, ideal_curves
from ragseal.accounting.attack import attack_epsilon
from ragseal.accounting.audit import FULL, ORDERED, full_bound, reported_bound, topk_bounds
from ragseal.kernel.noise import GAUSSIAN_SIGMA, build_table
from ragseal.kernel.params import GAUSSIAN

DELTA = 1e-6
SHAPES = ((5183, 10), (5183, 5), (100_000, 10), (100_000, 5))
MUS = (0.5, 1, 2, 4, 6, 8)
NS = (1, 10, 100, 1000)
KS = (1, 10, 50, 100)
ACCOUNT_QUERIES = 10_000  #: n of one account in the paper's tables

#: Published before this code was: (N, K, mu) -> (full / ordered / set / attack) at n = 1, 10, 100, 1000.
PUBLISHED = json.loads((Path(__file__).parent / "published.json").read_text())


def measure(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One (N, K, mu, n): each accountant, and what an explicit attack reaches at least."""
    noise = build_table(GAUSSIAN)
    N, K, n, shift = cell["N"], cell["K"], cell["n"], round(cell["mu"] * GAUSSIAN_SIGMA)
    bounds = (full_bound(noise, shift, n, DELTA), *topk_bounds(noise, N, K, shift, n, DELTA))
    best = reported_bound(bounds)
    return {
        "bounds": {
            b.accountant: {"certified": _plain(b.certified), "second": _plain(b.second), "agree": b.agree}
            for b in bounds
        },
        "epsilon": _plain(best.epsilon),
        "accountant": best.accountant,
        "attack": attack_epsilon(noise, N=N, K=K, shift=shift, n=n, delta=DELTA),
        "published": PUBLISHED.get(f"{N} {K} {cell['mu']:g}", {}).get(str(n)),
    }


def _plain(x: float) -> float | str:
    """JSON has no infinity."""
    return x if math.isfinite(x) else "inf"


def levels() -> list[dict[str, Any]]:
    """Noise levels that are said to give one account (1, 1e-6) over 10^4 queries of sensitivity 1."""
    n = ACCOUNT_QUERIES
    exact = math.sqrt(n) / _root(lambda mu: ideal_curves.gaussian_epsilon(mu, DELTA) - 1)
    canonne = math.sqrt(n) / _root(lambda mu: _renyi(mu, closed_forms.canonne) - 1)
    return [
        {"calibration": "paper, equation (3.4)", "sigma": closed_forms.paper_sigma(1, n, DELTA)},
        {"calibration": "Renyi, Mironov's conversion", "sigma": closed_forms.renyi_sigma(1, n, DELTA)},
        {"calibration": "Renyi, Canonne-Kamath-Steinke conversion", "sigma": canonne},
        {"calibration": "exact Gaussian curve", "sigma": exact},
    ]


def _root(function: Any) -> float:
    low, high = 1e-3, 10.0
    for _ in range(80):
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) < 0 else (low, middle)
    return high


def _renyi(mu: float, conversion: Any) -> float:
    """Epsilon of a Gaussian mechanism by Renyi moments of all real orders."""
    orders = 1 + np.exp(np.linspace(math.log(1e-3), math.log(1e5), 20_001))
    return float(min(conversion(a * mu * mu / 2, a, DELTA) for a in orders.tolist()))


def coalitions(sigma: float) -> list[dict[str, Any]]:
    """k accounts of 10^4 queries each, sensitivity 1: the paper's numbers beside what holds."""
    out = []
    for k in KS:
        n = k * ACCOUNT_QUERIES
        mu = math.sqrt(n) / sigma
        grid = {
            name: min((conversion(a * mu * mu / 2, a, DELTA), a) for a in closed_forms.GRID)
            for name, conversion in (("mironov", closed_forms.mironov), ("canonne", closed_forms.canonne))
        }
        out.append(
            {
                "k": k,
                "closed_form": closed_forms.joint_epsilon(1, k),
                "closed_form_in_full": closed_forms.joint_epsilon_in_full(1, k, DELTA),
                "renyi_grid": grid["mironov"][0],
                "renyi_order": grid["mironov"][1],
                "renyi_grid_canonne": grid["canonne"][0],
                "exact": ideal_curves.gaussian_epsilon(mu, DELTA),
                "discrete": _dp_accounting(sigma, n),
                "auc": ideal_curves.gaussian_auc(mu),
            }
        )
    return out


def _dp_accounting(sigma: float, n: int) -> float | None:
    """The discrete Gaussian at this sigma and sensitivity 1 by another implementation, where it is installed."""
    try:
        from dp_accounting.pld import privacy_loss_distribution as pld
    except ImportError:
        return None
    one = pld.from_discrete_gaussian_mechanism(sigma, value_discretization_interval=1e-5, use_connect_dots=True)
    return float(one.self_compose(n).get_epsilon_for_delta(DELTA))


def report(found: dict[str, Any]) -> str:
    """Everything as Markdown."""
    parts = []
    for N, K in SHAPES:
        rows = []
        for mu in MUS:
            row: list[Any] = [mu]
            for n in NS:
                c = next((c for c in found["cells"] if c["cell"] == {"N": N, "K": K, "mu": mu, "n": n}), None)
                row.append("-" if c is None else " / ".join(_digits(x) for x in _four(c)))
            rows.append(row)
        parts += [f"\nN = {N}, K = {K}\n", table(("mu", *(f"n = {n}" for n in NS)), rows)]
    parts += ["\nSigma for one account at (1, 1e-6), n = 10^4, sensitivity 1\n"]
    parts += [table(("calibration", "sigma"), [(c["calibration"], f"{c['sigma']:.2f}") for c in found["levels"]])]
    head = ("k", "sqrt(k) eps_acc", "in full", "Renyi grid (order)", "CKS conversion", "exact", "discrete", "best AUC")
    for name, rows in found["coalitions"].items():
        shown = [
            (c["k"], f"{c['closed_form']:.3f}", f"{c['closed_form_in_full']:.3f}",
             f"{c['renyi_grid']:.4f} ({c['renyi_order']})", f"{c['renyi_grid_canonne']:.4f}", f"{c['exact']:.5f}",
             "-" if c["discrete"] is None else f"{c['discrete']:.5f}", f"{c['auc']:.3f}")
            for c in rows
        ]  # fmt: skip
        parts += [f"\nJoint epsilon at delta = 1e-6, sigma = {name}\n", table(head, shown)]
    return "\n".join(parts)


def _four(cell: dict[str, Any]) -> tuple[float, float, float, float]:
    """Full vector, Theorem A, smallest of all, attack."""
    bounds = cell["bounds"]
    whole, ordered = (max(float(bounds[name]["certified"]), float(bounds[name]["second"])) for name in (FULL, ORDERED))
    return whole, min(whole, ordered), float(cell["epsilon"]), cell["attack"]


def _digits(x: float) -> str:
    return "inf" if math.isinf(x) else f"{x:.0f}" if x >= 1000 else f"{x:.1f}"


def plot(found: dict[str, Any], path: Path) -> None:
    """Epsilon against n for K = 10: all scores, the released set, the attack."""
    plt = pyplot()
    shapes = [(N, K) for N, K in SHAPES if K == 10]
    figure, axes = plt.subplots(1, len(shapes), figsize=(5.4 * len(shapes), 4.2), sharey=True)
    for at, (N, K) in zip(axes, shapes, strict=True):
        for colour, mu in zip(("C0", "C1", "C2", "C3"), (0.5, 1, 2, 4), strict=True):
            cells = [c for c in found["cells"] if (c["cell"]["N"], c["cell"]["K"], c["cell"]["mu"]) == (N, K, mu)]
            points = np.array([(c["cell"]["n"], *_four(c)) for c in cells]).T
            at.loglog(points[0], points[1], "--", color=colour)
            at.loglog(points[0], points[3], "-o", color=colour, markersize=4, label=f"mu = {mu:g}")
            at.loglog(points[0], points[4], ":", color=colour)
        at.set(xlabel="queries of the coalition, n", title=f"N = {N:,}, K = {K}")
        at.legend(fontsize=8)
    axes[0].set_ylabel("epsilon at delta = 1e-6")
    figure.suptitle("dashed: all scores released; solid: audited; dotted: what an attack reaches", fontsize=9)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def experiment(out: Path, shapes: Sequence[tuple[int, int]] = SHAPES) -> dict[str, Any]:
    """All tables; cells that ``out`` holds are kept."""
    cells = [{"N": N, "K": K, "mu": mu, "n": n} for N, K in shapes for mu in MUS for n in NS]
    found = run("accounting", {"seed": 0, "delta": DELTA, "law": GAUSSIAN}, cells, measure, out)
    found["levels"] = levels()
    exact = found["levels"][-1]["sigma"]
    found["coalitions"] = {
        f"{s:.2f}": coalitions(s) for s in (closed_forms.paper_sigma(1, ACCOUNT_QUERIES, DELTA), exact)
    }
    save(out, found)
    return found


@click.command()
@click.option("--out", type=click.Path(path_type=Path, dir_okay=False), default=RESULTS / "accounting.json")
def main(out: Path) -> None:
    """Compute the tables, draw the plot."""
    found = experiment(out)
    plot(found, out.with_suffix(".png"))
    click.echo(report(found))


if __name__ == "__main__":
    main()
