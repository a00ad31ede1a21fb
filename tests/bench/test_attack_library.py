# SPDX-License-Identifier: GPL-3.0-or-later
"""The attack library against second ways of computing the same numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from bench.attacks.adversaries import Coalition, diversified, likelihood_ratio, pooled_mean
from bench.attacks.channels import HitChannel, ScoreChannel
from bench.attacks.roc import counts_auc, delong, deviation
from bench.calibration import predicted_auc
from ragseal.kernel.noise import GAUSSIAN_SIGMA
from ragseal.verifier.probe.canary import hit_probability
from tests.classes import GAUSSIAN


def test_delong_equals_the_u_statistic_over_all_pairs() -> None:
    rng = np.random.default_rng(3)
    x, y = rng.integers(0, 9, 60), rng.integers(0, 8, 45)
    wins = [[1.0 if a > b else 0.5 if a == b else 0.0 for b in y] for a in x]
    found = delong(x, y)
    assert found.auc == pytest.approx(np.mean(wins))
    over, under = np.mean(wins, axis=1), np.mean(wins, axis=0)
    assert found.se == pytest.approx(math.sqrt(over.var(ddof=1) / 60 + under.var(ddof=1) / 45))


def test_delong_covers_the_truth_as_often_as_it_says() -> None:
    rng = np.random.default_rng(4)
    truth = 0.5 * math.erfc(-0.4 / 2)  # means 0.4 apart, both of variance 1
    off = [abs(deviation(delong(rng.normal(0.4, 1, 300), rng.normal(0, 1, 300)), truth)) for _ in range(400)]
    assert 0.91 < np.mean(np.array(off) <= 1.96) < 0.99


@pytest.mark.parametrize("count", [1, 7, 4000])
def test_sums_have_the_moments_of_independent_draws(count: int) -> None:
    channel = ScoreChannel(200.0)
    sums = channel.sums(np.random.default_rng(5), count, 1000, 40_000) / count
    error = channel.sigma / math.sqrt(count)
    assert abs(sums.mean() - 1000) < 5 * error / 200
    assert abs(sums.std() / error - 1) < 0.02


@pytest.mark.slow
def test_hit_chance_matches_simulated_retrievals() -> None:
    scores = np.concatenate([[500.0], np.linspace(0, 700, 15)])
    channel = HitChannel(scores, 3, 256, 0)
    chance, tries = channel.probability(), 30_000
    hits = sum(channel.retrievals(np.random.default_rng(9), tries))
    assert 0.2 < chance < 0.8
    assert abs(hits - tries * chance) < 4 * math.sqrt(tries * chance * (1 - chance))
    assert HitChannel(scores, 3, 256, 3).probability() < chance, "the slot with a lower score is hit less often"


def test_hit_chances_of_all_slots_sum_to_k() -> None:
    total = sum(HitChannel(np.arange(16) * 40.0, 3, 256, slot).probability() for slot in range(16))
    assert total == pytest.approx(3, abs=1e-6)


def test_the_real_mechanism_has_the_laws_hit_chance() -> None:
    """Class noise-tiny-gaussian against the simulation at its sigma: half a step of ties apart at most."""
    scores = np.concatenate([[96.0], np.zeros(GAUSSIAN.N - 1)])
    found = HitChannel(scores, GAUSSIAN.K, GAUSSIAN_SIGMA, 0).probability()
    least, most = (hit_probability(GAUSSIAN, 96 << GAUSSIAN.c, slot) for slot in (GAUSSIAN.N - 1, 0))
    assert least < found < most < 1.03 * least


def test_the_likelihood_ratio_beats_the_mean_nowhere() -> None:
    rng = np.random.default_rng(6)
    for steps, coalition in ((1, Coalition(2, 4000, 400)), (16, Coalition(2, 60, 400))):
        best, mean = (delong(*worlds) for worlds in likelihood_ratio(coalition, steps, rng))
        expected = predicted_auc(steps, GAUSSIAN_SIGMA, coalition.queries)
        assert abs(deviation(best, expected)) < 4
        assert abs(deviation(mean, expected)) < 4
        assert best.auc == pytest.approx(mean.auc, abs=0.001)


def test_splitting_a_coalition_loses() -> None:
    channel, coalition = ScoreChannel(4096), Coalition(8, 2000, 4000)
    found = [
        delong(*diversified(channel, coalition, 16.0, 0, share, np.random.default_rng(7))).auc
        for share in (1.0, 0.5, 0.0)
    ]
    whole = delong(*pooled_mean(channel, coalition, 16.0, 0, np.random.default_rng(8)))
    assert abs(found[0] - whole.auc) < 5 * whole.se
    assert found[0] > found[1] + 0.02
    assert abs(found[2] - 0.5) < 0.04


def test_exact_auc_of_counts_equals_enumeration() -> None:
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.3, 0.1])
    pairs = itertools.product(range(3), repeat=2)
    direct = sum(p[i] * q[j] * (1.0 if i > j else 0.5 if i == j else 0.0) for i, j in pairs)
    assert counts_auc(p, q) == pytest.approx(direct)
