# SPDX-License-Identifier: GPL-3.0-or-later
"""Binomial probabilities in floats, for numbers that people read and no guarantee rests on."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

Vector = npt.NDArray[np.float64]


def at_most(most: int, n: int, p: Vector) -> Vector:
    """P(Bin(n, p) <= most), by element."""
    with np.errstate(divide="ignore", invalid="ignore"):
        log_p, log_q = np.log(p), np.log1p(-np.minimum(p, 1.0))
        total = np.zeros_like(p)
        for j in range(most + 1):
            whole = math.lgamma(n + 1) - math.lgamma(j + 1) - math.lgamma(n - j + 1)
            total += np.exp(whole + (j * log_p if j else 0.0) + (n - j) * log_q)
    return np.where(p >= 1.0, float(most >= n), np.where(p <= 0.0, 1.0, np.minimum(total, 1.0)))
