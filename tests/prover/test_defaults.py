# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy that a new provider gets: it retrieves, says what that costs, and is committed to only on purpose."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ragseal.accounting.delivered_words import return_in_words
from ragseal.accounting.guess import best_guess
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.demo.corpus import demo_documents, demo_queries
from ragseal.embedder import load_embedder, quantise
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.errors import ConfigurationError, PolicyError
from ragseal.kernel.noise import build_table, scale_of
from ragseal.kernel.noise_class import NoiseClass, with_noise
from ragseal.kernel.policy import EVERY_LIST, UNTIL_DELIVERED, Policy
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.planning import consent
from ragseal.prover.planning.chance import at, comes_back
from ragseal.prover.planning.defaults import BUDGET, default_policy, policy_text
from ragseal.prover.planning.public_score_ranges import PUBLIC_WINDOWS, public_window
from ragseal.prover.planning.quality import DecoysMeasurement, Setting, TableSampler, largest_slots
from ragseal.prover.planning.spending import spending
from ragseal.prover.planning.workload import Workload
from ragseal.prover.provider import assembly
from tests.classes import DECOYS, TINY

pytestmark = pytest.mark.slow

CLASSES: dict[str, AttestationClass] = load_classes()
PUBLIC = next(iter(PUBLIC_WINDOWS.values()))
DIMENSION = 384


