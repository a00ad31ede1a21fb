# SPDX-License-Identifier: GPL-3.0-or-later
"""The lottery's benchmark: what it draws is the law that its return is computed for."""

from __future__ import annotations

import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest

from bench import lottery
from bench.experiment import RESULTS, ROOT
from ragseal.prover.planning.workload import Workload

ETA = Fraction(1, 8)
SLOTS = 3


def returned(scores: tuple[int, ...], prizes: int, K: int, *, added: bool = False) -> Fraction:
    """P(slot 0 is returned), over all ties; ``added``: a prize is added to the score instead of coming first."""
    ties = np.array(list(itertools.product(range(2**lottery.TIE_BITS), repeat=SLOTS)))
    rows = np.broadcast_to(np.array(scores), ties.shape)
    if added:
        rows, prizes = rows + (ties >= 2**lottery.TIE_BITS - prizes), 0
    found = lottery.largest(rows, ties, prizes, K)
    return Fraction(int((found == 0).any(axis=1).sum()), len(ties))


def worst(prizes: int, K: int, **wrong: bool) -> float:
    """The largest log ratio of one return, over all scores: a document under its coin, against an empty slot."""
    ratios = []
    for others in itertools.product(range(4), repeat=SLOTS - 1):
        empty = returned((0, *others), prizes, K, **wrong)
        for own in range(4):
            there = (1 - ETA) * returned((own, *others), prizes, K, **wrong) + ETA * empty
            if there:
                ratios.append(math.log(there / empty) if empty else math.inf)
    return max(ratios)


@pytest.mark.parametrize("prizes", [1, 2])
@pytest.mark.parametrize("K", [1, 2])
def test_no_return_tells_more_than_the_formula(prizes: int, K: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lottery, "TIE_BITS", 3)
    bound = lottery.return_of(prizes, ETA)
    assert 0.5 * bound < worst(prizes, K) <= bound
    assert worst(prizes, K, added=True) == math.inf


def test_the_largest_are_those_of_a_plain_sort() -> None:
    rng = np.random.default_rng(1)
    scores, ties = rng.integers(0, 3, (20, 30)), rng.integers(0, 2**lottery.TIE_BITS, (20, 30))
    found = lottery.largest(scores, ties, 200, 9)
    for row, tie, slots in zip(scores, ties, found, strict=True):
        won = tie >= 2**lottery.TIE_BITS - 200
        order = sorted(range(30), key=lambda i: (-int(won[i]), 0 if won[i] else -int(row[i]), -int(tie[i]), i))
        assert list(slots) == order[:9]


def test_prizes_are_the_fewest_that_keep_a_return() -> None:
    for target in lottery.RETURNS:
        prizes = lottery.prizes_for(target, ETA)
        assert lottery.return_of(prizes, ETA) <= target
        assert prizes == 1 or lottery.return_of(prizes - 1, ETA) > target


def test_many_prizes_crowd_the_answers_out() -> None:
    rng = np.random.default_rng(2)
    scores = rng.integers(0, 7500, (30, 200)).astype(np.int32)
    work = Workload("test", 200, scores, tuple({int(row.argmax()): 1} for row in scores))
    lower = [row for row in lottery.measure(work, 1000, 2, 1, (5, 50)) if row["window"][0] == 0.3]
    rows = {(row["target"], row["K"]): row for row in lower}
    assert rows[8.0, 5]["share"] > 0.7 > 0.2 > rows[4.0, 5]["share"]
    assert rows[4.0, 50]["share"] > rows[4.0, 5]["share"]


def test_planner_and_engine_find_what_is_drawn_here_from_the_decisions_text() -> None:
    """Three ways to one number: of an index as large as the class's, where ties, prizes and the coin all matter."""
    rng = np.random.default_rng(4)
    scores = rng.integers(0, 9000, (60, 3000)).astype(np.int32)
    work = Workload("test", 3000, scores, tuple({int(row.argmax()): 1} for row in scores))
    drawn = {
        (row["prizes"], row["K"]): row["ndcg10"]
        for row in lottery.measure(work, lottery.SLOTS, 12, 1, (20, 32), lottery.UP_TO_ONE)
    }
    planned = {
        (row["prizes"], row["K"]): row["ndcg10"] for row in lottery.planned(work, lottery.SLOTS, 12, 2, (20, 32))
    }
    assert set(drawn) == {(prizes, K) for prizes in (36, 14, 5, 1) for K in (20, 32)}
    assert {(5, 20), (5, 32), (1, 20), (1, 32), (14, 32)} <= set(planned) <= set(drawn)
    for at, share in planned.items():
        spread = 4 * math.sqrt(2 * max(share * (1 - share), 0.01) / (60 * 12))
        assert share == pytest.approx(drawn[at], abs=spread), at
    assert planned[14, 32] < planned[5, 32] - 0.3  # a wrong number of prizes would be noticed
    by_engine = lottery.served(work, 5, 3, 3)
    spread = 4 * math.sqrt(by_engine["ndcg10"] * (1 - by_engine["ndcg10"]) * (1 / 180 + 1 / 720))
    assert by_engine["ndcg10"] == pytest.approx(planned[5, 32], abs=spread)


def test_the_readme_says_what_was_measured() -> None:
    rows = json.loads((RESULTS / "lottery.json").read_text())["points"]
    text = (ROOT / "bench" / "experiments.md").read_text()
    for target, K in itertools.product((5.0, 6.0), (20, 32, 50, 128)):
        best = max((row for row in rows if (row["target"], row["K"]) == (target, K)), key=lambda row: row["share"])
        quality = f"{best['ndcg10']:.3f} +- {best['ndcg10_se']:.3f} | {best['share']:.0%}"
        assert f"| {target:g} | {best['prizes']} | {K} | {quality} |" in text


def test_the_readme_has_what_a_plan_compares() -> None:
    rows = json.loads((RESULTS / "plan-scifact.json").read_text())["delivered"]
    text = (ROOT / "bench" / "experiments.md").read_text()
    shown = [row for row in rows if row["K"] > 10 and "gaussian" not in row["law"]]
    assert len(shown) == 24
    for row in shown:
        quality = f"{row['ndcg10']:.3f} +- {row['ndcg10_se']:.3f} | {row['recall']:.2f} |"
        line = f"| {row['target']:g} | {row['law']} | {row['K']} | {row['prizes'] or ''} | {row['epsilon']:.2f} |"
        assert f"{line} {quality}" in text
