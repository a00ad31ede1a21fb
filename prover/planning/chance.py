# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a document comes back under a policy, from public numbers alone: noise table, N, K, score window, gain.

The document scores as given, all other slots score lo or less: what an index gives that holds one good answer.  Every
other document above lo makes it a little rarer; no tenant's scores are looked at.  Scores are whole steps: at equal
values, under the lottery too, half of the other slots lose to it, which are those behind it if it stands in the middle.
"""

from __future__ import annotations

from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.params import COIN_BITS
from ragseal.kernel.policy import Policy
from ragseal.prover.planning.laws import planned_law


def comes_back(cls: AttestationClass, signal: int, prizes: int = 0) -> float:
    """Probability that one document is among the K largest of N noisy scores.

    Args:
        signal: gain * (y - lo) of the document, y clipped to the window; every other slot has 0.
        prizes: of the policy, under the lottery.
    """
    return planned_law(cls).comes_back(signal, prizes)


def at(policy: Policy, cls: AttestationClass, y: int) -> float:
    """:func:`comes_back` of a document whose score is ``y`` (127^2 is cosine 1) under a policy, its coin included."""
    seen = 1 - policy.hidden / (1 << COIN_BITS)
    signal = policy.gain * (min(max(y, policy.lo), policy.hi) - policy.lo)
    return seen * comes_back(policy.whole(cls), signal, policy.prizes(cls))
