# SPDX-License-Identifier: GPL-3.0-or-later
"""How well a statistic tells two worlds apart: Mann-Whitney AUC with DeLong's standard error (DeLong et al. 1988)."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Roc:
    """An empirical AUC and its standard error."""

    auc: float
    se: float

    @property
    def advantage(self) -> float:
        """2 AUC - 1: the paper's binary-equivalent advantage (figure 2, section 4.5)."""
        return 2 * self.auc - 1

    def deviation(self, expected: float) -> float:
        """Standard errors between this AUC and an expected one; infinite where the two differ and se is 0."""
        if self.se == 0:
            return 0.0 if self.auc == expected else math.inf
        return (self.auc - expected) / self.se


def midranks(values: Vector) -> Vector:
    """Ranks from 1, ties sharing their mean rank."""
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[inverse], dtype=np.float64)


def delong(inside: npt.ArrayLike, outside: npt.ArrayLike) -> Roc:
    """AUC of a statistic that should be larger ``inside``, from samples of both worlds (at least two each).

    By midranks (Sun and Xu 2014), which equals the U statistic over all pairs, ties counting one half.
    """
    x, y = np.asarray(inside, dtype=np.float64), np.asarray(outside, dtype=np.float64)
    m, n = len(x), len(y)
    if m < 2 or n < 2:
        raise ValueError("an AUC with a standard error needs two samples of each world")
    joint = midranks(np.concatenate([x, y]))
    over = (joint[:m] - midranks(x)) / n  # share of the other world below each sample
    under = 1 - (joint[m:] - midranks(y)) / m
    return Roc(float(over.mean()), math.sqrt(over.var(ddof=1) / m + under.var(ddof=1) / n))


def counts_auc(inside: Vector, outside: Vector) -> float:
    """The exact AUC of an integer statistic from its two probability vectors over 0, 1, 2, ..."""
    below = np.concatenate([[0.0], np.cumsum(outside)[:-1]])
    return float(np.dot(inside, below) + np.dot(inside, outside) / 2)
