# SPDX-License-Identifier: GPL-3.0-or-later
"""What an epsilon is worth, in bands: a word and the best guess from even odds, for people who decide by it.

Source: Ponomareva and others 2023, *How to DP-fy ML: A Practical Guide to Machine Learning with Differential Privacy*,
doi 10.1613/jair.1.14649, which has three tiers: strong formal guarantees up to epsilon 1, reasonable ones up to 10,
and above no formal protection.  TensorFlow Privacy's guide (*Measure Privacy*) asks for less than 10, and for less than
1 where it matters.

The middle tier is cut in two here at :data:`ragseal.accounting.guess.STRONG`: those who train models rarely meet an
attacker who knows all but one document, and the claim of this verdict is about exactly that one.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from ragseal.accounting.guess import STRONG, best_guess
from ragseal.accounting.rounding import per_cent

SOURCE = (
    "Bands: Ponomareva and others 2023, How to DP-fy ML (doi 10.1613/jair.1.14649): strong up to 1, reasonable up to "
    f"10, no formal protection above. The middle one is cut at {STRONG:g} here, because a guess that is right in 98 of "
    "100 cases hardly protects a document from somebody who knows every other one."
)


@dataclass(frozen=True, slots=True)
class Band:
    """Epsilons above the band before, up to and including ``upto``."""

    name: str
    upto: float
    tone: str  #: colour class

    @property
    def means(self) -> str:
        """What it leaves of doubt, delta apart: how often a guess is right at most, and wrong at least."""
        if math.isinf(self.upto):
            return "a guess may be right always: the number is proven, and protects nobody"
        one_of = math.ceil(1 + math.exp(self.upto))
        return f"right in at most {per_cent(best_guess(self.upto, 0.0))}, wrong in at least one case of {one_of:,}"


BANDS = (
    Band("strong", 1.0, "good"),
    Band("moderate", STRONG, "good"),
    Band("weak", 10.0, "mid"),
    Band("next to none", math.inf, "bad"),
)


def band_of(epsilon: float) -> Band:
    """The band that an epsilon lies in; what is no number lies in the last."""
    return next((band for band in BANDS if epsilon <= band.upto), BANDS[-1])
