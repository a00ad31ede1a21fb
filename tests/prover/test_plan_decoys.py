# SPDX-License-Identifier: GPL-3.0-or-later
"""ragseal-provider plan and decoys, compared only under the claim that they are proven for.

What is recommended is committed to, answered under and audited.
"""

from __future__ import annotations

import hashlib
import json
import math
import tomllib
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ragseal.accounting.decoys_curve import ids_needed, least_by_chance, return_of_ids
from ragseal.accounting.delivered_decoys import Lists, by_chance, refused
from ragseal.accounting.delivered_period import delivered_window
from ragseal.accounting.rounding import upward
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.circuits.sizes import size_for
from ragseal.kernel.decoys.table import DECOYS
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.kernel.params import NOISE_LAWS
from ragseal.prover.__main__ import main
from ragseal.prover.cli import plan_command
from ragseal.prover.commitment.policy_file import Binding, load_policy
from ragseal.prover.planning import plan, shapes
from ragseal.prover.planning.budgets import ACCOUNTS, Budget
from ragseal.prover.planning.candidates import COSINE_ONE, Candidate, Shape, Sizes, Window
from ragseal.prover.planning.chance import at
from ragseal.prover.planning.frontier import Planner
from ragseal.prover.planning.laws import PLANNED_LAWS, planned_law
from ragseal.prover.planning.laws.decoys import STEPS, DecoysPlan
from ragseal.prover.planning.workload import Workload
from ragseal.prover.provider import assembly
from tests.classes import DECOYS as TINY
from tests.simulator import provider as scene

pytestmark = pytest.mark.slow

CLASSES = load_classes()
BUDGET = Budget(25, 2, Fraction(1, 10**6), 3.0)
DOCUMENTS, SHARDS = 100, 3  #: in the tiny class, with head-room


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """The tests' small embedder, and the tiny classes alone: larger ones take seconds a point."""
    monkeypatch.setattr(plan, "load_embedder", lambda name: scene.TrigramEmbedder())
    tiny = {name: cls for name, cls in load_classes().items() if "tiny" in name}
    monkeypatch.setattr(plan, "load_classes", lambda: tiny)
    monkeypatch.setattr(
        plan_command,
        "QUICK_SCALES",
        dict.fromkeys(NOISE_LAWS, (2.0, 6.0)) | {"gaussian-512": (0.5, 2.0), DECOYS: (5.0, 7.0)},
    )


