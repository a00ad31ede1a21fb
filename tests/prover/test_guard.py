# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirabel by hand and by the law that it rests on; what a window's guard withholds.  SPEC M.10."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ragseal.kernel.errors import PolicyError
from ragseal.kernel.policy import PAPER, PRECISE
from ragseal.prover.commitment.guard import (
    LEAST,
    Rule,
    critical,
    detect,
    detect_in_list,
    hide,
    threshold,
    upper_moments,
    withheld,
)

RULES = {name: Rule(0.05, name) for name in (PRECISE, PAPER)}
FLAT = [0.2, 0.2, 0.2, 0.2, 0.2, 0.9]


def test_algorithm_1_by_hand() -> None:
    """Scores 1 to 9 and 40: the others have mean 5 and deviation sqrt(60 / 9), ln 10 = 2.302585."""
    scores = [3.0, 40.0, 1.0, 2.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0]
    deviation, root = math.sqrt(60 / 9), math.sqrt(2 * 2.302585093)
    c = -math.log(-math.log(0.95))
    assert critical(0.05) == pytest.approx(c) == pytest.approx(2.970195, abs=1e-6)
    paper = detect(scores, RULES[PAPER])
    assert paper.threshold == pytest.approx(5 + deviation * (root + c / root)) == pytest.approx(14.11455, abs=1e-4)
    precise = detect(scores, RULES[PRECISE])
    inner = math.sqrt(2 * 2.302585093 - math.log(2.302585093) - math.log(4 * math.pi))
    assert precise.threshold == pytest.approx(5 + deviation * (inner + c / root)) == pytest.approx(11.44899, abs=1e-4)
    assert (paper.found, paper.target, paper.top) == (True, 1, 40.0)
    near = [*scores]
    near[1] = 13.0  # between the two thresholds
    assert not detect(near, RULES[PAPER]).found
    assert detect(near, RULES[PRECISE]).found


@pytest.mark.slow
def test_how_often_each_formula_is_wrong_about_normal_scores() -> None:
    """The precise location gives 5.5 %, where rho says 5 %; the paper's 0.3 %."""
    scores = np.random.default_rng(5).standard_normal((4000, 3633))
    top = scores.max(axis=1)
    total, squares = scores.sum(axis=1) - top, (scores**2).sum(axis=1) - top**2
    mean = total / 3632
    deviation = np.sqrt(squares / 3632 - mean**2)
    for name, low, high in ((PRECISE, 0.046, 0.064), (PAPER, 0.0010, 0.0055)):
        beyond = top > mean + deviation * threshold(0, 1, 3633, RULES[name])
        assert low < beyond.mean() < high, name
    row = [float(x) for x in scores[0]]
    assert detect(row, RULES[PRECISE]).threshold == pytest.approx(
        mean[0] + deviation[0] * threshold(0, 1, 3633, RULES[PRECISE])
    )


@pytest.mark.parametrize("formula", RULES)
@pytest.mark.parametrize("scores", [[], [0.9], [0.9, 0.1], [0.9, 0.1, 0.2], [0.9, 0.1, 0.2, 0.3], [0.0] * 9, FLAT])
def test_too_few_scores_or_no_scale_find_nothing(formula: str, scores: list[float]) -> None:
    rule = RULES[formula]
    assert not detect(scores, rule).found
    assert not detect_in_list(scores, 1000, rule).found
    assert detect(scores, rule).threshold == math.inf
    assert hide(scores, 3, rule) == sorted(range(len(scores)), key=lambda i: (-scores[i], i))[:3]


def test_of_equal_largest_scores_one_is_left_among_the_others() -> None:
    scores = [0.1, 0.11, 0.12, 0.09, 0.1, 0.1, 0.9, 0.9]
    found = detect(scores, RULES[PAPER])
    assert found.target == 6
    assert not found.found  # the other one widens the moments
    assert detect(scores[:7], RULES[PAPER]).found


def test_the_target_leaves_the_candidates_and_the_next_ones_go_out() -> None:
    scores = [0.1, 0.12, 0.95, 0.11, 0.13, 0.12, 0.1]
    assert hide(scores, 2, RULES[PRECISE]) == [4, 1]
    scores[2] = 0.14
    assert hide(scores, 2, RULES[PAPER]) == [2, 4]


def test_moments_of_all_scores_from_the_best_of_them() -> None:
    scores = np.sort(np.random.default_rng(2).normal(3.0, 0.5, (300, 4000)), axis=1)[:, -200:]
    found = [upper_moments([float(x) for x in row], 4000) for row in scores]
    assert np.mean([one[0] for one in found]) == pytest.approx(3.0, abs=0.05)
    assert np.mean([one[1] for one in found]) == pytest.approx(0.5, abs=0.02)
    whole = [1.0, 2.0, 3.0, 6.0]
    assert upper_moments(whole, 4) == (3.0, pytest.approx(math.sqrt(3.5)))


def test_one_text_is_withheld_of_every_list() -> None:
    """The nearest where it is too near, else the farthest: that one is missing does not say which."""
    near = {7: 11_000, 3: 5200, 9: 5100, 12: 5000, 20: 4950, 31: 4940, 40: 4935, 44: 4930}
    rule = RULES[PRECISE]
    assert withheld(near, 5184, rule) == (7,)
    assert withheld(near | {7: 5300}, 5184, rule) == (44,)
    assert withheld(near | {7: 5300, 50: 4930}, 5184, rule) == (50,)
    assert withheld({5: 16_129}, 5184, rule) == (5,)
    assert withheld({}, 5184, rule) == ()
    assert withheld(near, 5184, None) == ()
    few = dict(list(near.items())[: LEAST - 1])
    assert withheld(few, 5184, rule) == (12,)


@pytest.mark.parametrize("rho", [0.0, 1.0, -0.1, math.nan, math.inf])
def test_a_significance_is_a_probability(rho: float) -> None:
    with pytest.raises(PolicyError, match="between 0 and 1"):
        Rule(rho)


def test_there_are_two_formulas() -> None:
    with pytest.raises(PolicyError, match="precise, paper"):
        Rule(0.05, "exact")
