# SPDX-License-Identifier: GPL-3.0-or-later
"""The paper's noise levels and predictions.

The paper sets sigma from (epsilon_acc, delta_acc, n) by equation (3.4).
"""

from __future__ import annotations

import math
from statistics import NormalDist

DELTA_ACC = 1e-6
KS = (1, 2, 5, 10, 20)
FULL_SCALE = 127 * 127  #: integer score of cosine 1


def paper_sigma(epsilon_acc: float, n: int, gap: float = 1.0) -> float:
    """Equation (3.4) with delta_q = delta_acc / n."""
    q = 2 * math.log(1.25 * n / DELTA_ACC)
    return gap * math.sqrt(2 * n * math.log(1 / DELTA_ACC) * q) / epsilon_acc


def predicted_auc(shift: float, deviation: float, queries: int) -> float:
    """Equation (3.10): AUC of the pooled mean for a shift and standard deviation in one unit."""
    return NormalDist().cdf(shift * math.sqrt(queries) / (math.sqrt(2) * deviation))