@pytest.fixture(scope="module")
def corpus(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Words that no two documents share; half of them are what is asked for."""
    path = tmp_path_factory.mktemp("corpus") / "documents.jsonl"
    digests = [hashlib.sha256(f"document {i}".encode()).hexdigest() for i in range(DOCUMENTS)]
    texts = [" ".join(digest[at : at + 6] for at in range(0, 48, 6)) for digest in digests]
    lines = [json.dumps({"id": f"d{i}", "text": text}) for i, text in enumerate(texts)]
    path.write_text("\n".join(lines) + "\n")
    return path


def run(corpus: Path, folder: Path, *more: str, returned: Sequence[str] = ()) -> Result:
    own = ["plan", "--corpus", f"jsonl:{corpus}", "--quick", "--no-ticks", "--window", "0.2:0.9"]
    own += [f"--returned={K}" for K in returned]
    return CliRunner().invoke(main, [*own, "--n-max", "6", "--out", str(folder / "plan"), "--json", *more])


def made(corpus: Path, folder: Path, *more: str, returned: Sequence[str] = ()) -> dict[str, Any]:
    done = run(corpus, folder, *more, returned=returned)
    assert done.exit_code == 0, done.output
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


# --- what is chosen --------------------------------------------------------------------------------------------------


def test_under_until_delivered_decoys_alone_are_compared(corpus: Path, tmp_path: Path) -> None:
    found = made(corpus, tmp_path, returned=("3",))
    assert {row["law"] for row in found["frontier"]} == {DECOYS}
    best = found["recommended"]
    assert (best["law"], best["class"], best["K"], best["shards"]) == (DECOYS, "decoys-tiny", 3, SHARDS)
    assert best["return"] <= 6.0
    assert best["epsilon"] == best["unseen"]


@pytest.mark.parametrize("limit", ["5", "6", "6.5"])
def test_the_return_asked_for_is_taken_with_ids_for_ten_results(limit: str, corpus: Path, tmp_path: Path) -> None:
    best = made(corpus, tmp_path, "--law", DECOYS, "--return", limit)["recommended"]
    slots = SHARDS * TINY.N
    assert float(limit) - 1e-3 < best["return"] <= float(limit)
    assert best["K"] == ids_needed(slots, float(limit), 13, 10)
    assert best["decoys"] == pytest.approx(least_by_chance(slots, best["return"], 13), rel=0.01)
    assert best["results_least"] == 10
    assert best["results_mean"] == pytest.approx(best["K"] - best["decoys"], rel=1e-3)
    assert "ids" not in tomllib.loads(best["policy"]), "they follow from the return and the size of the index"
    assert "class" not in tomllib.loads(best["policy"])
    assert tomllib.loads(best["policy"])["return"] == float(limit)
    more = made(corpus, tmp_path, "--law", DECOYS, "--return", limit, "--results", "15")["recommended"]
    assert more["K"] == ids_needed(slots, float(limit), 13, 15) == tomllib.loads(more["policy"])["ids"]


def test_what_a_class_has_no_room_for_is_said_with_the_nearest(corpus: Path, tmp_path: Path) -> None:
    found = made(corpus, tmp_path, "--law", DECOYS, "--return", "1.5")
    assert found["recommended"] is None
    least = found["nearest"]["return"]
    assert any(
        one.startswith("return 1.5 CANNOT be met: even as many decoys as a class has room for exceeds it")
        for one in found["reasons"]
    )
    # One step of the dial less does not fit.
    place = math.ceil(least * STEPS - 1e-6)
    (shape,) = DecoysPlan.shapes([TINY], Sizes(), DOCUMENTS)
    dial = DecoysPlan(TINY).dial(shape, Window.of(0.2, 0.9), BUDGET, 24)
    assert dial.least == place
    with pytest.raises(PolicyError):
        dial.at(place - 1)


def test_a_target_of_answers_gets_the_least_return_that_reaches_it(corpus: Path, tmp_path: Path) -> None:
    found = made(corpus, tmp_path, "--law", DECOYS, "--ndcg", "0.5")
    least = DecoysPlan(TINY).dial(
        DecoysPlan.shapes([TINY], Sizes(), DOCUMENTS)[0], Window.of(0.2, 0.9), BUDGET, 24
    ).least  # fmt: skip
    assert found["recommended"]["return"] == pytest.approx(least / STEPS, abs=0.02 * least / STEPS)
    assert made(corpus, tmp_path, "--law", DECOYS, "--ndcg", "0.999")["recommended"] is None, "what the coin hides"


# --- under which claim -----------------------------------------------------------------------------------------------


def test_under_every_list_there_are_no_decoys(corpus: Path, tmp_path: Path) -> None:
    refused = run(corpus, tmp_path, "--claim", "every-list", "--law", DECOYS)
    assert refused.exit_code == 1
    assert "the law decoys bounds nothing under the claim every-list" in refused.output
    both = made(corpus, tmp_path, "--claim", "both", returned=("3",))
    assert {row["claim"] for row in both["frontier"] if row["law"] == DECOYS} == {"until-delivered"}


def test_even_a_planner_that_is_asked_has_no_point_of_it_under_every_list() -> None:
    shape, window = Shape(TINY, True, 0), Window.of(0.2, 1.0)
    no_coin = replace(BUDGET, unseen=None)
    assert DecoysPlan(TINY).dial(shape, window, no_coin, 24).most < STEPS
    assert Planner(_work(), 24, 1).points([Candidate(shape, Window(3000, 3001), 1, no_coin, 9, 1 << 16, 6.0)]) == []


# --- what is said ----------------------------------------------------------------------------------------------------


def test_what_is_different_is_said_in_words(corpus: Path, tmp_path: Path) -> None:
    found = made(corpus, tmp_path, returned=("12",))
    text, best = " ".join(found["reasons"]), found["recommended"]
    assert best["law"] == DECOYS
    assert f"answers are exact: {best['decoys']:.3g} ids of a list are decoys on average" in text
    assert f"of 12 ids {best['results_mean']:.3g} are left to results on average, and {best['results_least']}" in text
    assert "class decoys-tiny holds 180 slots in 3 shards, with head-room" in text
    assert "a question that none matches gets decoys without a text" in text
    slots = SHARDS * TINY.N
    assert f"no law lists fewer than {least_by_chance(slots, 6, 13):.3g} ids by chance on average" in text
    needed = [f"{ids_needed(slots, one, 13, 10)} at return {one}" for one in (5, 6, 7)]
    assert f"for 10 results but once in 2^20 lists, a list needs {', '.join(needed)} ids" in text
    assert f"; 12 ids have them from return {return_of_ids(slots, 12, 13, 10):.2f} on" in text
    assert f"A query is refused with probability {float(refused(TINY.elements, SHARDS)):.1g}, whatever the data" in text
    assert "it bounds one return and nothing of every list" in text
    assert "1 document in 20 is not found this period" in text
    many = made(
        corpus, tmp_path, "--law", DECOYS, "--n-max", "500", "--k-max", "9", "--window", "0.3:0.5", returned=("12",)
    )
    assert best["epsilon"] == many["recommended"]["epsilon"]
    assert best["return"] == many["recommended"]["return"]
    made(corpus, tmp_path, returned=("3",))
    assert ">places for results</th>" in (tmp_path / "plan" / "plan.html").read_text()


def test_the_table_for_a_terminal_has_decoys_and_no_gain(corpus: Path, tmp_path: Path) -> None:
    done = CliRunner().invoke(
        main,
        ["plan", "--corpus", f"jsonl:{corpus}", "--quick", "--no-ticks", "--window", "0.2:0.9", "--law", DECOYS,
         "--out", str(tmp_path / "plan")],
    )  # fmt: skip
    assert done.exit_code == 0, done.output
    head, row = next(
        (a.split(), b.replace("above ", "above_").split()) for a, b in
        zip(done.output.splitlines(), done.output.splitlines()[1:], strict=False) if a.split()[:2] == ["claim", "law"]
    )  # fmt: skip
    assert (row[head.index("scale")], row[-1], row[head.index("window")]) == ("-", "-", "above_0.2")
    assert 0 < float(row[head.index("decoys")]) < 5


# --- classes ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("documents", [100, 3276, 3277, 13_000, 60_000, 200_000])
def test_the_class_is_the_one_that_an_index_of_so_many_documents_gets(documents: int) -> None:
    (shape,) = shapes.shapes(CLASSES.values(), [DECOYS], Sizes(), documents)
    assert (shape.cls, shape.shards) == size_for(documents)
    assert shape.available
    assert (shape.ids, shape.most) == (0, 10)


def test_so_many_ids_as_no_list_has_are_refused_and_too_many_documents_said() -> None:
    found = shapes.shapes(CLASSES.values(), [DECOYS], Sizes([20, 50]), 5000)
    assert [(one.ids, one.most) for one in found] == [(20, 20), (50, 50)]
    with pytest.raises(ConfigurationError, match="returns 416 ids, not 417"):
        shapes.shapes(CLASSES.values(), [DECOYS], Sizes([417]), 5000)
    tiny = [cls for cls in CLASSES.values() if "tiny" in cls.name]
    with pytest.raises(ConfigurationError, match="fit no class with decoys, the largest holds 144"):
        shapes.shapes(tiny, [DECOYS], Sizes(), 145)
    used = shapes.shapes(tiny, PLANNED_LAWS, Sizes([3]), 140)
    assert {one.cls.law for one in used} == {DECOYS}
    said = shapes.left_out(tiny, PLANNED_LAWS, used)
    assert any(one.startswith("geometric-16 noise is left out: its largest class holds 126 documents") for one in said)


# --- what it is worth ------------------------------------------------------------------------------------------------


def _work(queries: int = 200) -> Workload:
    """One document in the middle of the index is relevant and scores 100 above lo; three others are above it."""
    scores = np.zeros((queries, 64), dtype=np.int32)
    scores[:, 40] = 4100
    return Workload("test", 64, scores, tuple({40: 1} for _ in range(queries)))


@pytest.mark.parametrize("ids", [2, 5])
def test_a_planner_measures_what_the_formula_of_chance_says(ids: int) -> None:
    """Sampled recall against the exact probability that no more than K others are drawn, the coin included."""
    shape, window, draws, rate = Shape(TINY, True, ids, shards=2), Window(4000, 4001), 20, 2 << 16
    point = Candidate(shape, window, 1, BUDGET, ids, rate, 6.0)
    (found,) = Planner(_work(), 24, draws).qualities([point])
    (free,) = Planner(_work(), 24, draws).qualities([replace(point, budget=replace(BUDGET, unseen=None))])
    policy = BUDGET.draft(TINY, 24, replace(point.terms, decoy_rate=1 << 16))
    policy = replace(policy, decoy_rate=rate)
    expected = planned_law(TINY).comes_back(policy, 4100)
    assert free.recall == pytest.approx(expected, abs=4.5 * (expected * (1 - expected) / (200 * draws)) ** 0.5 + 1e-3)
    assert found.recall < free.recall + 1e-9
    assert at(policy, TINY, 4100) == pytest.approx((1 - 13 / 256) * expected)
    drawn = by_chance(Lists(TINY.N, ids, rate, 2)).drawn
    assert planned_law(TINY).comes_back(policy, 4000) == drawn < expected


def test_scores_gain_and_window_s_end_change_nothing() -> None:
    (shape,) = DecoysPlan.shapes([TINY], Sizes(), DOCUMENTS)
    one, two = (
        DecoysPlan(TINY).dial(shape, Window.of(0.2, hi), BUDGET, lambda _, gain=gain: gain)  # type: ignore[misc]
        for hi, gain in ((0.4, 1), (1.0, 1000))
    )
    assert one == two
    assert one.window == Window(round(0.2 * COSINE_ONE), round(0.2 * COSINE_ONE) + 1)
    assert one.at(600).terms == replace(two.at(600).terms)
    assert [one.of_return(target) for target in (5.999, 6.0, 6.004, 99.0)] == [599, 600, 600, one.most]
    assert one.place_of(one.at(653)) == 653


# --- from a plan to a verdict ----------------------------------------------------------------------------------------


def test_what_is_recommended_is_committed_to_as_an_auditor_counts_it(corpus: Path, tmp_path: Path) -> None:
    best = made(corpus, tmp_path, "--law", DECOYS)["recommended"]
    binding = Binding(TINY, class_digest(TINY), scene.DIMENSION, scene.NOW, shards=SHARDS)
    policy = load_policy(tmp_path / "plan" / "policy.toml", binding, assembly.advertised_epsilon)
    assembly.check_promises(policy, TINY)
    assert (policy.ids, policy.lo, policy.hi, policy.gain) == (best["K"], best["lo"], best["lo"] + 1, 1)
    promised = delivered_window(policy, TINY, ACCOUNTS, Fraction(policy.delta))
    assert (promised.unseen, promised.returned) == (best["unseen"], best["return"])
    assert upward(promised.returned) == upward(best["return"])
