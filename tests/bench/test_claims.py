# SPDX-License-Identifier: GPL-3.0-or-later
"""The benchmark of the claims: its rows are the planner's and the accountant's own numbers."""

from __future__ import annotations

import json
import math
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import accounting, claims, modules
from bench.experiment import RESULTS, ROOT
from bench.questions import QUESTIONS
from ragseal.accounting.decoys_curve import ids_needed
from ragseal.circuits.sizes import size_for
from ragseal.demo.corpus import TENANTS, demo_queries
from ragseal.demo.policy import MINILM
from ragseal.prover.planning.budgets import UNSEEN, Budget, cost
from ragseal.prover.planning.candidates import RESULTS as LEFT
from ragseal.prover.planning.candidates import Shape, Window
from ragseal.prover.planning.frontier import Planner
from ragseal.prover.planning.workload import Workload
from tests.classes import DECOYS

SHAPE = Shape(DECOYS, True, 8)
WINDOW = Window(0, 1)


def work(queries: int, seed: int) -> Workload:
    scores = np.random.default_rng(seed).integers(0, 2000, (queries, 50)).astype(np.int32)
    return Workload("test", 50, scores, tuple({int(row.argmax()): 1} for row in scores))


def test_rows_are_what_planner_and_accountant_say() -> None:
    works = [work(20, 1), work(60, 2)]
    much, little = claims.measure("what", works, [SHAPE], [WINDOW], ((0.7, 6.0), (3.0, 6.0)), 2, lambda *_: None)
    for row, unseen, hidden in ((much, 0.7, 128), (little, 3.0, 13)):
        budget = Budget(claims.N_MAX, claims.K_MAX, claims.DELTA, unseen)
        chosen = claims.within(SHAPE, WINDOW, 6.0, unseen)
        assert chosen is not None
        assert row["epsilon"] == cost(DECOYS, chosen.terms, budget).epsilon
        assert (budget.hidden, row["hidden"], row["claim"]) == (hidden, hidden, "until-delivered")
        found = [Planner(one, 384, 2).qualities([chosen])[0] for one in works]
        assert row["top1"] == pytest.approx((20 * found[0].top1 + 60 * found[1].top1) / 80)
        assert row["share"] == pytest.approx((20 * found[0].ndcg10 + 60 * found[1].ndcg10) / 80)  # 1 without decoys
        assert 0 < row["top1_se"] < 0.1
    assert much["epsilon"] == pytest.approx(math.log(2))
    assert much["top1"] < little["top1"]
    assert claims.within(SHAPE, WINDOW, 0.5, 3.0) is None


def test_targets_are_answered_for_every_K() -> None:
    row = {
        "corpus": "demo",
        "unseen": 3.0,
        "return": claims.DEMO_RETURN,
        "K": 10,
        "law": "decoys",
        "window": [0, 1],
    }
    rows = [{**row, "top1": 0.5, "share": 0.1}, {**row, "top1": 0.7, "share": 0.1}, {**row, "K": 50, "top1": 0.9}]
    lines = claims.against_targets(rows)
    assert [line.partition(" of the")[0].rpartition(" ")[2] for line in lines] == ["70.0%", "90.0%"]
    assert Fraction(1, 10**6) == claims.DELTA


@pytest.mark.slow
def test_a_module_is_asked_for_by_its_own_words_and_answered_by_what_is_in_it() -> None:
    inside = [f"json.f{i}" for i in range(modules.LEAST)]
    texts, relevant = modules.collection(["jsonpath.f", *inside, "json"], {"json": "JSON.", "jsonpath": "Too few."})
    assert (texts, relevant) == (["JSON."], [dict.fromkeys(range(1, modules.LEAST + 1), 1)])
    assert dict(modules.first_paragraphs())["bisect"] == "Bisection algorithms."


def test_the_questions_are_not_the_demos() -> None:
    own = {query.text.lower() for query in demo_queries()}
    asked = [text.lower() for texts in QUESTIONS.values() for text in texts]
    assert set(QUESTIONS) == set(TENANTS)
    assert len(asked) == len(set(asked)) == 60
    assert not own & set(asked)
    assert sum(len(texts) for texts in claims.own_queries().values()) == 30


def test_the_demos_window_and_return_give_first_answers_that_a_person_finds_good() -> None:
    """Four of five first answers are those without decoys and coin, in the published measurement."""
    rows = json.loads((RESULTS / "claims.json").read_text())["points"]
    cls, shards = size_for(1000)
    K = max(one for one in claims.RETURNED if one <= ids_needed(shards * cls.N, claims.DEMO_RETURN, 13, LEFT))
    (found,) = [
        row for row in rows
        if (row["corpus"], row["law"], row["N"], row["K"]) == ("demo", cls.law, shards * cls.N, K)
        and (row["window"][0], row["unseen"], row["return"]) == (MINILM.lo, UNSEEN, claims.DEMO_RETURN)
    ]  # fmt: skip
    assert found["top1"] >= 0.8
    assert found["epsilon"] <= claims.DEMO_RETURN


# The epsilon tables: what is printed is what was computed, and one cell of it is computed again.


FOUND: dict[str, Any] = json.loads((ROOT / "bench" / "results" / "accounting.json").read_text())


@pytest.mark.slow
def test_the_readme_shows_the_results() -> None:
    shown = (ROOT / "bench" / "experiments.md").read_text()
    rows = [line for line in accounting.report(FOUND).splitlines() if line.startswith("| ")]
    section = shown[shown.index("## Epsilon") :]
    section = section[: section.index("\n## ", 5)]
    printed = [line for line in section.splitlines() if line.startswith("| ")]
    assert printed
    assert set(printed) <= set(rows)
    assert sum(" / " in line for line in printed) == 2 * len(accounting.MUS)


@pytest.mark.slow
def test_one_cell_again() -> None:
    cell = {"N": 5183, "K": 10, "mu": 0.5, "n": 10}
    stored = next(c for c in FOUND["cells"] if c["cell"] == cell)
    again = accounting.measure(cell, np.random.default_rng(0))
    assert again["epsilon"] == pytest.approx(stored["epsilon"], rel=1e-7)
    assert again["attack"] == pytest.approx(stored["attack"], rel=1e-7)
    assert again["accountant"] == stored["accountant"]


@pytest.mark.slow
def test_every_cell_is_consistent_and_near_what_was_published() -> None:
    assert len(FOUND["cells"]) == len(accounting.SHAPES) * len(accounting.MUS) * len(accounting.NS)
    for cell in FOUND["cells"]:
        whole, ordered, released, attack = accounting._four(cell)
        assert attack <= released <= ordered * (1 + 1e-3)
        assert ordered <= whole
        if released < float("inf"):
            published = [float(x) for x in cell["published"].split(" / ")]
            assert (whole, ordered) == pytest.approx(published[:2], rel=0.012, abs=0.06)
            assert released == pytest.approx(published[2], rel=0.04, abs=0.06)


@pytest.mark.slow
def test_plot(tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    accounting.plot(FOUND, tmp_path / "plot.png")
    assert (tmp_path / "plot.png").read_bytes().startswith(b"\x89PNG")
