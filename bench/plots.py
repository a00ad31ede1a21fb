# SPDX-License-Identifier: GPL-3.0-or-later
"""The one kind of plot that most of the paper's figures are: AUC against coalition size, with standard errors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from bench.experiment import pyplot


@dataclass
class Panel:
    """Series of (k, AUC, standard error), and dashed lines of (k, AUC)."""

    title: str
    measured: Mapping[str, Sequence[tuple[int, float, float]]]
    lines: Mapping[str, Sequence[tuple[int, float]]] = field(default_factory=dict)


def auc_against_k(path: Path, panels: Sequence[Panel]) -> None:
    """Draw the panels side by side into a PNG file; a line has the colour of the series with its name."""
    plt = pyplot()
    figure, axes = plt.subplots(1, len(panels), figsize=(5.2 * len(panels), 3.9), squeeze=False)
    for at, panel in zip(axes[0], panels, strict=True):
        colours = {}
        for label, points in panel.measured.items():
            ks, aucs, errors = zip(*points, strict=True)
            drawn = at.errorbar(ks, aucs, errors, fmt="o", capsize=3, markersize=4, label=label)
            colours[label] = drawn.lines[0].get_color()
        for label, line in panel.lines.items():
            at.plot(*zip(*line, strict=True), "--", linewidth=1, color=colours.get(label, "grey"))
        at.axhline(0.5, color="grey", linestyle=":", linewidth=1)
        at.set(xlabel="accounts in the coalition, k", ylabel="AUC", title=panel.title)
        at.legend(fontsize=8)
    figure.tight_layout()
    figure.savefig(path, dpi=110)
    plt.close(figure)


def by_epsilon(title: str, cells: Iterable[Mapping[str, Any]], expected: str) -> Panel:
    """A series for every eps_acc, with a dashed line through what each cell holds under ``expected``."""
    measured: dict[str, list[tuple[int, float, float]]] = {}
    lines: dict[str, list[tuple[int, float]]] = {}
    for c in cells:
        label, k = f"eps_acc = {c['cell']['epsilon']}", c["cell"]["k"]
        measured.setdefault(label, []).append((k, c["auc"], c["se"]))
        lines.setdefault(label, []).append((k, c[expected]))
    return Panel(title, measured, lines)
