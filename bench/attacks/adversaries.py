# SPDX-License-Identifier: GPL-3.0-or-later
"""Coalitions of k accounts with n queries each, as functions of both worlds' samples.  Paper, sections 3.5, 4 and A.2.

Every attack returns the two worlds' statistics, larger meaning "the target is in the index".
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from bench.attacks.channels import ScoreChannel, loss_cells
from bench.attacks.roc import Vector

Worlds = tuple[Vector, Vector]  #: statistics where the target is (is not) in the index, one entry a trial


@dataclass(frozen=True)
class Coalition:
    """k accounts, n queries each, T independent trials of both worlds."""

    k: int
    n: int
    trials: int

    @property
    def queries(self) -> int:
        return self.k * self.n


def pooled_mean(
    channel: ScoreChannel, coalition: Coalition, high: float, low: float, rng: np.random.Generator
) -> Worlds:
    """Mean noisy score at the planted slot over all queries of all accounts (the paper's attack, section 3.5)."""
    m, t = coalition.queries, coalition.trials
    return channel.sums(rng, m, high, t) / m, channel.sums(rng, m, low, t) / m


def diversified(
    channel: ScoreChannel, coalition: Coalition, high: float, low: float, share: float, rng: np.random.Generator
) -> Worlds:
    """Only ``share`` of the accounts probe the target, the others random orthogonal directions (section A.2)."""
    aimed = round(coalition.k * share) * coalition.n
    idle = coalition.queries - aimed
    worlds = []
    for shift in (high, low):
        total = channel.sums(rng, aimed, shift, coalition.trials) if aimed else np.zeros(coalition.trials)
        if idle:
            total = total + channel.sums(rng, idle, 0, coalition.trials)
        worlds.append(total / coalition.queries)
    return worlds[0], worlds[1]


def likelihood_ratio(coalition: Coalition, steps: int, rng: np.random.Generator) -> tuple[Worlds, Worlds]:
    """(log-likelihood ratios, pooled means) of the same draws of law gaussian-512: the best test, beside the mean.

    A trial's draws are a multinomial over the noise's values, so its log-likelihood ratio is a sum over them.
    """
    chance, ratio, step = loss_cells(steps)
    seen = chance > 0
    chance, ratio, step = chance[seen], ratio[seen], step[seen]
    order = np.argsort(-chance)
    chance, ratio, step = chance[order] / chance.sum(), ratio[order], step[order]
    out: list[tuple[Vector, Vector]] = []
    for sign in (1, -1):  # the other world is the mirror image: the table is symmetric
        llr, mean = np.empty(coalition.trials), np.empty(coalition.trials)
        for trial in range(coalition.trials):
            counts = rng.multinomial(coalition.queries, chance)
            hit = counts > 0
            llr[trial] = sign * float(np.dot(counts[hit], ratio[hit]))
            mean[trial] = sign * float(np.dot(counts[hit], step[hit])) / coalition.queries
        out.append((llr, mean + (steps if sign > 0 else 0)))
    (llr_in, mean_in), (llr_out, mean_out) = out
    return (llr_in, llr_out), (mean_in, mean_out)


def hit_count(inside: float, outside: float, coalition: Coalition, rng: np.random.Generator) -> Worlds:
    """How often the planted slot is among the released ids, given its chance in either world (section 4.4)."""
    m, t = coalition.queries, coalition.trials
    return rng.binomial(m, inside, t).astype(np.float64), rng.binomial(m, outside, t).astype(np.float64)
