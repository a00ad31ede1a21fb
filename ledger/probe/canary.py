# SPDX-License-Identifier: GPL-3.0-or-later
"""The replace-pair attack: what an honest mechanism shows, what is certified, and what samples prove.

Two tenants of a test window hold one document each: "inside" the canary, "outside" its replacement, so their indices
differ in one slot.  One query, the canary's own text, is asked again and again in both.  A trial is a group of g
queries; its statistic, the log-likelihood ratio up to a rising function, is how often the planted slot was returned.

The certified numbers bound every attack, this one too: an epsilon, an advantage or an AUC above them, beyond chance, is
a violation.  Less than an honest mechanism would show is over-noise: harmless for privacy, and answers pay for it.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache, partial

import numpy as np
import numpy.typing as npt

from ragseal.accounting.audit import ScorePolicy, epsilon_audit
from ragseal.accounting.statistics import LowerBounds, Roc, Vector, binomial_lower, binomial_upper, delong, lower_bounds
from ragseal.accounting.topk import set_curve
from ragseal.kernel import noise
from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.noise_class import NoiseClass, with_noise
from ragseal.kernel.policy import Policy, rational

CONSISTENT, VIOLATION, OVER_NOISE = "consistent", "violation", "over-noise"
FACTORS = (1.5, 2.0, 3.0, 4.0, 6.0, 8.0, 12.0, 16.0, 32.0)  #: noise that is too small by so much is looked for

Slots = tuple[int | None, int | None]  #: of the canary inside and of its replacement outside


@dataclass(frozen=True, slots=True)
class Certified:
    """What holds for every attack on g queries, if the provider runs the committed mechanism."""

    epsilon: float
    delta: float
    advantage: float
    auc: float


def certify(policy: Policy, named: AttestationClass, group: int) -> Certified:
    """The accountant's numbers for ``group`` queries.

    The release of one query is worth at most the set's total variation t, g adaptive ones 1 - (1 - t)^g; the AUC of a
    statistic whose ROC curve stays within t of the diagonal is at most 1 - (1 - t)^2 / 2, (1 + t) / 2 for one bit.
    """
    table, cls = noise.build_table(named.law), with_noise(policy.whole(named))
    report = epsilon_audit(
        cls,
        table,
        scores=ScorePolicy(gain=policy.gain, lo=policy.lo, hi=policy.hi),
        k_max=1,
        n_max=group,
        delta=rational(policy.delta, "delta"),
    )
    _, deltas = set_curve(table, policy.shift(cls), cls.N, cls.K)
    once = min(1.0, float(deltas[0]))
    advantage = min(report.advantage, 1 - (1 - once) ** group)
    auc = (1 + advantage) / 2 if group == 1 else min(report.auc, 1 - (1 - advantage) ** 2 / 2)
    return Certified(report.epsilon, float(rational(policy.delta, "delta")), advantage, auc)


def hit_probability(cls: NoiseClass, raised: float, slot: int | None = None) -> float:
    """How often a slot whose gain * c is ``raised`` is returned among N - 1 empty slots.

    The sum over the slot's noise of P(fewer than K of the others exceed it).  Equal values go to the lower slot, so
    that it depends a little on the slot.

    Args:
        slot: its id; None where it is not known: the middle.
    """
    steps, mass, tail = _law(cls.law)
    unit, cut = 1 << cls.step_bits, int(steps[-1])
    before = cls.N // 2 if slot is None else slot
    levels = np.clip(steps + math.floor(raised / unit), -cut - 1, cut + 1) + cut + 1
    ahead, behind = tail[levels] + mass[levels], tail[levels]
    chance = _few_of_both((before, ahead), (cls.N - 1 - before, behind), cls.K - 1)
    return min(1.0, float((mass[1:-1] * chance).sum()))


@lru_cache(maxsize=2)
def _law(law: str) -> tuple[npt.NDArray[np.int64], Vector, Vector]:
    """(steps -C .. C, masses and tails P(z_b > x) of -C-1 .. C+1)."""
    table = noise.build_table(law)
    wide = range(-table.cut - 1, table.cut + 2)
    mass, tail = np.array([table.mass(x) for x in wide]), np.array([table.tail(x) for x in wide])
    steps = np.arange(-table.cut, table.cut + 1)
    return steps, (mass / table.total).astype(np.float64), (tail / table.total).astype(np.float64)


def _few_of_both(one: tuple[int, Vector], other: tuple[int, Vector], most: int) -> Vector:
    """P(Bin(n, p) + Bin(n', p') <= most) for every pair of p and p'."""
    first, second = _counts(*one, most), np.cumsum(_counts(*other, most), axis=0)
    return np.asarray(np.minimum(1.0, (first * second[::-1]).sum(axis=0)))


def _counts(n: int, p: Vector, most: int) -> Vector:
    """P(Bin(n, p) = j), a row for each j = 0 .. most."""
    p = np.clip(p, 0.0, 1.0)
    out = np.zeros((most + 1, p.size))
    with np.errstate(divide="ignore"):
        log_p, log_not = np.log(p), np.log1p(-p)
    for j in range(min(n, most) + 1):
        choose = math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1)
        out[j] = np.exp(choose + (j * log_p if j else 0.0) + ((n - j) * log_not if j < n else 0.0))
    return out


