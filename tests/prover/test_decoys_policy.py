# SPDX-License-Identifier: GPL-3.0-or-later
"""Policies of a lottery's class: what a file may say, what `policy` prints, how often a document comes back."""

from __future__ import annotations

import math
import random
import tomllib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ragseal.accounting.delivered_lottery import certified_return
from ragseal.backends.mechanism import open_engine
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.kernel.lottery_class import LotteryClass
from ragseal.kernel.policy import Policy
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.planning import consent
from ragseal.prover.planning.budgets import Budget, cost
from ragseal.prover.planning.chance import comes_back
from ragseal.prover.planning.defaults import BUDGET, default_policy, policy_text
from ragseal.prover.planning.laws import planned_law
from ragseal.prover.planning.public_score_ranges import PUBLIC_WINDOWS
from ragseal.prover.provider import assembly

CLASSES = load_classes()
PUBLIC = next(iter(PUBLIC_WINDOWS.values()))
DIMENSION = 384


def lottery(name: str) -> LotteryClass:
    cls = CLASSES[name]
    assert isinstance(cls, LotteryClass)
    return cls


def read(name: str = "lottery-tiny", **changes: Any) -> Policy:
    cls = CLASSES[name]
    values = {
        "class": name, "claim": "until-delivered", "unseen": 3, "lo": 0.3, "hi": 0.6, "gain": 100, "n_max": 6,
        "k_max": 2, "delta": "1/1000000",
    }  # fmt: skip
    binding = Binding(cls, class_digest(cls), DIMENSION, 1_800_000_000)
    return read_policy({**values, **changes}, binding, assembly.advertised_epsilon)


def test_a_policy_has_the_class_s_prizes_or_fewer() -> None:
    tiny = lottery("lottery-tiny")
    assert [read(**given).prizes(tiny) for given in ({}, {"prizes": 1}, {"prizes": 3})] == [3, 1, 3]
    few, many = read(prizes=1), read(prizes=3)
    assert few.epsilon_account == many.epsilon_account, "epsilon is unseen, which no number of prizes changes"


@pytest.mark.parametrize(
    ("name", "changes", "why"),
    [
        ("lottery-tiny", {"prizes": 0}, "takes 1 to 3 prizes, not 0"),
        ("lottery-tiny", {"prizes": 4}, "takes 1 to 3 prizes, not 4"),
        ("lottery-tiny", {"prizes": "2"}, "prizes"),
        ("noise-tiny-one", {"prizes": 2}, "prizes belong to the law lottery"),
        ("lottery-tiny", {"claim": "every-list", "unseen": None}, "bounds one return and nothing else"),
        ("lottery-tiny", {"gain": 10**6}, "use gain <= "),
        ("lottery-tiny", {"n_max": 10**9}, "refusals of 1000000000000 queries alone take"),
    ],
)
def test_what_a_policy_of_the_lottery_cannot_say(name: str, changes: dict[str, Any], why: str) -> None:
    kept = {key: value for key, value in changes.items() if value is not None}
    if "unseen" in changes:
        with pytest.raises(PolicyError, match=why):
            _without_coin(name, kept)
        return
    with pytest.raises(PolicyError, match=why):
        read(name, **kept, **({"delta": "1/1000000000000"} if "n_max" in kept else {}))


def _without_coin(name: str, changes: dict[str, Any]) -> Policy:
    cls = CLASSES[name]
    values = {
        "class": name, "lo": 0.3, "hi": 0.6, "gain": 100, "n_max": 6, "k_max": 2, "delta": "1/1000000", **changes
    }  # fmt: skip
    binding = Binding(cls, class_digest(cls), DIMENSION, 1_800_000_000)
    return read_policy(values, binding, assembly.advertised_epsilon)


def test_an_advertised_epsilon_is_held_against_unseen_and_not_against_the_return() -> None:
    tiny = lottery("lottery-tiny")
    policy = read(prizes=2, epsilon_account="3")
    assert certified_return(8, 2, policy.hidden, 1) > 4.5
    assembly.check_promises(policy, tiny)
    with pytest.raises(PolicyError, match=r"which is unseen 2\.98023"):
        assembly.check_promises(read(prizes=2, epsilon_account="2.9"), tiny)


