# SPDX-License-Identifier: GPL-3.0-or-later
"""ragseal-provider plan and the lottery: compared with laws that have noise, recommended where it is better, and only
under the claim that it is proven for; what it recommends is committed to, answered under and audited.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Sequence
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ragseal.accounting.claims.until_delivered import CoinPlan
from ragseal.accounting.delivered_lottery import certified_return
from ragseal.accounting.delivered_period import delivered_window
from ragseal.accounting.rounding import upward
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.kernel.lottery_class import LOTTERY, LotteryClass
from ragseal.kernel.params import NOISE_LAWS
from ragseal.prover.__main__ import main
from ragseal.prover.cli import plan_command
from ragseal.prover.commitment.policy_file import Binding, load_policy
from ragseal.prover.planning import plan, shapes
from ragseal.prover.planning.budgets import ACCOUNTS, Budget
from ragseal.prover.planning.candidates import Candidate, Shape, Window
from ragseal.prover.planning.chance import comes_back
from ragseal.prover.planning.frontier import Planner
from ragseal.prover.planning.laws import PLANNED_LAWS, planned_law
from ragseal.prover.planning.laws.lottery import prizes_of_return, spread
from ragseal.prover.planning.workload import Workload
from ragseal.prover.provider import assembly
from tests.attacks.lottery_scene import asked
from tests.classes import TINY as SYMMETRIC
from tests.simulator import provider as scene
from tests.simulator.live import live

pytestmark = pytest.mark.slow

CLASSES = load_classes()
BUDGET = Budget(25, 2, Fraction(1, 10**6), 3.0)


def lottery(name: str = "lottery-tiny") -> LotteryClass:
    cls = CLASSES[name]
    assert isinstance(cls, LotteryClass)
    return cls


TINY = lottery()


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' small embedder, and the tiny classes alone: larger ones take seconds a point."""
    monkeypatch.setattr(plan, "load_embedder", lambda name: scene.TrigramEmbedder())
    tiny = {name: cls for name, cls in load_classes().items() if "tiny" in name}
    monkeypatch.setattr(plan, "load_classes", lambda: tiny)
    monkeypatch.setattr(
        plan_command, "QUICK_SCALES", dict.fromkeys(NOISE_LAWS, (2.0, 6.0)) | {"gaussian-128": (0.5, 2.0)}
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words that no two documents share; half of them are what is asked for."""
    path = tmp_path_factory.mktemp("corpus") / "documents.jsonl"
    digests = [hashlib.sha256(f"document {i}".encode()).hexdigest() for i in range(100)]
    texts = [" ".join(digest[at : at + 6] for at in range(0, 48, 6)) for digest in digests]
    lines = [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(texts)]
    path.write_text("\n".join(lines) + "\n")
    return path


def run(corpus: Path, folder: Path, *more: str, returned: Sequence[str] = ("3",)) -> Result:
    own = ["plan", "--corpus", f"jsonl:{corpus}", "--quick", "--no-ticks", "--window", "0.2:0.9"]
    own += [f"--returned={K}" for K in returned]
    return CliRunner().invoke(main, [*own, "--n-max", "6", "--out", str(folder / "plan"), "--json", *more])


def made(corpus: Path, folder: Path, *more: str, returned: Sequence[str] = ("3",)) -> dict[str, Any]:
    done = run(corpus, folder, *more, returned=returned)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- what is chosen --------------------------------------------------------------------------------------------------


def test_every_law_is_compared_and_the_lottery_recommended_where_its_answers_are_best(
    corpus: Path, tmp_path: Path
) -> None:
    found = made(corpus, tmp_path)
    laws = {row["law"] for row in found["frontier"]}
    assert laws == {"gaussian-128", "geometric-16", "one-sided-16", LOTTERY}
    best, noisy = found["recommended"], made(corpus, tmp_path, *(f"--law={law}" for law in NOISE_LAWS))["recommended"]
    assert (best["law"], best["class"], best["prizes"]) == (LOTTERY, "lottery-tiny", 1)
    assert best["return"] <= 6.0
    assert noisy["return"] <= 6.0
    assert best["epsilon"] == noisy["epsilon"] == best["unseen"]
    assert best["ndcg10"] > noisy["ndcg10"]
    other = next(one for one in found["reasons"] if one.startswith("the best law with noise within the same return"))
    assert f"reaches nDCG@10 {noisy['ndcg10']:.3f} +- {noisy['ndcg10_se']:.3f}" in other
    assert f"class {noisy['class']} ({noisy['law']}" in other


def test_laws_with_noise_are_recommended_where_prizes_fill_the_list(corpus: Path, tmp_path: Path) -> None:
    """One place, and in four of ten queries a prize takes it."""
    found = made(corpus, tmp_path, "--return", "12", "--law", LOTTERY, "--law", "one-sided-16", returned=("1",))
    best = found["recommended"]
    assert best["law"] == "one-sided-16"
    other = next(one for one in found["reasons"] if one.startswith("the best lottery within the same return"))
    reached = float(other.split("nDCG@10 ")[1].split()[0])
    assert best["ndcg10"] > reached + 0.1


@pytest.mark.parametrize(("limit", "prizes"), [("6", 1), ("5.4", 2), ("4.5", 3)])
def test_the_fewest_prizes_within_a_return_are_taken(limit: str, prizes: int, corpus: Path, tmp_path: Path) -> None:
    best = made(corpus, tmp_path, "--law", LOTTERY, "--return", limit)["recommended"]
    assert best["prizes"] == prizes
    assert best["return"] == certified_return(TINY.m, prizes, 13, 1) <= float(limit)
    assert prizes == 1 or certified_return(TINY.m, prizes - 1, 13, 1) > float(limit)
    assert best["epsilon"] == best["unseen"]


def test_what_no_number_of_prizes_gives_is_said_with_the_nearest(corpus: Path, tmp_path: Path) -> None:
    found = made(corpus, tmp_path, "--law", LOTTERY, "--return", "4")
    assert found["recommended"] is None
    assert (found["nearest"]["prizes"], upward(found["nearest"]["return"])) == (
        3,
        upward(certified_return(TINY.m, 3, 13, 1)),
    )
    assert any(one.startswith("return 4 CANNOT be met: even the least gain, of the lottery all the prizes,")
               for one in found["reasons"])  # fmt: skip


def test_a_target_of_answers_gets_as_many_prizes_as_reach_it(corpus: Path, tmp_path: Path) -> None:
    points = {row["prizes"]: row for row in made(corpus, tmp_path, "--law", LOTTERY)["frontier"]}
    assert sorted(points) == [1, 3]  # of two scales
    assert points[1]["ndcg10"] > points[3]["ndcg10"]
    assert points[1]["return"] > points[3]["return"]
    few = made(corpus, tmp_path, "--law", LOTTERY, "--ndcg", f"{points[3]['ndcg10'] / 2:.3f}")["recommended"]
    assert few["prizes"] == 3


def test_a_target_of_answers_gets_the_law_of_least_epsilon_and_what_the_other_kind_takes(
    corpus: Path, tmp_path: Path
) -> None:
    found = made(corpus, tmp_path, "--ndcg", "0.6")
    assert (found["recommended"]["law"], found["recommended"]["prizes"]) == (LOTTERY, 3)
    other = next(one for one in found["reasons"] if one.startswith("a law with noise takes return "))
    assert float(other.split()[6]) > found["recommended"]["return"]
    found = made(corpus, tmp_path, "--ndcg", "0.7", "--law", LOTTERY, "--law", "one-sided-16", returned=("1",))
    assert found["recommended"]["law"] == "one-sided-16"
    assert "no lottery that was compared reaches nDCG@10 0.700" in found["reasons"]


# --- under which claim -----------------------------------------------------------------------------------------------


def test_under_every_list_there_is_no_lottery(corpus: Path, tmp_path: Path) -> None:
    refused = run(corpus, tmp_path, "--claim", "every-list", "--law", LOTTERY)
    assert refused.exit_code == 1
    assert "the lottery has no finite epsilon under the claim every-list" in refused.output
    found = made(corpus, tmp_path, "--claim", "every-list")
    assert LOTTERY not in {row["law"] for row in found["frontier"]}
    both = made(corpus, tmp_path, "--claim", "both")
    claims = {row["claim"] for row in both["frontier"] if row["law"] == LOTTERY}
    assert claims == {"until-delivered"}


def test_even_a_planner_that_is_asked_has_no_point_of_it_under_every_list() -> None:
    point = Candidate(Shape(TINY, True), Window.of(0.2, 1.0), 100, Budget(6, 2, Fraction(1, 10**6)), 1)
    assert Planner(_work(), 24, 1).points([point]) == []


@pytest.mark.parametrize("prizes", [0, 4])
def test_prizes_that_the_class_does_not_have_are_refused(prizes: int) -> None:
    """With 0 epsilon would be that of all its prizes, and the answers those without any."""
    budget = Budget(6, 2, Fraction(1, 10**6), 3.0)
    with pytest.raises(PolicyError, match=f"has 3 prizes at most and {prizes} are asked for"):
        Candidate(Shape(TINY, True), Window.of(0.2, 1.0), 100, budget, prizes)
    with pytest.raises(PolicyError, match="has 0 prizes at most and 1 are asked for"):
        Candidate(Shape(SYMMETRIC, True), Window.of(0.2, 1.0), 100, budget, 1)


# --- what is said ----------------------------------------------------------------------------------------------------


def test_what_is_different_is_said_in_words(corpus: Path, tmp_path: Path) -> None:
    found = made(corpus, tmp_path)
    text = " ".join(found["reasons"])
    assert "the lottery has no noise: 1 of 256 values win a prize, so 0.492 slots win a prize on average" in text
    assert "neither the gain, nor the score window, nor the number of queries is part of it" in text
    assert "it bounds one return and nothing of every list" in text
    assert "chance 0: a prize alone hands over no text" in text
    assert "1 document in 20 is not found this period" in text
    few, many = found, made(corpus, tmp_path, "--n-max", "500", "--k-max", "9", "--window", "0.3:0.5")
    assert few["recommended"]["epsilon"] == many["recommended"]["epsilon"]
    noisy = made(corpus, tmp_path, "--law", "geometric-16")
    assert "lottery" not in " ".join(noisy["reasons"])
    page = (tmp_path / "plan" / "plan.html").read_text()
    assert ">prizes</th>" in page


def test_the_table_for_a_terminal_has_prizes_and_no_scale(corpus: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main,
        ["plan", "--corpus", f"jsonl:{corpus}", "--quick", "--no-ticks", "--window", "0.2:0.9", "--returned", "3",
         "--law", LOTTERY, "--out", str(tmp_path / "plan")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    head, row = next(
        (a.split(), b.split()) for a, b in zip(done.output.splitlines(), done.output.splitlines()[1:], strict=False)
        if a.split()[:2] == ["claim", "law"]
    )  # fmt: skip
    assert row[head.index("scale")] == "-"
    assert int(row[head.index("prizes")]) in (1, 2, 3)


def test_a_law_whose_classes_are_too_small_is_left_out_and_said_so() -> None:
    classes = tuple(load_classes().values())
    used = shapes.shapes(classes, PLANNED_LAWS, [50], 10_000)
    assert {shape.cls.law for shape in used} == {"gaussian-128", "one-sided-16"}
    two, said = shapes.left_out(classes, PLANNED_LAWS, used)
    assert two.startswith("geometric-16 noise is left out: its largest class holds 6,808 documents")
    assert said.startswith("the lottery is left out: its largest class holds 5,184 documents")
    assert shapes.left_out(classes, PLANNED_LAWS, shapes.shapes(classes, PLANNED_LAWS, [50], 5000)) == []
    with pytest.raises(ConfigurationError, match="fit no class with the lottery, the largest holds 5184"):
        shapes.shapes(classes, [LOTTERY], [50], 10_000)


def test_where_no_number_of_results_is_given_a_kind_is_taken_that_exists(corpus: Path, tmp_path: Path) -> None:
    """As far as there is one: of Gaussian noise none has 32, of the lottery none has 10."""
    classes = tuple(load_classes().values())
    used = shapes.shapes(classes, PLANNED_LAWS, CoinPlan.returned, 5000)
    kept = shapes.ready(used)
    assert all(shape.available for shape in kept)
    assert [s.cls.K for s in kept if s.cls.law == "gaussian-128"] == [50]
    assert [s.cls.K for s in kept if s.cls.law == LOTTERY] == [32]
    none = [shape for shape in used if not shape.available and shape.cls.law == LOTTERY]
    assert shapes.ready([*none, *kept[:1]]) == [*none, *kept[:1]]  # of a kind without any, what it would be

    def planned(*K: int) -> set[tuple[int, bool]]:
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(CoinPlan, "returned", K)
            rows = made(corpus, tmp_path, "--law", LOTTERY, returned=())["frontier"]
        return {(row["K"], row["class_available"]) for row in rows}

    assert planned(3, 10) == {(3, True)}
    assert planned(10, 32) == {(10, False), (32, False)}


@pytest.mark.parametrize(
    ("documents", "K", "name", "available"),
    [
        (5000, 32, "lottery-small-32", True),
        (5000, 50, "lottery-small-32-k50", False),
        (5000, 128, "lottery-small-32-k128", False),
        (100, 3, "lottery-tiny", True),
    ],
)
def test_of_its_classes_the_fastest_that_holds_the_documents(
    documents: int, K: int, name: str, available: bool
) -> None:
    (shape,) = shapes.shapes(load_classes().values(), [LOTTERY], [K], documents)
    assert (shape.cls.name, shape.available) == (name, available)
    assert isinstance(shape.cls, LotteryClass)
    assert shape.cls.overflow_bound_holds()


def test_numbers_of_prizes_go_from_all_to_one() -> None:
    assert spread(TINY, 6) == [3, 2, 1]
    assert spread(lottery("lottery-small-32"), 2) == [5, 1]
    assert spread(TINY, 1) == [3, 1]
    assert [prizes_of_return(TINY, target, BUDGET) for target in (4.0, 4.5, 5.0, 6.0)] == [0, 3, 2, 1]
    assert planned_law(TINY).usual_gain(700) == 512
    assert planned_law(TINY).usual_gain(200) == 200


# --- what it is worth ------------------------------------------------------------------------------------------------


def _work(queries: int = 200) -> Workload:
    """One document in the middle of the index is relevant and scores 100 above the window's lower end."""
    scores = np.zeros((queries, 64), dtype=np.int32)
    scores[:, 63] = 4100
    return Workload("test", 64, scores, tuple({63: 1} for _ in range(queries)))


@pytest.mark.parametrize("gain", [1, 2, 129])
@pytest.mark.parametrize("prizes", [1, 3])
def test_a_planner_measures_what_the_formula_of_chance_says(gain: int, prizes: int) -> None:
    """Sampled recall against the exact probability, with a gain that leaves the score among the ties, and above."""
    window, draws = Window(4000, 127**2), 20
    point = Candidate(Shape(TINY, True), window, gain, Budget(6, 2, Fraction(1, 10**6)), prizes)
    (found,) = Planner(_work(), 24, draws).qualities([point])
    expected = comes_back(TINY, gain * 100, prizes)
    spread_ = 4.5 * (max(expected * (1 - expected), 1e-3) / (200 * draws)) ** 0.5
    assert found.recall == pytest.approx(expected, abs=spread_)


# --- from a plan to a verdict ----------------------------------------------------------------------------------------


def test_what_is_recommended_is_committed_to_answered_under_and_passed(corpus: Path, tmp_path: Path) -> None:
    best = made(corpus, tmp_path)["recommended"]
    file = tmp_path / "plan" / "policy.toml"
    binding = Binding(TINY, class_digest(TINY), scene.DIMENSION, scene.NOW)
    policy = load_policy(file, binding, assembly.advertised_epsilon)
    assembly.check_promises(policy, TINY)
    assert (policy.prizes(TINY), policy.gain, policy.hi) == (best["prizes"], best["gain"], 127**2)
    promised = delivered_window(policy, TINY, ACCOUNTS, Fraction(policy.delta))
    assert (promised.unseen, promised.returned) == (best["unseen"], best["return"])
    with live(tmp_path, coins=True, kind=scene.ONE_LOTTERY, **tomllib.loads(file.read_text())) as window:
        assert window.window.manifest.policy.table_digest == policy.table_digest
        asked(window)
        verdict = window.audited()
    assert verdict.verdict == "PASS", verdict.line()
    assert f" return={upward(best['return'])} " in verdict.line()
