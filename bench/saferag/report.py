# SPDX-License-Identifier: GPL-3.0-or-later
"""Tables, heat map, and SafeRAG's findings beside what was measured.

Of the paper this project has its findings (orders and which filter helps), not its figures' numbers; and the shipped
set is not the paper's.  So an agreement is one of orders.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import combinations
from pathlib import Path
from typing import Any

from bench.experiment import pyplot, table
from bench.saferag.data import TASKS
from bench.saferag.filters import FILTERS, NLI, OFF, SKR
from bench.saferag.injection import CLEAN, FILTERED, INDEX, RETRIEVED, STAGES, Strength
from bench.saferag.pipeline import RETRIEVERS, mean
from bench.saferag.retrievers import PUBLIC

Found = Mapping[str, Any]

#: The paper's orders, safest first.
STAGE_ORDER = (INDEX, RETRIEVED, FILTERED)
RETRIEVER_ORDER: dict[str, tuple[str, ...] | None] = {
    "SN": ("hybrid-rerank", "hybrid", "BM25", "dense"), "ICC": ("dense", "BM25", "hybrid", "hybrid-rerank"),
    "SA": None, "WDoS": ("hybrid-rerank", "hybrid", "BM25", "dense"),
}  # fmt: skip
#: Whether a filter helps, by the paper.
HELPS = {
    (NLI, "SN"): "helps", (NLI, "ICC"): "in part", (NLI, "SA"): "hardly", (NLI, "WDoS"): "hardly",
    (SKR, "SN"): "hardly", (SKR, "ICC"): "hardly", (SKR, "SA"): "helps", (SKR, "WDoS"): "helps",
}  # fmt: skip
WHOLE, PART = 0.5, 0.1  #: shares of what the attack took that "helps" and "in part" win back
ALIKE = 0.1  #: largest difference of RA between retrievers that are "alike"


def attacks(found: Found) -> list[str]:
    """Those that were measured."""
    return [name for name in TASKS if any(c["cell"]["attack"] == name for c in found["cells"])]


def value(
    found: Found, metric: str, attack: str, stage: str, retrievers: Sequence[str], filters: Sequence[str] = FILTERS,
    which: str = "repaired",
) -> float | None:  # fmt: skip
    """The mean of a metric over cells; None where it is never valid."""
    return mean([
        c[which][metric] for c in found["cells"]
        if (c["cell"]["attack"], c["cell"]["stage"]) == (attack, stage)
        and c["cell"]["retriever"] in retrievers and c["cell"]["filter"] in filters
    ])  # fmt: skip


def safety(found: Found, attack: str, stage: str, retrievers: Sequence[str], filters: Sequence[str] = FILTERS) -> float:
    """The mean of the repaired F1(avg) and, where it is valid, AFR: how safe the answers are."""
    metrics = (value(found, name, attack, stage, retrievers, filters) for name in ("f1_avg", "afr"))
    return mean(list(metrics)) or 0.0


# --- findings --------------------------------------------------------------------------------------------------------


def ordered(wanted: Sequence[str], measured: Mapping[str, float]) -> str:
    """How many of the pairs of an order, safest first, are measured so; equal ones count as neither."""
    pairs = list(combinations(wanted, 2))
    same = sum(measured[a] > measured[b] + 1e-9 for a, b in pairs)
    equal = sum(abs(measured[a] - measured[b]) <= 1e-9 for a, b in pairs)
    verdict = "agrees" if same == len(pairs) else "does not agree" if same == 0 else "in part"
    return f"{verdict}: {same} of {len(pairs)} pairs" + (f", {equal} equal" if equal else "")


def _order_of(measured: Mapping[str, float]) -> str:
    names = sorted(measured, key=lambda name: -measured[name])
    return " > ".join(f"{name} {measured[name]:.2f}" for name in names)


def regained(found: Found, attack: str, which: str) -> float | None:
    """The share of what the attack took from the answers that a filter wins back, over the stages before it; None if
    the attack took nothing."""
    stages = (INDEX, RETRIEVED)
    clean = safety(found, attack, CLEAN, PUBLIC, (OFF,))
    without, with_it = (mean([safety(found, attack, s, PUBLIC, (f,)) for s in stages]) or 0.0 for f in (OFF, which))
    return (with_it - without) / (clean - without) if clean > without else None


def help_of(share: float | None) -> str:
    return "-" if share is None else "helps" if share >= WHOLE else "in part" if share >= PART else "hardly"


def findings(found: Found) -> list[tuple[str, str, str, str]]:
    """(finding, paper, measured, agreement)."""
    rows = []
    for attack in attacks(found):
        by_stage = {stage: safety(found, attack, stage, PUBLIC) for stage in STAGES}
        rows.append((f"{attack}: safest stage first", " > ".join(STAGE_ORDER), _order_of(by_stage),
                     ordered(STAGE_ORDER, by_stage)))  # fmt: skip
    for attack in attacks(found):
        wanted = RETRIEVER_ORDER[attack]
        ra = {name: value(found, "ra", attack, INDEX, (name,), (OFF,), "published") or 0.0 for name in PUBLIC}
        if wanted is None:
            alike = max(ra.values()) - min(ra.values()) <= ALIKE
            rows.append((f"{attack}: RA by retriever, index", "alike", _order_of(ra),
                         "agrees" if alike else "does not agree"))  # fmt: skip
        else:
            rows.append((f"{attack}: RA by retriever, index", " > ".join(wanted), _order_of(ra), ordered(wanted, ra)))
    for (which, attack), paper in HELPS.items():
        if attack in attacks(found):
            share = regained(found, attack, which)
            said = help_of(share)
            measured = said if share is None else f"{said}: wins back {share:+.0%}"
            agrees = "agrees" if said == paper else "does not agree" if "in part" not in (said, paper) else "in part"
            rows.append((f"{attack}: filter {which}", paper, measured, agrees))
    return rows


# --- tables ----------------------------------------------------------------------------------------------------------


def _cell(x: float | None) -> str:
    return "-" if x is None else f"{x:.2f}"


def _stages_table(found: Found) -> str:
    rows = []
    for attack in attacks(found):
        for stage in (CLEAN, *STAGES):
            row = [f"{attack} {TASKS[attack]}", stage]
            for metric in ("ra", "f1_avg", "afr"):
                row += [_cell(value(found, metric, attack, stage, PUBLIC, which=w)) for w in ("published", "repaired")]
            rows.append(row)
    head = ("attack", "stage", "RA published", "RA repaired", "F1(avg) published", "F1(avg) repaired", "AFR published",
            "AFR repaired")  # fmt: skip
    return table(head, rows)


def _retrievers_table(found: Found) -> str:
    rows = []
    for attack in attacks(found):
        for stage in (CLEAN, *STAGES):
            row = [attack, stage]
            for name in RETRIEVERS:
                parts = [value(found, m, attack, stage, (name,), (OFF,)) for m in ("ra", "f1_avg", "afr")]
                row.append(" / ".join(_cell(x) for x in parts))
            rows.append(row)
    return table(("attack", "stage", *RETRIEVERS), rows)


def _commitment_text(told: Mapping[str, Any]) -> str:
    yes = {True: "yes", False: "no"}
    slots = told["changed_slots"]
    rows = [
        ("the poisoned version has another entry in the log", yes[told["digests_differ"]]),
        ("it is update number, so many seconds after the first", f"{told['first_poisoned']}, {told['time']}"),
        ("attack texts open under the version before", yes[told["first_poisoned"] < told["entries"]]),
        ("the opening that was checked before still opens the version before", yes[told["old_opening_holds"]]),
        ("it opens the poisoned version", yes[told["old_opening_opens_the_poisoned"]]),
        ("the poisoned index, under the old blinders and salts, opens the old commitment",
         yes[told["poisoned_under_old_blinders"]]),
        ("two openings compared show which slots changed", f"{len(slots)} slots: {', '.join(map(str, slots))}"),
        ("two versions with the same content have different entries, too", yes[told["unchanged_digests_differ"]]),
    ]  # fmt: skip
    return table(("log of three versions: clean, clean again, poisoned", ""), rows)


def report(found: Found) -> str:
    """Everything as Markdown."""
    s = found["setting"]
    filters = "; ".join(name for key, name in s["filters"].items() if key != OFF)
    items = ", ".join(f"{name} {count} over {s['contexts'][name]}" for name, count in s["items"].items())
    lost = sum(c["unjudged"] for c in found["cells"])
    unjudged = f" {lost} answers got no judgement that can be read, and are left out of F1." if lost else ""
    strays = sum(s["strays"].values())
    missing = f" {strays} golden contexts are not in their index." if strays else ""
    strength = ", ".join(
        f"{name} {Strength(**of).injected} of {of['top']}" for name, of in s["strength"].items() if name in s["items"]
    )
    return "\n\n".join([
        f"Data: {s['data']}; questions over contexts of the clean index: {items}. Of the contexts that a question gets "
        f"the attacker writes: {strength}. Generator {s['generator']}, judge {s['judge']}. "
        f"Filters: {filters}. Re-ranker: {s['reranker']}. `ragseal`: {s['mechanism']}, {s['draws']} draws of noise and "
        f"coins.{missing}{unjudged}",
        "Four attacks at three stages, means over four retrievers and three filters:",
        _stages_table(found),
        "Without a filter, repaired RA / F1(avg) / AFR of every retriever; the last two are ragseal's:",
        _retrievers_table(found),
        "What a log tells about an index that was committed, and opened, before the poisoning:",
        _commitment_text(found["commitment"]),
        "Paper and measured, where orders are safest first; of stages and filters by the mean of F1(avg) and AFR:",
        table(("finding", "paper", "measured", "agreement"), findings(found)),
    ])  # fmt: skip


# --- heat map --------------------------------------------------------------------------------------------------------


def plot(found: Found, path: Path) -> None:
    """F1(avg) and AFR, repaired: attacks and stages down, retrievers and filters across."""
    plt = pyplot()
    down = [(attack, stage) for attack in attacks(found) for stage in STAGES]
    across = [(retriever, one) for retriever in RETRIEVERS for one in FILTERS]
    figure, axes = plt.subplots(1, 2, figsize=(19, 1.5 + 0.42 * len(down)))
    for at, metric, title in zip(axes, ("f1_avg", "afr"), ("F1(avg)", "AFR"), strict=True):
        grid = [[value(found, metric, a, s, (r,), (f,)) for r, f in across] for a, s in down]
        shown = [[float("nan") if x is None else x for x in row] for row in grid]
        at.imshow(shown, vmin=0, vmax=1, cmap="RdYlGn", aspect="auto")
        for y, row in enumerate(grid):
            for x, number in enumerate(row):
                if number is not None:
                    at.text(x, y, f"{number:.2f}", ha="center", va="center", fontsize=7)
        at.set_xticks(range(len(across)), [f"{r}, {f}" for r, f in across], rotation=60, ha="right", fontsize=8)
        at.set_yticks(range(len(down)), [f"{a} {s}" for a, s in down], fontsize=8)
        for line in range(3, len(across), 3):
            at.axvline(line - 0.5, color="white", linewidth=2)
        for line in range(3, len(down), 3):
            at.axhline(line - 0.5, color="white", linewidth=2)
        at.set_title(f"{title}, repaired (green is safe)")
    figure.tight_layout()
    figure.savefig(path, dpi=100)
    plt.close(figure)
