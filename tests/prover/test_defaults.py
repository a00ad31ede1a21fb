# SPDX-License-Identifier: GPL-3.0-or-later
"""The policy that a new provider gets: it retrieves, says what that costs, and is committed to only on purpose."""

from __future__ import annotations

import itertools
import math
import re
import tomllib
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from ragseal.accounting.guess import best_guess
from ragseal.circuits.circuit import class_digest, load_classes
from ragseal.demo.corpus import demo_documents, demo_queries
from ragseal.embedder import load_embedder, quantise
from ragseal.kernel.errors import PolicyError
from ragseal.kernel.noise import build_table
from ragseal.kernel.policy import Policy
from ragseal.prover import assembly
from ragseal.prover.commitment import consent
from ragseal.prover.commitment.policy_file import Binding, read_policy
from ragseal.prover.planning.chance import at, comes_back
from ragseal.prover.planning.defaults import DELTA, K_MAX, N_MAX, USEFUL, aim, default_policy, policy_text
from ragseal.prover.planning.frontier import Budget, audited
from ragseal.prover.planning.public_score_ranges import PUBLIC_WINDOWS, public_window
from ragseal.prover.planning.quality import TableSampler, clipped, largest_slots

CLASSES = load_classes()
PUBLIC = next(iter(PUBLIC_WINDOWS.values()))
DIMENSION = 384


@pytest.mark.parametrize("name", ["tiny", "tiny-geo", "small", "small-geo"])
@pytest.mark.parametrize("scale", [0.0, 1.5, 3.7, 9.0])
def test_how_often_a_document_comes_back_is_what_the_mechanism_does(name: str, scale: float) -> None:
    """Against the served mechanism itself: noise and dither of every slot, the K largest."""
    cls, table = CLASSES[name], build_table(CLASSES[name].law)
    draws = 4000 if cls.N < 1000 else 1500
    signal = round(scale * ({"gaussian": 256, "geometric": 32}[cls.law] << cls.s)) + 7  # between table steps
    rng, sampler = np.random.default_rng(11), TableSampler(table)
    hits = 0
    for _ in range(10):
        shape = (draws // 10, cls.N)
        v = (sampler.draw(rng, shape).astype(np.int64) << cls.s) + rng.integers(0, 1 << cls.s, shape)
        v[:, 5] += signal
        hits += int((largest_slots(v, cls.K) == 5).any(axis=1).sum())
    expected = comes_back(cls, signal)
    error = np.sqrt(max(expected * (1 - expected), 1e-3) / draws)
    assert hits / draws == pytest.approx(expected, abs=4.5 * error)
    if not scale:
        assert expected == pytest.approx(cls.K / cls.N, rel=0.01)  # one slot like all others


def test_the_more_gain_the_more_often() -> None:
    for cls in CLASSES.values():
        unit = {"gaussian": 256, "geometric": 32}[cls.law] << cls.s
        found = [comes_back(cls, round(unit * x / 4)) for x in range(60)]
        assert all(0 <= a <= b + 1e-12 <= 1 + 1e-9 for a, b in itertools.pairwise(found)), cls.name


@pytest.mark.parametrize("name", ["tiny", "small", "base-geo"])
@pytest.mark.parametrize("public", [PUBLIC, None])
def test_the_default_is_the_least_gain_that_is_useful_and_a_policy_that_can_be_committed_to(
    name: str, public: Any
) -> None:
    cls = CLASSES[name]
    made = default_policy(cls, DIMENSION, public)
    wanted = aim(made.window, public) - made.window.lo
    if comes_back(cls, made.gain * wanted) < USEFUL:  # more has no epsilon
        assert not math.isfinite(audited(cls, made.window, made.gain + 1, Budget(N_MAX, K_MAX, DELTA)))
    if made.gain > 1:
        assert comes_back(cls, (made.gain - 1) * wanted) < USEFUL
    text = policy_text(cls, DIMENSION, "some", public)
    values = tomllib.loads(text)
    policy = read_policy(values, Binding(cls, class_digest(cls), DIMENSION, 1_800_000_000), assembly.advertised_epsilon)
    assembly.check_promises(policy, cls)
    said = consent.terms(policy, cls, {"epsilon": made.epsilon})
    assert said["comes_back"][0]["share"] == pytest.approx(made.at_hi)
    assert f"comes back in {made.at_hi:.0%}" in text  # the file's own comments
    assert re.search(r"reach epsilon\s+#? ?[\d.]+", text)
    assert max(map(len, text.splitlines())) <= 180


def _policy(**changes: Any) -> Policy:
    cls = CLASSES["tiny"]
    values = {"class": "tiny", "lo": 0.3, "hi": 0.5, "gain": 1, "n_max": 5, "k_max": 2, "delta": "1/1000000"}
    binding = Binding(cls, class_digest(cls), DIMENSION, 1_800_000_000)
    return read_policy({**values, **changes}, binding, assembly.advertised_epsilon)


def test_a_large_epsilon_needs_its_number() -> None:
    policy, cls = _policy(), CLASSES["tiny"]
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
    policy, cls = _policy(gain=3), CLASSES["tiny"]
    found = consent.terms(policy, cls, {"epsilon": 2.0})
    assert found["attacker_guess"]["coalition"] == best_guess(2.0, 1e-6)
    assert found["attacker_guess"]["account"] == best_guess(float(Fraction(policy.epsilon_account)), 1e-6)
    hi, middle = found["comes_back"]
    assert (hi["cosine"], middle["cosine"]) == (0.5, 0.4)
    assert hi["share"] == at(policy, cls, policy.hi) == at(policy, cls, 16129) > middle["share"]
    assert at(policy, cls, 0) == at(policy, cls, policy.lo) == pytest.approx(cls.K / cls.N, rel=0.01)
    text = " ".join(consent.lines(found, policy))
    assert "88.1 %" in text  # e^2 / (1 + e^2), rounded up
    assert "at cosine 0.5 or above comes back" in text


def test_real_questions_are_answered_with_the_default_policy() -> None:
    """The demo's corpus and questions with the packaged embedder: before, 1 best text of 30 came back."""
    embedder = load_embedder("minilm")
    assert public_window(embedder.identity().digest()) is not None
    cls = CLASSES["small"]
    made = default_policy(cls, embedder.dimension, public_window(embedder.identity().digest()))
    documents = demo_documents()["systems"]
    texts = [query.text for query in demo_queries() if query.tenant == "systems"]
    asked = quantise(embedder.embed(texts, role="query")).astype(np.int32)
    rows = quantise(embedder.embed([document.text for document in documents])).astype(np.int32)
    scores = asked @ rows.T
    rng, sampler = np.random.default_rng(5), TableSampler(build_table(cls.law))

    def found(lo: int, hi: int, gain: int) -> float:
        hits = []
        for _ in range(20):
            shape = (len(texts), cls.N)
            v = (sampler.draw(rng, shape).astype(np.int64) << cls.s) + rng.integers(0, 1 << cls.s, shape)
            v[:, : len(documents)] += gain * clipped(scores, lo, hi).astype(np.int64)
            hits.append((largest_slots(v, cls.K) == scores.argmax(axis=1)[:, None]).any(axis=1).mean())
        return float(np.mean(hits))

    assert found(made.window.lo, made.window.hi, made.gain) > 0.6
    assert found(4839, 11290, 41) < 0.1  # the former default
