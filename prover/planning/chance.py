# SPDX-License-Identifier: GPL-3.0-or-later
"""How often a document comes back under a policy, from public numbers alone: the law's, N, K, score window, gain.

The document scores as given, all other slots score lo or less: what an index gives that holds one good answer.  Every
other document above lo makes it a little rarer; no tenant's scores are looked at.  Scores are whole steps: at equal
values half of the other slots lose to it, which are those behind it if it stands in the middle.
"""

from __future__ import annotations

from ragseal.kernel.classes import AttestationClass
from ragseal.kernel.noise_class import with_noise
from ragseal.kernel.params import COIN_BITS
from ragseal.kernel.policy import Policy
from ragseal.prover.planning.laws import planned_law
from ragseal.prover.planning.laws.noise import NoisePlan


def comes_back(cls: AttestationClass, signal: int) -> float:
    """Probability that one document, or keyword, is among the K largest of N noisy scores.

    Args:
        signal: gain * (y - lo) of the document, y clipped to the window; every other slot has 0.

    Raises:
        PolicyError: a class without noise.
    """
    return NoisePlan(with_noise(cls)).of_signal(signal)


def at(policy: Policy, cls: AttestationClass, y: int) -> float:
    """Of a document whose score is ``y`` (127^2 is cosine 1) under a policy, its coin included."""
    return (1 - policy.hidden / (1 << COIN_BITS)) * planned_law(policy.whole(cls)).comes_back(policy, y)
