# SPDX-License-Identifier: GPL-3.0-or-later
"""The attack library against second ways of computing the same numbers."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest

from bench.attacks.adversaries import Coalition, diversified, likelihood_ratio, pooled_mean
from bench.attacks.channels import HitChannel, ScoreChannel, _sum_law, masses, mechanism_class, noise_keys
from bench.attacks.roc import counts_auc, delong, deviation
from ragseal.circuits.circuit import load_classes
from ragseal.kernel.params import R
from ragseal.verifier.probe.canary import hit_probability


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


def test_the_law_of_a_sum_is_the_convolution() -> None:
    p = masses("geometric")
    direct = np.convolve(np.convolve(p, p), p)
    first, cumulative = _sum_law("geometric", 3)
    at = -first - 3 * (len(p) // 2)
    mine = np.diff(np.concatenate([[0.0], cumulative]))
    offset = max(0, -at)
    assert np.allclose(mine, direct[offset : offset + len(mine)], atol=1e-15)


@pytest.mark.parametrize("count", [1, 7, 4000])
def test_sums_have_the_moments_of_independent_draws(count: int) -> None:
    channel = ScoreChannel("gaussian", 6)
    sums = channel.sums(np.random.default_rng(5), count, 1000, 40_000) / count
    expected = 1000 + (2**6 - 1) / 2
    error = channel.deviation / math.sqrt(count)
    assert abs(sums.mean() - expected) < 5 * error / 200
    assert abs(sums.std() / error - 1) < 0.02


@pytest.mark.slow
def test_hit_chance_matches_real_retrievals() -> None:
    cls = mechanism_class(16, 3)
    unit = 1 << cls.s
    w = np.concatenate([[500 * unit], np.linspace(0, 700, 15).astype(np.int64) * unit])
    channel = HitChannel(cls, w, 600 * unit, 0)
    chance, tries = channel.probability(), 3000
    hits = sum(channel.retrievals(noise_keys(9), tries))
    assert 0.2 < chance < 0.8
    assert abs(hits - tries * chance) < 4 * math.sqrt(tries * chance * (1 - chance))
    assert HitChannel(cls, w, 600 * unit, 3).probability() < chance, "the slot with a lower score is hit less often"


def test_hit_chances_of_all_slots_sum_to_k() -> None:
    cls = mechanism_class(16, 3)
    w = np.arange(16, dtype=np.int64) * (40 << cls.s)
    total = sum(HitChannel(cls, w, 700 << cls.s, slot).probability() for slot in range(16))
    assert total == pytest.approx(3, abs=1e-6)


@pytest.mark.parametrize("name", ["noise-tiny-two", "noise-tiny-one"])
def test_in_a_noise_class_exactly_k_slots_are_hit(name: str) -> None:
    """Ties are frequent there, and the chances are right only if the lower slot wins each of them."""
    cls = load_classes()[name]
    w = (np.arange(cls.N, dtype=np.int64) % 3) * (8 << cls.c) + 100  # in whole steps 0, 8 and 16
    channels = [HitChannel(cls, w, 12, slot) for slot in range(cls.N)]
    found = [channel.probability() for channel in channels]
    assert sum(found) == pytest.approx(cls.K, rel=1e-9)
    assert found[1] > found[0]
    assert found[1] > found[4] == pytest.approx(found[1], rel=0.05)
    assert found[3] / found[0] == pytest.approx(hit_probability(cls, 0.0, 3) / hit_probability(cls, 0.0, 0), rel=0.01)
    with pytest.raises(ValueError, match="dither"):
        ScoreChannel(cls.law, cls.c)


def test_retrievals_use_fresh_keys_below_the_field_order() -> None:
    keys = noise_keys(1)(100) + noise_keys(2)(100)
    assert len(set(keys)) == 200
    assert all(0 <= key < R for key in keys)


def test_likelihood_ratio_beats_the_mean_only_below_a_table_step() -> None:
    rng = np.random.default_rng(6)
    channel = ScoreChannel("gaussian", 4)
    for gap, coalition in ((16, Coalition(2, 4000, 400)), (4, Coalition(2, 30_000, 400))):
        best, mean = (delong(*worlds) for worlds in likelihood_ratio(channel, coalition, gap, 0, rng))
        expected = channel.best_auc(gap, coalition.queries)
        assert abs(deviation(best, expected)) < 4
        by_mean = 0.5 * math.erfc(-gap * math.sqrt(coalition.queries) / (2 * channel.deviation))
        assert abs(deviation(mean, by_mean)) < 4
        # A whole step: the two agree.  A quarter of a step: sqrt(4) times the evidence.
        assert (expected - by_mean < 0.002) == (gap == 16)


def test_splitting_a_coalition_loses() -> None:
    channel, coalition = ScoreChannel("gaussian", 4), Coalition(8, 2000, 4000)
    found = [
        delong(*diversified(channel, coalition, 16, 0, share, np.random.default_rng(7))).auc
        for share in (1.0, 0.5, 0.0)
    ]
    whole = delong(*pooled_mean(channel, coalition, 16, 0, np.random.default_rng(8)))
    assert abs(found[0] - whole.auc) < 5 * whole.se
    assert found[0] > found[1] + 0.02
    assert abs(found[2] - 0.5) < 0.04


def test_exact_auc_of_counts_equals_enumeration() -> None:
    p, q = np.array([0.2, 0.5, 0.3]), np.array([0.6, 0.3, 0.1])
    pairs = itertools.product(range(3), repeat=2)
    direct = sum(p[i] * q[j] * (1.0 if i > j else 0.5 if i == j else 0.0) for i, j in pairs)
    assert counts_auc(p, q) == pytest.approx(direct)