@pytest.mark.parametrize(
    "name", ["noise-tiny-two", "noise-tiny-gaussian", "noise-small-gaussian-50", "noise-small-two-50"]
)
@pytest.mark.parametrize("scale", [0.0, 1.5, 3.7, 9.0])
def test_how_often_a_document_comes_back_is_what_the_mechanism_does(name: str, scale: float) -> None:
    """Against the served mechanism itself: noise of every slot, the K largest."""
    cls, table = with_noise(CLASSES[name]), build_table(CLASSES[name].law)
    draws = 4000 if cls.N < 1000 else 1500
    signal = round(scale * (scale_of(cls.law) << cls.step_bits)) + 7  # between table steps
    rng, sampler = np.random.default_rng(11), TableSampler(table)
    hits, middle = 0, cls.N // 2
    for _ in range(10):
        shape = (draws // 10, cls.N)
        v = sampler.draw(rng, shape).astype(np.int64) << cls.step_bits
        v[:, middle] += signal >> cls.step_bits << cls.step_bits
        hits += int((largest_slots(v, cls.K) == middle).any(axis=1).sum())
    expected = comes_back(cls, signal)
    assert expected == comes_back(cls, signal | ((1 << cls.step_bits) - 1))  # whole steps
    error = np.sqrt(max(expected * (1 - expected), 1e-3) / draws)
    assert hits / draws == pytest.approx(expected, abs=4.5 * error)
    if not scale:
        assert expected == pytest.approx(cls.K / cls.N, rel=0.01)  # one slot like all others


def test_the_more_gain_the_more_often() -> None:
    for cls in CLASSES.values():
        if not isinstance(cls, NoiseClass):
            continue  # no gain: test_decoys_policy.py
        unit = scale_of(cls.law) << cls.step_bits
        found = [comes_back(cls, round(unit * x / 4)) for x in range(60)]
        assert all(0 <= a <= b + 1e-12 <= 1 + 1e-9 for a, b in itertools.pairwise(found)), cls.name


def test_the_coin_keeps_its_share_of_documents_from_coming_back() -> None:
    policy, more = _coined(), _coined(unseen=2)
    shares = [(1 - one.hidden / 256) for one in (policy, more)]
    assert at(more, DECOYS, policy.hi) / shares[1] == pytest.approx(at(policy, DECOYS, policy.hi) / shares[0], rel=0.01)


def test_what_a_class_with_noise_gets_is_a_way_out() -> None:
    with pytest.raises(ConfigurationError, match=r"under the claim until-delivered .*--claim every-list"):
        policy_text(TINY, DIMENSION, "some", PUBLIC)


def test_what_a_return_bounds() -> None:
    said = return_in_words(6.0)
    assert "is returned at most 404 times as often as that of an empty slot" in said
    assert "no promise about reading" in said
    assert "not bounded" in return_in_words(math.inf)


def _policy(**changes: Any) -> Policy:
    cls = TINY
    values = {
        "class": TINY.name, "claim": EVERY_LIST, "lo": 0.3, "hi": 0.5, "gain": 10, "n_max": 5, "k_max": 2,
        "delta": "1/1000000",
    }  # fmt: skip
    binding = Binding(cls, class_digest(cls), DIMENSION, 1_800_000_000)
    return read_policy({**values, **changes}, binding, assembly.advertised_epsilon)


def test_a_large_epsilon_needs_its_number() -> None:
    policy, cls = _policy(), TINY
    for epsilon, given, passes in (
        (19.9, None, True),
        (20.0, None, True),
        (20.00001, None, False),
        (614.2571, 614.257, False),
        (614.2571, 614.258, True),
        (614.2571, 1e9, True),
        (614.2571, float("nan"), False),
        ("inf", 1e300, False),
        ("inf", float("inf"), True),
        (None, None, False),
    ):
        values = consent.terms(policy, cls, {} if epsilon is None else {"epsilon": epsilon})
        if passes:
            consent.require(values, given)
            continue
        with pytest.raises(PolicyError, match="--yes-epsilon-is") as caught:
            consent.require(values, given)
        if epsilon == 614.2571:
            assert "--yes-epsilon-is 614.258" in str(caught.value)
            assert "100 %" in str(caught.value)


def test_terms_are_those_of_the_policy() -> None:
    policy, cls = _policy(gain=30), TINY
    found = consent.terms(policy, cls, {"epsilon": 2.0})
    assert found["attacker_guess"]["coalition"] == best_guess(2.0, 1e-6)
    assert found["attacker_guess"]["account"] == best_guess(float(Fraction(policy.epsilon_account)), 1e-6)
    hi, middle = found["comes_back"]
    assert (hi["cosine"], middle["cosine"]) == (0.5, 0.4)
    assert hi["share"] == at(policy, cls, policy.hi) == at(policy, cls, 16129) > middle["share"]
    assert at(policy, cls, 0) == at(policy, cls, policy.lo) == pytest.approx(cls.K / cls.N, rel=0.01)
    text = " ".join(consent.lines(found, policy, cls))
    assert "88.1 %" in text  # e^2 / (1 + e^2), rounded up
    assert "at cosine 0.5 or above comes back" in text


def _coined(**changes: Any) -> Policy:
    values = {"claim": UNTIL_DELIVERED, "unseen": 3, "lo": 0.3, "ids": 6, "return": 5, "n_max": 5, "k_max": 2,
              "delta": "1/1000000"}  # fmt: skip
    binding = Binding(DECOYS, class_digest(DECOYS), DIMENSION, 1_800_000_000)
    return read_policy({**values, **changes}, binding, assembly.advertised_epsilon)


def test_terms_of_until_delivered_say_unseen_return_and_what_is_hidden() -> None:
    policy, cls = _coined(), DECOYS
    spent = spending([], lambda name: CLASSES[name], policy, accounts=7)
    assert spent["queries"] == 7 * policy.n_max
    found = consent.terms(policy, cls, spent)
    assert found["unseen"] == pytest.approx(math.log(256 / 13))
    assert found["epsilon"] == found["unseen"] < found["return"]
    assert found["hidden_share"] == 13 / 256
    assert found["presence_odds"] == (95.2, 4.8)
    assert "attacker_guess" not in found
    text = " ".join(consent.lines(found, policy, cls))
    for said in ("above cosine 0.3 comes back", "1 document in 20 is not found", "may become 95.2 % sure",
                 "return ", "chance 0: a draw alone"):  # fmt: skip
        assert said in text


def test_a_large_epsilon_of_until_delivered_needs_its_number_too() -> None:
    policy, cls = _coined(), DECOYS
    spent = {
        "epsilon": 20.9,
        "unseen": 20.9,
        "return": 6.0,
        "chance": 0.0,
        "listed_once": 0.02,
        "listed_by_chance": 0.1,
    }
    values = consent.terms(policy, cls, spent)
    with pytest.raises(PolicyError, match=r"which is unseen, is 20.9: .*--yes-epsilon-is 20.9"):
        consent.require(values, None)
    consent.require(values, 20.9)
    consent.require(consent.terms(policy, cls, {**spent, "epsilon": 20.0}), None)
    consent.require(consent.terms(policy, cls, {**spent, "epsilon": 2.0, "unseen": 2.0, "return": 25.0}), None)
    with pytest.raises(PolicyError, match=r"no epsilon follows for this budget period .because of that."):
        consent.require(consent.terms(policy, cls, {"error": "because of that"}), 1e9, "because of that")


@pytest.mark.long
def test_real_questions_are_answered_with_the_default_policy() -> None:
    """The demo's corpus and questions with the packaged embedder: the best text comes back, coin and flags included."""
    embedder = load_embedder("minilm")
    public = public_window(embedder.identity().digest())
    assert public is not None
    documents = demo_documents()["systems"]
    texts = [query.text for query in demo_queries() if query.tenant == "systems"]
    asked = quantise(embedder.embed(texts, role="query")).astype(np.int32)
    rows = quantise(embedder.embed([document.text for document in documents])).astype(np.int32)
    scores = asked @ rows.T
    work = Workload("demo", len(documents), scores, tuple({int(row.argmax()): 1} for row in scores))
    cls = CLASSES["decoys-4k"]
    chosen = default_policy(cls, embedder.dimension, public).chosen
    measure = DecoysMeasurement(work, cls.N, cls.N, 20, 5)
    setting = Setting(chosen.window.lo, chosen.window.hi, 1, chosen.ids, BUDGET.hidden, chosen.decoy_rate)
    assert measure.quality([setting])[0].top1 > 0.85  # a floor, not an aim: this tenant is the harder one
