# SPDX-License-Identifier: GPL-3.0-or-later
"""Figure 4's harness against the kernel's estimator and exact probabilities; runs, and a verdict that can fail."""

from __future__ import annotations

import copy
import itertools
import json
import math
import re
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from bench import estimate, windows
from bench.attacks.adversaries import Coalition, diversified, likelihood_ratio, pooled_mean
from bench.attacks.channels import HitChannel, ScoreChannel
from bench.attacks.roc import counts_auc, delong, deviation
from bench.calibration import predicted_auc
from bench.coalitions import (
    PATTERNS,
    THETAS,
    around,
    coordinated,
    estimates,
    largest_between,
    null_rate,
    probes,
    quantised,
    sphere,
    tail,
)
from bench.experiment import RESULTS
from ragseal.accounting.claims.notes import EVASION
from ragseal.embedder import quantise
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.estimate import components, link_threshold
from ragseal.kernel.noise import GAUSSIAN_SIGMA
from ragseal.ledger.probe.canary import hit_probability
from tests.classes import GAUSSIAN


@pytest.mark.slow
def test_quantised_is_the_protocols_e() -> None:
    v = sphere(np.random.default_rng(1), 500, 32)
    mine, protocol = quantised(v), quantise(v)
    assert abs(mine - protocol).max() <= 1  # float32 against float64: a tie may fall to either side
    assert (mine == protocol).mean() > 0.999