def counts_law(p: float, group: int) -> Vector:
    """Probabilities of 0..g hits in a trial."""
    return np.array([math.comb(group, j) * p**j * (1 - p) ** (group - j) for j in range(group + 1)])


@dataclass(frozen=True, slots=True)
class Prediction:
    """What the honest mechanism shows, if nothing but the planted pair is in the two tenants."""

    inside: float  #: probability that the planted slot is returned
    outside: float
    auc: float
    noticed_from: float | None  #: noise too small by this factor would most likely be called a violation; None if none


def predict(
    policy: Policy,
    cls: NoiseClass,
    scores: tuple[int, int],
    certified: Certified,
    trials: int,
    group: int,
    alpha: float,
    slots: Slots = (None, None),
) -> Prediction:
    """``scores``: y of canary and replacement against the query; ``slots``: where they are, as far as it is known."""
    raised = [policy.gain * (min(max(y, policy.lo), policy.hi) - policy.lo) for y in scores]
    inside, outside = (hit_probability(cls, float(v), slot) for v, slot in zip(raised, slots, strict=True))
    noticed = None
    for factor in FACTORS:
        p, q = (hit_probability(cls, factor * v, slot) for v, slot in zip(raised, slots, strict=True))
        one, other = _expected(p, trials, group), _expected(q, trials, group)
        if violations(certified, lower_bounds(one, other, certified.delta, alpha), delong(one, other), alpha):
            noticed = factor
            break
    hits, misses = counts_law(inside, group), counts_law(outside, group)
    below = np.concatenate([[0.0], np.cumsum(misses)[:-1]])
    return Prediction(inside, outside, float(np.dot(hits, below) + np.dot(hits, misses) / 2), noticed)


def _expected(p: float, trials: int, group: int) -> list[int]:
    """Counts of a typical sample: quantiles of the binomial law."""
    steps = np.cumsum(counts_law(p, group))
    return [int(np.searchsorted(steps, (i + 0.5) / trials)) for i in range(trials)]


@dataclass(frozen=True, slots=True)
class Finding:
    """What the samples say."""

    roc: Roc
    interval: tuple[float, float]
    bounds: LowerBounds
    certified: Certified
    prediction: Prediction
    verdict: str
    reasons: tuple[str, ...]


def violations(certified: Certified, bounds: LowerBounds, roc: Roc, alpha: float) -> list[str]:
    """Which certified numbers the samples exceed, beyond chance."""
    low, _ = roc.interval(alpha)
    compared = (
        ("epsilon", bounds.epsilon, certified.epsilon, f"at delta {certified.delta:g}, Clopper-Pearson lower bound"),
        ("advantage", bounds.advantage, certified.advantage, "exact lower bound"),
        ("AUC", low, certified.auc, "lower end of DeLong's interval"),
    )
    return [
        f"{name} is at least {shown:.4g} ({how}), more than the certified {limit:.4g}"
        for name, shown, limit, how in compared
        if shown > limit
    ]


def judge(
    policy: Policy, named: AttestationClass, inside: Sequence[bool], outside: Sequence[bool], group: int,
    scores: tuple[int, int], confidence: float, slots: Slots = (None, None),
) -> Finding:  # fmt: skip
    """Compare hits query by query of the two worlds, in groups of ``group``, with what is certified."""
    alpha, cls = 1 - confidence, with_noise(policy.whole(named))
    certified = certify(policy, cls, group)
    one, other = _grouped(inside, group), _grouped(outside, group)
    trials = min(len(one), len(other))
    roc, bounds = delong(one, other), lower_bounds(one, other, certified.delta, alpha)
    prediction = predict(policy, cls, scores, certified, trials, group, alpha, slots)
    low, high = roc.interval(alpha)
    wrong = violations(certified, bounds, roc, alpha)
    finding = partial(Finding, roc=roc, interval=(low, high), bounds=bounds, certified=certified, prediction=prediction)
    if wrong:
        return finding(verdict=VIOLATION, reasons=tuple(wrong))
    if high < prediction.auc and _beyond_chance(inside, outside, prediction, alpha):
        why = (
            f"the AUC is at most {high:.4g}, an honest mechanism shows {prediction.auc:.4g} if nothing but the planted "
            "pair is in the two tenants: more noise than committed, or more documents"
        )
        return finding(verdict=OVER_NOISE, reasons=(why,))
    power = (
        f"noise too small by a factor of {prediction.noticed_from:g} would most likely have been noticed"
        if prediction.noticed_from
        else "so few queries would not notice any cheating: ask more often, or use a policy with more noise"
    )
    return finding(verdict=CONSISTENT, reasons=(power,))


def _beyond_chance(inside: Sequence[bool], outside: Sequence[bool], prediction: Prediction, alpha: float) -> bool:
    """Whether hits as few inside, or as many outside, are rarer than alpha / 2 of an honest mechanism.

    Exact, where DeLong's interval is much too short: of 40 hits at chances 0.20 and 0.02, 0.8 % lie below it at 99.9 %.
    """
    few = binomial_upper(sum(inside), len(inside), alpha / 4) < prediction.inside
    return few or binomial_lower(sum(outside), len(outside), alpha / 4) > prediction.outside


def _grouped(hits: Sequence[bool], group: int) -> list[int]:
    return [sum(hits[at : at + group]) for at in range(0, len(hits) - group + 1, group)]
