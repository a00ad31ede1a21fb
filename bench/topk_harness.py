# SPDX-License-Identifier: GPL-3.0-or-later
"""The top-K harness of the paper's sections 4.4 and A.3, on a simulation of the paper's law.

50 background documents on the unit sphere and one slot that holds the target or its replacement; the coalition sends
the target as its probe and counts how often that slot is among the released ids.  A query's chance of a hit is
computed exactly and confirmed on simulated retrievals (:mod:`bench.attacks.channels`); counts over a coalition's
queries, which are independent, are then binomial.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np

from bench.attacks.adversaries import Coalition, hit_count
from bench.attacks.channels import HitChannel
from bench.attacks.roc import counts_auc, delong
from bench.calibration import FULL_SCALE, KS, paper_sigma
from bench.experiment import Cell
from ragseal.embedder import quantise

SLOTS, K, DIMENSION = 51, 5, 32
EPSILONS = (4, 8, 16)


@lru_cache(maxsize=64)
def scores(scene: int, target_in: bool) -> tuple[int, ...]:
    """Integer scores of all slots for the probe: the planted slot 0 scores 127^2, or 0 for its replacement."""
    rng = np.random.default_rng(scene)
    points = rng.standard_normal((SLOTS + 1, DIMENSION))
    target, decoy = points[:2]
    decoy = decoy - target * (decoy @ target) / (target @ target)
    index = quantise(np.vstack([target if target_in else decoy, points[2:]]).astype(np.float32))
    probe = quantise(target[None].astype(np.float32))[0]
    return tuple(int(y) for y in index.astype(np.int64) @ probe.astype(np.int64))


def channels(scene: int, epsilon: float, n: int) -> tuple[HitChannel, HitChannel]:
    """(target in the index, replaced) at the paper's noise level, scores clipped to [0, 127^2]."""
    sigma = paper_sigma(epsilon, n) * FULL_SCALE
    inside, outside = (HitChannel(np.clip(scores(scene, there), 0, FULL_SCALE), K, sigma, 0) for there in (True, False))
    return inside, outside


def measure(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One (regime, epsilon_acc, k): AUC of the hit count, exact and over trials."""
    inside, outside = (c.probability() for c in channels(cell["scene"], cell["epsilon"], cell["n"]))
    coalition = Coalition(cell["k"], cell["n"], cell["trials"])
    found = delong(*hit_count(inside, outside, coalition, rng))
    exact = counts_auc(_binomial(coalition.queries, inside), _binomial(coalition.queries, outside))
    return {"auc": found.auc, "se": found.se, "exact": exact, "hit_in": inside, "hit_out": outside}


def _binomial(n: int, p: float) -> np.ndarray[Any, np.dtype[np.float64]]:
    steps = np.log(np.arange(1, n + 1))
    choose = np.concatenate([[0.0], np.cumsum(steps[::-1]) - np.cumsum(steps)])
    at = np.arange(n + 1)
    return np.asarray(np.exp(choose + at * math.log(p) + (n - at) * math.log1p(-p)))


def confirm(scene: int, epsilon: float, n: int, retrievals: int, seed: int) -> list[dict[str, Any]]:
    """Simulated retrievals in both worlds against the exact chance of a hit, in standard errors."""
    out = []
    for world, channel in zip(("in", "out"), channels(scene, epsilon, n), strict=True):
        chance = channel.probability()
        hits = sum(channel.retrievals(np.random.default_rng([seed, world == "out"]), retrievals))
        spread = math.sqrt(chance * (1 - chance) * retrievals)
        out.append({"world": world, "chance": chance, "hits": hits, "retrievals": retrievals,
                    "deviation": (hits - chance * retrievals) / spread})  # fmt: skip
    return out


def cells(n: int, trials: int, regimes: tuple[str, ...] = ("same-tenant",), scene: int = 2) -> list[dict[str, Any]]:
    return [
        {"regime": r, "epsilon": e, "k": k, "n": n, "trials": trials, "scene": scene}
        for r in regimes for e in EPSILONS for k in KS
    ]  # fmt: skip