@pytest.mark.slow
@pytest.mark.parametrize("pattern", ["null", *PATTERNS, "P-D"])
def test_components_are_the_kernels(pattern: str) -> None:
    rng = np.random.default_rng(2)
    v = sphere(rng, 3, 12 * 15, 16)
    if pattern != "null":
        v[:, : 5 * 15] = probes(pattern, rng, 3, 5 * 15, 16, 0.9)
    e = quantised(v)
    found = estimates(e, 12)
    accounts = [str(i // 15) for i in range(180)]
    for window, row in zip(e.astype(np.int8), found.tolist(), strict=True):
        for theta, c in zip(THETAS, row, strict=True):
            assert components(accounts, windows.rank_links(window, 180, link_threshold(theta))).c == c
    assert len(np.unique(found)) > 3


@pytest.mark.slow
def test_order_of_thetas_does_not_matter() -> None:
    e = quantised(sphere(np.random.default_rng(3), 2, 60, 8))
    some = [Fraction(7, 10), Fraction(9, 10), Fraction(3, 10)]
    assert (estimates(e, 6, some) == estimates(e, 6)[:, [THETAS.index(t) for t in some]]).all()


@pytest.mark.slow
def test_largest_product_between_accounts() -> None:
    e = quantised(sphere(np.random.default_rng(4), 3, 40, 8))
    for window, largest in zip(e.astype(int), largest_between(e, 4).tolist(), strict=True):
        gram = window @ window.T
        assert largest == max(gram[a, b] for a in range(40) for b in range(40) if a // 10 != b // 10)


@pytest.mark.slow
@pytest.mark.parametrize("d", [8, 32])
def test_tail_and_null_rate(d: int) -> None:
    rng = np.random.default_rng(5)
    cosines = (sphere(rng, 400_000, d) * sphere(rng, 400_000, d)).sum(axis=1)
    for theta in (0.0, 0.3, 0.6):
        share = tail(theta, d)
        assert (cosines >= theta).mean() == pytest.approx(share, abs=5 * (share / 400_000) ** 0.5)
    largest = largest_between(quantised(sphere(rng, 300, 6 * 10, d)), 6)
    for theta in THETAS:
        rate = null_rate(float(theta), d, 6, 10)
        measured = (largest >= link_threshold(theta)).mean()
        assert measured == pytest.approx(rate, abs=5 * (rate * (1 - rate) / 300) ** 0.5 + 0.035)


@pytest.mark.slow
def test_patterns_are_what_they_say() -> None:
    rng = np.random.default_rng(6)
    a = probes("P-A", rng, 2, 30, 32)
    assert (a == a[:, :1]).all()
    c = probes("P-C", rng, 2, 300, 32)
    assert [len(np.unique(window, axis=0)) for window in c] == [5, 5]
    b = probes("P-B", rng, 1, 4000, 32)[0]
    assert (b[:2000] * b[2000:]).sum(axis=1).mean() == pytest.approx(1 / (1 + 0.01 * 32), abs=0.01)
    target = sphere(rng, 1, 32)
    assert around(rng, target, 0.8, 50)[0] @ target[0] == pytest.approx(0.8, abs=1e-5)
    with pytest.raises(ConfigurationError):
        probes("P-X", rng, 1, 1, 8)


@pytest.mark.slow
def test_a_coordinated_coalition_is_never_linked() -> None:
    rng, threshold = np.random.default_rng(7), link_threshold(Fraction(4, 5))
    queries = coordinated(rng, 200, 32, 0.8, threshold)
    assert queries is not None
    assert windows.rank_links(quantised(queries).astype(np.int8), 200, threshold) == []
    alike = quantised(around(rng, sphere(rng, 1, 32), 0.8, 200)[0]).astype(np.int8)
    assert windows.rank_links(alike, 200, threshold)
    assert coordinated(rng, 200, 32, 0.99, threshold) is None


@pytest.fixture(scope="module")
def quick(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, Any]]:
    out = tmp_path_factory.mktemp("figure4") / "figure4.json"
    return out, estimate.run(out, trials=4, accounts=12, each=10, d=32, seed=3)


@pytest.mark.slow
def test_quick_run(quick: tuple[Path, dict[str, Any]]) -> None:
    out, found = quick
    holds = estimate.observation(found)
    assert holds["every coalition found"]
    assert holds["exact recovery, zero variance"]
    assert holds["false-positive rate at most 0.05"]
    text = estimate.report(found)
    assert "| P-A | 2 | 1 | 1 |" in text
    assert "cannot: linked" in text
    estimate.plot(found, out.with_suffix(".png"))
    assert out.with_suffix(".png").stat().st_size > 10_000
    assert json.loads(out.read_text()) == found
    before = out.stat().st_mtime_ns
    assert estimate.run(out, trials=4, accounts=12, each=10, d=32, seed=3)["cells"] == found["cells"]
    assert out.stat().st_mtime_ns >= before


@pytest.mark.slow
def test_the_observation_can_fail(quick: tuple[Path, dict[str, Any]]) -> None:
    worse = copy.deepcopy(quick[1])
    next(c for c in worse["cells"] if c["cell"]["pattern"] == "P-B")["exact"]["4/5"] = 0.99
    worse["cells"][0]["fpr"]["4/5"] = 0.06
    holds = estimate.observation(worse)
    assert not holds["exact recovery, zero variance"]
    assert not holds["false-positive rate at most 0.05"]
    assert "**fails**: exact recovery" in estimate.report(worse)


@pytest.mark.slow
def test_least_theta() -> None:
    rates = {str(t): float(1 - t) for t in THETAS}
    assert estimate.least_theta(rates, 0.25) == "3/4"
    assert estimate.least_theta(dict.fromkeys(rates, 1.0)) is None


@pytest.mark.slow
def test_the_verdict_tells_what_was_measured() -> None:
    """Every number of what a verdict says about evasion is the results file's."""
    found = json.loads((RESULTS / "figure4.json").read_text())
    said = [float(n) if "." in n else int(n) for n in re.findall(r"\d+(?:\.\d+)?", EVASION)]
    theta, trials, k, coordinated_at, none, again, at_random, few = said
    of = {(c["cell"]["pattern"], c["cell"].get("cosine"), c["cell"]["d"]): c for c in found["cells"]}
    evading, varying = of["P-E", coordinated_at, 384], of["P-D", at_random, 384]
    for cell in (evading["cell"], varying["cell"]):
        assert (cell["trials"], cell["k"], float(Fraction(cell["thetas"][0]))) == (trials, k, theta)
    assert again == trials
    assert evading["found"]["9/10"] * trials == pytest.approx(none)
    assert varying["found"]["9/10"] * trials == pytest.approx(few)
    better = [c["cell"]["cosine"] for c in found["cells"] if c["cell"]["pattern"] == "P-E" and c["feasible"]]
    assert coordinated_at == max(better)


@pytest.mark.slow
def test_both_engines_find_the_same() -> None:
    pytest.importorskip("faiss")
    rng = np.random.default_rng(8)
    v = sphere(rng, 900, 24)
    v[::7] = probes("P-B", rng, 1, len(v[::7]), 24)[0]
    e = quantised(v).astype(np.int8)
    for tau in (1, 50, 900):
        for rows in (64, 4096):
            threshold = link_threshold(Fraction(3, 4))
            assert windows.faiss_links(e, tau, threshold, rows) == windows.rank_links(e, tau, threshold)


@pytest.mark.slow
def test_a_window_of_size(tmp_path: Path) -> None:
    """Quick cells but those that load the embedder: the coalition is found, or not, as it must be."""
    todo = [c for c in windows.cells(False, 20, 40, 300) if c["part"] == "size"]
    found = windows.run(tmp_path / "estimate.json", todo)
    c = {(one["cell"]["pattern"], one["cell"].get("cosine")): one["c"] for one in found["cells"]}
    low, high = todo[0]["thetas"]
    for pattern in ("P-A", "P-C"):
        assert c[pattern, None][low] == c[pattern, None][high] == {"c": 10, "of the coalition": 10}
    assert c["P-B", None][high] == {"c": 1, "of the coalition": 0}  # jitter 0.10 an entry is much at d = 384
    assert c["P-D", 0.93][high] == {"c": 1, "of the coalition": 0}
    assert "P-B" in windows.markdown(found)


@pytest.mark.slow
def test_theta_for_uniform_queries() -> None:
    theta = windows.honest_theta(32, 30, 3000, 3000)
    assert null_rate(float(theta), 32, 30, 100) <= 0.05 < null_rate(float(theta) - 0.01, 32, 30, 100)


# The attack library against second ways of computing the same numbers.


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
