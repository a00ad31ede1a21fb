# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables with the paper's value beside the measured one, and a picture."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from bench.experiment import pyplot, table
from bench.mirabel import paper
from bench.mirabel.defence import CLEAN, DEFENCES, LIST, PLAIN, RETURNED
from ragseal.kernel.policy import PAPER, PRECISE

SLACK = 0.1  #: a measured value agrees if it lies within the paper's three and this much beyond them
ATTACKS = ("S2MIA", "MBA", "IA")


def agrees(measured: float, reported: Sequence[float]) -> str:
    """In words."""
    return "yes" if min(reported) - SLACK <= measured <= max(reported) + SLACK else "no"


def _three(values: Sequence[float]) -> str:
    return " / ".join(f"{x:.3f}" for x in values)


def markdown(found: Mapping[str, Any]) -> str:
    """All tables of a results file."""
    return "\n\n".join(_cell(one) for one in found["cells"])


def _cell(one: Mapping[str, Any]) -> str:
    about = f"{one['documents']} documents in the index, generator {one['generator']}"
    parts = [
        f"### {one['corpus']}, {one['embedder']}: {about}",
        _normality(one),
        _detection(one),
        _rho(one),
        _attacks(one),
        _utility(one),
    ]
    return "\n\n".join(parts)


def _normality(one: Mapping[str, Any]) -> str:
    rows = []
    for name, (whole, without) in paper.NORMALITY.items():
        here = one["normality"][name]
        normal = "yes" if (here["without"] >= 0.05) == (without >= 0.05) else "no"
        rows.append([name, whole, here["all"], without, here["without"], normal])
    head = ["Table 1: mean p", "paper, all", "measured", "paper, without the largest", "measured", "agrees"]
    return table(head, rows)


def _detection(one: Mapping[str, Any]) -> str:
    rows = []
    for name in ATTACKS:
        for which, reported in (("table2", paper.DETECTION), ("table8", paper.AGAINST_BENIGN)):
            here = one["detection"][name]
            for measure in ("accuracy", "precision", "recall", "f1"):
                values = reported[name][measure]
                precise, old, listed = (here[by][which][measure] for by in (PRECISE, PAPER, RETURNED))
                number = which.removeprefix("table")
                rows.append([number, name, measure, _three(values), old, precise, listed, agrees(old, values)])
    head = [
        "Table",
        "attack",
        "",
        "paper: NF / SCI / TREC",
        "its formula",
        "precise",
        "on the list",
        "agrees (its formula)",
    ]
    return table(head, rows)


def _rho(one: Mapping[str, Any]) -> str:
    rows = [
        [name, float(rho), *(cell[by][m] for by in (PRECISE, PAPER) for m in ("recall", "precision", "f1"))]
        for name in ATTACKS
        for rho, cell in one["rho"][name].items()
    ]
    return table(
        ["attack", "rho", *(f"{m}, {by}" for by in (PRECISE, PAPER) for m in ("recall", "precision", "F1"))], rows
    )


def _attacks(one: Mapping[str, Any]) -> str:
    rows = []
    for name in ATTACKS:
        here = one["attacks"][name]
        for defence in (*DEFENCES, "clean, paper"):
            reported = {**paper.ADJUSTED[name], **paper.COMPOSED[name]}.get(defence)
            ks = paper.KS[name].get(defence)
            cell = here[defence]
            row: list[Any] = [name, defence, _three(reported) if reported else "", cell["adjusted"]]
            row += [_three(ks) if ks else "", cell["ks"], agrees(cell["adjusted"], reported) if reported else ""]
            rows.append(row)
        if "by_slot" in here[RETURNED]:
            cell = here[RETURNED]["by_slot"]
            rows.append(
                [name, "list, returned: by the withheld slot's number", "", cell["adjusted"], "", cell["ks"], ""]
            )
    head = ["Tables 4, 5, 6", "defence", "paper, adjusted accuracy", "measured", "paper, KS", "measured", "agrees"]
    return table(head, rows)


def _utility(one: Mapping[str, Any]) -> str:
    rows = []
    for defence in DEFENCES:
        for measure, value in one["utility"][defence].items():
            reported = paper.UTILITY.get(defence, {}).get(measure)
            rows.append([defence, measure, " / ".join(f"{x:.3f}" for x in reported) if reported else "", value])
    return table(["Table 3: defence", "", "paper: NQ / TriviaQA", "measured"], rows)


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
        shown = (PLAIN, CLEAN, LIST, RETURNED)
        for i, defence in enumerate(shown):
            places = [j + 0.2 * i for j in range(len(ATTACKS))]
            right.bar(places, [one["attacks"][name][defence]["adjusted"] for name in ATTACKS], 0.18, label=defence)
        right.set_xticks([j + 0.3 for j in range(len(ATTACKS))], ATTACKS)
        right.set(ylabel="adjusted accuracy of the attack", ylim=(0, 0.5))
        right.legend(fontsize=7)
    figure.tight_layout()
    figure.savefig(out, dpi=110)
    plt.close(figure)