@pytest.mark.parametrize("name", ["lottery-tiny", "lottery-small-32"])
@pytest.mark.parametrize("public", [PUBLIC, None])
def test_the_default_can_be_committed_to(name: str, public: Any) -> None:
    cls = lottery(name)
    made = default_policy(cls, DIMENSION, public)
    assert made.delivered.returned == certified_return(cls.m, cls.prizes, BUDGET.hidden, 1) <= 6
    text = policy_text(cls, DIMENSION, "some", public)
    values = tomllib.loads(text)
    assert values["prizes"] == cls.prizes
    binding = Binding(cls, class_digest(cls), DIMENSION, 1_800_000_000)
    policy = read_policy(values, binding, assembly.advertised_epsilon)
    assembly.check_promises(policy, cls)
    assert policy.gain % (1 << cls.m) == 0 or policy.gain < 1 << cls.m
    said = consent.terms(policy, cls, {"epsilon": made.delivered.epsilon})
    assert said["comes_back"][0]["share"] == pytest.approx(made.at_hi)
    if name == "lottery-small-32" and public:
        assert policy.gain == 1782
        assert (policy.lo, policy.hi) == (round(0.3 * 127**2), 127**2)  # what nothing is paid for is not cut off
        assert made.at_hi > 0.94


@pytest.mark.parametrize(
    ("name", "prizes", "mean", "crowded"),
    [
        ("lottery-small-32", 5, 12.66, 0.0056),
        ("lottery-tiny", 3, 1.477, 0.7735),
    ],
)
def test_commit_says_how_many_results_prizes_take(name: str, prizes: int, mean: float, crowded: float) -> None:
    """By another sum of the binomial law; of a class with fewer than ten results, whether one comes at all."""
    cls = lottery(name)
    policy = read(name, lo=0.0, hi=0.5, gain=1, prizes=prizes)
    said = consent.terms(policy, cls, {"epsilon": 1.0})
    p, least = prizes / (1 << cls.m), max(0, cls.K - 10) + 1
    exact = 1 - sum(math.comb(cls.N, k) * p**k * (1 - p) ** (cls.N - k) for k in range(least))
    assert said["prizes"]["mean"] == pytest.approx(mean, rel=1e-3)
    assert said["prizes"]["crowded"] == pytest.approx(exact, rel=1e-9)
    assert exact == pytest.approx(crowded, rel=0.02)
    (line,) = [one for one in consent.lines(said, policy, cls) if "prize" in one]
    assert line.startswith(f"{mean:.3g} slots win a prize on average")
    assert line.endswith(f"in {exact:.1%} of all queries fewer than {min(10, cls.K)} places are left to scores")


def test_no_gain_has_a_smaller_return_and_no_class_an_epsilon_of_every_list() -> None:
    cls = lottery("lottery-small-32")
    assert planned_law(cls).gain_of_return(4000, 8000, 5.9, BUDGET) == 0
    assert planned_law(cls).gain_of_return(4000, 8000, 6.0, BUDGET) == cls.room
    assert math.isinf(cost(cls, 4000, 8000, 9, Budget(25, 2, Fraction(1, 10**6))).epsilon)
    assert cost(cls, 4000, 8000, 1, BUDGET) == cost(cls, 4000, 8000, 9, BUDGET)


def test_a_planner_that_asks_for_noise_gets_no_lottery() -> None:
    with pytest.raises(ConfigurationError, match="no circuit class"):
        assembly.circuit_class("lottery")
    assert assembly.circuit_class("lottery-small-32") == lottery("lottery-small-32")


@pytest.mark.parametrize("signal", [0, 100, 255, 5000])
@pytest.mark.parametrize("prizes", [1, 3])
def test_how_often_a_document_comes_back_is_what_the_mechanism_does(signal: int, prizes: int) -> None:
    cls, rng = lottery("lottery-tiny"), random.Random(signal + prizes)
    w, engine = np.zeros(cls.N, dtype=np.int64), open_engine(cls)
    w[63] = signal
    draws = 1500
    answers = (engine.answer(rng.getrandbits(200), w, 1 << 14, prizes) for _ in range(draws))
    hits = sum(any(one.slot == 63 for one in answer) for answer in answers)
    expected = comes_back(cls, signal, prizes)
    assert hits / draws == pytest.approx(expected, abs=4.5 * math.sqrt(max(expected * (1 - expected), 1e-3) / draws))
    if not signal:
        assert expected == pytest.approx(cls.K / cls.N, rel=0.02)
