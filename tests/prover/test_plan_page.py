# SPDX-License-Identifier: GPL-3.0-or-later
"""plan.html: each point once, what is the same of all said once, and no value as Python spells it."""

from __future__ import annotations

import html
import io
import math
import re
from typing import Any

import pytest

from ragseal.prover.planning import page as planpage
from tests.verifier.test_report_pages import SPELLINGS


def row(**changes: Any) -> dict[str, Any]:
    values = {
        "claim": "until-delivered", "law": "geometric-16", "K": 10, "window": [0.3, 1.0], "scale": 1 / 3,
        "decoys": None, "results_mean": None, "results_least": None, "n_max": 20, "k_max": 2,
        "epsilon": 5.999999966666666, "unseen": 2.98022981234, "return": 5.9632, "hidden_share": 0.05078125,
        "ndcg10": 0.6, "ndcg10_se": 0.01, "recall": 0.5, "recall_se": 0.01, "top1": 0.4, "top1_se": 0.01,
        "listed_by_chance": 0.01, "gain": 100, "delta": "1/1000000", "policy": "gain = 100\n",
        "class": "noise-small-two-50", "class_available": True,
    }  # fmt: skip
    return {**values, **changes}


def plan_of(rows: list[dict[str, Any]], best: dict[str, Any] | None) -> dict[str, Any]:
    return {
        "workload": "9 documents, 3 queries", "noise_free": {"ndcg10": 0.7, "recall": 0.9}, "frontier": rows,
        "recommended": best, "nearest": None, "reasons": ["a reason"],
    }  # fmt: skip


DECOYS = {"law": "decoys", "decoys": 12.2, "results_mean": 29.8, "results_least": 10, "scale": None, "gain": None}
ROWS = [
    row(), row(ndcg10=0.2, **DECOYS), row(ndcg10=0.9, epsilon=math.inf, **{"return": math.inf}),
    row(claim="every-list", unseen=None, hidden_share=None, epsilon=66.0, **{"return": None}),
]  # fmt: skip


def test_no_value_is_spelt_as_python_spells_it() -> None:
    text = planpage.page(plan_of(ROWS, ROWS[0]), None, 0.0)
    visible = html.unescape(re.sub(r"<[^>]*>", " ", re.sub(r"<style>.*?</style>", "", text, flags=re.S)))
    assert SPELLINGS.findall(visible) == []
    assert "no bound" in visible
    assert not SPELLINGS.search(planpage.text_table(ROWS))


def test_the_policy_stands_first_then_the_best_answers_and_each_point_once() -> None:
    text = planpage.page(plan_of(ROWS, ROWS[0]), None, 0.0)
    found = re.findall(r'data-name="nDCG@10">([\d.]+)', text)
    assert found == ["0.600", "0.900", "0.600", "0.200"], "marked, then by their answers"
    assert text.count("<tr class=best>") == 1


def test_what_is_the_same_of_all_points_is_no_column() -> None:
    text = planpage.page(plan_of(ROWS, ROWS[0]), None, 0.0)
    heads = re.findall(r"<th scope=col>([^<]*)</th>", text)
    assert "circuit class" not in heads
    assert "accounts together" in heads
    assert "score window" in heads
    assert {"claim", "law", "epsilon", "nDCG@10"} <= set(heads)
    assert '<th scope="row">circuit class</th><td>noise-small-two-50</td>' in text
    alone = planpage.page(plan_of([row()], row()), None, 0.0)
    assert "<th scope=col>" not in alone
    assert '<th scope="row">nDCG@10</th>' in alone
    assert "No point was computed." in planpage.page(plan_of([], None), None, 0.0)


def test_the_legend_covers_no_curve() -> None:
    """Eighteen entries stood over the curves that they name: they stand below the axes."""
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    seen: list[tuple[float, float]] = []
    close = plt.close

    def look(figure: Any) -> None:
        figure.savefig(io.BytesIO(), format="png")
        axes = figure.axes[0]
        seen.append((axes.get_legend().get_window_extent().y1, axes.get_window_extent().y0))
        close(figure)

    rows = [row(K=K, window=[lo, 1.0], epsilon=6.0 + K, ndcg10=0.5) for K in range(1, 10) for lo in (0.0, 0.3)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plt, "close", look)
        light = planpage.draw(plan_of(rows, rows[0]))
        dark = planpage.draw(plan_of(rows, rows[0]), dark=True)
    assert light != dark
    assert len(seen) == 2
    assert all(top <= bottom for top, bottom in seen)


def test_decoys_are_one_line_whose_k_grows_along_it_and_have_no_upper_end() -> None:
    assert [planpage.cell(row(**DECOYS), name) for name in ("window", "gain", "decoys", "results_least")] == [
        "above 0.3", "-", "12.2", "10",
    ]  # fmt: skip
    matplotlib = pytest.importorskip("matplotlib")
    matplotlib.use("Agg")
    import matplotlib.pyplot as plt

    labels: list[str] = []
    close = plt.close

    def look(figure: Any) -> None:
        labels.extend(figure.axes[0].get_legend_handles_labels()[1])
        close(figure)

    rows = [row(K=K, **{**DECOYS, "decoys": K / 4, "return": 60 / K}) for K in (10, 20, 30)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plt, "close", look)
        planpage.draw(plan_of(rows, None))
    assert labels == ["decoys, above 0.3, any accounts"]
