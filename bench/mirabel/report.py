# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables with the paper's values beside the measured ones, a column for each corpus and embedder, and a picture."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.experiment import pyplot, table
from bench.mirabel import paper
from bench.mirabel.defence import CLEAN, DEFENCES, LIST, PLAIN, RETURNED
from ragseal.kernel.policy import PAPER, PRECISE

SLACK = 0.1  #: a measured value agrees if it lies within the paper's values and this much beyond them
ATTACKS = ("S2MIA", "MBA", "IA")
BY_SLOT = "list, returned: by the withheld slot's number"

Cells = Sequence[Mapping[str, Any]]


def agrees(measured: float, reported: Sequence[float]) -> bool:
    """Whether a value is near those of the paper."""
    return min(reported) - SLACK <= measured <= max(reported) + SLACK


def _said(values: Sequence[float]) -> str:
    return " / ".join(f"{x:.3f}" for x in values)


def _share(right: Sequence[bool]) -> str:
    return f"{sum(right)} of {len(right)}" if right else ""


def _columns(cells: Cells) -> list[str]:
    return [f"{one['corpus']}, {one['embedder']}" for one in cells]


def markdown(found: Mapping[str, Any]) -> str:
    """All tables of a results file; curves over rho are in its picture."""
    cells = found["cells"]
    parts: list[Callable[[Cells], str]] = [_normality, _detection, _attacks, _utility, _false_positives]
    return "\n\n".join(part(cells) for part in parts)


def _normality(cells: Cells) -> str:
    rows = []
    for name, reported in paper.NORMALITY.items():
        here = [one["normality"][name] for one in cells]
        right = [all((a >= 0.05) == (b >= 0.05) for a, b in zip(x.values(), reported, strict=True)) for x in here]
        rows.append([name, _said(reported), *(_said(list(x.values())) for x in here), _share(right)])
    head = ["Table 1: mean p, all / without the largest", "paper", *_columns(cells), "same side of 0.05"]
    return table(head, rows)


def _detection(cells: Cells) -> str:
    rows = []
    for which, reported in (("table2", paper.DETECTION), ("table8", paper.AGAINST_BENIGN)):
        for name in ATTACKS:
            for measure, values in reported[name].items():
                here = [
                    [one["detection"][name][by][which][measure] for by in (PAPER, PRECISE, RETURNED)] for one in cells
                ]
                right = [agrees(x[0], values) for x in here]
                number = which.removeprefix("table")
                rows.append([number, name, measure, _said(values), *map(_said, here), _share(right)])
    head = ["Table", "attack", "", "paper: NF / SCI / TREC", *_columns(cells), "its formula agrees"]
    return table(head, rows)


def _attacks(cells: Cells) -> str:
    rows = []
    for name in ATTACKS:
        for defence in (*DEFENCES, "clean, paper"):
            reported = {**paper.ADJUSTED[name], **paper.COMPOSED[name]}.get(defence)
            ks = paper.KS[name].get(defence)
            here = [one["attacks"][name][defence] for one in cells]
            right = [agrees(x["adjusted"], reported) for x in here] if reported else []
            told = [f"{x['adjusted']:.3f} ({x['ks']:.2f})" for x in here]
            said = (_said(reported) if reported else "") + (f" ({_said(ks)})" if ks else "")
            rows.append([name, defence, said, *told, _share(right)])
        if all("by_slot" in one["attacks"][name][RETURNED] for one in cells):
            here = [one["attacks"][name][RETURNED]["by_slot"] for one in cells]
            rows.append([name, BY_SLOT, "", *(f"{x['adjusted']:.3f} ({x['ks']:.2f})" for x in here), ""])
    head = ["Tables 4 to 6", "defence", "paper: adjusted accuracy (KS)", *_columns(cells), "agrees"]
    return table(head, rows)


def _utility(cells: Cells) -> str:
    rows = []
    for defence in DEFENCES:
        for measure in max((one["utility"][defence] for one in cells), key=len):
            reported = paper.UTILITY.get(defence, {}).get(measure)
            here = [one["utility"][defence].get(measure, "") for one in cells]
            rows.append([defence, measure, _said(reported) if reported else "", *here])
    return table(["Table 3: defence", "", "paper: NQ / TriviaQA", *_columns(cells)], rows)


def _false_positives(cells: Cells) -> str:
    rows = [[formula, *(one["false_positives"][formula] for one in cells)] for formula in (PAPER, PRECISE)]
    return table(["benign queries taken for attacks, clean scores", *_columns(cells)], rows)


def picture(found: Mapping[str, Any], out: Path) -> None:
    """Detection by rho, and what attacks are left with under each defence."""
    plt = pyplot()
    cells = found["cells"]
    figure, axes = plt.subplots(len(cells), 2, figsize=(11, 3.4 * len(cells)), squeeze=False)
    for (left, right), one in zip(axes, cells, strict=True):
        for name in ATTACKS:
            rhos = [float(rho) for rho in one["rho"][name]]
            for by, style in ((PRECISE, "-"), (PAPER, ":")):
                left.plot(rhos, [c[by]["f1"] for c in one["rho"][name].values()], style, label=f"{name}, {by}")
        left.set(xscale="log", xlabel="rho", ylabel="F1 of detection", title=f"{one['corpus']}, {one['embedder']}")
        left.legend(fontsize=7)
        for i, defence in enumerate((PLAIN, CLEAN, LIST, RETURNED)):
            places = [j + 0.2 * i for j in range(len(ATTACKS))]
            right.bar(places, [one["attacks"][name][defence]["adjusted"] for name in ATTACKS], 0.18, label=defence)
        right.set_xticks([j + 0.3 for j in range(len(ATTACKS))], ATTACKS)
        right.set(ylabel="adjusted accuracy of the attack", ylim=(0, 0.5))
        right.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(out, dpi=110)
    plt.close(figure)
