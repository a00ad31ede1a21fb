# SPDX-License-Identifier: GPL-3.0-or-later
"""From a histogram to released keywords: DP-KSA's FindBestK and TopKWithPTR, exactly and from a key.

Departures from the paper.  FindBestK's Gumbel noise has scale 4 / epsilon here, as the paper's own definition of the
exponential mechanism asks for at a sensitivity of 2; with its 2 / epsilon the choice of k costs 2 epsilon.  It is drawn
as an exponential mechanism, the same law.  k runs over a range that no histogram decides.  The words come in
canonical order: the test certifies a set, and an order by counts would say more.  The noise of the test is a discrete
Gaussian, its quantile the least integer that the law exceeds with the probability allowed.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction

from ragseal.accounting.keyword_release import SHIFT, ReleaseCost
from ragseal.kernel.errors import PolicyError
from ragseal.prover.answers.histogram import Histogram
from ragseal.prover.answers.sampling import Uniform, discrete_gaussian, exponential_choice

LARGEST_K = 128


@dataclass(frozen=True, slots=True)
class Range:
    """The numbers of keywords that may be released, k_low to k_high, and r(k): what is added to a gap, publicly."""

    low: int
    high: int
    regulariser: tuple[Fraction, ...] = ()  #: of k_low, k_low + 1, ...; empty for zeros

    def __post_init__(self) -> None:
        if not 1 <= self.low <= self.high <= LARGEST_K:
            raise PolicyError(
                f"a range of 1 <= k_low <= k_high <= {LARGEST_K} keywords is needed, not {self.low} to {self.high}"
            )
        if self.regulariser and len(self.regulariser) != self.high - self.low + 1:
            raise PolicyError(
                f"a regulariser names one number for each k from {self.low} to {self.high}, or none at all"
            )

    def best(self, histogram: Histogram) -> int:
        """The k of the largest gap, without noise (the paper's baseline KSA); the smallest of equals."""
        utilities = self.utilities(histogram)
        return self.low + utilities.index(max(utilities))

    def utilities(self, histogram: Histogram) -> list[Fraction]:
        """d_k + r(k); with one vote replaced each moves by at most 2."""
        added = self.regulariser or (Fraction(0),) * (self.high - self.low + 1)
        return [histogram.gap(self.low + i) + r for i, r in enumerate(added)]


@dataclass(frozen=True, slots=True)
class Released:
    """What one query shows: k, whether the test passed, and the k words in canonical order if it did."""

    k: int
    words: tuple[str, ...]  #: empty where the test failed

    @property
    def passed(self) -> bool:
        return bool(self.words)


def weights_of_k(histogram: Histogram, ks: Range, cost: ReleaseCost) -> list[Fraction]:
    """Logarithms of the weights of k: utility times epsilon / (2 sensitivity)."""
    return [cost.epsilon_k * utility / (2 * SHIFT) for utility in ks.utilities(histogram)]


def needed_noise(histogram: Histogram, k: int, cost: ReleaseCost) -> int:
    """The test passes if Z is above this: T + 2 - max(2, d_k)."""
    return cost.threshold + SHIFT - max(SHIFT, histogram.gap(k))


def release(histogram: Histogram, ks: Range, cost: ReleaseCost, uniform: Uniform) -> Released:
    """One draw of the mechanism; its cost is that of ``cost``, whatever the histogram."""
    k = ks.low + exponential_choice(uniform, weights_of_k(histogram, ks, cost))
    noise = discrete_gaussian(uniform, cost.variance)
    return Released(k, histogram.top(k) if noise > needed_noise(histogram, k, cost) else ())
