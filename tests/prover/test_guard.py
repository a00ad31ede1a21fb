# SPDX-License-Identifier: GPL-3.0-or-later
"""Mirabel by hand and by the law that it rests on; what a window's guard withholds.  SPEC M.10."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ragseal.client.attestation import Window, check_openings
from ragseal.kernel.attestation import Answer, SealedAnswer, open_answer
from ragseal.kernel.errors import AttestationError, PolicyError
from ragseal.kernel.policy import PAPER, PRECISE, Policy
from ragseal.prover.attestation import retrieval
from ragseal.prover.attestation.retrieval import shifted_scores
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
from ragseal.prover.serving.serving import Serving
from tests.classes import TINY
from tests.simulator.provider import (
    SEAL_SECRET,
    Asker,
    make_policy,
    newest,
    open_provider,
    serving_on,
    window_on,
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


# A window with a guard, on the real provider: one text of an answer is withheld, nothing else changes. SPEC M.10.


GUARD = {"guard": "returned", "guard_rho": "1/10", "lo": 0.0, "hi": 0.99, "gain": 110}
QUESTIONS = ("acme report number 3 about topic 8", "topic 5", "entirely unrelated words: zebra quartz")


def as_client(serving: Serving, policy: Policy) -> Any:
    """What an account knows of the window, under this policy."""
    manifest = newest(serving).manifest
    return SimpleNamespace(cls=TINY, index=manifest.index_of("acme"), rules=policy)


def split(answer: Answer) -> tuple[list[int], list[int]]:
    """(flagged slots, those of them without a text)."""
    flagged = [slot for slot in answer.openings.slots if slot.flag]
    return [slot.slot for slot in flagged], [slot.slot for slot in flagged if not slot.texts]


@pytest.mark.slow
def test_of_every_answer_the_guard_withholds_one_text_and_changes_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[tuple[Mapping[int, int], int, Rule | None, tuple[int, ...]]] = []

    def watched(near: Mapping[int, int], n: int, rule: Rule | None) -> tuple[int, ...]:
        seen.append((dict(near), n, rule, withheld(near, n, rule)))
        return seen[-1][-1]

    monkeypatch.setattr(retrieval, "withheld", watched)

    async def run() -> None:
        async with window_on(tmp_path, **GUARD) as serving:
            asker = Asker("alice", serving)
            answers = [await asker.ask(question) for question in QUESTIONS]
            manifest = newest(serving).manifest
            for answer, (near, n, rule, chosen) in zip(answers, seen, strict=True):
                flagged, missing = split(answer)
                assert (n, rule) == (TINY.N, Rule(0.1))
                assert sorted(near) == flagged, "a guard looks at flagged slots of T and at no others"
                assert tuple(missing) == chosen
                assert len(missing) == min(1, len(flagged))
                window: Window = as_client(serving, manifest.policy)
                check_openings(window, answer.record, answer.openings)
                if flagged:
                    with pytest.raises(AttestationError, match="the policy has no guard"):
                        check_openings(as_client(serving, make_policy()), answer.record, answer.openings)
            assert sum(len(split(answer)[0]) for answer in answers) > 3, "questions that find something"
            # the same request gets the same bytes: from memory, and from what is stored
            window_ = newest(serving)
            found = await asker.retrieve(answers[0].record.signed)
            assert open_answer(SealedAnswer.decode(found.canonical), SEAL_SECRET) == answers[0]
            first = answers[0].record
        monkeypatch.setattr(retrieval, "withheld", lambda near, n, rule: pytest.fail("decided twice"))
        async with serving_on(open_provider(tmp_path)) as again:
            canonical = await Asker("alice", again).retrieve(first.signed)
            assert open_answer(SealedAnswer.decode(canonical.canonical), SEAL_SECRET) == answers[0]
            assert window_.digest == newest(again).digest

    asyncio.run(run())


def test_scores_of_the_guard_are_those_of_the_answer() -> None:
    """What ``near`` holds orders as y does: gain and lower end are the same for all slots."""
    assert shifted_scores.__doc__ is not None
    scores = {3: 100, 4: 90, 5: 80, 6: 85, 7: 82, 8: 70}
    for rho in (0.01, 0.3):
        rule = Rule(rho)
        assert withheld(scores, 500, rule) == withheld({i: 7 * (y - 50) for i, y in scores.items()}, 500, rule)


def test_a_policy_file_names_its_guard() -> None:
    made = make_policy(guard="returned")
    assert (made.guard, made.guard_rho, made.guard_formula) == ("returned", "1/20", "precise")
    made = make_policy(guard="returned", guard_rho=0.01, guard_formula="paper")
    assert (made.guard_rho, made.guard_formula) == ("1/100", "paper")
    plain = make_policy()
    assert (plain.guard, plain.guard_rho, plain.guard_formula) == ("off", "0", "none")
    assert not plain.guarded
    assert [plain.withheld_of(n) for n in (0, 1, 5)] == [0, 0, 0]
    assert [made.withheld_of(n) for n in (0, 1, 5)] == [0, 1, 1]


@pytest.mark.parametrize(
    ("changes", "why"),
    [
        ({"guard": "clean"}, "exact scores, and no epsilon of any claim"),
        ({"guard": "noised"}, "tells more than the list"),
        ({"guard": "on"}, "one of off, or returned"),
        ({"guard": 1}, "a name such as"),
        ({"guard_rho": 0.05}, "are of a guard"),
        ({"guard_formula": "paper"}, "are of a guard"),
        ({"guard": "returned", "guard_rho": 0}, "strictly between 0 and 1"),
        ({"guard": "returned", "guard_rho": 1}, "strictly between 0 and 1"),
        ({"guard": "returned", "guard_rho": f"{10**20 - 1}/{10**20}"}, "not 1.0"),
        ({"guard": "returned", "guard_rho": "a"}, "not a rational number"),
        ({"guard": "returned", "guard_formula": "none"}, "formula is one of precise, or paper"),
        ({"guard": "returned", "guard_formula": 3}, "precise"),
    ],
)
def test_a_guard_that_does_not_exist_is_refused(changes: dict[str, object], why: str) -> None:
    with pytest.raises(PolicyError, match=why):
        make_policy(**changes)
