# SPDX-License-Identifier: GPL-3.0-or-later
"""Queries of honest accounts and of coalitions on the unit sphere, and the estimate of many windows at once.

The paper's patterns (section 5.4): P-A, every colluder asks the same probe; P-B, jittered probes
normalize(q* + 0.10 eta); P-C, probes drawn from five intents.  Two more for what the estimate cannot see: P-D, a
coalition that *diversifies*, each query at a given cosine to the target and otherwise random; P-E, one that also
*coordinates*, and asks nothing that its own copy of the estimator would link.  Components are found by scipy here, by
the kernel in the tests: two ways.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
import numpy.typing as npt
from scipy.sparse import coo_matrix
from scipy.sparse.csgraph import connected_components
from scipy.special import betainc

from bench.experiment import Cell
from ragseal.kernel.errors import ConfigurationError
from ragseal.kernel.estimate import FULL, link_threshold
from ragseal.kernel.params import SCORE_UNIT

Vectors = npt.NDArray[np.float32]
Integers = npt.NDArray[np.int64]

JITTER, INTENTS = 0.10, 5
PATTERNS = ("P-A", "P-B", "P-C")
THETAS = tuple(Fraction(20 + 5 * i, 100) for i in range(16))  #: the paper's 16 grid points, 0.20 to 0.95


def unit(v: Vectors) -> Vectors:
    scaled: Vectors = v / np.linalg.norm(v, axis=-1, keepdims=True)
    return scaled


def sphere(rng: np.random.Generator, *shape: int) -> Vectors:
    """Uniform on the unit sphere of the last dimension."""
    return unit(rng.standard_normal(shape, dtype=np.float32))


def quantised(v: Vectors) -> npt.NDArray[np.float32]:
    """Entries of e, as floats that hold every product of them exactly (norms are near 127, far below 2^24)."""
    return np.rint(SCORE_UNIT * unit(v))


def around(rng: np.random.Generator, target: Vectors, cosine: float, count: int) -> Vectors:
    """``count`` unit vectors for each row of ``target`` (T, d), at exactly this cosine to it: (T, count, d)."""
    u = rng.standard_normal((len(target), count, target.shape[1]), dtype=np.float32)
    u -= (u @ target[:, :, None]) * target[:, None, :]
    return cosine * target[:, None, :] + math.sqrt(1 - cosine * cosine) * unit(u)


def probes(name: str, rng: np.random.Generator, trials: int, count: int, d: int, cosine: float = 1.0) -> Vectors:
    """A coalition's queries, (trials, count, d), float32.

    Raises:
        ConfigurationError: no such pattern.
    """
    target = sphere(rng, trials, d)
    if name == "P-A":
        return np.broadcast_to(target[:, None, :], (trials, count, d)).copy()
    if name == "P-B":
        eta = rng.standard_normal((trials, count, d), dtype=np.float32)
        return unit(target[:, None, :] + np.float32(JITTER) * eta)
    if name == "P-C":
        intents = sphere(rng, trials, INTENTS, d)
        chosen = rng.integers(INTENTS, size=(trials, count))
        return np.take_along_axis(intents, chosen[:, :, None], axis=1)
    if name == "P-D":
        return around(rng, target, cosine, count)
    raise ConfigurationError(f"no pattern {name!r}")


def coordinated(
    rng: np.random.Generator, count: int, d: int, cosine: float, threshold: int, patience: int = 40
) -> Vectors | None:
    """P-E: ``count`` queries at this cosine to one target, no product of two at or above ``threshold``; None if the
    coalition finds none in ``patience`` rounds of proposals."""
    target = sphere(rng, 1, d)
    kept = np.zeros((0, d), dtype=np.float32)
    for _ in range(patience):
        asked = np.concatenate([kept, around(rng, target, cosine, count)[0]])
        e = quantised(asked)
        linked = np.triu(e @ e.T >= threshold, 1)
        free = np.ones(len(asked), dtype=bool)
        for i in np.flatnonzero(linked.any(axis=0)):  # an earlier kept query excludes a later one
            free[i] = not linked[:i, i][free[:i]].any()
        kept = asked[free][:count]
        if len(kept) == count:
            return kept
    return None


def tail(theta: float, d: int) -> float:
    """P(<u, v> >= theta) for independent uniform unit vectors, theta >= 0: a regularised incomplete beta."""
    return 0.5 * float(betainc((d - 1) / 2, 0.5, 1 - theta * theta))


def null_rate(theta: float, d: int, accounts: int, each: int) -> float:
    """Chance of any link between accounts if pairs were independent; second way to the measured rate."""
    pairs = math.comb(accounts, 2) * each * each
    return -math.expm1(-pairs * tail(theta, d))


def estimates(e: npt.NDArray[np.float32], accounts: int, thetas: Sequence[Fraction] = THETAS) -> Integers:
    """c of every window and theta, (trials, thetas); no tau.

    Args:
        e: (trials, accounts * each, d) quantised; records are in order of accounts.

    Thresholds fall; each step joins the components of the one before along the pairs that it adds.
    """
    trials, n, d = e.shape
    window = np.repeat(np.arange(trials), n)
    # Repeats join what they repeat (their norms reach every theta of the grid) and then have no products of their own.
    rows = np.concatenate([window[:, None], e.reshape(-1, d)], axis=1).astype(np.int16)
    _, first, same = np.unique(rows.view(f"V{2 * d + 2}").ravel(), return_index=True, return_inverse=True)
    labels = first[same]
    alone = np.where((labels == np.arange(trials * n))[:, None], e.reshape(-1, d), np.float32(0)).reshape(e.shape)
    products = np.matmul(alone, alone.transpose(0, 2, 1)).ravel()
    owner = np.tile(np.repeat(np.arange(accounts), n // accounts), trials)
    out = np.full((trials, len(thetas)), accounts, dtype=np.int64)
    falling = sorted(range(len(thetas)), key=lambda i: -thetas[i])
    floor = before = 1 << 30
    for i in falling:
        threshold = link_threshold(thetas[i])
        if threshold < floor:  # sparse links are read out once, dense ones step by step, as far as they are needed
            floor = min([t for j in falling if (t := link_threshold(thetas[j])) >= FULL // 2] + [threshold])
            at = np.flatnonzero(products >= floor if before > 2 * FULL else (products >= floor) & (products < before))
            value, first, second = products[at], at // n, at // (n * n) * n + at % n
        new = (value >= threshold) & (value < before)
        before = threshold
        x, y = labels[first[new]], labels[second[new]]
        apart = x < y
        graph = coo_matrix((np.ones(apart.sum(), dtype=np.int8), (x[apart], y[apart])), shape=(len(labels),) * 2)
        labels = connected_components(graph, directed=False)[1][labels]
        held = np.unique((labels * trials + window) * accounts + owner)
        component, sizes = np.unique(held // accounts, return_counts=True)
        c = np.zeros(trials, dtype=np.int64)
        np.maximum.at(c, component % trials, sizes)
        out[:, i] = c
        if (c == accounts).all():
            break  # no more to join: lower thetas say the same
    return out


def largest_between(e: npt.NDArray[np.float32], accounts: int) -> Integers:
    """The largest product between two accounts of every window, (trials,)."""
    trials, n, _ = e.shape
    products = np.matmul(e, e.transpose(0, 2, 1)).reshape(trials, accounts, n // accounts, accounts, n // accounts)
    products[:, np.arange(accounts), :, np.arange(accounts)] = -2 * FULL
    largest: Integers = products.max(axis=(1, 2, 3, 4)).astype(np.int64)
    return largest


def batches(trials: int, size: int = 4) -> list[int]:
    return [size] * (trials // size) + ([trials % size] if trials % size else [])


def null_cell(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """False alarms (any link between accounts) of windows of independent uniform queries, by theta."""
    A, n, d = cell["accounts"], cell["each"], cell["d"]
    largest = np.concatenate([largest_between(quantised(sphere(rng, t, A * n, d)), A) for t in batches(cell["trials"])])
    return {
        "fpr": {str(theta): float((largest >= link_threshold(theta)).mean()) for theta in THETAS},
        "independent": {str(theta): null_rate(float(theta), d, A, n) for theta in THETAS},
        "largest": [int(x) for x in largest],
    }


def coalition_cell(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """Estimates of windows with a coalition of k accounts: mean c, share found (c >= 2) and share with c = k."""
    A, n, d, k = cell["accounts"], cell["each"], cell["d"], cell["k"]
    thetas = [Fraction(t) for t in cell["thetas"]]
    parts = []
    for t in batches(cell["trials"]):
        asked = np.empty((t, A * n, d), dtype=np.float32)
        asked[:, k * n :] = sphere(rng, t, (A - k) * n, d)
        if cell["pattern"] == "P-E":
            tricks = [coordinated(rng, k * n, d, cell["cosine"], link_threshold(thetas[0])) for _ in range(t)]
            if any(trick is None for trick in tricks):
                return {"feasible": False}
            # Colluders come first; the order in which they ask does not matter without tau.
            asked[:, : k * n] = np.stack([trick for trick in tricks if trick is not None])
        else:
            asked[:, : k * n] = probes(cell["pattern"], rng, t, k * n, d, cell.get("cosine", 1.0))
        parts.append(estimates(quantised(asked), A, thetas))
    c = np.concatenate(parts)
    return {
        "feasible": True,
        "mean": dict(zip(cell["thetas"], c.mean(axis=0).tolist(), strict=True)),
        "deviation": dict(zip(cell["thetas"], c.std(axis=0).tolist(), strict=True)),
        "found": dict(zip(cell["thetas"], (c >= 2).mean(axis=0).tolist(), strict=True)),
        "exact": dict(zip(cell["thetas"], (c == k).mean(axis=0).tolist(), strict=True)),
    }


def measure(cell: Cell, rng: np.random.Generator) -> dict[str, Any]:
    """One cell of Figure 4 or of what comes after it."""
    return null_cell(cell, rng) if cell["pattern"] == "null" else coalition_cell(cell, rng)
