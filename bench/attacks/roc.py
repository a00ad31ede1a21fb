# SPDX-License-Identifier: GPL-3.0-or-later
"""How well a statistic tells two worlds apart: the kernel's DeLong AUC, and what experiments ask of it besides."""

from __future__ import annotations

import math

import numpy as np

from ragseal.accounting.statistics import Roc, Vector, delong

__all__ = ["Roc", "Vector", "counts_auc", "delong", "deviation"]


def deviation(found: Roc, expected: float) -> float:
    """Standard errors between an empirical AUC and an expected one; infinite where the two differ and se is 0."""
    if found.se == 0:
        return 0.0 if found.auc == expected else math.inf
    return (found.auc - expected) / found.se


def counts_auc(inside: Vector, outside: Vector) -> float:
    """The exact AUC of an integer statistic from its two probability vectors over 0, 1, 2, ..."""
    below = np.concatenate([[0.0], np.cumsum(outside)[:-1]])
    return float(np.dot(inside, below) + np.dot(inside, outside) / 2)
